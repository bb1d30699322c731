"""A method of an object or class replaced for the duration of a `with` block, and put back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def replaced(owner: Any, name: str, method: Callable[..., Any]) -> Iterator[None]:
    """`owner.name` is `method` inside the block, and what it was before after it."""
    before = vars(owner).get(name)  # None for a method that stands in the class
    setattr(owner, name, method)
    try:
        yield
    finally:
        if before is None:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
