"""Begin and end events ("ph": "B" and "E") -> complete events."""

from __future__ import annotations

import numpy as np

from attnlab_helpers.profiling.traces.event import Event
from attnlab_helpers.profiling.traces.notes import NoteCollector
from attnlab_helpers.profiling.traces.times import nanoseconds


def join_pairs(
    halves: list[Event], notes: NoteCollector
) -> tuple[list[Event], np.ndarray, np.ndarray]:
    """Give each end to the innermost begin still open on its thread.

    Returns (the begin events, their start, their duration; both int64 nanoseconds). Halves
    without a partner are left out and noted.
    """
    times, readable = nanoseconds([event.ts for event in halves])
    lost = [halves[row].name for row in np.flatnonzero(~readable)]
    waiting: dict[tuple[int | str, int | str], list[tuple[Event, int]]] = {}
    joined: list[tuple[Event, int, int]] = []
    for row in np.argsort(times, kind="stable"):
        if not readable[row]:
            continue
        event, time = halves[row], int(times[row])
        thread = waiting.setdefault((event.pid, event.tid), [])
        if event.ph == "B":
            thread.append((event, time))
        elif thread:
            begin, start = thread.pop()
            joined.append((begin, start, time - start))
        else:
            lost.append(event.name)
    lost += [begin.name for thread in waiting.values() for begin, _ in thread]
    if lost:
        notes.add(
            "dropped",
            "had a begin or an end but not both; left out.",
            count=len(lost),
            first=lost[0],
        )
    notes.add(
        "info",
        "of begin and end events, each joined to one event.",
        noun="pair",
        count=len(joined),
    )
    return (
        [begin for begin, _, _ in joined],
        np.array([start for _, start, _ in joined], np.int64),
        np.array([duration for _, _, duration in joined], np.int64),
    )
