"""Triton kernels that the notebooks teach, and Triton itself on any machine.

`from attnlab_helpers.kernels import triton, tl` gives Triton as it can run here: compiled on a
GPU, in its interpreter without one, and stand-ins that say what is missing where there is none.
Nothing is imported before one of the names is asked for.
"""

from __future__ import annotations

import importlib
from typing import Any

_WHERE = {
    "triton": "language",
    "tl": "language",
    "mode": "language",
    "for_interpreter": "precision",
    "provenance": "precision",
}

__all__ = ["for_interpreter", "mode", "provenance", "tl", "triton"]


def __getattr__(name: str) -> Any:
    # Importing the package must neither import triton nor choose between GPU and interpreter.
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_WHERE[name]}", __name__), name)
