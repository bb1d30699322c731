"""Attention tile by tile in Triton: online softmax, and no score matrix. Written to be read.

One program computes one block of queries of one head. It walks over the keys and values in tiles
and keeps, for each of its rows, three things: the largest score so far (m), the sum of the powers
so far (l), and the weighted sum of values so far (acc). When a tile brings a larger score, l and
acc are rescaled. Algorithm: FlashAttention-2 (arXiv 2307.08691, algorithm 1); online softmax:
Milakov and Gimelshein (arXiv 1805.02867, section 3). It is clear and not fast.
"""

from __future__ import annotations

import torch

from ..options import Causal
from .language import check_can_run, tl, triton, where_it_runs
from .tiles import default_block, padded

NUM_WARPS = 4
NUM_STAGES = 2  # keys and values are fetched at most one tile ahead: see tiles.TILE_BYTES


@triton.jit
def tile_of(start, rows, columns, row_stride, column_stride):
    """Addresses of a tile. 64 bit: row x stride passes 2^31 in a tensor of 4 GB."""
    down = rows[:, None].to(tl.int64) * row_stride
    return start + down + columns[None, :].to(tl.int64) * column_stride


# Compiled once for all lengths; Triton would make one more for 1, and one for multiples of 16.
@triton.jit(do_not_specialize=["q_len", "kv_len", "q_blocks", "offset"])
def tiled_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr,
    q_batch, q_head, q_row, q_column,  # strides, in elements
    k_batch, k_head, k_row, k_column,
    v_batch, v_head, v_row, v_column,
    out_batch, out_head, out_row, out_column,
    heads, heads_per_kv_head, q_len, kv_len, q_blocks,
    scale,
    offset,  # query i stands at the place of key i + offset
    CAUSAL: tl.constexpr, STORE_LSE: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """One block of queries against every tile of keys that it may see."""
    program = tl.program_id(0)
    first_query = (program % q_blocks) * BLOCK_Q
    batch_and_head = (program // q_blocks).to(tl.int64)
    batch, head = batch_and_head // heads, batch_and_head % heads
    kv_head = head // heads_per_kv_head

    queries = first_query + tl.arange(0, BLOCK_Q)
    columns = tl.arange(0, BLOCK_D)  # head_dim, filled up to a power of two with zeros
    in_q = (queries[:, None] < q_len) & (columns[None, :] < HEAD_DIM)
    q_start = q_ptr + batch * q_batch + head * q_head
    k_start = k_ptr + batch * k_batch + kv_head * k_head
    v_start = v_ptr + batch * v_batch + kv_head * v_head
    q = tl.load(tile_of(q_start, queries, columns, q_row, q_column), mask=in_q, other=0.0)

    m = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    l = tl.zeros([BLOCK_Q], tl.float32)  # noqa: E741 (the papers' name)
    acc = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)

    end = kv_len
    if CAUSAL:  # tiles that lie wholly in the future of the last query are not visited
        stop_query = tl.minimum(first_query + BLOCK_Q, q_len)  # the last block may be partial
        end = tl.minimum(kv_len, stop_query + offset)
    for first_key in range(0, end, BLOCK_K):
        keys = first_key + tl.arange(0, BLOCK_K)
        in_kv = (keys[:, None] < kv_len) & (columns[None, :] < HEAD_DIM)
        k = tl.load(tile_of(k_start, keys, columns, k_row, k_column), mask=in_kv, other=0.0)
        v = tl.load(tile_of(v_start, keys, columns, v_row, v_column), mask=in_kv, other=0.0)

        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        visible = keys[None, :] < kv_len
        if CAUSAL:
            visible = visible & (keys[None, :] <= queries[:, None] + offset)
        scores = tl.where(visible, scores, float("-inf"))

        m_new = tl.maximum(m, tl.max(scores, axis=1))
        # A row that has seen no key yet has m_new = -inf, and -inf - (-inf) is no number.
        shift = tl.where(m_new == float("-inf"), 0.0, m_new)
        rescale = tl.exp(m - shift)
        weights = tl.exp(scores - shift[:, None])
        l = l * rescale + tl.sum(weights, axis=1)  # noqa: E741
        acc = acc * rescale[:, None]
        acc += tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        m = m_new

    seen = l > 0  # false for a row that may see no key: its result is zero
    divisor = tl.where(seen, l, 1.0)
    out = acc / divisor[:, None]
    out_start = out_ptr + batch * out_batch + head * out_head
    out_tile = tile_of(out_start, queries, columns, out_row, out_column)
    tl.store(out_tile, out.to(out_ptr.dtype.element_ty), mask=in_q)
    if STORE_LSE:
        lse = tl.where(seen, m + tl.log(divisor), float("-inf"))
        tl.store(lse_ptr + batch_and_head * q_len + queries, lse, mask=queries < q_len)


def launch_tiled_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor | None = None,
    *,
    scale: float,
    causal: Causal = False,
    block_q: int | None = None,
    block_k: int | None = None,
) -> None:
    """Run the kernel on tensors that fit (`attention.tiled.tiled_attention` checks them).

    q, out (batch, heads, q_len, head_dim); k, v (batch, kv_heads, kv_len, head_dim), any strides;
    lse: (batch, heads, q_len), float32, contiguous, or None. Writes out and lse; out may have
    another dtype than q. block_q, block_k: as `tiles.check_tile`; None is `default_block`. No
    bfloat16 in the interpreter. Raises TritonMissing or KernelCannotRun where no kernel can run.
    """
    check_can_run()
    batch, heads, q_len, head_dim = q.shape
    kv_heads, kv_len = k.shape[1:3]
    block_q = block_q or default_block(head_dim, q.dtype)
    block_k = block_k or default_block(head_dim, q.dtype)
    q_blocks = triton.cdiv(q_len, block_q)
    programs = batch * heads * q_blocks
    if programs == 0:
        return
    with where_it_runs(q):
        tiled_attention_kernel[(programs,)](
            q, k, v, out, out if lse is None else lse,
            *q.stride(), *k.stride(), *v.stride(), *out.stride(),
            heads, heads // max(kv_heads, 1), q_len, kv_len, q_blocks,
            scale, kv_len - q_len if causal == "lower_right" else 0,
            CAUSAL=bool(causal), STORE_LSE=lse is not None, HEAD_DIM=head_dim,
            BLOCK_Q=block_q, BLOCK_K=block_k, BLOCK_D=padded(head_dim),
            num_warps=NUM_WARPS, num_stages=NUM_STAGES,
        )  # fmt: skip
