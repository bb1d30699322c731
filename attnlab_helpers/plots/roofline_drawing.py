"""Draws the roofline's sheet: the plane of roofs and points, bars for copies, words around them."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from . import style
from .axes import dress, new_figure
from .roofline_labels import AXES_HEIGHT, AXES_WIDTH, Box
from .roofline_plane import (
    LABEL_PT,
    LOOKS,
    NOTE_PT,
    Ceiling,
    Mark,
    Slope,
    draw_plane,
    speed_text,
)
from .timeline.labels import printable, ruler, shorten_middle, wrap

WIDTH = 9.0  # inches
LEFT = 0.85
BAR = 0.26


def draw_roofline(
    marks: list[Mark],
    copies: list[tuple[str, float]],
    ceilings: list[Ceiling],
    slope: Slope,
    *,
    groups: list[str],
    title: str,
    provenance: str,
) -> Figure:
    """The figure; copies: label and bytes/s of what does no arithmetic."""
    words = wrap(printable(provenance), WIDTH - 0.3, ruler(NOTE_PT), 4)
    lines = words if words is not None else [shorten_middle(provenance, WIDTH, ruler(NOTE_PT))]
    foot = 0.1 + 0.15 * len(lines)
    bars = 0.7 + BAR * len(copies) if copies else 0.0
    legend = 0.25 if len(groups) > 1 else 0.0
    plot = 0.55 + AXES_HEIGHT if marks else 0.0
    height = 0.4 + legend + plot + bars + foot
    figure, axes = new_figure(WIDTH, height)
    top = height - 0.4 - legend
    if marks:
        box = (LEFT, top - AXES_HEIGHT, AXES_WIDTH, AXES_HEIGHT)
        axes.set_position(_share(box, WIDTH, height))
        dress(axes, "", "arithmetic intensity (FLOP/byte)", "rate (FLOP/s)", "")
        draw_plane(axes, marks, ceilings, slope)
    else:
        axes.remove()
    if copies:
        lower = figure.add_axes(
            _share((LEFT, foot + 0.45, AXES_WIDTH, BAR * len(copies)), WIDTH, height)
        )
        _bars(lower, copies, slope)
    _write(figure, 0.1, height - 0.25, title, 11, weight="bold")
    if legend:
        _legend(figure, groups, height - 0.5)
    for place, line in enumerate(lines):
        _write(
            figure, 0.1, foot - 0.14 - 0.15 * place, line, NOTE_PT, color=style.MUTED_INK,
            slant="italic",
        )  # fmt: skip
    return figure


def _bars(axes: Axes, copies: list[tuple[str, float]], slope: Slope) -> None:
    bandwidth = slope.speed
    most = max(bandwidth, *(speed for _, speed in copies))
    measure = ruler(LABEL_PT)
    for place, (label, speed) in enumerate(copies):
        y = len(copies) - 1 - place
        axes.barh(y, speed / bandwidth, height=0.72, color="#f8c3a0", edgecolor="#c04a00", lw=0.8)
        end = f"{speed_text(speed)}, {100 * speed / bandwidth:.3g} %"
        shown = shorten_middle(printable(label), AXES_WIDTH - measure(end) - 0.6, measure)
        axes.text(
            0.008 * most / bandwidth, y, f"{shown}: {end}", va="center", fontsize=LABEL_PT,
            color=style.INK, fontfamily=style.FONT,
        )  # fmt: skip
    if slope.vendor is not None:
        axes.axvline(1, color=style.INK, linewidth=1.6)
    if slope.measured is not None:
        axes.axvline(
            slope.measured / bandwidth, color=style.MUTED_INK, linewidth=1.2, linestyle="--"
        )
    whose = "the memory's bandwidth" + (", measured" if slope.vendor is None else "")
    dress(axes, "", f"no arithmetic: bytes a second as a share of {whose}", "", "")
    axes.set_xlim(0, max(1.02, 1.02 * most / bandwidth))
    axes.set_ylim(-0.6, len(copies) - 0.4)
    axes.set_yticks([])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))


def _legend(figure: Figure, groups: list[str], y: float) -> None:
    x = LEFT
    for place, group in enumerate(groups):
        color, marker = LOOKS[place]
        shown = shorten_middle(printable(group), 1.6, ruler(LABEL_PT))
        height = figure.get_figheight()
        spot = [x / WIDTH], [(y + 0.045) / height]
        figure.add_artist(Line2D(*spot, marker=marker, color=color, markersize=7, linestyle="none"))
        _write(figure, x + 0.12, y, shown, LABEL_PT, color=color)
        x += 0.4 + ruler(LABEL_PT)(shown)


def _share(box: Box, width: float, height: float) -> Box:
    return box[0] / width, box[1] / height, box[2] / width, box[3] / height


def _write(
    figure: Figure, left: float, bottom: float, text: str, size: float, *, color: str = style.INK,
    weight: str = "normal", slant: str = "normal",
) -> None:  # fmt: skip
    figure.text(
        left / WIDTH, bottom / figure.get_figheight(), text, fontsize=size, color=color,
        fontweight=weight, fontstyle=slant, fontfamily=style.FONT,
    )  # fmt: skip
