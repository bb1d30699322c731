"""Targets: the compute capabilities that kernels can be compiled for, with a card of each."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from . import nvrtc


@dataclass(frozen=True)
class Target:
    """A GPU architecture to compile for.

    capability: the compute capability, (9, 0). generation, card: the name of the generation and
    one card of it. specific: whether there is a variant with an "a" behind its number, whose
    code may use instructions that only this very architecture has (wgmma, tcgen05).
    max_shared_bytes: shared memory that one block may have at most; None: not known here.
    """

    capability: tuple[int, int]
    generation: str
    card: str
    specific: bool
    max_shared_bytes: int | None

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
        if self.max_shared_bytes is None or shared_bytes <= self.max_shared_bytes:
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
# Taken too, without a row of their own: Jetson Orin, Jetson Thor, DGX Spark (the same list).
_OTHERS = (87, 110, 121)
_OLDEST = (7, 5)
_GENERATIONS = {7: "Turing", 8: "Ampere", 9: "Hopper", 10: "Blackwell", 11: "Blackwell"}
_GENERATIONS |= {12: "Blackwell"}


def parse_target(text: object = None) -> Target:
    """The target that "9.0", 9.0, (9, 0), "sm_90", "sm_90a", 90, "H200" or a Target names.

    None stands for the GPU of this machine. What is not in TARGETS is taken when the installed
    NVRTC compiles for it, or when it is this machine's GPU. Raises ValueError for anything else,
    for None where there is no GPU, and for a GPU that is too old; it lists the targets.
    """
    if isinstance(text, Target):
        return text
    if text is None:
        return _of_this_gpu()
    name = _normalised(text)
    if name in TARGETS:
        return TARGETS[name]
    found = re.fullmatch(r"(\d+)\.(\d)", name)
    if found and int(found[1] + found[2]) in _others():
        return _generic((int(found[1]), int(found[2])), "a card that has no row here")
    raise ValueError(
        f"{text!r} is no target that is known here. Possible are:\n{_listed()}\n"
        "Write one as '9.0', 'sm_90', (9, 0) or 'H200'."
    )


def _others() -> set[int]:
    """Capabilities that are compiled for without a row in the table."""
    more: set[int] = set()
    with contextlib.suppress(ImportError, RuntimeError):  # no NVRTC, or one that does not load
        more = {number for number in nvrtc.supported() if number >= 75}
    return {*_OTHERS, *more}


def _generic(capability: tuple[int, int], card: str) -> Target:
    major = capability[0]
    generation = _GENERATIONS.get(major, "a generation that is not known here")
    # Variants with "a" exist from 9.0 on.
    return Target(capability, generation, card, major >= 9, None)


def _normalised(text: object) -> str:
    if isinstance(text, tuple) and len(text) == 2:
        return f"{text[0]}.{text[1]}"
    if isinstance(text, int) and not isinstance(text, bool):
        # 9 means 9.0, as the float does; 75 and 120 are numbers as in sm_75.
        return f"{text // 10}.{text % 10}" if text >= 20 else f"{text}.0"
    if isinstance(text, float):
        rounded = f"{text:.1f}"
        return rounded if math.isclose(text, float(rounded), rel_tol=1e-6) else str(text)
    plain = re.sub(r"nvidia|geforce|tesla|\s", "", str(text).lower())
    if re.fullmatch(r"\d{1,3}", plain):
        return _normalised(int(plain))
    found = re.fullmatch(r"(?:sm_?|compute_?)(\d+)(\d)[af]?|(\d+)\.(\d)|(\d+)(\d)[af]", plain)
    if found:
        return ".".join(part for part in found.groups() if part)
    cards = {
        card.replace(" ", "").lower(): name
        for name, target in TARGETS.items()
        for card in target.card.split(", ")
    }
    return cards.get(plain, str(text))


def _listed() -> str:
    rows = [f"  {name:>4}  {t.generation} ({t.card})" for name, t in TARGETS.items()]
    more = sorted(_others() - {target.number for target in _KNOWN})
    return "\n".join([*rows, "and " + ", ".join(f"{n // 10}.{n % 10}" for n in more)])


def _of_this_gpu() -> Target:
    import torch

    if not torch.cuda.is_available():
        raise ValueError(
            "there is no GPU here whose architecture could be taken: say which one to compile "
            f"for, as in target='9.0'. Possible are:\n{_listed()}"
        )
    capability, name = torch.cuda.get_device_capability(), torch.cuda.get_device_name()
    if capability < _OLDEST:
        raise ValueError(
            f"this GPU ({name}) has compute capability {capability[0]}.{capability[1]}, which the "
            "compilers of today no longer know. Say another one, whose machine code can be read "
            f"here and not run, as in target='8.0'. Possible are:\n{_listed()}"
        )
    known = TARGETS.get(f"{capability[0]}.{capability[1]}")
    return known or _generic(capability, name)
