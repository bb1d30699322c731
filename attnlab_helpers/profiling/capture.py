"""Profile a call with torch.profiler, and never come back empty without saying why.

The schedule is the one of "Profiling in PyTorch" (Hugging Face, 2026): three calls before the
profiler starts, one step waiting, one step warming the profiler up, then the calls that count.
The GPU is waited for after every call, so that no kernel of one call ends in the next one's
window; without that, totals also hold kernels of the warm-up step.
"""

from __future__ import annotations

import gc
import re
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import (
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    supported_activities,
)

from ..machine import why_no_gpu_activity
from ..quiet import hold_c_stderr
from .traces.reader import parse_trace
from .traces.trace import Trace

CALL = "attnlab call"  # the annotation around every captured call
_ONE_AT_A_TIME = threading.Lock()  # a captured function that captures would crash the process


class EmptyProfile(RuntimeError):
    """A profile came back without the activities it should hold; the text says why."""


class ProfilerBusy(RuntimeError):
    """Another profile is being taken in this process; there can be only one at a time."""


def capture(
    function: Callable[..., Any],
    *args: Any,
    calls: int = 3,
    warmup: int = 3,
    label: str = CALL,
    **kwargs: Any,
) -> Trace:
    """Profile ``function(*args, **kwargs)`` and return what happened as a Trace.

    calls: how many calls the trace holds, each inside an annotation named `label` (ASCII), so
    that ``trace.within(label)`` gives one Trace a call. warmup: calls before the profiler
    starts; the first ones load libraries and fill caches and would show that instead.

    Gradient mode, flags and the current stream stay as they are. Raises ProfilerBusy inside
    another profile, EmptyProfile when operators or GPU activities that must be there are not;
    an exception of `function` comes through unchanged, and the next capture works.
    """
    if calls < 1 or warmup < 0:
        raise ValueError(
            f"calls must be at least 1 and warmup at least 0, not {calls} and {warmup}."
        )
    if not label.isascii():
        raise ValueError(f"label must be ASCII (the profiler garbles the rest), not {label!r}.")
    if _profiler_in_use() or not _ONE_AT_A_TIME.acquire(blocking=False):
        raise ProfilerBusy(
            "a profile is already being taken in this process. Leave its `with` block first; "
            "torch.profiler cannot be nested."
        )
    try:
        return _capture(function, args, kwargs, calls, warmup, label)
    finally:
        _ONE_AT_A_TIME.release()


def _capture(
    function: Callable[..., Any], args: tuple, kwargs: dict, calls: int, warmup: int, label: str
) -> Trace:
    for _ in range(warmup):
        function(*args, **kwargs)
    _wait()
    activities = [ProfilerActivity.CPU]
    with_gpu = torch.cuda.is_available() and ProfilerActivity.CUDA in supported_activities()
    if with_gpu:
        activities.append(ProfilerActivity.CUDA)

    allocated = _allocations()
    result = None
    with hold_c_stderr() as held, tempfile.TemporaryDirectory(prefix="attnlab") as folder:
        path = Path(folder) / "trace.json"
        with profile(
            activities=activities,
            schedule=schedule(wait=1, warmup=1, active=calls, repeat=1),
            acc_events=True,  # one cycle is all there is; without this, torch warns about others
        ) as profiler:
            for _ in range(2 + calls):
                with record_function(label):
                    result = function(*args, **kwargs)
                _wait()
                profiler.step()
        try:
            profiler.export_chrome_trace(str(path))
            raw = _without_this_machine(path.read_bytes())
        except (OSError, RuntimeError) as error:
            raise EmptyProfile(f"the profiler wrote no trace: {error}") from error
    trace = parse_trace(raw, "live capture")
    found = len(trace.within(label))
    if found != calls:
        raise EmptyProfile(
            f"{calls} calls were profiled, but the trace holds {found} of them. "
            + " ".join(held.lines[:3])
        )
    if with_gpu and trace.kernels.empty:
        tensors = [value for value in (*args, *kwargs.values(), result) if torch.is_tensor(value)]
        if _allocations() > allocated or any(tensor.is_cuda for tensor in tensors):
            reason = why_no_gpu_activity(held.lines)
            raise EmptyProfile(f"the trace holds no GPU activity: {reason}.")
    return trace


def _profiler_in_use() -> bool:
    """Whether a torch profiler is running, or waiting for its scheduled start.

    PyTorch only tells of a running one. A second profiler between the other's warm-up and its
    first step takes the process down, so the live objects are asked; there is no other register.
    """
    if torch.autograd._profiler_enabled():
        return True
    return any(type(one) is profile and _is_prepared(one.profiler) for one in gc.get_objects())


def _is_prepared(inner: Any) -> bool:
    # Prepared and without results yet: between warm-up and stop. Read with defaults, because
    # these two attributes are PyTorch's own; without them only a running profiler is noticed.
    results = getattr(inner, "kineto_results", ())
    return bool(getattr(inner, "entered", False)) and results is None


def _wait() -> None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _without_this_machine(raw: bytes) -> bytes:
    # Header and footer name this computer and a temporary file: they are nobody's business, and
    # would make two recordings differ. Nothing else in the file is touched.
    edge = 4_000
    if len(raw) <= 2 * edge:
        return _drop_names(raw)
    return _drop_names(raw[:edge]) + raw[edge:-edge] + _drop_names(raw[-edge:])


def _drop_names(text: bytes) -> bytes:
    return re.sub(rb'"(host_name|traceName)":\s*"(?:[^"\\]|\\.)*"', rb'"\1": ""', text)


def _allocations() -> int:
    """How many blocks of GPU memory were ever asked for: more of them, and the GPU was used."""
    if not torch.cuda.is_available():
        return 0
    return torch.cuda.memory_stats().get("allocation.all.allocated", 0)
