"""How times, sizes or plain numbers grow: a few curves over one size, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from ..units import format_bytes, format_ns
from . import style
from .axes import dress, new_figure
from .picture import Picture
from .timeline.labels import ruler, shorten_middle

# Colour, marker and dash together, so that a curve is known without its colour.
LOOKS = (
    ("#0072b2", "o", "-"),
    ("#c04a00", "s", "--"),
    ("#007a58", "^", "-."),
    ("#6a4fa3", "D", ":"),
    ("#8a5a00", "v", (0, (5, 1, 1, 1, 1, 1))),
    ("#32383f", "x", (0, (1, 1))),
)


MOST_TICKS = 9  # more sizes than these, and every second has its number
TICK_PT = 8.5
TICK_GAP = 0.08  # inches between two numbers on the axis of sizes, at least
NAME_PT = 9
NAME_ROOM = 1.35  # inches for a curve's name, behind its end; bold letters are wider than the ruler


def plain_number(value: float) -> str:
    """A number on an axis or in a sentence, no unit: 0.125, 12.5, 1,250, 1.25e+07.

    Three digits that count, but from a thousand to a million all in front of the point.
    """
    return f"{value:,.0f}" if 999.5 <= abs(value) <= 1e6 else f"{value:.3g}"


# What a unit's column ends in (so that tables show it with its unit), and its text.
UNITS: dict[str, tuple[str, Callable[[float], str]]] = {
    "ns": ("_ns", format_ns),
    "bytes": ("_bytes", format_bytes),
    "": ("", plain_number),
}


def _need_logarithm(x: Sequence[float], series: Mapping[str, Sequence[float]], log_y: bool) -> None:
    """Raise ValueError where a logarithmic axis would drop a point and say nothing."""
    if not len(x):
        raise ValueError("curves needs at least one size in x.")
    low = next((size for size in x if size <= 0), None)
    if low is not None:
        raise ValueError(
            f"x holds {low:g}, and the axis of sizes is logarithmic: every size must be above 0. "
            "Leave that point out, or shift all sizes (x + 1) and say so in x_label."
        )
    for name, values in series.items() if log_y else ():
        low = next((value for value in values if value <= 0), None)
        if low is not None:
            raise ValueError(
                f"curve {name!r} holds {low:g}, which a logarithmic axis cannot show: "
                "draw it with log_y=False, or leave that point out."
            )


def _number_the_sizes(axes: Axes, x: Sequence[float], text: Callable[[float], str]) -> None:
    """Write the sizes below their marks, of many every second, and none that would touch another.

    The last of them stays in any case.
    """
    axes.get_xlim()  # settles where the sizes stand
    wide = ruler(TICK_PT)

    def ends(size: float) -> tuple[float, float]:
        middle = axes.transData.transform((size, 1))[0] / axes.figure.dpi
        return middle - wide(text(size)) / 2, middle + wide(text(size)) / 2

    *sizes, last = sorted(x[:: 1 if len(x) <= MOST_TICKS else 2])
    written, behind = {last}, float("-inf")
    for size in sizes:
        start, end = ends(size)
        if start >= behind and end + TICK_GAP <= ends(last)[0]:
            written.add(size)
            behind = end + TICK_GAP
    axes.set_xticks(list(x), [text(size) if size in written else "" for size in x])


def _name_the_ends(axes: Axes, last: float, series: Mapping[str, Sequence[float]]) -> None:
    """Write each curve's name behind its end, from below, none closer than a line to another."""
    heights = {
        name: axes.transData.transform((last, values[-1]))[1] for name, values in series.items()
    }
    line = 1.25 * NAME_PT * axes.figure.dpi / 72
    colors = {name: look[0] for name, look in zip(series, LOOKS, strict=False)}
    ordered = sorted(heights, key=heights.__getitem__)
    places = keep_apart([heights[name] for name in ordered], line)
    for name, place in zip(ordered, places, strict=True):
        shown = shorten_middle(str(name), NAME_ROOM, ruler(NAME_PT))
        axes.annotate(
            f" {shown}", (last, series[name][-1]),
            xytext=(6, (place - heights[name]) * 72 / axes.figure.dpi),
            textcoords="offset points", color=colors[name], va="center", fontweight="bold",
            fontsize=NAME_PT, fontfamily=style.FONT,
        )  # fmt: skip


def keep_apart(places: Sequence[float], distance: float) -> list[float]:
    """Ascending `places`, moved as little as need be so that neighbours keep `distance`.

    Those that would touch become one group around its middle, until no two groups touch.
    """
    groups: list[tuple[float, int]] = []  # middle, size
    for place in places:
        middle, size = place, 1
        while groups:
            before, count = groups[-1]
            if middle - before >= distance * (size + count) / 2:
                break
            middle, size = (middle * size + before * count) / (size + count), size + count
            groups.pop()
        groups.append((middle, size))
    return [
        middle + (rank - (size - 1) / 2) * distance
        for middle, size in groups
        for rank in range(size)
    ]


def curves(
    x: Sequence[float],
    series: Mapping[str, Sequence[float]],
    *,
    title: str,
    x_label: str,
    provenance: object,
    x_unit: str = "",
    y_label: str = "time",
    unit: str = "ns",
    log_y: bool = True,
) -> Picture:
    """Draw series over sizes; each curve carries its name at its end.

    x: sizes, above 0, in `x_unit`. series: name of a curve -> one value a size, in `unit`. A
    unit is "ns" (times), "bytes" or "" (plain numbers). log_y: a logarithmic axis for the
    values, which must then be above 0. ValueError for no x, one that is not above 0, series
    that do not fit x, more than six, or an unknown unit.
    """
    # A column of a table counts as a list; its labels are not places.
    x, series = list(x), {name: list(values) for name, values in series.items()}
    if not series or len(series) > len(LOOKS):
        raise ValueError(f"curves draws one to {len(LOOKS)} curves, not {len(series)}.")
    for one in (unit, x_unit):
        if one not in UNITS:
            raise ValueError(f"unit {one!r} is not one of {', '.join(map(repr, UNITS))}.")
    for name, values in series.items():
        if len(values) != len(x):
            raise ValueError(f"curve {name!r} has {len(values)} values for {len(x)} sizes.")
    _need_logarithm(x, series, log_y)
    ending, text = UNITS[unit]
    x_ending, x_text = UNITS[x_unit] if x_unit else ("", "{:,.0f}".format)

    def draw() -> Figure:
        figure, axes = new_figure(7.6, 3.9)
        for values, (color, marker, dash) in zip(series.values(), LOOKS, strict=False):
            axes.plot(x, values, color=color, marker=marker, linestyle=dash, linewidth=2)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_minor_locator(NullLocator())
        if log_y:
            axes.set_yscale("log")
            if unit == "bytes":  # 1 MiB, 32 MiB, 1 GiB: powers of ten are no round sizes
                axes.yaxis.set_major_locator(LogLocator(base=32))
                axes.yaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
        dress(axes, title, x_label, y_label, provenance)
        axes.margins(x=0.03)
        axes.set_position((0.12, 0.17, 0.66, 0.72))  # room for the names at the right
        _number_the_sizes(axes, x, x_text)
        _name_the_ends(axes, x[-1], series)
        return figure

    columns = {f"{name}{ending}": list(values) for name, values in series.items()}
    frame = pd.DataFrame({f"{x_label}{x_ending}": list(x)} | columns)
    ends = "; ".join(
        f"{name} goes from {text(values[0])} to {text(values[-1])}"
        for name, values in series.items()
    )
    alt = f"{title}. Curves over {x_label} from {x_text(x[0])} to {x_text(x[-1])}: {ends}."
    return Picture(draw, title=title, alt=alt, table=frame, provenance=provenance, width=760)
