"""The theory of attention's traffic: FlashAttention's two orders of growth, and a bound by time."""

from __future__ import annotations

import math
import numbers

from ..problem import AttentionProblem


def io_standard(problem: AttentionProblem) -> float:
    """Numbers that attention in separate steps moves, without constants: N d + N^2 a head.

    FlashAttention, arXiv 2205.14135, theorem 2. With two lengths N d is their mean times d, and
    N^2 is q_len x kv_len. Times all heads. Causal or not is a constant and left out.
    """
    all_heads = problem.batch * problem.heads
    return all_heads * (_linear(problem) + problem.q_len * problem.kv_len)


def io_flash(problem: AttentionProblem, sram_bytes: int) -> float:
    """Numbers that FlashAttention moves, without constants: N^2 d^2 / M a head.

    M is how many numbers of the problem's dtype the on-chip memory holds (sram_bytes of it, a
    multiprocessor's). Theorem 2 of arXiv 2205.14135 holds for d <= M <= N d. Beyond that a
    head's keys and values fit whole, and reading each number once, N d, is what remains: the
    two meet at M = N d. ValueError when not even a row of d numbers fits, and for what is no
    number of bytes.
    """
    if isinstance(sram_bytes, bool) or not isinstance(sram_bytes, numbers.Real):
        raise ValueError(f"sram_bytes must be a number of bytes, not {sram_bytes!r}.")
    if not 0 < sram_bytes < math.inf:
        raise ValueError(f"sram_bytes must be above 0 and finite, not {sram_bytes}.")
    capacity = sram_bytes / problem.element_bytes
    if capacity < problem.head_dim:
        raise ValueError(
            f"sram_bytes={sram_bytes} holds {capacity:.0f} numbers of {problem.dtype}, fewer than "
            f"one row of head_dim={problem.head_dim}; the theorem needs at least that."
        )
    squared = problem.q_len * problem.kv_len * problem.head_dim**2 / capacity
    return problem.batch * problem.heads * max(_linear(problem), squared)


def time_bound(duration_ns: float, bandwidth: float) -> float:
    """The most bytes that can have crossed a bus of `bandwidth` bytes/s in `duration_ns`.

    A measured time bounds traffic from above without any counter. ValueError for negative input.
    """
    if not (duration_ns >= 0 and bandwidth >= 0):
        raise ValueError("a time and a bandwidth are not negative.")
    return duration_ns * bandwidth / 1e9


def _linear(problem: AttentionProblem) -> float:
    return (problem.q_len + problem.kv_len) / 2 * problem.head_dim
