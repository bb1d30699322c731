"""The same five operations with the mask written into the scores, not into a copy of them."""

from __future__ import annotations

import torch

from .arguments import Arguments
from .implementation import Implementation
from .naive import grouped


def compute(arguments: Arguments) -> torch.Tensor:
    """As `naive`, but with `masked_fill_`: one character, one kernel less.

    Only a tensor made in this function is written to; q, k, v and the mask stay as they are.
    Gradients are right: the scale is a plain number, so multiplying by it saves nothing of its
    result for backward, and nobody misses the scores that are overwritten. (Softmax saves its
    result; filling that in place would make backward fail, so `dead_rows` is not in place.)
    """
    k, v = grouped(arguments)
    scores = arguments.q @ k.transpose(-2, -1)
    scores = scores * arguments.scale
    if arguments.bias is not None:
        scores += arguments.bias
    if arguments.hidden is not None:
        scores.masked_fill_(arguments.hidden, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    if arguments.dead_rows is not None:
        weights = weights.masked_fill(arguments.dead_rows, 0.0)
    return weights @ v


IN_PLACE = Implementation("in_place", "five operations, the mask filled in place", compute)
