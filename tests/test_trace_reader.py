"""The trace reader against sound traces, one small file for each kind of damage, and no trace."""

from __future__ import annotations

import gzip
import json
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from attnlab_helpers.profiling.traces.category import starts_gpu_work
from attnlab_helpers.profiling.traces.links import nest
from attnlab_helpers.profiling.traces.reader import parse_trace, read_trace
from attnlab_helpers.profiling.traces.times import nanoseconds
from attnlab_helpers.profiling.traces.trace import CATEGORIES, Note, Trace, TraceError

TRACES = Path(__file__).parent / "fixtures" / "traces"
# Nanoseconds at which most fixtures begin.
T = 5_215_707_946_000_000


def load(name: str) -> Trace:
    return read_trace(TRACES / name)


def kinds(trace: Trace) -> list[tuple[str, int]]:
    return [(note.kind, note.count) for note in trace.notes]


def named(table: pd.DataFrame, name: str) -> pd.Series:
    (row,) = np.flatnonzero((table["name"] == name).to_numpy())
    return table.iloc[row]


# Each file: events, GPU activities, launches, operators; the notes' kinds and counts.
CPU_ONLY = ("info", 0)
FILES = {
    "kineto_cuda.json": ((26, 6, 6, 6), []),
    # P24: both kinds load.
    "device_properties_empty.json": ((3, 1, 1, 1), []),
    "list_before_properties.json": ((3, 1, 1, 1), []),
    "no_cuda_events.json": ((2, 0, 0, 2), [CPU_ONLY]),
    "metadata_only.json": ((0, 0, 0, 0), [("info", 0)]),
    "no_events.json": ((0, 0, 0, 0), [("info", 0)]),
    # Times
    "times_zero_in_bulk.json": ((3, 1, 1, 1), [("dropped", 4)]),
    "times_all_zero.json": ((3, 3, 0, 0), [("info", 3), ("unlinked", 3)]),
    "times_as_strings.json": ((2, 0, 0, 2), [CPU_ONLY]),
    # P07
    "negative_duration.json": ((5, 2, 1, 2), [("clipped", 2), ("unlinked", 1)]),
    "absurd_duration.json": ((5, 2, 1, 2), [("clipped", 2), ("unlinked", 1), ("overlap", 1)]),
    "another_clock.json": ((3, 1, 1, 1), [("dropped", 1)]),
    # P06
    "overlap_on_stream.json": ((6, 4, 1, 1), [("unlinked", 3), ("overlap", 2)]),
    "operators_cross.json": ((3, 0, 0, 3), [("overlap", 1), CPU_ONLY]),
    # Text that is not JSON
    "unescaped_quotes.json": ((5, 1, 1, 3), [("repaired", 1)]),
    # P02
    "unescaped_backslashes.json": ((6, 1, 1, 1), [("repaired", 1), ("repaired", 1)]),
    # P03
    "control_characters.json": ((5, 1, 1, 3), [("repaired", 2), ("repaired", 2)]),
    # P04
    "bare_na.json": ((5, 1, 1, 3), [("dropped", 1), ("clipped", 1), ("repaired", 3)]),
    "missing_key_quote.json": ((2, 0, 0, 2), [("repaired", 2), CPU_ONLY]),
    "not_utf8.json": ((4, 1, 1, 2), [("repaired", 1)]),
    "half_character.json": ((4, 1, 1, 2), [("repaired", 1)]),
    "comma_missing.json": ((4, 1, 1, 2), []),
    "truncated.json": ((4, 1, 1, 2), [("dropped", 1)]),
    "truncated_between.json": ((4, 1, 1, 2), [("dropped", 1)]),
    "beyond_repair.json": ((4, 1, 1, 2), [("dropped", 1)]),
    # Sound JSON of an unusual kind
    "objects_in_args.json": ((5, 1, 1, 3), [("repaired", 1), ("repaired", 1)]),
    "odd_types.json": ((5, 2, 1, 1), [("clipped", 1)]),
    "pids_mixed.json": ((5, 1, 1, 1), []),
    "old_capitals.json": ((6, 3, 1, 1), [("unlinked", 2)]),
    # P26
    "list_root.json": ((3, 1, 1, 1), []),
    "list_root_autograd.json": ((2, 1, 0, 1), [("unlinked", 1)]),
    "list_root_open.json": ((3, 1, 1, 1), [("info", 1)]),
    "begin_end_pairs.json": ((4, 0, 0, 4), [("dropped", 2), ("info", 3), CPU_ONLY]),
    # Links and names
    "cuda_graph.json": ((7, 5, 1, 1), []),
    "kernel_without_launch.json": ((5, 3, 1, 1), [("unlinked", 2)]),
    "long_names.json": ((2, 2, 0, 0), [("unlinked", 2)]),
    "names_alike.json": ((2, 2, 0, 0), [("unlinked", 2)]),
    "html_in_names.json": ((1, 1, 0, 0), [("unlinked", 1)]),
}

REFUSED = {
    "empty.json": "is empty.*export_chrome_trace",
    "blank.json": "is empty",
    "not_json.json": "not a trace: it does not begin",
    "page.json": "HTML.*Download",
    "other_json.json": "no list \"traceEvents\".*'model'",
    "other_list.json": 'none of its 2 objects has a field "ph"',
    "cut_before_events.json": "cut off, or another kind of file",
    "all_damaged.json": "not one event in it could be read",
}


def test_every_fixture_is_tested() -> None:
    assert {file.name for file in TRACES.iterdir()} == set(FILES) | set(REFUSED)


@pytest.mark.parametrize("name", FILES)
def test_file(name: str) -> None:
    sizes, notes = FILES[name]
    trace = load(name)
    tables = (trace.events, trace.kernels, trace.launches, trace.operators)
    assert tuple(len(table) for table in tables) == sizes
    assert kinds(trace) == notes
    for table in (*tables, trace.annotations):
        assert table.index.equals(pd.RangeIndex(len(table)))
        assert table["start_ns"].is_monotonic_increasing
        for column in ("start_ns", "duration_ns"):
            assert table[column].dtype == np.int64
        assert (table["duration_ns"] >= 0).all()
    assert list(trace.events["category"].cat.categories) == list(CATEGORIES)
    assert trace.source == name
    assert trace.to_bytes() == (TRACES / name).read_bytes()
    for note in trace.notes:
        assert isinstance(note, Note) and note.text.isprintable() and len(note.text) < 200


@pytest.mark.parametrize("name", REFUSED)
def test_refusal(name: str) -> None:
    with pytest.raises(TraceError, match=re.compile(REFUSED[name], re.DOTALL)) as caught:
        load(name)
    assert str(caught.value).startswith(repr(name))
    assert str(TRACES) not in str(caught.value)


def test_columns() -> None:
    trace = load("kineto_cuda.json")
    assert list(trace.events) == [
        *("name", "category", "start_ns", "duration_ns", "pid", "tid", "correlation")
    ]
    assert list(trace.kernels) == [
        *("name", "kind", "start_ns", "duration_ns", "device", "stream", "correlation"),
        *("grid", "block", "registers", "shared_bytes", "occupancy_percent", "bytes"),
        *("launch", "operator"),
    ]
    assert list(trace.launches) == [
        *("name", "start_ns", "duration_ns", "pid", "tid", "correlation", "activities", "operator")
    ]
    assert list(trace.operators) == [
        *("name", "start_ns", "duration_ns", "self_ns", "pid", "tid", "depth", "parent"),
        *("device_ns", "self_device_ns"),
    ]
    assert list(trace.annotations) == ["name", "start_ns", "duration_ns", "pid", "tid"]
    for table in (trace.kernels, trace.launches, trace.operators):
        assert {str(kind) for kind in table.dtypes} <= {"int64", "float64", "str", "object"}
    empty = load("no_events.json")
    for table in ("events", "kernels", "launches", "operators", "annotations"):
        assert list(getattr(empty, table)) == list(getattr(trace, table))
        assert (getattr(empty, table).dtypes == getattr(trace, table).dtypes).all()


def test_details_of_a_kernel() -> None:
    trace = load("kineto_cuda.json")
    copy, fill, memset = (trace.kernels.iloc[row] for row in range(3))
    assert "direct_copy_kernel_cuda" in copy["name"] and copy["kind"] == "kernel"
    assert (copy["start_ns"], copy["duration_ns"]) == (T + 110_000, 20_500)
    assert (copy["device"], copy["stream"], copy["correlation"]) == (0, 7, 110)
    assert (copy["grid"], copy["block"]) == ("64x8x1", "128x1x1")
    assert (copy["registers"], copy["shared_bytes"], copy["bytes"]) == (32, 49152, -1)
    assert copy["occupancy_percent"] == 38
    assert (memset["kind"], memset["bytes"], memset["grid"]) == ("memset", 33554432, "")
    assert memset["registers"] == -1 and np.isnan(memset["occupancy_percent"])
    assert trace.device_properties[0]["name"] == "NVIDIA H200"
    # Triton launches appear as cuda_driver, ATen's as cuda_runtime: both are launches.
    assert trace.launches.iloc[fill["launch"]]["name"] == "cuLaunchKernelEx"
    assert trace.launches.iloc[copy["launch"]]["name"] == "cudaLaunchKernel"
    assert "cudaStreamSynchronize" not in set(trace.launches["name"])
    # The copy was launched by clone inside masked_fill; the memset by no operator.
    assert trace.operators.iloc[copy["operator"]]["name"] == "aten::clone"
    assert trace.operators.iloc[fill["operator"]]["name"] == "aten::masked_fill_"
    assert memset["operator"] == -1


def test_operator_tree() -> None:
    operators = load("kineto_cuda.json").operators.iloc[:3]
    assert list(operators["name"]) == ["aten::masked_fill", "aten::clone", "aten::masked_fill_"]
    assert list(operators["depth"]) == [0, 1, 1]
    assert list(operators["parent"]) == [-1, 0, 0]
    assert list(operators["duration_ns"]) == [40_000, 15_000, 18_000]
    assert list(operators["self_ns"]) == [7_000, 15_000, 18_000]
    # P09: parent and children share their GPU time; only the self column may be summed.
    assert list(operators["device_ns"]) == [30_750, 20_500, 10_250]
    assert list(operators["self_device_ns"]) == [0, 20_500, 10_250]


def test_within() -> None:
    trace = load("kineto_cuda.json")
    first, second = trace.within("attnlab call")
    assert trace.within("no such name") == []
    for part in (first, second):
        # The GPU ran after the span had ended on the CPU, and in part during the next one.
        assert list(part.kernels["kind"]) == ["kernel", "kernel", "memset"]
        assert len(part.launches) == 3 and len(part.operators) == 3
        assert list(part.annotations["name"]) == ["attnlab call"]
        assert set(part.events["category"]) == {
            *("user_annotation", "cpu_op", "cuda_runtime", "cuda_driver"),
            *("kernel", "gpu_memset", "cuda_sync"),
        }
        assert part.notes == ()
        assert part.raw is None
        with pytest.raises(ValueError, match="not kept"):
            part.to_bytes()
    assert list(first.kernels["correlation"]) == [110, 111, 112]
    assert list(second.kernels["correlation"]) == [210, 211, 212]
    whole = first.events["start_ns"].to_numpy()
    assert second.events["start_ns"].to_numpy() - whole == pytest.approx(100_500)
    assert (second.operators["self_device_ns"] == first.operators["self_device_ns"]).all()


def test_within_counts_what_no_call_can_claim() -> None:
    text = (TRACES / "kineto_cuda.json").read_text()
    # The launch of the first copy was never recorded.
    text = text.replace('"cbid": 211, "correlation": 110', '"cbid": 211')
    first, second = parse_trace(text.encode(), "live capture").within("attnlab call")
    assert [len(first.kernels), len(second.kernels)] == [2, 3]
    for part in (first, second):
        assert kinds(part) == [("unlinked", 1)]
        assert "'attnlab call'" in part.notes[0].text


def test_launches_without_a_gpu_side_are_told_and_not_called_cpu_only() -> None:
    events = json.loads((TRACES / "kineto_cuda.json").read_text())["traceEvents"]
    gpu = ("kernel", "gpu_memcpy", "gpu_memset")
    cut = [event for event in events if event.get("cat") not in gpu]
    trace = parse_trace(json.dumps(cut).encode(), "cut.json")
    calls = trace.unanswered_launches
    assert len(calls) == 6 and trace.launches.empty
    assert kinds(trace) == [("unlinked", 6)]
    assert trace.notes[0].text.startswith("6 launches, but no GPU activity on record: the file")
    assert load("kineto_cuda.json").unanswered_launches.empty
    part = trace.within("attnlab call")[0]
    assert kinds(part) == [("unlinked", 3)]


@pytest.mark.parametrize(
    ("call", "launches"),
    [
        *(("cudaLaunchKernel", True), ("cuLaunchKernelEx", True), ("cudaGraphLaunch", True)),
        *(("cudaMemcpyAsync", True), ("cuMemsetD8Async", True), ("hipModuleLaunchKernel", True)),
        *(("cudaDeviceSynchronize", False), ("cudaLaunchHostFunc", False), ("cudaMalloc", False)),
        *(("cudaGetDeviceCount", False), ("myLaunch", False)),
    ],
)
def test_which_calls_start_gpu_work(call: str, launches: bool) -> None:
    assert starts_gpu_work(call) is launches


@pytest.mark.parametrize("text", [b"[1,2,3]", b' [ "a", null] ', b'{"traceEvents": [[1], 2, 3.5]}'])
def test_a_list_of_something_else_is_not_called_cut_off(text: bytes) -> None:
    with pytest.raises(TraceError, match=r"'x.json' is JSON but no trace.*entries and no event"):
        parse_trace(text, "x.json")


def test_overlap_is_shown_not_dropped() -> None:
    kernels = load("overlap_on_stream.json").kernels
    assert list(kernels["name"]) == ["gemm_kernel", "second", "third", "elsewhere"]
    assert list(kernels["stream"]) == [7, 7, 7, 20]
    crossing = load("operators_cross.json").operators
    # b begins in a and ends after it: no child of a, and on a line of its own.
    assert list(crossing["parent"]) == [-1, -1, 1]
    assert list(crossing["depth"]) == [0, 1, 2]
    assert list(crossing["self_ns"]) == [20_000, 15_000, 5_000]


def test_unusable_durations_keep_their_start() -> None:
    for file, names in {
        "negative_duration.json": {"aten::conv2d": 50_000, "reversed": 60_000},
        "absurd_duration.json": {"counter_ran_back": 40_000, "aten::never_ended": 41_000},
        "bare_na.json": {"aten::z": 60_000},
    }.items():
        events = load(file).events
        for name, start in names.items():
            row = named(events, name)
            assert (row["start_ns"], row["duration_ns"]) == (T + start, 0)


def test_long_but_possible_durations_stay() -> None:
    hours = 3 * 3600 * 10**6
    events = [
        {"ph": "X", "cat": "user_annotation", "name": "epoch", "ts": 5, "dur": hours},
        {"ph": "X", "cat": "cpu_op", "name": "last", "ts": 5 + hours - 10, "dur": 5},
    ]
    trace = parse_trace(json.dumps(events).encode(), "long.json")
    assert list(trace.events["duration_ns"]) == [hours * 1000, 5000]
    assert kinds(trace) == [CPU_ONLY]


def test_mended_texts() -> None:
    names = set(load("unescaped_quotes.json").events["name"])
    assert 'load "weights", then "go"' in names
    names = set(load("unescaped_backslashes.json").events["name"])
    assert {r"C:\users\new\train.py(12): step", r"foo\bar\baz", r"C:\fine\path.py"} <= names
    names = set(load("control_characters.json").events["name"])
    assert {r"aten::a\x01b", r"tab\there"} <= names
    assert "caf\ufffd" in set(load("not_utf8.json").events["name"])
    assert r"half \ud83d" in set(load("half_character.json").events["name"])
    assert "aten::after" in set(load("beyond_repair.json").events["name"])


def test_no_number_is_made_up() -> None:
    assert "aten::y" not in set(load("bare_na.json").events["name"])
    assert "lost_kernel" not in set(load("times_zero_in_bulk.json").events["name"])
    odd = named(load("odd_types.json").kernels, "odd")
    assert (odd["stream"], odd["correlation"], odd["device"]) == (7, 10, 0)
    assert (odd["registers"], odd["bytes"], odd["grid"]) == (-1, -1, "")
    assert odd["occupancy_percent"] == 38.5


def test_old_names() -> None:
    trace = load("old_capitals.json")
    assert sorted(trace.events["category"].astype(str)) == [
        *("cpu_op", "cuda_runtime", "gpu_memcpy", "gpu_memset", "kernel", "other")
    ]
    assert list(trace.kernels["stream"]) == [7, 7, 7]
    assert list(trace.kernels["operator"]) == [0, -1, -1]
    autograd = load("list_root_autograd.json")
    assert list(autograd.events["category"]) == ["cpu_op", "kernel"]


def test_pids_are_text() -> None:
    trace = load("pids_mixed.json")
    # "4100" and 4100 are one process, so the kernel's launch lies inside the operator.
    assert list(trace.kernels["operator"]) == [0]
    assert set(trace.events["pid"]) == {"4100", "0", "Spans", "-1"}
    assert set(trace.events["tid"]) == {"4100", "7", "PyTorch Profiler", "0"}


def test_graph_launch() -> None:
    trace = load("cuda_graph.json")
    assert list(trace.launches["activities"]) == [5]
    assert list(trace.kernels["launch"]) == [0] * 5
    assert trace.operators["device_ns"].iloc[0] == 5 * 1_500


def test_full_names_are_kept() -> None:
    # P20: shortening is for pictures; the reader keeps all 2,000 characters.
    names = list(load("long_names.json").kernels["name"])
    assert [len(name) for name in names] == [2000, 2000] and names[0] != names[1]
    alike = list(load("names_alike.json").kernels["name"])
    assert alike[0][:60] == alike[1][:60] and alike[0] != alike[1]
    assert list(load("html_in_names.json").kernels["name"]) == [
        "</script><img src=x onerror=alert(1)>"
    ]


def test_pairs() -> None:
    operators = load("begin_end_pairs.json").operators
    assert list(operators["name"]) == ["outer", "inner", "elsewhere", "whole"]
    assert list(operators["start_ns"]) == [100_500, 110_250, 115_000, 150_000]
    assert list(operators["duration_ns"]) == [30_000, 10_500, 1_000, 2_000]
    assert list(operators["parent"]) == [-1, 0, -1, -1]


def test_repeated_correlation_takes_the_launch_before() -> None:
    def event(category: str, start: int) -> dict:
        args = {"correlation": 5, "stream": 7, "device": 0}
        named = {"ph": "X", "cat": category, "name": category, "pid": 1, "tid": 1}
        return {**named, "ts": start, "dur": 2, "args": args}

    events = [event("cuda_runtime", at) for at in (10, 50)] + [event("kernel", 20)]
    events += [event("kernel", 60), event("kernel", 3)]
    trace = parse_trace(json.dumps(events).encode(), "two captures")
    assert list(trace.kernels["start_ns"]) == [3000, 20000, 60000]
    assert list(trace.kernels["launch"]) == [0, 0, 1]
    (note,) = trace.notes
    assert (note.kind, note.count) == ("info", 1) and "7,000 ns" in note.text


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        # A float would give 1718000000000123392 for the first.
        ([b"1718000000000123.456", b"0.001"], [1718000000000123456, 1]),
        ([b"1718000000000123", b"-5"], [1718000000000123000, -5000]),
        ([b'"1718000000000123.456"', b"2"], [1718000000000123456, 2000]),
        ([b"1.5e3", b"1E-3", b"-0.250"], [1500000, 1, -250]),
        ([b"0.1234", b"0.0005", b"0.0015"], [123, 0, 2]),
        ([b"1e60", b"-99999999999999999999"], [2**63 - 1, -(2**63) + 1]),
        ([], []),
    ],
)
def test_times_are_exact(texts: list[bytes], expected: list[int]) -> None:
    values, readable = nanoseconds(texts)
    assert values.tolist() == expected and readable.all()


@pytest.mark.parametrize("text", [b"", b"null", b"N/A", b'"soon"', b"[1]", b"true", b"1,5"])
def test_times_that_are_none(text: bytes) -> None:
    values, readable = nanoseconds([text, b"1.000"])
    assert readable.tolist() == [False, True] and values[1] == 1000


def test_nesting_against_the_plain_rule() -> None:
    """Depth, parent and self time of random spans, against their definitions, one by one."""
    chance = random.Random(0)
    for _ in range(60):
        count = chance.randrange(1, 30)
        spans = sorted(
            (
                (chance.randrange(40), chance.randrange(1, 25), chance.randrange(2))
                for _ in range(count)
            ),
            key=lambda span: (span[0], -span[1]),
        )
        start, duration, thread = (np.array(column) for column in zip(*spans, strict=True))
        end = start + duration
        got = nest(start, duration, thread)
        for row in range(count):
            around = [
                other
                for other in range(row)
                if thread[other] == thread[row]
                and start[other] <= start[row]
                and end[row] <= end[other]
            ]
            assert got.parent[row] == (around[-1] if around else -1)
            inside = set()
            for child in np.flatnonzero(got.parent == row):
                inside |= set(range(start[child], end[child]))
            assert got.self_ns[row] == duration[row] - len(inside)
            for other in range(row):
                if thread[other] == thread[row] and got.depth[other] == got.depth[row]:
                    assert end[other] <= start[row]


# How the bytes come


def test_gzip_whatever_the_name(tmp_path: Path) -> None:
    plain = (TRACES / "kineto_cuda.json").read_bytes()
    file = tmp_path / "called.json"
    half = len(plain) // 2
    for packed in (gzip.compress(plain), gzip.compress(plain[:half]) + gzip.compress(plain[half:])):
        file.write_bytes(packed)
        trace = read_trace(str(file))
        assert len(trace.events) == 26 and trace.notes == ()
        assert trace.to_bytes() == packed
    (tmp_path / "called.json.gz").write_bytes(plain)
    assert len(read_trace(tmp_path / "called.json.gz").events) == 26


def test_gzip_unfinished_or_damaged() -> None:
    plain = (TRACES / "kineto_cuda.json").read_bytes()
    packed = gzip.compress(plain)
    cut = parse_trace(packed[: len(packed) * 3 // 4], "cut.json.gz")
    assert 0 < len(cut.events) < 26
    assert [kind for kind, _ in kinds(cut)][:2] == ["dropped", "dropped"]
    assert "gzip" in cut.notes[0].text
    # Only the checksum at the end is missing: everything could be unpacked, and the note stays.
    assert len(parse_trace(packed[:-6], "cut.json.gz").events) == 26
    wrong = bytearray(packed)
    wrong[-6] ^= 0xFF
    assert kinds(parse_trace(bytes(wrong), "cut.json.gz"))[0][0] == "dropped"
    with pytest.raises(TraceError, match="gzip inside gzip"):
        parse_trace(gzip.compress(packed), "twice.gz")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_encodings(encoding: str) -> None:
    text = (TRACES / "kineto_cuda.json").read_text().replace("aten::clone", "aten::clone \u2192")
    trace = parse_trace(text.encode(encoding), "encoded.json")
    assert len(trace.events) == 26 and trace.notes == ()
    assert "aten::clone \u2192" in set(trace.events["name"])


def test_a_bomb_stops_at_the_limit(tmp_path: Path) -> None:
    event = b'{"ph": "X", "name": "a", "ts": 1, "dur": 1},'
    bomb = gzip.compress(b"[" + event * 400_000)
    assert len(bomb) < 100_000
    with pytest.raises(TraceError, match=r"more than 1 MiB.*max_bytes"):
        parse_trace(bomb, "bomb.json.gz", max_bytes=2**20)
    file = tmp_path / "large.json"
    file.write_bytes(b"[" + event * 40_000)
    with pytest.raises(TraceError, match=r"'large.json' holds more than 1 MiB.*schedule"):
        read_trace(file, max_bytes=2**20)
    assert len(read_trace(file, max_bytes=2**22).events) == 40_000


def test_a_sparse_file_of_3_gigabytes_is_refused_at_once(tmp_path: Path) -> None:
    # P18
    file = tmp_path / "huge.json"
    with file.open("wb") as out:
        out.write(b'{"traceEvents": [')
        out.truncate(3 * 2**30)
    with pytest.raises(TraceError, match=r"more than 2,048 MiB"):
        read_trace(file)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"no file 'a.json'.*no .json or .json.gz file"):
        read_trace(tmp_path / "a.json")
    (tmp_path / "b.json.gz").write_bytes(b"")
    with pytest.raises(TraceError, match=r"no file 'a.json'.*b.json.gz"):
        read_trace(tmp_path / "a.json")
    with pytest.raises(TraceError, match=r"is a folder.*b.json.gz"):
        read_trace(tmp_path)
    with pytest.raises(TraceError, match=r"Nor is there a folder 'nowhere'"):
        read_trace(tmp_path / "nowhere" / "a.json")
    assert issubclass(TraceError, ValueError)


def test_large_inputs_are_not_kept() -> None:
    event = b'{"ph": "X", "name": "a", "cat": "cpu_op", "ts": 1.000, "dur": 1.000},\n'
    data = b"[" + event * (9 * 2**20 // len(event)) + event[:-2] + b"]"
    trace = parse_trace(data, "nine megabytes")
    assert trace.raw is None and len(trace.events) == 9 * 2**20 // len(event) + 1


def test_windows_join_without_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the window, however the blocks fall: the same events come out."""
    from attnlab_helpers.profiling.traces import source, stream

    for name in ("kineto_cuda.json", "objects_in_args.json", "bare_na.json", "list_root_open.json"):
        whole = load(name)
        for window in (64, 333, 1024):
            monkeypatch.setattr(stream, "WINDOW", window)
            monkeypatch.setattr(source, "BLOCK", window // 3)
            part = load(name)
            pd.testing.assert_frame_equal(part.events, whole.events)
            assert part.notes == whole.notes
        monkeypatch.undo()


# Anything goes


def test_cut_anywhere() -> None:
    """A trace cut at any byte gives the events before the cut, or a refusal; never more."""
    data = (TRACES / "kineto_cuda.json").read_bytes()
    complete = load("kineto_cuda.json").events
    known = set(zip(complete["name"], complete["start_ns"], complete["duration_ns"], strict=True))
    first = data.index(b'"ph": "X"')
    found = []
    for cut in range(0, len(data) - 3, 97):
        try:
            events = parse_trace(data[:cut], "cut.json").events
        except TraceError:
            assert cut <= first
            continue
        assert (
            set(zip(events["name"], events["start_ns"], events["duration_ns"], strict=True))
            <= known
        )
        found.append(len(events))
    assert found[0] == 0 and found == sorted(found) and found[-1] >= 25


def test_any_damage_is_survived() -> None:
    """Bytes changed, lost or put in at random: at most a few events are lost, none invented."""
    data = (TRACES / "kineto_cuda.json").read_bytes()
    begin = data.index(b'"traceEvents": [') + 16
    chance = random.Random(7)
    lost = 0
    for _ in range(400):
        at = chance.randrange(begin, len(data) - 40)
        harm = chance.choice(
            [b"", b'"', b"\\", b"\x00", b"}", b"{", b"]", b",", b"\xff", b":", b"N"]
        )
        trace = parse_trace(data[:at] + harm + data[at + 1 :], "harmed.json")
        assert len(trace.events) <= 26
        assert (trace.operators["self_ns"] >= 0).all()
        repr(trace)
        lost += 26 - len(trace.events)
    assert lost < 200


def test_sound_event_before_junk() -> None:
    event = b'{"ph": "X", "name": "%d", "ts": 1.000, "dur": 1.000}'
    for junk in (b"}}}}", b"garbage", b'"', b": 5", b"\x00\x00"):
        text = b"[" + event % 1 + junk + b", " + event % 2 + b"]"
        trace = parse_trace(text, "junk.json")
        assert list(trace.events["name"]) == ["1", "2"], junk
        assert kinds(trace)[0] == ("dropped", 1)


def test_deep_nesting_is_no_crash() -> None:
    deep = b'{"ph": "X", "name": "deep", "ts": 1, "dur": 1, "args": ' + b"[" * 10**5
    with pytest.raises(TraceError):
        parse_trace(b"[" + deep, "deep.json")
    sound = b'{"ph": "X", "name": "sound", "ts": 2, "dur": 1}'
    trace = parse_trace(b"[" + deep + b"}, " + sound + b"]", "deep.json")
    assert list(trace.events["name"]) == ["sound"]
    assert kinds(trace)[0] == ("dropped", 1)


def test_reads_what_this_torch_writes(tmp_path: Path) -> None:
    """A capture made here and now, in a process of its own: Kineto writes to file descriptor 2."""
    file = tmp_path / "cpu.json.gz"
    program = f"""
import torch
from torch.profiler import ProfilerActivity, profile, record_function
a = torch.randn(64, 64, requires_grad=True)
with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True) as prof:
    for _ in range(2):
        with record_function("attnlab call"):
            (a @ a).softmax(-1).sum().backward()
prof.export_chrome_trace({str(file)!r})
"""
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=120)
    trace = read_trace(file)
    assert kinds(trace) == [CPU_ONLY]
    calls = trace.within("attnlab call")
    assert len(calls) == 2
    for call in calls:
        assert {"aten::mm", "aten::softmax", "aten::_softmax"} <= set(call.operators["name"])
        softmax = call.operators.index[call.operators["name"] == "aten::softmax"][0]
        inner = call.operators[call.operators["name"] == "aten::_softmax"].iloc[0]
        assert inner["parent"] == softmax and inner["depth"] == 1
    assert (trace.operators["self_ns"] >= 0).all()
