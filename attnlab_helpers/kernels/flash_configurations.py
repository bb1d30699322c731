"""Which tiles FlashAttention's kernels work with: from a table, or what fits the card.

The table is `flash_configurations.json`, by compute capability, kernel, head dim and length
("short" or "long"). `benchmarks/tune.py` measures and writes it. Under
"timed" each card's entry says which rows were timed, and where; the others were chosen by registers
and spills as compiled. A card that is not in it gets the largest tiles that its shared memory can
hold, by the estimate below; the launch goes on to the next smaller ones where that is too little.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from .tiles import padded

Kernel = Literal["forward", "dkdv", "dq"]
KERNELS: tuple[Kernel, ...] = ("forward", "dkdv", "dq")
HopperKernel = Literal["forward_hopper", "dq_hopper"]
Listed = Kernel | HopperKernel
# The table's names for `flash_hopper` and `flash_hopper_dq`, and for what they take the place of
# where they are faster; elsewhere they are not listed.
HOPPER: dict[HopperKernel, Kernel] = {"forward_hopper": "forward", "dq_hopper": "dq"}
Precision = Literal["half", "tf32", "ieee"]

FILE = "flash_configurations.json"
# Tiles for cards without a table, largest first.
BLOCKS = ((128, 64), (64, 64), (64, 32), (32, 32), (16, 16))
# The hardware's copy engine for tiles, and the products that read both sides from shared memory.
DESCRIPTORS_FROM = (9, 0)
# What Triton keeps in shared memory besides tiles: barriers, sums between warps, alignment.
RESERVE = 4096
# A program walks over keys (forward, dq) or queries (dkdv). Over few of them many small
# programs hide one another's beginnings and ends; over many, large tiles read less.
LONG_FROM = 2049


@dataclass(frozen=True)
class Configuration:
    """How one kernel is cut up.

    block_q, block_k: queries and keys of a tile, powers of two from 16 on. num_warps, num_stages:
    Triton's launch options (warps of 32 threads; tiles fetched ahead). overlap: the forward
    kernel's OVERLAP. descriptors: load tiles through tensor descriptors where the tensors allow it.
    """

    block_q: int
    block_k: int
    num_warps: int = 4
    num_stages: int = 2
    overlap: bool = False
    descriptors: bool = False

    def shared_bytes(self, kernel: Kernel, block_d: int, element_bytes: int) -> int:
        """An upper estimate of the shared memory that one program needs, in bytes."""
        streamed, kept = self.block_k, self.block_q  # forward and dq walk over the keys
        if kernel == "dkdv":
            streamed, kept = self.block_q, self.block_k
        tiles = 2 * self.num_stages * streamed + (kept if kernel == "forward" else 2 * kept)
        if self.overlap:
            tiles += streamed
        scores = self.block_q * self.block_k * element_bytes
        return tiles * block_d * element_bytes + scores + RESERVE


# In the interpreter large tiles mean few operations; nothing there has to fit anywhere.
INTERPRETER = Configuration(64, 64)


def configurations(
    kernel: Kernel,
    *,
    head_dim: int,
    length: int,
    precision: Precision,
    capability: tuple[int, int],
    shared_bytes: int,
) -> tuple[Configuration, ...]:
    """Configurations to try for one launch, best first; never empty.

    head_dim: 1 to 256. length: of what a program walks over, keys (forward, dq) or queries.
    precision: "half" (float16, bfloat16), or how float32 is multiplied. capability: the card's
    compute capability. shared_bytes: the most shared memory that one block of it may use.
    """
    return _to_try(kernel, head_dim, length >= LONG_FROM, precision, capability, shared_bytes)


@functools.lru_cache(maxsize=128)
def _to_try(
    kernel: Kernel,
    head_dim: int,
    is_long: bool,
    precision: Precision,
    capability: tuple[int, int],
    shared_bytes: int,
) -> tuple[Configuration, ...]:
    element_bytes, block_d = 2 if precision == "half" else 4, padded(head_dim)
    length = LONG_FROM if is_long else 1
    found = None
    if precision == "half":
        found = listed(kernel, block_d=block_d, length=length, capability=capability)
    fitting = [
        configuration
        for configuration in _for_any_card(block_d, precision, capability)
        if configuration.shared_bytes(kernel, block_d, element_bytes) <= shared_bytes
    ]
    smallest = Configuration(16, 16, num_warps=4, num_stages=1)
    return (*((found,) if found else ()), *fitting, smallest)


def listed(
    kernel: Listed, *, block_d: int, length: int, capability: tuple[int, int]
) -> Configuration | None:
    """The table's configuration for float16 and bfloat16, or None; length as `configurations`."""
    card = _table().get("{}.{}".format(*capability), {})
    lengths = card.get(kernel, {}).get(str(block_d), {})
    row = lengths.get("long" if length >= LONG_FROM else "short")
    return Configuration(**row) if row else None


def as_row(configuration: Configuration) -> dict[str, Any]:
    """A configuration as `flash_configurations.json` holds it."""
    return asdict(configuration)


def _for_any_card(
    block_d: int, precision: Precision, capability: tuple[int, int]
) -> list[Configuration]:
    descriptors = precision == "half" and capability >= DESCRIPTORS_FROM
    blocks = BLOCKS
    if precision == "ieee":
        # Without tensor cores every product of a tile is an instruction of its own, written out:
        # large tiles take minutes to compile.
        blocks = BLOCKS[-2:] if block_d <= 128 else BLOCKS[-1:]
    return [
        Configuration(
            block_q,
            block_k,
            num_warps=8 if block_q * block_d >= 128 * 128 else 4,
            num_stages=stages,
            descriptors=descriptors,
        )
        for block_q, block_k in blocks
        for stages in (2, 1)
    ]


@functools.lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    text = importlib.resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    return json.loads(text)
