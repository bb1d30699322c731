"""Launching `flash_hopper`, where card, Triton and tensors are what it was made for."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch

from ..options import Causal
from .flash_configurations import HOPPER, Configuration, listed
from .flash_launch import LOG2_E, fits_descriptor, heads_at_once, offset_of, strides_of
from .language import mode, triton
from .tiles import padded

# Gluon's interface changes. It has run with 3.6, and been compiled for 9.0 with 3.6 to 3.9.
TRITON_FROM, TRITON_BELOW = (3, 6), (3, 10)
CAPABILITY = (9, 0)
BLOCK_Q, GROUP_Q = 128, 64  # as in `flash_hopper`, which cannot be imported everywhere
BLOCKS_D = (64, 128)
DTYPES = (torch.float16, torch.bfloat16)


def suits(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor) -> bool:
    """Whether `launch_hopper` can compute this; shapes as there."""
    return (
        mode() == "compiled"
        and q.is_cuda
        and q.dtype in DTYPES
        and padded(q.shape[3]) in BLOCKS_D
        and torch.cuda.get_device_capability(q.device) == CAPABILITY
        and TRITON_FROM <= _version() < TRITON_BELOW
        and all(map(fits_descriptor, (q, k, v, out)))
    )


def configuration_for(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor
) -> Configuration | None:
    """The table's configuration for `launch_hopper`, or None if `launch_forward` does better.

    It does where there are fewer blocks of queries than SMs, since its own are smaller, and where
    the table has no entry.
    """
    if not suits(q, k, v, out):
        return None
    batch, heads, q_len, head_dim = q.shape
    properties = torch.cuda.get_device_properties(q.device)
    if triton.cdiv(q_len, BLOCK_Q) * batch * heads < properties.multi_processor_count:
        return None
    return listed(HOPPER, block_d=padded(head_dim), length=k.shape[2], capability=CAPABILITY)


def launch_hopper(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    configuration: Configuration,
    *,
    scale: float,
    causal: Causal,
) -> None:
    """Write out and lse, as `flash_launch.launch_forward`, of tensors that `suits` accepts."""
    batch, heads, q_len, head_dim = q.shape
    kv_heads, kv_len = k.shape[1:3]
    block_d, q_blocks = padded(head_dim), triton.cdiv(q_len, BLOCK_Q)
    all_blocks = q_blocks * batch * heads
    programs = torch.cuda.get_device_properties(q.device).multi_processor_count
    # Of causal blocks a program takes two, a long one and a short one.
    grid = min(programs, triton.cdiv(all_blocks, 2 if causal else 1))
    _kernel()[(grid,)](
        _descriptor(q, GROUP_Q, block_d),
        _descriptor(k, configuration.block_k, block_d),
        _descriptor(v, configuration.block_k, block_d),
        _descriptor(out, GROUP_Q, block_d),
        lse, all_blocks, heads, batch * heads, heads // kv_heads,
        heads_at_once(k, batch * heads), q_len, kv_len, q_blocks, scale * LOG2_E,
        offset_of(q_len, kv_len, causal),
        CAUSAL=bool(causal), BLOCK_K=configuration.block_k, BLOCK_D=block_d,
        STAGES=configuration.num_stages, num_warps=configuration.num_warps,
    )  # fmt: skip


@functools.lru_cache(maxsize=1)
def _version() -> tuple[int, ...]:
    return tuple(int(part) for part in triton.__version__.split(".")[:2])


@functools.lru_cache(maxsize=1)
def _kernel() -> Any:
    return importlib.import_module(f"{__package__}.flash_hopper").flash_hopper_kernel


@functools.lru_cache(maxsize=16)
def _layout(rows: int, block_d: int, dtype: torch.dtype) -> Any:
    gl = importlib.import_module("triton.experimental.gluon.language")
    number = gl.bfloat16 if dtype == torch.bfloat16 else gl.float16
    return gl.NVMMASharedLayout.get_default_for([1, 1, rows, block_d], number)


def _descriptor(tensor: torch.Tensor, rows: int, block_d: int) -> Any:
    """Tiles of `rows` rows of a head, laid out in shared memory as the tensor cores read them."""
    make = importlib.import_module("triton.experimental.gluon.nvidia.hopper").TensorDescriptor
    layout = _layout(rows, block_d, tensor.dtype)
    return make(tensor, list(tensor.shape), strides_of(tensor), [1, 1, rows, block_d], layout)
