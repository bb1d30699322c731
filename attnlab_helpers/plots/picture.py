"""A still picture to show: image with alternative text, its numbers as a table, its provenance."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from .png import to_png, to_svg
from .table import table_html, table_text


class Picture:
    """What `curves` and its like return. Show it in a cell, `.save(path)` it, read `.table`."""

    def __init__(
        self,
        draw: Callable[[], Figure],
        *,
        title: str,
        alt: str,
        table: pd.DataFrame,
        provenance: object,
        width: int,
        shades: bool = False,
    ) -> None:
        self._draw = draw
        self.title = title
        self.alt = alt
        self.table = table
        self.provenance = str(provenance)
        self.width = width  # in CSS pixels
        self.shades = shades  # whether colours are a scale, and none may be rounded

    def figure(self) -> Figure:
        """The picture as a new matplotlib figure."""
        return self._draw()

    @cached_property
    def _png(self) -> bytes:
        return to_png(self.figure(), shades=self.shades)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        data = base64.b64encode(self._png).decode("ascii")
        # The picture itself shows its provenance; who cannot see it finds it in the two texts.
        alt = f"{self.alt} Source: {self.provenance}." if self.provenance else self.alt
        # The title stands in the picture. Without a margin it begins where the text does.
        html = (
            f'<figure class="attnlab-picture" style="margin:0"><img width="{self.width}" '
            f'alt="{escape(alt, quote=True)}" src="data:image/png;base64,{data}">'
            "<details><summary>The numbers</summary>"
            f"{table_html(self.table, self.title, self.provenance)}</details></figure>"
        )
        return {"text/plain": str(self), "text/html": html, "image/png": self._png}

    def save(self, path: str | Path) -> Path:
        """Write the picture as .png or .svg; ValueError for another ending."""
        path = Path(path)
        if path.suffix.lower() == ".png":
            path.write_bytes(self._png)
        elif path.suffix.lower() == ".svg":
            path.write_bytes(to_svg(self.figure()))
        else:
            raise ValueError(f"cannot save a picture as {path.name!r}: use .png or .svg.")
        return path

    def __str__(self) -> str:
        return table_text(self.table, self.title, self.provenance)

    __repr__ = __str__
