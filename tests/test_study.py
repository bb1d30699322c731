"""run, measure and compare: live on the CPU, replayed without a GPU, refused with a reason."""

import pytest
import torch

from attnlab_helpers import NoRecording, recordings, study
from attnlab_helpers.attention import IMPLEMENTATIONS
from attnlab_helpers.fingerprint import fingerprint
from attnlab_helpers.problem import PROFILING_POST, AttentionProblem, TensorProblem
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


def test_fingerprints_see_code_and_nothing_else() -> None:
    def plain():
        def same(x):
            return x * 2

        return same

    def commented():
        def same(x):
            """Words."""

            return x * 2  # more words

        return same

    def other():
        def same(x):
            return x * 3

        return same

    assert fingerprint(plain()) == fingerprint(commented()) != fingerprint(other())
    with pytest.raises(ValueError, match="cannot be read"):
        fingerprint(len)


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
