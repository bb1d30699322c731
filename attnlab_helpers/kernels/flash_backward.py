"""FlashAttention backward in Triton: dk and dv, and what both backward kernels need first.

The weights p are computed again, tile by tile, from the scores and lse. With o the output,
dv = p^T do, dp = do v^T, ds = p * (dp - delta) where delta = rowsum(do * o), dk = scale ds^T q,
and dq = scale ds k. One program keeps dk and dv of a block of keys and walks over the queries;
everything is computed transposed (keys down, queries across), so that p^T and ds^T are where the
next product wants its left side: in registers. Algorithm: FlashAttention-2 (arXiv 2307.08691,
algorithm 2), but dq has a kernel of its own (`flash_dq`): no two programs write to one place.
"""

from __future__ import annotations

from .flash_tiles import SIZES, factor, load_rows, load_statistics, place_in_grid, store_rows
from .language import tl, triton


@triton.jit(do_not_specialize=SIZES)
def flash_delta_kernel(
    out, dout, lse, delta, shift,
    out_batch, out_head, out_row, out_column,
    do_batch, do_head, do_row, do_column,
    heads, q_len, q_blocks, padded_len,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """delta = rowsum(do * o), and shift = lse as the backward kernels load it, of some queries.

    Both are (all heads, padded_len). Behind the last query, and for a query that sees no key,
    shift is +inf: its weights 2^(score - shift) are then zero without a mask.
    """
    program = tl.program_id(0)
    block, batch_and_head = program % q_blocks, program // q_blocks
    batch, head = batch_and_head // heads, batch_and_head % heads
    first_query = block * BLOCK_Q
    o = load_rows(
        out, batch, head, first_query, q_len, out_batch, out_head, out_row, out_column,
        BLOCK_Q, HEAD_DIM, BLOCK_D, False, True,
    )  # fmt: skip
    do = load_rows(
        dout, batch, head, first_query, q_len, do_batch, do_head, do_row, do_column,
        BLOCK_Q, HEAD_DIM, BLOCK_D, False, True,
    )  # fmt: skip
    queries = first_query + tl.arange(0, BLOCK_Q)
    place = batch_and_head.to(tl.int64) * q_len + queries
    statistic = tl.load(lse + place, mask=queries < q_len, other=float("-inf"))
    statistic = tl.where(statistic == float("-inf"), float("inf"), statistic)
    place = batch_and_head.to(tl.int64) * padded_len + queries
    tl.store(shift + place, statistic)
    tl.store(delta + place, tl.sum(o.to(tl.float32) * do.to(tl.float32), axis=1))


@triton.jit
def visit_queries(
    dk, dv, k, v, keys, q_source, do_source, shift, delta, batch, head, all_head,
    first, end, q_len, kv_len, padded_len, offset, scale_log2,
    q_batch, q_head, q_row, q_column, do_batch, do_head, do_row, do_column,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr, MASKED: tl.constexpr, DESCRIPTORS: tl.constexpr,
    ROW_DESCRIPTORS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Algorithm 2's inner loop over the queries first..end, with a mask or without one."""
    for first_query in tl.range(first, end, BLOCK_Q):
        q = load_rows(
            q_source, batch, head, first_query, q_len, q_batch, q_head, q_row, q_column,
            BLOCK_Q, HEAD_DIM, BLOCK_D, DESCRIPTORS, True,
        )  # fmt: skip
        queries = first_query + tl.arange(0, BLOCK_Q)
        scores = tl.dot(k, q.T, input_precision=PRECISION)
        its_shift = load_statistics(
            shift, all_head, first_query, padded_len, BLOCK_Q, ROW_DESCRIPTORS
        )
        powers = scores * scale_log2 - its_shift[None, :]
        if MASKED:
            limit = queries * 0 + (kv_len - 1)  # the last key that a query sees
            if CAUSAL:
                limit = tl.minimum(limit, queries + offset)
            powers = tl.where(keys[:, None] <= limit[None, :], powers, float("-inf"))
        p = tl.exp2(powers)
        do = load_rows(
            do_source, batch, head, first_query, q_len, do_batch, do_head, do_row, do_column,
            BLOCK_Q, HEAD_DIM, BLOCK_D, DESCRIPTORS, True,
        )  # fmt: skip
        dv = tl.dot(factor(p, do.dtype, PRECISION), do, dv, input_precision=PRECISION)
        dp = tl.dot(v, do.T, input_precision=PRECISION)
        its_delta = load_statistics(
            delta, all_head, first_query, padded_len, BLOCK_Q, ROW_DESCRIPTORS
        )
        ds = factor(p * (dp - its_delta[None, :]), q.dtype, PRECISION)
        dk = tl.dot(ds, q, dk, input_precision=PRECISION)
    return dk, dv


@triton.jit(do_not_specialize=SIZES)
def flash_dkdv_kernel(
    q_source, k_source, v_source, do_source, dk, dv, shift, delta,
    q_batch, q_head, q_row, q_column,  # strides, in elements
    k_batch, k_head, k_row, k_column,
    v_batch, v_head, v_row, v_column,
    do_batch, do_head, do_row, do_column,
    dk_batch, dk_head, dk_row, dk_column,
    dv_batch, dv_head, dv_row, dv_column,
    kv_heads, all_kv_heads, heads_per_kv_head, heads_at_once, q_len, kv_len, k_blocks, padded_len,
    scale, scale_log2,
    offset,  # query i stands at the place of key i + offset
    CAUSAL: tl.constexpr, DESCRIPTORS: tl.constexpr,
    ROW_DESCRIPTORS: tl.constexpr,  # for shift and delta
    PRECISION: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Writes dk and dv of one block of keys: all query heads that share it, all their queries."""
    block, all_kv_head = place_in_grid(tl.program_id(0), k_blocks, heads_at_once, all_kv_heads)
    batch, kv_head = all_kv_head // kv_heads, all_kv_head % kv_heads
    first_key = block * BLOCK_K
    keys = first_key + tl.arange(0, BLOCK_K)
    k = load_rows(
        k_source, batch, kv_head, first_key, kv_len, k_batch, k_head, k_row, k_column,
        BLOCK_K, HEAD_DIM, BLOCK_D, DESCRIPTORS, True,
    )  # fmt: skip
    v = load_rows(
        v_source, batch, kv_head, first_key, kv_len, v_batch, v_head, v_row, v_column,
        BLOCK_K, HEAD_DIM, BLOCK_D, DESCRIPTORS, True,
    )  # fmt: skip
    dk_acc = tl.zeros([BLOCK_K, BLOCK_D], tl.float32)
    dv_acc = tl.zeros([BLOCK_K, BLOCK_D], tl.float32)

    first, unmasked = kv_len * 0, kv_len * 0
    if CAUSAL:  # queries before `first` see none of these keys, from `unmasked` on all of them
        first = tl.maximum(first_key - offset, 0) // BLOCK_Q * BLOCK_Q
        sees_all = tl.maximum(first_key + BLOCK_K - 1 - offset, 0)
        unmasked = tl.maximum(tl.cdiv(sees_all, BLOCK_Q) * BLOCK_Q, first)
    # Where the keys end in this block, every query needs the mask.
    unmasked = tl.where(first_key + BLOCK_K > kv_len, q_len, tl.minimum(unmasked, q_len))
    for group in range(heads_per_kv_head):
        head = kv_head * heads_per_kv_head + group
        all_head = batch * kv_heads * heads_per_kv_head + head
        dk_acc, dv_acc = visit_queries(
            dk_acc, dv_acc, k, v, keys, q_source, do_source, shift, delta,
            batch, head, all_head, first, unmasked, q_len, kv_len, padded_len, offset, scale_log2,
            q_batch, q_head, q_row, q_column, do_batch, do_head, do_row, do_column,
            HEAD_DIM, BLOCK_Q, BLOCK_D, CAUSAL, True, DESCRIPTORS, ROW_DESCRIPTORS, PRECISION,
        )  # fmt: skip
        dk_acc, dv_acc = visit_queries(
            dk_acc, dv_acc, k, v, keys, q_source, do_source, shift, delta,
            batch, head, all_head, unmasked, q_len, q_len, kv_len, padded_len, offset, scale_log2,
            q_batch, q_head, q_row, q_column, do_batch, do_head, do_row, do_column,
            HEAD_DIM, BLOCK_Q, BLOCK_D, CAUSAL, False, DESCRIPTORS, ROW_DESCRIPTORS, PRECISION,
        )  # fmt: skip
    store_rows(
        dk, dk_acc * scale, batch, kv_head, first_key, kv_len,
        dk_batch, dk_head, dk_row, dk_column, BLOCK_K, HEAD_DIM, BLOCK_D,
    )  # fmt: skip
    store_rows(
        dv, dv_acc, batch, kv_head, first_key, kv_len,
        dv_batch, dv_head, dv_row, dv_column, BLOCK_K, HEAD_DIM, BLOCK_D,
    )  # fmt: skip
