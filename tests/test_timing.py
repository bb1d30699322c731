"""Timing on the CPU: a call that sleeps is timed as long as it sleeps, in both ways of asking."""

import time

import pytest
import torch

from attnlab_helpers.profiling import (
    SideBySide,
    TimeStats,
    time_back_to_back,
    time_call,
    time_in_graph,
    time_in_turn,
)


@pytest.mark.parametrize("clock", [time_call, time_back_to_back])
def test_a_call_takes_as_long_as_it_sleeps(clock) -> None:
    asked = []

    def call() -> None:
        asked.append(1)
        time.sleep(0.002)

    times = clock(call, "cpu")
    assert times.clock == "wall clock" and not times.l2_flushed
    assert 2e6 <= times.p20_ns <= times.median_ns <= times.p80_ns < 2e8
    assert len(asked) > times.samples >= 7


def test_percentiles_of_known_samples() -> None:
    times = TimeStats.of([float(n) for n in range(11)], "wall clock", False)
    assert (times.p20_ns, times.median_ns, times.p80_ns) == (2.0, 5.0, 8.0)
    with pytest.raises(ValueError, match="nothing was measured"):
        TimeStats.of([], "wall clock", False)


@pytest.mark.gpu
def test_a_row_of_calls_is_not_timed_as_its_launches() -> None:
    x = torch.randn(2**27, device="cuda")
    y = torch.empty_like(x)
    row = time_back_to_back(lambda: y.copy_(x), "cuda")
    alone = time_call(lambda: y.copy_(x), "cuda")
    assert abs(row.median_ns / alone.median_ns - 1) < 0.2


def test_a_graph_without_a_gpu_is_refused() -> None:
    with pytest.raises(ValueError, match="time_back_to_back measures on a CPU"):
        time_in_graph(lambda: None, "cpu")


@pytest.mark.gpu
def test_in_a_graph_a_small_call_costs_less_than_asking_for_it() -> None:
    x = torch.randn(1024, device="cuda")
    y = torch.empty_like(x)
    in_graph = time_in_graph(lambda: torch.add(x, 1, out=y), "cuda")
    asked = time_back_to_back(lambda: torch.add(x, 1, out=y), "cuda")
    assert in_graph.median_ns < asked.median_ns
    assert torch.equal(y, x + 1)


@pytest.mark.gpu
def test_in_a_graph_a_large_call_takes_what_it_takes_alone() -> None:
    x = torch.randn(2**27, device="cuda")
    y = torch.empty_like(x)
    in_graph = time_in_graph(lambda: torch.add(x, 1, out=y), "cuda")
    alone = time_call(lambda: torch.add(x, 1, out=y), "cuda")
    assert abs(in_graph.median_ns / alone.median_ns - 1) < 0.2


def test_a_ratio_is_that_of_the_calls_of_a_round() -> None:
    """Two clocks: in every round b takes twice as long, whatever the medians say."""
    times = SideBySide({"a": [10.0, 20.0, 10.0], "b": [20.0, 40.0, 20.0]})
    assert times.ratio("b", "a") == (2.0, 2.0, 2.0)
    assert times.ratio("a", "b")[0] == 0.5
    assert times.stats("a").median_ns == 10 and times.stats("a").samples == 3
    uneven = SideBySide({"a": [10.0, 20.0, 20.0], "b": [20.0, 40.0, 20.0]})
    assert uneven.ratio("b", "a")[0] == 2.0  # the quotient of the medians is 1
    with pytest.raises(ValueError):
        SideBySide({"a": [1.0, 2.0], "b": [1.0]}).ratio("a", "b")


def test_in_turn_without_a_gpu_is_refused() -> None:
    with pytest.raises(ValueError, match="time_call measures on a CPU"):
        time_in_turn({"a": lambda: None}, "cpu")


@pytest.mark.gpu
def test_in_turn_a_call_twice_as_large_takes_twice_as_long() -> None:
    x = torch.randn(2**28, device="cuda")
    y = torch.empty_like(x)
    half = x.numel() // 2
    times = time_in_turn(
        {"half": lambda: y[:half].copy_(x[:half]), "all": lambda: y.copy_(x)}, "cuda"
    )
    assert len(times.samples_ns["half"]) == len(times.samples_ns["all"]) >= 10
    assert 1.8 < times.ratio("all", "half")[0] < 2.2
