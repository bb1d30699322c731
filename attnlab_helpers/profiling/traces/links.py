"""Links inside a trace: operators as trees, GPU activities to their launches and operators."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Nesting:
    """How the spans of one table lie in each other; arrays with one entry a row.

    Attributes:
        depth: 0 for the outermost. Spans of one thread and depth never overlap.
        parent: row of the innermost span that holds this one whole, -1 for none.
        self_ns: the duration less what direct children cover.
        crossing: how many spans begin inside another and end after it.
    """

    depth: np.ndarray
    parent: np.ndarray
    self_ns: np.ndarray
    crossing: int


def thread_codes(pid: pd.Series, tid: pd.Series) -> np.ndarray:
    """A number for each thread: equal where pid and tid both are."""
    tids, names = pd.factorize(tid)
    pids, _ = pd.factorize(pid)
    return pids.astype(np.int64) * max(len(names), 1) + tids


def nest(start: np.ndarray, duration: np.ndarray, thread: np.ndarray) -> Nesting:
    """Nest spans thread by thread. Rows are sorted by start, the longer first among equals."""
    count = len(start)
    depth, parent = [0] * count, [-1] * count
    order = np.argsort(thread, kind="stable")
    starts, ends = start.tolist(), (start + duration).tolist()
    covered_to = list(starts)
    covered = [0] * count
    crossing = 0
    open_rows: list[int] = []
    current = None
    for row, its_thread in zip(order.tolist(), thread[order].tolist(), strict=True):
        if its_thread != current:
            current = its_thread
            open_rows = []
        begins, ends_at = starts[row], ends[row]
        while open_rows and ends[open_rows[-1]] <= begins:
            open_rows.pop()
        if open_rows:
            holder = open_rows[-1]
            # One more than the deepest open span: two that cross do not lie on one another.
            depth[row] = depth[holder] + 1
            if ends[holder] < ends_at:
                crossing += 1
                holder = next((r for r in reversed(open_rows) if ends[r] >= ends_at), -1)
            parent[row] = holder
            if holder >= 0 and ends_at > covered_to[holder]:
                covered[holder] += ends_at - max(begins, covered_to[holder])
                covered_to[holder] = ends_at
        open_rows.append(row)
    return Nesting(
        depth=np.array(depth, np.int64),
        parent=np.array(parent, np.int64),
        self_ns=duration - np.array(covered, np.int64),
        crossing=crossing,
    )


def innermost(
    time: np.ndarray,
    thread: np.ndarray,
    start: np.ndarray,
    end: np.ndarray,
    span_thread: np.ndarray,
    parent: np.ndarray,
) -> np.ndarray:
    """For each point (`time`, `thread`) the row of the innermost span around it, -1 for none.

    Spans are sorted by start; `parent` comes from `nest`.
    """
    found = np.full(len(time), -1, np.int64)
    for its_thread in np.unique(thread):
        points = np.flatnonzero(thread == its_thread)
        spans = np.flatnonzero(span_thread == its_thread)
        if not len(spans):
            continue
        # The last span begun by then, or the nearest one around it that has not ended.
        last = np.searchsorted(start[spans], time[points], side="right") - 1
        row = np.where(last >= 0, spans[last], -1)
        while True:
            ended = (row >= 0) & (end[row] < time[points])
            if not ended.any():
                break
            row[ended] = parent[row[ended]]
        found[points] = row
    return found


def match_launches(
    correlation: np.ndarray,
    start: np.ndarray,
    launch_correlation: np.ndarray,
    launch_start: np.ndarray,
) -> np.ndarray:
    """For each GPU activity the index of its launch, -1 when none is on record.

    Joined by correlation number (0 and below: none). One launch can have many activities (a CUDA
    graph). When a number was given twice (several processes or captures in one file), the last
    launch before the activity counts.
    """
    order = np.lexsort((launch_start, launch_correlation))
    numbers = launch_correlation[order]
    first = np.searchsorted(numbers, correlation, side="left")
    behind = np.searchsorted(numbers, correlation, side="right")
    linked = (behind > first) & (correlation > 0)
    found = np.full(len(correlation), -1, np.int64)
    found[linked] = order[first[linked]]
    for row in np.flatnonzero(linked & (behind - first > 1)):
        candidates = order[first[row] : behind[row]]
        before = bisect_right(launch_start[candidates].tolist(), int(start[row]))
        found[row] = candidates[max(before - 1, 0)]
    return found


def sum_upwards(own: np.ndarray, parent: np.ndarray, depth: np.ndarray) -> np.ndarray:
    """Each row's own value plus those of all rows below it in the tree."""
    total = own.copy()
    for level in range(int(depth.max(initial=0)), 0, -1):
        rows = np.flatnonzero((depth == level) & (parent >= 0))
        np.add.at(total, parent[rows], total[rows])
    return total


def overlapping(start: np.ndarray, duration: np.ndarray, lane: np.ndarray) -> int:
    """How many spans begin before an earlier one of their lane has ended."""
    count = 0
    for its_lane in np.unique(lane):
        rows = np.flatnonzero(lane == its_lane)
        ends = np.maximum.accumulate(start[rows] + duration[rows])
        count += int((start[rows][1:] < ends[:-1]).sum())
    return count
