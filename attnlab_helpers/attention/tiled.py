"""The series' first Triton kernel as an attention call: arguments checked, then launched."""

from __future__ import annotations

import math

import torch

from ..kernels.language import check_can_run, mode
from ..kernels.precision import for_interpreter
from ..kernels.tiled_attention import launch_tiled_attention
from ..kernels.tiles import check_block, check_tile, default_block
from ..options import Causal, check_scale, plain_causal
from ..triton_support import triton_refusal
from .arguments import UnsupportedProblem, check_mask, check_tensors

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
LARGEST_HEAD_DIM = 256


def tiled_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: Causal = False,
    scale: float | None = None,
    mask: torch.Tensor | None = None,
    block_q: int | None = None,
    block_k: int | None = None,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """softmax(scale * q k^T) v without a score matrix: `kernels.tiled_attention` on q, k, v.

    q (batch, heads, q_len, head_dim); k, v (batch, kv_heads, kv_len, head_dim), with any strides;
    the result has q's shape and dtype. causal: False, True (upper-left) or "lower_right". float32
    is computed in float32, without TF32. block_q, block_k: queries and keys of a tile, powers of
    two from 16 on; they change nothing but rounding and speed. None takes 64, and less where a
    tile would pass 16 KiB (`kernels.tiles.default_block`). return_lse: also return
    log(sum(exp(scale * q k^T))) over the visible keys of each query, natural logarithm, (batch,
    heads, q_len), float32. A query that sees no key has a result of zeros and -inf there.

    In Triton's interpreter bfloat16 is computed as float32 and rounded once, at the end.

    Raises TypeError or ValueError for arguments that fit no attention, UnsupportedProblem for
    what this kernel cannot do (float64, a mask, gradients, a head_dim above 256, tiles that are
    too large for the GPU), TritonMissing or KernelCannotRun where no kernel can run.
    """
    check_tensors(q, k, v, causal)
    causal = plain_causal(causal)
    check_scale(scale)
    for name, block in (("block_q", block_q), ("block_k", block_k)):
        check_block(name, block, q.shape[3])
    if mask is not None:
        check_mask(mask, q, k)  # a wrong mask is wrong everywhere, and no reason to go elsewhere
        raise _unsupported("it takes no mask")
    _check_supported(q, k, v)
    check_can_run()
    if mode() == "compiled":
        _check_card(q)
    if scale is None:
        scale = 1.0 / math.sqrt(q.shape[3]) if q.shape[3] else 1.0
    # Before bfloat16 becomes float32 in the interpreter: the tiles are the GPU's there, too.
    block_q = block_q or default_block(q.shape[3], q.dtype)
    block_k = block_k or default_block(q.shape[3], q.dtype)
    check_tile(block_q, block_k, q.shape[3])
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device) if return_lse else None
    queries, keys, values = for_interpreter(q.detach(), k.detach(), v.detach())
    out = torch.empty(q.shape, dtype=queries.dtype, device=q.device)
    try:
        launch_tiled_attention(
            queries,
            keys,
            values,
            out,
            lse,
            scale=float(scale),
            causal=causal,
            block_q=block_q,
            block_k=block_k,
        )
    except Exception as error:
        if type(error).__name__ != "OutOfResources":  # Triton's own, which is not imported here
            raise
        raise _unsupported(
            f"tiles of block_q={block_q} and block_k={block_k} rows with head_dim {q.shape[3]} do "
            f"not fit this GPU ({error}). Take smaller ones"
        ) from error
    out = out.to(q.dtype)
    return out if lse is None else (out, lse)


def _check_supported(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    if q.dtype not in DTYPES:
        raise _unsupported(f"it computes float16, bfloat16 and float32, not {q.dtype}")
    if q.shape[3] > LARGEST_HEAD_DIM:
        raise _unsupported(f"head_dim goes up to {LARGEST_HEAD_DIM}, and this is {q.shape[3]}")
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (q, k, v)):
        raise _unsupported(
            "it has no backward, and q, k or v wants a gradient: call it in torch.no_grad()"
        )


def _check_card(q: torch.Tensor) -> None:
    if not q.is_cuda:
        raise _unsupported(f"kernels run on the GPU here, and q is on {q.device}: use q.cuda()")
    refusal = triton_refusal(q.dtype, torch.cuda.get_device_capability(q.device))
    if refusal:
        raise _unsupported(refusal)


def _unsupported(why: str) -> UnsupportedProblem:
    return UnsupportedProblem(f"tiled_attention cannot compute this: {why}. sdpa_auto can.")
