"""How times grow: a few curves over one size, both axes logarithmic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from ..units import format_ns
from .axes import dress, new_figure
from .picture import Picture

# Colour, marker and dash together, so that a curve is known without its colour.
LOOKS = (
    ("#0072b2", "o", "-"),
    ("#c04a00", "s", "--"),
    ("#007a58", "^", "-."),
    ("#6a4fa3", "D", ":"),
)


def curves(
    x: Sequence[float],
    times_ns: Mapping[str, Sequence[float]],
    *,
    title: str,
    x_label: str,
    provenance: object,
) -> Picture:
    """Draw times over sizes.

    x: sizes, above 0. times_ns: name of a curve -> one time in nanoseconds a size. Each curve
    carries its name at its end. ValueError for curves that do not fit x, or more than four.
    """
    if not times_ns or len(times_ns) > len(LOOKS):
        raise ValueError(f"curves draws one to {len(LOOKS)} curves, not {len(times_ns)}.")
    for name, values in times_ns.items():
        if len(values) != len(x):
            raise ValueError(f"curve {name!r} has {len(values)} times for {len(x)} sizes.")

    def draw() -> Figure:
        figure, axes = new_figure(7.6, 3.9)
        for (name, values), (color, marker, dash) in zip(times_ns.items(), LOOKS, strict=False):
            axes.plot(x, values, color=color, marker=marker, linestyle=dash, linewidth=2)
            axes.annotate(
                f" {name}", (x[-1], values[-1]), xytext=(6, 0), textcoords="offset points",
                color=color, va="center", fontweight="bold", fontsize=9,
            )  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(list(x), [f"{size:,.0f}" for size in x])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_ns(value)))
        axes.yaxis.set_minor_formatter(NullFormatter())
        dress(axes, title, x_label, "time", provenance)
        axes.margins(x=0.03)
        axes.set_position((0.12, 0.17, 0.69, 0.72))  # room for the names at the right
        return figure

    frame = pd.DataFrame(
        {x_label: list(x)} | {f"{name}_ns": list(v) for name, v in times_ns.items()}
    )
    ends = "; ".join(
        f"{name} goes from {format_ns(values[0])} to {format_ns(values[-1])}"
        for name, values in times_ns.items()
    )
    alt = f"{title}. Curves over {x_label} from {x[0]:,.0f} to {x[-1]:,.0f}, logarithmic: {ends}."
    return Picture(draw, title=title, alt=alt, table=frame, provenance=provenance, width=760)
