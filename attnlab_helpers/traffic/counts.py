"""What was counted: bytes a tensor, and on request which program touched which elements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from ..machine import Provenance

Program = tuple[int, int, int]
Touch = tuple[str, int, Program]  # tensor, launch, program


@dataclass(frozen=True, eq=False)
class Counts:
    """The loads and stores of some kernel launches, exact.

    frame: one row a tensor: tensor; loaded_bytes, stored_bytes, atomic_bytes (lanes that took
    part, in the element size asked for); distinct_bytes (each element that was touched counted
    once); masked_lanes (lanes that a mask switched off: they move nothing); loads, stores,
    atomics (instructions of all programs). The row "other" is memory without a name.
    programs: the same per launch and program (columns launch, x, y, z, tensor, ...), or None.
    launches: how many kernels were launched; grids: the sizes of each one's grid. about: what is
    known of what was counted ("problem", as plain values; "implementation", "block_q", "block_k",
    "statistics"), for `ledger` to compare.
    """

    frame: pd.DataFrame
    launches: int
    provenance: Provenance
    programs: pd.DataFrame | None = None
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    touches: dict[Touch, np.ndarray] = field(default_factory=dict, repr=False)
    grids: tuple[Program, ...] = ()
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """Where the numbers come from, e.g. ``Triton's interpreter, triton 3.9.0``."""
        return f"Triton's interpreter, triton {self.provenance.versions['triton']}"

    def bytes(self, tensor: str) -> tuple[int, int]:
        """(loaded, stored) bytes of a tensor, atomics counted as both; KeyError if unknown."""
        rows = self.frame[self.frame["tensor"] == tensor]
        if rows.empty:
            known = ", ".join(self.frame["tensor"])
            raise KeyError(f"nothing is called {tensor!r}. There are: {known}.")
        row = rows.iloc[0]
        atomic = int(row["atomic_bytes"])
        return int(row["loaded_bytes"]) + atomic, int(row["stored_bytes"]) + atomic

    def touched(self, tensor: str, program: Program | None = None, launch: int = 0) -> np.ndarray:
        """Which elements of `tensor` the program (x, y, z) touched: truth values, its shape.

        program None: any program of that launch. Needs `programs=True` when counting; KeyError
        for a tensor without a name, ValueError for a program or launch that there was not, and
        where programs were not kept.
        """
        if self.programs is None:
            raise ValueError("which program touched what was not kept: count with programs=True.")
        if tensor not in self.shapes:
            raise KeyError(f"nothing is called {tensor!r}. There are: {', '.join(self.shapes)}.")
        self._check_place(program, launch)
        found = np.zeros(self.shapes[tensor], dtype=bool)
        for (name, where, who), elements in self.touches.items():
            if name == tensor and where == launch and program in (None, who):
                found.reshape(-1)[elements] = True
        return found

    def _check_place(self, program: object, launch: object) -> None:
        known = isinstance(launch, int) and not isinstance(launch, bool)
        if not known or not 0 <= launch < self.launches:
            raise ValueError(f"there is no launch {launch!r}: there are 0 to {self.launches - 1}.")
        grid = self.grids[launch]
        fits = isinstance(program, tuple) and len(program) == 3
        fits = fits and all(isinstance(one, int | np.integer) for one in program)
        if program is not None and not (
            fits and all(0 <= one < size for one, size in zip(program, grid, strict=True))
        ):
            raise ValueError(
                f"program={program!r} did not run: three numbers are needed, up to "
                f"{tuple(size - 1 for size in grid)} in launch {launch}, as in (0, 0, 0)."
            )

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` reads it back."""
        return {
            "frame": self.frame.to_dict("list"),
            "launches": self.launches,
            "provenance": self.provenance.to_json(),
            "programs": None if self.programs is None else self.programs.to_dict("list"),
            "shapes": {name: list(shape) for name, shape in self.shapes.items()},
            "touches": [
                [name, launch, list(program), elements.tolist()]
                for (name, launch, program), elements in self.touches.items()
            ],
            "grids": [list(grid) for grid in self.grids],
            "about": self.about,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Counts:
        """What `to_json` made plain."""
        programs = data["programs"]
        return cls(
            pd.DataFrame(data["frame"]),
            data["launches"],
            Provenance.from_json(data["provenance"]),
            None if programs is None else pd.DataFrame(programs),
            {name: tuple(shape) for name, shape in data["shapes"].items()},
            {
                (name, launch, tuple(program)): np.asarray(elements, dtype=np.int64)
                for name, launch, program, elements in data["touches"]
            },
            tuple(tuple(grid) for grid in data["grids"]),
            data["about"],
        )

    def __repr__(self) -> str:
        total = sum(sum(self.bytes(tensor)) for tensor in self.frame["tensor"])
        return f"<Counts of {self.launches} launches, {total:,} bytes, counted in {self.source}>"
