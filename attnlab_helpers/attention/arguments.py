"""What the arguments of an attention call mean, decided once for every implementation.

Shapes, dtypes and masks are checked here, before any kernel is launched. A mask, the causal
triangle and rows that may see no key at all come out as plain tensors.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import torch

from ..options import Causal, check_scale, plain_causal


class UnsupportedProblem(ValueError):
    """An implementation cannot compute this problem; the text says why and what to use instead."""


@dataclass(frozen=True)
class Arguments:
    """A checked call.

    q (batch, heads, q_len, head_dim); k, v (batch, kv_heads, kv_len, head_dim); scale: the
    factor on the scores; hidden: boolean, True = the query may not see the key, broadcastable
    to (batch, heads, q_len, kv_len), or None; bias: added to the scaled scores, or None;
    dead_rows: boolean, True = the query sees no key, with a last dimension of 1, or None.
    `hidden` and `bias` leave dead rows alone, so that their softmax stays finite; the rows are
    set to zero after it.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    scale: float
    hidden: torch.Tensor | None
    bias: torch.Tensor | None
    dead_rows: torch.Tensor | None

    @property
    def groups(self) -> int:
        """Query heads that share one key/value head; 1 is plain multi-head attention."""
        return self.q.shape[1] // self.k.shape[1] if self.k.shape[1] else 1


def check_tensors(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: Causal) -> None:
    """Raise ValueError or TypeError, with what is wrong and what to do, unless q, k, v fit."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} must be a torch tensor, not {type(tensor).__name__}.")
        if tensor.is_nested or tensor.layout != torch.strided:
            raise TypeError(f"{name} must be a dense tensor, such as x.to_dense() or x[0] gives.")
        if tensor.dim() != 4:
            missing = {2: "x[None, None]", 3: "x[None] or x[:, None]"}.get(tensor.dim())
            advice = f" Add the missing dimensions with {missing}." if missing else ""
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}, but attention takes "
                f"(batch, heads, length, head_dim).{advice}"
            )
        if not tensor.is_floating_point():
            raise TypeError(f"{name} has dtype {tensor.dtype}; attention needs floating point.")
    if not q.dtype == k.dtype == v.dtype:
        raise TypeError(f"q, k, v must have one dtype, not {q.dtype}, {k.dtype}, {v.dtype}.")
    if not q.device == k.device == v.device:
        raise ValueError(f"q, k, v must be on one device, not {q.device}, {k.device}, {v.device}.")
    if k.shape != v.shape:
        raise ValueError(
            f"k {tuple(k.shape)} and v {tuple(v.shape)} must have the same shape here."
        )
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise ValueError(
            f"q {tuple(q.shape)} and k {tuple(k.shape)} must agree in batch and head_dim."
        )
    heads, kv_heads = q.shape[1], k.shape[1]
    if heads != kv_heads and (kv_heads == 0 or heads % kv_heads):
        raise ValueError(
            f"{heads} query heads cannot be shared out over {kv_heads} key/value heads: "
            "the second number must divide the first."
        )
    plain_causal(causal)


def check_mask(mask: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> None:
    """Raise unless `mask` is boolean (True = take part) or a float bias of a fitting shape."""
    if not isinstance(mask, torch.Tensor):
        raise TypeError(f"mask must be a torch tensor, not {type(mask).__name__}.")
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise TypeError(
            f"mask has dtype {mask.dtype}. Use a boolean mask (True = the key takes part), "
            "mask.bool(), or a float bias that is added to the scores."
        )
    if mask.device != q.device:
        raise ValueError(f"mask is on {mask.device}, but q, k, v are on {q.device}.")
    scores = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    try:
        fits = torch.broadcast_shapes(mask.shape, scores) == torch.Size(scores)
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(
            f"mask of shape {tuple(mask.shape)} does not broadcast to the scores {scores}, "
            "which are (batch, heads, q_len, kv_len)."
        )
    if mask.is_floating_point() and _looks_boolean(mask):
        warnings.warn(
            "the float mask holds only 0 and 1. It is added to the scores and hides nothing; "
            "if 0 shall mean 'hidden', pass mask.bool().",
            stacklevel=4,
        )


def check(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: Causal = False,
    scale: float | None = None,
    mask: torch.Tensor | None = None,
) -> Arguments:
    """Check a call and work out what is hidden. A mask and `causal` combine: both must allow.

    A float mask is a bias of any floating dtype; it is rounded to q's. With a mask on a GPU
    this waits for the GPU once, to see whether a row is fully masked.
    """
    check_tensors(q, k, v, causal)
    causal = plain_causal(causal)
    if scale is None:
        scale = 1.0 / math.sqrt(q.shape[3]) if q.shape[3] else 1.0
    check_scale(scale)
    hidden = bias = None
    if causal:
        hidden = causal_triangle(q.shape[2], k.shape[2], causal, q.device)
    if mask is not None:
        check_mask(mask, q, k)
        if mask.dtype == torch.bool:
            hidden = ~mask if hidden is None else hidden | ~mask
        else:
            bias = mask.to(q.dtype)
    hidden, bias, dead_rows = _spare_dead_rows(hidden, bias, q.shape[2], k.shape[2], causal, mask)
    return Arguments(q, k, v, float(scale), hidden, bias, dead_rows)


def causal_triangle(
    q_len: int, kv_len: int, causal: Causal, device: torch.device | str
) -> torch.Tensor:
    """Boolean (q_len, kv_len), True where the key lies in the query's future."""
    offset = kv_len - q_len if causal == "lower_right" else 0
    everything = torch.ones(q_len, kv_len, dtype=torch.bool, device=device)
    return everything.triu(diagonal=1 + offset)


def _spare_dead_rows(
    hidden: torch.Tensor | None,
    bias: torch.Tensor | None,
    q_len: int,
    kv_len: int,
    causal: Causal,
    mask: torch.Tensor | None,
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    # softmax of a row of minus infinities is 0/0. Such rows are left unmasked before softmax and
    # set to zero after it: finite forward and backward, and no NaN that has to be filtered out.
    causal_only = mask is None
    if kv_len == 0 or (causal_only and not (causal == "lower_right" and q_len > kv_len)):
        return hidden, bias, None
    blocked = torch.zeros((), dtype=torch.bool) if hidden is None else hidden
    if bias is not None:
        blocked = blocked.to(bias.device) | (bias == float("-inf"))
    dead_rows = blocked.all(dim=-1, keepdim=True)
    if not bool(dead_rows.any()):
        return hidden, bias, None
    if hidden is not None:
        hidden = hidden & ~dead_rows
    if bias is not None:
        bias = bias.masked_fill(dead_rows, 0.0)
    return hidden, bias, dead_rows


def _looks_boolean(mask: torch.Tensor) -> bool:
    return bool(((mask == 0) | (mask == 1)).all()) and bool((mask == 1).any())
