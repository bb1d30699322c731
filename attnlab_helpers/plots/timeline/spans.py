"""Spans: the bars of a lane as a table, stacked where they overlap, merged below a pixel."""

import heapq

import numpy as np
import pandas as pd

MAX_SUB_ROWS = 6

# name str | work str | start_ns, duration_ns int from the panel's zero | row int | number int (the
# activity's number in its panel, -1 none) | record int (row label in the trace's table, -1 when
# merged) | count int (events drawn as this bar) | busy_ns int (their durations added up)
COLUMNS = ("name", "work", "start_ns", "duration_ns", "row", "number", "record", "count", "busy_ns")


def make_spans(frame: pd.DataFrame, origin_ns: int, *, work="", row=0, number=-1) -> pd.DataFrame:
    """Bars for the rows of ``frame`` (name, start_ns, duration_ns), times from ``origin_ns``."""
    return pd.DataFrame(
        {
            "name": frame["name"].astype(object),
            "work": work,
            "start_ns": frame["start_ns"].astype("int64") - origin_ns,
            "duration_ns": frame["duration_ns"].astype("int64"),
            "row": row,
            "number": number,
            "record": frame.index,
            "count": 1,
            "busy_ns": frame["duration_ns"].astype("int64"),
        },
        columns=list(COLUMNS),
    ).reset_index(drop=True)


def stack_rows(starts: np.ndarray, durations: np.ndarray) -> np.ndarray:
    """A row for each bar so that bars of one row do not overlap; bars must come sorted by start.

    Takes the lowest free row. Past ``MAX_SUB_ROWS`` rows the last one takes the rest, overlapping.
    """
    rows = np.zeros(len(starts), dtype=np.int64)
    ends = starts + durations
    if not (starts[1:] < np.maximum.accumulate(ends)[:-1]).any():
        return rows
    free = list(range(MAX_SUB_ROWS))
    busy: list[tuple[int, int]] = []
    for position, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            rows[position] = heapq.heappop(free)
            heapq.heappush(busy, (end, int(rows[position])))
        else:
            rows[position] = MAX_SUB_ROWS - 1
    return rows


def overlapping(spans: pd.DataFrame) -> int:
    """How many bars begin before an earlier bar of their row has ended."""
    ordered = spans.sort_values(["row", "start_ns"], kind="stable")
    ends = (ordered["start_ns"] + ordered["duration_ns"]).groupby(ordered["row"]).cummax()
    before = ends.groupby(ordered["row"]).shift(1)
    return int((ordered["start_ns"] < before).sum())


def merge_narrow(spans: pd.DataFrame, resolution_ns: float) -> pd.DataFrame:
    """``spans`` with the bars narrower than ``resolution_ns`` merged where several share a place.

    Bars of one row that begin in the same stretch of ``resolution_ns`` become one bar with their
    ``count``, their summed ``busy_ns`` and the kind of work that took most of it. Wider bars stay.
    """
    narrow = spans["duration_ns"] < resolution_ns
    if resolution_ns <= 1 or narrow.sum() < 2:
        return spans
    small = spans[narrow].assign(
        place=(spans.loc[narrow, "start_ns"] // resolution_ns).astype("int64"),
        end_ns=spans["start_ns"] + spans["duration_ns"],
    )
    crowded = small.duplicated(["row", "place"], keep=False)
    if not crowded.any():
        return spans
    crowd = small[crowded]
    merged = crowd.groupby(["row", "place"], as_index=False).agg(
        start_ns=("start_ns", "min"),
        end_ns=("end_ns", "max"),
        count=("count", "sum"),
        busy_ns=("busy_ns", "sum"),
    )
    main = (
        crowd.groupby(["row", "place", "work"], as_index=False)["busy_ns"]
        .sum()
        .sort_values("busy_ns", ascending=False, kind="stable")
        .drop_duplicates(["row", "place"])
    )
    merged = merged.merge(main[["row", "place", "work"]], on=["row", "place"])
    merged = merged.assign(
        duration_ns=merged["end_ns"] - merged["start_ns"], name="", number=-1, record=-1
    )
    kept = pd.concat([spans[~narrow], small[~crowded], merged])[list(COLUMNS)]
    return kept.sort_values(["start_ns", "row"], kind="stable").reset_index(drop=True)


def busy_shares(spans: pd.DataFrame, resolution_ns: float) -> np.ndarray:
    """How much of its place each bar is busy, 0 to 1: 1 unless it is merged.

    A merged bar drawn at full height would show a stream as busy that waits most of the time.
    """
    merged = spans["count"].to_numpy() > 1
    durations = spans["duration_ns"].to_numpy(dtype=float)
    place = np.maximum(durations, max(resolution_ns, 1.0))
    shares = np.minimum(1.0, spans["busy_ns"].to_numpy(dtype=float) / place)
    # Beside merged bars a narrow one alone in its place is measured alike, or it would tower.
    measured = merged | ((durations < resolution_ns) & merged.any())
    return np.where(measured, shares, 1.0)


def idle_gaps(starts: np.ndarray, durations: np.ndarray) -> np.ndarray:
    """Stretches without a bar between the first and the last: rows of (start, length)."""
    if len(starts) < 2:
        return np.empty((0, 2), dtype=np.int64)
    order = np.argsort(starts, kind="stable")
    begins, ends = starts[order], (starts + durations)[order]
    reached = np.maximum.accumulate(ends)[:-1]
    lengths = begins[1:] - reached
    idle = lengths > 0
    return np.column_stack([reached[idle], lengths[idle]])
