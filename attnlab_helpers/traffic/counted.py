"""Whether counts are of the problem that they are laid beside, and of how much of it."""

from __future__ import annotations

import math

from ..problem import AttentionProblem
from .access import has_dead_rows
from .counts import Counts

NEEDED = ("Q", "K", "V", "O")


def check_counts(counts: object, implementation: str, problem: AttentionProblem) -> None:
    """Raise ValueError for counts that cannot be of this problem, TypeError for no counts.

    Compared are the tensors' names and shapes; the implementation, dtype and masking that were
    counted, where the counts know them; and the bytes of Q and O that were touched, each
    element once: they are those of the whole tensors, in the problem's dtype.
    """
    if not isinstance(counts, Counts):
        raise TypeError(
            f"counts must be what traffic.count or count_tiled returns, not a "
            f"{type(counts).__name__}."
        )
    missing = [name for name in NEEDED if name not in counts.shapes]
    if missing:
        raise ValueError(
            f"what was counted has no {', '.join(missing)}; its tensors are "
            f"{', '.join(counts.shapes) or 'without names'}. Name Q, K, V and O when counting."
        )
    times_to_count(counts, problem)
    _check_settings(counts, implementation, problem)
    for name in ("Q", "O"):
        frame = counts.frame.set_index("tensor")
        touched = int(frame.loc[name, "distinct_bytes"])
        whole = math.prod(counts.shapes[name]) * problem.element_bytes
        # A kernel need not look at queries that see no key, or at any where there are no keys.
        may_be_less = has_dead_rows(problem) or problem.kv_len == 0
        if touched != whole and not (may_be_less and touched < whole):
            raise ValueError(
                f"what was counted is another problem: {touched:,} bytes of {name} were touched, "
                f"and it has {whole:,} in {problem.dtype}. Count with element_bytes=problem."
            )


def times_to_count(counts: Counts, problem: AttentionProblem) -> int:
    """How many times what was counted makes the problem: 1, or more for a part of its heads."""
    queries, keys = counts.shapes["Q"], counts.shapes["K"]
    same = queries[-2:] == (problem.q_len, problem.head_dim)
    same = same and keys[-2:] == (problem.kv_len, problem.head_dim)
    counted, whole = math.prod(queries[:-2]), problem.batch * problem.heads
    if not same or counted > whole or (counted != whole and (not counted or whole % counted)):
        raise ValueError(
            f"what was counted is another problem: its Q has shape {queries} and its K {keys}, "
            f"which do not fit {problem.label}. Count the same lengths and head_dim, all heads or "
            "an equal part of them."
        )
    return whole // counted if counted else 1


def _check_settings(counts: Counts, implementation: str, problem: AttentionProblem) -> None:
    """What the counts know about themselves must be the same; heads and batch may be fewer."""
    known, asked = {}, {}
    if "problem" in counts.about:
        counted = AttentionProblem(**counts.about["problem"])
        for settings, one in ((known, counted), (asked, problem)):
            square = one.q_len == one.kv_len  # then both kinds of causal mask are the same
            settings |= {"dtype": one.dtype, "causal": bool(one.causal) if square else one.causal}
    if "implementation" in counts.about:
        known["implementation"] = counts.about["implementation"]
        asked["implementation"] = implementation
    for name, value in known.items():
        if value != asked[name]:
            raise ValueError(
                f"what was counted is another problem: it has {name}={value!r}, and this is "
                f"{asked[name]!r}."
            )
