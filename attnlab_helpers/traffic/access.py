"""One line of a formula: what a step of attention reads and writes of one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import pandas as pd

from ..problem import AttentionProblem

STATISTIC_BYTES = 4  # a log-sum-exp a row, float32 in every implementation here


@dataclass(frozen=True)
class Access:
    """A step's traffic with one tensor, in bytes.

    step: its name; work: what kind of kernel it is, in `profiling.describe_kernel`'s words, so
    that a measured kernel can be laid beside it; tensor: "Q", "K", "V", "S" (scores), "P"
    (weights), "O" (output), "mask" or "statistics".
    """

    step: str
    work: str
    tensor: str
    read_bytes: int = 0
    written_bytes: int = 0


COLUMNS = ["step", "work", "tensor", "read_bytes", "written_bytes"]


def as_frame(accesses: Sequence[Access]) -> pd.DataFrame:
    """One row an access, in order."""
    return pd.DataFrame([astuple(one) for one in accesses], columns=COLUMNS)


@dataclass(frozen=True)
class Sizes:
    """How many numbers each tensor of a problem holds. Made by `Sizes.of(problem)`.

    queries: of Q, and of O; keys: of K, and of V; repeated: of K once every head has been
    repeated for the query heads that share it; scores: of S, and of P; triangle: of one head's
    mask, (q_len, kv_len); rows: of all heads' score rows.
    """

    queries: int
    keys: int
    repeated: int
    scores: int
    triangle: int
    rows: int

    @classmethod
    def of(cls, problem: AttentionProblem) -> Sizes:
        """The sizes of one call on `problem`."""
        all_heads = problem.batch * problem.heads
        return cls(
            queries=all_heads * problem.q_len * problem.head_dim,
            keys=problem.batch * problem.kv_heads * problem.kv_len * problem.head_dim,
            repeated=all_heads * problem.kv_len * problem.head_dim,
            scores=all_heads * problem.q_len * problem.kv_len,
            triangle=problem.q_len * problem.kv_len,
            rows=all_heads * problem.q_len,
        )


def has_dead_rows(problem: AttentionProblem) -> bool:
    """Whether some queries see no key: then their rows are set to zero by a step of its own."""
    return problem.causal == "lower_right" and problem.q_len > problem.kv_len > 0
