"""What is lit, and how strongly: the photograph's patches, the scores, the weights of one query."""

from __future__ import annotations

import numpy as np
import torch

from .frames import Frame, Walk
from .places import Places

FINE = 4  # pixels of the still photograph a patch and side


def faded(places: Places, lit: range | None) -> np.ndarray:
    """The picture in pale grey, the lit tokens in colour: (rows * 4, columns * 4, 3)."""
    rows, columns = places.rows, places.columns
    chosen = np.zeros(rows * columns, dtype=bool)
    if lit is not None:
        chosen[lit.start : lit.stop] = True
    chosen = chosen.reshape(rows, columns).repeat(FINE, 0).repeat(FINE, 1)[..., None]
    if places.image is None:
        plain = np.full((rows * FINE, columns * FINE, 3), 0.94)
        return np.where(chosen, (0.97, 0.76, 0.63), plain)
    small = torch.nn.functional.adaptive_avg_pool2d(
        places.image.detach().float().cpu().clamp(0, 1), (rows * FINE, columns * FINE)
    )
    colours = small.permute(1, 2, 0).numpy()
    grey = np.round((0.45 + 0.55 * colours.mean(-1, keepdims=True)) * 16) / 16
    return np.where(chosen, colours, grey)


def lit_keys(walk: Walk, frame: Frame) -> range | None:
    """The keys whose K and V are in SRAM in this frame."""
    if frame.tile is None or frame.phase == "skip":
        return None
    return walk.steps[frame.tile].keys


def limits(walk: Walk) -> tuple[float, float]:
    """The smallest and the largest finite score of a walk."""
    scores = torch.cat([step.scores.flatten() for step in walk.steps if step.state != "skipped"])
    finite = scores[torch.isfinite(scores)]
    if not finite.numel():
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    return low, high if high > low else low + 1.0


def shares(walk: Walk, frame: Frame) -> np.ndarray:
    """exp(score - m) of the query that is followed, for each key; 0 where not computed."""
    values = np.zeros(walk.steps[-1].keys.stop)
    m = frame.running.m[walk.row]
    seen = {"end": len(walk.steps), "start": 0}.get(frame.phase, frame.tile)
    seen += frame.phase in ("scores", "update")
    for step in walk.steps[:seen]:
        if step.state != "skipped" and m != float("-inf"):
            values[step.keys.start : step.keys.stop] = torch.exp(step.scores[walk.row] - m).numpy()
    return values
