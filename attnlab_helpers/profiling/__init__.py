"""Capture what ran, read traces, name kernels, time and weigh calls."""

from __future__ import annotations

from .capture import CALL, EmptyProfile, ProfilerBusy, capture
from .kernel_names import KernelDescription, describe_kernel, label_kernels
from .memory import memory_steps, peak_memory, saved_for_backward
from .timing import (
    SideBySide,
    TimeStats,
    time_back_to_back,
    time_call,
    time_in_graph,
    time_in_turn,
)
from .traces.reader import TraceError, parse_trace, read_trace
from .traces.trace import Note, Trace
from .tree import OperatorTree, operator_tree

__all__ = [
    "CALL",
    "EmptyProfile",
    "KernelDescription",
    "Note",
    "OperatorTree",
    "ProfilerBusy",
    "SideBySide",
    "TimeStats",
    "Trace",
    "TraceError",
    "capture",
    "describe_kernel",
    "label_kernels",
    "memory_steps",
    "operator_tree",
    "parse_trace",
    "peak_memory",
    "read_trace",
    "saved_for_backward",
    "time_back_to_back",
    "time_call",
    "time_in_graph",
    "time_in_turn",
]
