"""SDPA's backends: their names, PyTorch's order, and which one a profile shows at work."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.nn.attention import SDPBackend

from ..profiling import Trace, describe_kernel

FUSED = ("cudnn", "flash", "efficient")
BACKENDS = (*FUSED, "math")
# What `describe_kernel` calls the library of each fused backend's kernels.
LIBRARIES = {
    "cuDNN": "cudnn",
    "FlashAttention in PyTorch": "flash",
    "CUTLASS (xFormers) in PyTorch": "efficient",
}
_NAMES = {
    SDPBackend.CUDNN_ATTENTION.value: "cudnn",
    SDPBackend.FLASH_ATTENTION.value: "flash",
    SDPBackend.EFFICIENT_ATTENTION.value: "efficient",
    SDPBackend.MATH.value: "math",
}
# Operators of the CPU, which launches no kernel.
_CPU_OPERATORS = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": "flash",
    "aten::_scaled_dot_product_attention_math": "math",
}


def backend_of(kernel_names: Iterable[str]) -> str:
    """The backend whose kernels these are, told from their names: no fused kernel is "math".

    "none" without a kernel; several joined with "+", should one call ever run two.
    """
    names = set(kernel_names)
    if not names:
        return "none"
    libraries = {
        described.library
        for described in map(describe_kernel, names)
        if described.work == "attention"
    }
    found = [backend for library, backend in LIBRARIES.items() if library in libraries]
    return "+".join(found) or "math"


def backend_that_ran(trace: Trace) -> str:
    """The backend at work in a profile of SDPA calls, by its kernels; by operators on a CPU."""
    if not trace.kernels.empty:
        return backend_of(trace.kernels["name"])
    seen = set(trace.operators["name"])
    found = [backend for operator, backend in _CPU_OPERATORS.items() if operator in seen]
    return found[0] if found else "none"


def priority() -> tuple[str, ...]:
    """The order in which PyTorch asks the backends just now, the first one first.

    PyTorch settles it at the first call on a GPU: before that, and without one, it is the
    order that PyTorch is built with.
    """
    order = [_NAMES.get(number) for number in torch._C._get_sdp_priority_order()]
    return tuple(name for name in order if name is not None)
