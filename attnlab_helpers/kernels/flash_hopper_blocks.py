"""What the kernels for Hopper share: which block of queries is whose, and moving tiles."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma_wait,
)

# Later versions of Triton have shorter names for them.
fetch_tile = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
send_tile = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global

GROUPS = gl.constexpr(2)  # groups of four warps that attend; each has 64 queries, wgmma's rows
GROUP_Q = gl.constexpr(64)
ATTENDING_REGISTERS = gl.constexpr(240)  # what the loading warp does not need, the others get
LOADING_REGISTERS = gl.constexpr(24)


@gluon.jit
def blocks_of_program(sizes, CAUSAL: gl.constexpr):
    """How many blocks of queries this program attends; `place` says which.

    At least one, since no more programs are started than there is work for; one without any would
    wait for ever.
    """
    AT_ONCE: gl.constexpr = 2 if CAUSAL else 1
    by_all = gl.num_programs(0) * AT_ONCE
    rounds = sizes[0] // by_all
    rest = sizes[0] - rounds * by_all - gl.program_id(0) * AT_ONCE
    return rounds * AT_ONCE + gl.minimum(gl.maximum(rest, 0), AT_ONCE)


@gluon.jit
def place(turn, sizes, CAUSAL: gl.constexpr):
    """(block of queries, head of all batches, batch, head, head of the keys).

    As `flash_tiles.place_in_grid`, but where blocks are causal a program takes a long one and the
    short one that makes up for it, so that all programs end at the same time.
    """
    q_blocks, heads_at_once, all_heads, heads, heads_per_kv_head = sizes[1:6]
    if CAUSAL:
        number = 2 * (gl.program_id(0) + turn // 2 * gl.num_programs(0)) + turn % 2
    else:
        number = gl.program_id(0) + turn * gl.num_programs(0)
    first_head = number // (heads_at_once * q_blocks) * heads_at_once
    size = gl.minimum(all_heads - first_head, heads_at_once)
    within = number - first_head * q_blocks
    if CAUSAL:
        pair = within // (2 * size)
        inside = within - 2 * size * pair
        middle = 2 * pair + 1 >= q_blocks  # an odd number of blocks leaves one without a partner
        all_head = first_head + gl.where(middle, inside, inside // 2)
        block = gl.where(middle | (inside % 2 == 0), q_blocks - 1 - pair, pair)
    else:
        block, all_head = within // size, first_head + within % size
    batch, head = all_head // heads, all_head % heads
    return block, all_head, batch, head, head // heads_per_kv_head


@gluon.jit
def count_tiles(block, sizes, CAUSAL: gl.constexpr, BLOCK_K: gl.constexpr):
    """(tiles of keys of a block, how many of them want a mask); the last tiles come first.

    At least one of each: also a block that sees no key has a tile to wait for.
    """
    kv_len, offset = sizes[7], sizes[8]
    ROWS: gl.constexpr = GROUPS * GROUP_Q
    end, unmasked = kv_len, kv_len
    if CAUSAL:
        end = gl.minimum(kv_len, (block + 1) * ROWS + offset)
        unmasked = gl.maximum(gl.minimum(kv_len, block * ROWS + 1 + offset), 0)
    tiles = gl.maximum((end + BLOCK_K - 1) // BLOCK_K, 1)
    return tiles, gl.maximum(tiles - unmasked // BLOCK_K, 1)


@gluon.jit
def load(
    sources, buffers, barriers, sizes,
    CAUSAL: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr, AHEAD: gl.constexpr,
    WITH_DO: gl.constexpr,
):  # fmt: skip
    """The loading warp: every tile as soon as its place in shared memory is free.

    sources and buffers: of q, k, v and, with WITH_DO, do. AHEAD: for how many blocks of queries
    there is a place.
    """
    q_ready, q_free, k_ready, k_free, v_ready, v_free = barriers
    q_bytes: gl.constexpr = sources[0].block_type.nbytes * (2 if WITH_DO else 1)
    kv_bytes: gl.constexpr = sources[1].block_type.nbytes
    step = 0
    for turn in range(blocks_of_program(sizes, CAUSAL)):
        block, _all_head, batch, head, kv_head = place(turn, sizes, CAUSAL)
        tiles, _masked = count_tiles(block, sizes, CAUSAL, BLOCK_K)
        for group in gl.static_range(GROUPS):
            row = (block * GROUPS + group) * GROUP_Q
            slot = turn % AHEAD * GROUPS + group
            mbarrier.wait(q_free.index(slot), turn // AHEAD & 1 ^ 1)
            mbarrier.expect(q_ready.index(slot), q_bytes)
            fetch_tile(
                sources[0], [batch, head, row, 0], q_ready.index(slot), buffers[0].index(slot)
            )
            if WITH_DO:
                fetch_tile(
                    sources[3], [batch, head, row, 0], q_ready.index(slot), buffers[3].index(slot)
                )
        for i in range(tiles):
            row = (tiles - 1 - i) * BLOCK_K
            stage, phase = step % STAGES, step // STAGES & 1
            mbarrier.wait(k_free.index(stage), phase ^ 1)
            mbarrier.expect(k_ready.index(stage), kv_bytes)
            fetch_tile(
                sources[1], [batch, kv_head, row, 0], k_ready.index(stage), buffers[1].index(stage)
            )
            mbarrier.wait(v_free.index(stage), phase ^ 1)
            mbarrier.expect(v_ready.index(stage), kv_bytes)
            fetch_tile(
                sources[2], [batch, kv_head, row, 0], v_ready.index(stage), buffers[2].index(stage)
            )
            step += 1


@gluon.jit
def wait_for_sum(acc, weights, step, began, ready, free, STAGES: gl.constexpr):
    """(acc when its product is done, weights): called when this step's powers have been taken.

    ready, free: barriers of the tiles that the product reads, those of the step before.
    The first wait never waits. It is there because ptxas moves the powers behind the second,
    where they would no longer overlap with the product, unless a branch lies between them.
    """
    before = (step + STAGES - 1) % STAGES
    mbarrier.wait(ready.index(before), (step - 1) // STAGES & 1, pred=began)
    acc, weights = warpgroup_mma_wait(0, deps=[acc, weights])
    mbarrier.arrive(free.index(before), count=1, pred=began)
    return acc, weights


@gluon.jit
def write_block(rows, target, tile, batch, head, first_query):
    """Send a group's rows to memory, through `tile`, while the kernel goes on."""
    tma.store_wait(0)  # the block before has left the tile
    tile.reshape(rows.shape).store(rows.to(tile.dtype))
    fence_async_shared()
    send_tile(target, [batch, head, first_query, 0], tile)


@gluon.jit
def new_barriers(NUMBER: gl.constexpr, ARRIVALS: gl.constexpr):
    """NUMBER barriers in shared memory; each opens when ARRIVALS have arrived."""
    found = gl.allocate_shared_memory(gl.int64, [NUMBER, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(NUMBER):
        mbarrier.init(found.index(i), count=ARRIVALS)
    return found


@gluon.jit
def barriers_of_tiles(STAGES: gl.constexpr, AHEAD: gl.constexpr):
    """(q ready, q free, k ready, k free, v ready, v free): who attends waits for the first of a
    pair and arrives at the second, `load` the other way round."""
    SLOTS: gl.constexpr = AHEAD * GROUPS
    q_ready, q_free = new_barriers(SLOTS, 1), new_barriers(SLOTS, 1)
    k_ready, k_free = new_barriers(STAGES, 1), new_barriers(STAGES, GROUPS)
    v_ready, v_free = new_barriers(STAGES, 1), new_barriers(STAGES, GROUPS)
    return q_ready, q_free, k_ready, k_free, v_ready, v_free


@gluon.jit
def tiles_like(source, NUMBER: gl.constexpr):
    """Room for NUMBER tiles as a descriptor loads or stores them."""
    shape: gl.constexpr = source.block_type.shape
    room: gl.constexpr = [NUMBER] + shape  # noqa: RUF005 (Gluon knows no stars)
    return gl.allocate_shared_memory(source.dtype, room, source.layout)
