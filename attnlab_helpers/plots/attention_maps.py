"""Attention over the photograph it belongs to: one patch's map, and its maps in all heads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ..vit.heads import query_distances
from ..vit.patches import patch_grid
from ..vit.pixels import check_picture
from ..vit.shares import Looks, check_shares, check_weights, place, weights_of
from . import style
from .axes import new_figure
from .photograph import Photograph, for_show, title_and_provenance
from .picture import Picture

# From nothing to a strong vermilion (of Okabe and Ito's colours for the colour-blind): where no
# attention goes the photograph stays, pale and grey; where much goes it is covered and darker.
INK = (0.835, 0.369, 0.0)
HEAT = LinearSegmentedColormap.from_list("attention", [(*INK, 0.0), (*INK, 0.95)])


@dataclass(frozen=True)
class Words:
    """What a direction is called: above the map, at the scale, in the table, in the alt text."""

    panel: str
    unit: str
    column: str
    most: str


WORDS: dict[str, Words] = {
    "out": Words(
        "what it attends to",
        "times an even share",
        "times_even_share",
        "Most above an even share",
    ),
    "in": Words(
        "who attends to it",
        "times what patches give it on average",
        "times_mean",
        "Most above what patches give it on average",
    ),
}


def attention_map(
    image: torch.Tensor,
    weights: torch.Tensor,
    query: tuple[int, int],
    *,
    title: str,
    provenance: object,
    patch: int = 16,
    looks: Looks = "out",
) -> Picture:
    """What one patch attends to, or who attends to it, over the photograph.

    image (3, H, W), values 0 to 1; weights (N, N), attention among patches (one head, a mean of
    heads, a rollout): shares, so rows sum to one; query: (row, column) of the patch in the frame.

    looks="out": its row of weights, what it gives to each patch. 1 is an even share, 1 / N; the
    table's column is times_even_share. looks="in": its column, what each patch gives to it. 1 is
    the mean of that column, times_mean in the table. The table has the ten strongest patches.
    TypeError or ValueError for what does not fit, lies outside, or is no share.
    """
    check_picture(image)
    grid = patch_grid(image.shape[-2], image.shape[-1], patch)
    query = place(query, grid)
    check_weights(weights, grid, ahead=())
    check_shares(weights)
    given = weights_of(weights, query, grid, looks)
    words = WORDS[looks]
    mean = float(given.mean()) if looks == "in" else 1 / len(given)
    times = given / mean if mean else given
    table = _strongest(given, times, grid[1]).rename(columns={"times": words.column})

    def draw() -> Figure:
        figure, left = new_figure(8.6, 4.7)
        left.set_position((0.015, 0.08, 0.44, 0.78))
        right = figure.add_axes((0.475, 0.08, 0.44, 0.78))
        small = {"fontsize": 8.5, "color": style.MUTED_INK, "fontfamily": style.FONT}
        left.set_title("the patch in the frame", pad=4, **small)
        right.set_title(words.panel, pad=4, **small)
        left.imshow(for_show(image))
        _mark(left, query, patch)
        heat = _heat(right, image, times.reshape(grid))
        _mark(right, query, patch)
        strongest = table[table["weight"] > 0].head(5)
        for rank, (row, column) in enumerate(
            zip(strongest["row"], strongest["column"], strict=True)
        ):
            _number(right, rank + 1, (column + 0.5) * patch, (row + 0.5) * patch)
        bar = figure.colorbar(heat, cax=figure.add_axes((0.925, 0.08, 0.018, 0.78)))
        bar.ax.tick_params(labelsize=8, colors=style.MUTED_INK, labelfontfamily=style.FONT)
        bar.set_label(words.unit, fontsize=8, color=style.MUTED_INK, fontfamily=style.FONT)
        title_and_provenance(figure, title, provenance)
        return figure

    first = "; ".join(
        f"row {row}, column {column} ({share:.1f} times)"
        for row, column, share in table[["row", "column", words.column]]
        .head(3)
        .itertuples(index=False)
    )
    alt = (
        f"{title}. Left, the photograph with the patch in row {query[0]}, column {query[1]} "
        f"framed; right, {words.panel}, strong colour over the same photograph in grey, the "
        f"five strongest numbered. {words.most}: {first}."
    )
    if not given.any():
        alt = f"{title}. No patch attends to the one in row {query[0]}, column {query[1]}."
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
    scaled to its own maximum. The table has a row a head: distance, how far this query looks in
    pixels; mean_distance, how far the head's queries look on average (`vit.attention_distance`);
    row, column and times_even_share of the patch that this query gives most. TypeError or
    ValueError as in `attention_map`.
    """
    check_picture(image)
    grid = patch_grid(image.shape[-2], image.shape[-1], patch)
    query = place(query, grid)
    check_weights(weights, grid, ahead=("layers", "heads"))
    check_shares(weights)
    layers, heads = weights.shape[:2]
    count = grid[0] * grid[1]
    shares = [
        [weights_of(weights[i, j], query, grid) * count for j in range(heads)]
        for i in range(layers)
    ]
    distances = query_distances(weights.detach(), grid, patch)
    own = distances[..., query[0] * grid[1] + query[1]]
    means = distances.mean(dim=-1)
    rows = []
    for layer in range(layers):
        for head in range(heads):
            most = int(shares[layer][head].argmax())
            rows.append(
                {
                    "layer": layer,
                    "head": head,
                    "distance": float(own[layer, head]),
                    "mean_distance": float(means[layer, head]),
                    "row": most // grid[1],
                    "column": most % grid[1],
                    "times_even_share": float(shares[layer][head][most]),
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
        f"right, heads from top to bottom. It looks nearest in layer {near['layer']:.0f}, head "
        f"{near['head']:.0f} ({near['distance']:.0f} pixels), farthest in layer "
        f"{far['layer']:.0f}, head {far['head']:.0f} ({far['distance']:.0f} pixels)."
    )
    return Photograph(draw, title=title, alt=alt, table=table, provenance=provenance, width=860)


def _strongest(given: np.ndarray, times: np.ndarray, columns: int) -> pd.DataFrame:
    order = np.argsort(-given, kind="stable")[:10]
    return pd.DataFrame(
        {
            "rank": range(1, len(order) + 1),
            "row": order // columns,
            "column": order % columns,
            "weight": given[order],
            "times": times[order],
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
