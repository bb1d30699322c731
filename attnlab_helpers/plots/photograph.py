"""Pictures with photographs in them, and photographs side by side."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from PIL import Image

from ..vit.patches import patch_grid
from ..vit.pixels import check_picture
from ..vit.whole import whole_number
from . import style
from .axes import new_figure
from .picture import Picture
from .timeline.labels import ruler, shorten_middle

WIDTH = 8.6  # inches, the widest


class Photograph(Picture):
    """A picture with a photograph in it: a JPEG when shown, a tenth of the bytes of a PNG."""

    @cached_property
    def _png(self) -> bytes:
        held = io.BytesIO()
        # A photograph of 224 pixels gains nothing from a finer grid than the page's own.
        self.figure().savefig(held, format="png", dpi=110, metadata={"Software": None})
        return held.getvalue()

    @cached_property
    def _jpeg(self) -> bytes:
        held = io.BytesIO()
        pixels = Image.open(io.BytesIO(self._png)).convert("RGB")
        pixels.save(held, format="jpeg", quality=82, subsampling=0, optimize=True)
        return held.getvalue()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        bundle = super()._repr_mimebundle_(include, exclude)
        png, jpeg = (base64.b64encode(data).decode("ascii") for data in (self._png, self._jpeg))
        html = bundle["text/html"].replace(
            f"data:image/png;base64,{png}", f"data:image/jpeg;base64,{jpeg}"
        )
        # No second copy beside the HTML: photographs are what makes a notebook large.
        return {"text/plain": bundle["text/plain"], "text/html": html}


def photographs(pictures: Mapping[str, torch.Tensor], *, title: str, provenance: object) -> Picture:
    """Show pictures side by side, each with its name above it and its size below.

    pictures: name -> (3, H, W) or (H, W) in floating point, values 0 to 1. At most six;
    ValueError for none, more, or values outside 0 to 1, TypeError for another type.
    """
    if not isinstance(pictures, Mapping):
        raise TypeError(
            f"pictures must be a dictionary, name -> picture, not {type(pictures).__name__}."
        )
    if not 1 <= len(pictures) <= 6:
        raise ValueError(f"photographs shows one to six pictures, not {len(pictures)}.")
    for name, picture in pictures.items():
        check_picture(picture, repr(name), grey=True)
    side = min(3.4, (WIDTH - 0.2) / len(pictures))
    width = width_for(len(pictures) * side + 0.2, title, provenance)

    def draw() -> Figure:
        height = side + 0.95
        figure, spare = new_figure(width, height)
        spare.remove()
        small = {"fontsize": 8.5, "color": style.MUTED_INK, "fontfamily": style.FONT}
        for place, (name, picture) in enumerate(pictures.items()):
            box = ((0.1 + place * side) / width, 0.42 / height, 0.96 * side / width, side / height)
            axes = figure.add_axes(box)
            axes.imshow(for_show(picture), interpolation="nearest")
            shown = shorten_middle(str(name), 0.94 * side, ruler(8.5))
            axes.set_title(shown, pad=4, **small)
            axes.set_xlabel(f"{picture.shape[-2]} x {picture.shape[-1]}", **small)
            axes.set_xticks([])
            axes.set_yticks([])
        title_and_provenance(figure, title, provenance)
        return figure

    table = pd.DataFrame(
        {"picture": list(pictures), "shape": [str(tuple(p.shape)) for p in pictures.values()]}
    )
    alt = f"{title}. Side by side: {'; '.join(map(str, pictures))}."
    pixels = round(100 * width)
    return Photograph(draw, title=title, alt=alt, table=table, provenance=provenance, width=pixels)


def apart(image: torch.Tensor, patch: int = 16, gap: int = 4) -> torch.Tensor:
    """The picture with its patches pulled apart: (3, H, W) -> larger, white between the patches.

    image has values 0 to 1. ValueError when the patches do not divide the picture, TypeError or
    ValueError for what is no picture or no gap.
    """
    check_picture(image)
    gap = whole_number("gap", gap, low=0)
    channels, height, width = image.shape
    rows, columns = patch_grid(height, width, patch)
    patch = int(patch)
    step = patch + gap
    sheet = image.new_ones(channels, rows * step - gap, columns * step - gap)
    for row in range(rows):
        for column in range(columns):
            piece = image[:, row * patch : (row + 1) * patch, column * patch : (column + 1) * patch]
            y, x = row * step, column * step
            sheet[:, y : y + patch, x : x + patch] = piece
    return sheet


def width_for(content: float, title: str, provenance: object) -> float:
    """Inches, at most WIDTH: as wide as what is shown, or the words above and below it."""
    # The title is bold, and the ruler measures plain letters.
    words = max(1.15 * ruler(11)(title), ruler(8)(str(provenance))) + 0.25
    return min(WIDTH, max(content, words))


def title_and_provenance(figure: Figure, title: str, provenance: object) -> None:
    height = figure.get_figheight()
    figure.text(
        0.012, 1 - 0.24 / height, title, fontsize=11, fontweight="bold", color=style.INK,
        fontfamily=style.FONT, va="center",
    )  # fmt: skip
    figure.text(
        0.012, 0.1 / height, str(provenance), fontsize=8, style="italic",
        color=style.MUTED_INK, fontfamily=style.FONT,
    )  # fmt: skip


def for_show(image: torch.Tensor) -> np.ndarray:
    """(3, H, W) or (H, W) as matplotlib wants it: (H, W, 3), values 0 to 1."""
    colours = image if image.dim() == 3 else image.expand(3, *image.shape)
    return colours.detach().float().clamp(0, 1).permute(1, 2, 0).cpu().numpy()
