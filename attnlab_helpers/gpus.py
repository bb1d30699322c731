"""What one GPU can hold and how fast it moves and computes: a table of cards, with sources."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from .quiet import OneSentence

KIB, MIB, GIB = 2**10, 2**20, 2**30
WARP_THREADS = 32
SCHEDULERS_PER_SM = 4  # on every card since Volta (7.0): CUDA C++ Programming Guide
# 32-bit registers an SM on every card since Maxwell (5.0): the same guide's table of limits.
REGISTERS_PER_SM = 65_536


class UnknownGpu(OneSentence, LookupError):
    """No card in the table, or more than one, has this in its name."""


@dataclass(frozen=True)
class GpuNumbers:
    """One GPU in numbers. Speeds are peaks: nothing runs faster, most things run slower.

    name: as CUDA reports it. capability: CUDA compute capability. registers_per_sm: 32-bit
    registers. shared_bytes_per_sm: the most that blocks on one SM can hold together. l2_bytes and
    memory_bytes: bytes; what vendors call "80 GB" of memory is 80 x 2**30. memory_bandwidth and
    shared_bandwidth (all SMs together): bytes/s. bf16_flops and fp16_flops: FLOP/s of the tensor
    cores on dense matrices with float32 sums. fp32_flops: FLOP/s of the ordinary units.
    None: not known, or (bf16_flops before 8.0) the card cannot do it; of a card in `GPUS` all
    sizes are known. source: who says so.
    """

    name: str
    capability: tuple[int, int] | None
    multiprocessors: int | None
    registers_per_sm: int | None
    shared_bytes_per_sm: int | None
    max_threads_per_sm: int | None
    l2_bytes: int | None
    memory_bytes: int | None
    memory_bandwidth: float | None
    shared_bandwidth: float | None
    bf16_flops: float | None
    fp16_flops: float | None
    fp32_flops: float | None
    source: str

    @property
    def register_bytes_per_sm(self) -> int | None:
        """The register file of one SM in bytes: four a register."""
        return None if self.registers_per_sm is None else 4 * self.registers_per_sm

    @property
    def max_warps_per_sm(self) -> int | None:
        known = self.max_threads_per_sm is not None
        return self.max_threads_per_sm // WARP_THREADS if known else None

    def flops(self, dtype: str | torch.dtype) -> float | None:
        """Peak FLOP/s for "bfloat16", "float16" (tensor cores) or "float32" (ordinary units).

        ValueError for another dtype. None where the table has no number.
        """
        name = str(dtype).removeprefix("torch.")
        peaks = {
            "bfloat16": self.bf16_flops,
            "float16": self.fp16_flops,
            "float32": self.fp32_flops,
        }
        if name not in peaks:
            raise ValueError(f"no peak is kept for {name!r}: ask for one of {', '.join(peaks)}.")
        return peaks[name]

    def balance(self, dtype: str | torch.dtype) -> float | None:
        """FLOPs a byte of memory traffic at which memory and arithmetic take the same time.

        Below it a kernel waits for memory (Williams et al., "Roofline", 2009). None if unknown.
        """
        peak = self.flops(dtype)
        if peak is None or self.memory_bandwidth is None:
            return None
        return peak / self.memory_bandwidth


# Limits an SM (registers, shared memory, threads) are those of the CUDA C++ Programming Guide's
# table "Technical Specifications per Compute Capability"; data sheets that quote tensor cores "with
# sparsity" are halved here. Shared memory moves 128 bytes a clock and SM (32 banks of 4 bytes, same
# guide), so its speed is 128 x SMs x boost clock where no paper gives it; Turing's is not known.
GPUS: dict[str, GpuNumbers] = {
    "T4": GpuNumbers(
        "Tesla T4", (7, 5), 40, REGISTERS_PER_SM, 64 * KIB, 1024, 4 * MIB, 16 * GIB,
        320e9, None, None, 65e12, 8.1e12,
        "NVIDIA T4 data sheet (2019); L2: NVIDIA Turing architecture white paper (TU104)",
    ),
    "A100 SXM 80 GB": GpuNumbers(
        "NVIDIA A100-SXM4-80GB", (8, 0), 108, REGISTERS_PER_SM, 164 * KIB, 2048, 40 * MIB, 80 * GIB,
        2.039e12, 19e12, 312e12, 312e12, 19.5e12,
        "NVIDIA A100 80GB data sheet (2021); L2: A100 architecture white paper;"
        " shared memory's speed: FlashAttention (arXiv 2205.14135)",
    ),
    "H100 SXM": GpuNumbers(
        "NVIDIA H100 80GB HBM3", (9, 0), 132, REGISTERS_PER_SM, 228 * KIB, 2048, 50 * MIB, 80 * GIB,
        3.35e12, 31e12, 989e12, 989e12, 67e12,
        "NVIDIA H100 data sheet (2022); L2: H100 architecture white paper;"
        " shared memory's speed: FlashAttention-3 (arXiv 2407.08608), table 1",
    ),
    "H200": GpuNumbers(
        "NVIDIA H200", (9, 0), 132, REGISTERS_PER_SM, 228 * KIB, 2048, 60 * MIB, 141 * GIB,
        4.8e12, 31e12, 989e12, 989e12, 67e12,
        "NVIDIA H200 data sheet (2023); L2: as CUDA reports it;"
        " shared memory's speed: FlashAttention-3 (arXiv 2407.08608), table 1, for the same SMs",
    ),
    "RTX 4090": GpuNumbers(
        "NVIDIA GeForce RTX 4090", (8, 9), 128, REGISTERS_PER_SM, 100 * KIB, 1536, 72 * MIB,
        24 * GIB, 1.008e12, 41.3e12, 165.2e12, 165.2e12, 82.6e12,
        "NVIDIA Ada GPU architecture white paper (2023), tensor cores with float32 sums;"
        " shared memory's speed: 128 bytes x 128 SMs x 2.52 GHz",
    ),
    "B200": GpuNumbers(
        "NVIDIA B200", (10, 0), 148, REGISTERS_PER_SM, 228 * KIB, 2048, int(126.5 * MIB), 180 * GIB,
        8e12, 35e12, 2.25e15, 2.25e15, 75e12,
        "NVIDIA HGX B200 data sheet (2024, an eighth of the board); L2 and SMs: as CUDA reports"
        " them; shared memory's speed: 128 bytes x 148 SMs x 1.85 GHz",
    ),
}  # fmt: skip
RECORDED = "H200"  # the card that our recordings were made on
VENDORS_WORDS = ("nvidia", "tesla", "quadro")  # how CUDA's whole names begin


def find(name: str) -> GpuNumbers:
    """The card with `name` in its common name or in CUDA's, upper and lower case alike.

    A full name wins over a part: find("H200"), find("a100"), find("NVIDIA GeForce RTX 4090").
    Raises UnknownGpu with the possible names for none or several.
    """
    wanted = name.casefold().strip()
    names = {common: (common.casefold(), card.name.casefold()) for common, card in GPUS.items()}
    exact = [common for common, known in names.items() if wanted in known]
    found = exact or [
        common for common, known in names.items() if wanted and any(wanted in one for one in known)
    ]
    if len(found) == 1:
        return GPUS[found[0]]
    if found:
        raise UnknownGpu(f"{name!r} is in several names: say which of {_listed(found)}.")
    raise UnknownGpu(
        f"no card in the table is called {name!r}: there are {_listed(GPUS)}. "
        "gpus.numbers_for(name) takes any name, and knows nothing of other cards but that."
    )


def numbers_for(name: str) -> GpuNumbers:
    """What is known of the card called `name`, which may be any: unknown numbers are None.

    name: as CUDA reports it and results carry it (`result.provenance.device`), or one that `find`
    takes. This machine's own card brings what CUDA reports (`this_gpu`, which makes a CUDA
    context); a card of the table is told by its whole name, since a card of the same family
    ("NVIDIA H200 NVL") has other speeds. TypeError for what is no text.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a card's name, as 'NVIDIA H200', not {name!r}.")
    here = this_gpu()
    if here is not None and here.name == name:
        return here
    wanted = name.casefold().strip()
    for known in GPUS.values():
        if known.name.casefold() == wanted:
            return known
    if wanted and not wanted.startswith(VENDORS_WORDS):
        try:
            return find(name)
        except UnknownGpu:
            pass
    unknown = dict.fromkeys(field.name for field in fields(GpuNumbers))
    return GpuNumbers(**unknown | {"name": name, "source": "not in the table of cards"})


def this_gpu() -> GpuNumbers | None:
    """The current GPU, or None without one. Makes a CUDA context.

    What CUDA reports comes from CUDA. Peaks come from the table for a card that is in it, under its
    full name and with all its SMs; for another card they are None, except the memory's bandwidth
    where CUDA reports the memory's clock and width.
    """
    if not torch.cuda.is_available():
        return None
    return from_properties(torch.cuda.get_device_properties(torch.cuda.current_device()))


def from_properties(properties: Any) -> GpuNumbers:
    """`this_gpu()` for what `torch.cuda.get_device_properties` returned."""
    clock = getattr(properties, "memory_clock_rate", 0) or 0  # kHz
    width = getattr(properties, "memory_bus_width", 0) or 0  # bits
    bandwidth = 2 * clock * 1e3 * width / 8 if clock and width else None  # both edges of the clock
    told = GpuNumbers(
        name=properties.name,
        capability=(properties.major, properties.minor),
        multiprocessors=properties.multi_processor_count,
        registers_per_sm=getattr(properties, "regs_per_multiprocessor", REGISTERS_PER_SM),
        shared_bytes_per_sm=properties.shared_memory_per_multiprocessor,
        max_threads_per_sm=properties.max_threads_per_multi_processor,
        l2_bytes=properties.L2_cache_size,
        memory_bytes=properties.total_memory,
        memory_bandwidth=bandwidth,
        shared_bandwidth=None,
        bf16_flops=None,
        fp16_flops=None,
        fp32_flops=None,
        source="as CUDA reports it"
        + ("; memory bandwidth: memory clock x 2 x bus width" if bandwidth else ""),
    )
    for known in GPUS.values():
        if known.name == told.name and known.multiprocessors == told.multiprocessors:
            return replace(
                told,
                memory_bandwidth=known.memory_bandwidth,
                shared_bandwidth=known.shared_bandwidth,
                bf16_flops=known.bf16_flops,
                fp16_flops=known.fp16_flops,
                fp32_flops=known.fp32_flops,
                source=f"sizes as CUDA reports them; speeds: {known.source}",
            )
    return told


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
