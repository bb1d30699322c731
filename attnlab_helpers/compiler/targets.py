"""Targets: the compute capabilities that kernels can be compiled for, with a card of each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Target:
    """A GPU architecture to compile for.

    capability: the compute capability, (9, 0). generation, card: the name of the generation and
    one card of it. specific: whether there is a variant with an "a" behind its number, whose
    code may use instructions that only this very architecture has (wgmma, tcgen05).
    max_shared_bytes: shared memory that one block may have at most.
    """

    capability: tuple[int, int]
    generation: str
    card: str
    specific: bool
    max_shared_bytes: int

    def __str__(self) -> str:
        return f"{self.capability[0]}.{self.capability[1]}"

    @property
    def number(self) -> int:
        """The capability as the compilers write it: 90."""
        return self.capability[0] * 10 + self.capability[1]

    @property
    def architecture(self) -> str:
        """The name of the machine code: "sm_80", "sm_90a"."""
        return f"sm_{self.number}{'a' if self.specific else ''}"

    def too_much(self, shared_bytes: int) -> tuple[str, ...]:
        """A note when a block asks for more shared memory than this target has."""
        if shared_bytes <= self.max_shared_bytes:
            return ()
        return (
            f"It compiles, and cannot be launched: a block needs {shared_bytes:,} bytes of shared "
            f"memory, and compute capability {self} has at most {self.max_shared_bytes:,}. Take "
            "smaller blocks or fewer stages.",
        )


# Shared memory: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability",
# maximum amount of shared memory per thread block.
# NVIDIA's list "CUDA GPU Compute Capability" (developer.nvidia.com/cuda/gpus); variants with "a":
# NVRTC's documentation, supported values of --gpu-architecture.
_KNOWN = (
    Target((7, 5), "Turing", "T4", False, 64 * 1024),
    Target((8, 0), "Ampere", "A100", False, 163 * 1024),
    Target((8, 6), "Ampere", "RTX 3090", False, 99 * 1024),
    Target((8, 9), "Ada Lovelace", "RTX 4090", False, 99 * 1024),
    Target((9, 0), "Hopper", "H100, H200", True, 227 * 1024),
    Target((10, 0), "Blackwell", "B200", True, 227 * 1024),
    Target((10, 3), "Blackwell", "B300", True, 227 * 1024),
    Target((12, 0), "Blackwell", "RTX 5090", True, 99 * 1024),
)
TARGETS: Mapping[str, Target] = MappingProxyType({str(target): target for target in _KNOWN})


def parse_target(text: object = None) -> Target:
    """The target that "9.0", 9.0, (9, 0), "sm_90", "sm_90a", 90 or a Target names.

    None stands for the GPU of this machine. Raises ValueError for anything else, and for None
    where there is no GPU; it lists the targets.
    """
    if isinstance(text, Target):
        return text
    if text is None:
        return _of_this_gpu()
    name = _normalised(text)
    if name not in TARGETS:
        raise ValueError(
            f"{text!r} is no target that is known here. Possible are:\n{_listed()}\n"
            "Write one as '9.0', 'sm_90' or (9, 0)."
        )
    return TARGETS[name]


def _normalised(text: object) -> str:
    if isinstance(text, tuple) and len(text) == 2:
        return f"{text[0]}.{text[1]}"
    if isinstance(text, int) and not isinstance(text, bool):
        # 9 means 9.0, as the float does; 75 and 120 are numbers as in sm_75.
        return f"{text // 10}.{text % 10}" if text >= 20 else f"{text}.0"
    if isinstance(text, float):
        return f"{text:.1f}"
    found = re.fullmatch(r"(?:sm_|compute_)?(\d+)(\d)[af]?|(\d+)\.(\d)", str(text).strip().lower())
    if not found:
        return str(text)
    major, minor = (found[1], found[2]) if found[1] else (found[3], found[4])
    return f"{major}.{minor}"


def _listed() -> str:
    return "\n".join(f"  {name:>4}  {t.generation} ({t.card})" for name, t in TARGETS.items())


def _of_this_gpu() -> Target:
    import torch

    if not torch.cuda.is_available():
        raise ValueError(
            "there is no GPU here whose architecture could be taken: say which one to compile "
            f"for, as in target='9.0'. Possible are:\n{_listed()}"
        )
    return parse_target(torch.cuda.get_device_capability())
