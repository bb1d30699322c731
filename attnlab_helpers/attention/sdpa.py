"""PyTorch's scaled_dot_product_attention, its dispatcher free or pinned to one backend.

The package's arguments are translated into PyTorch's here. What a pinned backend cannot do is
refused with the reason that PyTorch itself gives (`refusals`), and the dispatcher's flags are
left as they were found.
"""

from __future__ import annotations

import contextlib
import functools
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.backends import cuda as cuda_backends
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..options import Causal
from ..quiet import hold_c_stderr
from .arguments import UnsupportedProblem, check, check_tensors
from .implementation import Implementation

# Name -> PyTorch's own question whether this backend takes a call, with its reasons as warnings.
FUSED = {
    "flash": cuda_backends.can_use_flash_attention,
    "efficient": cuda_backends.can_use_efficient_attention,
    "cudnn": cuda_backends.can_use_cudnn_attention,
}
# A warning that PyTorch writes to file descriptor 2 begins with time and place and ends with the
# C++ function; one that reaches Python ends with the place.
_WRITTEN = re.compile(r"^\[W\S* .*?\] Warning: (.*)$")
_WHERE = re.compile(r"\s*\((?:Triggered internally at .*?|function \w+)\)\s*$", re.DOTALL)


@dataclass(frozen=True)
class SdpaCall:
    """A call in PyTorch's own terms.

    q (batch, heads, q_len, head_dim); k, v (batch, kv_heads, kv_len, head_dim). mask: boolean
    with True = take part, or a bias in q's dtype, or None. is_causal: upper-left, never together
    with a mask. grouped: fewer heads in k and v. dead_rows: True = the query sees no key.
    q_factor: what q is multiplied by in each call (not here: a product that several backward
    passes share could be gone backwards through once only).
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    scale: float
    mask: torch.Tensor | None
    is_causal: bool
    grouped: bool
    dead_rows: torch.Tensor | None
    q_factor: float = 1.0

    def attend(self) -> torch.Tensor:
        """PyTorch's one line; shape and dtype of q.

        Rows without a key are zero on every backend: they attend to all keys and are cleared
        afterwards, in a kernel of its own that only such calls pay for.
        """
        out = F.scaled_dot_product_attention(
            self.q if self.q_factor == 1.0 else self.q * self.q_factor,
            self.k,
            self.v,
            attn_mask=self.mask,
            is_causal=self.is_causal,
            scale=self.scale,
            enable_gqa=self.grouped,
        )
        return out if self.dead_rows is None else out.masked_fill(self.dead_rows, 0.0)


def translate(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: Causal = False,
    scale: float | None = None,
    mask: torch.Tensor | None = None,
) -> SdpaCall:
    """Check a call and say it in PyTorch's terms.

    PyTorch's `is_causal` is upper-left and excludes a mask. So `causal` becomes `is_causal`
    where the two mean the same; "lower_right" with unequal lengths, and a mask together with
    `causal`, become one boolean mask or one bias.
    """
    check_tensors(q, k, v, causal)
    q_len, kv_len = q.shape[2], k.shape[2]
    if causal == "lower_right" and mask is None:
        if q_len == kv_len:  # the two alignments are one
            causal = True
        elif q_len == 1:  # decoding: the last query sees every key
            causal = False
    by_flag = bool(causal) and causal != "lower_right" and mask is None
    checked = check(q, k, v, causal=False if by_flag else causal, scale=scale, mask=mask)
    if checked.bias is None:
        attn_mask = None if checked.hidden is None else ~checked.hidden
    elif checked.hidden is None:
        attn_mask = checked.bias
    else:
        attn_mask = checked.bias.masked_fill(checked.hidden, float("-inf"))
    if attn_mask is not None and attn_mask.dim() < 2:  # PyTorch wants at least (q_len, kv_len)
        attn_mask = attn_mask.reshape((1,) * (2 - attn_mask.dim()) + attn_mask.shape)
    scale, q_factor = checked.scale, 1.0
    if scale <= 0:
        # Fused kernels take the maximum before they scale, which is wrong for a negative scale;
        # and a hidden score of minus infinity times 0 is NaN. So the scale goes into q.
        q_factor, scale = scale, 1.0
    grouped = checked.groups > 1
    return SdpaCall(q, k, v, scale, attn_mask, by_flag, grouped, checked.dead_rows, q_factor)


def refusals(call: SdpaCall, backend: str) -> list[str]:
    """PyTorch's own reasons why `backend` ("flash", "efficient", "cudnn") cannot take this call.

    Empty when it can. Needs no launch. On the CPU only flash exists as a fused kernel, under
    the same name and chosen by the same flag.
    """
    if call.q.device.type != "cuda":
        return _refusals_without_cuda(call, backend)
    params = cuda_backends.SDPAParams(
        call.q, call.k, call.v, call.mask, 0.0, call.is_causal, call.grouped
    )
    with _collected() as said, sdpa_kernel(_PINS[backend]):
        takes_it = FUSED[backend](params, True)
    return [] if takes_it else said or ["PyTorch refuses it and names no reason."]


def _refusals_without_cuda(call: SdpaCall, backend: str) -> list[str]:
    device = call.q.device.type
    if backend != "flash" or device != "cpu":
        return [f"There is no {backend} kernel for {device} tensors, only for CUDA."]
    chosen = SDPBackend.ERROR.value
    flash_only, no_viable = sdpa_kernel(_PINS["flash"]), contextlib.suppress(RuntimeError)
    with _collected() as said, flash_only, no_viable:
        chosen = torch._fused_sdp_choice(
            call.q,
            call.k,
            call.v,
            call.mask,
            0.0,
            call.is_causal,
            scale=call.scale,
            enable_gqa=call.grouped,
        )
    if chosen == SDPBackend.FLASH_ATTENTION.value:
        return []
    return said or ["PyTorch's flash kernel for the CPU does not take this call."]


@contextlib.contextmanager
def _collected() -> Iterator[list[str]]:
    """Reasons given inside the block: each once, without headline, place and kind of message.

    Asked through an operator, PyTorch warns in Python; asked through `can_use_...`, it writes
    to file descriptor 2. Both are listened to, and nothing is printed.
    """
    reasons: list[str] = []
    with warnings.catch_warnings(record=True) as caught, hold_c_stderr() as held:
        warnings.simplefilter("always")
        yield reasons
    written = [found[1] for line in held.lines if (found := _WRITTEN.search(line))]
    texts = [_WHERE.sub("", text).strip() for text in (*map(_text, caught), *written)]
    reasons += dict.fromkeys(text for text in texts if not text.endswith("because:"))


def _text(warning: warnings.WarningMessage) -> str:
    return str(warning.message)


def _translate_for(
    backend: str,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: Causal = False,
    scale: float | None = None,
    mask: torch.Tensor | None = None,
) -> SdpaCall:
    call = translate(q, k, v, causal=causal, scale=scale, mask=mask)
    reasons = refusals(call, backend)
    if reasons:
        raise UnsupportedProblem(
            f"SDPA's {backend} backend cannot compute this: {' '.join(reasons)} "
            "sdpa_auto takes the first backend that can; sdpa_math takes everything."
        )
    return call


def compute_auto(call: SdpaCall) -> torch.Tensor:
    """What everybody calls: PyTorch takes the first backend of its list that can."""
    return call.attend()


def compute_math(call: SdpaCall) -> torch.Tensor:
    """The formula in separate operators; float16 and bfloat16 are computed in float32."""
    with sdpa_kernel(SDPBackend.MATH):
        return call.attend()


def compute_flash(call: SdpaCall) -> torch.Tensor:
    """FlashAttention-2 on CUDA; PyTorch's own flash kernel on the CPU."""
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return call.attend()


def compute_efficient(call: SdpaCall) -> torch.Tensor:
    """The memory-efficient kernel from xFormers, made with CUTLASS."""
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        return call.attend()


def compute_cudnn(call: SdpaCall) -> torch.Tensor:
    """A kernel that cuDNN picks for the shape, or makes for it, at the first call."""
    try:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return call.attend()
    except RuntimeError as error:
        # Some calls pass PyTorch's filters and then find no plan in cuDNN; nothing was launched.
        if "execution plan" not in str(error) and "mha_graph" not in str(error):
            raise
        first = str(error).splitlines()[0]
        raise UnsupportedProblem(
            f"cuDNN has no plan for this call, although PyTorch let it through: {first}"
        ) from error


_PINS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}


def _pinned(
    backend: str, summary: str, compute: Callable[[SdpaCall], torch.Tensor]
) -> Implementation:
    check_for = functools.partial(_translate_for, backend)
    return Implementation(f"sdpa_{backend}", summary, compute, check_for)


SDPA_AUTO = Implementation(
    "sdpa_auto", "PyTorch's one call, the backend left to it", compute_auto, translate
)
SDPA_MATH = Implementation(
    "sdpa_math", "PyTorch's formula in separate operators", compute_math, translate
)
SDPA_FLASH = _pinned("flash", "FlashAttention-2 as it ships in PyTorch", compute_flash)
SDPA_EFFICIENT = _pinned("efficient", "the memory-efficient kernel", compute_efficient)
SDPA_CUDNN = _pinned("cudnn", "cuDNN's fused attention", compute_cudnn)
