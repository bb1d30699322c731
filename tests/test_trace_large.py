"""A trace of 300 MB: read within 1.5 GB of memory, and faster than json.load reads it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

MEGABYTE = 10**6
SIZE = 300 * MEGABYTE

READ = """
from attnlab_helpers.profiling.traces.reader import read_trace
begin = time.perf_counter()
trace = read_trace(sys.argv[1])
seconds = time.perf_counter() - begin
answer = {
    "events": len(trace.events),
    "kernels": len(trace.kernels),
    "unlinked": int((trace.kernels["launch"] < 0).sum()),
    "operators": len(trace.operators),
    "deepest": int(trace.operators["depth"].max()),
    "device_ns": int(trace.operators.loc[trace.operators["depth"] == 0, "device_ns"].sum()),
    "kernel_ns": int(trace.kernels["duration_ns"].sum()),
    "last_start": int(trace.events["start_ns"].iloc[-1]),
    "notes": [note.kind for note in trace.notes],
}
"""
LOAD = """
begin = time.perf_counter()
with open(sys.argv[1]) as file:
    events = json.load(file)["traceEvents"]
seconds = time.perf_counter() - begin
answer = {"complete": sum(event["ph"] == "X" for event in events)}
"""
# Linux hands the parent's ru_maxrss on to its children; VmHWM is this program's own.
FRAME = """
import json, pathlib, re, resource, sys, time
{body}
kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
status = pathlib.Path("/proc/self/status")
if status.is_file():
    kibibytes = int(re.search(r"VmHWM:\\s*(\\d+)", status.read_text())[1])
print(json.dumps({{"seconds": seconds, "peak": kibibytes * 1024, **answer}}))
"""


def step(number: int) -> str:
    """One operator tree with its launch, kernel, flow and memory event, as Kineto prints them."""
    at, link = 5_215_707_946_000 + 50 * number, number + 1
    op = (
        '  {{\n    "ph": "X", "cat": "cpu_op", "name": "{}", "pid": 4100, "tid": 4100,\n'
        '    "ts": {}, "dur": {}\n    ,\n    "args": {{\n      "External id": {},'
        '"Record function id": 0, "Concrete Inputs": ["", "", ""], "Input type": '
        '["c10::BFloat16", "c10::BFloat16", "Scalar"], "Input Strides": [[65536, 64, 1], '
        '[65536, 64, 1], []], "Input Dims": [[128, 1024, 64], [128, 64, 1024], []], '
        '"Ev Idx": {}\n    }}\n  }},\n'
    )
    return (
        op.format("aten::linear", f"{at}.125", "30.250", link, number)
        + op.format("aten::addmm", f"{at + 2}.007", "25.001", link, number)
        + f'  {{\n    "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]",\n'
        f'    "pid": 4100, "tid": 4100, "ts": {at + 4}.000,\n    "args": {{\n'
        f'      "Total Reserved": 0, "Total Allocated": {link}, "Bytes": 1024\n    }}\n  }},\n'
        f'  {{\n    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4100,'
        f' "tid": 4100,\n    "ts": {at + 9}.500, "dur": 4.125\n    ,\n    "args": {{\n'
        f'      "External id": {link}, "cbid": 211, "correlation": {link}\n    }}\n  }},\n'
        f'  {{\n    "ph": "s", "id": {link}, "pid": 4100, "tid": 4100, "ts": {at + 9}.500,\n'
        f'    "cat": "ac2g", "name": "ac2g"\n  }},\n'
        f'  {{\n    "ph": "X", "cat": "kernel", "name": "nvjet_tst_128x256_64x4_2x1_v_bz_TNT",'
        f' "pid": 0, "tid": 7,\n    "ts": {at + 20}.250, "dur": 12.375\n    ,\n    "args": {{\n'
        f'      "External id": {link}, "queued": 0, "device": 0, "context": 1, "stream": 7,'
        f' "correlation": {link}, "registers per thread": 168, "shared memory": 213260,'
        f' "blocks per SM": 0.97, "warps per SM": 11.636364, "grid": [2, 64, 1],'
        f' "block": [384, 1, 1], "est. achieved occupancy %": 18\n    }}\n  }},\n'
        f'  {{\n    "ph": "f", "id": {link}, "pid": 0, "tid": 7, "ts": {at + 20}.250,\n'
        f'    "cat": "ac2g", "name": "ac2g", "bp": "e"\n  }}'
    )


def write_trace(path: Path) -> int:
    """Write about `SIZE` bytes; returns the number of steps."""
    steps = SIZE // (len(step(10**5)) + 2)
    with path.open("w") as file:
        file.write('{\n  "schemaVersion": 1,\n  "deviceProperties": [],\n  "traceEvents": [\n')
        for first in range(0, steps, 1000):
            last = min(first + 1000, steps)
            text = ",\n".join(step(number) for number in range(first, last))
            file.write(text + (",\n" if last < steps else "\n"))
        file.write('  ],"traceName": "large.json" }\n')
    return steps


def in_child(body: str, path: Path) -> dict:
    program = FRAME.format(body=body)
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_300_megabytes(tmp_path: Path) -> None:
    pytest.importorskip("resource", reason="peak memory is asked of a Unix system")
    if sys.platform == "darwin":
        pytest.skip("ru_maxrss has another unit here")
    path = tmp_path / "large.json"
    steps = write_trace(path)
    assert path.stat().st_size > 0.99 * SIZE
    loaded = in_child(LOAD, path)
    read = in_child(READ, path)
    for what, found in (("json.load", loaded), ("read_trace", read)):
        print(f"{what}: {found['seconds']:.1f} s, {found['peak'] / 10**9:.2f} GB")

    assert read["events"] == loaded["complete"] == 4 * steps
    assert read["kernels"] == steps and read["unlinked"] == 0
    assert read["operators"] == 2 * steps and read["deepest"] == 1
    assert read["device_ns"] == read["kernel_ns"] == 12_375 * steps
    assert read["last_start"] == (5_215_707_946_000 + 50 * (steps - 1) + 20) * 1000 + 250
    assert read["notes"] == ["info"]  # that it is large
    assert read["peak"] < 1.5 * 10**9
    assert read["seconds"] < loaded["seconds"]
