"""Reading the table that Nsight Compute prints as CSV: one row a kernel and metric."""

from __future__ import annotations

import csv
import re
from typing import Any

# Metric -> our column. In base units (--print-units base): bytes and nanoseconds.
METRICS = {
    "dram__bytes_read.sum": "dram_read_bytes",
    "dram__bytes_write.sum": "dram_written_bytes",
    "lts__t_bytes.sum": "l2_bytes",
    "gpu__time_duration.sum": "duration_ns",
}
FACTORS = {"byte": 1, "ns": 1, "nsecond": 1, "us": 1_000, "usecond": 1_000}
FACTORS |= {"Kbyte": 1_000, "Mbyte": 1_000_000, "Gbyte": 1_000_000_000, "ms": 1_000_000}


def read_nsight_csv(text: str) -> list[dict[str, Any]]:
    """One row a kernel, in order of launch: kernel, and the columns of `METRICS` as integers.

    text: what ``ncu --csv`` prints, its own remarks ("==PROF== ...") and a program's output
    around it included. A metric that the GPU does not have ("n/a") is None. Raises ValueError
    where no table is found or a unit is unknown.
    """
    lines = text.splitlines()
    heads = [place for place, line in enumerate(lines) if line.startswith('"ID"')]
    if not heads:
        raise ValueError('there is no line that begins with "ID", so no table of Nsight Compute.')
    table = [line for line in lines[heads[0] :] if line.startswith('"')]
    rows: dict[str, dict[str, Any]] = {}
    for found in csv.DictReader(table):
        column = METRICS.get(found["Metric Name"] or "")
        if column is None:
            continue
        row = rows.setdefault(
            found["ID"], {"kernel": found["Kernel Name"]} | dict.fromkeys(METRICS.values())
        )
        row[column] = _number(found["Metric Value"], found["Metric Unit"])
    return list(rows.values())


def name_in_source(name: str) -> str:
    """A kernel's name as PyTorch's source and profiler have it: Nsight Compute shortens it.

    It leaves out "native::" and writes "<unnamed>" for an anonymous namespace (seen with
    version 2025.3).
    """
    longer = re.sub(r"\bat::(?!native::|cuda::|Tensor)", "at::native::", name)
    return longer.replace("<unnamed>", "(anonymous namespace)")


def _number(value: str, unit: str) -> int | None:
    text = value.replace(",", "").strip()
    if text.lower() in ("", "n/a", "nan"):
        return None
    if unit not in FACTORS:
        raise ValueError(f"the unit {unit!r} is not one of {', '.join(FACTORS)}.")
    return round(float(text) * FACTORS[unit])
