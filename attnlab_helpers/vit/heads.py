"""What heads look at, in numbers: how far, how much alike, and how attention adds up over layers.

Attention weights come as (..., N, N) with tokens = patches, row by row from the top left, such
as `ViT.with_weights` gives; `without_class_token` takes a class token out first.
"""

from __future__ import annotations

import math

import pandas as pd
import torch

from .patches import patch_grid, to_patches
from .pixels import check_picture
from .shares import check_weights


def without_class_token(weights: torch.Tensor, grid: tuple[int, int] | None = None) -> torch.Tensor:
    """Weights among patches only: (..., N + 1, N + 1) -> (..., N, N), rows sum to one again.

    The first row and column go; a row that gives all to the class token becomes NaN. grid: rows
    and columns of patches. Without it, weights whose N + 1 is a square and whose N is none are
    taken for those of a square picture that has no class token. ValueError for that, for what
    does not fit the grid, and for what is not square.
    """
    tokens = weights.shape[-1] if weights.dim() >= 2 else 0
    if tokens < 2 or weights.shape[-2] != tokens:
        raise ValueError(f"weights has shape {tuple(weights.shape)}, not (..., N + 1, N + 1).")
    if grid is not None and tokens != grid[0] * grid[1] + 1:
        raise ValueError(
            f"{tokens} tokens are not a class token and {grid[0]} x {grid[1]} patches: "
            f"{grid[0] * grid[1] + 1} are."
        )
    side = math.isqrt(tokens)
    if grid is None and side**2 == tokens and math.isqrt(tokens - 1) ** 2 != tokens - 1:
        raise ValueError(
            f"{tokens} tokens are {side} x {side} patches without a class token: use the weights "
            f"as they are. If there is one, and {tokens - 1} patches, say how they lie: "
            "grid=(rows, columns)."
        )
    among = weights[..., 1:, 1:]
    return among / among.sum(dim=-1, keepdim=True)


def attention_distance(
    weights: torch.Tensor, grid: tuple[int, int], patch: int = 16
) -> torch.Tensor:
    """Mean attention distance in pixels: (..., N, N) -> (...).

    For each query patch the distance between its centre and every key patch's centre, weighted
    with the attention it pays; then the mean over the queries. After "An image is worth 16x16
    words" (arXiv 2010.11929, section 4.5 and figure 7): the analogue of a receptive field.
    """
    return query_distances(weights, grid, patch).mean(dim=-1)


def query_distances(weights: torch.Tensor, grid: tuple[int, int], patch: int = 16) -> torch.Tensor:
    """As `attention_distance`, for every query patch on its own: (..., N, N) -> (..., N)."""
    check_weights(weights, grid)
    distance = _squared_steps(grid, weights.device).to(weights.dtype).sqrt() * patch
    return (weights * distance).sum(dim=-1)


def patch_colours(image: torch.Tensor, patch: int = 16) -> torch.Tensor:
    """The mean red, green and blue of each patch: (3, H, W) -> (patches, 3)."""
    cut = to_patches(image, patch)
    channels = image.shape[-3]
    return cut.reshape(*cut.shape[:-1], channels, patch * patch).mean(dim=-1)


def unlikeness(
    weights: torch.Tensor, features: torch.Tensor, grid: tuple[int, int]
) -> pd.DataFrame:
    """Does attention follow content? One row a layer and head.

    weights (layers, heads, N, N); features (N, f), for example `patch_colours`. How unlike two
    patches are is the Euclidean distance of their features. Every query's mean over the other
    patches (itself left out), then the mean over the queries:

    attended: weighted with the attention. anywhere: every other patch alike, what uniform
    attention would give. same_distance: weighted with the attention after it was spread evenly
    over all patches at the same distance from the query; this keeps how far a head looks and
    forgets where, so it is what locality alone would give.

    Attention follows content where attended is less than both. A query that attends to itself
    alone attends to no other patch: it is left out of attended and same_distance, which are NaN
    for a head that has no other queries.
    """
    check_weights(weights, grid, ahead=("layers", "heads"))
    if features.dim() != 2 or len(features) != weights.shape[-1]:
        raise ValueError(
            f"weights {tuple(weights.shape)} and features {tuple(features.shape)} do not fit: "
            "(layers, heads, N, N) and (N, numbers) are needed."
        )
    features = features.to(weights.dtype)
    unlike = torch.cdist(features[None], features[None])[0]
    others = 1 - torch.eye(len(features), dtype=weights.dtype, device=weights.device)
    elsewhere = weights * others
    elsewhere = elsewhere / elsewhere.sum(dim=-1, keepdim=True)
    expected = _mean_at_same_distance(unlike, grid)

    def mean(values: torch.Tensor) -> torch.Tensor:
        return (elsewhere * values).sum(dim=-1).nanmean(dim=-1)

    layers, heads = weights.shape[:2]
    anywhere = ((others / others.sum(dim=-1, keepdim=True)) * unlike).sum(dim=-1).mean()
    return pd.DataFrame(
        {
            "layer": [layer for layer in range(layers) for _ in range(heads)],
            "head": list(range(heads)) * layers,
            "attended": mean(unlike).flatten().tolist(),
            "same_distance": mean(expected).flatten().tolist(),
            "anywhere": float(anywhere),
        }
    )


def head_table(weights: torch.Tensor, image: torch.Tensor, patch: int = 16) -> pd.DataFrame:
    """`attention_distance` and `unlikeness` in colour, one row a layer and head.

    weights (layers, heads, N, N), image (3, H, W) that they belong to, values 0 to 1. TypeError
    or ValueError for what does not fit.
    """
    check_picture(image)
    grid = patch_grid(image.shape[-2], image.shape[-1], patch)
    table = unlikeness(weights, patch_colours(image, patch), grid)
    distances = attention_distance(weights, grid, patch).flatten().tolist()
    table.insert(2, "distance", distances)
    return table


def rollout(weights: torch.Tensor) -> torch.Tensor:
    """Attention rollout: how much of each patch of the picture is in each token at the end.

    weights (layers, heads, N, N) -> (N, N), rows sum to one. With A_l the mean over layer l's
    heads, the tokens that pass by on the residual path count as much as attention does:

        R = (A_L + I)/2 ... (A_2 + I)/2 (A_1 + I)/2

    Abnar and Zuidema, "Quantifying attention flow in transformers" (arXiv 2005.00928, section
    3). It knows nothing of values and MLPs: a map of what could flow, not of what did.

    ValueError for another shape: the order of layers must be plain.
    """
    if weights.dim() != 4 or weights.shape[-1] != weights.shape[-2] or not weights.numel():
        raise ValueError(
            f"weights has shape {tuple(weights.shape)}, but rollout takes (layers, heads, N, N). "
            "A single layer is weights[None]; of a batch take one picture's, weights[0]."
        )
    identity = torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device)
    flow = identity
    for layer in weights.mean(dim=-3):
        flow = (layer + identity) / 2 @ flow
    return flow


def _squared_steps(grid: tuple[int, int], device: torch.device) -> torch.Tensor:
    """Squared distance of every two patches in whole steps, int64 (N, N)."""
    rows, columns = grid
    places = torch.cartesian_prod(
        torch.arange(rows, device=device), torch.arange(columns, device=device)
    )
    return (places[:, None] - places[None]).square().sum(dim=-1)


def _mean_at_same_distance(values: torch.Tensor, grid: tuple[int, int]) -> torch.Tensor:
    """values (N, N) with each entry replaced by its row's mean over all keys equally far away."""
    _, ring = _squared_steps(grid, values.device).unique(return_inverse=True)
    shape = (len(values), int(ring.max()) + 1)
    total = torch.zeros(shape, dtype=values.dtype, device=values.device)
    count = torch.zeros_like(total)
    total.scatter_add_(1, ring, values)
    count.scatter_add_(1, ring, torch.ones_like(values))
    return (total / count.clamp(min=1)).gather(1, ring)
