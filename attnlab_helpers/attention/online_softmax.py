"""Attention tile by tile with the online softmax: one step a tile, to be read and stepped through.

The arithmetic of a step, and the papers that it comes from, are in `partials`. Here it is plain
PyTorch, written to be read; it is not fast.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch

from ..options import Causal, check_scale, plain_causal
from .arguments import check_tensors
from .partials import Partial, finish, finite, identity, merge, partial, rescale

__all__ = [
    "Partial",
    "Step",
    "finish",
    "identity",
    "merge",
    "partial",
    "rescale",
    "tiled_attention_steps",
    "tiled_attention_torch",
]

State = Literal["computed", "masked in part", "skipped"]


@dataclass(frozen=True, eq=False)
class Step:
    """One tile of the walk, and the running state after it.

    query_block, key_tile: which tile, from 0. queries, keys: the rows and columns it covers.
    state: "computed"; "masked in part" (the diagonal goes through it); "skipped" (no query of the
    block may see a key of it: nothing is read, nothing changes). scores (..., rows, keys): scaled,
    -inf where hidden. weights (..., rows, keys): exp(score - m). running: m, l and acc after the
    tile. rescale (..., rows): exp(m_before - m), what the older l and acc were multiplied with;
    1 where the maximum stayed, 0 where there was nothing before.
    """

    query_block: int
    key_tile: int
    queries: range
    keys: range
    state: State
    scores: torch.Tensor
    weights: torch.Tensor
    running: Partial
    rescale: torch.Tensor

    @property
    def m(self) -> torch.Tensor:
        """The running maximum, (..., rows)."""
        return self.running.m

    @property
    def l(self) -> torch.Tensor:  # noqa: E743 - the papers' name
        """The running normaliser, (..., rows)."""
        return self.running.l

    @property
    def acc(self) -> torch.Tensor:
        """The running sum of weighted values, (..., rows, head_dim)."""
        return self.running.acc


def tiled_attention_steps(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: Causal = False,
    scale: float | None = None,
    block_q: int,
    block_k: int,
) -> Iterator[Step]:
    """Walk over the score matrix as a kernel does: one `Step` after each tile.

    A block of block_q queries stays, tiles of block_k keys pass one after another, then the next
    block begins. q (length, head_dim), k and v (kv_len, head_dim), or with the same dimensions
    in front of each: (batch, heads, length, head_dim). Sums are in float32, or float64 for
    float64 inputs. causal as everywhere here: False, True or "lower_right".

    TypeError or ValueError, before the first step, for what does not fit.
    """
    check_tensors(*(x[None, None] if _dims(x) == 2 else x for x in (q, k, v)), causal)
    if q.shape[:-2] != k.shape[:-2]:
        raise ValueError(
            f"q {tuple(q.shape)} and k {tuple(k.shape)} must agree in all dimensions but the "
            "length: repeat k and v for the query heads that share them (repeat_interleave)."
        )
    check_scale(scale)
    if scale is None:
        scale = 1.0 / math.sqrt(q.shape[-1]) if q.shape[-1] else 1.0
    sizes = _block("block_q", block_q), _block("block_k", block_k)
    return _walk(q, k, v, plain_causal(causal), scale, *sizes)


def tiled_attention_torch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: Causal = False,
    scale: float | None = None,
    block_q: int = 64,
    block_k: int = 64,
) -> torch.Tensor:
    """Attention without the matrix of scores: (batch, heads, length, head_dim), q's dtype.

    q (batch, heads, length, head_dim), k and v (batch, kv_heads, kv_len, head_dim). The result
    is the same for every size of tile, up to rounding. Differentiable, though autograd keeps
    every tile for it. Errors as `tiled_attention_steps`.
    """
    check_tensors(q, k, v, causal)
    groups = q.shape[1] // k.shape[1] if k.shape[1] else 1
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    out = torch.zeros_like(q)
    last: dict[int, Step] = {}
    for step in tiled_attention_steps(
        q, k, v, causal=causal, scale=scale, block_q=block_q, block_k=block_k
    ):
        last[step.query_block] = step
    for step in last.values():
        out[..., step.queries.start : step.queries.stop, :] = finish(step.running).to(q.dtype)
    return out


def _walk(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: Causal,
    scale: float,
    block_q: int,
    block_k: int,
) -> Iterator[Step]:
    q_len, kv_len = q.shape[-2], k.shape[-2]
    dtype = torch.promote_types(q.dtype, torch.float32)
    ahead = kv_len - q_len if causal == "lower_right" else 0
    for block, start in enumerate(range(0, q_len, block_q)):
        queries = range(start, min(start + block_q, q_len))
        q_block = q[..., queries.start : queries.stop, :].to(dtype)
        before = identity(tuple(q_block.shape[:-1]), v.shape[-1], dtype=dtype, device=q.device)
        for tile, first in enumerate(range(0, kv_len, block_k)):
            keys = range(first, min(first + block_k, kv_len))
            if causal and keys.start > queries[-1] + ahead:  # above the diagonal
                nothing = before.l.new_zeros((*before.l.shape, len(keys)))
                hidden, ones = torch.full_like(nothing, float("-inf")), torch.ones_like(before.l)
                yield Step(block, tile, queries, keys, "skipped", hidden, nothing, before, ones)
                continue
            k_tile, v_tile = (x[..., keys.start : keys.stop, :].to(dtype) for x in (k, v))
            scores = q_block @ k_tile.transpose(-2, -1) * scale
            state: State = "computed"
            if causal and keys[-1] > queries.start + ahead:  # the diagonal goes through it
                state = "masked in part"
                positions = torch.tensor(queries, device=q.device) + ahead
                hidden = torch.tensor(keys, device=q.device) > positions[:, None]
                scores = scores.masked_fill(hidden, float("-inf"))
            after = merge(before, partial(scores, v_tile))
            weights = torch.exp(scores - finite(after.m)[..., None])
            factor = rescale(before.m, after.m)
            yield Step(block, tile, queries, keys, state, scores, weights, after, factor)
            before = after


def _dims(x: object) -> int:
    return x.dim() if isinstance(x, torch.Tensor) else 0


def _block(name: str, size: object) -> int:
    try:
        number = 0 if isinstance(size, bool) else operator.index(size)
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(f"{name} must be a whole number of 1 or more, not {size!r}.")
    return number
