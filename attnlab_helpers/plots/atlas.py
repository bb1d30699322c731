"""The dispatch atlas as a map: one tile a cell, coloured and lettered by the backend that ran."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ..sdpa.atlas import Atlas
from . import style
from .axes import new_figure
from .picture import Picture
from .timeline.labels import ruler

# A letter, a colour and a hatch together, so that a tile is known without its colour.
TILES = {
    "cudnn": ("C", style.WORK_STYLES["attention"]),
    "flash": ("F", style.WORK_STYLES["elementwise"]),
    "efficient": ("E", style.WORK_STYLES["softmax"]),
    "math": ("M", style.WORK_STYLES["copy"]),
}
NO_ANSWER = ("×", style.WORK_STYLES["other"])  # crashed, hung, or out of memory
DTYPES = ("bfloat16", "float16", "float32")
MASKS = ("none", "causal", "boolean", "bias")
WIDTH, HEIGHT = 10.6, 4.5  # inches
MARGIN, TOP, PANEL_GAP = 1.75, 0.86, 0.22


def atlas_map(
    atlas: Atlas,
    *,
    direction: str = "forward",
    lengths: str = "equal",
    layout: str = "contiguous",
) -> Picture:
    """Draw which backend ran when the choice was left to PyTorch.

    Rows: dtype and mask; columns: head dim; left: plain heads, right: grouped heads. direction,
    lengths, layout: which part of the atlas. ValueError when it holds nothing of it.
    """
    cells = atlas.cells
    cells = cells[
        (cells["direction"] == direction)
        & (cells["lengths"] == lengths)
        & (cells["layout"] == layout)
    ]
    if cells.empty:
        raise ValueError(
            f"the atlas holds no cell with lengths {lengths!r}, layout {layout!r}, {direction!r}."
        )
    cells = cells.assign(
        shown=cells["ran"].fillna(cells["status"]), grouped=cells["heads"] != cells["kv_heads"]
    )
    head_dims = sorted(cells["head_dim"].unique())
    shown = cells.set_index(["grouped", "dtype", "mask", "head_dim"])["shown"].to_dict()
    title = f"Which backend ran: {lengths} lengths, {layout}, {direction}"

    def draw() -> Figure:
        figure, first = new_figure(WIDTH, HEIGHT)
        first.remove()
        _write(figure, 0.12, HEIGHT - 0.2, title, size=11, weight="bold")
        _legend(figure, set(shown.values()))
        width = (WIDTH - MARGIN - PANEL_GAP - 0.1) / 2
        for panel, grouped in enumerate((False, True)):
            left = MARGIN + panel * (width + PANEL_GAP)
            axes = figure.add_axes(
                (left / WIDTH, 0.55 / HEIGHT, width / WIDTH, (HEIGHT - TOP - 0.75) / HEIGHT)
            )
            _panel(axes, shown, head_dims, grouped, names=panel == 0)
        _write(
            figure, 0.12, 0.08, str(atlas.provenance), size=8, color=style.MUTED_INK,
            slant="italic",
        )  # fmt: skip
        return figure

    rows = [
        {"heads": "grouped" if grouped else "plain", "dtype": dtype, "mask": mask}
        | {f"d {size}": shown.get((grouped, dtype, mask, size), "-") for size in head_dims}
        for grouped in (False, True)
        for dtype in DTYPES
        for mask in MASKS
    ]
    counts = cells["shown"].value_counts()
    said = ", ".join(f"{name} in {count}" for name, count in counts.items())
    math = cells[cells["shown"] == "math"]
    alt = (
        f"{title}. A map of {len(cells)} tiles, rows by dtype and mask, columns by head dim from "
        f"{head_dims[0]} to {head_dims[-1]}, plain heads at the left and grouped at the right: "
        f"{said}. Of the {len(math)} math tiles {int(math['grouped'].sum())} have grouped heads."
    )
    table = pd.DataFrame(rows)
    return Picture(draw, title=title, alt=alt, table=table, provenance=atlas.provenance, width=1060)


def _panel(axes: Axes, shown: dict, head_dims: list[int], grouped: bool, *, names: bool) -> None:
    rows = [(dtype, mask) for dtype in DTYPES for mask in MASKS]
    for row, (dtype, mask) in enumerate(rows):
        for column, head_dim in enumerate(head_dims):
            backend = shown.get((grouped, dtype, mask, head_dim))
            if backend is not None:
                _tile(axes, column, row, backend)
        if names:
            _name(axes, row + 0.5, 6, mask, "normal")
    for block, dtype in enumerate(DTYPES):
        if names:
            _name(axes, 4 * block + 2, 62, dtype, "bold")
        axes.axhline(4 * block, color=style.INK, linewidth=1.0)
    axes.axhline(len(rows), color=style.INK, linewidth=1.0)
    axes.set_xlim(0, len(head_dims))
    axes.set_ylim(len(rows), 0)
    axes.set_yticks([])
    axes.set_xticks(
        [column + 0.5 for column in range(len(head_dims))],
        [str(size) for size in head_dims],
        fontsize=7.5, color=style.MUTED_INK, fontfamily=style.FONT,
    )  # fmt: skip
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title(
        "grouped heads" if grouped else "plain heads", fontsize=9, color=style.INK,
        fontfamily=style.FONT, pad=4,
    )  # fmt: skip
    axes.set_xlabel("head dim", fontsize=8, color=style.MUTED_INK, fontfamily=style.FONT)


def _name(axes: Axes, row: float, points: float, text: str, weight: str) -> None:
    """Words at the left of a row, so many points away from the panel however wide its tiles."""
    axes.annotate(
        text, (0, row), xytext=(-points, 0), textcoords="offset points", ha="right", va="center",
        fontsize=8, fontweight=weight, color=style.INK, fontfamily=style.FONT,
    )  # fmt: skip


def _tile(axes: Axes, column: float, row: float, backend: str) -> None:
    letter, look = TILES.get(backend, NO_ANSWER)
    axes.add_patch(
        Rectangle(
            (column, row), 1, 1, facecolor=look.fill, edgecolor=style.CARD, linewidth=1.4,
        )
    )  # fmt: skip
    if backend == "math":  # the one to notice
        axes.add_patch(
            Rectangle(
                (column, row), 1, 1, fill=False, edgecolor=look.color, hatch="////", linewidth=0,
            )
        )  # fmt: skip
    box = {"boxstyle": "square,pad=0.08", "facecolor": look.fill, "edgecolor": "none"}
    axes.text(
        column + 0.5, row + 0.5, letter, ha="center", va="center", fontsize=7.5,
        fontweight="bold", color=style.INK, fontfamily=style.FONT, bbox=box,
    )  # fmt: skip


def _legend(figure: Figure, present: set[str]) -> None:
    left = 0.12
    words = {"cudnn": "cuDNN", "flash": "flash", "efficient": "efficient", "math": "math"}
    known = [(name, words[name]) for name in TILES if name in present]
    known += [("", name) for name in sorted(present - set(TILES))]
    for name, word in known:
        axes = figure.add_axes(
            (left / WIDTH, (HEIGHT - 0.54) / HEIGHT, 0.19 / WIDTH, 0.19 / HEIGHT)
        )
        axes.set_axis_off()
        axes.set_xlim(0, 1)
        axes.set_ylim(1, 0)
        _tile(axes, 0, 0, name)
        _write(figure, left + 0.26, HEIGHT - 0.5, word, size=8.5)
        left += 0.5 + ruler(8.5)(word)


def _write(
    figure: Figure, left: float, bottom: float, text: str, *, size: float, color: str = style.INK,
    weight: str = "normal", slant: str = "normal",
) -> None:  # fmt: skip
    figure.text(
        left / WIDTH, bottom / HEIGHT, text, fontsize=size, color=color, fontweight=weight,
        fontfamily=style.FONT, fontstyle=slant,
    )  # fmt: skip
