"""The atlas's grid: which cells are asked about, the most telling ones first."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

from ..problem import AttentionProblem
from .cell import Cell, Direction, Layout, Mask

DTYPES = ("bfloat16", "float16", "float32")
# 64 and 128 are the usual ones; 40, 80 and 160 Stable Diffusion's; the rest lie on both sides
# of a rule: not a multiple of 8 or 4, above 128, above 256.
HEAD_DIMS = (64, 128, 256, 8, 40, 80, 160, 36, 512, 7, 96, 100, 192, 16, 264, 320)
MASKS = ("none", "causal", "boolean", "bias")
HEADS = ((16, 16), (16, 4))
DIRECTIONS: tuple[Direction, ...] = ("forward", "training")
LAYOUTS: tuple[Layout, ...] = ("contiguous", "strided", "last dim strided")
# name -> batch, q_len, kv_len, and by how much fewer heads, so that the scores stay small.
LENGTHS = {
    "equal": (2, 1024, 1024, 1),
    "odd": (2, 1021, 1021, 1),
    "decode": (16, 1, 4096, 1),
    "unequal": (2, 1024, 77, 1),
    "long keys": (1, 128, 70_000, 4),
    "long queries": (1, 70_000, 128, 4),
}


def grid(seed: int = 0) -> Iterator[Cell]:
    """All cells of the atlas, each once.

    First everything but length and layout, for the usual head dims; then, for one head dim,
    every layout and every length; then the odd head dims, a second head dim, and the rest of the
    product in a random order that `seed` fixes. Whoever stops early has a coarse atlas that
    covers every axis.
    """
    seen = set()
    for cell in _ordered(seed):
        if cell not in seen:
            seen.add(cell)
            yield cell


def _ordered(seed: int) -> Iterator[Cell]:
    equal, contiguous = ("equal",), ("contiguous",)
    yield from _product(HEAD_DIMS[:9], equal, contiguous)
    for head_dim in HEAD_DIMS[:2]:
        yield from _product((head_dim,), equal, LAYOUTS)
        yield from _product((head_dim,), LENGTHS, contiguous)
        yield from _product(HEAD_DIMS, equal, contiguous)
    rest = list(_product(HEAD_DIMS, LENGTHS, LAYOUTS))
    random.Random(seed).shuffle(rest)
    yield from rest


def _product(head_dims, lengths, layouts) -> Iterator[Cell]:
    axes = (head_dims, lengths, DTYPES, MASKS, HEADS, layouts, DIRECTIONS)
    for head_dim, length, dtype, mask, heads, layout, direction in product(*axes):
        yield _cell(head_dim, length, dtype, mask, heads, layout, direction)


def _cell(
    head_dim: int,
    length: str,
    dtype: str,
    mask: str,
    heads: tuple[int, int],
    layout: Layout,
    direction: Direction,
) -> Cell:
    batch, q_len, kv_len, fewer = LENGTHS[length]
    problem = AttentionProblem(
        batch,
        heads[0] // fewer,
        q_len,
        head_dim,
        kv_len=kv_len,
        kv_heads=heads[1] // fewer,
        dtype=dtype,
        causal=mask == "causal",
    )
    kind: Mask = mask if mask in ("boolean", "bias") else "none"
    return Cell(problem, kind, layout, direction)
