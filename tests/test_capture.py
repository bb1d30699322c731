"""capture: whole, repeatable, quiet, and safe after an exception or inside another profile."""

import platform
import subprocess
import sys

import pytest
import torch

from attnlab_helpers.attention import IMPLEMENTATIONS
from attnlab_helpers.problem import PROFILING_POST, AttentionProblem
from attnlab_helpers.profiling import CALL, ProfilerBusy, capture, operator_tree, read_trace


def softmax_of_a_product(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ x, dim=-1)


@pytest.mark.parametrize("calls", [1, 3, 5])
def test_p14_every_call_asked_for_is_in_the_trace(calls) -> None:
    trace = capture(softmax_of_a_product, torch.randn(32, 32), calls=calls)
    parts = trace.within(CALL)
    assert len(parts) == calls
    for part in parts:
        assert list(part.operators["name"]).count("aten::softmax") == 1
        assert list(part.operators["name"]).count("aten::matmul") == 1


def test_a_second_capture_works_and_keyword_arguments_arrive() -> None:
    x = torch.randn(8, 8)
    for _ in range(2):
        trace = capture(torch.softmax, x, dim=-1, calls=2)
        assert "aten::softmax" in set(trace.operators["name"])


def test_an_exception_comes_through_and_the_next_capture_works() -> None:
    calls = []

    def fails_under_the_profiler(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) == 5:
            raise KeyError("mine")
        return x + 1

    x = torch.ones(3)
    with pytest.raises(KeyError, match="mine"):
        capture(fails_under_the_profiler, x)
    assert not torch.autograd._profiler_enabled()
    assert len(capture(torch.add, x, x).within(CALL)) == 3


def test_inside_another_profile_it_says_so_and_leaves_that_one_alone() -> None:
    with torch.profiler.profile() as outer:
        torch.ones(3).add_(1)
        with pytest.raises(ProfilerBusy, match="cannot be nested"):
            capture(torch.ones, 3)
    assert any(event.key == "aten::add_" for event in outer.key_averages())


def test_inside_a_profile_that_waits_for_its_start_it_says_so_and_nothing_crashes() -> None:
    steps = torch.profiler.schedule(wait=1, warmup=1, active=1)
    said = []
    with torch.profiler.profile(schedule=steps) as outer:
        for _ in range(3):
            try:
                capture(torch.ones, 3)
                said.append("captured")
            except ProfilerBusy:
                said.append("busy")
            outer.step()
    assert said == ["captured", "busy", "busy"]


def test_a_captured_function_that_captures_is_refused() -> None:
    with pytest.raises(ProfilerBusy):
        capture(lambda: capture(torch.ones, 3))
    assert len(capture(torch.ones, 3).within(CALL)) == 3


def test_flags_and_gradient_mode_are_left_as_found() -> None:
    with torch.no_grad():
        capture(torch.ones, 3)
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("options", "words"), [({"calls": 0}, "at least 1"), ({"label": "schön"}, "ASCII")]
)
def test_bad_options_are_refused(options, words) -> None:
    with pytest.raises(ValueError, match=words):
        capture(torch.ones, 3, **options)


def test_nothing_is_written_to_descriptor_2_and_nothing_names_this_machine(tmp_path) -> None:
    code = """
import pathlib, torch
from attnlab_helpers.profiling import capture
pathlib.Path("t.json").write_bytes(capture(torch.ones, 3).raw)
"""
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert (answer.returncode, answer.stderr, answer.stdout) == (0, "", "")
    raw = (tmp_path / "t.json").read_text()
    assert '"traceName": ""' in raw
    for secret in (
        platform.node(),
        "attnlab",
        str(tmp_path),
    ):
        assert f'"{secret}"' not in raw and f"/{secret}" not in raw
    assert len(read_trace(tmp_path / "t.json").within(CALL)) == 3


def test_the_warm_up_is_not_in_the_trace() -> None:
    count = []
    trace = capture(lambda: count.append(1) or torch.ones(2), calls=2, warmup=4)
    assert len(count) == 4 + 2 + 2
    assert list(trace.operators["name"]).count("aten::ones") == 2


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "activities"), [("naive", 6), ("in_place", 5)])
def test_the_posts_kernel_counts_plus_memsets(name, activities) -> None:
    call = PROFILING_POST.bind(IMPLEMENTATIONS[name], PROFILING_POST.tensors("cuda"))
    with torch.no_grad():
        trace = capture(call)
    for one in trace.within(CALL):
        work = one.kernels[one.kernels["kind"] != "memset"]
        assert len(work) == activities
        assert (work["kind"] == "memcpy").sum() == activities - 5
        assert (one.kernels["launch"] >= 0).all() and (one.kernels["operator"] >= 0).all()


@pytest.mark.gpu
def test_the_copy_comes_from_masked_fill_and_carries_one_score_matrix() -> None:
    call = PROFILING_POST.bind(IMPLEMENTATIONS["naive"], PROFILING_POST.tensors("cuda"))
    with torch.no_grad():
        trace = capture(call).within(CALL)[0]
    copy = trace.kernels[trace.kernels["kind"] == "memcpy"].iloc[0]
    assert copy["bytes"] == PROFILING_POST.score_bytes()
    text = str(operator_tree(trace, "aten::masked_fill"))
    assert (
        text.index("aten::clone")
        < text.index("copy device to device")
        < text.index("aten::masked_fill_")
    )


@pytest.mark.gpu
def test_the_calls_add_up_to_the_whole_trace() -> None:
    problem = AttentionProblem(1, 4, 512, 64, causal=True)
    with torch.no_grad():
        trace = capture(problem.bind(IMPLEMENTATIONS["naive"], problem.tensors("cuda")))
    parts = sum(int(one.kernels["duration_ns"].sum()) for one in trace.within(CALL))
    assert parts == int(trace.kernels["duration_ns"].sum()) > 0
