"""What one run leaves behind: its trace, kernels, operators, time, memory and provenance."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd
import torch

from .machine import Provenance
from .profiling import CALL, TimeStats, Trace, describe_kernel, label_kernels

if TYPE_CHECKING:
    from .plots.timeline import Timeline


@dataclass(frozen=True, eq=False)
class Run:
    """What one implementation did on one problem.

    name, label: what ran, and how to call it in pictures. problem: its label.
    output: the result of a live run; None when recorded (the digest remains).
    digest: a hash of the output's bytes: equal digests, equal numbers.
    trace: all captured calls. time: TimeStats, or None. peak_memory: bytes above what was held
    before, or None on a CPU. time, cpu_time_ns and the timeline are None or refused where
    Triton's interpreter ran kernels.
    """

    name: str
    label: str
    problem: str
    direction: str
    output: torch.Tensor | None
    digest: str | None
    trace: Trace
    time: TimeStats | None
    peak_memory: int | None
    provenance: Provenance

    @functools.cached_property
    def calls(self) -> list[Trace]:
        """The captured calls, one Trace each."""
        return self.trace.within(CALL)

    @functools.cached_property
    def call_trace(self) -> Trace:
        """One captured call, the one of median CPU time: what the tables and pictures show."""
        in_order = sorted(self.calls, key=_cpu_time)
        return in_order[len(in_order) // 2]

    @functools.cached_property
    def kernels(self) -> pd.DataFrame:
        """One row per GPU activity of one call, in order of start; times in nanoseconds.

        Adds to the trace's columns: label and work (what the name tells), operator_name (the
        CPU operator that launched it) and mean_ns (over all captured calls).
        """
        kernels = self.call_trace.kernels.copy()
        labels = label_kernels(kernels["name"])
        kernels.insert(0, "label", [labels[name] for name in kernels["name"]])
        kernels.insert(1, "work", [describe_kernel(name).work for name in kernels["name"]])
        names = self.call_trace.operators["name"]
        kernels["operator_name"] = [names.get(row, "") for row in kernels["operator"]]
        same = [
            call.kernels
            for call in self.calls
            if list(call.kernels["name"]) == list(kernels["name"])
        ]
        kernels["mean_ns"] = sum(one["duration_ns"].to_numpy() for one in same) / max(len(same), 1)
        return kernels

    @property
    def operators(self) -> pd.DataFrame:
        """The CPU operators of one call, as a tree: see `Trace.operators`."""
        return self.call_trace.operators

    @property
    def gpu_time_ns(self) -> int | None:
        """GPU work of one call: the sum of its activities, in nanoseconds (mean of the calls).

        None where Triton's interpreter ran kernels.
        """
        if self.provenance.kind == "interpreter":
            return None
        totals = [int(call.kernels["duration_ns"].sum()) for call in self.calls]
        return round(sum(totals) / len(totals))

    @property
    def cpu_time_ns(self) -> int | None:
        """How long the CPU was busy with one call, in nanoseconds (median of the calls).

        The profiler itself takes part of it, so compare it with other profiled calls only. None
        where Triton's interpreter ran kernels: its times say nothing.
        """
        return None if self.provenance.kind == "interpreter" else _cpu_time(self.call_trace)

    def operator_table(self) -> pd.DataFrame:
        """The profiler's table for one call: a row an operator name, times in nanoseconds.

        calls; cpu_total_ns and device_total_ns (children included); cpu_self_ns and
        device_self_ns (without them). Self columns add up to the whole; totals count nested
        time again. ValueError where Triton's interpreter ran kernels.
        """
        self.refuse_times("table of times")
        operators = self.operators
        table = operators.groupby("name", sort=False).agg(
            calls=("name", "size"),
            cpu_self_ns=("self_ns", "sum"),
            cpu_total_ns=("duration_ns", "sum"),
            device_self_ns=("self_device_ns", "sum"),
            device_total_ns=("device_ns", "sum"),
        )
        order = "device_total_ns" if table["device_total_ns"].any() else "cpu_total_ns"
        return table.sort_values(order, ascending=False, kind="stable").reset_index()

    def timeline(self, guess: bool = False) -> Timeline:
        """Draw this run's call over time. `guess` hides the labels until the reader asks.

        ValueError where Triton's interpreter ran kernels: it has no times to draw.
        """
        self.refuse_times("timeline")
        from .plots.timeline import timeline  # pictures stand to the right; loaded when asked for

        return timeline(self, guess=guess)

    def refuse_times(self, what: str) -> None:
        """ValueError that names `what` as missing where Triton's interpreter ran kernels."""
        if self.provenance.kind == "interpreter":
            raise ValueError(
                f"{self.label} ran in Triton's interpreter, whose times say nothing: there is no "
                f"{what}. On a GPU there is one, live or recorded."
            )

    def __repr__(self) -> str:
        return (
            f"<Run {self.label} on {self.problem}: {len(self.call_trace.kernels)} GPU activities, "
            f"{self.provenance}>"
        )


def _cpu_time(call: Trace) -> int:
    annotations = call.annotations
    return int(annotations.loc[annotations["name"] == CALL, "duration_ns"].iloc[0])


@dataclass(frozen=True, eq=False)
class Measurement:
    """A table of numbers and where they come from."""

    name: str
    frame: pd.DataFrame
    provenance: Provenance
