"""Launching FlashAttention's kernels on torch tensors: grids, strides, descriptors, scratch memory.

`attention.flash_triton` checks the tensors and chooses the configurations; here they are taken as
they come.
"""

from __future__ import annotations

import functools
import importlib
import math
from typing import Any

import torch

from ..options import Causal
from .card import card_of
from .flash_backward import flash_delta_kernel, flash_dkdv_kernel
from .flash_configurations import Configuration
from .flash_dq import flash_dq_kernel
from .flash_forward import flash_forward_kernel
from .language import mode
from .launching import Launch, launch
from .tiles import how_many, padded

LOG2_E = math.log2(math.e)
# Statistics of the backward pass are rounded up to whole tiles, so that loading them needs no mask.
STATISTICS_BLOCK = 128
DELTA_BLOCK = 64
# The keys and values of heads that are worked on together may take this share of the L2 cache.
L2_SHARE = 0.5


def launch_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    configuration: Configuration,
    *,
    scale: float,
    causal: Causal,
    precision: str,
) -> Launch:
    """Write out (q's shape) and lse in powers of two (batch, heads, q_len; float32, contiguous).

    q (batch, heads, q_len, head_dim); k, v (batch, kv_heads, kv_len, head_dim), any strides, no
    length 0. scale: positive. precision: tl.dot's for float32, "ieee" or "tf32".
    """
    batch, heads, q_len, head_dim = q.shape
    kv_heads, kv_len = k.shape[1:3]
    use = configuration.descriptors and all(map(fits_descriptor, (q, k, v)))
    block_d, blocks = padded(head_dim), how_many(q_len, configuration.block_q)
    return launch(
        flash_forward_kernel, blocks * batch * heads,
        source(q, configuration.block_q, use),
        source(k, configuration.block_k, use),
        source(v, configuration.block_k, use),
        out, lse, *q.stride(), *k.stride(), *v.stride(), *out.stride(),
        heads, batch * heads, heads // kv_heads, heads_at_once(k, batch * heads), q_len, kv_len,
        blocks, scale * LOG2_E, offset_of(q_len, kv_len, causal),
        CAUSAL=bool(causal), OVERLAP=configuration.overlap, DESCRIPTORS=use, PRECISION=precision,
        HEAD_DIM=head_dim, BLOCK_Q=configuration.block_q, BLOCK_K=configuration.block_k,
        BLOCK_D=block_d, num_warps=configuration.num_warps, num_stages=configuration.num_stages,
    )  # fmt: skip


def launch_delta(
    out: torch.Tensor,
    do: torch.Tensor,
    lse: torch.Tensor,
    delta: torch.Tensor,
    shift: torch.Tensor,
) -> Launch:
    """Write delta and shift, as `empty_statistics` makes them: see `flash_delta_kernel`."""
    batch, heads, q_len, head_dim = out.shape
    padded_len = delta.shape[1]
    blocks = padded_len // DELTA_BLOCK
    return launch(
        flash_delta_kernel, blocks * batch * heads,
        out, do, lse, delta, shift, *out.stride(), *do.stride(), heads, q_len, blocks, padded_len,
        HEAD_DIM=head_dim, BLOCK_Q=DELTA_BLOCK, BLOCK_D=padded(head_dim), num_warps=4,
    )  # fmt: skip


def empty_statistics(out: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Room for (delta, shift), each (batch x heads, q_len rounded up), float32."""
    batch, heads, q_len, _ = out.shape
    padded_len = how_many(q_len, STATISTICS_BLOCK) * STATISTICS_BLOCK
    delta = torch.empty(batch * heads, padded_len, dtype=torch.float32, device=out.device)
    return delta, torch.empty_like(delta)


def statistics(
    out: torch.Tensor, do: torch.Tensor, lse: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """(delta, shift), made and launched."""
    delta, shift = empty_statistics(out)
    launch_delta(out, do, lse, delta, shift)
    return delta, shift


def launch_dkdv(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    do: torch.Tensor,
    delta: torch.Tensor,
    shift: torch.Tensor,
    dk: torch.Tensor,
    dv: torch.Tensor,
    configuration: Configuration,
    *,
    scale: float,
    causal: Causal,
    precision: str,
) -> Launch:
    """Write dk and dv (k's shape)."""
    batch, heads, q_len, head_dim = q.shape
    kv_heads, kv_len = k.shape[1:3]
    use = configuration.descriptors and all(map(fits_descriptor, (q, k, v, do)))
    rows_too = use and configuration.block_q < 32 * configuration.num_warps
    blocks = how_many(kv_len, configuration.block_k)
    return launch(
        flash_dkdv_kernel, blocks * batch * kv_heads,
        source(q, configuration.block_q, use),
        source(k, configuration.block_k, use),
        source(v, configuration.block_k, use),
        source(do, configuration.block_q, use),
        dk, dv,
        statistics_source(shift, configuration.block_q, rows_too),
        statistics_source(delta, configuration.block_q, rows_too),
        *q.stride(), *k.stride(), *v.stride(), *do.stride(), *dk.stride(), *dv.stride(),
        kv_heads, batch * kv_heads, heads // kv_heads,
        heads_at_once(q, batch * kv_heads),
        q_len, kv_len, blocks, delta.shape[1], scale, scale * LOG2_E,
        offset_of(q_len, kv_len, causal),
        CAUSAL=bool(causal), DESCRIPTORS=use, ROW_DESCRIPTORS=rows_too, PRECISION=precision,
        HEAD_DIM=head_dim, BLOCK_Q=configuration.block_q, BLOCK_K=configuration.block_k,
        BLOCK_D=padded(head_dim), num_warps=configuration.num_warps,
        num_stages=configuration.num_stages,
    )  # fmt: skip


def launch_dq(
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
    precision: str,
) -> Launch:
    """Write dq (q's shape)."""
    batch, heads, q_len, head_dim = q.shape
    kv_heads, kv_len = k.shape[1:3]
    use = configuration.descriptors and all(map(fits_descriptor, (q, k, v, do)))
    blocks = how_many(q_len, configuration.block_q)
    return launch(
        flash_dq_kernel, blocks * batch * heads,
        source(q, configuration.block_q, use),
        source(k, configuration.block_k, use),
        source(v, configuration.block_k, use),
        source(do, configuration.block_q, use),
        dq, shift, delta,
        *q.stride(), *k.stride(), *v.stride(), *do.stride(), *dq.stride(),
        heads, batch * heads, heads // kv_heads, heads_at_once(k, batch * heads), q_len, kv_len,
        blocks, delta.shape[1], scale, scale * LOG2_E, offset_of(q_len, kv_len, causal),
        CAUSAL=bool(causal), DESCRIPTORS=use, PRECISION=precision, HEAD_DIM=head_dim,
        BLOCK_Q=configuration.block_q, BLOCK_K=configuration.block_k, BLOCK_D=padded(head_dim),
        num_warps=configuration.num_warps, num_stages=configuration.num_stages,
    )  # fmt: skip


def offset_of(q_len: int, kv_len: int, causal: Causal) -> int:
    """Query i stands at the place of key i + offset."""
    return kv_len - q_len if causal == "lower_right" else 0


def heads_at_once(streamed: torch.Tensor, programs: int) -> int:
    """How many heads to work on together, so that what they stream stays in the L2 cache.

    streamed: k (as large as v) or q (as large as do), (batch, heads, length, head_dim).
    """
    if not streamed.is_cuda:
        return 1
    length, head_dim = streamed.shape[2:]
    cache = card_of(streamed).l2_bytes
    of_one_head = 2 * length * head_dim * streamed.element_size()
    return max(1, min(programs, int(L2_SHARE * cache) // of_one_head))


def fits_descriptor(tensor: torch.Tensor) -> bool:
    """Whether the copy engine takes this tensor (CUDA driver API, cuTensorMapEncodeTiled).

    Numbers of a row side by side; address and all other strides multiples of 16 bytes; no
    dimension expanded. Only in compiled kernels.
    """
    if mode() != "compiled" or not tensor.is_cuda or tensor.data_ptr() % 16:
        return False
    sizes, strides = tensor.shape, tensor.stride()
    if tensor.is_contiguous() and sizes[3] * tensor.element_size() % 16 == 0:
        return True  # the usual case: then every stride is a multiple of a row
    if strides[3] != 1 and sizes[3] != 1:
        return False
    return all(
        size == 1 or (stride > 0 and stride * tensor.element_size() % 16 == 0)
        for size, stride in zip(sizes[:3], strides[:3], strict=True)
    )


def source(tensor: torch.Tensor, rows: int, descriptor: bool) -> Any:
    """What a kernel loads tiles of `rows` rows from: a descriptor, or the tensor itself."""
    if not descriptor:
        return tensor
    return _descriptor(tensor, strides_of(tensor), [1, 1, rows, padded(tensor.shape[3])])


def strides_of(tensor: torch.Tensor) -> list[int]:
    """The strides that a descriptor of this (batch, heads, length, head_dim) tensor is told."""
    strides = [
        # The stride of a single entry is never used, but must be a multiple of 16 bytes.
        stride if size != 1 else padded(tensor.shape[3])
        for size, stride in zip(tensor.shape[:3], tensor.stride()[:3], strict=True)
    ]
    return [*strides, 1]


def statistics_source(tensor: torch.Tensor, rows: int, descriptor: bool) -> Any:
    """The same for statistics, (batch x heads, length rounded up), `rows` of a head at a time."""
    return _descriptor(tensor, list(tensor.stride()), [1, rows]) if descriptor else tensor


def _descriptor(tensor: torch.Tensor, strides: list[int], block: list[int]) -> Any:
    return _descriptor_class()(tensor, list(tensor.shape), strides, block)


@functools.lru_cache(maxsize=1)
def _descriptor_class() -> Any:
    return importlib.import_module("triton.tools.tensor_descriptor").TensorDescriptor
