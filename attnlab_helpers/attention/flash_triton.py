"""FlashAttention written in Triton, forward and backward, as an attention call.

The kernels are in `kernels.flash_forward`, `flash_backward` and `flash_dq`, for Hopper in
`flash_hopper` and `flash_hopper_dq`. Triton is imported when the first call needs it. What was
measured on which GPU: benchmarks/NOTES.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from ..options import Causal, check_scale, plain_causal
from ..triton_support import triton_refusal
from .arguments import UnsupportedProblem, check_mask, check_tensors
from .implementation import Implementation

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
LARGEST_HEAD_DIM = 256
SMALLEST_SCALE = torch.finfo(torch.float32).tiny
Multiplication = Literal["ieee", "tf32"]


@dataclass(frozen=True)
class FlashCall:
    """A checked call: q (batch, heads, q_len, head_dim); k, v (batch, kv_heads, kv_len, head_dim).

    scale: of any sign. precision: how float32 is multiplied.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    scale: float
    causal: Causal
    precision: Multiplication


def flash_triton(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: Causal = False,
    scale: float | None = None,
    mask: torch.Tensor | None = None,
    precision: Multiplication = "ieee",
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """softmax(scale * q k^T) v without a score matrix, with gradients for q, k and v.

    q (batch, heads, q_len, head_dim); k, v (batch, kv_heads, kv_len, head_dim), each with its own
    strides, expanded ones included; float16, bfloat16 or float32; head_dim up to 256. The result
    has q's shape and dtype. causal: False, True (upper-left) or "lower_right". precision: how
    float32 is multiplied, "ieee" (exactly, slowly) or "tf32" (tensor cores, 10 bits of mantissa,
    rounded); the other dtypes are multiplied exactly and summed in float32. return_lse: also return
    log(sum(exp(scale * q k^T))) over the visible keys of each query, natural logarithm, (batch,
    heads, q_len), float32; it has no gradient. A query that sees no key has a result of zeros and
    -inf there. A hidden value leaves no trace unless it is infinite or NaN (0 x NaN is NaN);
    visible ones that are infinite may give NaN in other rows of their tile as well. Under autocast
    float32 is lowered as PyTorch's own attention does it. A scale below 1e-38 counts as zero.

    Memory besides inputs, results and gradients: one float32 a query forward, two more backward;
    with tf32 a rounded copy of each input while it is computed.
    Two runs give the same bits, forward and backward: no two programs write to one place. In
    Triton's interpreter bfloat16 is computed as float32 and rounded at the end. There is no
    second derivative (create_graph=True is refused). torch.compile and torch.func have not been
    made to go through it: call it outside of them.

    Raises TypeError or ValueError for arguments that fit no attention, UnsupportedProblem for
    what this kernel cannot do (float64, a mask, a head_dim above 256, a card without bfloat16),
    TritonMissing or KernelCannotRun where no kernel can run.
    """
    call = check_call(q, k, v, causal=causal, scale=scale, mask=mask, precision=precision)
    out, lse = attend(call)
    return (out, lse * math.log(2)) if return_lse else out


def check_call(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: Causal = False,
    scale: float | None = None,
    mask: torch.Tensor | None = None,
    precision: Multiplication = "ieee",
) -> FlashCall:
    """Check a call; the errors are those of `flash_triton`. Nothing is launched."""
    check_tensors(q, k, v, causal)
    check_scale(scale)
    if precision not in ("ieee", "tf32"):
        raise ValueError(f"precision={precision!r} is not one of 'ieee', 'tf32'.")
    if mask is not None:
        check_mask(mask, q, k)  # a wrong mask is wrong everywhere, and no reason to go elsewhere
        raise _unsupported("it takes no mask")
    if q.dtype not in DTYPES:
        raise _unsupported(f"it computes float16, bfloat16 and float32, not {q.dtype}")
    if q.shape[3] > LARGEST_HEAD_DIM:
        raise _unsupported(f"head_dim goes up to {LARGEST_HEAD_DIM}, and this is {q.shape[3]}")
    if q.is_meta:
        raise _unsupported("a meta tensor has no numbers")
    from ..kernels.card import card_of
    from ..kernels.language import check_can_run, mode  # imports triton

    check_can_run()
    if mode() == "compiled":
        if not q.is_cuda:
            raise _unsupported(f"kernels run on the GPU here, and q is on {q.device}: use q.cuda()")
        refusal = triton_refusal(q.dtype, card_of(q).capability)
        if refusal:
            raise _unsupported(refusal)
    if scale is None:
        scale = 1.0 / math.sqrt(q.shape[3]) if q.shape[3] else 1.0
    return FlashCall(q, k, v, float(scale), plain_causal(causal), precision)


def attend(call: FlashCall) -> tuple[torch.Tensor, torch.Tensor]:
    """(result, lse in powers of two) of a checked call; only the result has a gradient."""
    from .flash_autograd import FlashAttention  # imports triton

    q, k, v, scale = call.q, call.k, call.v, call.scale
    device = q.device.type
    if q.dtype == torch.float32 and torch.is_autocast_enabled(device):
        # As PyTorch's own attention does under autocast.
        lower = torch.get_autocast_dtype(device)
        q, k, v = (tensor.to(lower) for tensor in (q, k, v))
    if scale < 0:
        # The kernels take the largest score before they scale. Changing a sign is exact.
        q, scale = -q, -scale
    if scale < SMALLEST_SCALE:
        # Hidden scores are -inf before they are scaled, and -inf x 0 is no number.
        q, scale = q * 0.0, 1.0
    precision = call.precision if q.dtype == torch.float32 else "ieee"
    return FlashAttention.apply(q, k, v, scale, call.causal, precision)


def compute(call: FlashCall) -> torch.Tensor:
    """The result alone."""
    return attend(call)[0]


def _unsupported(why: str) -> UnsupportedProblem:
    return UnsupportedProblem(f"flash_triton cannot compute this: {why}. sdpa_auto can.")


FLASH_TRITON = Implementation(
    "flash_triton", "FlashAttention in Triton, as this package teaches it", compute, check_call
)
