"""Counting in a process of its own: the way where kernels are compiled, on a GPU machine."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import FunctionType
from typing import Any

import torch

from ..machine import triton_mode
from ..problem import AttentionProblem
from .counting import count
from .counts import Counts
from .interpreter_hooks import CountingUnavailable, require_interpreter

PACKAGE_FOLDER = Path(__file__).parents[2]
CARRIED = "carried_by_attnlab"  # the module that holds a notebook's function


def count_tiled(
    problem: AttentionProblem,
    *,
    block_q: int = 64,
    block_k: int = 64,
    statistics: bool = False,
    programs: bool = False,
) -> Counts:
    """Count the bytes of the package's tiled attention (kernels/tiled_attention.py).

    Works on every machine with Triton: here where kernels are interpreted, in a process of its
    own where they are compiled. Bytes are of the problem's dtype, also where the interpreter
    computes bf16 in float32. The interpreter takes milliseconds a tile, so count one head of one
    sequence: every other one moves the same, and `ledger` multiplies. statistics: store the
    log-sum-exp, too. programs: see `count`. Raises CountingUnavailable without Triton.
    """
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

    return count(launch, tensors, element_bytes=stated, programs=programs)


def count_in_process(
    function: Callable[..., Counts] | str, /, *, seconds: float = 600.0, **settings: Any
) -> Counts:
    """Run a function that counts in a process whose kernels are interpreted; its Counts.

    function: makes its tensors on the CPU, calls `count` and returns what that returns. Either
    "module:name" of something that can be imported, or a function of yours; of a notebook, its
    source is carried over together with the kernels and functions it uses from other cells.
    settings: its arguments, plain values. seconds: after which it is given up.

    Raises CountingUnavailable where Triton is missing, the function cannot be carried, or the
    process fails; the text has its last words.
    """
    if triton_mode(torch.cuda.is_available()) == "missing":
        require_interpreter()
    task: dict[str, Any] = {"function": function, "settings": settings}
    with tempfile.TemporaryDirectory(prefix="attnlab") as folder:
        if not isinstance(function, str):
            task["function"] = _importable(function, Path(folder))
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
    return Counts.from_json(json.loads(done.stdout))


def _importable(function: Callable[..., Counts], folder: Path) -> str:
    from .carrying import module_text

    if not isinstance(function, FunctionType):
        raise TypeError(f"function must be a function or 'module:name', not {function!r}.")
    if function.__module__ != "__main__" and "<" not in function.__qualname__:
        return f"{function.__module__}:{function.__qualname__}"
    (folder / f"{CARRIED}.py").write_text(module_text(function), encoding="utf-8")
    return f"{CARRIED}:{function.__name__}"
