"""run, measure and compare: live on the CPU, replayed without a GPU, refused with a reason."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from attnlab_helpers import NoRecording, recordings, study
from attnlab_helpers.attention import IMPLEMENTATIONS
from attnlab_helpers.fingerprint import fingerprint, own_fingerprint
from attnlab_helpers.kernels import mode
from attnlab_helpers.machine import provenance
from attnlab_helpers.problem import PROFILING_POST, AttentionProblem, TensorProblem
from attnlab_helpers.recordings import Recording
from attnlab_helpers.study import NoGpu, NotEnoughMemory, compare, measure, run

SMALL = AttentionProblem(1, 2, 32, 16, dtype="float32", causal=True)
NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")


def doubled(x: torch.Tensor) -> torch.Tensor:
    """A docstring."""
    return x * 2  # a comment


def counted(size: int) -> list[dict[str, int]]:
    return [{"size": size, "square": size * size}]


@pytest.fixture
def recorder(tmp_path, monkeypatch):
    """A GPU that is not there: what it 'measures' runs on the CPU, and is recorded here."""
    folder = tmp_path / "recorded"
    monkeypatch.setattr(recordings, "SHIPPED", tmp_path / "nothing shipped")
    monkeypatch.setenv("ATTNLAB_RECORDINGS", str(folder))
    monkeypatch.delenv("ATTNLAB_RECORD", raising=False)

    def save(implementation, problem):
        live = run(implementation, problem, device="cpu")
        _, function = study._resolve(implementation)
        recordings.save(study._as_recording(live, problem, study._mark(function), 0), folder)
        return live

    return save


def test_a_run_on_the_cpu_is_live_and_whole() -> None:
    result = run("naive", SMALL, device="cpu")
    torch.testing.assert_close(
        result.output, IMPLEMENTATIONS["naive"](*SMALL.tensors("cpu"), causal=True)
    )
    assert str(result.provenance).startswith("live on CPU")
    assert result.time.median_ns > 0 and result.time.clock == "wall clock"
    assert result.peak_memory is None and result.kernels.empty
    table = result.operator_table()
    outermost = result.operators.query("depth == 0")["duration_ns"].sum()
    assert table["cpu_self_ns"].sum() == outermost < table["cpu_total_ns"].sum()


def test_training_runs_backward_and_leaves_no_gradients() -> None:
    result = run("in_place", SMALL, device="cpu", direction="training")
    assert any("Backward" in name for name in result.operators["name"])
    assert not result.output.requires_grad


def test_any_callable_runs_and_equal_numbers_have_equal_digests() -> None:
    problem = TensorProblem((4, 4), dtype="float32")
    first = run(doubled, problem, device="cpu")
    second = run(lambda x: x + x, problem, device="cpu", label="sum")
    assert first.name == "function doubled" and first.label == "doubled" and second.label == "sum"
    assert first.digest == second.digest
    assert first.digest != run(doubled, problem, device="cpu", seed=1).digest


def test_a_recording_replays_what_was_measured(recorder) -> None:
    live = recorder("naive", SMALL)
    replayed = run("naive", SMALL, source="recorded")
    assert str(replayed.provenance).startswith("recorded on CPU")
    assert replayed.output is None and replayed.digest == live.digest
    assert replayed.time == live.time
    assert replayed.operators.equals(live.operators)
    assert replayed.cpu_time_ns == live.cpu_time_ns


@NO_GPU
def test_without_a_gpu_run_replays_by_itself(recorder) -> None:
    recorder(doubled, TensorProblem((4, 4)))
    assert run(doubled, TensorProblem((4, 4))).provenance.kind == "recorded"
    with pytest.raises(NoRecording, match=r"(?s)device='cpu'.*doubled: 4x4"):
        run(doubled, TensorProblem((5, 5)))


def test_changed_code_is_not_shown_old_numbers(recorder) -> None:
    recorder(doubled, TensorProblem((4, 4)))

    def changed(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    changed.__name__ = "doubled"
    with pytest.raises(NoRecording, match="changed since"):
        run(changed, TensorProblem((4, 4)), source="recorded")


def test_a_function_called_like_an_implementation_is_not_taken_for_it(recorder) -> None:
    recorder("naive", SMALL)

    def naive(q, k, v, causal=False, scale=None):
        return q

    with pytest.raises(NoRecording):
        run(naive, SMALL, source="recorded")


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        (("niave", SMALL), {}, ValueError, "There are: naive"),
        ((3, SMALL), {}, TypeError, "name or a callable"),
        (("naive", SMALL), {"source": "somewhere"}, ValueError, "is not one of"),
        (("naive", SMALL), {"device": "cpu", "direction": "back"}, ValueError, "is not one of"),
    ],
)
def test_bad_arguments_get_a_sentence(arguments, options, error, words) -> None:
    with pytest.raises(error, match=words):
        run(*arguments, **options)


@NO_GPU
def test_live_without_a_gpu_says_what_else_can_be_done() -> None:
    with pytest.raises(NoGpu, match="source='recorded'"):
        run("naive", SMALL, source="live")
    with pytest.raises(NoRecording):
        measure(counted, size=3)


def test_a_wrong_source_in_the_environment_is_named(monkeypatch) -> None:
    monkeypatch.setenv("ATTNLAB_SOURCE", "live on the moon")
    with pytest.raises(ValueError, match="ATTNLAB_SOURCE"):
        run("naive", SMALL)


def test_compare_has_one_row_a_run() -> None:
    runs = [run(name, SMALL, device="cpu") for name in ("naive", "in_place")]
    table = compare(*runs).table
    assert list(table["run"]) == ["naive", "in_place"]
    assert (table["gpu_activities"] == 0).all() and table["peak_memory_bytes"].isna().all()
    with pytest.raises(ValueError, match="at least one"):
        compare()
    with pytest.raises(TypeError, match="takes Runs"):
        compare(runs)


@pytest.mark.gpu
def test_a_live_run_on_the_gpu_is_whole_and_recordable(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ATTNLAB_RECORD", str(tmp_path))
    monkeypatch.setenv("ATTNLAB_RECORDINGS", str(tmp_path))
    live = run("naive", PROFILING_POST)
    assert live.provenance.kind == "live" and live.time.l2_flushed
    assert abs(live.gpu_time_ns / live.time.median_ns - 1) < 0.3
    assert live.peak_memory == 2 * PROFILING_POST.score_bytes() + 16 * 2**20
    replayed = run("naive", PROFILING_POST, source="recorded", gpu=live.provenance.device)
    assert replayed.kernels.equals(live.kernels) and replayed.time == live.time
    assert run("in_place", PROFILING_POST).digest == live.digest


@pytest.mark.gpu
def test_out_of_memory_is_a_sentence_and_the_memory_comes_back() -> None:
    before = torch.cuda.memory_allocated()
    with pytest.raises(NotEnoughMemory, match="Try a smaller problem"):
        run("naive", AttentionProblem(64, 64, 16384, 64))
    assert torch.cuda.memory_allocated() <= before
    run("naive", AttentionProblem(1, 1, 64, 64))


def test_p09_self_times_add_up_and_totals_are_not_added() -> None:
    for name in ("naive", "in_place"):
        recorded = run(name, PROFILING_POST, source="recorded")
        table = recorded.operator_table()
        call = recorded.call_trace
        assert table["device_self_ns"].sum() == call.kernels["duration_ns"].sum()
        assert table["device_total_ns"].sum() > table["device_self_ns"].sum()
        assert table["cpu_self_ns"].sum() <= recorded.cpu_time_ns


def test_the_shipped_recordings_show_the_posts_kernels() -> None:
    naive = run("naive", PROFILING_POST, source="recorded", gpu="H200")
    in_place = run("in_place", PROFILING_POST, source="recorded", gpu="H200")
    for one, activities in ((naive, 6), (in_place, 5)):
        assert (one.kernels["kind"] != "memset").sum() == activities
        assert (one.kernels["kind"] == "memset").sum() == 1
        assert one.trace.notes == ()
    assert naive.digest == in_place.digest
    assert naive.time.median_ns > in_place.time.median_ns


def test_a_recording_is_of_one_seed_and_of_no_device(recorder) -> None:
    recorder("naive", SMALL)
    with pytest.raises(NoRecording, match="seed 0, not 5"):
        run("naive", SMALL, source="recorded", seed=5)
    with pytest.raises(ValueError, match="leave `device` out"):
        run("naive", SMALL, source="recorded", device="cpu")


def test_a_compiled_function_is_not_the_one_that_was_compiled(recorder) -> None:
    recorder(doubled, TensorProblem((4, 4)))
    with pytest.raises(NoRecording):
        run(torch.compile(doubled), TensorProblem((4, 4)), source="recorded")


def test_what_cannot_be_recognised_is_not_recorded_and_says_how_to_run_it() -> None:
    for nameless in (functools.partial(doubled), torch.nn.Identity(), torch.relu):
        with pytest.raises(NoRecording, match="device='cpu'"):
            run(nameless, TensorProblem((4, 4)), source="recorded")


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu")])
def test_devices_may_be_texts_or_torchs(device) -> None:
    assert run(doubled, TensorProblem((2, 2)), device=device).provenance.device == "CPU"


@pytest.mark.parametrize("device", ["gpu", "CPU!", "meta", 3.5])
def test_devices_that_cannot_be_measured_are_refused(device) -> None:
    with pytest.raises(ValueError, match="device="):
        run(doubled, TensorProblem((2, 2)), device=device)


def test_results_of_any_kind() -> None:
    problem = TensorProblem((3, 3), dtype="float32")
    assert run(torch.sum, problem, device="cpu", label="a number").digest is not None
    assert run(lambda x: x.to_sparse(), problem, device="cpu").digest is None
    assert run(lambda x: (x, x), problem, device="cpu").digest is None
    with pytest.raises(TypeError, match="returns one tensor"):
        run(lambda x: (x, x), problem, device="cpu", direction="training")


def test_a_problem_is_a_problem() -> None:
    with pytest.raises(TypeError, match="AttentionProblem or a TensorProblem"):
        run("naive", (1, 2, 3, 4), device="cpu")


def test_functions_without_causal_or_scale() -> None:
    def plain(q, k, v):
        return torch.softmax(q @ k.mT / 4, -1) @ v

    free = AttentionProblem(1, 2, 8, 16, dtype="float32")
    assert (
        compare(run("naive", free, device="cpu"), run(plain, free, device="cpu"))
        .table["result"][1]
        .startswith(("same", "differs by"))
    )
    with pytest.raises(TypeError, match="takes no causal"):
        run(plain, SMALL, device="cpu")


def test_compare_says_whether_the_results_agree() -> None:
    def wrong(q, k, v, causal=False, scale=None):
        return q

    def other_shape(q, k, v, causal=False, scale=None):
        return q[:, :1]

    def not_a_number(q, k, v, causal=False, scale=None):
        return q * float("nan")

    runs = [run(one, SMALL, device="cpu") for one in ("naive", "in_place", wrong)]
    runs += [run(other_shape, SMALL, device="cpu"), run(not_a_number, SMALL, device="cpu")]
    results = list(compare(*runs).table["result"])
    assert results[:2] == ["first", "same bytes"] and results[2].startswith("differs by ")
    assert results[3] == "other shape (1, 1, 32, 16)" and results[4] == "not finite"


def test_runs_can_be_compared_without_comparing_tensors() -> None:
    first, second = (run("naive", SMALL, device="cpu") for _ in range(2))
    assert first == first and first != second


def test_tables_of_a_measurement_keep_the_order_of_their_columns(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ATTNLAB_RECORDINGS", str(tmp_path))
    rows = [{"z": 1, "a": 2}]
    found = recordings.Recording(
        "function counted", "size-3", "measurement", "", fingerprint(counted), 0,
        provenance("cpu"), {"rows": rows},
    )  # fmt: skip
    recordings.save(found, tmp_path)
    assert list(measure(counted, size=3, source="recorded").frame.columns) == ["z", "a"]


def test_a_function_is_known_by_its_own_code_when_all_that_it_uses_was_recorded(recorder) -> None:
    def uses(function):
        def outer(x):
            return function(x) + 1

        return outer

    def halved(x):
        return x / 2

    problem = TensorProblem((4, 4))
    old = Recording(
        "function outer", problem.key, "forward", "", own_fingerprint(uses(doubled)), 0,
        provenance("cpu"), {"digest": None, "peak_memory": None, "time": None}, b"{}",
    )  # fmt: skip
    recordings.save(old, Path(os.environ["ATTNLAB_RECORDINGS"]))
    with pytest.raises(NoRecording, match="changed since"):  # doubled itself: not recorded yet
        run(uses(doubled), problem, source="recorded")
    recorder(doubled, problem)
    assert study._known_marks(uses(doubled))[1] == own_fingerprint(uses(doubled))
    with pytest.raises(NoRecording, match="changed since"):
        run(uses(halved), problem, source="recorded")


@pytest.mark.skipif(mode() != "interpreter", reason="kernels are compiled here, or missing")
def test_a_run_in_the_interpreter_shows_no_time() -> None:
    problem = AttentionProblem(1, 2, 20, 16, dtype="float32", causal=True)
    ours = run("flash_triton", problem, device="cpu")
    assert str(ours.provenance) == "interpreter (no timing)"
    assert ours.time is None and ours.cpu_time_ns is None
    with pytest.raises(ValueError, match="there is no timeline"):
        ours.timeline()
    plain = run("naive", problem, device="cpu")
    assert plain.provenance.kind == "live" and plain.time is not None
    both = compare(plain, ours).table
    with pytest.raises(ValueError, match="there is no timeline"):
        compare(plain, ours).timeline()
    for column in ("median_ns", "cpu_time_ns", "gpu_time_ns"):
        assert both[column].isna().tolist() == [False, True]
    with pytest.raises(ValueError, match="there is no table of times"):
        ours.operator_table()


@pytest.mark.skipif(mode() != "interpreter", reason="kernels are compiled here, or missing")
def test_a_run_without_a_kernel_keeps_its_times_even_if_torch_loads_triton() -> None:
    code = """
import sys
from attnlab_helpers import AttentionProblem, run
def mine(q, k, v, causal=False, scale=None):
    import triton
    return q + v
print(run(mine, AttentionProblem(1, 1, 16, 16, dtype="float32"), device="cpu").provenance.kind)
"""
    # As a process inherits it from one that has kernels interpreted.
    variables = os.environ | {"TRITON_INTERPRET": "1"}
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=variables
    )
    assert found.stdout.strip() == "live"


def test_kernels_run_whatever_ran_before() -> None:
    # Profiling may import Triton; what it then is was chosen before.
    code = """
from attnlab_helpers import AttentionProblem, compare, run
problem = AttentionProblem(1, 1, 16, 16, dtype="float32")
print(compare(run("naive", problem, device="cpu"), run("flash_triton", problem, device="cpu")))
"""
    if mode() != "interpreter":
        pytest.skip("kernels are compiled here, or missing")
    plain = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=plain
    )
    assert "interpreter (no timing)" in found.stdout and "live on CPU" in found.stdout


def test_a_function_of_the_readers_own_that_is_interpreted_shows_no_time_either() -> None:
    # In a process of its own, where nothing has loaded Triton before the call.
    code = """
from attnlab_helpers import AttentionProblem, run
def mine(q, k, v, causal=False, scale=None):
    from attnlab_helpers.attention.tiled import tiled_attention
    return tiled_attention(q, k, v, causal=causal, scale=scale)
print(run(mine, AttentionProblem(1, 1, 16, 16, dtype="float32"), device="cpu").provenance)
"""
    if mode() != "interpreter":
        pytest.skip("kernels are compiled here, or missing")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "interpreter (no timing)"


@pytest.mark.parametrize("scale", [0.0, -0.5])
@pytest.mark.parametrize("name", ["naive", "sdpa_auto", "sdpa_math", "flash_triton"])
def test_training_with_a_scale_that_moves_into_q_can_be_repeated(name, scale) -> None:
    if name == "flash_triton" and mode() != "interpreter":
        pytest.skip("kernels are compiled here, or missing")
    problem = AttentionProblem(1, 1, 12, 16, dtype="float32", scale=scale)
    trained = run(name, problem, device="cpu", direction="training")
    assert trained.output is None or torch.isfinite(trained.output).all()
