"""Rows of the attention matrix under a fused kernel, rebuilt from q, k and the log-sum-exp."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..options import Causal, check_scale, plain_causal
from .arguments import check_tensors


def attention_rows(
    q: torch.Tensor,
    k: torch.Tensor,
    lse: torch.Tensor,
    rows: Sequence[int] | torch.Tensor | None = None,
    *,
    causal: Causal = False,
    scale: float | None = None,
) -> torch.Tensor:
    """Rows of softmax(scale * q k^T), of which a fused kernel has kept one number each.

    q (batch, heads, q_len, head_dim); k (batch, kv_heads, kv_len, head_dim); lse (batch, heads,
    q_len): log(sum(exp(scale * q k^T))) over the keys that each query sees, natural logarithm, as
    `flash_triton(..., return_lse=True)` gives it. rows: which queries, from 0, negative from the
    end; None is all of them. causal, scale: as in the call that gave lse. The result is (batch,
    heads, rows, kv_len), float32, or float64 for such q, and costs rows x kv_len x head_dim.

    A row is exp(scale * q_i k_j - lse_i) and nothing is normalised here: it sums to one only if
    lse belongs to this q, k, scale and mask. Queries that see no key have zeros. This is how the
    backward pass of FlashAttention-2 (arXiv 2307.08691, algorithm 2) rebuilds its tiles.

    Raises TypeError or ValueError for what does not fit, IndexError for a row that is not there.
    """
    check_tensors(q, k, k, causal)
    check_scale(scale)
    _check_lse(lse, q)
    causal = plain_causal(causal)
    q_len, head_dim = q.shape[2:]
    kv_len = k.shape[2]
    if scale is None:
        scale = 1.0 / math.sqrt(head_dim) if head_dim else 1.0
    wanted = _row_numbers(rows, q_len, q.device)
    precise = torch.promote_types(q.dtype, torch.float32)
    keys = k.to(precise).repeat_interleave(q.shape[1] // max(k.shape[1], 1), dim=1)
    scores = q[:, :, wanted].to(precise) @ keys.mT * scale
    statistic = lse[:, :, wanted].to(precise)[..., None]
    sees_any = statistic != float("-inf")
    weights = torch.exp(scores - torch.where(sees_any, statistic, 0.0))
    visible = sees_any
    if causal:
        offset = kv_len - q_len if causal == "lower_right" else 0
        future = torch.arange(kv_len, device=q.device) > wanted[:, None] + offset
        visible = visible & ~future
    return torch.where(visible, weights, 0.0)


def _row_numbers(
    rows: Sequence[int] | torch.Tensor | None, q_len: int, device: torch.device
) -> torch.Tensor:
    """The rows from 0, as a tensor of whole numbers on the device."""
    if rows is None:
        return torch.arange(q_len, device=device)
    try:
        numbers = torch.as_tensor(rows, device=device)
    except (RuntimeError, ValueError) as error:  # a slice, a generator, a list of lists
        raise TypeError(
            f"rows must be a list of whole numbers, such as [0, 5], not {rows!r}."
        ) from error
    whole = not (numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool)
    if numbers.dim() != 1 or not (whole or not numbers.numel()):
        raise TypeError(f"rows must be a list of whole numbers, such as [0, 5], not {rows!r}.")
    numbers = numbers.long()
    outside = numbers[(numbers < -q_len) | (numbers >= q_len)]
    if outside.numel():
        raise IndexError(f"there is no row {int(outside[0])}: q has rows 0 to {q_len - 1}.")
    return torch.where(numbers < 0, numbers + q_len, numbers)


def _check_lse(lse: torch.Tensor, q: torch.Tensor) -> None:
    if not isinstance(lse, torch.Tensor):
        raise TypeError(f"lse must be a torch tensor, not {type(lse).__name__}.")
    if lse.shape != q.shape[:3]:
        raise ValueError(
            f"lse has shape {tuple(lse.shape)}, but q {tuple(q.shape)} has one number a query: "
            f"{tuple(q.shape[:3])} is wanted, as flash_triton(..., return_lse=True) gives it."
        )
    if not lse.is_floating_point() or lse.device != q.device:
        raise ValueError(
            f"lse must hold floating-point numbers on {q.device}, where q is, not {lse.dtype} on "
            f"{lse.device}."
        )
