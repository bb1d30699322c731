"""Several runs side by side: one table, one picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd
import torch

from .result import Run

if TYPE_CHECKING:
    from .plots.table import Table
    from .plots.timeline import Timeline


@dataclass(frozen=True)
class Comparison:
    """Runs in the order they were given."""

    runs: tuple[Run, ...]

    @property
    def table(self) -> pd.DataFrame:
        """One row a run. Times in nanoseconds, memory in bytes; None where nothing was measured.

        result says how the output compares with the first run's: "same bytes", the largest
        difference, another shape, or "not known" (recorded outputs are kept as hashes only).
        gpu_activities, gpu_time_ns (a mean) and cpu_time_ns (a median) are of one profiled
        call; median_ns, p20_ns and p80_ns are timed without the profiler.
        """
        return pd.DataFrame(
            [
                {
                    "run": run.label,
                    "problem": run.problem,
                    "result": _against(self.runs[0], run),
                    "gpu_activities": len(run.kernels),
                    "gpu_time_ns": run.gpu_time_ns,
                    "cpu_time_ns": run.cpu_time_ns,
                    "median_ns": run.time.median_ns if run.time else None,
                    "p20_ns": run.time.p20_ns if run.time else None,
                    "p80_ns": run.time.p80_ns if run.time else None,
                    "peak_memory_bytes": run.peak_memory,
                    "provenance": str(run.provenance),
                }
                for run in self.runs
            ]
        )

    def timeline(self, guess: bool = False) -> Timeline:
        """The runs' timelines under one another on one scale. ValueError as `Run.timeline`."""
        for run in self.runs:
            run.refuse_times("timeline")
        from .plots.timeline import timeline  # pictures stand to the right; loaded when asked for

        return timeline(*self.runs, guess=guess)

    def _show(self) -> Table:
        from .plots.table import Table  # as above

        frame = self.table.drop(columns=["provenance"])
        if frame["problem"].nunique() == 1:
            caption = f"Side by side: {frame['problem'][0]}"
            frame = frame.drop(columns=["problem"])
        else:
            caption = "Side by side"
        origins = list(dict.fromkeys(self.table["provenance"]))
        if len(origins) > 1:
            frame.insert(1, "measured", self.table["provenance"])
        return Table(frame, caption, "; ".join(origins))

    def _repr_html_(self) -> str:
        return self._show()._repr_html_()

    def __repr__(self) -> str:
        return repr(self._show())


def _against(first: Run, run: Run) -> str:
    if run is first:
        if first.output is not None and not bool(torch.isfinite(first.output).all()):
            return "first, not finite"
        return "first"
    if (run.problem, run.direction) != (first.problem, first.direction):
        return "other problem"
    if run.digest is not None and run.digest == first.digest:
        return "same bytes"
    if run.output is None or first.output is None:
        return "not known" if run.digest is None else "other bytes"
    if run.output.shape != first.output.shape:
        return f"other shape {tuple(run.output.shape)}"
    difference = (run.output.double().cpu() - first.output.double().cpu()).abs()
    if not bool(torch.isfinite(difference).all()):
        return "not finite"
    return f"differs by {float(difference.max()) if difference.numel() else 0.0:.1e}"


def compare(*runs: Run) -> Comparison:
    """Put runs side by side. ValueError without any; TypeError for what is not a Run."""
    if not runs:
        raise ValueError("compare needs at least one run, such as compare(run('naive', problem)).")
    for one in runs:
        if not isinstance(one, Run):
            raise TypeError(
                f"compare takes Runs, not {type(one).__name__}; make one with run(...)."
            )
    return Comparison(runs)
