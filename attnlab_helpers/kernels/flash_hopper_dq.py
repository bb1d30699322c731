"""FlashAttention backward for Hopper: dq, with the division of work of `flash_hopper` (in Gluon).

Three products a tile of keys: the scores q k^T and do v^T, from which ds comes, and ds k of the
tile before, which is under way meanwhile. The mathematics are `flash_dq`'s.
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


@gluon.jit
def multiply(
    acc, ds, q, do, step, add, began, buffers, barriers, turns,
    BLOCK_K: gl.constexpr, STAGES: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    """(scores and do v^T of this step's keys, acc + ds k of the step before, still under way).

    add: False starts acc anew. began: False where no step came before, and acc means nothing.
    """
    k_tiles, v_tiles = buffers[1], buffers[2]
    k_ready, v_ready, v_free = barriers[2], barriers[4], barriers[5]
    stage, before = step % STAGES, (step + STAGES - 1) % STAGES
    HEAD_DIM: gl.constexpr = q.shape[1]
    layout: gl.constexpr = ds.type.layout
    k = k_tiles.index(stage).reshape([BLOCK_K, HEAD_DIM])
    v = v_tiles.index(stage).reshape([BLOCK_K, HEAD_DIM])
    k_before = k_tiles.index(before).reshape([BLOCK_K, HEAD_DIM])
    nothing = gl.zeros([GROUP_Q, BLOCK_K], gl.float32, layout)
    mbarrier.wait(k_ready.index(stage), step // STAGES & 1)
    mbarrier.wait(turns.index(GROUP), step & 1)
    scores = warpgroup_mma(q, k.permute((1, 0)), nothing, use_acc=False, is_async=True)
    mbarrier.wait(v_ready.index(stage), step // STAGES & 1)
    dp = warpgroup_mma(do, v.permute((1, 0)), nothing, use_acc=False, is_async=True)
    halves = gl.convert_layout(ds.to(k.dtype), gl.DotOperandLayout(0, acc.type.layout, 2))
    mbarrier.wait(k_ready.index(before), (step - 1) // STAGES & 1, pred=began)
    acc = warpgroup_mma(halves, k_before, acc, use_acc=add, is_async=True)
    mbarrier.arrive(turns.index(1 - GROUP), count=1)  # now the other group may multiply
    scores, dp = warpgroup_mma_wait(1, deps=[scores, dp])
    mbarrier.arrive(v_free.index(stage), count=1)
    return scores, dp, acc


@gluon.jit
def slope_step(
    scores, dp, shift, delta, limit, columns, first_key, scale_log2, MASKED: gl.constexpr
):
    """ds = p * (dp - delta), the slope of the loss along the scores."""
    powers = scores * scale_log2 - shift[:, None]
    if MASKED:
        visible = columns[None, :] <= (limit - first_key)[:, None]
        powers = gl.where(visible, powers, float("-inf"))
    return gl.exp2(powers) * (dp - delta[:, None])


@gluon.jit
def visit_keys(
    acc, ds, q, do, shift, delta, limit, columns, step, begin, end, tiles, scale_log2,
    buffers, barriers, turns,
    MASKED: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    """The tiles begin..end, counted from the last one; ds is that of the tile before `begin`."""
    for i in range(begin, end):
        scores, dp, acc = multiply(
            acc, ds, q, do, step, i > 1, True, buffers, barriers, turns, BLOCK_K, STAGES, GROUP
        )
        first_key = (tiles - 1 - i) * BLOCK_K
        ds = slope_step(scores, dp, shift, delta, limit, columns, first_key, scale_log2, MASKED)
        acc, ds = wait_for_sum(acc, ds, step, True, barriers[2], barriers[3], STAGES)
        step += 1
    return acc, ds, step


@gluon.jit
def finish(acc, shift, scale, dq, dq_tile, batch, head, first_query):
    """Write dq of a group's queries; zero for those that see no key."""
    sees = gl.convert_layout(shift != float("inf"), gl.SliceLayout(1, acc.type.layout))
    # A row that sees no key has multiplied a tile of keys, too, by zeros: 0 x NaN is NaN.
    rows = gl.where(sees[:, None], acc * scale, 0.0)
    write_block(rows, dq, dq_tile, batch, head, first_query)


@gluon.jit
def attend(
    buffers, barriers, turns, dq, dq_tiles, shift_source, delta_source, padded_len, sizes,
    scale, scale_log2,
    CAUSAL: gl.constexpr, BLOCK_D: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr,
    AHEAD: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    """One group of warps: dq of its queries of every block, one step a tile of keys.

    As in `flash_hopper`, a block is finished in the first step of the next.
    """
    kv_len, offset = sizes[7], sizes[8]
    q_ready, q_free, k_ready = barriers[0], barriers[1], barriers[2]
    score_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_K, 16])
    dq_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_D, 16])
    rows: gl.constexpr = gl.SliceLayout(1, score_layout)
    columns = gl.arange(0, BLOCK_K, gl.SliceLayout(0, score_layout))
    dq_tile = dq_tiles.index(GROUP)
    old_shift = gl.full([GROUP_Q], float("inf"), gl.float32, rows)
    acc = gl.zeros([GROUP_Q, BLOCK_D], gl.float32, dq_layout)
    ds = gl.zeros([GROUP_Q, BLOCK_K], gl.float32, score_layout)
    step = 0
    several = False
    old_query, old_batch, old_head = 0, 0, 0
    for turn in range(blocks_of_program(sizes, CAUSAL)):
        block, all_head, batch, head, _kv_head = place(turn, sizes, CAUSAL)
        tiles, masked = count_tiles(block, sizes, CAUSAL, BLOCK_K)
        first_query = (block * GROUPS + GROUP) * GROUP_Q
        queries = first_query + gl.arange(0, GROUP_Q, rows)
        statistics = all_head.to(gl.int64) * padded_len + queries
        shift, delta = gl.load(shift_source + statistics), gl.load(delta_source + statistics)
        limit = gl.full([GROUP_Q], 0, gl.int32, rows) + (kv_len - 1)  # the last key one sees
        if CAUSAL:
            limit = gl.minimum(limit, queries + offset)
        began = turn > 0
        slot = turn % AHEAD * GROUPS + GROUP
        q = buffers[0].index(slot).reshape([GROUP_Q, BLOCK_D])
        do = buffers[3].index(slot).reshape([GROUP_Q, BLOCK_D])
        mbarrier.wait(q_ready.index(slot), turn // AHEAD & 1)
        scores, dp, acc = multiply(
            acc, ds, q, do, step, several, began, buffers, barriers, turns, BLOCK_K, STAGES, GROUP
        )
        first_key = (tiles - 1) * BLOCK_K
        ds = slope_step(scores, dp, shift, delta, limit, columns, first_key, scale_log2, True)
        acc, ds = wait_for_sum(acc, ds, step, began, barriers[2], barriers[3], STAGES)
        if began:
            finish(acc, old_shift, scale, dq, dq_tile, old_batch, old_head, old_query)
        step += 1
        acc, ds, step = visit_keys(
            acc, ds, q, do, shift, delta, limit, columns, step, 1, masked, tiles, scale_log2,
            buffers, barriers, turns, True, BLOCK_K, STAGES, GROUP,
        )  # fmt: skip
        acc, ds, step = visit_keys(
            acc, ds, q, do, shift, delta, limit, columns, step, masked, tiles, tiles, scale_log2,
            buffers, barriers, turns, False, BLOCK_K, STAGES, GROUP,
        )  # fmt: skip
        mbarrier.arrive(q_free.index(slot), count=1)
        several, old_shift = tiles > 1, shift
        old_query, old_batch, old_head = first_query, batch, head
    before = (step + STAGES - 1) % STAGES
    k = buffers[1].index(before).reshape([BLOCK_K, BLOCK_D])
    mbarrier.wait(k_ready.index(before), (step - 1) // STAGES & 1)
    halves = gl.convert_layout(ds.to(k.dtype), gl.DotOperandLayout(0, dq_layout, 2))
    acc = warpgroup_mma(halves, k, acc, use_acc=several)
    finish(acc, old_shift, scale, dq, dq_tile, old_batch, old_head, old_query)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=SIZES)
def flash_hopper_dq_kernel(
    q_source, k_source, v_source, do_source, dq,  # descriptors
    shift, delta,  # (all heads, padded_len), float32: see `flash_delta_kernel`
    all_blocks, heads, all_heads, heads_per_kv_head, heads_at_once, q_len, kv_len, q_blocks,
    padded_len, scale, scale_log2, offset,
    CAUSAL: gl.constexpr, BLOCK_K: gl.constexpr, BLOCK_D: gl.constexpr, STAGES: gl.constexpr,
    AHEAD: gl.constexpr,
):  # fmt: skip
    """Writes dq, as `flash_dq_kernel`, with at most one program an SM.

    AHEAD: 2 lets the queries of the next block come while this one is attended, where there is
    room for both. STAGES: 2 or more; a tile of keys is free only in the step after its own.
    """
    buffers = (
        tiles_like(q_source, AHEAD * GROUPS), tiles_like(k_source, STAGES),
        tiles_like(v_source, STAGES), tiles_like(do_source, AHEAD * GROUPS),
    )  # fmt: skip
    dq_tiles = tiles_like(dq, GROUPS)
    barriers, turns = barriers_of_tiles(STAGES, AHEAD), new_barriers(GROUPS, 1)
    fence_async_shared()
    mbarrier.arrive(turns.index(0), count=1)  # group 0 multiplies first
    sources = (q_source, k_source, v_source, do_source)
    sizes = (all_blocks, q_blocks, heads_at_once, all_heads, heads, heads_per_kv_head,
             q_len, kv_len, offset)  # fmt: skip
    gl.warp_specialize(
        [
            (attend, (buffers, barriers, turns, dq, dq_tiles, shift, delta, padded_len, sizes,
                      scale, scale_log2, CAUSAL, BLOCK_D, BLOCK_K, STAGES, AHEAD, 0)),
            (attend, (buffers, barriers, turns, dq, dq_tiles, shift, delta, padded_len, sizes,
                      scale, scale_log2, CAUSAL, BLOCK_D, BLOCK_K, STAGES, AHEAD, 1)),
            (load, (sources, buffers, barriers, sizes, CAUSAL, BLOCK_K, STAGES, AHEAD, True)),
        ],
        [4, 1],
        [ATTENDING_REGISTERS, LOADING_REGISTERS],
    )  # fmt: skip
