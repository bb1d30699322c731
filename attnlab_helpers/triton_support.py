"""What Triton can do on this machine and on a card, found out without importing it."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Literal

import torch

# Compute capability from which tensor cores multiply bf16 (NVIDIA CUDA C++ Programming Guide,
# "Compute Capabilities"). torch.cuda.is_bf16_supported() says True on a T4 (7.5), by emulation.
BF16_TENSOR_CORES_FROM = (8, 0)
# Triton compiles from here on; on older cards LLVM ends in an assertion, and the process with it.
TRITON_FROM = (7, 5)

VARIABLE = "TRITON_INTERPRET"

TritonMode = Literal["compiled", "interpreter", "no GPU", "set too late", "missing"]

TRITON_MODES: dict[str, str] = {
    "compiled": "kernels are compiled for this GPU and run on it",
    "interpreter": "kernels run in Triton's interpreter on the CPU: right numbers, no times",
    "no GPU": "kernels compile to PTX and SASS for any GPU; here they run in Triton's interpreter"
    " on the CPU: right numbers, no times",
    "set too late": "TRITON_INTERPRET=1 was set after triton had been imported, where it has no"
    " effect: restart the kernel and set it in the first cell",
    "missing": "not installed (there is no wheel for macOS and Windows): cells that run a kernel"
    " say so, and everything else works",
}


def triton_mode(has_gpu: bool) -> TritonMode:
    """How Triton kernels run in this process. Does not import triton.

    The variable TRITON_INTERPRET is read when triton is imported: its library functions are
    made then, either for the compiler or for the interpreter. Which of the two they became is
    read off one of them.
    """
    asked = os.environ.get(VARIABLE, "").strip().lower() in {"1", "true", "on", "yes"}
    language = sys.modules.get("triton.language")
    if language is not None:
        made_for_interpreter = type(getattr(language, "cdiv", None)).__name__ == (
            "InterpretedFunction"
        )
        if asked and not made_for_interpreter:
            return "set too late"
        asked = made_for_interpreter
    elif not _triton_is_installed():
        return "missing"
    if asked:
        return "interpreter"
    return "compiled" if has_gpu else "no GPU"


def prefer_interpreter() -> None:
    """Without a GPU, have Triton interpret kernels, whoever is the first to import it.

    Triton reads its variable when it is imported, and torch imports it for reasons of its own.
    Does nothing with a GPU, where the variable is set, or where Triton is imported already.
    """
    if VARIABLE in os.environ or "triton.language" in sys.modules or torch.cuda.is_available():
        return
    os.environ[VARIABLE] = "1"


def _triton_is_installed() -> bool:
    try:
        return importlib.util.find_spec("triton") is not None
    except (ImportError, ValueError):  # something in this process hides it
        return False


def triton_refusal(dtype: torch.dtype, capability: tuple[int, int]) -> str | None:
    """Why a Triton kernel on `dtype` cannot run on a card of this capability, or None."""
    this_card = f"this card has {capability[0]}.{capability[1]}"
    if capability < TRITON_FROM:
        return f"Triton compiles for compute capability 7.5 and newer, and {this_card}"
    if dtype == torch.bfloat16 and capability < BF16_TENSOR_CORES_FROM:
        return (
            "Triton multiplies bfloat16 from compute capability 8.0 on, and "
            f"{this_card}: use float16"
        )
    return None
