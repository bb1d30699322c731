"""CUDA C++ kernels: compiled by NVRTC, for any target, without a GPU or a driver."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from . import nvrtc, recorded, triton_internals
from .compiled import Compiled, fresh
from .cuda_names import entry_of, name_in, plain_name
from .errors import CompilerMissing, Complaint, refused
from .machine_code import machine_stage, user_shared_bytes
from .targets import Target, parse_target
from .tidying import tidy

FILE = "kernel.cu"
_SAID = re.compile(
    rf"^(?:{re.escape(FILE)}\((\d+)\): |At end of source: )((?:catastrophic )?error\b.*)"
)


_NO_HEADER = re.compile(r"(?:could not|cannot) open source file \"([^\"]+)\"")


def compile_cuda(
    source: str,
    target: object = None,
    *,
    name: str | None = None,
    options: str | Sequence[str] = (),
) -> Compiled:
    """What a CUDA C++ kernel becomes for `target`: PTX and SASS; no GPU and no driver needed.

    source: the text, with one or more `__global__` functions. name: which of them, when there are
    several ("inner::add", too); a template's instance as in C++, "add<4>". target: see
    `parse_target`; None is this machine's GPU. options: more options for NVRTC, one text or
    several, as "--use_fast_math" or ["-DBLOCK=256", "-DN=4"]. The headers cuda_fp16.h, cuda_bf16.h
    and mma.h can be included where an installed package has them.

    Raises CompileFailed with the reader's line, CompilerMissing where NVRTC is not installed (and
    nothing was recorded for this kernel) or too old for the target, ValueError for an unknown
    target or name, TypeError for what is no text.
    """
    goal = parse_target(target)
    options = _checked(source, name, options)
    key = recorded.key(
        {"language": "CUDA C++", "source": source, "name": name, "capability": goal.number}
        | {"options": list(options)}
    )
    try:
        version = nvrtc.version()
    except ImportError as error:
        wanted = name or name_in(source)
        found = recorded.find("CUDA C++", wanted, str(goal), key, nvrtc.why_missing(error))
        return replace(found, settings=_settings(options))
    compiled = fresh(_compile(source, goal, name, options, key, version))
    compiled = recorded.with_machine_code(compiled)
    recorded.save_if_asked(compiled)
    return compiled


def _checked(source: str, name: str | None, options: str | Sequence[str]) -> tuple[str, ...]:
    """The options as a tuple. Raises TypeError and ValueError for what cannot be compiled."""
    if not isinstance(source, str):
        hint = " Give it as text: source.decode()." if isinstance(source, bytes) else ""
        raise TypeError(
            f"the source has to be the text of CUDA C++ itself, not {type(source).__name__}.{hint}"
        )
    if "\0" in source:
        line = source[: source.index("\0")].count("\n") + 1
        raise ValueError(f"line {line} of the source holds a NUL character (\\0): take it out.")
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name={name!r}: the name of a kernel in the source is wanted, as text.")
    listed = isinstance(options, Iterable) and not isinstance(options, str | bytes)
    given = tuple(options) if listed else (options,)
    for one in given:
        if not isinstance(one, str):
            raise TypeError(f"options: {one!r} is no text, as '--use_fast_math' or '-DBLOCK=256'.")
        if re.match(r"-arch|--gpu-architecture", one):
            raise ValueError(f"options: {one!r} is said by target=, as in target='9.0'.")
    return given


def _settings(options: Sequence[str]) -> dict[str, str]:
    return {"options": " ".join(options)} if options else {}


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
    # Templates exist once they are named, and C++ knows what is in a namespace.
    expression = name if name and ("<" in name or "::" in name) else None
    result = nvrtc.compile_program(source, FILE, every, expression)
    if result.cubin is None:
        complaints = _complaints(result.log)
        if "__nv_name_map" in result.log and all(one.line is None for one in complaints):
            said = re.search(r"__nv_name_map\(\d+\): error: (.*)", result.log)
            raise ValueError(
                f"name={name!r} names no kernel of the source ({said[1] if said else 'NVRTC'}). "
                "A template's instance is written with values, as name='scale<4>'; a kernel in a "
                "namespace as name='inner::scale'."
            )
        raise refused(f"NVRTC {version}", FILE, source, complaints)
    entry = result.lowered or entry_of(result.ptx, source, name)
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
        settings=_settings(options),
    )


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
        text = "\n".join([found[2], *_hint(found[2])])
        complaints.append(Complaint(text, number, caret if number else None))
    return complaints[:5] or [Complaint(log.strip() or "the compiler gave no reason")]


def _hint(text: str) -> list[str]:
    missing = _NO_HEADER.search(text)
    if not missing:
        return []
    if missing[1].startswith(("cuda", "mma", "cooperative_groups", "nv/")):
        return ["CUDA's headers come with the triton wheel and with the CUDA Toolkit (CUDA_HOME)."]
    return [
        "NVRTC has no C++ standard library; printf, assert and the functions of <cmath> work "
        "without an include."
    ]


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
