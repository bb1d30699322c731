"""The timeline: Runs and Traces under one another, as a picture, a table and a live canvas."""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from attnlab_helpers.plots.png import to_png, to_svg
from attnlab_helpers.plots.timeline.data import live_resolution
from attnlab_helpers.plots.timeline.items import as_item
from attnlab_helpers.plots.timeline.layout import LANES, Picture, lay_out
from attnlab_helpers.plots.timeline.page import figure_html, page_html
from attnlab_helpers.plots.timeline.plan import drawing_notes
from attnlab_helpers.plots.timeline.static import draw
from attnlab_helpers.plots.timeline.words import alternative_text, numbers, plain_text
from attnlab_helpers.units import format_ns

__all__ = ["LANES", "Timeline", "timeline"]


def timeline(
    *items: Any,
    guess: bool = False,
    title: str | None = None,
    lanes: Iterable[str] = LANES,
) -> "Timeline":
    """Draws Runs and Traces under one another on one time scale that starts at each first event.

    ``items``: Runs (their call of median CPU time is drawn) or Traces. ``guess=True`` hides names,
    totals and times until the reader asks. ``lanes`` chooses among "annotations" (spans that the
    user named; no lane without any), "operators", "launches", "gpu".

    Raises ``TypeError`` for other things, ``ValueError`` for no item or an unknown lane.
    """
    picture = lay_out([as_item(item) for item in items], guess=guess, title=title, lanes=lanes)
    return Timeline(picture)


class Timeline:
    """A picture to show in a notebook, save, or read as numbers.

    ``table``: one row per GPU activity (times in ns from the item's first event, sizes in bytes).
    """

    def __init__(self, picture: Picture) -> None:
        self.picture = picture

    @property
    def table(self) -> pd.DataFrame:
        return numbers(self.picture)

    @property
    def alt(self) -> str:
        """The alternative text of the picture."""
        return alternative_text(self.picture)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was dropped, clipped, merged or left out, as sentences."""
        notes = [*self.picture.notes, *drawing_notes(self.picture)]
        resolution = live_resolution(self.picture)
        if resolution:
            notes.append(f"The live picture merges events narrower than {format_ns(resolution)}.")
        return tuple(notes)

    def figure(self) -> Figure:
        """The still picture as a new matplotlib figure."""
        return draw(self.picture)

    @cached_property
    def _png(self) -> bytes:
        return to_png(self.figure())

    @cached_property
    def _html(self) -> str:
        answer = None
        if self.picture.guess:
            answer = to_png(draw(Picture(**{**self.picture.__dict__, "guess": False})))
        return figure_html(self.picture, self._png, answer, self.notes)

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, Any]:
        return {"text/plain": str(self), "text/html": self._html, "image/png": self._png}

    def save(self, path: str | Path) -> Path:
        """Writes the picture; the ending chooses: .png, .svg, or .html (a page that works offline).

        Raises ``ValueError`` for another ending.
        """
        path = Path(path)
        ending = path.suffix.lower()
        if ending == ".png":
            path.write_bytes(self._png)
        elif ending == ".svg":
            path.write_bytes(to_svg(self.figure()))
        elif ending in (".html", ".htm"):
            title = self.picture.title or "Timeline"
            path.write_text(page_html(title, self._html), encoding="utf-8")
        else:
            raise ValueError(f"Cannot save a timeline as {path.name!r}: use .png, .svg or .html.")
        return path

    def __str__(self) -> str:
        return plain_text(self.picture)

    __repr__ = __str__
