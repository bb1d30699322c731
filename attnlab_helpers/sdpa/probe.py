"""Asks a GPU about cells: what runs, why not the others, how long, how much memory, how exact.

A batch of cells is probed in two rounds: first everything that needs no clock, then the timed
calls, all within one profile, so that what ran and how long is read off the kernels themselves.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from ..attention import UnsupportedProblem, reference
from ..attention.sdpa import refusals, translate
from ..profiling import Trace, label_kernels, parse_trace, peak_memory
from ..quiet import hold_c_stderr
from .backends import BACKENDS, FUSED, backend_of
from .cell import Cell, prepare

ASKED = ("auto", *BACKENDS)
CALLS = 3  # timed, each with the L2 cache emptied before
UNIT_ROUNDOFF = {"float64": 2**-53, "float32": 2**-24, "float16": 2**-11, "bfloat16": 2**-8}
Row = dict[str, Any]


class Poisoned(RuntimeError):
    """A kernel failed in a way after which this process cannot use the GPU any more."""


def probe(
    cells: list[Cell],
    begin: Callable[[int], None],
    alone: Callable[[], AbstractContextManager[None]],
    device: str = "cuda",
) -> list[Row]:
    """Probe `cells` on `device`; one row a cell and asked backend, in their order.

    begin: told a cell's place before anything is tried with it, so that whoever watches knows
    which one a crash belongs to. alone: a context in which no other process uses the GPU.
    Raises Poisoned.
    """
    rows: dict[tuple[int, str], Row] = {}
    for place, cell in enumerate(cells):
        begin(place)
        for asked, row in _try(cell, device).items():
            rows[place, asked] = {"cell": place, "asked": asked} | row
        _free(device)
    ran = [key for key, row in rows.items() if row["status"] == "ran"]
    with alone():
        trace = _profile(cells, ran, begin, device)
    for key, found in _read(trace, ran).items():
        rows[key] |= found
    return list(rows.values())


def why_not(cell: Cell, tensors: tuple[torch.Tensor, ...]) -> dict[str, str]:
    """Fused backend -> PyTorch's reason against it, "" when it takes the cell."""
    *qkv, mask = tensors
    call = translate(*qkv, causal=cell.problem.causal, scale=cell.problem.scale, mask=mask)
    return {backend: " ".join(refusals(call, backend)) for backend in FUSED}


def _try(cell: Cell, device: str) -> dict[str, Row]:
    try:
        tensors = cell.tensors(device)
        gradient = cell.gradient(device) if cell.direction == "training" else None
        oracle, allowed = _oracle(cell, tensors, gradient)
        reasons = why_not(cell, tensors)
    except torch.OutOfMemoryError:
        return {asked: {"status": "out of memory", "reason": ""} for asked in ASKED}
    rows = {}
    for asked in ASKED:
        row: Row = {"status": "ran", "reason": reasons.get(asked, "")}
        try:
            if row["reason"]:
                raise UnsupportedProblem(row["reason"])
            call = prepare(cell, f"sdpa_{asked}", tensors, gradient)
            results = call()
            row["error"], row["finite"] = _error(results, oracle)
            row["allowed"] = allowed
            del results
            row["peak_memory_bytes"] = peak_memory(call, device)
        except UnsupportedProblem as error:
            row |= {"status": "refused", "reason": str(error)}
        except torch.OutOfMemoryError:
            row["status"] = "out of memory"
        except RuntimeError as error:
            if not answers(device):
                raise Poisoned(str(error).splitlines()[0]) from error
            row |= {"status": "failed", "reason": str(error).splitlines()[0]}
        rows[asked] = row
    return rows


def answers(device: str) -> bool:
    """Whether a GPU still works for this process; after some errors it never does again."""
    try:
        return torch.ones(1, device=device).sum().item() == 1
    except RuntimeError:
        return False


def _oracle(
    cell: Cell, tensors: tuple[torch.Tensor, ...], gradient: torch.Tensor | None
) -> tuple[list[torch.Tensor], float]:
    """The float64 results, and the error allowed: twice that of `naive` in the cell's dtype."""
    wide = [None if one is None else one.detach() for one in (*tensors, gradient)]
    wide = [one.double() if one is not None and one.is_floating_point() else one for one in wide]
    for leaf in wide[:3]:
        leaf.requires_grad_(cell.direction == "training")
    oracle = prepare(cell, reference, tuple(wide[:4]), wide[4])()
    plain, _ = _error(prepare(cell, "naive", tensors, gradient)(), oracle)
    largest = max(one.abs().max().item() for one in oracle if one.numel())
    return oracle, 2 * plain + UNIT_ROUNDOFF[cell.problem.dtype] * largest


def _error(results: Iterable[torch.Tensor], oracle: Iterable[torch.Tensor]) -> tuple[float, bool]:
    differences = [
        (one.double() - right).abs().max().item()
        for one, right in zip(results, oracle, strict=True)
        if one.numel()
    ]
    finite = bool(np.isfinite(differences).all())
    return (max(differences) if finite else float("inf")), finite


def _profile(
    cells: list[Cell], ran: list[tuple[int, str]], begin: Callable[[int], None], device: str
) -> Trace | None:
    if not ran:
        return None
    activities = [ProfilerActivity.CPU]
    flush = None
    if device == "cuda":
        activities.append(ProfilerActivity.CUDA)
        l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        flush = torch.empty(4 * l2_bytes, dtype=torch.int8, device=device)
    with hold_c_stderr(), tempfile.TemporaryDirectory(prefix="attnlab") as folder:
        # Not acc_events: it would turn every event into a Python object, which takes seconds.
        with profile(activities=activities) as profiler:
            for place, cell in enumerate(cells):
                mine = [asked for where, asked in ran if where == place]
                if mine:
                    begin(place)
                    _timed_calls(place, cell, mine, flush, device)
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        return parse_trace(path.read_bytes(), "probe")


def _timed_calls(
    place: int, cell: Cell, mine: list[str], flush: torch.Tensor | None, device: str
) -> None:
    tensors = cell.tensors(device)
    gradient = cell.gradient(device) if cell.direction == "training" else None
    for asked in mine:
        call = prepare(cell, f"sdpa_{asked}", tensors, gradient)
        call()
        for _ in range(CALLS):
            if flush is not None:
                flush.zero_()
            _wait(device)
            with record_function(f"cell {place} {asked}"):
                call()
                _wait(device)


def _read(trace: Trace | None, ran: list[tuple[int, str]]) -> dict[tuple[int, str], Row]:
    """Times and kernels of each annotated call, joined by the moment of the launch."""
    if trace is None:
        return {}
    kernels = trace.kernels[trace.kernels["launch"] >= 0]
    launched = trace.launches["start_ns"].reindex(kernels["launch"]).to_numpy()
    order = np.argsort(launched, kind="stable")
    launched, kernels = launched[order], kernels.iloc[order]
    names = kernels["name"].to_numpy()
    labels = label_kernels(sorted(set(names)))
    totals = np.concatenate([[0], kernels["duration_ns"].to_numpy().cumsum()])
    found: dict[tuple[int, str], Row] = {}
    annotations = trace.annotations
    for place, asked in ran:
        times, seen = [], []
        for row in annotations[annotations["name"] == f"cell {place} {asked}"].itertuples():
            first, last = np.searchsorted(launched, [row.start_ns, row.start_ns + row.duration_ns])
            times.append(int(totals[last] - totals[first]))
            seen = list(names[first:last])
        if not seen:
            found[place, asked] = {"status": "not seen"}
            continue
        longest = max(range(first, last), key=lambda index: totals[index + 1] - totals[index])
        found[place, asked] = {
            "ran": backend_of(seen),
            "activities": len(seen),
            "kernel": labels[names[longest]],
            "median_ns": int(statistics.median(times)),
            "low_ns": min(times),
            "high_ns": max(times),
        }
    return found


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _free(device: str) -> None:
    if device == "cuda":
        torch.cuda.empty_cache()
