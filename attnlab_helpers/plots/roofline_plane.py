"""The plane of a roofline: its roofs, as far as they are known, and points with their labels."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, NullFormatter

from . import style
from .roofline_labels import AXES_HEIGHT, AXES_WIDTH, Box, Spot, leader, place_labels
from .timeline.labels import printable, ruler, shorten_middle

LOOKS = (
    ("#0072b2", "o"), ("#c04a00", "s"), ("#007a58", "^"), ("#6a4fa3", "D"), ("#8a8000", "v"),
    ("#a8527f", "P"), ("#1b1f24", "X"),
)  # fmt: skip
LABEL_PT, NOTE_PT, LABEL_ROOM = 8.5, 8, 2.3
LEADER = "leader"  # the name in the figure of a line from a point to its label


@dataclass(frozen=True)
class Mark:
    """A point: intensity in FLOP/byte, rate in FLOP/s, group from 0."""

    label: str
    intensity: float
    rate: float
    group: int


@dataclass(frozen=True)
class Ceiling:
    """A compute roof in FLOP/s: the vendor's, and what a matrix product reached; None: unknown."""

    dtype: str
    peak: float | None
    measured: float | None

    @property
    def top(self) -> float | None:
        """The roof that points are held against: the vendor's, or else the measured one."""
        return self.measured if self.peak is None else self.peak


@dataclass(frozen=True)
class Slope:
    """The memory's roof in bytes/s: the vendor's, and what a copy reached. One is known."""

    vendor: float | None
    measured: float | None

    @property
    def speed(self) -> float:
        """The one that points are held against: the vendor's, or else the measured one."""
        return self.measured if self.vendor is None else self.vendor


class Plane:
    """Axes with logarithmic scales, and what has been drawn there so far, in inches."""

    def __init__(self, axes: Axes, across: tuple[float, float], up: tuple[float, float]) -> None:
        self.axes, self.across, self.up = axes, across, up
        self.taken: list[Box] = []
        self.crossed: list[Spot] = []  # along what labels had better not cross
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(*across)
        axes.set_ylim(*up)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: si(value, "").strip()))

    def inches(self, x: float, y: float) -> Spot:
        (low_x, high_x), (low_y, high_y) = self.across, self.up
        right = math.log(x / low_x) / math.log(high_x / low_x)
        high = math.log(y / low_y) / math.log(high_y / low_y)
        return right * AXES_WIDTH, high * AXES_HEIGHT

    def line(self, start: Spot, end: Spot, *, measured: bool) -> None:
        """A roof from one corner to the other: solid the vendor's, dashed a measured one."""
        color, width, dash = (style.MUTED_INK, 1.2, "--") if measured else (style.INK, 1.6, "-")
        self.axes.plot(
            *zip(start, end, strict=True), color=color, linewidth=width, linestyle=dash, zorder=2
        )
        (x0, y0), (x1, y1) = self.inches(*start), self.inches(*end)
        steps = max(1, round(math.dist((x0, y0), (x1, y1)) / 0.04))
        shares = [step / steps for step in range(steps + 1)]
        self.crossed.extend((x0 + (x1 - x0) * t, y0 + (y1 - y0) * t) for t in shares)

    def note(self, left: float, bottom: float, text: str, color: str) -> None:
        """Words at a roof, kept inside the axes; labels keep out of them."""
        width = ruler(NOTE_PT)(text)
        left = min(max(left, 0.02), AXES_WIDTH - width - 0.08)
        self.taken.append((left, bottom - 0.02, left + width, bottom + 0.12))
        self.write(left, bottom, text, NOTE_PT, color)

    def write(self, left: float, bottom: float, text: str, size: float, color: str) -> None:
        # A rim in the paper's colour keeps words apart from a roof that runs through them.
        rim = [withStroke(linewidth=3, foreground=style.CARD)]
        self.axes.text(
            left / AXES_WIDTH, bottom / AXES_HEIGHT, text, transform=self.axes.transAxes,
            fontsize=size, color=color, fontfamily=style.FONT, va="baseline", zorder=5,
            path_effects=rim,
        )  # fmt: skip


def draw_plane(axes: Axes, marks: list[Mark], ceilings: list[Ceiling], slope: Slope) -> None:
    """Roofs and points; a roof that nobody knows is left out."""
    speed = slope.speed
    tops = [ceiling.top for ceiling in ceilings if ceiling.top is not None]
    rates = [mark.rate for mark in marks]
    intensities = [mark.intensity for mark in marks]
    # Without a compute roof the memory's goes up as far as the points go right.
    highest = max(tops) if tops else max(*rates, speed * max(intensities))
    ridges = [top / speed for top in tops] or [highest / speed]
    across = min(*intensities, min(ridges) / 10) / 3, max(*intensities, *ridges) * 12
    plane = Plane(axes, across, (min(*rates, highest / 100) / 5, max(highest, *rates) * 5))
    _slopes(plane, ceilings, slope, highest)
    for ceiling in ceilings:
        _ceiling(plane, ceiling, slope)
    _memory_note(plane, slope, highest)
    _points(plane, marks)


def _slopes(plane: Plane, ceilings: list[Ceiling], slope: Slope, highest: float) -> None:
    low_x, high_x = plane.across
    known = [ceiling.top for ceiling in ceilings if ceiling.top is not None]
    peaks = [ceiling.peak for ceiling in ceilings if ceiling.peak is not None]
    reached = [ceiling.measured or ceiling.peak for ceiling in ceilings if ceiling.top is not None]
    edge = plane.up[1]  # no compute roof: up to the picture's edge
    for speed, ends, measured in (
        (slope.vendor, peaks or known, False), (slope.measured, reached, True),
    ):  # fmt: skip
        if speed is not None:
            end = min((max(ends) if ends else edge) / speed, high_x)
            plane.line((low_x, low_x * speed), (end, end * speed), measured=measured)


def _ceiling(plane: Plane, ceiling: Ceiling, slope: Slope) -> None:
    if ceiling.top is None:
        return
    high_x, low_y, ridge = plane.across[1], plane.up[0], ceiling.top / slope.speed
    words = [f"{ceiling.dtype} {rate_text(ceiling.peak)}"] if ceiling.peak is not None else []
    if ceiling.peak is not None:
        plane.line((ridge, ceiling.peak), (high_x, ceiling.peak), measured=False)
    if ceiling.measured is not None:
        name = "measured" if words else f"{ceiling.dtype}, measured"
        words.append(f"{name} {rate_text(ceiling.measured)}")
        start = ceiling.measured / (slope.measured or slope.speed)
        plane.line((start, ceiling.measured), (high_x, ceiling.measured), measured=True)
    plane.axes.plot(
        [ridge, ridge], [low_y, ceiling.top], color=style.FAINT_INK, lw=0.9, ls=":"
    )  # fmt: skip
    above = plane.inches(ridge, ceiling.top)[1] + 0.06
    plane.note(AXES_WIDTH, above, ", ".join(words), style.INK)
    left, bottom = plane.inches(ridge, low_y)
    plane.note(left + 0.05, bottom + 0.06, f"ridge {ridge:.3g} FLOP/byte", style.MUTED_INK)


def _memory_note(plane: Plane, slope: Slope, highest: float) -> None:
    """Left of the slope, where no point can be."""
    words = [f"memory {speed_text(slope.vendor)}"] if slope.vendor is not None else []
    if slope.measured is not None:
        name = "measured" if words else "memory, measured"
        words.append(f"{name} {speed_text(slope.measured)}")
    text = ", ".join(words)
    left, bottom = plane.inches(highest / 2.9 / slope.speed, highest / 2.2)
    plane.note(left - ruler(NOTE_PT)(text), bottom - 0.04, text, style.INK)


def _points(plane: Plane, marks: list[Mark]) -> None:
    measure = ruler(LABEL_PT)
    spots = [plane.inches(mark.intensity, mark.rate) for mark in marks]
    shown = [shorten_middle(printable(mark.label), LABEL_ROOM, measure) for mark in marks]
    widths = [measure(text) + 0.03 for text in shown]  # what is drawn may be a pixel or two wider
    places = place_labels(spots, widths, plane.taken, plane.crossed)
    for mark, spot, text, width, place in zip(marks, spots, shown, widths, places, strict=True):
        color, marker = LOOKS[mark.group]
        plane.axes.plot(mark.intensity, mark.rate, marker, color=color, markersize=7, zorder=4,
                        markeredgecolor="white", markeredgewidth=0.8)  # fmt: skip
        end = leader(spot, place, width)
        if end is not None:  # too far to be understood without a line
            ends = [(x / AXES_WIDTH, y / AXES_HEIGHT) for x, y in itertools.chain((spot, end))]
            plane.axes.plot(
                *zip(*ends, strict=True), color=color, lw=0.7, transform=plane.axes.transAxes,
                zorder=3, gid=LEADER,
            )  # fmt: skip
        plane.write(*place, text, LABEL_PT, color)


def _plain(value: float) -> str:
    """A tick without an exponent, where it is not too long: 10,000."""
    return f"{value:,.0f}" if 1 <= value < 1e7 else f"{value:.4g}"


def rate_text(rate: float) -> str:
    """FLOP/s with the unit that fits: 989 TFLOP/s."""
    return si(rate, "FLOP/s")


def speed_text(speed: float) -> str:
    """Bytes/s in powers of 1000, as vendors count: 4.8 TB/s."""
    return si(speed, "B/s")


def si(value: float, unit: str) -> str:
    """Three digits that count, with a prefix for the power of 1000."""
    for factor, sign in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * factor:
            return f"{value / factor:.3g} {sign}{unit}"
    return f"{value:.3g} {unit}"
