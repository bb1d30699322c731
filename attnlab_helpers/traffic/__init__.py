"""The traffic ledger: bytes through memory by formula, by counting and by measurement.

`formula` says what an implementation's steps read and write, `count` what a Triton kernel asks
for when it runs in the interpreter, `counters` what the GPU's own counters saw; `ledger` lays
them side by side.
"""

from __future__ import annotations

from .accounts import Ledger, ledger
from .counting import count
from .counts import Counts
from .elsewhere import count_in_process, count_tiled
from .formulas import FORMULAS, TILES, formula, keys_read, minimum
from .interpreter_hooks import CountingUnavailable
from .launch_hooks import NotCountable
from .nsight import CountersUnavailable, counters, counters_source, nsight_compute
from .nsight_csv import read_nsight_csv
from .theory import io_flash, io_standard, time_bound

__all__ = [
    "FORMULAS",
    "TILES",
    "CountersUnavailable",
    "CountingUnavailable",
    "Counts",
    "Ledger",
    "NotCountable",
    "count",
    "count_in_process",
    "count_tiled",
    "counters",
    "counters_source",
    "formula",
    "io_flash",
    "io_standard",
    "keys_read",
    "ledger",
    "minimum",
    "nsight_compute",
    "read_nsight_csv",
    "time_bound",
]
