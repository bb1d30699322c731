"""NVIDIA's runtime compiler, as the package cuda-bindings hands it on."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Result:
    """What NVRTC made of a program; without a cubin it refused, and the log says why."""

    log: str
    ptx: str = ""
    cubin: bytes | None = None
    lowered: str | None = None


@functools.cache
def version() -> str:
    """The version of NVRTC, "13.5". Raises ImportError where it is not installed."""
    try:
        major, minor = _call("nvrtcVersion")
    except RuntimeError as error:  # cuda-bindings is there, the library is not
        raise ImportError(str(error)) from error
    return f"{major}.{minor}"


@functools.cache
def supported() -> tuple[int, ...]:
    """The compute capabilities that this NVRTC compiles for: 75, 80, ..."""
    return tuple(_call("nvrtcGetSupportedArchs")[0])


def why_missing(error: ImportError) -> str:
    """A sentence for the import that failed."""
    return (
        f"NVRTC, NVIDIA's runtime compiler, cannot be used here ({error}). On Linux and Windows: "
        "pip install cuda-bindings nvidia-cuda-nvrtc (no GPU is needed); there is none for macOS."
    )


def compile_program(
    source: str, file: str, options: Sequence[str], expression: str | None = None
) -> Result:
    """Compile a program. expression: a C++ name (a template's instance) that is looked up."""
    program = _call("nvrtcCreateProgram", source.encode(), file.encode(), 0, [], [])[0]
    try:
        if expression:
            _call("nvrtcAddNameExpression", program, expression.encode())
        given = [option.encode() for option in options]
        status = _library().nvrtcCompileProgram(program, len(given), given)[0]
        log = _bytes(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
        if int(status):
            return Result(log)
        lowered = None
        if expression:
            lowered = _call("nvrtcGetLoweredName", program, expression.encode())[0].decode()
        ptx = _bytes(program, "PTX").rstrip(b"\0").decode(errors="replace")
        return Result(log, ptx, _bytes(program, "CUBIN"), lowered)
    finally:
        _library().nvrtcDestroyProgram(program)


def _bytes(program: Any, what: str) -> bytes:
    size = _call(f"nvrtcGet{what}Size", program)[0]
    # NVRTC writes into this object. Python keeps one object for all bytes of length 0 and 1 (an
    # empty log is one byte), and writing into that would change it for the whole process.
    room = bytes(size + 2)
    _call(f"nvrtcGet{what}", program, room)
    return room[:size]


def _call(name: str, *arguments: Any) -> tuple[Any, ...]:
    status, *values = getattr(_library(), name)(*arguments)
    if int(status):
        raise RuntimeError(f"{name} failed: {status.name}")
    return tuple(values)


def _library() -> Any:
    from cuda.bindings import nvrtc

    return nvrtc
