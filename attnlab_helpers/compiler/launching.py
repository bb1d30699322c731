"""Launching a compiled CUDA C++ kernel on tensors, on the stream that torch works on."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import torch

from .compiled import Compiled

# CUDA C++ Programming Guide, "Compute Capabilities": the same for all targets here.
MAX_THREADS = 1024
MAX_GRID = (2**31 - 1, 65_535, 65_535)
MAX_BLOCK = (1024, 1024, 64)
# More dynamic shared memory than this has to be asked for, which `launch` does not do.
MAX_SHARED_BYTES = 48 * 1024


def launch(
    compiled: Compiled,
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    *arguments: Any,
    shared_bytes: int = 0,
) -> None:
    """Run a kernel from `compile_cuda` on this GPU, on torch's current stream; does not wait.

    grid: the number of blocks, block: the number of threads in one; a number or up to three
    (x, y, z). arguments: tensors of this GPU go as pointers to their first element, ints as
    int32, floats as float32, numpy's scalars as they are. shared_bytes: dynamic shared memory of
    a block, at most 48 KB. CUDA does not check the arguments against the kernel's parameters: a
    wrong type is read as it is.

    Raises ValueError for a kernel of another target, a grid or block out of range, or tensors
    elsewhere; TypeError for other arguments; RuntimeError without a GPU; ImportError without
    cuda-core.
    """
    if compiled.language != "CUDA C++":
        raise ValueError(
            f"{compiled.name} is a {compiled.language} kernel: launch it as kernel[grid](...)."
        )
    blocks = _three(grid, "grid", MAX_GRID)
    threads = _three(block, "block", MAX_BLOCK)
    if math.prod(threads) > MAX_THREADS:
        raise ValueError(
            f"a block of {' x '.join(map(str, threads))} has {math.prod(threads)} threads; at most "
            f"{MAX_THREADS} are possible. Take a smaller block and a larger grid."
        )
    if not 0 <= shared_bytes <= MAX_SHARED_BYTES - compiled.shared_bytes:
        raise ValueError(
            f"shared_bytes={shared_bytes} is out of range: with the {compiled.shared_bytes} bytes "
            f"that the kernel has itself, at most {MAX_SHARED_BYTES} are possible."
        )
    if not torch.cuda.is_available():
        raise RuntimeError(
            f"{compiled.name} was compiled, but there is no GPU here to run it on. Its stages and "
            "counts can be read without one."
        )
    device = torch.cuda.current_device()
    _check_target(compiled, device)
    plain = [_argument(value, place, device) for place, value in enumerate(arguments)]
    core = _core()
    core.Device(device).set_current()
    stream = _stream(torch.cuda.current_stream(device).cuda_stream, device)
    config = core.LaunchConfig(grid=blocks, block=threads, shmem_size=shared_bytes)
    core.launch(stream, config, _kernel(compiled.cubin, compiled.entry, device), *plain)


class _TorchStream:
    """torch's stream by the protocol that cuda.core asks for."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


def _three(size: int | tuple[int, ...], what: str, most: tuple[int, ...]) -> tuple[int, int, int]:
    sizes = tuple(size) if isinstance(size, tuple | list) else (size,)
    whole = all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in sizes)
    if not 1 <= len(sizes) <= 3 or not whole:
        raise TypeError(f"{what}={size!r}: one to three whole numbers are wanted, as 128 or (8, 8)")
    full = (*map(int, sizes), 1, 1)[:3]
    if any(not 1 <= one <= top for one, top in zip(full, most, strict=True)):
        raise ValueError(f"{what}={size!r} is out of range: from 1 to {most} for x, y, z.")
    return full


def _check_target(compiled: Compiled, device: int) -> None:
    here = ".".join(map(str, torch.cuda.get_device_capability(device)))
    if compiled.cubin is None:
        raise ValueError(
            f"{compiled.name} was read from a recording, which holds no machine code. Install "
            "NVRTC (pip install cuda-bindings nvidia-cuda-nvrtc) and compile it here."
        )
    if compiled.target != here:
        raise ValueError(
            f"{compiled.name} was compiled for {compiled.target}, and this GPU is {here}. Compile "
            "it with target=None, which is this GPU."
        )


def _argument(value: Any, place: int, device: int) -> Any:
    if isinstance(value, torch.Tensor):
        if value.device != torch.device("cuda", device):
            raise ValueError(
                f"argument {place} is a tensor on {value.device}; the kernel runs on "
                f"cuda:{device} and cannot reach it. Move it with .to('cuda:{device}')."
            )
        return value.data_ptr()  # cuda.core passes whole numbers as pointers
    if isinstance(value, np.generic):
        return value
    if isinstance(value, bool):
        return np.bool_(value)
    if isinstance(value, int):
        if not -(2**31) <= value < 2**31:
            raise ValueError(
                f"argument {place} is {value}, which is no int32. For a parameter of type "
                "long long give numpy.int64(...)."
            )
        return np.int32(value)
    if isinstance(value, float):
        return np.float32(value)
    raise TypeError(
        f"argument {place} is a {type(value).__name__}; tensors, ints, floats and numpy's scalars "
        "are possible."
    )


def _core() -> Any:
    try:
        import cuda.core as core

        if not hasattr(core, "LaunchConfig"):  # before 0.5
            import cuda.core.experimental as core
    except ImportError as error:
        raise ImportError(
            f"launching a CUDA C++ kernel needs the package cuda-core ({error}): "
            "pip install cuda-core."
        ) from error
    return core


@functools.lru_cache(maxsize=64)
def _stream(handle: int, device: int) -> Any:
    return _core().Device(device).create_stream(_TorchStream(handle))


@functools.lru_cache(maxsize=64)
def _kernel(cubin: bytes, entry: str, device: int) -> Any:
    """The loaded kernel. device: in the key, since a module is loaded for one context."""
    return _core().ObjectCode.from_cubin(cubin).get_kernel(entry)
