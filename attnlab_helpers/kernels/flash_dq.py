"""FlashAttention backward in Triton: dq by its own kernel, one block of queries over its keys.

The weights are computed here a second time: seven matrix products in the two backward kernels
instead of five. In return no two programs write to the same place, so that two runs give the same
bits. Formulas: `flash_backward`; FlashAttention-2 (arXiv 2307.08691, algorithm 2).
"""

from __future__ import annotations

from .flash_tiles import SIZES, factor, load_rows, place_in_grid, store_rows
from .language import tl, triton


@triton.jit
def add_keys(
    dq, q, do, limit, shift, delta, k_source, v_source, batch, kv_head, first, end, kv_len,
    scale_log2, k_batch, k_head, k_row, k_column, v_batch, v_head, v_row, v_column,
    HEAD_DIM: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
    MASKED: tl.constexpr, DESCRIPTORS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dq plus what the keys first..end bring, with a mask or without one."""
    for first_key in tl.range(first, end, BLOCK_K):
        k = load_rows(
            k_source, batch, kv_head, first_key, kv_len, k_batch, k_head, k_row, k_column,
            BLOCK_K, HEAD_DIM, BLOCK_D, DESCRIPTORS, MASKED,
        )  # fmt: skip
        scores = tl.dot(q, k.T, input_precision=PRECISION)
        powers = scores * scale_log2 - shift[:, None]
        if MASKED:
            keys = first_key + tl.arange(0, BLOCK_K)
            powers = tl.where(keys[None, :] <= limit[:, None], powers, float("-inf"))
        p = tl.exp2(powers)
        v = load_rows(
            v_source, batch, kv_head, first_key, kv_len, v_batch, v_head, v_row, v_column,
            BLOCK_K, HEAD_DIM, BLOCK_D, DESCRIPTORS, MASKED,
        )  # fmt: skip
        dp = tl.dot(do, v.T, input_precision=PRECISION)
        ds = factor(p * (dp - delta[:, None]), k.dtype, PRECISION)
        dq = tl.dot(ds, k, dq, input_precision=PRECISION)
    return dq


@triton.jit(do_not_specialize=SIZES)
def flash_dq_kernel(
    q_source, k_source, v_source, do_source, dq, shift, delta,
    q_batch, q_head, q_row, q_column,  # strides, in elements
    k_batch, k_head, k_row, k_column,
    v_batch, v_head, v_row, v_column,
    do_batch, do_head, do_row, do_column,
    dq_batch, dq_head, dq_row, dq_column,
    heads, all_heads, heads_per_kv_head, heads_at_once, q_len, kv_len, q_blocks, padded_len,
    scale, scale_log2,
    offset,  # query i stands at the place of key i + offset
    CAUSAL: tl.constexpr, DESCRIPTORS: tl.constexpr, PRECISION: tl.constexpr,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Writes dq of one block of queries."""
    block, all_head = place_in_grid(tl.program_id(0), q_blocks, heads_at_once, all_heads)
    if CAUSAL:  # the longest rows first
        block = q_blocks - 1 - block
    batch, head = all_head // heads, all_head % heads
    kv_head = head // heads_per_kv_head
    first_query = block * BLOCK_Q
    queries = first_query + tl.arange(0, BLOCK_Q)
    q = load_rows(
        q_source, batch, head, first_query, q_len, q_batch, q_head, q_row, q_column,
        BLOCK_Q, HEAD_DIM, BLOCK_D, DESCRIPTORS, True,
    )  # fmt: skip
    do = load_rows(
        do_source, batch, head, first_query, q_len, do_batch, do_head, do_row, do_column,
        BLOCK_Q, HEAD_DIM, BLOCK_D, DESCRIPTORS, True,
    )  # fmt: skip
    statistics = all_head.to(tl.int64) * padded_len + queries
    row_shift, row_delta = tl.load(shift + statistics), tl.load(delta + statistics)
    acc = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    limit = tl.zeros([BLOCK_Q], tl.int32) + (kv_len - 1)  # the last key that a query sees
    end, unmasked = kv_len, kv_len
    if CAUSAL:
        limit = tl.minimum(limit, queries + offset)
        end = tl.minimum(kv_len, first_query + BLOCK_Q + offset)
        unmasked = tl.maximum(tl.minimum(kv_len, first_query + 1 + offset), 0)
    unmasked = unmasked // BLOCK_K * BLOCK_K  # keys that all queries of the block see
    acc = add_keys(
        acc, q, do, limit, row_shift, row_delta, k_source, v_source, batch, kv_head,
        0, unmasked, kv_len, scale_log2,
        k_batch, k_head, k_row, k_column, v_batch, v_head, v_row, v_column,
        HEAD_DIM, BLOCK_K, BLOCK_D, False, DESCRIPTORS, PRECISION,
    )  # fmt: skip
    acc = add_keys(
        acc, q, do, limit, row_shift, row_delta, k_source, v_source, batch, kv_head,
        unmasked, end, kv_len, scale_log2,
        k_batch, k_head, k_row, k_column, v_batch, v_head, v_row, v_column,
        HEAD_DIM, BLOCK_K, BLOCK_D, True, DESCRIPTORS, PRECISION,
    )  # fmt: skip
    store_rows(
        dq, acc * scale, batch, head, first_query, q_len,
        dq_batch, dq_head, dq_row, dq_column, BLOCK_Q, HEAD_DIM, BLOCK_D,
    )  # fmt: skip
