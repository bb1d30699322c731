"""How long a call takes: a median and its spread, warmed up, by the GPU's own clock."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

TARGET_NS = 300_000_000  # measure for about this long ...
MOST_SAMPLES, FEWEST_SAMPLES = 200, 10  # ... within these bounds


@dataclass(frozen=True)
class TimeStats:
    """Times of one call, in nanoseconds.

    median_ns, p20_ns, p80_ns: the median and the 20th and 80th percentile of `samples` calls.
    clock: "CUDA events" or "wall clock". l2_flushed: whether the GPU's L2 cache was emptied
    before every call, so that inputs come from memory as they do in a model.
    """

    median_ns: float
    p20_ns: float
    p80_ns: float
    samples: int
    clock: str
    l2_flushed: bool

    @property
    def columns(self) -> dict[str, float]:
        """median_ns, p20_ns and p80_ns, for a row of a table."""
        return {"median_ns": self.median_ns, "p20_ns": self.p20_ns, "p80_ns": self.p80_ns}

    @classmethod
    def of(cls, samples_ns: list[float], clock: str, l2_flushed: bool) -> TimeStats:
        """From single measurements; ValueError when there are none."""
        if not samples_ns:
            raise ValueError("no samples: nothing was measured.")
        return cls(*_spread(samples_ns), len(samples_ns), clock, l2_flushed)


def _spread(numbers: list[float]) -> tuple[float, float, float]:
    """Median, 20th and 80th percentile."""
    if len(numbers) == 1:
        return (float(numbers[0]),) * 3
    cuts = statistics.quantiles(numbers, n=10, method="inclusive")
    return float(statistics.median(numbers)), float(cuts[1]), float(cuts[7])


def time_call(
    call: Callable[[], Any],
    device: str | torch.device,
    *,
    flush_l2: bool = True,
    warmup: int = 5,
    target_ns: float = TARGET_NS,
) -> TimeStats:
    """Time `call` on `device`: CUDA events on a GPU, the wall clock on a CPU.

    On a GPU all calls are queued first and waited for once: waiting before each would measure
    the wait. Between the calls a buffer four times the L2 is written (`flush_l2`), which also
    lets the CPU run ahead, so that a short call is not measured as its launch. target_ns: how
    long to go on, within 10 to 200 calls.
    """
    for _ in range(max(1, warmup)):
        call()
    if torch.device(device).type == "cuda":
        return _time_on_gpu(call, torch.device(device), flush_l2, target_ns)
    start = time.perf_counter_ns()
    call()
    estimate = time.perf_counter_ns() - start
    samples = []
    for _ in range(_how_many(estimate, target_ns)):
        start = time.perf_counter_ns()
        call()
        samples.append(float(time.perf_counter_ns() - start))
    return TimeStats.of(samples, "wall clock", False)


@dataclass(frozen=True)
class SideBySide:
    """Calls that were timed in turn; see `time_in_turn`.

    samples_ns: by name, one time of each call a round, so that the n-th of all belong together.
    """

    samples_ns: dict[str, list[float]]

    def stats(self, name: str) -> TimeStats:
        """Median and spread of one of them."""
        return TimeStats.of(self.samples_ns[name], "CUDA events", True)

    def ratio(self, one: str, other: str) -> tuple[float, float, float]:
        """How many times as long `one` takes as `other`: median, 20th and 80th percentile.

        Of the ratios within each round, in which both met the same clock.
        """
        pairs = zip(self.samples_ns[one], self.samples_ns[other], strict=True)
        return _spread([a / b for a, b in pairs])


def time_in_turn(
    calls: Mapping[str, Callable[[], Any]],
    device: str | torch.device,
    *,
    warmup: int = 5,
    target_ns: float = TARGET_NS,
) -> SideBySide:
    """Time several calls on one GPU, one of each a round, the L2 cache emptied before each.

    Under load a card goes back and forth between clocks. Timed one after the other, a call may
    meet the high one and the next the low one; in turn they meet the same. target_ns: how long to
    go on with all of them together, within 10 to 200 rounds. ValueError without a GPU.
    """
    device = torch.device(device)
    if device.type != "cuda":
        raise ValueError("calls are timed in turn on a GPU; time_call measures on a CPU as well.")
    for call in calls.values():
        for _ in range(max(1, warmup)):
            call()
    samples = _samples_on_gpu(list(calls.values()), device, True, target_ns)
    return SideBySide(dict(zip(calls, samples, strict=True)))


def time_back_to_back(
    call: Callable[[], Any], device: str | torch.device, *, rounds: int = 7
) -> TimeStats:
    """Time `call` as part of a row of calls, each asked for while the one before runs.

    One sample a round: the time of many calls over their number. Nothing is flushed, so a call
    finds in the L2 cache what the one before left there, and where the GPU is done before the
    CPU has asked for the next, it is the asking that is timed. The first round is dropped.
    """
    on_gpu = torch.device(device).type == "cuda"
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    samples: list[float] = []
    calls = 10
    for _ in range(rounds + 1):
        wait()
        start = time.perf_counter_ns()
        for _ in range(calls):
            call()
        wait()
        samples.append((time.perf_counter_ns() - start) / calls)
        # Long enough that the waiting at the end does not count, short enough for large ones.
        calls = int(min(2_000, max(5, TARGET_NS / 10 / samples[-1])))
    return TimeStats.of(samples[1:], "wall clock", False)


def time_in_graph(
    call: Callable[[], Any], device: str | torch.device, *, rounds: int = 7
) -> TimeStats:
    """Time `call` as part of a CUDA graph, in which the GPU starts one call after the other.

    The calls are captured once and replayed, so that the time in which a CPU asks for a kernel
    does not count; what the GPU itself needs to start one does. Nothing is flushed. `call` must
    not allocate on the host side or wait. ValueError without a GPU.
    """
    device = torch.device(device)
    if device.type != "cuda":
        raise ValueError("a CUDA graph needs a GPU; time_back_to_back measures on a CPU as well.")
    with torch.cuda.device(device):
        start, end = _event(), _event()
        side = torch.cuda.Stream()  # what a call sets up at its first time must not be captured
        with torch.cuda.stream(side):
            for _ in range(3):
                call()
            start.record()
            call()
            end.record()
        torch.cuda.synchronize()
        longest = max(start.elapsed_time(end) * 1e6, 1.0)
        calls = int(min(200, max(5, TARGET_NS / 10 / longest)))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(calls):
                call()
        samples = []
        for _ in range(rounds + 1):
            start.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            samples.append(start.elapsed_time(end) * 1e6 / calls)
    return TimeStats.of(samples[1:], "CUDA events", False)


def _time_on_gpu(
    call: Callable[[], Any], device: torch.device, flush_l2: bool, target_ns: float
) -> TimeStats:
    (samples,) = _samples_on_gpu([call], device, flush_l2, target_ns)
    return TimeStats.of(samples, "CUDA events", flush_l2)


def _samples_on_gpu(
    calls: list[Callable[[], Any]], device: torch.device, flush_l2: bool, target_ns: float
) -> list[list[float]]:
    """Nanoseconds of each call in every round; a round is one call of each, in turn."""
    with torch.cuda.device(device):
        l2_bytes = torch.cuda.get_device_properties(device).L2_cache_size
        flush = torch.empty(4 * l2_bytes if flush_l2 else 0, dtype=torch.int8, device=device)
        first, last = _event(), _event()
        torch.cuda.synchronize()
        first.record()
        for call in calls:
            call()
        last.record()
        torch.cuda.synchronize()
        pairs: list[list[tuple[torch.cuda.Event, torch.cuda.Event]]] = [[] for _ in calls]
        for _ in range(_how_many(first.elapsed_time(last) * 1e6, target_ns)):
            for call, of_call in zip(calls, pairs, strict=True):
                if flush_l2:
                    flush.zero_()
                start, end = _event(), _event()
                start.record()
                call()
                end.record()
                of_call.append((start, end))
        torch.cuda.synchronize()
        return [[start.elapsed_time(end) * 1e6 for start, end in of_call] for of_call in pairs]


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)


def _how_many(estimate_ns: float, target_ns: float) -> int:
    return int(min(MOST_SAMPLES, max(FEWEST_SAMPLES, target_ns / max(estimate_ns, 1.0))))
