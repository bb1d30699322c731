"""What a kernel became: its stages as text, the line each came from, and what was counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .counts import Counts


@dataclass(frozen=True, eq=False)
class Compiled:
    """One kernel, compiled for one target. Two are equal only when they are the same object.

    name: the kernel's name as the reader wrote it. language: "Triton" or "CUDA C++". target: the
    compute capability, "9.0". source: the reader's text; for Triton the kernel's function, and
    after it the functions that it uses. stages: texts in the order in which the compiler makes
    them ("TTIR", "TTGIR", "LLVM IR", "PTX", "SASS"; for CUDA C++ "PTX", "SASS"), without their
    debug information, which is read into `lines`. counts: plain numbers, see `KEYS`; loads from
    and stores to global memory by their width in bits, {128: 2}.
    cubin: the machine code (None when recorded); entry: the kernel's name in it. shared_bytes:
    shared memory of a block, without what a launch adds. num_warps: of a block (Triton), None in
    CUDA C++, where the launch says it. settings: what else was chosen, as text: constants and
    launch options ({"BLOCK": "1024", "num_warps": "4"}), or the options for NVRTC. arguments: what
    the compiler was told of each argument of a Triton kernel ({"x": "*fp32:16"}). notes: what is
    missing, and why. provenance: which compiler made it, here or when it was recorded.
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
    settings: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)

    def lines(self, stage: str) -> list[int | None]:
        """For each line of the stage's text the line of `source` it came from, from 1, or None.

        What the compiler inlined from its own library counts for the line that called it. Of an
        expression or a call over several lines the compiler often names one line for all of it,
        mostly the first; write one step a line to see more. Raises KeyError for a stage that this
        kernel does not have.
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


def fresh(compiled: Compiled) -> Compiled:
    """The same with mappings of its own: who changes them changes nobody else's results."""
    counts = {
        name: dict(count) if isinstance(count, Mapping) else count
        for name, count in compiled.counts.items()
    }
    return replace(
        compiled,
        counts=counts,
        stages=dict(compiled.stages),
        line_maps=dict(compiled.line_maps),
        settings=dict(compiled.settings),
        arguments=dict(compiled.arguments),
    )
