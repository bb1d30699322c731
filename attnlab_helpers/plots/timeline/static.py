"""The still picture: the plan drawn with matplotlib, one scale for all panels."""

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from attnlab_helpers.plots import style
from attnlab_helpers.plots.timeline.axis import axis_ticks
from attnlab_helpers.plots.timeline.labels import printable, ruler, shorten_middle
from attnlab_helpers.plots.timeline.layout import Panel, Picture
from attnlab_helpers.plots.timeline.legend import draw_legend, has_legend
from attnlab_helpers.plots.timeline.plan import (
    CROWDED,
    DPI,
    EDGE,
    LEFT,
    LINE,
    LINK_SPACE,
    MIN_BAR,
    PIXEL,
    PLOT,
    SMALL_PT,
    TEXT_PT,
    TITLE_PT,
    WAIT_PT,
    WIDTH,
    LanePlan,
    merge_resolution,
    note_lines,
    plan_picture,
    planned_notes,
)
from attnlab_helpers.plots.timeline.sheet import Sheet
from attnlab_helpers.plots.timeline.spans import busy_shares
from attnlab_helpers.plots.timeline.words import shown_totals
from attnlab_helpers.units import format_ns


def draw(picture: Picture) -> Figure:
    """The matplotlib figure of ``picture``; matplotlib's global state stays as it is."""
    scale = PLOT / picture.span_ns
    plans = plan_picture(picture)
    notes = [*picture.notes, *planned_notes(picture, plans)]
    lines_below = [line for note in notes for line in note_lines(note)]
    heights = [
        _panel_height(panel, lanes, len(shown_totals(panel, picture.guess)))
        for panel, lanes in zip(picture.panels, plans, strict=True)
    ]
    head = 0.12 + (0.24 if picture.title else 0) + (0.24 if has_legend(picture) else 0)
    height = head + sum(heights) + 0.42 + LINE * len(lines_below) + 0.1
    figure = Figure(figsize=(WIDTH, height), dpi=DPI, facecolor=style.CARD)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(height, 0))
    axes.set_axis_off()
    sheet = Sheet(axes)
    y = 0.12
    if picture.title:
        title = _as_wide_as_the_picture(picture.title, TITLE_PT, bold=True)
        sheet.text(EDGE, y + 0.1, title, size=TITLE_PT, weight="bold")
        y += 0.24
    draw_legend(sheet, picture, y + 0.08)
    y = top = head
    ticks, tick_texts, unit = axis_ticks(0, picture.span_ns)
    for panel, lanes, tall in zip(picture.panels, plans, heights, strict=True):
        _draw_panel(sheet, panel, lanes, picture, y, y + tall, scale)
        y += tall
    for tick, text in zip(ticks, tick_texts, strict=True):
        x = LEFT + tick * scale
        sheet.line([(x, top), (x, y)], style.GRID, 0.6, z=0.5)
        sheet.text(x, y + 0.09, text, size=SMALL_PT, color=style.MUTED_INK, ha="center")
    sheet.line([(LEFT, y), (LEFT + PLOT, y)], style.FAINT_INK, 0.8)
    axis_title = f"time since the first event ({unit})"
    if len(picture.panels) > 1:
        axis_title += ", one scale for all"
    sheet.text(
        LEFT + PLOT / 2, y + 0.25, axis_title, size=SMALL_PT, color=style.MUTED_INK, ha="center"
    )
    y += 0.42
    for line in lines_below:
        sheet.text(EDGE, y, line, size=SMALL_PT, color=style.MUTED_INK)
        y += LINE
    sheet.finish()
    return figure


def _as_wide_as_the_picture(text: str, size: float, bold: bool = False) -> str:
    # Bold letters are up to an eighth wider than those that the ruler knows.
    width = (WIDTH - 2 * EDGE) / (1.13 if bold else 1.0)
    return shorten_middle(printable(text), width, ruler(size))


def _panel_height(panel: Panel, plans: list[LanePlan], lines: int) -> float:
    lanes = sum(p.before + p.row_height * p.lane.rows + p.after for p in plans)
    links = LINK_SPACE if len(panel.links) else 0.0
    message = 0.3 if panel.message else 0.0
    totals = LINE * 1.12 * lines + 0.1
    return 0.3 + max(lanes + links + message, totals) + 0.22


def _draw_panel(
    sheet, panel: Panel, plans, picture: Picture, y: float, bottom: float, scale: float
) -> None:
    sheet.line([(EDGE, y), (WIDTH - EDGE, y)], style.GRID, 0.8)
    label = _as_wide_as_the_picture(panel.label, 9, bold=True)
    sheet.text(EDGE, y + 0.15, label, size=9, weight="bold")
    for index, line in enumerate(shown_totals(panel, picture.guess)):
        first = index == 0
        sheet.text(
            LEFT + PLOT + 0.14,
            y + 0.33 + LINE * 1.12 * index,
            line,
            size=TEXT_PT + 0.6 if first else SMALL_PT + 0.2,
            color=style.INK if first else style.MUTED_INK,
            weight="bold" if first else "normal",
        )
    sheet.text(
        EDGE,
        bottom - 0.12,
        _as_wide_as_the_picture(panel.provenance, SMALL_PT),
        size=SMALL_PT,
        color=style.MUTED_INK,
        style="italic",
    )
    tops: list[float] = []
    y += 0.3
    first_gpu = next((i for i, plan in enumerate(plans) if plan.lane.role == "gpu"), None)
    for index, plan in enumerate(plans):
        if index == first_gpu and len(panel.links):
            y += LINK_SPACE
        y += plan.before
        tops.append(y)
        _draw_lane(sheet, plan, picture, y, scale)
        y += plan.row_height * plan.lane.rows + plan.after
    if panel.message:
        sheet.text(LEFT + 0.05, y + 0.14, panel.message, color=style.MUTED_INK)
    _draw_links(sheet, panel, plans, tops, scale)
    _draw_gaps(sheet, panel, plans, tops, scale, times=not picture.guess)


def _draw_lane(sheet, plan: LanePlan, picture: Picture, top: float, scale: float) -> None:
    lane, tall = plan.lane, plan.row_height * plan.lane.rows
    sheet.bar(LEFT, top, PLOT, tall, style.LANE, "none", z=0.2)
    sheet.text(
        LEFT - 0.08,
        top + min(tall, 0.5) / 2 if tall < 0.6 else top + 0.2,
        lane.title,
        size=SMALL_PT,
        color=style.MUTED_INK,
        ha="right",
        linespacing=1.15,
    )
    spans = plan.spans
    lefts = LEFT + spans["start_ns"].to_numpy() * scale
    widths = np.maximum(spans["duration_ns"].to_numpy() * scale, MIN_BAR)
    rows = spans["row"].to_numpy()
    gap = 0.012
    shares = busy_shares(spans, merge_resolution(picture))
    columns = zip(lefts, widths, rows, spans["work"], spans["count"], shares, strict=True)
    for key, (left, width, row, work, count, share) in enumerate(columns):
        height = max((plan.row_height - 2 * gap) * share, 2 * PIXEL)
        bar_top = top + (row + 1) * plan.row_height - gap - height
        fill, edge, hatch = _look(lane.role, work, int(row), picture.guess)
        if width > 3 * PIXEL:
            sheet.bar(left, bar_top, width, height, fill, edge, hatch)
        elif count > 1 or len(spans) > CROWDED:  # edges would blacken the lane
            sheet.bar(left, bar_top, width, height, fill, edge, hatch, line=0)
        else:  # one thin bar: strong, and not hidden by its neighbour
            sheet.bar(left, bar_top, width, height, edge, "none", z=3)
        lines = plan.inside.get(key)
        if lines:
            box = fill if hatch else None  # the hatch stops behind the text
            sheet.text(
                left + width / 2,
                bar_top + height / 2,
                "\n".join(lines),
                size=WAIT_PT if lane.role == "launches" else SMALL_PT,
                ha="center",
                linespacing=1.12,
                box_fill=box,
            )
    for leader in plan.leaders:
        row = int(rows[leader.key])
        if lane.role == "operators":
            near, start = top - 0.05 - LINE * leader.row, top
            middle = near - LINE * len(leader.lines) / 2
        else:
            near, start = top + tall + 0.05 + LINE * leader.row, top + (row + 1) * plan.row_height
            middle = near + LINE * len(leader.lines) / 2
        beside = not leader.left < leader.x < leader.right
        end = middle if beside else near
        sheet.line([(leader.x, start), (leader.x, end)], style.FAINT_INK, 0.5, z=1.5)
        center = (leader.left + leader.right) / 2
        text = "\n".join(leader.lines)
        sheet.text(center, middle, text, size=SMALL_PT, ha="center", linespacing=1.15)


def _look(role: str, work: str, row: int, guess: bool) -> tuple[str, str, str]:
    if role == "operators":
        fills = style.OPERATOR_FILLS
        return fills[min(row, len(fills) - 1)], style.OPERATOR_EDGE, ""
    if role == "annotations":
        return style.CARD, style.FAINT_INK, ""
    if role == "launches":
        return (
            (style.WAIT_FILL, style.FAINT_INK, "")
            if work == "wait"
            else (style.LAUNCH, style.LAUNCH, "")
        )
    if guess:
        return style.HIDDEN_FILL, style.MUTED_INK, ""
    look = style.work_style(work)
    return look.fill, look.color, look.hatch


def _draw_links(sheet, panel: Panel, plans, tops, scale: float) -> None:
    links = panel.links
    if links.empty:
        return
    pixels = pd.DataFrame(
        {
            "a": (links["launch_ns"] * scale / PIXEL).round(),
            "b": (links["start_ns"] * scale / PIXEL).round(),
            "lane": links["lane"],
        }
    )
    links = links[~pixels.duplicated()]
    alpha = float(np.clip(40 / len(links), 0.06, 0.8))
    for link in links.itertuples():
        source, target = plans[link.launch_lane], plans[link.lane]
        x0, x1 = LEFT + link.launch_ns * scale, LEFT + link.start_ns * scale
        y0 = tops[link.launch_lane] + (link.launch_row + 1) * source.row_height - 0.012
        y1 = tops[link.lane] + link.row * target.row_height + 0.012
        sheet.line([(x0, y0), (x1, y1)], style.MUTED_INK, 0.55, alpha=alpha, z=1.2)


def _draw_gaps(sheet, panel: Panel, plans, tops, scale: float, times: bool) -> None:
    measure = ruler(SMALL_PT)
    for gap in panel.gaps.itertuples():
        plan = plans[gap.lane]
        y = tops[gap.lane] + plan.row_height / 2
        left, right = LEFT + gap.start_ns * scale, LEFT + (gap.start_ns + gap.duration_ns) * scale
        end = min(0.06, plan.row_height / 4)
        sheet.line([(left + 0.02, y), (right - 0.02, y)], style.IDLE_INK, 0.7)
        for x in (left + 0.02, right - 0.02):
            sheet.line([(x, y - end), (x, y + end)], style.IDLE_INK, 0.7)
        time = format_ns(gap.duration_ns)
        for text in (f"idle {time}", time) if times else ("idle",):
            if measure(text) < right - left - 0.08:
                sheet.text(
                    (left + right) / 2,
                    y,
                    text,
                    size=SMALL_PT,
                    color=style.IDLE_INK,
                    ha="center",
                    box_fill=style.LANE,
                )
                break
