"""From a picture to attention: patches, positions, heads, and a small trained model."""

from .colours import SMALL_CONFIG, hide_colours, some_shown
from .growth import growth
from .heads import (
    attention_distance,
    head_table,
    patch_colours,
    rollout,
    unlikeness,
    without_class_token,
)
from .images import NotAnImage, cat, load_image
from .model import VIT_B16_CONFIG, Block, ViT, ViTConfig
from .multihead import MultiHeadAttention, torch_mask
from .parameters import parameter_table
from .patches import (
    PatchEmbedding,
    from_patches,
    patch_grid,
    to_patches,
    to_patches_by_convolution,
)
from .positions import sine_positions
from .pretrained import NoPretrainedWeights, from_timm, load_pretrained, normalise
from .small import attention_weights, queries_keys_values, recolour, small_vit

__all__ = [
    "SMALL_CONFIG",
    "VIT_B16_CONFIG",
    "Block",
    "MultiHeadAttention",
    "NoPretrainedWeights",
    "NotAnImage",
    "PatchEmbedding",
    "ViT",
    "ViTConfig",
    "attention_distance",
    "attention_weights",
    "cat",
    "from_patches",
    "from_timm",
    "growth",
    "head_table",
    "hide_colours",
    "load_image",
    "load_pretrained",
    "normalise",
    "parameter_table",
    "patch_colours",
    "patch_grid",
    "queries_keys_values",
    "recolour",
    "rollout",
    "sine_positions",
    "small_vit",
    "some_shown",
    "to_patches",
    "to_patches_by_convolution",
    "torch_mask",
    "unlikeness",
    "without_class_token",
]
