"""The tile walk: attention tile by tile, as still frames, as numbers, and live to step through."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import torch
from matplotlib.figure import Figure

from ...attention.online_softmax import Step, tiled_attention_steps
from ...vit.whole import whole
from ..png import to_svg
from ..table import table_text
from ..timeline.page import page_html
from .frames import Frame, Walk, table, table_caption, telling_row, walk
from .page import alternative_text, figure_html
from .places import Places, places
from .static import draw, strip_png

__all__ = ["Frame", "TileWalk", "Walk", "tile_walk"]

MOST_TOKENS, MOST_TILES = 1_024, 16  # what can be read, and what fits a page
PROVENANCE = "computed tile by tile in plain PyTorch: numbers, no times"


class TileWalk:
    """What `tile_walk` returns. Show it in a cell, `.save(path)` it, read `.table`.

    walks: one `Walk` for each kind of masking, with its steps and frames. table: one row a tile
    and walk, the numbers of the query that is followed.
    """

    def __init__(
        self, walks: tuple[Walk, ...], places: Places, *, title: str, provenance: object
    ) -> None:
        self.walks = walks
        self.places = places
        self.title = title
        self.provenance = str(provenance)

    @property
    def table(self) -> pd.DataFrame:
        return table(self.walks)

    @property
    def alt(self) -> str:
        """The alternative text of the still frames."""
        return alternative_text(self.walks, self.places, self.title)

    def figure(self) -> Figure:
        """The telling frames side by side, as a new matplotlib figure."""
        return draw(self.walks, self.places, self.title, self.provenance)

    @cached_property
    def _png(self) -> bytes:
        return strip_png(self.figure())

    @cached_property
    def _html(self) -> str:
        return figure_html(
            self.walks, self.places, self._png, title=self.title, provenance=self.provenance
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        # No second copy of the image beside the HTML: photographs are what makes a notebook large.
        return {"text/plain": str(self), "text/html": self._html}

    def save(self, path: str | Path) -> Path:
        """Write .png, .svg, or .html (a page that works offline); ValueError for another ending."""
        path = Path(path)
        ending = path.suffix.lower()
        if ending == ".png":
            path.write_bytes(self._png)
        elif ending == ".svg":
            path.write_bytes(to_svg(self.figure()))
        elif ending in (".html", ".htm"):
            path.write_text(page_html(self.title, self._html), encoding="utf-8")
        else:
            raise ValueError(f"cannot save a tile walk as {path.name!r}: use .png, .svg or .html.")
        return path

    def __str__(self) -> str:
        return table_text(self.table, table_caption(self.walks, self.title), self.provenance)

    __repr__ = __str__


def tile_walk(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    image: torch.Tensor | None = None,
    causal: bool | Literal["both"] = False,
    scale: float | None = None,
    block_q: int = 28,
    block_k: int = 28,
    query_block: int | None = None,
    row: int | None = None,
    title: str = "One block of queries walks over all keys",
    provenance: object = PROVENANCE,
) -> TileWalk:
    """Step through attention as a tiled kernel computes it: one block of queries, tile by tile.

    q (length, head_dim), k and v (kv_len, head_dim): one head; dimensions of size 1 in front are
    dropped. image (3, H, W), values 0 to 1: a picture whose square patches are the keys' tokens,
    row by row. causal="both" lets the reader switch. query_block: which block is followed, from
    0; None takes the middle one. row: the query of that block whose numbers are told; None takes
    the one whose maximum rises most often. Bytes are counted in the dtype of q.

    ValueError or TypeError for what does not fit, for NaN and infinity, for more than 1,024 tokens
    or 16 tiles of keys.
    """
    q, k, v = (_one_head(name, x) for name, x in (("q", q), ("k", k), ("v", v)))
    modes = {"both": (False, True)}.get(causal, (causal,)) if isinstance(causal, str) else (causal,)
    if any(not isinstance(mode, bool) for mode in modes):
        raise ValueError(f"causal={causal!r} is not one of False, True, 'both'.")
    options = {"scale": scale, "block_q": block_q, "block_k": block_k}
    every = [tiled_attention_steps(q, k, v, causal=mode, **options) for mode in modes]
    q_len, kv_len = q.shape[0], k.shape[0]
    tiles = -(-kv_len // block_k)
    if min(q_len, kv_len) < 1 or max(q_len, kv_len) > MOST_TOKENS or tiles > MOST_TILES:
        raise ValueError(
            f"a walk of {q_len:,} queries over {kv_len:,} keys in {tiles} tiles cannot be read: "
            f"1 to {MOST_TOKENS:,} of each and {MOST_TILES} tiles at most. Take fewer tokens, or "
            "a larger block_k."
        )
    blocks = -(-q_len // block_q)
    chosen = _choose("query_block", query_block, blocks, (blocks - 1) // 2)
    with torch.no_grad():
        steps: list[tuple[Step, ...]] = [
            tuple(step for step in one if step.query_block == chosen) for one in every
        ]
    _check_finite(step for one in steps for step in one)
    followed = _choose("row", row, len(steps[0][0].queries), telling_row(steps[0]))
    names = {False: "every key", True: "causal"}
    walks = tuple(
        walk(names[mode], one, followed, q_len, q.dtype)
        for mode, one in zip(modes, steps, strict=True)
    )
    return TileWalk(walks, places(kv_len, image), title=title, provenance=provenance)


def _one_head(name: str, x: torch.Tensor) -> torch.Tensor:
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} must be a torch tensor, not {type(x).__name__}.")
    if x.dim() < 2 or any(size != 1 for size in x.shape[:-2]):
        raise ValueError(
            f"{name} has shape {tuple(x.shape)}, but one head is walked over: (length, head_dim), "
            f"for example {name}[0, 0]."
        )
    x = x.detach().reshape(x.shape[-2:]).cpu()
    if x.is_floating_point() and not bool(torch.isfinite(x).all()):
        raise ValueError(
            f"{name} has NaN or infinite values, which have no place in a picture: walk over "
            f"finite ones, for example torch.nan_to_num({name})."
        )
    return x


def _check_finite(steps: Iterable[Step]) -> None:
    """Finite q and k can still have scores that float32 does not hold."""
    for step in steps:
        overflown = torch.isnan(step.scores).any() or bool((step.scores == float("inf")).any())
        if step.state == "computed":  # then nothing is hidden with -inf
            overflown = overflown or not torch.isfinite(step.scores).all()
        if overflown or not torch.isfinite(step.acc).all():
            raise ValueError(
                "the scores, or the sums of values, are too large for the floating-point type: "
                "they become infinite. Make q, k or v smaller, or hand them in as float64."
            )


def _choose(name: str, asked: int | None, count: int, default: int) -> int:
    if asked is None:
        return default
    number = whole(asked)
    if number is None or not 0 <= number < count:
        raise ValueError(f"{name}={asked!r} does not exist: there are 0 to {count - 1}.")
    return number
