"""Bytes of the backward pass by formula: with the stored matrix, and with tiles computed again."""

from __future__ import annotations

import pandas as pd

from ..kernels.tiles import check_tile
from ..problem import AttentionProblem
from .access import STATISTIC_BYTES, Access, Sizes, as_frame
from .formulas import keys_read
from .unfused import BOOL

BACKWARD_FORMULAS = ("naive", "three_kernels")


def backward_formula(
    implementation: str, problem: AttentionProblem, *, block_q: int = 64, block_k: int = 64
) -> pd.DataFrame:
    """What one backward call reads and writes: one row a step and tensor, in bytes.

    "naive": what autograd does for `attention/naive.py`, each step reading its inputs and writing
    its output once, with the stored weights P. "three_kernels": FlashAttention-2 (arXiv
    2307.08691, algorithm 2) without atomics: delta; then dK and dV, a program a block of keys,
    which reads all queries that see it; then dQ, a program a block of queries, which reads all
    keys that it sees. Asked for by the kernels: caches may answer. block_q, block_k: its tile.

    Columns as `formula`. ValueError for another name, a tile that is none, and for problems that
    this does not cover: two lengths, fewer heads in K and V.
    """
    if implementation not in BACKWARD_FORMULAS:
        names = ", ".join(BACKWARD_FORMULAS)
        raise ValueError(
            f"there is no formula for {implementation!r} backward. There are: {names}."
        )
    if problem.q_len != problem.kv_len or problem.heads != problem.kv_heads:
        raise ValueError(
            f"{problem.label}: backward is counted for self-attention only. Take equal lengths, "
            "and as many heads in K and V as in Q."
        )
    if implementation == "naive":
        return as_frame(_naive(problem))
    check_tile(block_q, block_k, problem.head_dim)
    return as_frame(_three_kernels(problem, block_q, block_k))


def _naive(problem: AttentionProblem) -> list[Access]:
    one, size = problem.element_bytes, Sizes.of(problem)
    rows, scores = size.queries * one, size.scores * one
    steps = [
        Access("dV", "matmul", "P", read_bytes=scores),
        Access("dV", "matmul", "dO", read_bytes=rows),
        Access("dV", "matmul", "dV", written_bytes=rows),
        Access("dP", "matmul", "dO", read_bytes=rows),
        Access("dP", "matmul", "V", read_bytes=rows),
        Access("dP", "matmul", "dP", written_bytes=scores),
        Access("softmax", "softmax", "P", read_bytes=scores),
        Access("softmax", "softmax", "dP", read_bytes=scores),
        Access("softmax", "softmax", "dS", written_bytes=scores),
    ]
    if problem.causal:  # what was overwritten has no gradient: a copy, and zeros into it
        steps += [
            Access("copy", "copy", "dS", scores, scores),
            Access("mask", "mask", "dS", scores, scores),
            Access("mask", "mask", "mask", read_bytes=size.triangle * BOOL),
        ]
    return [
        *steps,
        Access("scale", "elementwise", "dS", scores, scores),
        Access("dQ", "matmul", "dS", read_bytes=scores),
        Access("dQ", "matmul", "K", read_bytes=rows),
        Access("dQ", "matmul", "dQ", written_bytes=rows),
        Access("dK", "matmul", "dS", read_bytes=scores),
        Access("dK", "matmul", "Q", read_bytes=rows),
        Access("dK", "matmul", "dK", written_bytes=rows),
    ]


def _three_kernels(problem: AttentionProblem, block_q: int, block_k: int) -> list[Access]:
    one, size = problem.element_bytes, Sizes.of(problem)
    rows, statistic = size.queries * one, size.rows * STATISTIC_BYTES
    heads = problem.batch * problem.heads
    walked_queries = heads * queries_read(problem, block_q, block_k)
    walked_keys = heads * keys_read(problem, block_q, block_k)
    a_row = problem.head_dim * one
    return [
        Access("delta", "reduce", "O", read_bytes=rows),
        Access("delta", "reduce", "dO", read_bytes=rows),
        Access("delta", "reduce", "delta", written_bytes=statistic),
        Access("dK, dV", "attention", "K", read_bytes=rows),
        Access("dK, dV", "attention", "V", read_bytes=rows),
        Access("dK, dV", "attention", "Q", read_bytes=walked_queries * a_row),
        Access("dK, dV", "attention", "dO", read_bytes=walked_queries * a_row),
        Access("dK, dV", "attention", "lse", read_bytes=walked_queries * STATISTIC_BYTES),
        Access("dK, dV", "attention", "delta", read_bytes=walked_queries * STATISTIC_BYTES),
        Access("dK, dV", "attention", "dK", written_bytes=rows),
        Access("dK, dV", "attention", "dV", written_bytes=rows),
        Access("dQ", "attention", "Q", read_bytes=rows),
        Access("dQ", "attention", "dO", read_bytes=rows),
        Access("dQ", "attention", "lse", read_bytes=statistic),
        Access("dQ", "attention", "delta", read_bytes=statistic),
        Access("dQ", "attention", "K", read_bytes=walked_keys * a_row),
        Access("dQ", "attention", "V", read_bytes=walked_keys * a_row),
        Access("dQ", "attention", "dQ", written_bytes=rows),
    ]


def queries_read(problem: AttentionProblem, block_q: int, block_k: int) -> int:
    """How many queries the key tiles of one head read in all: whole tiles, from the first seen.

    Of self-attention. A tile of queries is read when its last query sees the tile's first key;
    rows past q_len are masked lanes and do not count.
    """
    total = 0
    for first_key in range(0, problem.kv_len, block_k):
        first = first_key // block_q * block_q if problem.causal else 0
        total += problem.q_len - first
    return total
