"""The GPU in one picture: who runs what, and who may use which memory, with one card's numbers."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from .. import gpus
from ..gpus import GpuNumbers
from ..machine import Machine
from ..units import format_bytes
from .hardware_drawing import THREADS_PER_BLOCK, WIDTH, draw_hardware
from .picture import Picture

# Compute capabilities of cards with stacked memory (HBM); the others have GDDR or share the CPU's.
STACKED_MEMORY = {(7, 0), (8, 0), (9, 0), (10, 0), (10, 3)}


def hardware(machine: GpuNumbers | Machine | str | None = None) -> Picture:
    """Draw what a GPU runs and what runs it, side by side, one row a level, and its memory.

    machine: a card (`gpus.find("A100")`) or a part of its name. Without it, or with a `Machine`:
    this machine's GPU, else the one that our recordings were made on; the picture says which.
    Numbers that nobody gives are left out. UnknownGpu (a LookupError) for a name that is not known,
    TypeError for what is no card.
    """
    if not isinstance(machine, GpuNumbers | Machine | str | None):
        raise TypeError(
            f"hardware draws a card: a name, as hardware('H200'), or gpus.find('A100'); "
            f"{machine!r} is a {type(machine).__name__}."
        )
    card, why = _card(machine)
    title = f"The machine in one picture: {card.name}"
    provenance = f"{why}: {card.source}."

    def draw() -> Figure:
        lines = {level: _lines(*facts) for level, facts in _memory(card).items()}
        return draw_hardware(card, lines, title, provenance)

    return Picture(
        draw,
        title=title,
        alt=_alternative(card),
        table=_table(card),
        provenance=provenance,
        width=round(100 * WIDTH),
    )


def _card(machine: GpuNumbers | Machine | str | None) -> tuple[GpuNumbers, str]:
    if isinstance(machine, GpuNumbers):
        return machine, "The card that was asked for"
    if isinstance(machine, str):
        return gpus.find(machine), "The card that was asked for"
    here = gpus.this_gpu()
    if here is not None:
        return here, "This machine's GPU"
    return gpus.GPUS[gpus.RECORDED], "No GPU here; the card of our recordings"


def _lines(name: str, size: str, whole: str, speed: str, users: str) -> list[str]:
    """What is written at one level of memory; nothing where nothing is known."""
    return [line for line in (name, size, f"{whole} in all" if whole else "", speed, users) if line]


def _memory(card: GpuNumbers) -> dict[str, tuple[str, str, str, str, str]]:
    count = card.multiprocessors
    registers, shared = card.register_bytes_per_sm, card.shared_bytes_per_sm
    return {
        "registers": ("registers", f"{format_bytes(registers)} an SM",
                      format_bytes(count * registers), "", "each thread has its own"),
        "shared": ("shared memory", f"{format_bytes(shared)} an SM",
                   format_bytes(count * shared), _per_second(card.shared_bandwidth, "B"),
                   "a block shares it"),
        "l2": ("L2 cache", format_bytes(card.l2_bytes), "", "", "a cache for all SMs"),
        "memory": (_memory_name(card), format_bytes(card.memory_bytes), "",
                   _per_second(card.memory_bandwidth, "B"), "all blocks and launches"),
    }  # fmt: skip


def _memory_name(card: GpuNumbers) -> str:
    return "device memory (HBM)" if card.capability in STACKED_MEMORY else "device memory"


def _table(card: GpuNumbers) -> pd.DataFrame:
    rows = [
        ("threads in a warp", str(gpus.WARP_THREADS), ""),
        ("threads in a block, at most", f"{THREADS_PER_BLOCK:,}", ""),
        ("threads on an SM, at most", f"{card.max_threads_per_sm:,}", ""),
        ("warps on an SM, at most", str(card.max_warps_per_sm), ""),
        ("schedulers an SM", str(gpus.SCHEDULERS_PER_SM), ""),
        ("registers an SM (of 32 bits)", f"{card.registers_per_sm:,}", ""),
        ("SMs", str(card.multiprocessors), ""),
        ("compute capability", ".".join(map(str, card.capability)), ""),
    ]
    for name, size, whole, speed, users in _memory(card).values():
        rows.append((name, f"{size}{f', {whole} in all' if whole else ''}", users))
        rows += [(f"{name}: speed", speed, "")] if speed else []
    for dtype in ("bfloat16", "float16", "float32"):
        peak, balance = card.flops(dtype), card.balance(dtype)
        if peak is not None:
            note = f"{balance:.0f} FLOPs a byte of memory traffic" if balance else ""
            rows.append((f"{dtype} peak", _per_second(peak, "FLOP"), note))
    return pd.DataFrame(rows, columns=["what", card.name, "note"])


def _alternative(card: GpuNumbers) -> str:
    memory = "; ".join(
        f"{name}, {size}{f', {whole} in all' if whole else ''}{f', {speed}' if speed else ''}, "
        f"{users}"
        for name, size, whole, speed, users in _memory(card).values()
    )
    return (
        f"Three columns for {card.name}. What you write: threads, warps of {gpus.WARP_THREADS}, "
        "blocks, a grid. What runs it: a thread is one lane of its warp; a warp stays with one of "
        f"an SM's {gpus.SCHEDULERS_PER_SM} schedulers; a block stays on one SM (up to "
        f"{card.max_threads_per_sm:,} threads); the grid's blocks go to {card.multiprocessors} SMs "
        "as these get free. Memory as a pyramid, not to scale, from near and fast to far and "
        f"large: {memory}."
    )


def _per_second(amount: float | None, unit: str) -> str:
    """4.8e12, "B" -> "4.8 TB/s"; powers of 1000, as data sheets count speeds."""
    if amount is None:
        return ""
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G")):
        if amount >= factor:
            return f"{amount / factor:.4g} {prefix}{unit}/s"
    return f"{amount:.4g} {unit}/s"
