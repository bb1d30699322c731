"""Matrices as pictures: one square a number, so that rows and columns can be pointed at."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import torch
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from . import style
from .axes import new_figure
from .photograph import title_and_provenance
from .picture import Picture

# White to blue for what is never negative; orange to white to blue for what is. Both run from
# light to dark, so that they also read in grey.
UP = LinearSegmentedColormap.from_list("up", ["#ffffff", "#a9d3ee", "#0072b2", "#00304d"])
BOTH = LinearSegmentedColormap.from_list(
    "both", ["#7a2f00", "#e08a4a", "#ffffff", "#5aa5d6", "#00304d"]
)
WRITE_UP_TO = 8  # rows and columns: small matrices carry their numbers


def matrices(
    values: Mapping[str, torch.Tensor],
    *,
    title: str,
    provenance: object,
    row_label: str = "query",
    column_label: str = "key",
) -> Picture:
    """Show matrices side by side; each has its own scale, and small ones their numbers.

    values: name -> (rows, columns); minus infinity is left grey. One to four; ValueError for
    none, more, or what is no matrix. The table has the smallest and largest number of each.
    """
    if not 1 <= len(values) <= 4:
        raise ValueError(f"matrices shows one to four matrices, not {len(values)}.")
    for name, matrix in values.items():
        if matrix.dim() != 2 or not matrix.numel():
            raise ValueError(f"{name} has shape {tuple(matrix.shape)}, which is no matrix.")

    def draw() -> Figure:
        width, side = 8.6, min(3.3, 8.2 / len(values) - 0.55)
        height = side + 1.1
        figure, spare = new_figure(width, height)
        spare.remove()
        small = {"fontsize": 8.5, "color": style.MUTED_INK, "fontfamily": style.FONT}
        for place, (name, matrix) in enumerate(values.items()):
            left = 0.5 + place * (side + 0.55)
            axes = figure.add_axes((left / width, 0.5 / height, side / width, side / height))
            _one(axes, matrix.detach().float().cpu())
            axes.set_title(name, pad=4, **small)
            axes.set_xlabel(column_label, **small)
            axes.set_ylabel(row_label, **small)
        title_and_provenance(figure, title, provenance)
        return figure

    rows = []
    for name, matrix in values.items():
        finite = matrix[torch.isfinite(matrix)].double()
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
        shape = f"{matrix.shape[0]} x {matrix.shape[1]}"
        rows.append({"matrix": name, "shape": shape, "smallest": low, "largest": high})
    table = pd.DataFrame(rows)
    parts = "; ".join(
        f"{row['matrix']}, {row['shape']}, from {row['smallest']:.3g} to {row['largest']:.3g}"
        for row in rows
    )
    alt = f"{title}. Matrices as coloured squares, rows are {row_label}s: {parts}."
    return Picture(
        draw, title=title, alt=alt, table=table, provenance=provenance, width=860, shades=True
    )  # fmt: skip


def _one(axes, matrix: torch.Tensor) -> None:
    finite = torch.isfinite(matrix)
    low = float(matrix[finite].min()) if finite.any() else 0.0
    high = float(matrix[finite].max()) if finite.any() else 1.0
    limit = max(abs(low), abs(high)) or 1.0
    scale = {"cmap": BOTH, "vmin": -limit, "vmax": limit}
    if low >= 0:
        scale = {"cmap": UP, "vmin": 0.0, "vmax": limit}
    axes.set_facecolor("#c9cdd2")
    shown = torch.where(finite, matrix, torch.nan).numpy()
    axes.imshow(shown, interpolation="nearest", aspect="auto", **scale)
    rows, columns = matrix.shape
    axes.tick_params(labelsize=7.5, colors=style.MUTED_INK, labelfontfamily=style.FONT)
    if max(rows, columns) > WRITE_UP_TO:
        return
    axes.set_xticks(range(columns))
    axes.set_yticks(range(rows))
    for row in range(rows):
        for column in range(columns):
            number = float(matrix[row, column])
            dark = abs(number) > 0.5 * limit and bool(finite[row, column])
            axes.text(
                column, row, f"{number:.2f}" if finite[row, column] else "-inf", ha="center",
                va="center", fontsize=7.5, color="#ffffff" if dark else style.INK,
                fontfamily=style.FONT,
            )  # fmt: skip
