"""FlashAttention loaded through the `kernels` library: a compiled kernel from a hub, or a folder.

The library is optional and imported when the first call needs it. What is loaded runs on this
machine with your rights, so the source is fixed: one repository, one version. To run a kernel
of your own, name its folder in ATTNLAB_FLASH_KERNEL.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch

from ..options import Causal, check_scale
from .arguments import UnsupportedProblem, check_mask, check_tensors
from .implementation import Implementation

REPOSITORY = "kernels-community/flash-attn2"
VERSION = 2  # a branch of that repository; the library promises that its interface stays
INSTALL = 'python -m pip install "kernels>=0.17,<0.18"'
FOLDER_VARIABLE = "ATTNLAB_FLASH_KERNEL"


class KernelUnavailable(UnsupportedProblem):
    """The kernel could not be loaded; the text says why and what to do."""


@dataclass(frozen=True)
class HubCall:
    """A checked call in FlashAttention's own terms.

    q, k, v: (batch, length, heads, head_dim). causal: lower-right, as flash-attn has it from
    2.1 on. function: the kernel's `flash_attn_func`.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    scale: float
    causal: bool
    function: Callable[..., torch.Tensor]


def local_folder() -> Path | None:
    """The folder named in ATTNLAB_FLASH_KERNEL, or None."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else None


@functools.lru_cache(maxsize=8)
def load(folder: Path | None = None) -> ModuleType:
    """The module with `flash_attn_func`: from `folder`, or from the hub when it is None.

    folder: a kernel package as the library builds it (with metadata.json). Raises
    KernelUnavailable when the library is missing, the hub cannot be reached, nothing was built
    for this machine, or the module holds no `flash_attn_func`.
    """
    try:
        import kernels
    except ImportError as error:
        raise KernelUnavailable(
            f"hub_flash needs the package `kernels`, which is not installed. Install it with: "
            f"{INSTALL}"
        ) from error
    source = f"{REPOSITORY}, version {VERSION}" if folder is None else f"the folder {folder.name}"
    try:
        if folder is None:
            module = kernels.get_kernel(REPOSITORY, version=VERSION)
        else:
            module = kernels.get_local_kernel(folder)
    # Whatever goes wrong inside that library or the code it loads ends in the same advice.
    except Exception as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        advice = (
            "The first load needs the network; later ones use the library's cache. Without a "
            f"network, name a folder that holds a kernel in {FOLDER_VARIABLE}."
            if folder is None
            else "It must hold a variant that was built for this machine, and its metadata.json."
        )
        raise KernelUnavailable(
            f"the kernel from {source} cannot be loaded: {first}. {advice}"
        ) from error
    if not callable(getattr(module, "flash_attn_func", None)):
        raise KernelUnavailable(f"the kernel from {source} has no function flash_attn_func.")
    return module


def check_call(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: Causal = False,
    scale: float | None = None,
    mask: torch.Tensor | None = None,
) -> HubCall:
    """Check a call, turn the layout and the causal alignment into flash-attn's, load the kernel.

    From 2.1 on flash-attn is lower-right. Upper-left is the same for equal lengths, and with
    more keys than queries once the keys behind the last query are left out; with fewer keys it
    cannot be said in flash-attn's terms and is refused.
    """
    check_tensors(q, k, v, causal)
    check_scale(scale)
    q_len, kv_len = q.shape[2], k.shape[2]
    if mask is not None:
        check_mask(mask, q, k)  # a wrong mask is wrong everywhere, and no reason to go elsewhere
        raise _unsupported("it takes no mask")
    if q.dtype not in (torch.float16, torch.bfloat16):
        raise _unsupported(f"it computes float16 and bfloat16, not {q.dtype}")
    if q.shape[3] > 256 or 0 in (*q.shape, *k.shape):
        raise _unsupported(f"head_dim must be 1 to 256 and no length 0, not {tuple(q.shape)}")
    if causal and causal != "lower_right" and q_len != kv_len:
        if q_len > kv_len:
            raise _unsupported(
                "with fewer keys than queries its causal mask is lower-right, not upper-left"
            )
        k, v = k[:, :, :q_len], v[:, :, :q_len]
    folder = local_folder()
    if folder is None:
        _check_card(q)
    scale = q.shape[3] ** -0.5 if scale is None else scale
    if scale <= 0:
        # As for PyTorch's fused kernels: the maximum is taken before the scale.
        q, scale = q * scale, 1.0
    function = load(folder).flash_attn_func
    q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))
    return HubCall(q, k, v, scale, bool(causal), function)


def compute(call: HubCall) -> torch.Tensor:
    """One kernel; the result goes back to (batch, heads, length, head_dim) as a view."""
    out = call.function(call.q, call.k, call.v, softmax_scale=call.scale, causal=call.causal)
    return out.transpose(1, 2)


def _check_card(q: torch.Tensor) -> None:
    if q.device.type != "cuda":
        raise _unsupported(f"the kernel from the hub runs on CUDA only, not on {q.device.type}")
    capability = torch.cuda.get_device_capability(q.device)
    if capability < (8, 0):
        raise _unsupported(
            "it needs compute capability 8.0 (Ampere) or newer; this card has "
            f"{capability[0]}.{capability[1]}"
        )


def _unsupported(why: str) -> UnsupportedProblem:
    return UnsupportedProblem(f"hub_flash cannot compute this: {why}. sdpa_auto can.")


HUB_FLASH = Implementation(
    "hub_flash", "FlashAttention from the hub, through the library `kernels`", compute, check_call
)
