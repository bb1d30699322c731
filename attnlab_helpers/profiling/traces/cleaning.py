"""Times that cannot be true: which they are, and what becomes of them.

The rules, in this order; each leaves a note with its count and one example:

1. No time. Several events at time 0 with duration 0, beside others that have a time: their times
   were never written. Left out.
2. Another clock. An event that starts more than a day from the middle (median) of all starts: no
   profile lasts a day, and one such event would squeeze the rest to a line. Left out.
3. Negative duration. The start stays, the duration is shown as 0 ns.
4. Absurd duration. An event that ends more than an hour, and more than ten times the span of all
   starts, after the last start: whatever really takes that long is followed or accompanied by
   something. (Seen: 2^64 ns less a little, from a counter that ran backwards.) The start stays,
   the duration is shown as 0 ns: any other number would be made up.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnlab_helpers.profiling.traces.notes import NoteCollector

HOUR = 3_600 * 10**9
DAY = 24 * HOUR


def clean_times(
    start: np.ndarray,
    duration: np.ndarray,
    notes: NoteCollector,
    name_of: Callable[[int], str],
) -> np.ndarray:
    """Apply the rules above: `duration` is changed in place; returns the rows to keep (bool)."""
    keep = np.ones(len(start), bool)
    timeless = (start == 0) & (duration == 0)
    if timeless.all():
        notes.add(
            "info", "carried no time at all: every start and duration is 0.", count=len(start)
        )
        return keep

    def note(kind: str, what: str, rows: np.ndarray) -> None:
        found = np.flatnonzero(rows)
        if len(found):
            notes.add(kind, what, count=len(found), first=name_of(int(found[0])))

    if timeless.sum() > 1:
        note("dropped", "had time 0 and duration 0, so no time at all; left out.", timeless)
        keep &= ~timeless
    # In float64: the difference of two int64 may not fit one, and a day needs no nanosecond.
    middle = float(np.median(start[keep]))
    astray = keep & (np.abs(start.astype(np.float64) - middle) > DAY)
    note("dropped", "started more than a day away from the rest of the trace; left out.", astray)
    keep &= ~astray

    negative = keep & (duration < 0)
    note("clipped", "had a negative duration; shown as 0 ns.", negative)
    duration[negative] = 0

    first, last = int(start[keep].min()), int(start[keep].max())
    reach = max(HOUR, 10 * (last - first))
    absurd = keep & (start.astype(np.float64) + duration - last > reach)
    note(
        "clipped",
        "had an absurd duration, to an hour or more after all else began; shown as 0 ns.",
        absurd,
    )
    duration[absurd] = 0
    return keep
