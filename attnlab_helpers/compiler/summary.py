"""The small table: what matters in the machine code, one column a compiled kernel."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from .compiled import Compiled
from .counts import BY_WIDTH, Counts

_TENSOR_CORES = ("mma.sync", "wgmma", "tcgen05.mma")
_COPIES = {"cp.async": "cp.async", "tma": "TMA"}


def summary(*compiled: Compiled) -> pd.DataFrame:
    """One column for each kernel, one row for each question; all values are text.

    The instructions are counted in the machine code (SASS) as it stands there, not as often as it
    runs: one in a loop counts once. Where there is no SASS they are counted in the PTX, and the
    first row says so. Raises ValueError without a kernel.
    """
    if not compiled:
        raise ValueError("summary needs at least one compiled kernel")
    columns = [_column(one) for one in compiled]
    table = pd.DataFrame(dict(enumerate(columns)), index=list(columns[0]))
    table.columns = _names(compiled)
    return table


def _names(compiled: tuple[Compiled, ...]) -> list[str]:
    names = []
    for one in compiled:
        name = f"{one.name} for {one.target}"
        if len({other.language for other in compiled}) > 1:
            name = f"{one.name} ({one.language}) for {one.target}"
        while name in names:  # two versions of one kernel
            name += "'"
        names.append(name)
    return names


def _column(one: Compiled) -> dict[str, str]:
    counts = one.counts
    return {
        "counted in": "SASS" if "SASS" in one.stages else "PTX",
        "instructions": str(counts["instructions"]),
        "tensor-core instructions": _parts(counts, {name: name for name in _TENSOR_CORES}),
        "asynchronous copies": _parts(counts, _COPIES),
        "global loads": _by_width(counts[BY_WIDTH[0]]),
        "global stores": _by_width(counts[BY_WIDTH[1]]),
        "global atomics": str(counts["global_atomics"]),
        "shared-memory loads": str(counts["shared_loads"]),
        "shared-memory stores": str(counts["shared_stores"]),
        "barriers": str(counts["barriers"]),
        "branches": str(counts["branches"]),
        "exits under a condition": str(counts["predicated_exits"]),
        "loads and stores under a condition": str(counts["predicated_memory"]),
        "registers a thread": str(counts.get("registers", "unknown")),
        "spilled bytes a thread": str(counts.get("spilled_bytes", "unknown")),
        "shared memory bytes": str(counts["shared_bytes"]),
        "provenance": one.provenance,
    }


def _parts(counts: Counts, names: Mapping[str, str]) -> str:
    found = [f"{label}: {counts[name]}" for name, label in names.items() if counts[name]]
    return ", ".join(found) or "none"


def _by_width(widths: Mapping[int, int]) -> str:
    return ", ".join(f"{width} bit: {count}" for width, count in widths.items()) or "none"
