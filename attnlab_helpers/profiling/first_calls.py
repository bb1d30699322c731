"""What the first calls of a process cost: one product, timed call by call in a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import torch

SIZE = 1024


def in_a_fresh_process(device: str, count: int) -> list[dict[str, Any]]:
    """Time `count` products of 1024 x 1024 matrices in a new Python process.

    Returns a row a call: call (from 1), duration_ns (wall clock, waited for). The matrices are
    on `device` ("cuda" or "cpu") before the first call, so the context exists by then. Raises
    RuntimeError with the child's last words when it fails.
    """
    command = [sys.executable, "-m", __name__, device, str(count)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if answer.returncode:
        last = answer.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise RuntimeError(f"the fresh process failed: {last[0]}")
    return json.loads(answer.stdout.splitlines()[-1])


def _time_calls(device: str, count: int) -> list[dict[str, Any]]:
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    x = torch.randn(SIZE, SIZE, dtype=dtype, device=device)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    wait()
    rows = []
    for call in range(1, count + 1):
        start = time.perf_counter_ns()
        x @ x
        wait()
        rows.append({"call": call, "duration_ns": time.perf_counter_ns() - start})
    return rows


if __name__ == "__main__":
    print(json.dumps(_time_calls(sys.argv[1], int(sys.argv[2]))))
