"""Lanes: a trace's annotations, its operators by thread, its launches, its GPU work by stream."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from attnlab_helpers.plots.timeline.spans import make_spans, overlapping, stack_rows
from attnlab_helpers.profiling import CALL
from attnlab_helpers.units import format_count

MAX_DEPTH = 8
MAX_THREADS = 4
MAX_STREAMS = 16


@dataclass(frozen=True)
class Lane:
    """A strip of the picture. ``role`` is one of layout's LANES; ``rows`` its rows of bars."""

    role: str
    title: str
    rows: int
    spans: pd.DataFrame


def own_annotations(trace) -> pd.DataFrame:
    """The spans that the user named; our own around each call stays out, it frames everything."""
    annotations = trace.annotations
    return annotations[(annotations["name"] != CALL).to_numpy()]


def annotation_lane(trace, origin: int) -> list[Lane]:
    """The spans that the user named, those within others on rows below them."""
    spans = make_spans(own_annotations(trace), origin)
    if spans.empty:
        return []
    # Of two that begin together the longer is the outer one.
    spans = spans.sort_values(["start_ns", "duration_ns"], ascending=[True, False], kind="stable")
    rows = stack_rows(spans["start_ns"].to_numpy(), spans["duration_ns"].to_numpy())
    spans = spans.assign(row=rows).reset_index(drop=True)
    return [Lane("annotations", "annotations", int(rows.max()) + 1, spans)]


def operator_lanes(operators: pd.DataFrame, origin: int, notes: list[str]) -> list[Lane]:
    """One lane per CPU thread, operators nested by depth; ``notes`` say what is left out."""
    threads = list(operators.groupby(["pid", "tid"], sort=False, observed=True))
    if len(threads) > MAX_THREADS:
        busiest = sorted(threads, key=lambda pair: -len(pair[1]))[:MAX_THREADS]
        kept = {key for key, _ in busiest}
        left_out = sum(len(group) for key, group in threads if key not in kept)
        notes.append(
            f"CPU operators of the {MAX_THREADS} busiest threads are drawn;"
            f" {format_count(left_out, 'operator')} of {len(threads) - MAX_THREADS} others are not."
        )
        threads = [pair for pair in threads if pair[0] in kept]
    lanes = []
    for (_, tid), group in threads:
        group = group.sort_values("start_ns", kind="stable")
        depth = (group["depth"] - group["depth"].min()).to_numpy()
        deep = depth >= MAX_DEPTH
        if deep.any():
            notes.append(
                f"CPU operators are drawn to a depth of {MAX_DEPTH};"
                f" {format_count(int(deep.sum()), 'deeper one')} left out."
            )
        spans = make_spans(group[~deep], origin, row=depth[~deep])
        crossing = overlapping(spans)
        if crossing:
            notes.append(
                f"{format_count(crossing, 'CPU operator')} of one thread and depth overlap;"
                " drawn over one another."
            )
        title = "CPU operators" if len(threads) == 1 else f"CPU operators\nthread {tid}"
        lanes.append(Lane("operators", title, int(spans["row"].max()) + 1, spans))
    return lanes


def drawn_launches(trace) -> pd.DataFrame:
    """The launches; in a trace that lost its GPU side the calls that would have been launches."""
    return trace.launches if len(trace.kernels) else trace.unanswered_launches


def launch_lane(trace, origin: int) -> list[Lane]:
    """The runtime and driver calls that started GPU work, and those that waited for it.

    Launches carry number 0, waits (``...Synchronize``) number -1.
    """
    launches = make_spans(drawn_launches(trace), origin, number=0)
    waits = make_spans(_waits(trace, origin), origin, work="wait")
    spans = pd.concat([frame for frame in (launches, waits) if len(frame)] or [launches])
    if spans.empty:
        return []
    spans = spans.sort_values("start_ns", kind="stable").reset_index(drop=True)
    rows = stack_rows(spans["start_ns"].to_numpy(), spans["duration_ns"].to_numpy())
    return [Lane("launches", "launches", int(rows.max()) + 1, spans.assign(row=rows))]


def _waits(trace, origin: int) -> pd.DataFrame:
    events = trace.events
    calls = events[events["category"].isin(["cuda_runtime", "cuda_driver"])]
    waiting = calls["name"].astype(str).str.contains("Synchronize", regex=False)
    return calls[waiting & (calls["start_ns"] >= origin)]


def gpu_lanes(
    kernels: pd.DataFrame, origin: int, works: dict[str, str], notes: list[str]
) -> list[Lane]:
    """One lane per GPU and stream; overlaps go to sub-rows, and ``notes`` say so."""
    numbered = kernels.assign(number=np.arange(1, len(kernels) + 1))
    streams = list(numbered.groupby(["device", "stream"], sort=True))
    if len(streams) > MAX_STREAMS:
        left_out = sum(len(group) for _, group in streams[MAX_STREAMS:])
        notes.append(
            f"{MAX_STREAMS} GPU streams are drawn;"
            f" {format_count(left_out, 'activity', 'activities')}"
            f" of {len(streams) - MAX_STREAMS} others are in the table only."
        )
    lanes = []
    for (device, stream), group in streams[:MAX_STREAMS]:
        rows = stack_rows(group["start_ns"].to_numpy(), group["duration_ns"].to_numpy())
        title = f"GPU {_known(device)}\nstream {_known(stream)}"
        if rows.any():
            moved = format_count(int((rows > 0).sum()), "activity", "activities")
            notes.append(
                f"{title.replace(chr(10), ', ')}: {moved} overlapping others of the same stream"
                " drawn on rows of their own."
            )
        work = [works[name] for name in group["name"]]
        spans = make_spans(group, origin, work=work, row=rows, number=group["number"].to_numpy())
        lanes.append(Lane("gpu", title, int(rows.max()) + 1, spans))
    return lanes


def _known(number: int) -> str:
    return str(number) if number >= 0 else "?"
