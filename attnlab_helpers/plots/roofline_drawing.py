"""Draws the roofline: roofs, points, and labels that keep out of each other's way."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from . import style
from .axes import dress, new_figure
from .roofline_labels import AXES_HEIGHT, AXES_WIDTH, LINE, Box, place_labels
from .timeline.labels import printable, ruler, shorten_middle, wrap

LOOKS = (
    ("#0072b2", "o"), ("#c04a00", "s"), ("#007a58", "^"), ("#6a4fa3", "D"), ("#8a8000", "v"),
    ("#a8527f", "P"), ("#1b1f24", "X"),
)  # fmt: skip
WIDTH = 9.0  # inches
LEFT = 0.85
LABEL_PT, NOTE_PT, LABEL_ROOM = 8.5, 8, 2.3
BAR = 0.26


@dataclass(frozen=True)
class Mark:
    """A point: intensity in FLOP/byte, rate in FLOP/s, group from 0."""

    label: str
    intensity: float
    rate: float
    group: int


@dataclass(frozen=True)
class Ceiling:
    """A compute roof in FLOP/s: the vendor's, and what a matrix product reached, or None."""

    dtype: str
    peak: float
    measured: float | None


def rate_text(rate: float) -> str:
    """FLOP/s with the unit that fits: 989 TFLOP/s."""
    return _si(rate, "FLOP/s")


def speed_text(speed: float) -> str:
    """Bytes/s in powers of 1000, as vendors count: 4.8 TB/s."""
    return _si(speed, "B/s")


def draw_roofline(
    marks: list[Mark],
    copies: list[tuple[str, float]],
    ceilings: list[Ceiling],
    bandwidth: float,
    measured_bandwidth: float | None,
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
        _roofs_and_points(axes, marks, ceilings, bandwidth, measured_bandwidth)
    else:
        axes.remove()
    if copies:
        lower = figure.add_axes(
            _share((LEFT, foot + 0.45, AXES_WIDTH, BAR * len(copies)), WIDTH, height)
        )
        _bars(lower, copies, bandwidth, measured_bandwidth)
    _write(figure, 0.1, height - 0.25, title, 11, weight="bold")
    if legend:
        _legend(figure, groups, height - 0.5)
    for place, line in enumerate(lines):
        _write(
            figure, 0.1, foot - 0.14 - 0.15 * place, line, NOTE_PT, color=style.MUTED_INK,
            slant="italic",
        )  # fmt: skip
    return figure


def _roofs_and_points(
    axes: Axes, marks: list[Mark], ceilings: list[Ceiling], bandwidth: float, copied: float | None
) -> None:
    highest = max(ceiling.peak for ceiling in ceilings)
    ridges = [ceiling.peak / bandwidth for ceiling in ceilings]
    low_x = min(min(mark.intensity for mark in marks), min(ridges) / 10) / 3
    high_x = max(max(mark.intensity for mark in marks), max(ridges)) * 12
    low_y = min(*(mark.rate for mark in marks), highest / 100) / 5
    high_y = max(highest, *(mark.rate for mark in marks)) * 5
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low_x, high_x)
    axes.set_ylim(low_y, high_y)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.4g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _si(value, "").strip()))

    def inches(x: float, y: float) -> tuple[float, float]:
        across = math.log(x / low_x) / math.log(high_x / low_x)
        up = math.log(y / low_y) / math.log(high_y / low_y)
        return across * AXES_WIDTH, up * AXES_HEIGHT

    taken: list[Box] = []
    crossed: list[tuple[float, float]] = []  # inches: along what labels had better not cross

    def line(x: list[float], y: list[float], color: str, width: float, dash: str = "-") -> None:
        axes.plot(x, y, color=color, linewidth=width, linestyle=dash, zorder=2)
        corners = [inches(*corner) for corner in zip(x, y, strict=True)]
        for (x0, y0), (x1, y1) in itertools.pairwise(corners):
            steps = max(1, round(math.dist((x0, y0), (x1, y1)) / 0.04))
            shares = [step / steps for step in range(steps + 1)]
            crossed.extend((x0 + (x1 - x0) * t, y0 + (y1 - y0) * t) for t in shares)

    def note(left: float, bottom: float, text: str, color: str) -> None:
        width = ruler(NOTE_PT)(text)
        left = min(max(left, 0.02), AXES_WIDTH - width - 0.08)
        taken.append((left, bottom - 0.02, left + width, bottom + 0.12))
        _in_axes(axes, left, bottom, text, NOTE_PT, color)

    for ceiling, ridge in zip(ceilings, ridges, strict=True):
        # Lower roofs share the slope up to their own ridge.
        slope = [low_x * bandwidth, ceiling.peak, ceiling.peak]
        line([low_x, ridge, high_x], slope, style.INK, 1.6)
        axes.plot([ridge, ridge], [low_y, ceiling.peak], color=style.FAINT_INK, lw=0.9, ls=":")
        text = f"{ceiling.dtype} {rate_text(ceiling.peak)}"
        if ceiling.measured is not None:
            text += f", measured {rate_text(ceiling.measured)}"
            start = ceiling.measured / (copied or bandwidth)
            line([start, high_x], [ceiling.measured] * 2, style.MUTED_INK, 1.2, "--")
        note(AXES_WIDTH, inches(ridge, ceiling.peak)[1] + 0.06, text, style.INK)
        left, bottom = inches(ridge, low_y)
        note(left + 0.05, bottom + 0.06, f"ridge {ridge:.3g} FLOP/byte", style.MUTED_INK)
    if copied is not None:
        end = max(ceiling.measured or ceiling.peak for ceiling in ceilings) / copied
        line([low_x, end], [low_x * copied, end * copied], style.MUTED_INK, 1.2, "--")
    # Left of the slope, where no point can be.
    text = f"memory {speed_text(bandwidth)}"
    text += f", measured {speed_text(copied)}" if copied is not None else ""
    left, bottom = inches(highest / 2.9 / bandwidth, highest / 2.2)
    note(left - ruler(NOTE_PT)(text), bottom - 0.04, text, style.INK)
    spots = [inches(mark.intensity, mark.rate) for mark in marks]
    shown = [shorten_middle(printable(mark.label), LABEL_ROOM, ruler(LABEL_PT)) for mark in marks]
    places = place_labels(spots, [ruler(LABEL_PT)(text) for text in shown], taken, crossed)
    for mark, spot, text, (left, bottom) in zip(marks, spots, shown, places, strict=True):
        color, marker = LOOKS[mark.group]
        axes.plot(mark.intensity, mark.rate, marker, color=color, markersize=7, zorder=4,
                  markeredgecolor="white", markeredgewidth=0.8)  # fmt: skip
        width = ruler(LABEL_PT)(text)
        near = min(max(spot[0], left), left + width), bottom + LINE / 2 - 0.02
        if math.dist(near, spot) > 0.16:  # too far to be understood without a line
            axes.plot(
                *zip(_axes_share(spot), _axes_share(near), strict=True), color=color, lw=0.7,
                transform=axes.transAxes, zorder=3,
            )  # fmt: skip
        _in_axes(axes, left, bottom, text, LABEL_PT, color)


def _bars(
    axes: Axes, copies: list[tuple[str, float]], bandwidth: float, copied: float | None
) -> None:
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
    axes.axvline(1, color=style.INK, linewidth=1.6)
    if copied is not None:
        axes.axvline(copied / bandwidth, color=style.MUTED_INK, linewidth=1.2, linestyle="--")
    dress(axes, "", "no arithmetic: bytes a second as a share of the memory's bandwidth", "", "")
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
        figure.add_artist(_mark(x / WIDTH, (y + 0.045) / height, marker, color))
        _write(figure, x + 0.12, y, shown, LABEL_PT, color=color)
        x += 0.4 + ruler(LABEL_PT)(shown)


def _mark(x: float, y: float, marker: str, color: str):
    from matplotlib.lines import Line2D

    return Line2D([x], [y], marker=marker, color=color, markersize=7, linestyle="none")


def _in_axes(axes: Axes, left: float, bottom: float, text: str, size: float, color: str) -> None:
    axes.text(
        left / AXES_WIDTH, bottom / AXES_HEIGHT, text, transform=axes.transAxes, fontsize=size,
        color=color, fontfamily=style.FONT, va="baseline", zorder=5,
    )  # fmt: skip


def _axes_share(spot: tuple[float, float]) -> tuple[float, float]:
    return spot[0] / AXES_WIDTH, spot[1] / AXES_HEIGHT


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


def _si(value: float, unit: str) -> str:
    for factor, sign in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * factor:
            return f"{value / factor:.3g} {sign}{unit}"
    return f"{value:.3g} {unit}"
