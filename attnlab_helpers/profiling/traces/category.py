"""Categories: what kind of thing an event is, in today's lowercase names."""

from __future__ import annotations

import re

# What the column `category` of a trace's events holds.
CATEGORIES = (
    "cpu_op",
    "user_annotation",
    "cuda_runtime",
    "cuda_driver",
    "python_function",
    "kernel",
    "gpu_memcpy",
    "gpu_memset",
    "gpu_user_annotation",
    "cuda_sync",
    "overhead",
    "other",
)

# The GPU's own work. A gpu_user_annotation spans kernels and would count their time again.
GPU_KINDS = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}

LAUNCH_CATEGORIES = ("cuda_runtime", "cuda_driver")

# Calls that put work on a GPU, CUDA's and HIP's: cudaLaunchKernel, cuLaunchKernelEx,
# cudaGraphLaunch, cudaMemcpyAsync, hipMemsetAsync, ...; a host function runs on the CPU.
_STARTS_GPU_WORK = re.compile(r"(?:cu|hip)\w*(?:Launch(?!HostFunc)|Memcpy|Memset)")

# Older Kineto wrote capitals and shorter words.
_OLD = {
    "operator": "cpu_op",
    "runtime": "cuda_runtime",
    "driver": "cuda_driver",
    "python": "python_function",
    "python function": "python_function",
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
}

# The profiler before Kineto wrote no category; its process names say as much.
_BY_PROCESS = {"CPU functions": "cpu_op", "CUDA functions": "kernel"}


def starts_gpu_work(call: str) -> bool:
    """Whether a runtime or driver call of this name is there to put work on a GPU."""
    return _STARTS_GPU_WORK.match(call) is not None


def category(written: str, process: int | str) -> str:
    """One of `CATEGORIES` for the `cat` and the `pid` of an event."""
    name = written.lower() if written else _BY_PROCESS.get(str(process), "other")
    name = _OLD.get(name, name)
    return name if name in CATEGORIES else "other"
