"""Events become columns: distinct texts once and a code an event, so that millions fit."""

from __future__ import annotations

import re
from collections.abc import Hashable

import numpy as np

from attnlab_helpers.profiling.traces.category import CATEGORIES, GPU_KINDS, category
from attnlab_helpers.profiling.traces.event import NO_ARGS, Event
from attnlab_helpers.profiling.traces.notes import NoteCollector
from attnlab_helpers.profiling.traces.pairs import join_pairs
from attnlab_helpers.profiling.traces.times import nanoseconds

_GPU_CODES = [CATEGORIES.index(name) for name in GPU_KINDS]
_SHAPE = re.compile(rb"\[\s*\d+\s*(?:,\s*\d+\s*){0,2}\]")
# Kineto's own stream numbers are small; older files write "stream 7".
_LANE = re.compile(r"(?:stream\s+)?(\d{1,9})", re.IGNORECASE)


class Codes(dict):
    """Distinct values numbered in the order they come: `codes[value]` is the number of `value`."""

    def __missing__(self, value: Hashable) -> int:
        self[value] = number = len(self)
        return number


class Columns:
    """Takes events in blocks, keeps the complete ones as columns, notes what it leaves out.

    Attributes, complete after `finish`:
        events: name -> array, one entry an event; name, pid and tid are codes into `names`,
            `pids`, `tids`; category is a code into `CATEGORIES`.
        gpu: name -> array, one entry a GPU activity; `event` is its row in `events`.
    """

    def __init__(self, notes: NoteCollector) -> None:
        self.notes = notes
        self.names = Codes()
        self.pids = Codes()
        self.tids = Codes()
        self.phases: set[str] = set()
        self.events: dict[str, np.ndarray] = {}
        self.gpu: dict[str, np.ndarray] = {}
        self._count = 0
        self._categories: dict[tuple[str, int | str], int] = {}
        self._shapes: dict[bytes, str] = {}
        self._halves: list[Event] = []
        self._blocks: list[dict[str, np.ndarray]] = []
        self._gpu_blocks: list[dict[str, np.ndarray]] = []

    def add(self, events: list[Event]) -> None:
        """Keep the complete events ("ph": "X") of `events`; begins and ends wait for each other.

        Flows, counters, instants (memory events are such) and metadata span no time: left out.
        """
        self.phases.update({event.ph for event in events})
        self._halves += [event for event in events if event.ph == "B" or event.ph == "E"]
        complete = [event for event in events if event.ph == "X"]
        start, readable = nanoseconds([event.ts for event in complete])
        duration, known = nanoseconds([event.dur for event in complete])
        if not readable.all():
            lost = np.flatnonzero(~readable)
            self.notes.add(
                "dropped",
                "had no readable start time; left out.",
                count=len(lost),
                first=complete[lost[0]].name,
            )
            complete = [complete[row] for row in np.flatnonzero(readable)]
            start, duration, known = start[readable], duration[readable], known[readable]
        if not known.all():
            unknown = np.flatnonzero(~known)
            self.notes.add(
                "clipped",
                "had no readable duration; shown as 0 ns.",
                count=len(unknown),
                first=complete[unknown[0]].name,
            )
        self._append(complete, start, duration)

    def finish(self) -> None:
        """Join what is left to join, and make `events` and `gpu`."""
        if self._halves:
            self._append(*join_pairs(self._halves, self.notes))
            self._halves = []
        if not self._blocks:
            nothing = np.zeros(0, np.int64)
            self._append([], nothing, nothing)
        self.events = _joined(self._blocks)
        self.gpu = _joined(self._gpu_blocks)

    def _append(self, events: list[Event], start: np.ndarray, duration: np.ndarray) -> None:
        names, pids, tids = self.names, self.pids, self.tids
        codes = np.array([self._category(event) for event in events], np.int8)
        args = [event.args or NO_ARGS for event in events]
        self._blocks.append(
            {
                "name": np.array([names[event.name] for event in events], np.int32),
                "category": codes,
                "start_ns": start,
                "duration_ns": duration,
                "pid": np.array([pids[event.pid] for event in events], np.int32),
                "tid": np.array([tids[event.tid] for event in events], np.int32),
                "correlation": np.array([said.correlation for said in args], np.int64),
            }
        )
        rows = np.flatnonzero(np.isin(codes, _GPU_CODES))
        self._gpu_blocks.append(self._details([events[row] for row in rows], rows + self._count))
        self._count += len(events)

    def _category(self, event: Event) -> int:
        key = (event.cat, "" if event.cat else event.pid)
        code = self._categories.get(key)
        if code is None:
            code = self._categories[key] = CATEGORIES.index(category(*key))
        return code

    def _details(self, events: list[Event], rows: np.ndarray) -> dict[str, np.ndarray]:
        said = [event.args or NO_ARGS for event in events]
        # Kineto writes the device as pid and the stream as tid too: used where args are silent.
        pairs = list(zip(events, said, strict=True))
        device = [_lane(e.pid) if a.device < 0 else a.device for e, a in pairs]
        stream = [_lane(e.tid) if a.stream < 0 else a.stream for e, a in pairs]
        return {
            "event": rows,
            "device": np.array(device, np.int64),
            "stream": np.array(stream, np.int64),
            "grid": np.array([self._shape(bytes(a.grid)) for a in said], object),
            "block": np.array([self._shape(bytes(a.block)) for a in said], object),
            "registers": np.array([a.registers for a in said], np.int64),
            "shared_bytes": np.array([a.shared_bytes for a in said], np.int64),
            "occupancy_percent": np.array([a.occupancy_percent for a in said], np.float64),
            "bytes": np.array([a.bytes for a in said], np.int64),
        }

    def _shape(self, written: bytes) -> str:
        """`[64, 8, 1]` -> `64x8x1`; anything else -> nothing."""
        shape = self._shapes.get(written)
        if shape is None:
            shape = ""
            if _SHAPE.fullmatch(written):
                shape = "x".join(re.findall(r"\d+", written.decode()))
            self._shapes[written] = shape
        return shape


def _joined(blocks: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def _lane(written: int | str) -> int:
    found = _LANE.fullmatch(str(written))
    return int(found[1]) if found else -1
