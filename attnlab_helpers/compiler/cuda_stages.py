"""CUDA C++ kernels: compiled by NVRTC, for any target, without a GPU or a driver."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
from collections.abc import Sequence
from pathlib import Path

from . import nvrtc, recorded, triton_internals
from .compiled import Compiled
from .errors import CompilerMissing, Complaint, refused
from .machine_code import machine_stage, user_shared_bytes
from .targets import Target, parse_target
from .tidying import tidy

FILE = "kernel.cu"
_ENTRY = re.compile(r"(?m)^\s*(?:\.visible|\.weak)?\s*\.entry ([\w$]+)")
_SAID = re.compile(
    rf"^(?:{re.escape(FILE)}\((\d+)\): |At end of source: )((?:catastrophic )?error\b.*)"
)


def compile_cuda(
    source: str, target: object = None, *, name: str | None = None, options: Sequence[str] = ()
) -> Compiled:
    """What a CUDA C++ kernel becomes for `target`: PTX and SASS; no GPU and no driver needed.

    source: the text, with one or more `__global__` functions. name: which of them, when there are
    several; a template's instance as in C++, "add<4>". target: see `parse_target`; None is this
    machine's GPU. options: more options for NVRTC, as "--use_fast_math" or "-DBLOCK=256". The
    headers cuda_fp16.h, cuda_bf16.h and mma.h can be included where an installed package has them.

    Raises CompileFailed with the reader's line, CompilerMissing where NVRTC is not installed (and
    nothing was recorded for this kernel) or too old for the target, ValueError for an unknown
    target or name.
    """
    goal = parse_target(target)
    key = recorded.key(
        {"language": "CUDA C++", "source": source, "name": name, "capability": goal.number}
        | {"options": list(options)}
    )
    try:
        version = nvrtc.version()
    except ImportError as error:
        wanted = name or _name_in(source)
        return recorded.find("CUDA C++", wanted, str(goal), key, nvrtc.why_missing(error))
    compiled = _compile(source, goal, name, tuple(options), key, version)
    recorded.save_if_asked(compiled)
    return compiled


@functools.lru_cache(maxsize=128)
def _compile(
    source: str, target: Target, name: str | None, options: tuple[str, ...], key: str, version: str
) -> Compiled:
    if target.number not in nvrtc.supported():
        raise CompilerMissing(
            f"the installed NVRTC {version} cannot compile for {target} ({target.generation}); it "
            f"knows {', '.join(f'{n // 10}.{n % 10}' for n in nvrtc.supported())}. A fitting one: "
            "pip install -U nvidia-cuda-nvrtc cuda-bindings."
        )
    every = (
        f"--gpu-architecture={target.architecture}",
        "--generate-line-info",
        *(f"--include-path={folder}" for folder in _headers()),
        *options,
    )
    result = nvrtc.compile_program(source, FILE, every, name if name and "<" in name else None)
    if result.cubin is None:
        raise refused(f"NVRTC {version}", FILE, source, _complaints(result.log))
    entry = result.lowered or _entry(result.ptx, name)
    ptx, lines = tidy("PTX", result.ptx, FILE, entry)
    machine = machine_stage(result.cubin, entry, FILE, ptx)
    shared = user_shared_bytes(machine.counts, target.number)
    stages, maps = {"PTX": ptx}, {"PTX": lines}
    if machine.text is not None:
        stages["SASS"], maps["SASS"] = machine.text, machine.lines
    return Compiled(
        name=name or plain_name(entry),
        language="CUDA C++",
        target=str(target),
        source=source,
        stages=stages,
        provenance=f"compiled here by NVRTC {version} for compute capability {target}",
        entry=entry,
        counts=machine.counts | {"shared_bytes": shared},
        line_maps=maps,
        cubin=result.cubin,
        shared_bytes=shared,
        notes=(*machine.notes, *target.too_much(shared)),
        key=key,
    )


def _entry(ptx: str, name: str | None) -> str:
    entries = {entry: plain_name(entry) for entry in _ENTRY.findall(ptx)}
    if not entries:
        raise ValueError(
            "the source has no __global__ function (a template counts once it is used: give its "
            "instance as name='kernel<4>')."
        )
    fitting = [entry for entry, plain in entries.items() if name in (None, plain, entry)]
    if len(fitting) == 1:
        return fitting[0]
    possible = ", ".join(sorted(entries.values()))
    if name is None:
        raise ValueError(f"the source has several kernels; say which with name=: {possible}.")
    if not fitting:
        raise ValueError(f"the source has no kernel {name!r}; it has {possible}.")
    raise ValueError(f"several kernels are called {name}; give one's entry: {', '.join(fitting)}.")


def plain_name(entry: str) -> str:
    """The name in the source of a kernel by its name in the machine code: _Z3addPf is add."""
    nested = re.match(r"_ZN((?:\d+\w*)+)", entry)
    text = entry[3:] if nested else entry[2:]
    if not entry.startswith("_Z"):
        return entry
    name = entry
    while found := re.match(r"(\d+)", text):  # length, then the name itself
        start, length = len(found[1]), int(found[1])
        name, text = text[start : start + length], text[start + length :]
        if not nested:
            break
    return name


def _name_in(source: str) -> str:
    plain = re.sub(r"__launch_bounds__\s*\([^)]*\)", "", source)
    found = re.search(r"__global__\s+(?:\w+\s+)*?(\w+)\s*\(", plain)
    return found[1] if found else "kernel"


def _complaints(log: str) -> list[Complaint]:
    """The errors in NVRTC's log, each with its line and, from its caret, the column."""
    complaints = []
    lines = log.splitlines()
    for place, line in enumerate(lines):
        found = _SAID.match(line)
        if not found:
            continue
        # The log repeats the source line, two columns in, and a caret below it.
        caret = next(
            (len(below) - 2 for below in lines[place + 1 : place + 4] if below.strip() == "^"), None
        )
        number = int(found[1]) if found[1] else None
        complaints.append(Complaint(found[2], number, caret if number else None))
    return complaints[:5] or [Complaint(log.strip() or "the compiler gave no reason")]


def _headers() -> list[Path]:
    """Folders with CUDA's own headers: a toolkit, torch's CUDA packages, or the triton wheel."""
    folders = [
        Path(os.environ[name], "include")
        for name in ("CUDA_HOME", "CUDA_PATH")
        if os.environ.get(name)
    ]
    spec = importlib.util.find_spec("nvidia")
    for base in (spec.submodule_search_locations or ()) if spec else ():
        folders += sorted(Path(base).glob("*/include"), reverse=True)
    folders += [
        Path("/usr/local/cuda/include"),
        *([h] if (h := triton_internals.headers()) else []),
    ]
    return [folder for folder in folders if (folder / "cuda_fp16.h").is_file()][:1]
