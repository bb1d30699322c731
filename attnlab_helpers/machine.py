"""What this machine can do, and where a result comes from. Decided here and nowhere else."""

from __future__ import annotations

import contextlib
import datetime
import functools
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd
import torch

from .missing_gpu import why_no_gpu
from .quiet import hold_c_stderr
from .triton_support import BF16_TENSOR_CORES_FROM, TRITON_MODES, TritonMode, triton_mode


@dataclass(frozen=True)
class Provenance:
    """Where a number comes from. It is printed with every figure and table.

    kind: "live" (measured now on `device`), "interpreter" (Triton's interpreter: right numbers,
    no times) or "recorded" (measured on `device` on `date`, replayed here).
    versions: what ran ("torch", "triton", "cuda", "driver", "cudnn", "python").
    """

    kind: Literal["live", "interpreter", "recorded"]
    device: str
    date: str
    versions: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.kind == "interpreter":
            return "interpreter (no timing)"
        torch_version = f", torch {self.versions['torch']}" if "torch" in self.versions else ""
        if self.kind == "live":
            return f"live on {self.device}{torch_version}"
        return f"recorded on {self.device}{torch_version}, {self.date}"

    def as_recorded(self) -> Provenance:
        """The same measurement, seen later from a recording."""
        return Provenance("recorded", self.device, self.date, dict(self.versions))

    def to_json(self) -> dict[str, Any]:
        """Plain data for a recording; `from_json` reads it back."""
        return {
            "kind": self.kind,
            "device": self.device,
            "date": self.date,
            "versions": dict(self.versions),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Provenance:
        return cls(data["kind"], data["device"], data["date"], dict(data["versions"]))


@dataclass(frozen=True)
class Machine:
    """What one machine can do. Make it with `this_machine()`.

    capability: CUDA compute capability, or None without a GPU.
    triton: "compiled" (kernels run on the GPU), "interpreter" (they run on the CPU, no times),
    "no GPU" (triton compiles, but nothing here can run the kernels), "set too late"
    (TRITON_INTERPRET was set after triton was imported) or "missing".
    profiler: "CPU and GPU", "CPU only", or "refused: " and the reason.
    gpu_problem: why an NVIDIA GPU that is here cannot be used; "" in every other case.
    """

    system: str
    gpu: str | None
    capability: tuple[int, int] | None
    gpu_memory: int | None
    multiprocessors: int | None
    l2_bytes: int | None
    triton: TritonMode
    profiler: str
    versions: Mapping[str, str]
    gpu_problem: str = ""

    @property
    def device(self) -> str:
        """The torch device that attention runs on here: "cuda" or "cpu"."""
        return "cuda" if self.gpu else "cpu"

    @property
    def bf16_tensor_cores(self) -> bool:
        """Whether tensor cores multiply bf16: by compute capability, not by what torch says."""
        return self.capability is not None and self.capability >= BF16_TENSOR_CORES_FROM

    def table(self) -> pd.DataFrame:
        """One row a question, for `00_start_here` and the reports' index."""
        gpu = "none: GPU results are replayed from recordings, and say so"
        if self.gpu_problem:
            gpu = f"{self.gpu_problem} Until then {gpu.removeprefix('none: ')}"
        tensor_cores = "no GPU"
        if self.gpu and self.capability:
            memory = f", {self.gpu_memory / 2**30:.0f} GiB" if self.gpu_memory else ""
            gpu = f"{self.gpu}, compute capability {'.'.join(map(str, self.capability))}{memory}"
            tensor_cores = (
                "yes"
                if self.bf16_tensor_cores
                else "no: torch emulates bf16 here, slowly; use float16 for speed"
            )
        rows = [
            ("system", self.system),
            ("GPU", gpu),
            ("bf16 tensor cores", tensor_cores),
            ("Triton", TRITON_MODES[self.triton]),
            ("torch.profiler", self.profiler),
            ("versions", ", ".join(f"{name} {text}" for name, text in self.versions.items())),
        ]
        return pd.DataFrame(rows, columns=["question", "this machine"])


def versions() -> dict[str, str]:
    """Versions that can change a result; what is not installed is left out."""
    found = {"python": platform.python_version(), "torch": torch.__version__.split("+")[0]}
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        found["triton"] = importlib.metadata.version("triton")
    if torch.version.cuda and torch.cuda.is_available():
        found["cuda"] = torch.version.cuda
        driver = _driver_version()
        if driver:
            found["driver"] = driver
        cudnn = torch.backends.cudnn.version()
        if cudnn:
            found["cudnn"] = cudnn_text(cudnn)
    return found


def cudnn_text(number: int) -> str:
    """cuDNN's version number as text: 91900 is 9.19.0 (from 9 on), 8907 is 8.9.7 (before)."""
    if number >= 10_000:
        return f"{number // 10_000}.{number // 100 % 100}.{number % 100}"
    return f"{number // 1_000}.{number // 100 % 10}.{number % 100}"


def provenance(device: str | torch.device) -> Provenance:
    """The provenance of something measured now on `device` ("cuda", "cuda:1" or "cpu")."""
    device = torch.device(device)
    name = "CPU"
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    elif device.type != "cpu":
        name = device.type.upper()
    found = versions()
    if device.type != "cuda":
        found = {name: text for name, text in found.items() if name in {"python", "torch"}}
    return Provenance("live", name, datetime.date.today().isoformat(), found)


def this_machine() -> Machine:
    """Look at this machine. On a GPU this makes a CUDA context and runs one tiny kernel."""
    has_gpu = torch.cuda.is_available()
    gpu = capability = memory = multiprocessors = l2_bytes = None
    if has_gpu:
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        gpu = properties.name
        capability = (properties.major, properties.minor)
        memory = properties.total_memory
        multiprocessors = properties.multi_processor_count
        l2_bytes = properties.L2_cache_size
    return Machine(
        system=f"{platform.system()}, {platform.machine()}, {os.cpu_count()} CPU cores",
        gpu=gpu,
        capability=capability,
        gpu_memory=memory,
        multiprocessors=multiprocessors,
        l2_bytes=l2_bytes,
        triton=triton_mode(has_gpu),
        profiler=_profiler_state(has_gpu),
        versions=versions(),
        gpu_problem="" if has_gpu else why_no_gpu(),
    )


def summary_table() -> pd.DataFrame:
    """`this_machine().table()`, for pages that need no more than that."""
    return this_machine().table()


def why_no_gpu_activity(messages: list[str]) -> str:
    """A sentence for a profile without GPU activities, from what the profiler printed."""
    refused = [line for line in messages if "INSUFFICIENT_PRIVILEGES" in line]
    if refused:
        return (
            "the driver lets only the administrator profile (CUPTI_ERROR_INSUFFICIENT_PRIVILEGES):"
            " set the driver option NVreg_RestrictProfilingToAdminUsers=0, or start the container"
            " with --cap-add=SYS_ADMIN"
        )
    cupti = [line for line in messages if "cupti" in line.lower()]
    if cupti:
        return f"CUPTI answered: {cupti[0].strip()[:200]}"
    return (
        "the profiler recorded no GPU activity and gave no reason (another profiler attached to"
        " this process, Nsight for example, is the usual one)"
    )


def _profiler_state(has_gpu: bool) -> str:
    from torch.profiler import ProfilerActivity, profile, supported_activities

    if not has_gpu:
        return "CPU only (no GPU here)"
    if ProfilerActivity.CUDA not in supported_activities():
        return "refused: this build of torch has no GPU profiler"
    if torch.autograd._profiler_enabled():
        return "busy: a profile is being taken right now"
    with hold_c_stderr() as held:
        tiny = torch.ones(1, device="cuda")
        torch.cuda.synchronize()
        activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
        # acc_events: one cycle is all there is; without it, torch warns about others.
        with profile(activities=activities, acc_events=True) as profiler:
            tiny.add_(1)
            torch.cuda.synchronize()
        seen = any(str(event.device_type).endswith("CUDA") for event in profiler.events())
    return "CPU and GPU" if seen else f"refused: {why_no_gpu_activity(held.lines)}"


@functools.cache
def _driver_version() -> str | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    query = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = answer.stdout.split()
    return lines[0] if lines else None
