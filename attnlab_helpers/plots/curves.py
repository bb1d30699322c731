"""How times, sizes or plain numbers grow: a few curves over one size, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pandas as pd
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
)


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


def curves(
    x: Sequence[float],
    series: Mapping[str, Sequence[float]],
    *,
    title: str,
    x_label: str,
    provenance: object,
    y_label: str = "time",
    unit: str = "ns",
    log_y: bool = True,
) -> Picture:
    """Draw series over sizes; each curve carries its name at its end.

    x: sizes, above 0. series: name of a curve -> one value a size, in `unit`: "ns" (times),
    "bytes" or "" (plain numbers). log_y: a logarithmic axis for the values, which must then be
    above 0. ValueError for no x, one that is not above 0, series that do not fit x, more than
    four, or an unknown unit.
    """
    if not series or len(series) > len(LOOKS):
        raise ValueError(f"curves draws one to {len(LOOKS)} curves, not {len(series)}.")
    if unit not in UNITS:
        raise ValueError(f"unit {unit!r} is not one of {', '.join(map(repr, UNITS))}.")
    for name, values in series.items():
        if len(values) != len(x):
            raise ValueError(f"curve {name!r} has {len(values)} values for {len(x)} sizes.")
    _need_logarithm(x, series, log_y)
    ending, text = UNITS[unit]

    def draw() -> Figure:
        figure, axes = new_figure(7.6, 3.9)
        for (name, values), (color, marker, dash) in zip(series.items(), LOOKS, strict=False):
            axes.plot(x, values, color=color, marker=marker, linestyle=dash, linewidth=2)
            shown = shorten_middle(str(name), NAME_ROOM, ruler(NAME_PT))
            axes.annotate(
                f" {shown}", (x[-1], values[-1]), xytext=(6, 0), textcoords="offset points",
                color=color, va="center", fontweight="bold", fontsize=NAME_PT,
                fontfamily=style.FONT,
            )  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.set_xticks(list(x), [f"{size:,.0f}" for size in x])
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
        return figure

    columns = {f"{name}{ending}": list(values) for name, values in series.items()}
    frame = pd.DataFrame({x_label: list(x)} | columns)
    ends = "; ".join(
        f"{name} goes from {text(values[0])} to {text(values[-1])}"
        for name, values in series.items()
    )
    alt = f"{title}. Curves over {x_label} from {x[0]:,.0f} to {x[-1]:,.0f}: {ends}."
    return Picture(draw, title=title, alt=alt, table=frame, provenance=provenance, width=760)
