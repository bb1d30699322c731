"""What a kernel became: its stages as text, the line each came from, and what was counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .counts import Counts


@dataclass(frozen=True)
class Compiled:
    """One kernel, compiled for one target.

    name: the kernel's name as the reader wrote it. language: "Triton" or "CUDA C++". target: the
    compute capability, "9.0". source: the reader's text; for Triton the kernel's function, and
    after it the functions that it uses. stages: texts in the order in which the compiler makes
    them ("TTIR", "TTGIR", "LLVM IR", "PTX", "SASS"; for CUDA C++ "PTX", "SASS"), without their
    debug information, which is read into `lines`. counts: plain numbers, see `KEYS`; loads from
    and stores to global memory by their width in bits, {128: 2}.
    cubin: the machine code (None when recorded); entry: the kernel's name in it. shared_bytes:
    shared memory of a block, without what a launch adds. num_warps: of a block (Triton), None in
    CUDA C++, where the launch says it. notes: what is missing, and why. provenance: which
    compiler made it, here or when it was recorded.
    """

    name: str
    language: str
    target: str
    source: str
    stages: Mapping[str, str]
    provenance: str
    entry: str
    counts: Counts
    line_maps: Mapping[str, tuple[int | None, ...]] = field(repr=False)
    cubin: bytes | None = None
    shared_bytes: int = 0
    num_warps: int | None = None
    notes: tuple[str, ...] = ()
    key: str = ""

    def lines(self, stage: str) -> list[int | None]:
        """For each line of the stage's text the line of `source` it came from, from 1, or None.

        What the compiler inlined from its own library counts for the line that called it. Raises
        KeyError for a stage that this kernel does not have.
        """
        if stage not in self.line_maps:
            have = ", ".join(self.stages)
            raise KeyError(f"{self.name} has no stage {stage!r}; it has {have}")
        return list(self.line_maps[stage])

    def __repr__(self) -> str:
        stages = ", ".join(
            f"{name} {len(text.splitlines())} lines" for name, text in self.stages.items()
        )
        return (
            f"<{self.language} kernel {self.name} for {self.target}: {stages}; {self.provenance}>"
        )
