"""Values as Python text that makes them again in another process."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Text:
    """An expression, and the modules that it needs."""

    text: str
    modules: frozenset[str] = frozenset()

    @property
    def imports(self) -> str:
        return "".join(f"import {name}\n" for name in sorted(self.modules))


def as_text(value: Any) -> Text | None:
    """The value as text; None for what is no plain value.

    Plain are numbers (infinite and NaN, too, and NumPy's), texts, None, dtypes of torch and of
    Triton, `tl.constexpr` of a plain value, and tuples, lists, sets and dictionaries of them.
    """
    if isinstance(value, np.bool_ | np.integer | np.floating):
        inner = as_text(value.item())
        return Text(f"numpy.{value.dtype.name}({inner.text})", frozenset({"numpy"}))
    if isinstance(value, float) and not math.isfinite(value):
        return Text(f'float("{value}")')
    if type(value) in (bool, int, float, str, bytes, type(None)):
        return Text(repr(value))
    if isinstance(value, torch.dtype):
        return Text(repr(value), frozenset({"torch"}))
    if type(value) in (tuple, list, set, dict):
        return _collection(value)
    if type(value).__module__.startswith("triton.language"):
        return _of_triton(value)
    return None


def _collection(value: tuple | list | set | dict) -> Text | None:
    members = [*value, *value.values()] if isinstance(value, dict) else list(value)
    texts = [as_text(one) for one in members]
    if any(one is None for one in texts):
        return None
    modules = frozenset[str]().union(*(one.modules for one in texts))
    words = [one.text for one in texts]
    if isinstance(value, dict):
        pairs = zip(words[: len(value)], words[len(value) :], strict=True)
        return Text("{" + ", ".join(f"{key}: {held}" for key, held in pairs) + "}", modules)
    listed = ", ".join(words)
    if isinstance(value, tuple):
        return Text(f"({listed},)" if words else "()", modules)
    return Text(f"[{listed}]" if isinstance(value, list) else f"set([{listed}])", modules)


def _of_triton(value: Any) -> Text | None:
    kind = type(value).__name__
    if kind == "constexpr":
        inner = as_text(value.value)
        if inner is None:
            return None
        modules = inner.modules | {"triton.language"}
        return Text(f"triton.language.constexpr({inner.text})", modules)
    if kind == "dtype":
        import triton.language as tl

        named = [name for name, one in vars(tl).items() if one is value]
        if named:
            return Text(f"triton.language.{named[0]}", frozenset({"triton.language"}))
    return None
