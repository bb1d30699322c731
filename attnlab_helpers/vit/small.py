"""Our small model, as it was trained or as it was before, and what it says about a picture."""

from __future__ import annotations

import importlib.resources

import torch

from .colours import CELL, SMALL_CONFIG, check_shown, hide_colours, paint
from .model import ViT
from .multihead import Attention
from .pixels import check_picture

WEIGHTS = "weights/small_vit.pt"


def small_vit(*, trained: bool = True, seed: int = 0, attention: Attention = "naive") -> ViT:
    """The small vision transformer that ships with the package, ready to be looked at.

    14 x 14 patches of 16 pixels, no class token, width 128, six blocks of four heads; it guesses
    the colours of patches (see `colours`). Trained by `attnlab_helpers.vit.train`, on
    photographs among which the cat is not; NOTICE beside the weights names them. trained=False:
    the numbers it started from, or with another `seed` others. The global generator is left alone.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ViT(SMALL_CONFIG, attention=attention)
    if trained:
        with importlib.resources.files(__package__).joinpath(WEIGHTS).open("rb") as file:
            state = torch.load(file, map_location="cpu", weights_only=True)
        # On disk in half precision, to ship half the bytes.
        model.load_state_dict({name: values.float() for name, values in state.items()})
    return model.eval()


def recolour(model: ViT, image: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
    """The picture as the model sees its colours, (3, H, W), when only some patches show theirs.

    image (3, H, W), values 0 to 1; shown boolean (patches,), True = the colour is given. Both
    go to the model's device, and there the result is. TypeError or ValueError for what does not
    fit, or a model that does not guess colours.
    """
    config = model.config
    if config.readout != "patches" or config.outputs != 2 * (config.patch // CELL) ** 2:
        raise ValueError("this model does not guess the colours of patches: use small_vit().")
    pictures, some = _for_model(model, image, shown)
    with torch.no_grad():
        grey = hide_colours(pictures, some, patch=config.patch)
        return paint(pictures, model(grey, ~some), config.patch)[0]


def attention_weights(
    model: ViT, image: torch.Tensor, shown: torch.Tensor | None = None
) -> torch.Tensor:
    """All of the model's attention on one picture: (layers, heads, N, N), rows sum to one.

    image (3, H, W), values 0 to 1. shown: as in `recolour`; None shows all colours. N counts a
    class token if the model has one. It runs where the model is. TypeError or ValueError for
    what does not fit. A model that wants other values than 0 to 1 is asked by `with_weights`.
    """
    pictures, some = _for_model(model, image, shown)
    with torch.no_grad():
        if some is None:
            return model.with_weights(pictures)[1][0]
        grey = hide_colours(pictures, some, patch=model.config.patch)
        return model.with_weights(grey, ~some)[1][0]


def queries_keys_values(
    model: ViT, image: torch.Tensor, layer: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What one layer's heads work with on one picture: q, k, v, (heads, N, head_dim) each.

    image (3, H, W), values 0 to 1, all colours shown. layer: from 0, or negative from the end.
    ValueError for a layer that is not there or a picture that does not fit.
    """
    depth = len(model.blocks)
    if isinstance(layer, bool) or not isinstance(layer, int) or not -depth <= layer < depth:
        raise ValueError(f"layer={layer!r}: this model has layers 0 to {depth - 1}.")
    pictures, _ = _for_model(model, image, None)
    with torch.no_grad():
        x = model.tokens(pictures)
        for block in model.blocks[: layer % depth]:
            x = block(x)
        block = model.blocks[layer]
        q, k, v = block.attention.project(block.norm_attention(x))
    return q[0], k[0], v[0]


def _for_model(
    model: ViT, image: torch.Tensor, shown: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Checked, with a batch dimension, on the model's device and the picture in its dtype."""
    check_picture(image)
    weight = model.head.weight
    if shown is None:
        return image[None].to(weight), None
    check_shown(shown, (model.config.patches,))
    return image[None].to(weight), shown[None].to(weight.device)
