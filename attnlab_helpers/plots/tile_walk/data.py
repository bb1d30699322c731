"""The walk as compact JSON for the script: words and numbers ready to show, tiles as bytes."""

from __future__ import annotations

import base64
import io
from typing import Any

import torch
from PIL import Image

from ...units import format_bytes
from .. import style
from .frames import Frame, Walk, maximum, number
from .places import Places
from .shades import limits

FINEST = 32  # rows and columns of a tile that are drawn; of larger ones every second, third ...
PHOTO_PIXELS = 224
PHASES = ("start", "load", "scores", "update", "skip", "end")


def live_data(walks: tuple[Walk, ...], places: Places, title: str) -> dict[str, Any]:
    """What the script draws.

    boxes: rectangles (x, y, width, height) in tokens, for the queries and for each tile of keys.
    watched: rows of the block whose numbers are told, the followed one first. A walk's scores:
    the followed query's, null where hidden. A frame: p phase, t tile, h headline, x text, m the
    maximum of the followed query (null: none yet), n the numbers of the watched rows, r and w
    bytes as text. tiles: scores and weights as base64 bytes, row by row, 0 = hidden.
    """
    first = walks[0]
    rows = watched_rows(first)
    return {
        "title": title,
        "photo": _photo(places),
        "grid": [places.rows, places.columns, places.tokens],
        "length": first.q_len,
        "queries": [first.queries.start, len(first.queries)],
        "keys": [[step.keys.start, len(step.keys)] for step in first.steps],
        "queryBoxes": places.boxes(first.queries),
        "keyBoxes": [places.boxes(step.keys) for step in first.steps],
        "watched": [first.queries[row] for row in rows],
        "columns": _columns(first),
        "naive": format_bytes(first.naive_bytes),
        "walks": [_walk(walk, rows) for walk in walks],
        "phases": PHASES,
        "colors": {
            "ink": style.INK, "muted": style.MUTED_INK, "faint": style.FAINT_INK,
            "lane": style.LANE, "card": style.CARD, "hidden": style.HIDDEN_FILL,
            "q": style.WORK_STYLES["matmul"].color, "kv": style.WORK_STYLES["copy"].color,
            "kvFill": style.WORK_STYLES["copy"].fill,
            "out": style.WORK_STYLES["attention"].color,
        },
    }  # fmt: skip


def watched_rows(walk: Walk) -> list[int]:
    """The followed row, then the first and the last of the block."""
    return list(dict.fromkeys((walk.row, 0, len(walk.queries) - 1)))


def frame_numbers(frame: Frame, row: int) -> list[str]:
    """m, rescale, l and four numbers of acc (or of the output) as they are shown."""
    values = frame.running.acc if frame.output is None else frame.output
    # Nothing is rescaled where nothing came before, or where no tile is at work.
    rescale = "" if frame.rescale is None else number(float(frame.rescale[row]))
    return [
        maximum(float(frame.running.m[row])),
        rescale,
        number(float(frame.running.l[row])),
        *map(number, values[row, :4].tolist()),
    ]


def _columns(walk: Walk) -> list[str]:
    head_dim = walk.steps[0].acc.shape[-1]
    return ["query", "m", "rescale", "l", *(f"acc {place}" for place in range(min(4, head_dim)))]


def _walk(walk: Walk, rows: list[int]) -> dict[str, Any]:
    low, high = limits(walk)
    scores: list[float | None] = []
    for step in walk.steps:
        values = step.scores[walk.row].tolist()
        scores += [None if value == float("-inf") else round(value, 3) for value in values]
    return {
        "name": walk.name,
        "states": [step.state for step in walk.steps],
        "scores": scores,
        "tiles": [
            None
            if step.state == "skipped"
            else [
                _bytes(step.scores, low, high, step.scores),
                _bytes(step.weights, 0.0, 1.0, step.scores),
            ]
            for step in walk.steps
        ],
        "rows": _picked(walk.steps[0].scores).shape[0],
        "frames": [_frame(frame, walk, rows) for frame in walk.frames],
    }


def _frame(frame: Frame, walk: Walk, rows: list[int]) -> dict[str, Any]:
    m = float(frame.running.m[walk.row])
    return {
        "p": PHASES.index(frame.phase),
        "t": frame.tile,
        "h": frame.title,
        "x": frame.text,
        "m": None if m == float("-inf") else round(m, 3),
        "n": [frame_numbers(frame, row) for row in rows],
        "r": format_bytes(frame.read_bytes),
        "w": format_bytes(frame.written_bytes),
    }


def _picked(values: torch.Tensor) -> torch.Tensor:
    down, right = (-(-size // FINEST) for size in values.shape)
    return values[::down, ::right]


def _bytes(values: torch.Tensor, low: float, high: float, scores: torch.Tensor) -> str:
    hidden = _picked(scores) == float("-inf")
    # A hidden score is -inf, which no byte can hold: it is set to the lowest first.
    shown = torch.where(hidden, low, _picked(values))
    levels = (1 + 254 * (shown - low) / (high - low)).round().clamp(1, 255)
    pixels = torch.where(hidden, 0.0, levels).to(torch.uint8)
    return base64.b64encode(pixels.numpy().tobytes()).decode("ascii")


def _photo(places: Places) -> str | None:
    """The picture as a small JPEG in a data address."""
    if places.image is None:
        return None
    pixels = (places.image.detach().float().cpu().clamp(0, 1) * 255).round().to(torch.uint8)
    picture = Image.fromarray(pixels.permute(1, 2, 0).numpy())
    picture.thumbnail((PHOTO_PIXELS, PHOTO_PIXELS))
    held = io.BytesIO()
    picture.save(held, format="jpeg", quality=80, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(held.getvalue()).decode("ascii")
