"""The walk as frames: what happens in each, in words and in numbers; no drawing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pandas as pd
import torch

from ...attention.online_softmax import Partial, Step, finish, identity
from ...units import format_bytes

Phase = Literal["start", "load", "scores", "update", "skip", "end"]


@dataclass(frozen=True, eq=False)
class Frame:
    """One picture of the walk. Tensors hold one entry for each query of the block.

    tile: the key tile at work, from 0; None at the start and the end. running: m, l, acc as they
    are shown: in "scores" m is new already, l and acc are not. rescale (rows,): what l and acc
    are multiplied with next; None where nothing is. output (rows, head_dim): in the last frame.
    read_bytes, written_bytes: through HBM so far.
    """

    phase: Phase
    tile: int | None
    title: str
    text: str
    running: Partial
    rescale: torch.Tensor | None
    output: torch.Tensor | None
    read_bytes: int
    written_bytes: int


@dataclass(frozen=True, eq=False)
class Walk:
    """One block of queries over all tiles of keys.

    name: "every key" or "causal". steps: as the generator gave them. row: the query of the block
    whose numbers are told. q_len: all queries, not only the block's. dtype: of q, k, v in HBM, in
    which bytes are counted. naive_bytes: the block's rows of the matrix of scores.
    """

    name: str
    steps: tuple[Step, ...]
    frames: tuple[Frame, ...]
    row: int
    q_len: int
    dtype: str
    naive_bytes: int

    @property
    def queries(self) -> range:
        return self.steps[0].queries

    @property
    def query(self) -> int:
        """The token whose numbers are told."""
        return self.queries[self.row]


def telling_row(steps: tuple[Step, ...]) -> int:
    """The row whose maximum rises most often; of several the one whose rises most in all."""
    rises = sum((step.rescale < 1).to(torch.float64) for step in steps)
    climb = steps[-1].m.double() - steps[0].m.double()
    climb = torch.where(torch.isfinite(climb), climb, 0.0)
    return int(torch.argmax(rises + climb / (1 + climb)))


def walk(name: str, steps: tuple[Step, ...], row: int, q_len: int, dtype: torch.dtype) -> Walk:
    """The frames of one walk. dtype: of the numbers in HBM."""
    first, element_size = steps[0], dtype.itemsize
    rows, head_dim = len(first.queries), first.acc.shape[-1]
    query = f"Query {first.queries[row]}"
    before = identity(rows, head_dim, dtype=first.acc.dtype, device=first.acc.device)
    read = rows * head_dim * element_size
    frames = [
        Frame(
            "start", None, "Read the queries",
            f"The block's {rows} queries ({_tokens(first.queries)}) are read from HBM once, "
            f"{format_bytes(read)}, and stay. Nothing has been seen: m = -inf, l = 0, acc = 0.",
            before, None, None, read, 0,
        )
    ]  # fmt: skip
    for step in steps:
        name_of_tile = f"Tile {step.key_tile}"
        if step.state == "skipped":
            text = (
                f"{name_of_tile} ({_tokens(step.keys)}) lies in the future of every query of the "
                "block. It is skipped: not read, not multiplied."
            )
            title = f"{name_of_tile}: skip"
            frames.append(Frame("skip", step.key_tile, title, text, before, None, None, read, 0))
            continue
        size = 2 * len(step.keys) * head_dim * element_size
        read += size
        after, tile = step.running, step.key_tile
        loaded = (
            f"K and V of tile {tile} ({_tokens(step.keys)}) are read from HBM into SRAM: "
            f"{format_bytes(size)}."
        )
        at_new_maximum = Partial(after.m, before.l, before.acc)
        titles = f"{name_of_tile}: read K and V", f"{name_of_tile}: update l and acc"
        told = _scores(step, before, row, query)
        frames += [
            Frame("load", tile, titles[0], loaded, before, None, None, read, 0),
            Frame("scores", tile, _scores_title(step, before, row), told, at_new_maximum,
                  step.rescale, None, read, 0),
            Frame("update", tile, titles[1], _update(step, before, row), after, None, None, read,
                  0),
        ]  # fmt: skip
        before = after
    written = rows * head_dim * element_size
    keys = steps[-1].keys.stop
    naive = rows * keys * element_size
    text = (
        f"acc / l is the output of the {rows} queries: {format_bytes(written)} written to HBM, "
        f"after {format_bytes(read)} read. Their scores, {rows} x {keys} numbers or "
        f"{format_bytes(naive)}, never were in HBM: 0 B written, 0 B read."
    )
    output = finish(before)
    frames.append(Frame("end", None, "Divide and write", text, before, None, output, read, written))
    return Walk(name, steps, tuple(frames), row, q_len, str(dtype).removeprefix("torch."), naive)


def table(walks: tuple[Walk, ...]) -> pd.DataFrame:
    """One row a tile and walk: the numbers of the query that is told about."""
    rows = []
    for one in walks:
        read = {frame.tile: frame.read_bytes for frame in one.frames}
        for step in one.steps:
            values = step.acc[one.row, :4].tolist()
            rows.append(
                {
                    "walk": one.name,
                    "tile": step.key_tile,
                    "keys": f"{step.keys.start} to {step.keys.stop - 1}",
                    "state": step.state,
                    "m": float(step.m[one.row]),
                    "rescale": float(step.rescale[one.row]),
                    "l": float(step.l[one.row]),
                }
                | {f"acc {place}": value for place, value in enumerate(values)}
                | {"read_so_far_bytes": read[step.key_tile]}
            )
    return pd.DataFrame(rows)


def table_caption(walks: tuple[Walk, ...], title: str) -> str:
    """Whose numbers the table has, and what its last column counts."""
    first = walks[0]
    return (
        f"{title}: the numbers of query {first.query}. Read so far: bytes of Q, K and V, in "
        f"{first.dtype}, that this block of {len(first.queries)} queries has read from HBM"
    )


def number(value: float, digits: int = 4) -> str:
    """A number with so many digits that count; no zero with a sign."""
    return f"{value:.{digits}g}" if value else "0"


def maximum(value: float) -> str:
    """m with three decimals: a reader who works out exp(m_old - m) must find rescale."""
    return f"{value:.3f}" if abs(value) < 1e5 else number(value, 8)


def _scores_title(step: Step, before: Partial, row: int) -> str:
    title = f"Tile {step.key_tile}: scores"
    if step.state == "masked in part":
        title += ", masked in part"
    if before.m[row] == float("-inf"):
        return title
    rises = bool(step.m[row] > before.m[row])
    return title + (", a new maximum" if rises else ", the maximum stays")


def _scores(step: Step, before: Partial, row: int, query: str) -> str:
    rows, keys = step.scores.shape
    text = f"{rows} x {keys} scores are computed in SRAM and stay there. "
    if step.state == "masked in part":
        hidden = int((step.scores == float("-inf")).sum())
        text += (
            f"The diagonal goes through this tile: {hidden} of them lie in the future and become "
            "-inf. "
        )
    largest = float(step.scores[row].max())
    old, new = float(before.m[row]), float(step.m[row])
    if largest == float("-inf"):
        return text + f"{query} may see none of these keys: nothing changes for it."
    found = f"{query}: the tile's largest score, {maximum(largest)}, "
    if old == float("-inf"):
        return text + found + "is its first maximum m. There is nothing before it to rescale."
    if new == old:
        return text + found + f"is not above m = {maximum(old)}: m stays, rescale = 1."
    factor = number(float(step.rescale[row]))
    return (
        text
        + found
        + f"is above m = {maximum(old)}. m becomes {maximum(new)}, and what came before "
        f"is worth rescale = exp({maximum(old)} - {_signed(new)}) = {factor} of itself."
    )


def _update(step: Step, before: Partial, row: int) -> str:
    old, new = float(before.l[row]), float(step.l[row])
    factor, added = float(step.rescale[row]), float(step.weights[row].sum())
    sums = f"l = {number(factor)} x {number(old)} + {number(added)} = {number(new)}"
    if old == 0:
        sums = f"l = {number(added)}"
    return (
        f"{sums}: the older sum, rescaled, and the tile's exp(score - m). acc is multiplied with "
        "rescale as well, and the tile's weights times V are added. Scores, K and V of the tile "
        "are then forgotten."
    )


def _signed(value: float) -> str:
    return f"({maximum(value)})" if value < 0 else maximum(value)


def _tokens(tokens: range) -> str:
    if len(tokens) == 1:
        return f"token {tokens.start}"
    return f"tokens {tokens.start} to {tokens.stop - 1}"
