"""FlashAttention forward for Hopper, each group of warps with a task of its own (in Gluon).

Triton gives all warps of a program the same work, so they want the tensor cores at the same time
and leave them idle at the same time. Gluon, the language below Triton's, lets us say who does what
and when: one warp asks the copy engine for tiles, two groups of four warps compute attention, each
for 64 queries, and they take turns at the tensor cores, so that one multiplies while the other
takes powers. Within a group, too, p v of a tile is under way while the softmax of the next is
computed. A program goes through several blocks of queries and asks for the next while it finishes
the last. Algorithms: FlashAttention-3 (arXiv 2407.08608, sections 3.1 and 3.2); the mathematics are
`flash_forward`'s.

Needs Gluon as Triton has it from 3.6 on: import this file only as `flash_hopper_launch` does.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from .flash_hopper_blocks import (
    ATTENDING_REGISTERS,
    GROUP_Q,
    GROUPS,
    LOADING_REGISTERS,
    barriers_of_tiles,
    blocks_of_program,
    count_tiles,
    load,
    new_barriers,
    place,
    tiles_like,
    wait_for_sum,
    write_block,
)
from .flash_tiles import SIZES

AHEAD = gl.constexpr(2)  # the queries of the next block come while this one is attended


@gluon.jit
def softmax_step(
    scores, l, m, limit, columns, first_key, scale_log2,  # noqa: E741 (the papers' name)
    MASKED: gl.constexpr,
):  # fmt: skip
    """(p, alpha, l, m) after one more tile: as `flash_forward.softmax_step`."""
    if MASKED:
        visible = columns[None, :] <= (limit - first_key)[:, None]
        scores = gl.where(visible, scores, float("-inf"))
    m_new = gl.maximum(m, gl.max(scores, axis=1) * scale_log2)
    shift = m_new
    if MASKED:
        shift = gl.where(m_new == float("-inf"), 0.0, m_new)
    p = gl.exp2(scores * scale_log2 - shift[:, None])
    alpha = gl.exp2(m - shift)
    return p, alpha, l * alpha + gl.sum(p, axis=1), m_new


@gluon.jit
def multiply(
    acc, p, q, step, add, began, buffers, barriers, turns,
    BLOCK_K: gl.constexpr, STAGES: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    """(scores of this step's keys, acc + p v of the step before, still under way).

    add: False starts acc anew. began: False where no step came before, and acc means nothing.
    """
    k_tiles, v_tiles = buffers[1], buffers[2]
    k_ready, k_free, v_ready = barriers[2], barriers[3], barriers[4]
    stage, before = step % STAGES, (step + STAGES - 1) % STAGES
    HEAD_DIM: gl.constexpr = q.shape[1]
    k = k_tiles.index(stage).reshape([BLOCK_K, HEAD_DIM])
    v = v_tiles.index(before).reshape([BLOCK_K, HEAD_DIM])
    mbarrier.wait(k_ready.index(stage), step // STAGES & 1)
    mbarrier.wait(turns.index(GROUP), step & 1)
    layout: gl.constexpr = p.type.layout
    nothing = gl.zeros([GROUP_Q, BLOCK_K], gl.float32, layout)
    scores = warpgroup_mma(q, k.permute((1, 0)), nothing, use_acc=False, is_async=True)
    halves = gl.convert_layout(p.to(v.dtype), gl.DotOperandLayout(0, acc.type.layout, 2))
    mbarrier.wait(v_ready.index(before), (step - 1) // STAGES & 1, pred=began)
    acc = warpgroup_mma(halves, v, acc, use_acc=add, is_async=True)
    mbarrier.arrive(turns.index(1 - GROUP), count=1)  # now the other group may multiply
    scores = warpgroup_mma_wait(1, deps=[scores])
    mbarrier.arrive(k_free.index(stage), count=1)
    return scores, acc


@gluon.jit
def visit_keys(
    acc, l, m, p, q, limit, columns, step, begin, end, tiles, scale_log2,  # noqa: E741
    buffers, barriers, turns,
    MASKED: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    """The tiles begin..end, counted from the last one; p is that of the tile before `begin`."""
    for i in range(begin, end):
        scores, acc = multiply(
            acc, p, q, step, i > 1, True, buffers, barriers, turns, BLOCK_K, STAGES, GROUP
        )
        p, alpha, l, m = softmax_step(  # noqa: E741
            scores, l, m, limit, columns, (tiles - 1 - i) * BLOCK_K, scale_log2, MASKED
        )
        acc, p = wait_for_sum(acc, p, step, True, barriers[4], barriers[5], STAGES)
        acc = acc * gl.convert_layout(alpha, gl.SliceLayout(1, acc.type.layout))[:, None]
        step += 1
    return acc, l, m, p, step


@gluon.jit
def finish(acc, l, m, out, out_tile, lse, all_head, batch, head, first_query, q_len):  # noqa: E741
    """Write out and lse of a group's queries."""
    queries = first_query + gl.arange(0, GROUP_Q, l.type.layout)
    seen = l != 0.0
    divisor = gl.where(seen, l, 1.0)
    statistic = gl.where(seen, m + gl.log2(divisor), float("-inf"))
    gl.store(lse + all_head.to(gl.int64) * q_len + queries, statistic, mask=queries < q_len)
    layout: gl.constexpr = gl.SliceLayout(1, acc.type.layout)
    divisor, seen = gl.convert_layout(divisor, layout), gl.convert_layout(seen, layout)
    # A row that sees no key has multiplied a tile of values, too, by weights of zero: 0 x NaN is
    # NaN.
    acc = gl.where(seen[:, None], acc * (1.0 / divisor)[:, None], 0.0)
    write_block(acc, out, out_tile, batch, head, first_query)


@gluon.jit
def attend(
    buffers, barriers, turns, out, out_tiles, lse, sizes, scale_log2,
    CAUSAL: gl.constexpr, BLOCK_D: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr,
    GROUP: gl.constexpr,
):  # fmt: skip
    """One group of warps: its queries of every block, one step a tile of keys.

    The first step of a block multiplies p v of the last tile of the block before, whose result is
    then finished: so the tensor cores have work while it is divided and written.
    """
    q_len, kv_len, offset = sizes[6], sizes[7], sizes[8]
    q_ready, q_free, v_ready = barriers[0], barriers[1], barriers[4]
    score_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_K, 16])
    out_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_D, 16])
    rows: gl.constexpr = gl.SliceLayout(1, score_layout)
    columns = gl.arange(0, BLOCK_K, gl.SliceLayout(0, score_layout))
    out_tile = out_tiles.index(GROUP)
    none = gl.zeros([GROUP_Q], gl.float32, rows)
    lowest = gl.full([GROUP_Q], float("-inf"), gl.float32, rows)
    l, m = none, lowest  # noqa: E741 (the papers' names)
    acc = gl.zeros([GROUP_Q, BLOCK_D], gl.float32, out_layout)
    p = gl.zeros([GROUP_Q, BLOCK_K], gl.float32, score_layout)
    step = 0
    several = False
    old_query, old_all_head, old_batch, old_head = 0, 0, 0, 0
    for turn in range(blocks_of_program(sizes, CAUSAL)):
        block, all_head, batch, head, _kv_head = place(turn, sizes, CAUSAL)
        tiles, masked = count_tiles(block, sizes, CAUSAL, BLOCK_K)
        first_query = (block * GROUPS + GROUP) * GROUP_Q
        limit = gl.full([GROUP_Q], 0, gl.int32, rows) + (kv_len - 1)  # the last key one sees
        if CAUSAL:
            limit = gl.minimum(limit, first_query + gl.arange(0, GROUP_Q, rows) + offset)
        began = turn > 0
        slot = turn % AHEAD * GROUPS + GROUP
        q = buffers[0].index(slot).reshape([GROUP_Q, BLOCK_D])
        mbarrier.wait(q_ready.index(slot), turn // AHEAD & 1)
        scores, acc = multiply(
            acc, p, q, step, several, began, buffers, barriers, turns, BLOCK_K, STAGES, GROUP
        )
        p, _alpha, l_new, m_new = softmax_step(
            scores, none, lowest, limit, columns, (tiles - 1) * BLOCK_K, scale_log2, True
        )
        acc, p = wait_for_sum(acc, p, step, began, barriers[4], barriers[5], STAGES)
        if began:
            finish(acc, l, m, out, out_tile, lse, old_all_head, old_batch, old_head, old_query,
                   q_len)  # fmt: skip
        l, m = l_new, m_new  # noqa: E741
        step += 1
        acc, l, m, p, step = visit_keys(  # noqa: E741
            acc, l, m, p, q, limit, columns, step, 1, masked, tiles, scale_log2,
            buffers, barriers, turns, True, BLOCK_K, STAGES, GROUP,
        )  # fmt: skip
        acc, l, m, p, step = visit_keys(  # noqa: E741
            acc, l, m, p, q, limit, columns, step, masked, tiles, tiles, scale_log2,
            buffers, barriers, turns, False, BLOCK_K, STAGES, GROUP,
        )  # fmt: skip
        mbarrier.arrive(q_free.index(slot), count=1)
        several = tiles > 1
        old_query, old_all_head, old_batch, old_head = first_query, all_head, batch, head
    before = (step + STAGES - 1) % STAGES
    v = buffers[2].index(before).reshape([BLOCK_K, BLOCK_D])
    mbarrier.wait(v_ready.index(before), (step - 1) // STAGES & 1)
    halves = gl.convert_layout(p.to(v.dtype), gl.DotOperandLayout(0, out_layout, 2))
    acc = warpgroup_mma(halves, v, acc, use_acc=several)
    finish(acc, l, m, out, out_tile, lse, old_all_head, old_batch, old_head, old_query, q_len)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=SIZES)
def flash_hopper_kernel(
    q_source, k_source, v_source, out, lse,  # descriptors but for lse
    all_blocks, heads, all_heads, heads_per_kv_head, heads_at_once, q_len, kv_len, q_blocks,
    scale_log2, offset,
    CAUSAL: gl.constexpr, BLOCK_K: gl.constexpr, BLOCK_D: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Writes out and lse, as `flash_forward_kernel`, with at most one program an SM."""
    buffers = (
        tiles_like(q_source, AHEAD * GROUPS), tiles_like(k_source, STAGES),
        tiles_like(v_source, STAGES),
    )  # fmt: skip
    out_tiles = tiles_like(out, GROUPS)
    barriers, turns = barriers_of_tiles(STAGES, AHEAD), new_barriers(GROUPS, 1)
    fence_async_shared()
    mbarrier.arrive(turns.index(0), count=1)  # group 0 multiplies first
    sources = (q_source, k_source, v_source)
    sizes = (all_blocks, q_blocks, heads_at_once, all_heads, heads, heads_per_kv_head,
             q_len, kv_len, offset)  # fmt: skip
    gl.warp_specialize(
        [
            (attend, (buffers, barriers, turns, out, out_tiles, lse, sizes, scale_log2,
                      CAUSAL, BLOCK_D, BLOCK_K, STAGES, 0)),
            (attend, (buffers, barriers, turns, out, out_tiles, lse, sizes, scale_log2,
                      CAUSAL, BLOCK_D, BLOCK_K, STAGES, 1)),
            (load, (sources, buffers, barriers, sizes, CAUSAL, BLOCK_K, STAGES, AHEAD, False)),
        ],
        [4, 1],
        [ATTENDING_REGISTERS, LOADING_REGISTERS],
    )  # fmt: skip
