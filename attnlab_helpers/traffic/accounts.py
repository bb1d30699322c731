"""The ledger: one row a tensor, with what the formula says, what was counted, what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..problem import AttentionProblem
from ..profiling import describe_kernel
from ..result import Measurement
from .counted import check_counts, times_to_count
from .counts import Counts
from .formulas import UNFUSED, formula, tile_note, tile_of
from .nsight_csv import METRICS, name_in_source

if TYPE_CHECKING:
    from ..plots.table import Table

Rows = Measurement | pd.DataFrame | Sequence[Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class Ledger:
    """One forward call's traffic from up to three sources.

    frame: one row a tensor and one "total": formula_read_bytes, formula_written_bytes,
    formula_bytes; counted_bytes and counted_off_percent where a kernel was counted; in the row
    "total" measured_bytes and measured_off_percent where counters were read (they know kernels,
    not tensors). "Off" is against the formula. steps: one row a step, with the kernel that was
    measured for it. sources: column family -> where it comes from. notes: what to know besides.
    """

    implementation: str
    problem: AttentionProblem
    frame: pd.DataFrame
    steps: pd.DataFrame
    sources: Mapping[str, str]
    notes: tuple[str, ...] = field(default=())

    @property
    def provenance(self) -> str:
        """The source of each kind of column, in one line, and the notes."""
        said = "; ".join(f"{column}: {source}" for column, source in self.sources.items())
        return ". ".join([said, *self.notes])

    def table(self) -> Table:
        """`frame` ready to be shown, with its sources below the caption."""
        return self._shown(self.frame, "Bytes a tensor")

    def step_table(self) -> Table:
        """`steps` ready to be shown."""
        return self._shown(self.steps, "Bytes a step")

    def _shown(self, frame: pd.DataFrame, what: str) -> Table:
        from ..plots.table import Table  # pictures stand to the right; loaded when asked for

        caption = f"{what}: {self.implementation} on {self.problem.label}"
        return Table(frame, caption, self.provenance)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def __repr__(self) -> str:
        return str(self.table())


def ledger(
    implementation: str,
    problem: AttentionProblem,
    *,
    counts: Counts | None = None,
    counters: Rows | None = None,
    block_q: int | None = None,
    block_k: int | None = None,
    statistics: bool | None = None,
) -> Ledger:
    """Lay formula, count and measurement of one forward call side by side.

    implementation, block_q, block_k, statistics: as in `formula`; None takes those of the counts,
    if `count_tiled` made them. counts: of the same problem, from `count` or `count_tiled`, with
    the tensors' names Q, K, V, O, statistics; or of a part of its heads, which is multiplied, and
    a note says so. What can be compared is (see `counted.check_counts`). counters: what
    `counters` returned, or a Measurement of it, which brings its provenance. Steps and kernels
    are matched in order by the kind of work; steps that no kernel was measured for, such as a
    copy, are left out of the comparison of totals, and a note says so.

    Raises ValueError for an unknown implementation or counts of another problem, TypeError for
    what are no counts.
    """
    if counts is not None:
        check_counts(counts, implementation, problem)
        block_q, block_k, statistics = (
            counts.about.get(name) if asked is None else asked
            for name, asked in (
                ("block_q", block_q),
                ("block_k", block_k),
                ("statistics", statistics),
            )
        )
    expected = formula(
        implementation, problem, block_q=block_q, block_k=block_k, statistics=statistics
    )
    both = ["read_bytes", "written_bytes"]
    frame = expected.groupby("tensor", sort=False)[both].sum().add_prefix("formula_")
    frame["formula_bytes"] = frame.sum(axis=1)
    sources = {"formula": _rule(implementation, problem, block_q, block_k)}
    note = tile_note(implementation, problem, block_q, block_k)
    notes = [note] if note else []
    if counts is not None:
        times = times_to_count(counts, problem)
        if times != 1:
            notes.append(f"Counted for one of {times} equal parts of the heads, times {times}")
        names = [*frame.index, *(n for n in counts.frame["tensor"] if n not in frame.index)]
        frame = frame.reindex(names, fill_value=0)
        known = set(counts.frame["tensor"])
        frame["counted_bytes"] = [times * sum(counts.bytes(n)) if n in known else 0 for n in names]
        sources["counted"] = counts.source
    frame.loc["total"] = frame.sum()
    frame = frame.astype("Int64")
    if counts is not None:
        off = _off_percent(frame["counted_bytes"], frame["formula_bytes"])
        frame["counted_off_percent"] = off
    steps = _by_step(expected)
    if counters is not None:
        rows, sources["measured"] = _rows_and_source(counters)
        steps, missing = _with_kernels(steps, rows)
        total = int(rows[["dram_read_bytes", "dram_written_bytes"]].to_numpy().sum())
        compared = int(frame.loc["total", "formula_bytes"]) - missing
        frame["measured_bytes"] = pd.Series({"total": total}, dtype="Int64").reindex(frame.index)
        off = (total - compared) / compared * 100 if compared else float("nan")
        frame["measured_off_percent"] = pd.Series({"total": off}).reindex(frame.index)
        unmeasured = list(steps.loc[steps["kernel"] == "", "step"])
        if unmeasured:
            notes.append(
                f"No kernel was measured for: {', '.join(unmeasured)} ({missing:,} bytes by the "
                "formula); the measured total is compared without it"
            )
    return Ledger(
        implementation,
        problem,
        frame.rename_axis("tensor").reset_index(),
        steps,
        sources,
        tuple(notes),
    )


def _rule(
    implementation: str, problem: AttentionProblem, block_q: int | None, block_k: int | None
) -> str:
    if implementation in UNFUSED:
        return "each step reads its inputs and writes its output once"
    queries, keys = tile_of(implementation, problem, block_q, block_k)
    return f"K and V once a tile of {queries} queries, in tiles of {keys} keys; Q and O once"


def _off_percent(value: pd.Series, against: pd.Series) -> pd.Series:
    """NaN where the formula says 0 and the other does not; 0 where both do."""
    value, against = value.astype(float), against.astype(float)
    off = (value - against) / against.where(against != 0) * 100
    return off.mask((value == 0) & (against == 0), 0.0)


def _by_step(expected: pd.DataFrame) -> pd.DataFrame:
    grouped = expected.groupby(["step", "work"], sort=False)[["read_bytes", "written_bytes"]]
    return grouped.sum().add_prefix("formula_").reset_index()


def _rows_and_source(counters: Rows) -> tuple[pd.DataFrame, str]:
    if isinstance(counters, Measurement):
        return counters.frame, f"Nsight Compute, {counters.provenance}"
    rows = counters if isinstance(counters, pd.DataFrame) else pd.DataFrame(list(counters))
    columns = ["kernel", *METRICS.values()]
    missing = [name for name in columns if name not in rows]
    if missing:
        raise ValueError(f"counters must be what traffic.counters returns; missing: {missing}.")
    return rows, "Nsight Compute (a Measurement of these rows would name the GPU)"


def _with_kernels(steps: pd.DataFrame, rows: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Steps with the kernels measured for them, and the formula's bytes without a kernel."""
    about = [describe_kernel(name_in_source(name)) for name in rows["kernel"]]
    pairs = _in_order(list(steps["work"]), [one.work for one in about])
    if len(steps) == 1 and len(about) == 1:  # nothing to mistake, whatever it is called
        pairs = [(0, 0)]
    measured = rows[list(METRICS.values())].add_prefix("measured_").astype("Int64")
    measured.insert(0, "kernel", [one.label for one in about])
    measured.index = pd.RangeIndex(len(measured))
    place_of = {kernel: step for step, kernel in pairs}
    # Kernels that no step stands for follow at the end, so that nothing measured is hidden.
    places = [place_of.get(kernel, len(steps) + kernel) for kernel in measured.index]
    found = steps.reset_index(drop=True).join(measured.set_axis(places), how="outer")
    without = found["kernel"].isna()
    found["kernel"] = found["kernel"].fillna("")
    found["step"] = found["step"].fillna("(not in the formula)")
    found["work"] = found["work"].fillna("")
    formulas = ["formula_read_bytes", "formula_written_bytes"]
    found[formulas] = found[formulas].astype("Int64")
    dram = found["measured_dram_read_bytes"] + found["measured_dram_written_bytes"]
    of_formula = found[formulas].sum(axis=1, min_count=1)
    found["measured_off_percent"] = (dram.astype(float) / of_formula.astype(float) - 1) * 100
    missing = int(found.loc[without, formulas].sum().sum())
    return found.reset_index(drop=True), missing


def _in_order(left: list[str], right: list[str]) -> list[tuple[int, int]]:
    """The longest run of equal words in both lists, in order (longest common subsequence)."""
    best: list[list[int]] = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in reversed(range(len(left))):
        for j in reversed(range(len(right))):
            if left[i] == right[j]:
                best[i][j] = best[i + 1][j + 1] + 1
            else:
                best[i][j] = max(best[i + 1][j], best[i][j + 1])
    pairs, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if left[i] == right[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs
