"""Matrices as pictures: one square a number, so that rows and columns can be pointed at."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from . import style
from .axes import new_figure
from .curves import plain_number
from .photograph import WIDTH, title_and_provenance, width_for
from .picture import Picture
from .timeline.labels import ruler, shorten_middle

# White to blue for what is never negative; orange to white to blue for what is. Both run from
# light to dark, so that they also read in grey.
UP = LinearSegmentedColormap.from_list("up", ["#ffffff", "#a9d3ee", "#0072b2", "#00304d"])
BOTH = LinearSegmentedColormap.from_list(
    "both", ["#7a2f00", "#e08a4a", "#ffffff", "#5aa5d6", "#00304d"]
)
WRITE_UP_TO = 8  # rows and columns: small matrices carry their numbers
NUMBER = 0.32  # inches a number takes; in narrower squares they would run into each other
AHEAD, BELOW, LEFT, GAP = 0.6, 1.12, 0.5, 0.1  # inches; BELOW: labels, scale, provenance


@dataclass(frozen=True)
class Scale:
    """Which number has which colour: `colors` run from `start` to `stop`, shown low to high."""

    colors: Colormap
    start: float
    stop: float
    low: float
    high: float

    def texts(self, smallest: float, largest: float) -> dict[float, str]:
        """The scale's marks; an end says so when numbers lie beyond it, in its colour."""
        marks = {self.low: plain_number(self.low), self.high: plain_number(self.high)}
        # A hair beyond is rounding (weights of 1.0000001), not a number that is not shown.
        hair = 1e-5 * (self.high - self.low)
        if smallest < self.low - hair:
            marks[self.low] = f"≤ {marks[self.low]}"
        if largest > self.high + hair:
            marks[self.high] = f"≥ {marks[self.high]}"
        if 0.2 < -self.low / (self.high - self.low) < 0.8:
            marks[0.0] = "0"
        return marks


def matrices(
    values: Mapping[str, torch.Tensor],
    *,
    title: str,
    provenance: object,
    row_label: str = "query",
    column_label: str = "key",
    limits: tuple[float, float] | None = None,
) -> Picture:
    """Show matrices side by side, each with its scale of colours, small ones with their numbers.

    values: name -> (rows, columns); what is not finite is left grey. row_label, column_label: in
    the singular. limits: (low, high), one scale for all of them; what lies beyond has the colour
    of the end, whose mark then reads "≥" or "≤". None: each has its own, from 0 to its largest
    number, or as far below 0 as above if it has negative ones.

    One to four; ValueError for none, more, what is no matrix, or limits that are none. The table
    has the smallest and largest number of each.
    """
    if not isinstance(values, Mapping):
        raise TypeError(
            f"values must be a dictionary, name -> matrix, not {type(values).__name__}."
        )
    if not 1 <= len(values) <= 4:
        raise ValueError(f"matrices shows one to four matrices, not {len(values)}.")
    for name, matrix in values.items():
        if not isinstance(matrix, torch.Tensor):
            raise TypeError(f"{name} must be a torch tensor, not {type(matrix).__name__}.")
        if matrix.dim() != 2 or not matrix.numel():
            raise ValueError(f"{name} has shape {tuple(matrix.shape)}, which is no matrix.")
    if limits is not None:
        limits = _check_limits(limits)

    side = min(3.3, (WIDTH - GAP) / len(values) - LEFT - GAP)
    width = width_for(len(values) * (LEFT + side + GAP) + GAP, title, provenance)

    def draw() -> Figure:
        height = side + AHEAD + BELOW
        figure, spare = new_figure(width, height)
        spare.remove()
        small = {"fontsize": 8.5, "color": style.MUTED_INK, "fontfamily": style.FONT}
        for place, (name, matrix) in enumerate(values.items()):
            left = (LEFT + place * (side + LEFT + GAP)) / width
            axes = figure.add_axes((left, BELOW / height, side / width, side / height))
            bar = figure.add_axes((left, 0.5 / height, side / width, 0.09 / height))
            write = max(matrix.shape) <= min(WRITE_UP_TO, side / NUMBER)
            _one(axes, bar, matrix.detach().float().cpu(), limits, write)
            axes.set_title(shorten_middle(str(name), side + 2 * GAP, ruler(8.5)), pad=4, **small)
            axes.set_xlabel(column_label, labelpad=2, **small)
            axes.set_ylabel(row_label, labelpad=2, **small)
        title_and_provenance(figure, title, provenance)
        return figure

    rows = []
    for name, matrix in values.items():
        low, high = _ends(matrix.detach().double())
        shape = f"{matrix.shape[0]} x {matrix.shape[1]}"
        rows.append({"matrix": name, "shape": shape, "smallest": low, "largest": high})
    table = pd.DataFrame(rows)
    parts = "; ".join(
        f"{row['matrix']}, {row['shape']}, from {plain_number(row['smallest'])} to "
        f"{plain_number(row['largest'])}"
        for row in rows
    )
    one_scale = ""
    if limits is not None:
        low, high = map(plain_number, limits)
        one_scale = f" One scale of colours for all, from {low} to {high}."
    alt = (
        f"{title}. Matrices as coloured squares, rows are {_plural(row_label)}, columns are "
        f"{_plural(column_label)}: {parts}.{one_scale}"
    )
    return Picture(
        draw, title=title, alt=alt, table=table, provenance=provenance,
        width=round(100 * width), shades=True,
    )  # fmt: skip


def _check_limits(limits: tuple[float, float]) -> tuple[float, float]:
    both = tuple(limits) if isinstance(limits, tuple | list) else ()
    numbers = all(isinstance(one, Real) and not isinstance(one, bool) for one in both)
    if len(both) != 2 or not numbers or not all(map(math.isfinite, both)) or both[0] >= both[1]:
        raise ValueError(
            f"limits={limits!r} must be two finite numbers, the lower one first: (0, 1)."
        )
    return float(both[0]), float(both[1])


def _ends(matrix: torch.Tensor) -> tuple[float, float]:
    """The smallest and largest finite number; zeros where none is finite."""
    finite = matrix[torch.isfinite(matrix)]
    return (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)


def _scale(matrix: torch.Tensor, limits: tuple[float, float] | None) -> Scale:
    if limits is not None and limits[0] >= 0:
        return Scale(UP, *limits, *limits)
    if limits is not None:
        reach = max(map(abs, limits))  # white stays at zero, wherever the scale is cut
        return Scale(BOTH, -reach, reach, *limits)
    low, high = _ends(matrix)
    reach = max(abs(low), abs(high)) or 1.0
    return (
        Scale(UP, 0.0, reach, 0.0, reach) if low >= 0 else Scale(BOTH, -reach, reach, -reach, reach)
    )


def _one(
    axes: Axes, bar: Axes, matrix: torch.Tensor, limits: tuple[float, float] | None, write: bool
) -> None:
    scale = _scale(matrix, limits)
    look = {"cmap": scale.colors, "vmin": scale.start, "vmax": scale.stop}
    finite = torch.isfinite(matrix)
    axes.set_facecolor("#c9cdd2")
    shown = torch.where(finite, matrix.clamp(scale.low, scale.high), torch.nan).numpy()
    axes.imshow(shown, interpolation="nearest", aspect="auto", **look)
    tick_font = {"labelsize": 7.5, "colors": style.MUTED_INK, "labelfontfamily": style.FONT}
    axes.tick_params(**tick_font)
    _draw_bar(bar, scale, look, scale.texts(*_ends(matrix)))
    bar.tick_params(length=2, pad=2, **tick_font)
    rows, columns = matrix.shape
    if not write:
        axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10], integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10], integer=True))
        return
    axes.set_xticks(range(columns))
    axes.set_yticks(range(rows))
    for row in range(rows):
        for column in range(columns):
            number = float(matrix[row, column])
            strength = (shown[row, column] - scale.start) / (scale.stop - scale.start)
            dark = bool(finite[row, column]) and _is_dark(scale.colors(strength))
            axes.text(
                column, row, f"{number:.2f}", ha="center", va="center", fontsize=7.5,
                color="#ffffff" if dark else style.INK, fontfamily=style.FONT,
            )  # fmt: skip


def _is_dark(color: tuple[float, ...]) -> bool:
    """Whether white reads better on it than black, by WCAG 2's relative luminance."""
    linear = [part / 12.92 if part <= 0.04 else ((part + 0.055) / 1.055) ** 2.4 for part in color]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] < 0.179


def _draw_bar(bar: Axes, scale: Scale, look: dict, marks: dict[float, str]) -> None:
    steps = np.linspace(scale.low, scale.high, 256)[None]
    bar.imshow(steps, aspect="auto", extent=(scale.low, scale.high, 0, 1), **look)
    bar.set_yticks([])
    bar.set_xticks(list(marks), list(marks.values()))
    first, last = bar.get_xticklabels()[:2]  # inside the bar's ends, so that neighbours stay apart
    first.set_horizontalalignment("left")
    last.set_horizontalalignment("right")
    for spine in bar.spines.values():
        spine.set_color(style.FAINT_INK)


def _plural(word: str) -> str:
    if word.endswith("y") and word[-2:-1] not in tuple("aeiou"):
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "ch", "sh")) else f"{word}s"
