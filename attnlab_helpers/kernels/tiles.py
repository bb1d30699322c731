"""Sizes of a tile: which ones a kernel takes, and which it takes by itself. Needs no Triton."""

from __future__ import annotations

import torch

# What is worked on lies in shared memory, of which small cards have 64 KiB (T4): so tiles stay
# small.
TILE_BYTES = 16 * 1024
SMALLEST, USUAL = 16, 64
MOST_NUMBERS = 2**20  # that one tensor of a Triton kernel holds (TRITON_MAX_TENSOR_NUMEL)


def padded(head_dim: int) -> int:
    """Columns of a tile: tl.arange takes powers of two, tensor cores at least 16 columns."""
    return max(SMALLEST, 1 << max(0, head_dim - 1).bit_length())


def how_many(numbers: int, block: int) -> int:
    """Blocks that hold so many. (triton.cdiv is for kernels, and takes microseconds outside.)"""
    return -(-numbers // block)


def default_block(head_dim: int, dtype: torch.dtype) -> int:
    """Rows of a tile: 64, or fewer so that it takes no more than 16 KiB; never under 16."""
    return max(SMALLEST, min(USUAL, TILE_BYTES // (padded(head_dim) * dtype.itemsize)))


def check_block(name: str, size: object, head_dim: int) -> None:
    """ValueError unless `size` rows of `head_dim` numbers are a tile. None: left to the kernel."""
    if size is None:
        return
    plain = isinstance(size, int) and not isinstance(size, bool)
    if not plain or size < SMALLEST or size & (size - 1):
        raise ValueError(f"{name} must be a power of two from 16 on, not {size!r}.")
    most = MOST_NUMBERS // padded(head_dim)
    if size > most:
        raise ValueError(
            f"{name}={size} is too large: a tensor of a Triton kernel holds up to "
            f"{MOST_NUMBERS:,} numbers, so with head_dim {head_dim} take {most} at most."
        )


def check_tile(block_q: int, block_k: int, head_dim: int) -> None:
    """ValueError unless queries and keys are tiles, and their scores fit into one tensor."""
    check_block("block_q", block_q, head_dim)
    check_block("block_k", block_k, head_dim)
    if block_q * block_k > MOST_NUMBERS:
        raise ValueError(
            f"block_q={block_q} x block_k={block_k} scores are too many: a tensor of a Triton "
            f"kernel holds up to {MOST_NUMBERS:,} numbers, so with this block_q take block_k="
            f"{max(SMALLEST, MOST_NUMBERS // block_q)} at most."
        )
