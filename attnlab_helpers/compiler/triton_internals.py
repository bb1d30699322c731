"""All that is used of Triton and is not public, for triton 3.6 to 3.9; a release may move it.

It stands alone (no import from this package), because it runs in a process of its own. When a
new release fails here, `check()` says which part to look at.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path
from typing import Any

TESTED = ("3.6", "3.9")
# Stages as triton names them in `compiled.asm`, and here.
STAGES = {"ttir": "TTIR", "ttgir": "TTGIR", "llir": "LLVM IR", "ptx": "PTX"}
DIVISIBLE = [["tt.divisibility", 16]]


class Moved(RuntimeError):
    """A part of Triton is no longer where it was."""


def tool(name: str) -> Path | None:
    """A program of the triton wheel ("nvdisasm", "cuobjdump", "ptxas"); None if not there."""
    return _inside(Path("backends", "nvidia", "bin", name))


def headers() -> Path | None:
    """The folder with the CUDA headers (cuda_fp16.h, mma.h) in the triton wheel, if there."""
    return _inside(Path("backends", "nvidia", "include"))


def folder() -> Path | None:
    """Where triton is installed; None where it is not."""
    # Found without importing triton: it reads TRITON_INTERPRET when it is imported.
    try:
        spec = importlib.util.find_spec("triton")
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None


def _inside(part: Path) -> Path | None:
    base = folder()
    return base / part if base and (base / part).exists() else None


def version() -> str:
    """The version of the triton that is imported here."""
    return importlib.import_module("triton").__version__


def check() -> None:
    """Raise Moved if a part that is used here is missing in this release."""
    for module, name in (
        ("triton.compiler", "ASTSource"),
        ("triton.compiler", "CompilationError"),
        ("triton.backends.compiler", "GPUTarget"),
        ("triton.runtime.jit", "JITFunction"),
        ("triton.backends.nvidia.compiler", "CUDABackend"),
    ):
        try:
            getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise Moved(_moved(f"{module}.{name}")) from error


def _moved(what: str) -> str:
    return (
        f"triton {version()} moved {what}: look at triton_internals.py in attnlab_helpers/compiler "
        f"(written for triton {TESTED[0]} to {TESTED[1]})."
    )


def compile_function(
    function: Any,
    values: dict[str, dict[str, Any]],
    capability: int,
    options: dict[str, Any],
) -> Any:
    """Compile a JITFunction. values: for each parameter {"constant": value} or {"type": ...,
    "divisible": ..., "one": ...}. Returns what triton returns, with `.asm` and `.metadata`.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature, constants, attributes = {}, {}, {}
    for place, parameter in enumerate(function.params):
        value = values[parameter.name]
        if "constant" in value:
            signature[parameter.name] = "constexpr"
            constants[(place,)] = value["constant"]
            continue
        kind = parameter.annotation_type or value["type"]
        # As triton's launcher: floats and truth values are not specialised.
        plain = parameter.do_not_specialize or kind == "u1" or kind.startswith(("fp", "bf"))
        if value["one"] and not plain:
            signature[parameter.name] = "constexpr"
            constants[(place,)] = 1
            continue
        signature[parameter.name] = kind
        aligned = value["divisible"] and not parameter.do_not_specialize_on_alignment
        if aligned and not plain:
            attributes[(place,)] = DIVISIBLE
    try:
        source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)
        target = GPUTarget("cuda", capability, 32)
    except TypeError as error:
        raise Moved(_moved("the arguments of ASTSource or GPUTarget")) from error
    return triton.compile(source, target=target, options=options)


_ASSEMBLY = re.compile(r"// begin inline asm\n[\s\S]*?// end inline asm")
_LOC = re.compile(r"(?m)^\s*\.loc\s.*\n")
_INLINED = re.compile(r"(?m)^\s*\.loc\t\d+ \d+ \d+\s+// (.*@\[.*)$")


def repair_line_numbers(file: str) -> None:
    """Make PTX and machine code name the right lines of `file`, for the rest of this process."""
    from triton.backends.nvidia.compiler import CUDABackend

    original = getattr(CUDABackend, "make_ptx", None)
    if original is None:
        raise Moved(_moved("CUDABackend.make_ptx"))

    def make_ptx(self: Any, *arguments: Any, **named: Any) -> str:
        return repaired(original(self, *arguments, **named), file)

    CUDABackend.make_ptx = make_ptx


def repaired(ptx: str, file: str) -> str:
    """PTX with the right `.loc` lines; ptxas takes those of the machine code from them.

    Triton writes loads and stores as inline assembly, and the LLVM of triton 3.9 counts the
    source line up with every line of it: a load of line 6 would be shown at line 9. The line in
    front of the assembly is right, so the ones inside it are taken out. And that of triton 3.6
    says where something was inlined in a comment only, which ptxas does not read.
    """
    ptx = _ASSEMBLY.sub(lambda found: _LOC.sub("", found[0]), ptx)
    number = re.search(rf"(?m)^\s*\.file\s+(\d+) \".*\b{re.escape(file)}\"", ptx)

    def of_the_caller(found: re.Match[str]) -> str:
        place = re.search(rf"(?:^|\s){re.escape(file)}:(\d+):(\d+)", found[1])
        return f"\t.loc\t{number[1]} {place[1]} {place[2]}" if place else found[0]

    return _INLINED.sub(of_the_caller, ptx) if number else ptx


def stages_of(compiled: Any) -> dict[str, str]:
    """The stages as text, by the names used here. Raises Moved."""
    missing = [name for name in [*STAGES, "cubin"] if name not in compiled.asm]
    if missing:
        raise Moved(_moved(f"the stages {', '.join(missing)} of CompiledKernel.asm"))
    return {STAGES[name]: compiled.asm[name] for name in STAGES}


def text_of(function: Any) -> tuple[str, int]:
    """The text that triton parses for a JITFunction, and the line of the file it begins in."""
    begin = getattr(function, "def_file_line_number", None)  # from 3.7 on
    if begin is None:
        begin = function.starting_line_number
        for place, line in enumerate(function.raw_src):
            if line.strip().startswith("def "):
                begin += place
                break
    return function.src, begin
