"""The hardware's counters: Nsight Compute's table read, its failures told, a real call measured."""

import json
import stat
import sys

import pandas as pd
import pytest
import torch

from attnlab_helpers import PROFILING_POST, AttentionProblem, run
from attnlab_helpers.machine import Provenance
from attnlab_helpers.result import Measurement
from attnlab_helpers.traffic import (
    CountersUnavailable,
    counters,
    counters_source,
    formula,
    ledger,
    nsight,
    nsight_compute,
    read_nsight_csv,
)
from attnlab_helpers.traffic.nsight_csv import name_in_source

HEAD = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",'
    '"Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"'
)
SMALL = AttentionProblem(1, 1, 64, 32, causal=True)
# Names as Nsight Compute 2025.3 writes them, shortened.
NAIVE_KERNELS = [
    "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT",
    "void at::vectorized_elementwise_kernel<8, at::AUnaryFunctor<c10::BFloat16, c10::BFloat16, "
    "c10::BFloat16, binary_internal::MulFunctor<float>>, std::array<char *, 2>>(int, T2, T3)",
    "void at::elementwise_kernel<128, 4, void at::gpu_kernel_impl_nocast<at::<unnamed>::"
    "masked_fill_kernel(at::TensorIterator &, const c10::Scalar &)::[lambda() (instance 1)]>>",
    "void <unnamed>::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10, 0, 0>(T2 *)",
    "nvjet_sm90_tst_64x512_64x2_1x2_h_bz_coopB_NNT",
]


def csv_text(kernels: list[tuple[str, dict[str, tuple[str, str]]]]) -> str:
    lines = ["==PROF== Connected to process 7 (python)", HEAD]
    for number, (name, metrics) in enumerate(kernels):
        for metric, (unit, value) in metrics.items():
            lines.append(
                f'"{number}","7","python","127.0.0.1","{name}","1","7","(128, 1, 1)","(2, 66, 1)",'
                f'"0","9.0","Command line profiler metrics","{metric}","{unit}","{value}"'
            )
    return "\n".join([*lines, "==PROF== Disconnected from process 7", ""])


def metrics(read: str, written: str, l2: str = "1", time: str = "2") -> dict:
    return {
        "dram__bytes_read.sum": ("byte", read),
        "dram__bytes_write.sum": ("byte", written),
        "gpu__time_duration.sum": ("ns", time),
        "lts__t_bytes.sum": ("byte", l2),
    }


def rows_of(names: list[str]) -> list[dict]:
    return read_nsight_csv(csv_text([(name, metrics("1,000", "2,000")) for name in names]))


@pytest.fixture
def fake_ncu(tmp_path, monkeypatch):
    """Puts a program called ncu on PATH that writes `text` where it is told and exits."""

    def make(text: str, status: int = 0, said: str = "") -> None:
        (tmp_path / "text").write_text(text)
        script = tmp_path / "answer.py"
        script.write_text(
            "import json, pathlib, sys\n"
            f"here = pathlib.Path({str(tmp_path)!r})\n"
            "(here / 'arguments').write_text(json.dumps(sys.argv[1:]))\n"
            "log = pathlib.Path(sys.argv[sys.argv.index('--log-file') + 1])\n"
            "log.write_text((here / 'text').read_text())\n"
            f"print({said!r}, file=sys.stderr)\n"
            f"sys.exit({status})\n"
        )
        # Not Python itself behind #!, because its path may hold a space.
        program = tmp_path / "ncu"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    make.arguments = lambda: json.loads((tmp_path / "arguments").read_text())
    return make


def test_the_table_is_read_with_its_units_and_separators() -> None:
    odd = metrics("12.5", "n/a", "3", "4.5")
    odd["dram__bytes_read.sum"] = ("Mbyte", "12.5")
    odd["gpu__time_duration.sum"] = ("us", "4.5")
    odd["sm__cycles_elapsed.max"] = ("cycle", "9")
    name = 'a<b, (c)>(const ""d"" *)'
    text = csv_text([("first", metrics("33,607,168", "241,375,488", "563,965,088", "84,960"))])
    text += (
        csv_text([(name, odd)])
        .replace('"0",', '"1",', 1)
        .split(HEAD)[1]
        .lstrip()
        .replace('"0","7"', '"1","7"')
    )
    first, second = read_nsight_csv(text)
    assert first == {
        "kernel": "first",
        "dram_read_bytes": 33_607_168,
        "dram_written_bytes": 241_375_488,
        "l2_bytes": 563_965_088,
        "duration_ns": 84_960,
    }
    assert second["kernel"] == 'a<b, (c)>(const "d" *)'
    assert second["dram_read_bytes"] == 12_500_000 and second["dram_written_bytes"] is None
    assert second["duration_ns"] == 4_500


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(ValueError, match="no table"):
        read_nsight_csv("==ERROR== nothing\n")
    bad = csv_text([("k", {"dram__bytes_read.sum": ("furlong", "1")})])
    with pytest.raises(ValueError, match="furlong"):
        read_nsight_csv(bad)


def test_the_whole_path_with_a_program_that_answers_like_ncu(fake_ncu) -> None:
    fake_ncu(csv_text([("k1", metrics("10", "20")), ("k2", metrics("30", "40"))]))
    rows = counters("naive", SMALL, cache_control="none")
    assert [row["kernel"] for row in rows] == ["k1", "k2"]
    assert json.loads(json.dumps(rows)) == rows  # plain values: `measure` can record them
    arguments = fake_ncu.arguments()
    assert arguments[arguments.index("--cache-control") + 1] == "none"
    assert arguments[arguments.index("--profile-from-start") + 1] == "off"
    assert arguments[-3:-1] == ["attnlab_helpers.traffic.subject", "naive"]
    assert AttentionProblem(**json.loads(arguments[-1])) == SMALL


@pytest.mark.parametrize(
    ("text", "status", "said", "words"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - no permission", 1, "", "administrator"),
        ("==ERROR== a driver resource was unavailable.", 1, "", "another profiler"),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", 1, "", "library"),
        ("==WARNING== No kernels were profiled.", 0, "", "no kernel was launched"),
        ("==PROF== hello", 9, "something odd", r"no table \(exit status 9\).*something odd"),
        (csv_text([("k", metrics("1", "2"))]), 1, "UnsupportedProblem: too wide", "too wide"),
    ],
)
def test_failures_are_told_readably(fake_ncu, text, status, said, words) -> None:
    fake_ncu(text, status, said)
    with pytest.raises(CountersUnavailable, match=words):
        counters("sdpa_flash", SMALL)


def test_without_ncu_it_says_what_to_install(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(nsight, "USUAL_PLACES", (str(tmp_path),))
    with pytest.raises(CountersUnavailable, match="CUDA toolkit"):
        nsight_compute()
    with pytest.raises(ValueError, match=r"There are: naive.*tiled"):
        counters("nothing", SMALL)
    with pytest.raises(ValueError, match="'all', 'none'"):
        counters("naive", SMALL, cache_control="some")


def test_counters_are_live_only_where_they_can_be_read(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.delenv("ATTNLAB_SOURCE", raising=False)

    def refused(*arguments):
        raise CountersUnavailable("no")

    monkeypatch.setattr(nsight, "counters", refused)
    assert counters_source() == "recorded"
    monkeypatch.setattr(nsight, "counters", lambda *arguments: [])
    assert counters_source() == "live"
    monkeypatch.setenv("ATTNLAB_SOURCE", "recorded")
    assert counters_source() == "recorded"


def test_names_get_back_what_nsight_compute_leaves_out() -> None:
    assert "at::native::(anonymous namespace)::masked_fill" in name_in_source(NAIVE_KERNELS[2])
    full = "void at::native::f<at::TensorIterator>"
    assert name_in_source(full) == full


def test_the_ledger_lays_kernels_beside_steps_and_says_what_is_missing() -> None:
    rows = rows_of(NAIVE_KERNELS)
    live = Provenance("recorded", "NVIDIA H200", "2026-12-01", {"torch": "2.11.0"})
    measured = Measurement("traffic", pd.DataFrame(rows), live)
    book = ledger("naive", PROFILING_POST, counters=measured)
    beside = book.steps.set_index("step")["kernel"]
    assert list(book.steps["step"]) == ["scores", "scale", "copy", "mask", "softmax", "output"]
    assert beside["copy"] == "" and all(beside.drop("copy"))
    assert "nvjet" in beside["scores"] and "fill" in beside["mask"]
    whole = 2 * PROFILING_POST.score_bytes()
    assert f"copy ({whole:,} bytes" in book.provenance
    assert "Nsight Compute, recorded on NVIDIA H200" in book.provenance
    both = ["read_bytes", "written_bytes"]
    compared = formula("naive", PROFILING_POST)[both].to_numpy().sum() - whole
    total = book.frame.set_index("tensor").loc["total"]
    assert total["measured_bytes"] == 5 * 3_000
    assert total["measured_off_percent"] == pytest.approx((15_000 / compared - 1) * 100)
    assert book.frame["measured_bytes"].notna().sum() == 1  # counters know no tensors
    html = book._repr_html_()
    assert "NVIDIA H200" in html and "<script" not in html


@pytest.mark.parametrize(
    ("name", "unseen"),
    [
        ("naive", ["copy"]),
        ("in_place", []),
        ("sdpa_math", []),
        ("sdpa_flash", []),
        ("sdpa_efficient", []),
        ("sdpa_cudnn", []),
    ],
)
def test_every_step_finds_the_kernel_that_an_h200_ran_for_it(name, unseen) -> None:
    kernels = run(name, PROFILING_POST, source="recorded").kernels
    names = kernels.loc[kernels["kind"] == "kernel", "name"]
    shortened = [
        one.replace("at::native::", "at::").replace("(anonymous namespace)", "<unnamed>")
        for one in names
    ]
    steps = ledger(name, PROFILING_POST, counters=rows_of(shortened)).steps
    assert list(steps.loc[steps["kernel"] == "", "step"]) == unseen
    extra = steps.loc[steps["step"] == "(not in the formula)", "kernel"]
    assert all("fill" in one for one in extra)  # single numbers, which formulas leave out
    for one in steps.itertuples():
        assert "matmul" not in one.kernel or one.work == "matmul"


def test_the_ledger_hides_no_kernel_and_invents_none() -> None:
    rows = rows_of([NAIVE_KERNELS[0], "what_is_this", *NAIVE_KERNELS[3:]])
    book = ledger("naive", PROFILING_POST, counters=rows)
    assert (book.steps["step"] == "(not in the formula)").sum() == 1
    assert book.steps["measured_dram_read_bytes"].sum() == 4 * 1_000
    unmeasured = book.steps.loc[book.steps["kernel"] == "", "step"]
    assert list(unmeasured) == ["scale", "copy", "mask"]
    one = ledger("sdpa_flash", PROFILING_POST, counters=rows_of(["any_name"]))
    assert one.steps["kernel"].tolist() == ["any_name"] and not one.notes
    with pytest.raises(ValueError, match="missing"):
        ledger("naive", PROFILING_POST, counters=[{"kernel": "k"}])


@pytest.mark.gpu
def test_the_gpu_writes_the_scores_and_flash_does_not() -> None:
    try:
        naive = counters("naive", PROFILING_POST)
        flash = counters("sdpa_flash", PROFILING_POST)
    except CountersUnavailable as error:
        pytest.skip(str(error))
    whole = PROFILING_POST.score_bytes()
    cache = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    # What is still in the L2 cache when the kernel ends has not been written yet.
    assert whole - cache <= naive[0]["dram_written_bytes"] <= 1.05 * whole
    assert naive[0]["l2_bytes"] >= whole
    assert flash[0]["dram_written_bytes"] < whole / 8
    book = ledger("naive", PROFILING_POST, counters=naive)
    assert list(book.steps.loc[book.steps["kernel"] == "", "step"]) == ["copy"]
    assert "(not in the formula)" not in set(book.steps["step"])


@pytest.mark.gpu
def test_the_packages_own_kernel_and_the_math_backend_can_be_measured() -> None:
    try:
        tiled = counters("tiled", PROFILING_POST)
        math = counters("sdpa_math", PROFILING_POST)
    except CountersUnavailable as error:
        pytest.skip(str(error))
    assert len(tiled) == 1 and "tiled_attention" in tiled[0]["kernel"]
    assert tiled[0]["dram_read_bytes"] >= 0.9 * PROFILING_POST.min_bytes() * 3 / 4
    book = ledger("sdpa_math", PROFILING_POST, counters=math)
    assert not (book.steps["kernel"] == "").any()
