"""What the hardware's counters say: one call of an implementation under Nsight Compute."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import torch

from ..attention import IMPLEMENTATIONS
from ..problem import AttentionProblem
from ..quiet import OneSentence
from ..study import resolve_source
from .nsight_csv import METRICS, read_nsight_csv

CacheControl = Literal["all", "none"]
PACKAGE_FOLDER = Path(__file__).parents[2]
USUAL_PLACES = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-compute")
SUBJECTS = (*IMPLEMENTATIONS, "tiled")
# Words in ncu's output -> what they mean and what to do.
TROUBLES = {
    "ERR_NVGPUCTRPERM": "the driver lets only the administrator read the counters. Set the "
    "driver option NVreg_RestrictProfilingToAdminUsers=0, or start the container with "
    "--cap-add=SYS_ADMIN.",
    "driver resource was unavailable": "another profiler (DCGM, Nsight Systems, torch.profiler) "
    "holds the counters. Stop it and try again.",
    "InterprocessLockFailed": "another Nsight Compute on this machine holds the lock; wait for it, "
    "or remove its lock file if it is gone.",
    "LibraryNotLoaded": "Nsight Compute cannot load the driver's profiling library on this machine "
    "(some virtual machines and containers have none).",
    "No kernels were profiled": "no kernel was launched inside the profiled call.",
}


class CountersUnavailable(OneSentence, RuntimeError):
    """The GPU's counters cannot be read here; the text says why and what can be done."""


def counters(
    implementation: str,
    problem: AttentionProblem,
    *,
    cache_control: CacheControl = "all",
    seconds: float = 300.0,
) -> list[dict[str, Any]]:
    """The hardware's byte counters for one forward call: one row a kernel.

    Starts ``ncu`` on a process of its own, which warms up and then makes one call. Columns:
    kernel (its name), dram_read_bytes, dram_written_bytes, l2_bytes (all that went through the
    L2 cache: what the multiprocessors asked for, and what was filled in from DRAM for it),
    duration_ns (at the GPU's own clock, under the profiler: not a benchmark).
    implementation: a name from `attention.IMPLEMENTATIONS`, or "tiled".

    cache_control: Nsight Compute empties the caches before each kernel ("all", its default), so
    that each pays for all it reads. What a kernel leaves in L2 without writing it back, up to
    the size of that cache, is not in its counters. "none" leaves the caches alone and shows
    what one kernel finds of the last one's result. Copies and memsets are no kernels: Nsight
    Compute does not see them.

    Rows are plain values, so that ``measure`` can record them. Raises ValueError for an unknown
    name, and CountersUnavailable without a GPU or ncu, without the permission, or when another
    profiler is active.
    """
    if implementation not in SUBJECTS:
        raise ValueError(
            f"no implementation is called {implementation!r}. There are: {', '.join(SUBJECTS)}."
        )
    if cache_control not in ("all", "none"):
        raise ValueError(f"cache_control={cache_control!r} is not one of 'all', 'none'.")
    command = [
        str(nsight_compute()),
        *("--clock-control", "none", "--cache-control", cache_control),
        *("--profile-from-start", "off", "--metrics", ",".join(METRICS)),
        *("--csv", "--print-units", "base"),
        *(sys.executable, "-m", "attnlab_helpers.traffic.subject", implementation),
        json.dumps(asdict(problem)),
    ]
    paths = [str(PACKAGE_FOLDER), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with tempfile.TemporaryDirectory(prefix="attnlab") as folder:
        log = Path(folder) / "ncu.csv"
        try:
            done = subprocess.run(
                [command[0], "--log-file", str(log), *command[1:]],
                env=environment, capture_output=True, text=True, timeout=seconds,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise CountersUnavailable(
                f"Nsight Compute took longer than {seconds:g} s and was stopped. Try a smaller "
                "problem, or more seconds."
            ) from error
        except OSError as error:
            raise CountersUnavailable(f"{command[0]} cannot be started: {error}") from error
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    said = "\n".join([text, done.stdout, done.stderr])
    for words, meaning in TROUBLES.items():
        if words in said:
            raise CountersUnavailable(f"Nsight Compute measured nothing: {meaning}")
    try:
        rows = read_nsight_csv(text)
    except ValueError as error:
        last = [line for line in said.splitlines() if line.strip()][-3:]
        raise CountersUnavailable(
            f"Nsight Compute gave no table (exit status {done.returncode}): {' / '.join(last)}"
        ) from error
    if done.returncode:
        last = [line for line in done.stderr.splitlines() if line.strip()][-1:]
        raise CountersUnavailable(
            f"the measured call failed (exit status {done.returncode}): {' '.join(last)}"
        )
    return rows


def nsight_compute() -> Path:
    """Where Nsight Compute's ``ncu`` is; CountersUnavailable, with what to install, without it."""
    found = shutil.which("ncu")
    if found is None:
        places = os.pathsep.join(USUAL_PLACES)
        found = shutil.which("ncu", path=places)
    if found is None:
        raise CountersUnavailable(
            "Nsight Compute is not here: no `ncu` on PATH nor in "
            f"{' or '.join(USUAL_PLACES)}. It comes with the CUDA toolkit. Without it, the "
            "notebook shows what was recorded."
        )
    return Path(found)


def counters_source() -> Literal["live", "recorded"]:
    """Where counters can come from here: "live" only where they can really be read.

    For ``measure(..., source=counters_source())``: a GPU does not mean that its counters may be
    read, so a small call is tried; it takes some seconds. Without a GPU, "recorded".
    """
    if resolve_source("auto") == "recorded" or not torch.cuda.is_available():
        return "recorded"
    try:
        counters("naive", AttentionProblem(1, 1, 64, 32))
    except CountersUnavailable:
        return "recorded"
    return "live"
