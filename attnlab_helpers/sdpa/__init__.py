"""PyTorch's scaled_dot_product_attention opened up: what runs for a call, and why not the rest."""

from __future__ import annotations

from .atlas import Atlas, load_atlas, read_atlas
from .backends import BACKENDS, backend_of, backend_that_ran, priority
from .cell import Cell
from .changes import changes
from .choice import Choice, choose, reasons
from .workloads import WORKLOADS, time_backends

__all__ = [
    "BACKENDS",
    "WORKLOADS",
    "Atlas",
    "Cell",
    "Choice",
    "backend_of",
    "backend_that_ran",
    "changes",
    "choose",
    "load_atlas",
    "priority",
    "read_atlas",
    "reasons",
    "time_backends",
]
