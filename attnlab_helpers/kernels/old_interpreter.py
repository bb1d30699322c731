"""A fault of Triton 3.6's interpreter with new NumPy, mended: a loop's bound that is a tensor."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np

MENDED_FROM = (3, 7)  # the interpreter of 3.6.0 fails, those of 3.7.0, 3.8.0 and 3.9.0 do not


def mend(triton: ModuleType) -> None:
    """Let kernels loop up to a number that they were given, with Triton 3.6 and NumPy >= 2.4.

    That interpreter makes the bound an int with int(array), for an array of one element; NumPy
    warned about that and refuses it now. Later versions squeeze the array first, and so does
    this. torch 2.11 brings Triton 3.6 along, so the two do meet. Nothing is changed elsewhere.
    """
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    if version >= MENDED_FROM or _one_element_is_a_number():
        return
    interpreter = importlib.import_module("triton.runtime.interpreter")
    patch = getattr(interpreter, "_patch_lang_tensor", None)
    if patch is None or getattr(patch, "mended", False):
        return

    def patch_and_mend(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.squeeze()))

    patch_and_mend.mended = True
    interpreter._patch_lang_tensor = patch_and_mend


def _one_element_is_a_number() -> bool:
    try:
        int(np.ones(1, dtype=np.int32))
    except TypeError:
        return False
    return True
