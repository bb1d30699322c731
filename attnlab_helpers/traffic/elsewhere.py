"""Counting in a process of its own: the way where kernels are compiled, on a GPU machine."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import FunctionType
from typing import Any

import torch

from ..problem import AttentionProblem
from ..triton_support import triton_mode
from .counting import count
from .counts import Counts
from .formulas import tile_of
from .interpreter_hooks import CountingUnavailable, require_interpreter

PACKAGE_FOLDER = Path(__file__).parents[2]
CARRIED = "carried_by_attnlab"  # the module that holds a notebook's function


def count_tiled(
    problem: AttentionProblem,
    *,
    block_q: int | None = None,
    block_k: int | None = None,
    statistics: bool = False,
    programs: bool = False,
) -> Counts:
    """Count the bytes of the package's tiled attention (kernels/tiled_attention.py).

    Works on every machine with Triton: here where kernels are interpreted, in a process of its
    own where they are compiled. Bytes are of the problem's dtype, also where the interpreter
    computes bf16 in float32. The interpreter takes milliseconds a tile, so count one head of one
    sequence: every other one moves the same, and `ledger` multiplies. block_q, block_k: as in
    `formula`, None for what the kernel takes at this head dim and dtype. statistics: store the
    log-sum-exp, too. programs: see `count`. Raises ValueError for what is no tile, and
    CountingUnavailable without Triton.
    """
    block_q, block_k = tile_of("tiled", problem, block_q, block_k)
    if triton_mode(torch.cuda.is_available()) == "no GPU":
        # Chooses the interpreter for this process, if nothing has imported triton yet.
        importlib.import_module("attnlab_helpers.kernels.language")
    settings = {
        "problem": asdict(problem),
        "block_q": block_q,
        "block_k": block_k,
        "statistics": statistics,
        "programs": programs,
    }
    mode = triton_mode(torch.cuda.is_available())
    if mode in ("interpreter", "missing"):
        require_interpreter()
        return tiled_counts(**settings)
    return count_in_process(f"{__name__}:tiled_counts", **settings)


def tiled_counts(
    problem: dict[str, Any], block_q: int, block_k: int, statistics: bool, programs: bool
) -> Counts:
    """`count_tiled` from plain values, in a process that interprets kernels."""
    from ..kernels.tiled_attention import launch_tiled_attention  # imports triton

    stated = AttentionProblem(**problem)
    # The interpreter has no bfloat16; which numbers go round decides nothing about the bytes.
    computed = replace(stated, dtype="float32") if stated.dtype == "bfloat16" else stated
    q, k, v = computed.tensors("cpu")
    tensors = {"Q": q, "K": k, "V": v, "O": torch.empty_like(q)}
    if statistics:
        tensors["statistics"] = torch.empty(q.shape[:3])
    scale = stated.scale if stated.scale is not None else max(stated.head_dim, 1) ** -0.5

    def launch() -> None:
        launch_tiled_attention(
            q, k, v, tensors["O"], tensors.get("statistics"),
            scale=scale, causal=stated.causal, block_q=block_q, block_k=block_k,
        )  # fmt: skip

    counts = count(launch, tensors, element_bytes=stated, programs=programs)
    about = {"implementation": "tiled", "block_q": block_q, "block_k": block_k}
    return replace(counts, about=counts.about | about | {"statistics": statistics})


def count_in_process(
    function: Callable[..., Counts] | str, /, *, seconds: float = 600.0, **settings: Any
) -> Counts:
    """Run a function that counts in a process whose kernels are interpreted; its Counts.

    function: makes its tensors on the CPU, calls `count` and returns what that returns. Either
    "module:name" of something that can be imported, or a function of yours; of a notebook, its
    source is carried over together with the kernels and functions it uses from other cells.
    settings: its arguments, plain values. seconds: after which it is given up.

    Raises CountingUnavailable where Triton is missing, the function cannot be carried, or the
    process fails; the text has its last words. TypeError or ValueError for what is neither.
    """
    if triton_mode(torch.cuda.is_available()) == "missing":
        require_interpreter()
    with tempfile.TemporaryDirectory(prefix="attnlab") as folder:
        task = {"function": _importable(function, Path(folder)), "settings": settings}
        try:
            given = json.dumps(task)
        except TypeError as error:
            raise TypeError(
                f"settings must be plain values (numbers, texts, lists): {error}"
            ) from error
        paths = [folder, str(PACKAGE_FOLDER), *(path for path in sys.path if path)]
        environment = os.environ | {
            "TRITON_INTERPRET": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        }
        command = [sys.executable, "-m", "attnlab_helpers.traffic.counting_child"]
        try:
            done = subprocess.run(
                command, input=given, env=environment, capture_output=True, text=True,
                timeout=seconds,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise CountingUnavailable(
                f"counting took longer than {seconds:g} s and was stopped. The interpreter is "
                "slow: take a smaller problem."
            ) from error
    if done.returncode:
        words = done.stderr.strip().splitlines() or ["it said nothing"]
        raise CountingUnavailable(
            f"the counting process failed (exit status {done.returncode}): {words[-1]}"
        )
    if not done.stdout:
        raise CountingUnavailable(
            "the counting process ended before it had counted: the function must return Counts, "
            "and end no process."
        )
    return Counts.from_json(json.loads(done.stdout))


def _importable(function: object, folder: Path) -> str:
    """ "module:name" of the function, which may be a file that is written into `folder`."""
    from .carrying import module_text

    if isinstance(function, str):
        if not re.fullmatch(r"[\w.]+:\w+", function):
            raise ValueError(f"{function!r} is not 'module:name', as in 'my_kernels:count_mine'.")
        return function
    if not isinstance(function, FunctionType):
        kind = type(function).__name__
        raise TypeError(
            f"function must be a function or 'module:name', not a {kind}. For a method, a partial "
            "or a kernel write a function with `def` that counts it and returns the Counts."
        )
    if function.__name__ == "<lambda>":
        raise TypeError(
            "a lambda has no name by which another process could call it: define the function "
            "with `def`."
        )
    if function.__module__ != "__main__" and "<" not in function.__qualname__:
        return f"{function.__module__}:{function.__qualname__}"
    (folder / f"{CARRIED}.py").write_text(module_text(function), encoding="utf-8")
    return f"{CARRIED}:{function.__name__}"
