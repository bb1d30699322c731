"""Attention weights as shares: checked, and read for one patch in either direction."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch

from .whole import whole

Looks = Literal["out", "in"]
# How far a row's sum may lie from one; bfloat16 rounds more coarsely than that.
SUM_SLACK = 1e-3


def check_weights(
    weights: torch.Tensor, grid: tuple[int, int], ahead: tuple[str, ...] | None = None
) -> None:
    """Raise unless `weights` has (..., N, N) with N patches in `grid`.

    ahead: the names of the axes before these two, None for any. TypeError for no tensor.
    """
    if not isinstance(weights, torch.Tensor):
        advice = " torch.from_numpy(weights) makes one." * (type(weights).__name__ == "ndarray")
        raise TypeError(f"weights must be a torch tensor, not {type(weights).__name__}.{advice}")
    patches = grid[0] * grid[1]
    square = weights.shape[-2:] == (patches, patches)
    if square and (ahead is None or weights.dim() == len(ahead) + 2) and weights.numel():
        return
    hint = ""
    if weights.dim() >= 2 and weights.shape[-1] == patches + 1:
        hint = " One row too many is a class token: take it out with vit.without_class_token."
    names = ("...",) if ahead is None else ahead
    wanted = ", ".join([*names, str(patches), str(patches)])
    raise ValueError(
        f"weights has shape {tuple(weights.shape)}, but a picture of {grid[0]} x {grid[1]} patches "
        f"needs ({wanted}).{hint}"
    )


def check_shares(weights: torch.Tensor) -> None:
    """Raise ValueError unless weights (..., N, N) are shares.

    Shares are finite, not negative, and sum to one in every row, within 0.001.
    """
    if not weights.is_floating_point():
        raise TypeError(f"weights has dtype {weights.dtype}; shares need floating point.")
    weights = weights.detach()
    what = "softmax(scores, dim=-1) makes shares of scores."
    if not bool(torch.isfinite(weights).all()):
        raise ValueError(f"weights holds numbers that are not finite. {what}")
    if float(weights.min()) < 0:
        raise ValueError(
            f"weights holds {float(weights.min()):.3g}; shares are never below 0. {what}"
        )
    sums = weights.double().sum(dim=-1)
    slack = max(SUM_SLACK, torch.finfo(weights.dtype).eps)
    far = (sums - 1).abs().max()
    if float(far) > slack:
        wrong = float(sums.flatten()[(sums - 1).abs().argmax()])
        raise ValueError(
            f"a row of weights sums to {wrong:.4g}, but shares of attention sum to 1. Divide each "
            "row by its sum, or take the softmax of the scores."
        )


def place(query: tuple[int, int], grid: tuple[int, int]) -> tuple[int, int]:
    """The patch's (row, column) as ints; ValueError unless it is two whole numbers in `grid`."""
    both = None
    if not isinstance(query, str):
        try:
            both = [whole(one) for one in query]
        except TypeError:
            both = None
    if both is None or len(both) != 2 or None in both:
        raise ValueError(f"query must be two whole numbers, (row, column), not {query!r}.")
    row, column = both
    if not (0 <= row < grid[0] and 0 <= column < grid[1]):
        raise ValueError(
            f"query {(row, column)} lies outside: rows go from 0 to {grid[0] - 1}, columns to "
            f"{grid[1] - 1}."
        )
    return row, column


def weights_of(
    weights: torch.Tensor, query: tuple[int, int], grid: tuple[int, int], looks: Looks = "out"
) -> np.ndarray:
    """One patch's weights out of (N, N), float64 (N,).

    looks: "out" for what the patch gives to each (its row), "in" for what each gives to it (its
    column). ValueError for another word.
    """
    if looks not in ("out", "in"):
        raise ValueError(f"looks={looks!r} is not one of 'out', 'in'.")
    row, column = query
    index = row * grid[1] + column
    chosen = weights[index] if looks == "out" else weights[:, index]
    return chosen.detach().double().cpu().numpy()
