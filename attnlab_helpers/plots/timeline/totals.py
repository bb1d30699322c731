"""What stands at the right of a panel: counts and times of an item, computed from its trace."""

import numpy as np
import pandas as pd

from attnlab_helpers.plots.timeline.items import Item
from attnlab_helpers.plots.timeline.spans import idle_gaps
from attnlab_helpers.units import format_count, format_ns


def describe_totals(item: Item, kernels: pd.DataFrame) -> tuple[str, ...]:
    """Short lines, the most telling first; the first counts the GPU activities (or says none)."""
    trace = item.trace
    lines = [
        format_count(len(kernels), "GPU activity", "GPU activities")
        if len(kernels)
        else "no GPU activity"
    ]
    if len(kernels):
        lines.append(f"{format_ns(int(kernels['duration_ns'].sum()))} of GPU work")
        lines += _idle_lines(kernels)
    if len(trace.launches):
        lines.append(format_count(len(trace.launches), "launch", "launches"))
    unlinked = int((kernels["launch"] < 0).sum())
    if unlinked:
        lines.append(f"{unlinked:,} without a launch")
    if len(trace.operators):
        outer = trace.operators[trace.operators["depth"] == 0]
        spent = format_ns(int(outer["duration_ns"].sum()))
        lines.append(f"{format_count(len(trace.operators), 'CPU operator')}, {spent}")
    if item.time is not None:
        lines.append(f"timed: median {format_ns(item.time.median_ns)}")
        low, high = format_ns(item.time.p20_ns), format_ns(item.time.p80_ns)
        if low.split()[1] == high.split()[1]:
            low = low.split()[0]
        lines.append(f"p20 to p80: {low} - {high}")
    return tuple(lines)


def _idle_lines(kernels: pd.DataFrame) -> list[str]:
    """Idle time of each GPU between its first and last activity, all its streams taken together."""
    devices = list(kernels.groupby("device", sort=True))
    lines = []
    for device, group in devices[:4]:
        gaps = idle_gaps(group["start_ns"].to_numpy(), group["duration_ns"].to_numpy())
        idle = int(np.sum(gaps[:, 1]))
        whose = "idle between them" if len(devices) == 1 else f"GPU {device} idle"
        if len(group) > 1:
            lines.append(f"{format_ns(idle)} {whose}")
    return lines
