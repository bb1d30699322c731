"""What FlashAttention's forward and backward kernels share: where a program works, what it loads.

A tile is a block of rows (queries or keys) of one head. It comes through a tensor descriptor,
where the card has a copy engine for tiles (Hopper's TMA) and the tensor's strides allow one, and
through one address for each number otherwise.
"""

from __future__ import annotations

from .language import tl, triton

# Triton makes a kernel of its own for an int that is 1 or that 16 divides. For these sizes that
# would mean a compilation whenever a length changes, and gain nothing.
SIZES = (
    "heads", "all_heads", "kv_heads", "all_kv_heads", "heads_at_once", "q_len", "kv_len",
    "q_blocks", "k_blocks", "padded_len", "offset",
)  # fmt: skip


@triton.jit
def place_in_grid(program, blocks, heads_at_once, all_heads):
    """(block, head of all batches) of a program; programs that run together share keys in L2.

    `heads_at_once` heads are worked on together, all their first blocks first. Fewer would leave
    short programs for the end of each head, more would let their keys push each other out of L2.
    """
    group = program // (heads_at_once * blocks)
    first_head = group * heads_at_once
    size = tl.minimum(all_heads - first_head, heads_at_once)
    within = program - first_head * blocks
    return within // size, first_head + within % size


@triton.jit
def load_rows(
    source, batch, head, first_row, length,
    by_batch, by_head, by_row, by_column,  # strides, in elements
    ROWS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    DESCRIPTOR: tl.constexpr, CHECK_ROWS: tl.constexpr,
):  # fmt: skip
    """ROWS rows of a head, (ROWS, BLOCK_D); zero behind the last row and the last column."""
    if DESCRIPTOR:
        tile = tl.reshape(source.load([batch, head, first_row, 0]), [ROWS, BLOCK_D])
    else:
        rows, columns = first_row + tl.arange(0, ROWS), tl.arange(0, BLOCK_D)
        # 64 bit: number x stride passes 2^31 in a tensor of 4 GB.
        start = source + batch.to(tl.int64) * by_batch + head.to(tl.int64) * by_head
        addresses = (
            start + rows[:, None].to(tl.int64) * by_row + columns[None, :].to(tl.int64) * by_column
        )
        if CHECK_ROWS and HEAD_DIM != BLOCK_D:
            inside = (rows[:, None] < length) & (columns[None, :] < HEAD_DIM)
            tile = tl.load(addresses, mask=inside, other=0.0)
        elif CHECK_ROWS:
            tile = tl.load(addresses, mask=rows[:, None] < length, other=0.0)
        elif HEAD_DIM != BLOCK_D:
            tile = tl.load(addresses, mask=columns[None, :] < HEAD_DIM, other=0.0)
        else:
            tile = tl.load(addresses)
    return tile


@triton.jit
def factor(x, dtype: tl.constexpr, PRECISION: tl.constexpr):
    """float32 numbers as a factor of a product: in the dtype of the other factor.

    Tensor cores cut a float32 to the 10 bits of tf32, so that every product errs towards zero.
    They are rounded before, as `precision.rounded_to_tf32` does it with the inputs.
    """
    found = x.to(dtype)
    if PRECISION == "tf32":
        bits = (found.to(tl.int32, bitcast=True) + 0x1000) & -0x2000
        rounded = bits.to(tl.float32, bitcast=True)
        found = tl.where(tl.abs(found) < 3.401992901712019e38, rounded, found)  # TF32_ENDS
    return found


@triton.jit
def load_statistics(
    source, all_head, first_row, padded_len, ROWS: tl.constexpr, DESCRIPTOR: tl.constexpr
):
    """One number for each of ROWS queries, from (all heads, padded_len) float32.

    Queries lie across in the tiles that want them. By address, Triton (3.6) gives each thread one
    number to fetch where there are as many as threads; where there are fewer, each fetches those
    of all its columns, and a tile of 64 x 64 spends a third of its instructions here.
    """
    if DESCRIPTOR:
        found = tl.reshape(source.load([all_head, first_row]), [ROWS])
    else:
        rows = first_row + tl.arange(0, ROWS)
        found = tl.load(source + all_head.to(tl.int64) * padded_len + rows)
    return found


@triton.jit
def store_rows(
    target, tile, batch, head, first_row, length,
    by_batch, by_head, by_row, by_column,
    ROWS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Write the rows and columns of a tile that exist, in the target's dtype."""
    rows, columns = first_row + tl.arange(0, ROWS), tl.arange(0, BLOCK_D)
    start = target + batch.to(tl.int64) * by_batch + head.to(tl.int64) * by_head
    addresses = (
        start + rows[:, None].to(tl.int64) * by_row + columns[None, :].to(tl.int64) * by_column
    )
    inside = (rows[:, None] < length) & (columns[None, :] < HEAD_DIM)
    tl.store(addresses, tile.to(target.dtype.element_ty), mask=inside)
