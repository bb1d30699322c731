"""The memory ledger against what can be worked out by hand; the peak against the allocator."""

import pytest
import torch

from attnlab_helpers.attention import IMPLEMENTATIONS
from attnlab_helpers.problem import PROFILING_POST, AttentionProblem
from attnlab_helpers.profiling.memory import memory_steps, peak_memory, saved_for_backward

KIB = 1024


def test_births_and_deaths_are_followed() -> None:
    def call() -> torch.Tensor:
        a = torch.empty(KIB, dtype=torch.int8)
        b = torch.empty(3 * KIB, dtype=torch.int8)
        del a
        b += 1
        return b.view(3, KIB).clone()

    steps = memory_steps(call)
    assert list(steps["new_bytes"]) == [KIB, 3 * KIB, 0, 3 * KIB]
    assert list(steps["held_bytes"]) == [KIB, 4 * KIB, 3 * KIB, 6 * KIB]


def test_views_and_inputs_are_no_new_memory() -> None:
    given = torch.zeros(4, 4)
    steps = memory_steps(lambda: given.t().contiguous().t().add_(given[0]))
    assert list(steps["operator"]) == ["aten::clone", "aten::add_"]
    assert list(steps["new_bytes"]) == [64, 0]


@pytest.mark.parametrize("name", ["naive", "in_place"])
def test_the_post_needs_two_score_matrices_and_the_output_either_way(name) -> None:
    q = torch.empty(8, 16, 1024, 64, dtype=torch.bfloat16, device="meta")
    with torch.no_grad():
        steps = memory_steps(IMPLEMENTATIONS[name].prepare(q, q, q, causal=True))
    output = q.numel() * 2
    assert steps["held_bytes"].max() == 2 * PROFILING_POST.score_bytes() + output


def test_saved_for_backward_finds_what_softmax_keeps() -> None:
    x = torch.randn(3, 5, requires_grad=True)
    assert list(saved_for_backward(lambda: x * 2)["bytes"]) == []
    softmax = saved_for_backward(lambda: (x * 2).softmax(-1))
    assert list(softmax["shape"]) == [(3, 5)] and list(softmax["bytes"]) == [60]
    product = saved_for_backward(lambda: x * x)
    assert list(product["shares"]) == [-1, 0]
    with torch.no_grad():
        assert saved_for_backward(lambda: x.softmax(-1)).empty


def test_a_cpu_has_no_peak() -> None:
    assert peak_memory(lambda: torch.ones(3), "cpu") is None


@pytest.mark.gpu
def test_p22_the_peak_does_not_remember_what_ran_before() -> None:
    problem = AttentionProblem(1, 4, 2048, 64, causal=True)
    tensors = problem.tensors("cuda")
    with torch.no_grad():
        naive = problem.bind(IMPLEMENTATIONS["naive"], tensors)

        def small() -> torch.Tensor:
            return tensors[0] * 2

        first = (peak_memory(naive, "cuda"), peak_memory(small, "cuda"))
        again = (peak_memory(small, "cuda"), peak_memory(naive, "cuda"))
    assert first == (again[1], again[0])
    assert first[0] == 2 * problem.score_bytes() + tensors[0].numel() * 2
    assert first[1] == tensors[0].numel() * 2
