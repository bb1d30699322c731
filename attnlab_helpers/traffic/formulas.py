"""Bytes by formula: what an implementation's steps read and write, and the least that can do."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pandas as pd

from ..kernels.tiles import check_tile, default_block
from ..problem import DTYPES, AttentionProblem, visible_keys
from .access import STATISTIC_BYTES, Access, Sizes, as_frame, has_dead_rows
from .unfused import cleared, math_steps, naive_steps

# (queries, keys) of a tile, as the kernel's name gives them at head dim 64 on an H200 with torch
# 2.11 (see the recordings). cuDNN's numbers are read off its name alone; what they mean stands in
# no documentation. Other head dims and other cards have other tiles; a note says so. "tiled" has
# the tile that its kernel takes by itself at this head dim, and stands here with the largest.
TILES: dict[str, tuple[int, int]] = {
    "sdpa_flash": (128, 128),
    "sdpa_efficient": (64, 64),
    "sdpa_cudnn": (64, 128),
    "tiled": (64, 64),
}
TILES_AT = 64  # the head dim at which SDPA's were read
# PyTorch's flash keeps the log-sum-exp also when no gradient is asked for: its recorded peak is
# the output and 4 bytes a row. The others' peaks are the output alone.
KEEPS_STATISTICS = {"sdpa_flash"}

UNFUSED: dict[str, Callable[[AttentionProblem], list[Access]]] = {
    "naive": naive_steps,
    "in_place": functools.partial(naive_steps, in_place=True),
    "sdpa_math": math_steps,
}
FORMULAS = (*UNFUSED, *TILES)


def formula(
    implementation: str,
    problem: AttentionProblem,
    *,
    block_q: int | None = None,
    block_k: int | None = None,
    statistics: bool | None = None,
) -> pd.DataFrame:
    """What one forward call reads and writes: one row a step and tensor, in bytes.

    implementation: one of `FORMULAS`. In separate steps ("naive", "in_place", "sdpa_math") each
    step reads its inputs and writes its output once: see `unfused.naive_steps`, `math_steps`.
    Fused ("sdpa_flash", "sdpa_efficient", "sdpa_cudnn", "tiled"): Q is read and O written once;
    K and V are read once a query tile and query head, as far as the tile sees them
    (FlashAttention, arXiv 2205.14135, algorithm 1, with its two loops exchanged as in
    FlashAttention-2, arXiv 2307.08691, section 3.1). Those are the bytes that the kernel asks
    for: the L2 cache may answer, so fewer can come from DRAM. statistics: whether 4 bytes a row
    are written besides (None: as the implementation does without gradients).

    block_q, block_k: the tile of a fused kernel, powers of two from 16 on. None: what the kernel
    takes, for "tiled" `kernels.tiles.default_block`; for SDPA's see `TILES`, which hold for head
    dim 64: for another one the frame's `.attrs["note"]` says so. Columns: step, work, tensor,
    read_bytes, written_bytes. Raises ValueError for another name or tile, and for a tile of an
    implementation that has none.
    """
    if implementation not in FORMULAS:
        raise ValueError(
            f"there is no formula for {implementation!r}. There are: {', '.join(FORMULAS)}."
        )
    if implementation in UNFUSED:
        if block_q is not None or block_k is not None:
            raise ValueError(
                f"{implementation} works on whole matrices and has no tile: leave out block_q and "
                f"block_k. {', '.join(TILES)} have one."
            )
        return as_frame(UNFUSED[implementation](problem))
    note = tile_note(implementation, problem, block_q, block_k)
    block_q, block_k = tile_of(implementation, problem, block_q, block_k)
    if statistics is None:
        statistics = implementation in KEEPS_STATISTICS
    accesses = _fused(problem, block_q, block_k, statistics)
    # SDPA has no rows without a key; the package clears them afterwards (attention/sdpa.py).
    if implementation != "tiled" and has_dead_rows(problem):
        accesses += cleared("O", Sizes.of(problem).queries * problem.element_bytes, problem)
    frame = as_frame(accesses)
    if note:
        frame.attrs["note"] = note
    return frame


def tile_of(
    implementation: str, problem: AttentionProblem, block_q: int | None, block_k: int | None
) -> tuple[int, int]:
    """(queries, keys) of a fused implementation's tile, the known ones where None is given.

    ValueError for what is no tile.
    """
    queries, keys = TILES[implementation]
    if implementation == "tiled":
        queries = keys = default_block(problem.head_dim, DTYPES[problem.dtype])
    queries = queries if block_q is None else block_q
    keys = keys if block_k is None else block_k
    check_tile(queries, keys, problem.head_dim)
    return queries, keys


def tile_note(
    implementation: str, problem: AttentionProblem, block_q: int | None, block_k: int | None
) -> str:
    """What to know about a tile that was not asked for; empty where it is known."""
    guessed = block_q is None or block_k is None
    if implementation in UNFUSED or implementation == "tiled" or not guessed:
        return ""
    if problem.head_dim == TILES_AT:
        return ""
    return (
        f"The tile of {implementation} was read at head dim {TILES_AT} and may be another at "
        f"{problem.head_dim}: state block_q and block_k where you know them"
    )


def minimum(problem: AttentionProblem) -> pd.DataFrame:
    """The fewest bytes any forward call moves: Q, K, V read once, O written once.

    The columns of `formula`; the sum is `problem.min_bytes()`.
    """
    one, size = problem.element_bytes, Sizes.of(problem)
    step = ("once", "attention")
    return as_frame(
        [
            Access(*step, "Q", read_bytes=size.queries * one),
            Access(*step, "K", read_bytes=size.keys * one),
            Access(*step, "V", read_bytes=size.keys * one),
            Access(*step, "O", written_bytes=size.queries * one),
        ]
    )


def keys_read(problem: AttentionProblem, block_q: int, block_k: int) -> int:
    """How many keys the query tiles of one head read in all: whole tiles, up to the last seen.

    A tile of keys is read when the last query of the tile sees its first key; rows past q_len are
    no queries. Keys beyond kv_len are masked lanes and do not count. ValueError for a tile
    without a row.
    """
    if block_q < 1 or block_k < 1:
        raise ValueError(f"a tile has at least one row, not block_q={block_q}, block_k={block_k}.")
    total = 0
    for first in range(0, problem.q_len, block_q):
        last = min(first + block_q, problem.q_len) - 1
        seen = visible_keys(last, problem.q_len, problem.kv_len, problem.causal)
        total += min(-(-seen // block_k) * block_k, problem.kv_len)
    return total


def _fused(problem: AttentionProblem, block_q: int, block_k: int, statistics: bool) -> list[Access]:
    one, size = problem.element_bytes, Sizes.of(problem)
    per_key = problem.batch * problem.heads * problem.head_dim * one
    keys = keys_read(problem, block_q, block_k) * per_key
    step = ("attention", "attention")
    accesses = [
        Access(*step, "Q", read_bytes=size.queries * one),
        Access(*step, "K", read_bytes=keys),
        Access(*step, "V", read_bytes=keys),
        Access(*step, "O", written_bytes=size.queries * one),
    ]
    if statistics:
        written = size.rows * STATISTIC_BYTES
        accesses.append(Access(*step, "statistics", written_bytes=written))
    return accesses
