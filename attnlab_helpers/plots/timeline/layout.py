"""From traces to what is to be drawn: panels, lanes, links, idle gaps on one time scale."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from attnlab_helpers.plots.timeline.items import Item
from attnlab_helpers.plots.timeline.lanes import (
    Lane,
    annotation_lane,
    drawn_launches,
    gpu_lanes,
    launch_lane,
    operator_lanes,
    own_annotations,
)
from attnlab_helpers.plots.timeline.operators import launching, operator_path
from attnlab_helpers.plots.timeline.spans import idle_gaps
from attnlab_helpers.plots.timeline.totals import describe_totals
from attnlab_helpers.profiling.kernel_names import WORK_KINDS, describe_kernel, label_kernels
from attnlab_helpers.profiling.traces.tables import no_gpu_side

LANES = ("annotations", "operators", "launches", "gpu")
GAP_SHARE = (
    0.02  # a gap is marked from this share of the time axis on: narrower, its sign is a blot
)
GAP_MIN_NS = 1_000


@dataclass(frozen=True)
class Panel:
    """One item's part of the picture; times in ns from ``origin_ns``, the item's first event."""

    label: str
    provenance: str
    origin_ns: int
    span_ns: int
    lanes: tuple[Lane, ...]
    links: pd.DataFrame  # launch_lane, launch_row, launch_ns, lane, row, start_ns
    gaps: pd.DataFrame  # lane, start_ns, duration_ns
    activities: pd.DataFrame  # the numbers: one row per GPU activity
    launching: dict[int, str]  # outermost operator -> the inner ones that launch, "copy_, fill_"
    totals: tuple[str, ...]
    notes: tuple[str, ...]
    message: str | None  # said in place of what is missing


@dataclass(frozen=True)
class Picture:
    """Everything to draw: panels under one another on one time scale of ``span_ns``."""

    title: str | None
    panels: tuple[Panel, ...]
    span_ns: int
    labels: dict[str, str]  # full name of a GPU activity -> short label, distinct
    kinds: tuple[str, ...]  # the kinds of work present, in the order of WORK_KINDS
    guess: bool
    notes: tuple[str, ...]


def lay_out(
    items: Sequence[Item],
    *,
    guess: bool = False,
    title: str | None = None,
    lanes: Iterable[str] = LANES,
) -> Picture:
    """The drawing plan of ``items``; ``lanes`` chooses among ``LANES``.

    Raises ``ValueError`` for no items or for a lane that does not exist.
    """
    wanted = (lanes,) if isinstance(lanes, str) else tuple(lanes)
    unknown = [name for name in wanted if name not in LANES]
    if unknown or not wanted:
        raise ValueError(f"lanes={wanted!r}: choose from {', '.join(LANES)}.")
    if not items:
        raise ValueError("A timeline needs at least one Run or Trace; none was given.")
    names = [name for item in items for name in item.trace.kernels["name"].unique()]
    labels = label_kernels(dict.fromkeys(names))
    works = {name: describe_kernel(name).work for name in labels}
    panels = [_panel(item, wanted, labels, works) for item in items]
    span_ns = max(1, *(panel.span_ns for panel in panels))
    present = set(works.values())
    marked = max(GAP_MIN_NS, GAP_SHARE * span_ns)
    panels = [_with_gaps_from(panel, marked) for panel in panels]
    notes = [f"{_whose(panel, panels)}{note}" for panel in panels for note in panel.notes]
    if any(len(panel.gaps) for panel in panels):
        notes.append(
            f"Idle stretches of a stream are marked from {GAP_SHARE:.0%} of the time axis on"
            " and from 1 us."
        )
    return Picture(
        title=title,
        panels=tuple(panels),
        span_ns=span_ns,
        labels=labels,
        kinds=tuple(kind for kind in WORK_KINDS if kind in present),
        guess=guess,
        notes=tuple(dict.fromkeys(notes)),
    )


def _whose(panel: Panel, panels: list[Panel]) -> str:
    return f"{panel.label}: " if len(panels) > 1 else ""


def _with_gaps_from(panel: Panel, shortest_ns: float) -> Panel:
    kept = panel.gaps[panel.gaps["duration_ns"] >= shortest_ns].reset_index(drop=True)
    return Panel(**{**panel.__dict__, "gaps": kept})


def _panel(
    item: Item, wanted: tuple[str, ...], labels: dict[str, str], works: dict[str, str]
) -> Panel:
    trace = item.trace
    kernels = trace.kernels.sort_values("start_ns", kind="stable")
    frames = (own_annotations(trace), trace.operators, drawn_launches(trace), kernels)
    drawn = [
        frame for lane, frame in zip(LANES, frames, strict=True) if lane in wanted and len(frame)
    ]
    origin = min((int(frame["start_ns"].min()) for frame in drawn), default=0)
    lanes: list[Lane] = []
    notes: list[str] = []
    if "annotations" in wanted:
        lanes += annotation_lane(trace, origin)
    if "operators" in wanted:
        lanes += operator_lanes(trace.operators, origin, notes)
    if "launches" in wanted:
        lanes += launch_lane(trace, origin)
    if "gpu" in wanted:
        lanes += gpu_lanes(kernels, origin, works, notes)
    ends = [int((s.start_ns + s.duration_ns).max()) for s in (lane.spans for lane in lanes)]
    activities = _activities(item, kernels, origin, labels, works)
    message = _message(trace, kernels, lanes, wanted)
    told = [note.text for note in trace.notes if note.text != message]
    return Panel(
        label=item.label,
        provenance=item.provenance,
        origin_ns=origin,
        span_ns=max(ends, default=0),
        lanes=tuple(lanes),
        links=_links(trace, kernels, lanes, origin),
        gaps=_gaps(lanes),
        activities=activities,
        launching=launching(trace.operators, trace.launches),
        totals=describe_totals(item, kernels),
        notes=(*told, *notes),
        message=message,
    )


def _message(
    trace, kernels: pd.DataFrame, lanes: list[Lane], wanted: tuple[str, ...]
) -> str | None:
    if not lanes:
        return "Nothing to draw: this trace holds no events of the lanes asked for."
    if "gpu" in wanted and kernels.empty:
        launches = len(trace.unanswered_launches)
        if launches:
            return no_gpu_side(launches)
        return "No GPU activity in this trace: everything on record ran on the CPU."
    return None


def _links(trace, kernels: pd.DataFrame, lanes: list[Lane], origin: int) -> pd.DataFrame:
    """A line for each activity whose launch is on record, from the middle of the launch."""
    columns = ["launch_lane", "launch_row", "launch_ns", "lane", "row", "start_ns"]
    from_lane = next((i for i, lane in enumerate(lanes) if lane.role == "launches"), None)
    if from_lane is None:
        return pd.DataFrame(columns=columns)
    launches = lanes[from_lane].spans.set_index("record")
    launches = launches[launches["number"] == 0]  # waits share the lane but start nothing
    parts = []
    for index, lane in enumerate(lanes):
        if lane.role != "gpu":
            continue
        spans = lane.spans
        launch = kernels.loc[spans["record"], "launch"].to_numpy()
        known = np.isin(launch, launches.index)
        if known.any():
            start = launches.loc[launch[known]]
            parts.append(
                pd.DataFrame(
                    {
                        "launch_lane": from_lane,
                        "launch_row": start["row"].to_numpy(),
                        "launch_ns": (start["start_ns"] + start["duration_ns"] // 2).to_numpy(),
                        "lane": index,
                        "row": spans.loc[known, "row"].to_numpy(),
                        "start_ns": spans.loc[known, "start_ns"].to_numpy(),
                    }
                )
            )
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def _gaps(lanes: list[Lane]) -> pd.DataFrame:
    """Idle stretches of each GPU lane, and the wait before the first activity of all."""
    found: list[tuple[int, int, int]] = []
    firsts: list[tuple[int, int]] = []
    for index, lane in enumerate(lanes):
        if lane.role == "gpu":
            starts = lane.spans["start_ns"].to_numpy()
            gaps = idle_gaps(starts, lane.spans["duration_ns"].to_numpy())
            found += [(index, int(start), int(length)) for start, length in gaps]
            firsts.append((int(starts.min()), index))
    if firsts and min(firsts)[0] > 0:
        found.append((min(firsts)[1], 0, min(firsts)[0]))
    return pd.DataFrame(sorted(found), columns=["lane", "start_ns", "duration_ns"])


def _activities(
    item: Item,
    kernels: pd.DataFrame,
    origin: int,
    labels: dict[str, str],
    works: dict[str, str],
) -> pd.DataFrame:
    """The numbers behind the picture: one row per GPU activity, in order of start."""
    total = int(kernels["duration_ns"].sum())
    paths = {
        label: operator_path(item.trace.operators, label) for label in kernels["operator"].unique()
    }
    return pd.DataFrame(
        {
            "item": item.label,
            "number": np.arange(1, len(kernels) + 1),
            "activity": [labels[name] for name in kernels["name"]],
            "work": [works[name] for name in kernels["name"]],
            "start_ns": (kernels["start_ns"] - origin).to_numpy(),
            "duration_ns": kernels["duration_ns"].to_numpy(),
            "share_percent": (
                100 * kernels["duration_ns"] / total if total else 0.0 * kernels["duration_ns"]
            ).to_numpy(),
            "launched_by": [paths[label] for label in kernels["operator"]],
            **{
                column: kernels[column].to_numpy()
                for column in (
                    "device",
                    "stream",
                    "grid",
                    "block",
                    "registers",
                    "shared_bytes",
                    "occupancy_percent",
                    "bytes",
                    "name",
                )
            },
        }
    )
