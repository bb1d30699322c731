"""Whole numbers in arguments: Python's and numpy's, and nothing that only passes for one."""

from __future__ import annotations

import operator


def whole(value: object) -> int | None:
    """`value` as an int, or None where it is no whole number: True and 3.0 are none here."""
    if type(value) is int:
        return value
    if isinstance(value, bool) or "bool" in str(getattr(value, "dtype", "")):
        return None
    try:
        return operator.index(value)  # numpy's integers, and tensors of one integer
    except (TypeError, ValueError, RuntimeError):
        return None


def whole_number(name: str, value: object, low: int = 1) -> int:
    """`value` as an int; ValueError, which says `name`, unless it is whole and `low` or more."""
    number = whole(value)
    if number is None or number < low:
        raise ValueError(f"{name} must be a whole number of {low} or more, not {value!r}.")
    return number
