"""The oracle: attention in float64, written for clarity, and never for speed."""

from __future__ import annotations

import math

import torch

from ..options import Causal
from .arguments import check_mask, check_tensors


def reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: Causal = False,
    scale: float | None = None,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """softmax(scale * q k^T + bias) v in float64, shape (batch, heads, q_len, head_dim).

    Feed it the same (already rounded) inputs as the implementation under test. Rows that may
    see no key are zero. It shares no masking code with the implementations, so that one
    mistake cannot hide the other. Differentiable.
    """
    check_tensors(q, k, v, causal)
    queries, keys, values = q.double(), k.double(), v.double()
    groups = q.shape[1] // k.shape[1] if k.shape[1] else 1
    keys = keys.repeat_interleave(groups, dim=1)
    values = values.repeat_interleave(groups, dim=1)
    q_len, kv_len = q.shape[2], k.shape[2]
    if scale is None:
        scale = 1.0 / math.sqrt(q.shape[3]) if q.shape[3] else 1.0

    scores = torch.einsum("bhid,bhjd->bhij", queries, keys) * scale
    allowed = torch.ones_like(scores, dtype=torch.bool)
    if causal:
        query_position = torch.arange(q_len, device=q.device)[:, None]
        if causal == "lower_right":
            query_position = query_position + (kv_len - q_len)
        key_position = torch.arange(kv_len, device=q.device)[None, :]
        allowed = allowed & (key_position <= query_position)
    if mask is not None:
        check_mask(mask, q, k)
        if mask.dtype == torch.bool:
            allowed = allowed & mask
        else:
            bias = mask.to(q.dtype).double()
            allowed = allowed & (bias != float("-inf"))
            scores = scores + torch.where(bias == float("-inf"), 0.0, bias)

    # torch.where on both sides: a hidden score, even infinite or NaN, leaves no trace in the
    # result or in a gradient.
    scores = torch.where(allowed, scores, torch.zeros_like(scores))
    lowest = torch.finfo(torch.float64).min
    if kv_len == 0:
        return torch.zeros_like(queries)
    highest = torch.where(allowed, scores, lowest).amax(dim=-1, keepdim=True)
    powers = torch.where(allowed, torch.exp(torch.where(allowed, scores - highest, 0.0)), 0.0)
    total = powers.sum(dim=-1, keepdim=True)
    weights = powers / torch.where(total == 0, 1.0, total)
    return torch.einsum("bhij,bhjd->bhid", weights, values)
