"""Why a Triton kernel cannot run here: errors that are one sentence in a notebook."""

from __future__ import annotations

import platform

from ..quiet import OneSentence

AT_HAND = (
    "What this cell shows was recorded or is in the saved notebook; everything that needs no "
    "Triton works."
)
RESTART = (
    "Triton was imported before the first cell could choose its interpreter, so kernels cannot "
    "run in this process (torch.compile, for one, imports Triton). Restart the kernel and run the "
    "first cell first. In a script, set TRITON_INTERPRET=1 before Python starts, or import "
    "attnlab_helpers.kernels at its beginning."
)
NO_GPU = (
    "There is no CUDA GPU here, and TRITON_INTERPRET is set to a value that turns Triton's "
    "interpreter off. Unset it, restart the kernel, and kernels run in the interpreter on the CPU."
)


class TritonMissing(OneSentence, ImportError):
    """Triton is not installed, or cannot be imported; the text says what to do."""


class KernelCannotRun(OneSentence, RuntimeError):
    """Triton is here, but nothing in this process can run a kernel; the text says what to do."""


def missing(reason: str | None = None) -> TritonMissing:
    """The error for a machine without Triton. reason: what importing it said, if it is there."""
    if reason:
        what = f"Triton is installed but cannot be imported ({reason})."
    elif platform.system() == "Linux":
        what = "Triton is not installed here. Install it with: python -m pip install triton"
        what += ", then restart the kernel."
    else:
        what = f"Triton has no build for macOS and Windows, and this is {platform.system()}."
    return TritonMissing(f"{what} {AT_HAND}")
