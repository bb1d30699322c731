"""The texts that a figure of stages holds, each once, and by which names the reader picks them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from attnlab_helpers.compiler.labels import distinct

NEEDED = ("name", "language", "target", "source", "stages", "lines", "counts", "provenance")
FIRST_CHOICE = ("SASS", "PTX")  # what is shown before the reader picks a stage


@dataclass(frozen=True)
class Listing:
    """One text: a stage of some of the compiled kernels, or (stage None) their source.

    of: positions of the kernels that have this very text. rows: (source line or None, text).
    left_out: lines at the end that the figure does not hold.
    """

    stage: str | None
    of: tuple[int, ...]
    language: str
    rows: tuple[tuple[int | None, str], ...]
    left_out: int = 0


def check(compiled: Sequence[Any]) -> None:
    """TypeError for what is no compiled kernel, ValueError for none or one without stages."""
    if not compiled:
        raise ValueError("stages needs at least one compiled kernel: compiler.compile_triton(...).")
    for one in compiled:
        lacking = [name for name in NEEDED if not hasattr(one, name)]
        if lacking:
            hint = ""
            if isinstance(one, list | tuple) and one and hasattr(one[0], "stages"):
                hint = " Several go in one by one: stages(*kernels)."
            raise TypeError(
                f"stages draws what compiler.compile_triton and compile_cuda return; a "
                f"{type(one).__name__} has no .{lacking[0]}.{hint}"
            )
        if not one.stages:
            raise ValueError(f"{one.name} for {one.target} has no stages to show.")


def stage_names(compiled: Sequence[Any]) -> list[str]:
    """All stages, in the order of the kernel that has most of them."""
    longest = max(compiled, key=lambda one: len(one.stages))
    return list(
        dict.fromkeys([*longest.stages, *(name for one in compiled for name in one.stages)])
    )


def first_stage(compiled: Sequence[Any], wanted: str | None) -> str:
    """The stage to begin with: the wanted one, else SASS, else PTX, else the last there is.

    ValueError when the first kernel does not have the wanted one.
    """
    there = list(compiled[0].stages)
    if wanted is None:
        return next((name for name in FIRST_CHOICE if name in there), there[-1])
    if wanted not in there:
        raise ValueError(
            f"{compiled[0].name} for {compiled[0].target} has no stage {wanted!r}: "
            f"there are {', '.join(there)}."
        )
    return wanted


def labels(compiled: Sequence[Any]) -> list[str]:
    """A name for each kernel by what tells it from the others, each once: "9.0", "Triton, 9.0".

    Versions of one kernel are told apart by what was chosen for them: "9.0, BLOCK=128".
    """
    differing = [
        field
        for field in ("name", "language", "target")
        if len({getattr(one, field) for one in compiled}) > 1
    ] or ["target"]
    bases = [
        " ".join(", ".join(str(getattr(one, field)) for field in differing).split())
        for one in compiled
    ]
    return distinct(bases, compiled)


def listings(compiled: Sequence[Any], most_lines: int) -> list[Listing]:
    """Sources first, then the stages; a text that several kernels share stands there once."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for position, one in enumerate(compiled):
        source = [(number, text) for number, text in enumerate(_lines(one.source), 1)]
        found.setdefault((None, one.language, tuple(source)), []).append(position)
    for stage in stage_names(compiled):
        for position, one in enumerate(compiled):
            if stage in one.stages:
                texts = _lines(one.stages[stage])
                numbers = list(one.lines(stage))[: len(texts)]
                rows = tuple(zip_longest(numbers, texts))
                found.setdefault((stage, one.language, rows), []).append(position)
    return [
        Listing(
            stage,
            tuple(of),
            language,
            rows if stage is None else rows[:most_lines],
            0 if stage is None else max(0, len(rows) - most_lines),
        )
        for (stage, language, rows), of in found.items()
    ]


def _lines(text: str) -> list[str]:
    # Only what `.lines(stage)` counts as a line; a browser takes a lone \r for one more.
    lines = text.replace("\r\n", "\n").replace("\r", " ").replace("\0", " ").split("\n")
    while len(lines) > 1 and not lines[-1].strip():
        lines.pop()
    return [line.expandtabs(4).rstrip() for line in lines]
