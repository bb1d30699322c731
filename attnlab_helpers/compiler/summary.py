"""The small table: what matters in the machine code, one column a compiled kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from .compiled import Compiled
from .counts import BY_WIDTH, Counts
from .labels import chosen, distinct

_TENSOR_CORES = ("mma.sync", "wgmma", "tcgen05.mma")
_COPIES = {"cp.async": "cp.async", "tma": "TMA"}
_GENERIC = {"generic_loads": "loads", "generic_stores": "stores", "generic_atomics": "atomics"}


def summary(*compiled: Compiled, labels: Sequence[str] | None = None) -> pd.DataFrame:
    """One column for each kernel, one row for each question; all values are text.

    labels: names for the columns; else the kernel's name, its target, and what differs from
    other kernels of this name, as in "add for 9.0, BLOCK=128".

    The instructions are counted in the machine code (SASS) as it stands there, not as often as it
    runs: one in a loop counts once. Where there is no SASS they are counted in the PTX, and the
    first row and each count say so: "22 (PTX)". Raises ValueError without a kernel and for labels
    that do not fit, TypeError for what is no compiled kernel.
    """
    if not compiled:
        raise ValueError("summary needs at least one compiled kernel")
    for one in compiled:
        if not isinstance(one, Compiled):
            hint = " Several go in one by one: summary(*kernels)." if _several(one) else ""
            raise TypeError(
                "summary takes what compile_triton and compile_cuda return; a "
                f"{type(one).__name__} is none.{hint}"
            )
    columns = [_column(one) for one in compiled]
    table = pd.DataFrame(dict(enumerate(columns)), index=list(columns[0]))
    table.columns = chosen(labels, compiled) or distinct(_names(compiled), compiled)
    return table


def _several(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(one, Compiled) for one in value)


def _names(compiled: tuple[Compiled, ...]) -> list[str]:
    if len({one.language for one in compiled}) > 1:
        return [f"{one.name} ({one.language}) for {one.target}" for one in compiled]
    return [f"{one.name} for {one.target}" for one in compiled]


def _column(one: Compiled) -> dict[str, str]:
    counts = one.counts
    where = "SASS" if "SASS" in one.stages else "PTX"
    counted = {
        "instructions": str(counts["instructions"]),
        "tensor-core instructions": _parts(counts, {name: name for name in _TENSOR_CORES}),
        "asynchronous copies": _parts(counts, _COPIES),
        "global loads": _by_width(counts[BY_WIDTH[0]]),
        "global stores": _by_width(counts[BY_WIDTH[1]]),
        "global atomics": str(counts["global_atomics"]),
        "shared-memory loads": str(counts["shared_loads"]),
        "shared-memory stores": str(counts["shared_stores"]),
        "shared-memory atomics": str(counts["shared_atomics"]),
        "generic loads and stores": _parts(counts, _GENERIC),
        "barriers": str(counts["barriers"]),
        "branches": str(counts["branches"]),
        "exits under a condition": str(counts["predicated_exits"]),
        "loads and stores under a condition": str(counts["predicated_memory"]),
    }
    if where == "PTX":  # ptxas has still to choose: the two are not to be compared
        counted = {name: f"{text} (PTX)" for name, text in counted.items()}
    return {
        "counted in": where,
        **counted,
        "registers a thread": str(counts.get("registers", "unknown")),
        "local memory, bytes a thread": str(counts.get("local_bytes", "unknown")),
        "shared memory bytes": str(counts["shared_bytes"]),
        "provenance": one.provenance,
    }


def _parts(counts: Counts, names: Mapping[str, str]) -> str:
    found = [f"{label}: {counts[name]}" for name, label in names.items() if counts[name]]
    return ", ".join(found) or "none"


def _by_width(widths: Mapping[int, int]) -> str:
    return ", ".join(f"{width} bit: {count}" for width, count in widths.items()) or "none"
