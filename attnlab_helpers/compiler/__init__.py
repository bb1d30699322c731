"""The compiler lens: what a Triton or CUDA C++ kernel becomes, for any target, without a GPU.

from attnlab_helpers import compiler
compiled = compiler.compile_triton(add, x, y, out, n, BLOCK=1024, target="9.0")
print(compiled.stages["SASS"])
compiler.summary(compiled)
"""

from __future__ import annotations

from .compiled import Compiled
from .counts import KEYS
from .cuda_stages import compile_cuda
from .errors import CompileFailed, CompilerMissing
from .launching import launch
from .recorded import save_recorded
from .summary import summary
from .targets import TARGETS, Target, parse_target
from .triton_stages import compile_triton

__all__ = [
    "KEYS",
    "TARGETS",
    "CompileFailed",
    "Compiled",
    "CompilerMissing",
    "Target",
    "compile_cuda",
    "compile_triton",
    "launch",
    "parse_target",
    "save_recorded",
    "summary",
]
