"""What the compiler made of a kernel: source and machine code side by side, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab_helpers.compiler.labels import chosen
from attnlab_helpers.plots.stages.listings import (
    check,
    first_stage,
    listings,
    stage_names,
)
from attnlab_helpers.plots.stages.listings import labels as names_of
from attnlab_helpers.plots.stages.page import figure_html, left_out_note
from attnlab_helpers.plots.stages.what_matters import as_text, count_table, without_zeros
from attnlab_helpers.plots.timeline.page import page_html

__all__ = ["StagesView", "stages"]

MOST_LINES = 400  # of one stage: three targets of a small kernel then stay below 150 kB of page


def stages(
    *compiled: Any,
    source_title: str | None = None,
    stage: str | None = None,
    most_lines: int = MOST_LINES,
    labels: Sequence[str] | None = None,
) -> StagesView:
    """Shows compiled kernels: the source left, one stage right, and which line became which.

    ``compiled``: what `compiler.compile_triton` and `compile_cuda` return, of one kernel for
    several targets or of several kernels. ``stage``: the one to begin with ("PTX"); SASS if not
    given. ``most_lines``: how much of each stage the page holds; the whole is in `.stages`.
    ``labels``: names for the kernels, on buttons and in the table; else what tells them apart.

    Raises ``ValueError`` for no kernel, one without stages, a stage that the first kernel does
    not have, no lines or labels that do not fit; ``TypeError`` for other things.
    """
    check(compiled)
    if not isinstance(most_lines, int):
        raise TypeError(f"most_lines={most_lines!r}: a whole number of lines is wanted, as 400.")
    if most_lines < 1:
        raise ValueError(f"most_lines is {most_lines}: a stage needs at least one line.")
    first = first_stage(compiled, stage)
    return StagesView(compiled, source_title, first, most_lines, chosen(labels, compiled))


class StagesView:
    """What `stages` returns. Show it in a cell, `.save(path)` it as a page, read `.table`.

    ``table``: the compiled kernels' counts, one column a kernel. ``notes``: what was left out.
    """

    def __init__(
        self,
        compiled: Sequence[Any],
        source_title: str | None,
        stage: str,
        most_lines: int,
        labels: Sequence[str] | None = None,
    ) -> None:
        self.compiled = tuple(compiled)
        self.stage = stage
        self.labels = list(labels or names_of(compiled))
        self._labels_are_given = labels is not None
        names = dict.fromkeys(str(one.name) for one in compiled)
        self.title = " ".join(f"What the compiler makes of {', '.join(names)}".split())
        self.source_titles = [source_title or f"source, {one.language}" for one in compiled]
        self._listings = listings(compiled, most_lines)

    @cached_property
    def table(self) -> pd.DataFrame:
        return count_table(self.compiled, self.labels)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the page leaves out of a long stage, as sentences."""
        return tuple(
            f"{one.stage} ({', '.join(self.labels[position] for position in one.of)}): {note}"
            for one in self._listings
            if (note := left_out_note(one))
        )

    def _provenance(self) -> list[str]:
        """Who compiled, and what is missing for which reason, each sentence once."""
        told = [str(one.provenance) for one in self.compiled]
        told += [str(note) for one in self.compiled for note in getattr(one, "notes", ())]
        return list(dict.fromkeys(told))

    @cached_property
    def _html(self) -> str:
        same = len({(one.name, one.language) for one in self.compiled}) == 1
        same = same and not self._labels_are_given
        return figure_html(
            title=self.title,
            source_titles=self.source_titles,
            labels=self.labels,
            group="compute capability" if same else "kernel",
            stages=stage_names(self.compiled),
            stage=self.stage,
            listings=self._listings,
            table=without_zeros(self.table),
            provenance=self._provenance(),
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"text/plain": str(self), "text/html": self._html}

    def save(self, path: str | Path) -> Path:
        """Writes a page that works offline; ValueError for another ending than .html."""
        path = Path(path)
        if path.suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"cannot save stages as {path.name!r}: use .html.")
        path.write_text(page_html(self.title, self._html), encoding="utf-8")
        return path

    def __str__(self) -> str:
        lengths = pd.DataFrame({"lines of": stage_names(self.compiled)})
        for label, one in zip(self.labels, self.compiled, strict=True):
            lengths[label] = [
                str(len(one.stages[name].splitlines())) if name in one.stages else "-"
                for name in lengths["lines of"]
            ]
        counts = without_zeros(self.table).rename(columns={"count": "lines of"})
        frame = pd.concat([lengths, counts], ignore_index=True).rename(columns={"lines of": ""})
        return as_text(frame, self.title, "\n".join(self._provenance()))

    __repr__ = __str__
