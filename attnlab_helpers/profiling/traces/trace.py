"""A trace: what CPU and GPU did while a function ran, as tables that point to each other."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from attnlab_helpers.profiling.traces.category import CATEGORIES, GPU_KINDS
from attnlab_helpers.profiling.traces.links import Nesting
from attnlab_helpers.profiling.traces.notes import Note, NoteCollector, TraceError
from attnlab_helpers.profiling.traces.tables import (
    launch_calls,
    link_gpu,
    operator_spans,
    operator_table,
    structure_notes,
)

__all__ = ["CATEGORIES", "Note", "Trace", "TraceError"]

# What a call leaves on the GPU's side of the file, by another way than its process and time.
_GPU_SIDE = (*GPU_KINDS, "gpu_user_annotation", "cuda_sync")


class Trace:
    """A profile, read. Made by `read_trace`, `parse_trace` or `capture`; do not change its tables.

    All times are integer nanoseconds as in the file, not shifted. All tables have labels 0, 1, ...
    and are sorted by `start_ns`; a column that points to a row of another table holds its label,
    or -1 for none.

    Attributes:
        events: every complete event. Columns: name (str, in full; control characters written
            out), category (one of `CATEGORIES`), start_ns, duration_ns (int64), pid, tid (str),
            correlation (int64, -1 = none).
        source: the file's name without its folder, or "live capture".
        device_properties: what the file says of each GPU (may be empty).
        raw: the file as it was read, if that is small enough to keep, else None.
    """

    def __init__(
        self,
        events: pd.DataFrame,
        gpu_details: pd.DataFrame,
        *,
        reading_notes: tuple[Note, ...] = (),
        source: str = "live capture",
        device_properties: tuple[dict[str, Any], ...] = (),
        raw: bytes | None = None,
    ) -> None:
        """Take tables as the reader makes them.

        `gpu_details` has one row a GPU activity, in the order of `events`: event (its label there),
        device, stream, grid, block, registers, shared_bytes, occupancy_percent, bytes.
        """
        self.events = events
        self.source = source
        self.device_properties = device_properties
        self.raw = raw
        self._gpu_details = gpu_details
        self._reading_notes = reading_notes

    def __repr__(self) -> str:
        return (
            f"<Trace of {self.source!r}: {len(self.events):,} events, "
            f"{len(self.kernels):,} GPU activities, {len(self.notes)} notes>"
        )

    @cached_property
    def kernels(self) -> pd.DataFrame:
        """What the GPU did: kernels, copies and fills.

        Columns: name, kind ("kernel", "memcpy", "memset"), start_ns, duration_ns, device, stream
        (-1 unknown), correlation, grid, block ("64x8x1", "" unknown), registers (a thread, -1
        unknown), shared_bytes (a block, -1 unknown), occupancy_percent (the profiler's estimate,
        nan unknown), bytes (of a copy or fill, -1 unknown), launch (label in `launches`, -1: none
        on record), operator (label in `operators` of the innermost CPU operator around the launch).
        """
        return self._linked[0]

    @cached_property
    def launches(self) -> pd.DataFrame:
        """The CUDA calls that started GPU activities.

        Columns: name, start_ns, duration_ns, pid, tid, correlation, activities (how many it
        started; a CUDA graph starts many), operator (label in `operators`, -1: none around it).
        """
        return self._linked[1]

    @cached_property
    def unanswered_launches(self) -> pd.DataFrame:
        """The calls that would be launches, when not one GPU activity is on record; else no row.

        So it is in a file that was cut off (the GPU's side comes last) or when the profiler could
        not record the GPU. Columns: name, start_ns, duration_ns, pid, tid, correlation.
        """
        calls = launch_calls(self.events)
        return calls if self.kernels.empty else calls[:0]

    @cached_property
    def operators(self) -> pd.DataFrame:
        """PyTorch's CPU operators as trees, one a thread.

        Columns: name, start_ns, duration_ns, self_ns (without children), pid, tid, depth (0 =
        outermost), parent (label, -1), device_ns (GPU time launched inside, children included),
        self_device_ns (children excluded).
        """
        return operator_table(*self._operator_spans, self.kernels)

    @cached_property
    def annotations(self) -> pd.DataFrame:
        """Spans that the user named (record_function).

        Columns: name, start_ns, duration_ns, pid, tid.
        """
        columns = ["name", "start_ns", "duration_ns", "pid", "tid"]
        chosen = (self.events["category"] == "user_annotation").to_numpy()
        return self.events.loc[chosen, columns].reset_index(drop=True)

    @cached_property
    def notes(self) -> tuple[Note, ...]:
        """What was dropped, clipped, repaired, not linked; empty when there is nothing to say."""
        found = structure_notes(self.events, self.kernels, self.launches, self._operator_spans[1])
        return (*self._reading_notes, *found)

    def within(self, annotation: str) -> list[Trace]:
        """One trace for each span that the user named `annotation`, in order.

        It holds what the CPU began during the span, on any thread of its process (backward runs on
        a thread of its own), and the GPU activities launched by that, wherever they ran in time.
        Activities without a launch on record belong to no span; a note counts them. An empty list
        when no span has that name: `trace.annotations["name"].unique()` lists those there are.
        """
        events = self.events
        spans = self.annotations[(self.annotations["name"] == annotation).to_numpy()]
        if spans.empty:
            return []
        start = events["start_ns"].to_numpy()
        pid = events["pid"].to_numpy()
        on_cpu = ~events["category"].isin(_GPU_SIDE).to_numpy()
        correlation = events["correlation"].to_numpy()
        by_number = (events["category"] == "cuda_sync").to_numpy() & (correlation > 0)
        launch = self.kernels["launch"].to_numpy()
        activity_rows = self._gpu_details["event"].to_numpy()
        unclaimed = NoteCollector()
        unclaimed.add(
            "unlinked",
            f"of the whole capture have no launch on record, so no {annotation!r} can claim them.",
            noun="GPU activity",
            count=int((launch < 0).sum()),
        )
        parts = []
        for span in spans.itertuples():
            end = span.start_ns + span.duration_ns
            chosen = on_cpu & (start >= span.start_ns) & (start < end) & (pid == span.pid)
            inside = np.append(chosen[self._linked[2]], False)[launch]
            chosen[activity_rows[inside]] = True
            chosen |= by_number & np.isin(correlation, correlation[chosen & on_cpu])
            parts.append(self._part(chosen, unclaimed.notes()))
        return parts

    def to_bytes(self) -> bytes:
        """The file as it was read, for a recording.

        Raises:
            ValueError: it was not kept, because it was too large or this is a part of a trace.
        """
        if self.raw is None:
            raise ValueError(
                f"The bytes of {self.source!r} were not kept: it is larger than what is kept, or "
                "this is a part of a trace (Trace.within). Keep the file itself instead."
            )
        return self.raw

    def _part(self, chosen: np.ndarray, more_notes: tuple[Note, ...]) -> Trace:
        details = self._gpu_details
        details = details[chosen[details["event"].to_numpy()]].reset_index(drop=True)
        label = np.cumsum(chosen) - 1
        details["event"] = label[details["event"].to_numpy()]
        return Trace(
            self.events[chosen].reset_index(drop=True),
            details,
            reading_notes=self._reading_notes + more_notes,
            source=self.source,
            device_properties=self.device_properties,
        )

    @cached_property
    def _operator_spans(self) -> tuple[pd.DataFrame, Nesting]:
        return operator_spans(self.events)

    @cached_property
    def _linked(self) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
        """Kernels, launches, and the labels in `events` of the launches."""
        return link_gpu(self.events, self._gpu_details, *self._operator_spans)
