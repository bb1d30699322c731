"""Probing cells in workers that may crash or hang, and the rows that come of it."""

import contextlib
import subprocess
import sys
import time

import pandas as pd
import pytest
import torch

from attnlab_helpers.attention import IMPLEMENTATIONS, Implementation
from attnlab_helpers.problem import AttentionProblem
from attnlab_helpers.sdpa import probe as probe_module
from attnlab_helpers.sdpa.backends import backend_of
from attnlab_helpers.sdpa.cell import Cell
from attnlab_helpers.sdpa.grid import DTYPES, HEAD_DIMS, LAYOUTS, LENGTHS, MASKS, grid
from attnlab_helpers.sdpa.probe import probe
from attnlab_helpers.sdpa.probing import probe_all
from attnlab_helpers.sdpa.room import Room
from attnlab_helpers.study import run

CELLS = [Cell(AttentionProblem(1, 1, length, 8, dtype="float32")) for length in range(1, 10)]

# A worker that needs no GPU: it crashes at length 4, hangs at length 6, is poisoned at length 8.
WORKER = """
import json, os, sys, time
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    cells = json.loads(line)["cells"]
    for place, cell in enumerate(cells):
        print(json.dumps({"begin": place}), flush=True)
        length = cell["problem"]["q_len"]
        if length == 4:
            sys.stderr.write("Fatal: boom")
            sys.stderr.flush()
            os._exit(139)
        if length == 6:
            time.sleep(60)
        if length == 8:
            print(json.dumps({"poisoned": "illegal memory access"}), flush=True)
            sys.exit(1)
    rows = [{"cell": place, "asked": "auto", "status": "ran"} for place in range(len(cells))]
    print(json.dumps({"rows": rows}), flush=True)
"""


@contextlib.contextmanager
def nobody_else():
    yield


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("batch", [1, 4, 20])
def test_a_crash_and_a_hang_cost_their_cells_and_no_other(workers, batch) -> None:
    rows = probe_all(
        CELLS,
        seconds=60,
        workers=workers,
        batch=batch,
        patience=1.0,
        command=(sys.executable, "-c", WORKER),
    )
    assert [row["cell"] for row in rows] == list(range(9))
    found = {row["cell"] + 1: (row["status"], row.get("reason", "")) for row in rows}
    assert found[4] == ("crashed", "exit status 139: Fatal: boom")
    assert found[6][0] == "hung" and "1 s" in found[6][1]
    assert found[8] == ("crashed", "illegal memory access")
    assert all(found[length][0] == "ran" for length in (1, 2, 3, 5, 7, 9))


def test_a_worker_killed_by_a_signal_says_so() -> None:
    killed = WORKER.replace("os._exit(139)", "os.kill(os.getpid(), 9)").replace("Fatal: boom", "")
    (row,) = probe_all(CELLS[3:4], seconds=60, command=(sys.executable, "-c", killed))
    assert row["status"] == "crashed" and row["reason"] == "signal 9"


def test_workers_that_never_begin_are_an_error_and_not_an_endless_loop() -> None:
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"before it began a cell.*no such thing"):
        command = (sys.executable, "-c", "raise SystemExit('no such thing')")
        probe_all(CELLS, seconds=60, command=command)
    assert time.monotonic() - start < 30


def test_the_time_that_is_given_is_kept() -> None:
    assert probe_all(CELLS, seconds=-1, command=(sys.executable, "-c", WORKER)) == []


def test_a_batch_on_the_cpu_has_a_row_for_each_backend_and_knows_what_is_refused() -> None:
    problem = AttentionProblem(1, 2, 12, 8, kv_heads=1, dtype="float32")
    cells = [Cell(problem, direction=direction) for direction in ("forward", "training")]
    begun = []
    rows = probe(cells, begun.append, nobody_else, "cpu")
    assert set(begun) == {0, 1}
    frame = pd.DataFrame(rows).set_index(["cell", "asked"])
    assert len(frame) == 10
    for place in (0, 1):
        assert frame.loc[(place, "efficient"), "status"] == "refused"
        assert "only for CUDA" in frame.loc[(place, "efficient"), "reason"]
        for asked in ("auto", "math", "flash"):
            row = frame.loc[(place, asked)]
            assert 0 < row["error"] <= row["allowed"]
            assert row["status"] == "not seen"  # a CPU launches no kernel to be seen


def test_wrong_results_and_wrong_gradients_are_found(monkeypatch) -> None:
    """S17: an output can be right and its gradients NaN; errors are taken over both."""

    class Spoiled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * float("nan")

    real = IMPLEMENTATIONS["sdpa_math"]
    spoiled = Implementation(
        "sdpa_math", "spoiled", lambda call: Spoiled.apply(real.compute(call)), real.check
    )
    shifted = Implementation(
        "sdpa_flash", "shifted", lambda call: real.compute(call) + 1e-3, real.check
    )
    monkeypatch.setitem(IMPLEMENTATIONS, "sdpa_math", spoiled)
    monkeypatch.setitem(IMPLEMENTATIONS, "sdpa_flash", shifted)
    problem = AttentionProblem(1, 2, 12, 8, dtype="float32")
    cells = [Cell(problem), Cell(problem, direction="training")]
    rows = {(row["cell"], row["asked"]): row for row in probe(cells, int, nobody_else, "cpu")}
    assert rows[0, "math"]["error"] <= rows[0, "math"]["allowed"]
    assert rows[1, "math"]["error"] == float("inf") and not rows[1, "math"]["finite"]
    assert rows[0, "flash"]["error"] > rows[0, "flash"]["allowed"]
    assert rows[0, "auto"]["error"] <= rows[0, "auto"]["allowed"]


def test_an_error_of_one_backend_is_its_row(monkeypatch) -> None:
    def broken(call):
        raise RuntimeError("cuDNN Frontend error: odd\nsecond line")

    real = IMPLEMENTATIONS["sdpa_flash"]
    monkeypatch.setitem(
        IMPLEMENTATIONS, "sdpa_flash", Implementation("sdpa_flash", "broken", broken, real.check)
    )
    rows = probe(CELLS[3:4], int, nobody_else, "cpu")
    found = {row["asked"]: row for row in rows}
    assert found["flash"]["status"] == "failed"
    assert found["flash"]["reason"] == "cuDNN Frontend error: odd"
    assert found["math"]["status"] == "not seen"


def test_times_and_backends_are_read_off_the_annotated_calls() -> None:
    """A recorded profile stands in for a probe's: each of its calls is one cell's."""
    recorded = run("sdpa_math", AttentionProblem(8, 16, 1024, 64, causal=True), source="recorded")
    trace = recorded.trace
    renamed = trace.annotations.assign(name="cell 0 math")

    class Probed:
        annotations, kernels, launches = renamed, trace.kernels, trace.launches

    found = probe_module._read(Probed, [(0, "math"), (1, "auto")])
    calls = sorted(int(call.kernels["duration_ns"].sum()) for call in recorded.calls)
    assert found[1, "auto"] == {"status": "not seen"}
    row = found[0, "math"]
    assert row["ran"] == "math" and row["activities"] == len(recorded.kernels)
    assert (row["low_ns"], row["high_ns"]) == (calls[0], calls[-1])
    assert row["median_ns"] == calls[len(calls) // 2]
    assert "matmul" in row["kernel"]


def test_backends_are_told_by_the_names_of_kernels() -> None:
    problem = AttentionProblem(8, 16, 1024, 64, causal=True)
    for backend in ("math", "flash", "efficient", "cudnn"):
        one = run(f"sdpa_{backend}", problem, source="recorded")
        assert backend_of(one.kernels["name"]) == backend
    assert backend_of([]) == "none"
    both = {name for one in ("flash", "cudnn") for name in run(f"sdpa_{one}", problem).kernels.name}
    assert backend_of(both) == "cudnn+flash"


def test_the_grid_has_every_axis_early_and_no_cell_twice() -> None:
    cells = list(grid())
    assert len(cells) == len(set(cells))
    assert len(cells) == (
        len(HEAD_DIMS) * len(LENGTHS) * len(DTYPES) * len(MASKS) * 2 * len(LAYOUTS) * 2
    )
    early = cells[: len(cells) // 10]
    assert {cell.problem.dtype for cell in early} == set(DTYPES)
    assert {cell.layout for cell in early} == set(LAYOUTS)
    assert {cell.kind_of_mask for cell in early} == set(MASKS)
    assert {cell.kind_of_lengths for cell in early} == {
        "equal", "decode", "unequal", "long keys", "long queries",
    }  # fmt: skip
    assert cells == list(grid())


def test_one_alone_waits_for_the_others_and_they_for_it(tmp_path) -> None:
    first, second = Room(tmp_path), Room(tmp_path)
    first.enter()
    second.enter()  # both at once
    second.leave()
    code = (
        "import sys, time; from pathlib import Path; from attnlab_helpers.sdpa.room import Room\n"
        "room = Room(Path(sys.argv[1])); room.enter(alone=True); print('in', flush=True)\n"
        "time.sleep(0.5); room.leave()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    time.sleep(0.1)
    assert other.poll() is None
    first.leave()
    assert other.stdout.readline() == "in\n"
    start = time.monotonic()
    first.enter()
    assert time.monotonic() - start > 0.2
    first.leave()
    assert other.wait() == 0
    other.stdout.close()


@pytest.mark.gpu
def test_a_cell_on_the_gpu_is_answered_in_full() -> None:
    cell = Cell(AttentionProblem(1, 4, 256, 64, causal=True), direction="training")
    rows = {row["asked"]: row for row in probe([cell], int, nobody_else)}
    for asked, row in rows.items():
        assert row["status"] == "ran" and asked in ("auto", row["ran"])
        assert 0 < row["low_ns"] <= row["median_ns"] <= row["high_ns"]
        assert row["peak_memory_bytes"] > 0 and row["error"] <= row["allowed"]
