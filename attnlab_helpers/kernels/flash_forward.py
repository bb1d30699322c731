"""FlashAttention forward in Triton, made for speed: one block of queries against all its keys.

As `tiled_attention`, with these differences. Only the tiles on the causal diagonal and at the end
of the keys pay for a mask. The powers are of two, with log2(e) folded into the scale, because that
is what the hardware computes. Tiles come through tensor descriptors where that is possible. And
with OVERLAP the product with v waits one round, so that tensor cores multiply p v of one tile while
the other units compute the softmax of the next. Algorithms: FlashAttention-2 (arXiv 2307.08691,
algorithm 1); the overlap: FlashAttention-3 (arXiv 2407.08608, section 3.2).
"""

from __future__ import annotations

from .flash_tiles import SIZES, factor, load_rows, place_in_grid, store_rows
from .language import tl, triton


@triton.jit
def softmax_step(
    scores, l, m, limit, first_key, scale_log2,  # noqa: E741 (the papers' name)
    BLOCK_K: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """(p, alpha, l, m) after one more tile: its powers, and what the older sums shrink by."""
    if MASKED:
        keys = first_key + tl.arange(0, BLOCK_K)
        visible = keys[None, :] <= limit[:, None]
        scores = tl.where(visible, scores, float("-inf"))
    # The scale is positive here, so the largest score is also the largest scaled one.
    m_new = tl.maximum(m, tl.max(scores, axis=1) * scale_log2)
    shift = m_new
    if MASKED:
        # A row that has seen no key yet has m_new = -inf, and -inf - (-inf) is no number.
        shift = tl.where(m_new == float("-inf"), 0.0, m_new)
    p = tl.exp2(scores * scale_log2 - shift[:, None])  # one instruction before the power
    alpha = tl.exp2(m - shift)
    return p, alpha, l * alpha + tl.sum(p, axis=1), m_new


@triton.jit
def visit_keys(
    acc, l, m, p, alpha, q, limit,  # noqa: E741 (the papers' name)
    k_source, v_source, batch, kv_head, first, end, kv_len, scale_log2,
    k_batch, k_head, k_row, k_column, v_batch, v_head, v_row, v_column,
    HEAD_DIM: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
    MASKED: tl.constexpr, OVERLAP: tl.constexpr, DESCRIPTORS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Algorithm 1's inner loop over the keys first..end, with a mask or without one.

    With OVERLAP, p and alpha are those of the tile before `first`, whose v is still to come.
    """
    for first_key in tl.range(first, end, BLOCK_K):
        k = load_rows(
            k_source, batch, kv_head, first_key, kv_len, k_batch, k_head, k_row, k_column,
            BLOCK_K, HEAD_DIM, BLOCK_D, DESCRIPTORS, MASKED,
        )  # fmt: skip
        scores = tl.dot(q, k.T, input_precision=PRECISION)
        if OVERLAP:
            v = load_rows(
                v_source, batch, kv_head, first_key - BLOCK_K, kv_len, v_batch, v_head, v_row,
                v_column, BLOCK_K, HEAD_DIM, BLOCK_D, DESCRIPTORS, MASKED,
            )  # fmt: skip
            acc = tl.dot(
                factor(p, v.dtype, PRECISION), v, acc * alpha[:, None], input_precision=PRECISION
            )
        p, alpha, l, m = softmax_step(  # noqa: E741
            scores, l, m, limit, first_key, scale_log2, BLOCK_K, MASKED
        )
        if not OVERLAP:
            v = load_rows(
                v_source, batch, kv_head, first_key, kv_len, v_batch, v_head, v_row, v_column,
                BLOCK_K, HEAD_DIM, BLOCK_D, DESCRIPTORS, MASKED,
            )  # fmt: skip
            acc = tl.dot(
                factor(p, v.dtype, PRECISION), v, acc * alpha[:, None], input_precision=PRECISION
            )
    return acc, l, m, p, alpha


@triton.jit(do_not_specialize=SIZES)
def flash_forward_kernel(
    q_source, k_source, v_source, out, lse,
    q_batch, q_head, q_row, q_column,  # strides, in elements
    k_batch, k_head, k_row, k_column,
    v_batch, v_head, v_row, v_column,
    out_batch, out_head, out_row, out_column,
    heads, all_heads, heads_per_kv_head, heads_at_once, q_len, kv_len, q_blocks,
    scale_log2,  # scale x log2(e), never negative
    offset,  # query i stands at the place of key i + offset
    CAUSAL: tl.constexpr, OVERLAP: tl.constexpr, DESCRIPTORS: tl.constexpr,
    PRECISION: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Writes out and lse = log2(sum(2^(scale_log2 x q k^T))) of one block of queries.

    lse stays in powers of two: what the backward pass subtracts from scores near 100 must not be
    rounded once more on its way. x ln(2) it is the natural logarithm.
    """
    block, batch_and_head = place_in_grid(tl.program_id(0), q_blocks, heads_at_once, all_heads)
    if CAUSAL:  # the longest rows first: the short ones fill the gaps at the end
        block = q_blocks - 1 - block
    batch, head = batch_and_head // heads, batch_and_head % heads
    kv_head = head // heads_per_kv_head
    first_query = block * BLOCK_Q
    queries = first_query + tl.arange(0, BLOCK_Q)
    q = load_rows(
        q_source, batch, head, first_query, q_len, q_batch, q_head, q_row, q_column,
        BLOCK_Q, HEAD_DIM, BLOCK_D, DESCRIPTORS, True,
    )  # fmt: skip
    m = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    l = tl.zeros([BLOCK_Q], tl.float32)  # noqa: E741
    acc = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    p = tl.zeros([BLOCK_Q, BLOCK_K], tl.float32)
    alpha = tl.zeros([BLOCK_Q], tl.float32)

    limit = tl.zeros([BLOCK_Q], tl.int32) + (kv_len - 1)  # the last key that a query sees
    end, unmasked = kv_len, kv_len
    if CAUSAL:
        limit = tl.minimum(limit, queries + offset)
        end = tl.minimum(kv_len, first_query + BLOCK_Q + offset)
        unmasked = tl.maximum(tl.minimum(kv_len, first_query + 1 + offset), 0)
    unmasked = unmasked // BLOCK_K * BLOCK_K  # keys that all queries of the block see
    begin = 0
    if OVERLAP:  # the first tile has no v of a tile before it to multiply with
        k = load_rows(
            k_source, batch, kv_head, 0, kv_len, k_batch, k_head, k_row, k_column,
            BLOCK_K, HEAD_DIM, BLOCK_D, DESCRIPTORS, True,
        )  # fmt: skip
        scores = tl.dot(q, k.T, input_precision=PRECISION)
        p, alpha, l, m = softmax_step(  # noqa: E741
            scores, l, m, limit, 0, scale_log2, BLOCK_K, True
        )
        begin = BLOCK_K
    acc, l, m, p, alpha = visit_keys(  # noqa: E741
        acc, l, m, p, alpha, q, limit, k_source, v_source, batch, kv_head, begin, unmasked,
        kv_len, scale_log2, k_batch, k_head, k_row, k_column, v_batch, v_head, v_row, v_column,
        HEAD_DIM, BLOCK_K, BLOCK_D, False, OVERLAP, DESCRIPTORS, PRECISION,
    )  # fmt: skip
    begin = tl.maximum(unmasked, begin)
    acc, l, m, p, alpha = visit_keys(  # noqa: E741
        acc, l, m, p, alpha, q, limit, k_source, v_source, batch, kv_head, begin, end,
        kv_len, scale_log2, k_batch, k_head, k_row, k_column, v_batch, v_head, v_row, v_column,
        HEAD_DIM, BLOCK_K, BLOCK_D, True, OVERLAP, DESCRIPTORS, PRECISION,
    )  # fmt: skip
    if OVERLAP:
        last = tl.maximum(tl.cdiv(end, BLOCK_K) - 1, 0) * BLOCK_K
        v = load_rows(
            v_source, batch, kv_head, last, kv_len, v_batch, v_head, v_row, v_column,
            BLOCK_K, HEAD_DIM, BLOCK_D, DESCRIPTORS, True,
        )  # fmt: skip
        acc = tl.dot(
            factor(p, v.dtype, PRECISION), v, acc * alpha[:, None], input_precision=PRECISION
        )

    # False for a row that may see no key: its result is zero. True for NaN, which must stay.
    seen = l != 0.0
    divisor = tl.where(seen, l, 1.0)
    if out.dtype.element_ty == tl.float32:
        acc = acc / divisor[:, None]
    else:  # one division a row; its rounding is far below that to 16 bits
        acc = acc * (1.0 / divisor)[:, None]
    store_rows(
        out, tl.where(seen[:, None], acc, 0.0), batch, head, first_query,
        q_len, out_batch, out_head, out_row, out_column, BLOCK_Q, HEAD_DIM, BLOCK_D,
    )  # fmt: skip
    statistic = tl.where(seen, m + tl.log2(divisor), float("-inf"))
    place = lse + batch_and_head.to(tl.int64) * q_len + queries
    tl.store(place, statistic, mask=queries < q_len)
