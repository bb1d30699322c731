"""An experiment: forward attention with Triton's own warp specialisation, beside our kernel.

    python benchmarks/warp_specialised.py

`tl.range(..., warp_specialize=True)` makes one group of warps that loads and two that compute out
of a loop (Hopper, triton 3.6). It takes one loop in a kernel, so the mask is on every tile. If it
wins by far, the forward kernel should be rebuilt around it. Full tiles only, head dim 64 or 128.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from attnlab_helpers.attention import reference
from attnlab_helpers.attention.flash_triton import flash_triton
from attnlab_helpers.kernels.flash_launch import LOG2_E, heads_at_once, source
from attnlab_helpers.kernels.flash_tiles import place_in_grid, store_rows
from attnlab_helpers.kernels.language import tl, triton
from attnlab_helpers.machine import provenance
from attnlab_helpers.problem import AttentionProblem
from attnlab_helpers.profiling import time_call

# head dim -> (block_q, block_k, warps of a computing group, stages)
TILES = {
    64: [(128, 128, 4, 2), (128, 64, 4, 3)],
    128: [(128, 128, 4, 2), (128, 64, 4, 3)],
}
SHAPES = ((1024, True), (4096, True), (16_384, True), (8192, False))


@triton.jit
def one_loop_kernel(
    q_source, k_source, v_source, out,
    out_batch, out_head, out_row, out_column,
    heads, all_heads, heads_at_once, length, q_blocks, scale_log2,
    CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """As `flash_forward_kernel`, for lengths that are whole tiles; no lse."""
    block, batch_and_head = place_in_grid(tl.program_id(0), q_blocks, heads_at_once, all_heads)
    if CAUSAL:
        block = q_blocks - 1 - block
    batch, head = batch_and_head // heads, batch_and_head % heads
    first_query = block * BLOCK_Q
    queries = first_query + tl.arange(0, BLOCK_Q)
    q = tl.reshape(q_source.load([batch, head, first_query, 0]), [BLOCK_Q, BLOCK_D])
    m = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    l = tl.zeros([BLOCK_Q], tl.float32)  # noqa: E741
    acc = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    end = length
    if CAUSAL:
        end = first_query + BLOCK_Q
    for first_key in tl.range(0, end, BLOCK_K, warp_specialize=True):
        k = tl.reshape(k_source.load([batch, head, first_key, 0]), [BLOCK_K, BLOCK_D])
        scores = tl.dot(q, k.T)
        if CAUSAL:
            keys = first_key + tl.arange(0, BLOCK_K)
            scores = tl.where(keys[None, :] <= queries[:, None], scores, float("-inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1) * scale_log2)
        p = tl.exp2(scores * scale_log2 - m_new[:, None])
        alpha = tl.exp2(m - m_new)
        l = l * alpha + tl.sum(p, axis=1)  # noqa: E741
        acc = acc * alpha[:, None]
        v = tl.reshape(v_source.load([batch, head, first_key, 0]), [BLOCK_K, BLOCK_D])
        acc = tl.dot(p.to(v.dtype), v, acc)
        m = m_new
    store_rows(
        out, acc / l[:, None], batch, head, first_query, length,
        out_batch, out_head, out_row, out_column, BLOCK_Q, BLOCK_D, BLOCK_D,
    )  # fmt: skip


def specialised(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, tile: tuple[int, int, int, int]
) -> torch.Tensor:
    """Launch the experiment on tensors of equal lengths."""
    block_q, block_k, warps, stages = tile
    batch, heads, length, head_dim = q.shape
    blocks, out = length // block_q, torch.empty_like(q)
    one_loop_kernel[(batch * heads * blocks,)](
        source(q, block_q, True), source(k, block_k, True), source(v, block_k, True), out,
        *out.stride(), heads, batch * heads, heads_at_once(k, batch * heads), length, blocks,
        head_dim**-0.5 * LOG2_E, CAUSAL=causal, BLOCK_Q=block_q, BLOCK_K=block_k,
        BLOCK_D=head_dim, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out


def attempt(call: Callable[[], Any]) -> str:
    """What happened, in a few words; the compiler's failures are part of the experiment."""
    try:
        return str(call())
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:60]}"


def error_of(tile: tuple[int, int, int, int], head_dim: int, causal: bool) -> float:
    """Relative error against the float64 oracle."""
    q, k, v = AttentionProblem(2, 3, 512, head_dim, causal=causal).tensors("cuda")
    expected = reference(q, k, v, causal=causal)
    found = specialised(q, k, v, causal, tile).double()
    return round(((found - expected).norm() / expected.norm()).item(), 6)


def main() -> int:
    """Print errors and TFLOP/s; 2 without a Hopper GPU."""
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        print("This experiment is about Hopper (compute capability 9.0).")
        return 2
    print(provenance("cuda"))
    for head_dim, tiles in TILES.items():
        for tile in tiles:
            errors = [
                attempt(lambda c=c, t=tile, d=head_dim: error_of(t, d, c)) for c in (False, True)
            ]
            print(f"head dim {head_dim}, {tile}: relative errors full, causal: {errors}")
        for length, causal in SHAPES:
            problem = AttentionProblem(
                32_768 // length, 2048 // head_dim, length, head_dim, causal=causal
            )
            q, k, v = problem.tensors("cuda")
            calls = {"ours": lambda q=q, k=k, v=v, c=causal: flash_triton(q, k, v, causal=c)}
            for tile in tiles:
                calls[str(tile)] = lambda q=q, k=k, v=v, c=causal, t=tile: specialised(
                    q, k, v, c, t
                )
            speeds = {
                name: attempt(
                    lambda f=call, p=problem: round(
                        p.flops() / time_call(f, "cuda").median_ns / 1e3
                    )
                )
                for name, call in calls.items()
            }
            print(f"head dim {head_dim}, {length}, causal {causal}: TFLOP/s {speeds}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
