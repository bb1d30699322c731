"""Attention as five operations, one after the other, as one would write it down."""

from __future__ import annotations

import torch

from .arguments import Arguments
from .implementation import Implementation


def grouped(arguments: Arguments) -> tuple[torch.Tensor, torch.Tensor]:
    """k and v with every head repeated for the query heads that share it."""
    if arguments.groups == 1:
        return arguments.k, arguments.v
    return (
        arguments.k.repeat_interleave(arguments.groups, dim=1),
        arguments.v.repeat_interleave(arguments.groups, dim=1),
    )


def compute(arguments: Arguments) -> torch.Tensor:
    """q k^T, scale, mask, softmax, times v. Each line makes a new tensor.

    The scores are in q's dtype. In float16 a product above 65,504 becomes infinite and its row
    NaN; bfloat16 and float32 reach further. A NaN in a hidden key is masked away; a NaN in a
    hidden value is not, because 0 x NaN is NaN.
    """
    k, v = grouped(arguments)
    scores = arguments.q @ k.transpose(-2, -1)
    scores = scores * arguments.scale
    if arguments.bias is not None:
        scores = scores + arguments.bias
    if arguments.hidden is not None:
        scores = scores.masked_fill(arguments.hidden, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    if arguments.dead_rows is not None:
        weights = weights.masked_fill(arguments.dead_rows, 0.0)
    return weights @ v


NAIVE = Implementation("naive", "five operations, the mask filled into a copy", compute)
