"""Where things stand in the still picture: row heights, merged bars, texts and their places."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from attnlab_helpers.plots.timeline.labels import printable, ruler, shorten, wrap
from attnlab_helpers.plots.timeline.layout import Lane, Panel, Picture
from attnlab_helpers.plots.timeline.leaders import Leader, Wish, place_leaders
from attnlab_helpers.plots.timeline.spans import merge_narrow
from attnlab_helpers.units import format_count, format_ns

DPI = 110
WIDTH, LEFT, RIGHT = 10.5, 1.08, 1.72  # inches: the figure, lane titles, totals
PLOT = WIDTH - LEFT - RIGHT
EDGE = 0.1
TEXT_PT, SMALL_PT, WAIT_PT, TITLE_PT = 7.5, 6.8, 6.0, 10.0
LINE = 0.128  # one line of small text
OPERATOR_ROW, LAUNCH_ROW, LINK_SPACE = 0.15, 0.13, 0.3
GPU_ROW, GPU_ROW_SMALL = 0.47, 0.24
LEADER_ROWS = {"operators": 4, "gpu": 5}
MIN_BAR = 0.012  # narrower bars are drawn this wide, or nobody would see them
PIXEL = 1 / DPI
CROWDED = 300  # bars in a lane from which thin ones lose their edges
MOST_WISHES = 40  # more texts beside one lane than fit at any rate


@dataclass(frozen=True)
class LanePlan:
    """A lane with its place: ``top`` of the bars, leaders above or below them."""

    lane: Lane
    spans: pd.DataFrame
    row_height: float
    inside: dict[int, list[str]]
    leaders: list[Leader]
    unlabelled: int
    before: float  # room above the bars
    after: float  # room below them


def merge_resolution(picture: Picture) -> float:
    """The width of a pixel of the still picture, in ns."""
    return picture.span_ns * PIXEL / PLOT


def drawing_notes(picture: Picture) -> list[str]:
    """What the still picture merges or has no room to name, as sentences."""
    return planned_notes(picture, plan_picture(picture))


def plan_picture(picture: Picture) -> list[list[LanePlan]]:
    scale = PLOT / picture.span_ns
    return [
        [_plan_lane(lane, panel, picture, scale) for lane in panel.lanes]
        for panel in picture.panels
    ]


def _plan_lane(lane: Lane, panel: Panel, picture: Picture, scale: float) -> LanePlan:
    spans = merge_narrow(lane.spans, merge_resolution(picture))
    if lane.role == "launches":
        inside = _wait_texts(spans, scale, ruler(WAIT_PT))
        return LanePlan(lane, spans, LAUNCH_ROW, inside, [], 0, 0.05, 0.0)
    many_lanes = sum(other.role == "gpu" for other in panel.lanes) > 4 or lane.rows > 2
    row_height = OPERATOR_ROW
    if lane.role == "gpu":
        row_height = GPU_ROW_SMALL if many_lanes else GPU_ROW
    measure = ruler(SMALL_PT)
    inside: dict[int, list[str]] = {}
    wishes: list[Wish] = []
    widths = spans["duration_ns"].to_numpy() * scale
    for key, width in enumerate(widths):
        if lane.role == "gpu":
            lines, outside = _activity_texts(spans.iloc[key], width, row_height, picture, measure)
        elif picture.guess:  # an operator's name gives the kernel away, an annotation's may
            lines, outside = [], ""
        elif lane.role == "annotations":
            lines, outside = _annotation_texts(spans.iloc[key], width, measure), ""
        else:
            lines, outside = _operator_texts(spans.iloc[key], width, panel.launching, measure)
        if lines:
            inside[key] = lines
        if outside:
            x = LEFT + (spans["start_ns"].iat[key] + spans["duration_ns"].iat[key] / 2) * scale
            wishes.append(Wish(key, x, outside, float(width)))
    outside_keys = {wish.key for wish in wishes}
    wishes = sorted(wishes, key=lambda wish: -wish.weight)[:MOST_WISHES]
    merged = int(spans.loc[spans["count"] > 1, "count"].sum())
    if 2 * merged > len(lane.spans):  # among merged bars a few names by chance would mislead
        wishes = []
    leaders = place_leaders(
        wishes, measure=measure, rows=LEADER_ROWS.get(lane.role, 0), low=EDGE, high=LEFT + PLOT
    )
    room = LINE * (1 + max(leader.last_row for leader in leaders)) + 0.06 if leaders else 0.02
    named = len(leaders) + sum(key not in outside_keys for key in inside)
    unlabelled = int(spans["count"].sum()) - named if lane.role == "gpu" else 0
    before, after = (room, 0.04) if lane.role == "operators" else (0.03, room)
    return LanePlan(lane, spans, row_height, inside, leaders, unlabelled, before, after)


def _activity_texts(span, width, row_height, picture, measure) -> tuple[list[str], str]:
    """Lines inside the bar, and the text for a leader when the bar is too narrow."""
    if span["count"] > 1:
        text = f"{span['count']:,} merged"
        return ([text] if measure(text) + 0.06 < width else []), ""
    time = format_ns(span["duration_ns"])
    if picture.guess:
        number = f"?{span['number']}"
        return ([number], "") if measure(number) < width - 0.04 else ([], number)
    number = str(span["number"])
    label = printable(picture.labels[span["name"]])
    most = int((row_height - 0.04) / (LINE * 0.92))
    text = f"{number} {label}"
    lines = wrap(text, width - 0.07, measure, most - 1)
    if lines and measure(time) < width - 0.07:
        return [*lines, time], ""
    lines = wrap(f"{text} {time}", width - 0.07, measure, most)
    if lines:
        return lines, ""
    inside = [number] if measure(number) < width - 0.04 else []
    return inside, f"{text} \N{MIDDLE DOT} {time}"


def _annotation_texts(span, width: float, measure) -> list[str]:
    text = shorten(printable(str(span["name"])), width - 0.05, measure)
    return [text] if text and span["count"] == 1 else []


def _wait_texts(spans, scale: float, measure) -> dict[int, list[str]]:
    """Names of the calls that wait for the GPU, where they fit; launches stay plain marks."""
    texts = {}
    for key in np.flatnonzero((spans["work"] == "wait") & (spans["count"] == 1)):
        room = spans["duration_ns"].iat[key] * scale - 0.05
        for text in (printable(str(spans["name"].iat[key])), "waits for the GPU", "waits"):
            if measure(text) < room:
                texts[int(key)] = [text]
                break
    return texts


def _operator_texts(span, width, launching, measure) -> tuple[list[str], str]:
    if span["count"] > 1:
        return [], ""
    name = printable(str(span["name"]))
    if measure(name) <= width - 0.05:
        return [name], ""
    if span["row"] == 0:
        inner = launching.get(span["record"], "")
        return [], shorten(f"{name} > {printable(inner)}" if inner else name, 2.4, measure)
    short = shorten(name, width - 0.05, measure)
    return ([short] if len(short) > len("aten::...") else []), ""  # "aten::" alone names nothing


def planned_notes(picture: Picture, plans) -> list[str]:
    """What this drawing leaves out or merges, as sentences."""
    merged = sum(
        int(p.spans.loc[p.spans["count"] > 1, "count"].sum()) for lanes in plans for p in lanes
    )
    unlabelled = sum(plan.unlabelled for lanes in plans for plan in lanes)
    notes = []
    if merged:
        width = format_ns(merge_resolution(picture))
        notes.append(
            f"{merged:,} events narrower than a pixel ({width}) are drawn merged with their"
            " neighbours, as tall as the share of the time in which they are busy."
        )
    if unlabelled and not merged and not picture.guess:
        notes.append(
            f"{format_count(unlabelled, 'GPU activity', 'GPU activities')} had no room for a label:"
            " see the table."
        )
    return notes


def note_lines(note: str) -> list[str]:
    """A note cut into lines as wide as the picture, three at most."""
    measure = ruler(SMALL_PT)
    words = printable(note).split()
    lines = [""]
    for word in words:
        word = shorten(word, WIDTH - 4 * EDGE, measure)
        joined = f"{lines[-1]} {word}".strip()
        if measure(joined) <= WIDTH - 2 * EDGE:
            lines[-1] = joined
        else:
            lines.append(word)
    return lines[:3]
