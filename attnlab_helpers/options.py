"""How attention's options are written, and which of them a function takes."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Callable
from typing import Any, Literal

Causal = bool | Literal["upper_left", "lower_right"]


def plain_causal(causal: Any) -> Causal:
    """False, True (upper-left, as PyTorch's `is_causal`) or "lower_right"; ValueError otherwise.

    Numbers are refused: 1 equals True in Python, and would pass for it here and there.
    """
    if isinstance(causal, str) and causal in ("upper_left", "lower_right"):
        return True if causal == "upper_left" else "lower_right"
    if type(causal).__name__ in ("bool", "bool_"):  # Python's and numpy's
        return bool(causal)
    raise ValueError(f"causal={causal!r} is not one of False, True, 'upper_left', 'lower_right'.")


def check_scale(scale: Any) -> None:
    """Raise ValueError unless scale is None or a finite number."""
    if scale is None:
        return
    number = isinstance(scale, numbers.Real) and not isinstance(scale, bool)  # NumPy's, too
    try:
        finite = number and math.isfinite(scale)
    except OverflowError:  # a whole number too large for a float
        finite = False
    if not finite:
        raise ValueError(f"scale must be a finite number, not {scale!r}.")


def keywords(function: Callable[..., Any]) -> set[str] | None:
    """The keywords a function takes; None when it takes any, or does not tell."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        return None
    return set(parameters)
