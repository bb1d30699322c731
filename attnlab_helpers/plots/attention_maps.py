"""Attention over the photograph it belongs to: one patch's map, and its maps in all heads."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ..vit.heads import attention_distance
from ..vit.patches import patch_grid
from . import style
from .axes import new_figure
from .photograph import Photograph, for_show, title_and_provenance
from .picture import Picture

# From nothing to a strong vermilion (of Okabe and Ito's colours for the colour-blind): where no
# attention goes the photograph stays, pale and grey; where much goes it is covered and darker.
INK = (0.835, 0.369, 0.0)
HEAT = LinearSegmentedColormap.from_list("attention", [(*INK, 0.0), (*INK, 0.95)])


def attention_map(
    image: torch.Tensor,
    weights: torch.Tensor,
    query: tuple[int, int],
    *,
    title: str,
    provenance: object,
    patch: int = 16,
) -> Picture:
    """What one patch attends to, over the photograph.

    image (3, H, W), values 0 to 1; weights (N, N), attention among patches (one head, a mean of
    heads, a rollout); query: (row, column) of the patch that looks. Its row of weights is
    shown; 1 is an even share, 1 / N. The table has the ten patches that get most. ValueError
    for a query outside the picture or weights that do not fit.
    """
    grid = patch_grid(image.shape[-2], image.shape[-1], patch)
    shares = _shares(weights, query, grid)
    table = _strongest(shares, grid[1])

    def draw() -> Figure:
        figure, left = new_figure(8.6, 4.7)
        left.set_position((0.015, 0.09, 0.44, 0.80))
        right = figure.add_axes((0.475, 0.09, 0.44, 0.80))
        left.imshow(for_show(image))
        _mark(left, query, patch)
        heat = _heat(right, image, shares.reshape(grid))
        _mark(right, query, patch)
        for rank, (row, column) in enumerate(
            zip(table["row"][:5], table["column"][:5], strict=True)
        ):
            _number(right, rank + 1, (column + 0.5) * patch, (row + 0.5) * patch)
        bar = figure.colorbar(heat, cax=figure.add_axes((0.925, 0.09, 0.018, 0.80)))
        bar.ax.tick_params(labelsize=8, colors=style.MUTED_INK, labelfontfamily=style.FONT)
        bar.set_label(
            "times an even share", fontsize=8, color=style.MUTED_INK, fontfamily=style.FONT
        )
        title_and_provenance(figure, title, provenance)
        return figure

    first = "; ".join(
        f"row {row}, column {column} ({share:.1f} times)"
        for row, column, share in table[["row", "column", "times_even_share"]]
        .head(3)
        .itertuples(index=False)
    )
    alt = (
        f"{title}. Left, the photograph with the patch in row {query[0]}, column {query[1]} "
        f"framed; right, what it attends to, strong colour over the same photograph in grey, the "
        f"five strongest numbered. Most above an even share: {first}."
    )
    return Photograph(draw, title=title, alt=alt, table=table, provenance=provenance, width=860)


def head_grid(
    image: torch.Tensor,
    weights: torch.Tensor,
    query: tuple[int, int],
    *,
    title: str,
    provenance: object,
    patch: int = 16,
) -> Picture:
    """One patch's map in every head: layers from left to right, heads from top to bottom.

    image (3, H, W), values 0 to 1; weights (layers, heads, N, N) among patches. Each map is
    scaled to its own maximum. The table has a row a head: its distance in pixels over all
    queries, this query's strongest patch and its share.
    """
    grid = patch_grid(image.shape[-2], image.shape[-1], patch)
    if weights.dim() != 4:
        raise ValueError(f"weights must be (layers, heads, N, N), not {tuple(weights.shape)}.")
    layers, heads = weights.shape[:2]
    shares = [[_shares(weights[i, j], query, grid) for j in range(heads)] for i in range(layers)]
    distances = attention_distance(weights, grid, patch)
    rows = []
    for layer in range(layers):
        for head in range(heads):
            place = int(shares[layer][head].argmax())
            rows.append(
                {
                    "layer": layer,
                    "head": head,
                    "distance": float(distances[layer, head]),
                    "row": place // grid[1],
                    "column": place % grid[1],
                    "times_even_share": float(shares[layer][head][place]),
                }
            )
    table = pd.DataFrame(rows)

    def draw() -> Figure:
        width = 8.6
        left, right, ahead, below = 0.62, 0.08, 0.62, 0.3
        side = (width - left - right) / layers
        height = ahead + below + side * heads * image.shape[-2] / image.shape[-1]
        figure, spare = new_figure(width, height)
        spare.remove()
        down = (height - ahead - below) / heads
        for layer in range(layers):
            for head in range(heads):
                bottom = below + (heads - 1 - head) * down
                box = ((left + layer * side) / width, bottom / height)
                axes = figure.add_axes((*box, 0.96 * side / width, 0.96 * down / height))
                _heat(axes, image, shares[layer][head].reshape(grid))
                _mark(axes, query, patch, thin=True)
                small = {"fontsize": 8, "color": style.MUTED_INK, "fontfamily": style.FONT}
                if head == 0:
                    axes.set_title(f"layer {layer}", pad=3, **small)
                if layer == 0:
                    axes.set_ylabel(f"head {head}", rotation=0, ha="right", va="center", **small)
        title_and_provenance(figure, title, provenance)
        return figure

    near, far = table.loc[table["distance"].idxmin()], table.loc[table["distance"].idxmax()]
    alt = (
        f"{title}. {layers * heads} small maps of what the patch in row {query[0]}, column "
        f"{query[1]} attends to, strong colour over the photograph in grey; layers from left to "
        f"right, heads from top to bottom. Nearest looks layer {near['layer']:.0f}, head "
        f"{near['head']:.0f} ({near['distance']:.0f} pixels), farthest layer {far['layer']:.0f}, "
        f"head {far['head']:.0f} ({far['distance']:.0f} pixels)."
    )
    return Photograph(draw, title=title, alt=alt, table=table, provenance=provenance, width=860)


def _shares(weights: torch.Tensor, query: tuple[int, int], grid: tuple[int, int]) -> np.ndarray:
    """The query's row of weights, in even shares: float64 (N,)."""
    rows, columns = grid
    count = rows * columns
    if tuple(weights.shape) != (count, count):
        hint = ""
        if weights.shape[-1] == count + 1:
            hint = " The extra one is a class token: see vit.without_class_token."
        raise ValueError(
            f"weights has shape {tuple(weights.shape)}, but a picture of {rows} x {columns} "
            f"patches needs ({count}, {count}).{hint}"
        )
    row, column = query
    if not (0 <= row < rows and 0 <= column < columns):
        raise ValueError(
            f"query {query} lies outside: rows go from 0 to {rows - 1}, columns to {columns - 1}."
        )
    return weights[row * columns + column].detach().double().cpu().numpy() * count


def _strongest(shares: np.ndarray, columns: int) -> pd.DataFrame:
    order = np.argsort(-shares, kind="stable")[:10]
    return pd.DataFrame(
        {
            "rank": range(1, len(order) + 1),
            "row": order // columns,
            "column": order % columns,
            "weight": shares[order] / len(shares),
            "times_even_share": shares[order],
        }
    )


def _heat(axes: Axes, image: torch.Tensor, shares: np.ndarray) -> ScalarMappable:
    """The photograph, pale and grey, under the heat of the shares."""
    height, width = image.shape[-2:]
    axes.imshow(0.4 + 0.6 * for_show(image).mean(axis=2), cmap="gray", vmin=0, vmax=1)
    heat = axes.imshow(
        shares, cmap=HEAT, vmin=0, vmax=max(float(shares.max()), 1e-12),
        extent=(-0.5, width - 0.5, height - 0.5, -0.5), interpolation="nearest",
    )  # fmt: skip
    _bare(axes)
    return heat


def _mark(axes: Axes, query: tuple[int, int], patch: int, thin: bool = False) -> None:
    corner = (query[1] * patch - 0.5, query[0] * patch - 0.5)
    for color, line in (("#000000", 2.2 if thin else 5), ("#ffffff", 1 if thin else 2.2)):
        axes.add_patch(Rectangle(corner, patch, patch, fill=False, edgecolor=color, linewidth=line))
    _bare(axes)


def _number(axes: Axes, rank: int, x: float, y: float) -> None:
    ground = {"boxstyle": "circle,pad=0.15", "facecolor": "#ffffff", "edgecolor": "#000000"}
    axes.text(
        x, y, str(rank), ha="center", va="center", fontsize=7, bbox=ground, fontfamily=style.FONT
    )


def _bare(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
