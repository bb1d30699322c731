"""Where a vision transformer's parameters are: attention, MLP, embedding, the rest."""

from __future__ import annotations

import pandas as pd
import torch

from .model import VIT_B16_CONFIG, ViT, ViTConfig

PARTS = ("attention", "MLP", "embedding", "rest")


def parameter_table(model: ViT | ViTConfig = VIT_B16_CONFIG) -> pd.DataFrame:
    """One row a part: part, parameters, share (0 to 1), and the rows add up to the whole.

    embedding: patch projection, positions, class token and mark. rest: layer norms and the
    head. A config is counted without taking memory for its weights.
    """
    if isinstance(model, ViTConfig):
        with torch.device("meta"):
            model = ViT(model)
    if not isinstance(model, ViT):
        raise TypeError(f"model must be a ViT or a ViTConfig, not {type(model).__name__}.")
    counts = dict.fromkeys(PARTS, 0)
    for name, parameter in model.named_parameters():
        counts[_part(name)] += parameter.numel()
    table = pd.DataFrame({"part": list(counts), "parameters": list(counts.values())})
    return table.assign(share=table["parameters"] / table["parameters"].sum())


def _part(name: str) -> str:
    if ".attention." in name:
        return "attention"
    if ".mlp." in name:
        return "MLP"
    if name.split(".")[0] in ("embedding", "positions", "class_token", "mark"):
        return "embedding"
    return "rest"
