"""What all pictures with axes share: size, font, grid, title and the line of provenance."""

from __future__ import annotations

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from . import style


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of this size in inches, without pyplot and its global state."""
    with rc_context({"font.family": style.FONT, "hatch.linewidth": 0.7}):
        figure = Figure(figsize=(width, height), dpi=140, facecolor=style.CARD)
        axes = figure.add_axes((0.12, 0.17, 0.84, 0.69))
    return figure, axes


def dress(axes: Axes, title: str, x_label: str, y_label: str, provenance: object) -> None:
    """Title, labels, a quiet grid, and where the numbers come from, under the picture."""
    font = {"fontfamily": style.FONT}
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=style.INK, **font)
    axes.set_xlabel(x_label, fontsize=9, color=style.MUTED_INK, **font)
    axes.set_ylabel(y_label, fontsize=9, color=style.MUTED_INK, **font)
    axes.grid(True, color=style.GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8.5, colors=style.MUTED_INK, labelfontfamily=style.FONT)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(style.FAINT_INK)
    axes.figure.text(
        0.012, 0.015, str(provenance), fontsize=8, style="italic", color=style.MUTED_INK, **font
    )
