"""Partial results of a softmax that can be merged: the arithmetic of the online softmax.

Softmax needs the maximum and the sum of a whole row of scores. Online softmax keeps both for the
keys seen so far and mends the older part when a larger maximum turns up (Milakov and Gimelshein,
arXiv 1805.02867, section 3); FlashAttention keeps the weighted sum of the values beside them
(Dao et al., arXiv 2205.14135, algorithm 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, eq=False)
class Partial:
    """Attention over some of the keys, not yet divided by its normaliser.

    m (..., rows): the largest score, -inf where no key was seen. l (..., rows): the sum of
    exp(score - m). acc (..., rows, head_dim): the sum of exp(score - m) times the key's value.
    """

    m: torch.Tensor
    l: torch.Tensor  # noqa: E741 - the papers' name
    acc: torch.Tensor


def identity(
    rows: int | tuple[int, ...],
    head_dim: int,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Partial:
    """What `merge` leaves everything else alone with: no key seen yet. rows: R or (..., R)."""
    shape = rows if isinstance(rows, tuple) else (rows,)
    m = torch.full(shape, float("-inf"), dtype=dtype, device=device)
    return Partial(m, torch.zeros_like(m), m.new_zeros((*shape, head_dim)))


def partial(scores_tile: torch.Tensor, v_tile: torch.Tensor) -> Partial:
    """Attention over one tile of keys.

    scores_tile (..., rows, keys): scaled scores, -inf where the key is hidden; v_tile (..., keys,
    head_dim). The sums are in float32 or more, also for 16-bit scores: l passes what float16 holds
    at 65,504 keys. ValueError when the two disagree about the keys, TypeError for no tensors.
    """
    for name, x, least in (("scores_tile", scores_tile, 1), ("v_tile", v_tile, 2)):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name} must be a torch tensor, not {type(x).__name__}.")
        if x.dim() < least:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}: (..., rows, keys) for scores_tile and "
                "(..., keys, head_dim) for v_tile are needed."
            )
    if scores_tile.shape[-1] != v_tile.shape[-2]:
        raise ValueError(
            f"scores_tile {tuple(scores_tile.shape)} has {scores_tile.shape[-1]} keys and v_tile "
            f"{tuple(v_tile.shape)} has {v_tile.shape[-2]}: (..., rows, keys) and (..., keys, "
            "head_dim) are needed."
        )
    wide = torch.promote_types(torch.promote_types(scores_tile.dtype, v_tile.dtype), torch.float32)
    scores_tile, v_tile = scores_tile.to(wide), v_tile.to(wide)
    if scores_tile.shape[-1] == 0:
        rows = tuple(scores_tile.shape[:-1])
        return identity(rows, v_tile.shape[-1], dtype=wide, device=v_tile.device)
    m = scores_tile.amax(dim=-1)
    weights = torch.exp(scores_tile - finite(m)[..., None])
    return Partial(m, weights.sum(dim=-1), weights @ v_tile)


def rescale(m_before: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    """exp(m_before - m): what l and acc that were taken at `m_before` are worth at `m`."""
    return torch.exp(m_before - finite(m))


def merge(a: Partial, b: Partial) -> Partial:
    """Attention over the keys of both, which must not overlap. Order and grouping do not matter.

    Both are brought to the larger maximum, then added. That no exponent is above 0 is why large
    scores cannot overflow. ValueError for other shapes than each other's, TypeError for what is no
    Partial.
    """
    _check(a)
    _check(b)
    if a.m.shape != b.m.shape or a.acc.shape != b.acc.shape:
        raise ValueError(
            f"the two partial results are of other rows or head_dim: acc {tuple(a.acc.shape)} and "
            f"{tuple(b.acc.shape)}. Both must be of the same queries, over other keys."
        )
    m = torch.maximum(a.m, b.m)
    of_a, of_b = rescale(a.m, m), rescale(b.m, m)
    acc = a.acc * of_a[..., None] + b.acc * of_b[..., None]
    return Partial(m, a.l * of_a + b.l * of_b, acc)


def finish(whole: Partial) -> torch.Tensor:
    """acc / l, (..., rows, head_dim): the output. Rows that saw no key are zero."""
    _check(whole)
    return whole.acc / torch.where(whole.l == 0, 1.0, whole.l)[..., None]


def finite(m: torch.Tensor) -> torch.Tensor:
    """m, with 0 for the rows that have seen nothing: -inf - (-inf) would be NaN."""
    return torch.where(m == float("-inf"), 0.0, m)


def _check(one: object) -> None:
    if not isinstance(one, Partial):
        raise TypeError(
            f"a Partial is needed, as partial(scores_tile, v_tile) makes, not a "
            f"{type(one).__name__}."
        )
