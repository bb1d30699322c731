"""Launching the kernels for Hopper, where card, Triton and tensors are what they are made for."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch

from ..options import Causal
from .card import card_of
from .flash_configurations import Configuration, HopperKernel, listed
from .flash_launch import LOG2_E, fits_descriptor, heads_at_once, offset_of, strides_of
from .language import mode, triton_version
from .launching import TRITON_BELOW, Launch, launch
from .tiles import how_many, padded

# Gluon's interface changes. The kernels have run with 3.6, and been compiled for 9.0 with 3.6 to
# 3.9: where they have not run, `flash_hopper_check` compares them with the others first.
TRITON_FROM = (3, 6)
TRITON_TESTED = ((3, 6),)
CAPABILITY = (9, 0)
BLOCK_Q, GROUP_Q = 128, 64  # as in `flash_hopper_blocks`, which not every machine can import
BLOCKS_D = (64, 128)
DTYPES = (torch.float16, torch.bfloat16)


def suits(*tensors: torch.Tensor) -> bool:
    """Whether the kernels for Hopper can compute with these; (batch, heads, length, head_dim)."""
    first = tensors[0]
    return (
        mode() == "compiled"
        and first.is_cuda
        and first.dtype in DTYPES
        and padded(first.shape[3]) in BLOCKS_D
        and card_of(first).capability == CAPABILITY
        and TRITON_FROM <= triton_version() < TRITON_BELOW
        and all(map(fits_descriptor, tensors))
    )


def configuration_for(
    kernel: HopperKernel, causal: Causal, q: torch.Tensor, k: torch.Tensor, *others: torch.Tensor
) -> Configuration | None:
    """The table's configuration for this kernel, or None if the one for all cards is to be taken.

    That one does better where there is not a block of 128 queries for each SM (two where they are
    causal and go in pairs), because its blocks are smaller, and where the table has no entry.
    others: what else the kernel reads and writes. With a version of Triton that the kernels for
    Hopper have not run with, None as well unless they give the same there.
    """
    if not suits(q, k, *others):
        return None
    batch, heads, q_len, head_dim = q.shape
    if how_many(q_len, BLOCK_Q) * batch * heads < card_of(q).sms * blocks_at_once(causal):
        return None
    block_d = padded(head_dim)
    found = listed(kernel, block_d=block_d, length=k.shape[2], capability=CAPABILITY)
    if found is None or triton_version() in TRITON_TESTED:
        return found
    if torch.cuda.is_current_stream_capturing():
        return None  # comparing waits for the GPU, and a graph that is being captured cannot
    from .flash_hopper_check import agrees  # which launches by this file

    return found if agrees(kernel, found, block_d, q.dtype, q.device) else None


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
) -> Launch:
    """Write out and lse, as `flash_launch.launch_forward`, of tensors that `suits` accepts."""
    block_d, rows = padded(q.shape[3]), configuration.block_k
    programs, sizes = _programs_and_sizes(q, k, causal)
    return launch(
        _kernel("flash_hopper"), programs,
        _descriptor(q, GROUP_Q, block_d), _descriptor(k, rows, block_d),
        _descriptor(v, rows, block_d), _descriptor(out, GROUP_Q, block_d), lse,
        *sizes, scale * LOG2_E, offset_of(q.shape[2], k.shape[2], causal),
        CAUSAL=bool(causal), BLOCK_K=rows, BLOCK_D=block_d, STAGES=configuration.num_stages,
        num_warps=configuration.num_warps,
    )  # fmt: skip


def launch_hopper_dq(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    do: torch.Tensor,
    delta: torch.Tensor,
    shift: torch.Tensor,
    dq: torch.Tensor,
    configuration: Configuration,
    *,
    scale: float,
    causal: Causal,
) -> Launch:
    """Write dq, as `flash_launch.launch_dq`, of tensors that `suits` accepts."""
    block_d, rows = padded(q.shape[3]), configuration.block_k
    programs, sizes = _programs_and_sizes(q, k, causal)
    return launch(
        _kernel("flash_hopper_dq"), programs,
        _descriptor(q, GROUP_Q, block_d), _descriptor(k, rows, block_d),
        _descriptor(v, rows, block_d), _descriptor(do, GROUP_Q, block_d),
        _descriptor(dq, GROUP_Q, block_d), shift, delta,
        *sizes, delta.shape[1], scale, scale * LOG2_E,
        offset_of(q.shape[2], k.shape[2], causal),
        CAUSAL=bool(causal), BLOCK_K=rows, BLOCK_D=block_d, STAGES=configuration.num_stages,
        AHEAD=2 if block_d == 64 else 1, num_warps=configuration.num_warps,
    )  # fmt: skip


def blocks_at_once(causal: Causal) -> int:
    """Blocks of queries that a program takes together: causal ones in pairs, a long and a short."""
    return 2 if causal else 1


def _programs_and_sizes(
    q: torch.Tensor, k: torch.Tensor, causal: Causal
) -> tuple[int, tuple[int, ...]]:
    """The number of programs, and the kernels' arguments from all_blocks to q_blocks."""
    batch, heads, q_len, _ = q.shape
    kv_heads, kv_len = k.shape[1:3]
    q_blocks = how_many(q_len, BLOCK_Q)
    all_blocks = q_blocks * batch * heads
    # One program runs on an SM at a time and takes block after block.
    programs = min(card_of(q).sms, how_many(all_blocks, blocks_at_once(causal)))
    return programs, (
        all_blocks, heads, batch * heads, heads // kv_heads, heads_at_once(k, batch * heads),
        q_len, kv_len, q_blocks,
    )  # fmt: skip


@functools.lru_cache(maxsize=2)
def _kernel(file: str) -> Any:
    return getattr(importlib.import_module(f"{__package__}.{file}"), f"{file}_kernel")


@functools.lru_cache(maxsize=16)
def _layout(rows: int, block_d: int, dtype: torch.dtype) -> Any:
    gl = importlib.import_module("triton.experimental.gluon.language")
    number = gl.bfloat16 if dtype == torch.bfloat16 else gl.float16
    return gl.NVMMASharedLayout.get_default_for([1, 1, rows, block_d], number)


def _descriptor(tensor: torch.Tensor, rows: int, block_d: int) -> Any:
    """Tiles of `rows` rows of a head, laid out in shared memory as the tensor cores read them."""
    layout = _layout(rows, block_d, tensor.dtype)
    return _descriptor_class()(
        tensor, list(tensor.shape), strides_of(tensor), [1, 1, rows, block_d], layout
    )


@functools.lru_cache(maxsize=1)
def _descriptor_class() -> Any:
    return importlib.import_module("triton.experimental.gluon.nvidia.hopper").TensorDescriptor
