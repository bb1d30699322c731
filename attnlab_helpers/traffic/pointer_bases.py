"""Which tensor a pointer was made from: followed through the interpreter's pointer arithmetic.

An address says whose a byte is, as long as a lane takes part. Where a mask switches off all lanes,
the addresses point anywhere, often into the next tensor; then the pointer's origin decides.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from ..kernels.replacing import replaced

KEY = "attnlab_base"  # among the attributes that an interpreter's value carries


class Bases:
    """The address that each pointer began at, while `following` is entered."""

    def __init__(self) -> None:
        self._descriptors: list[int | None] = []

    def of(self, pointer: Any) -> int | None:
        """The first byte of the tensor that `pointer` came from; None if nobody knows."""
        found = pointer.attr.get(KEY)
        if found is not None:
            return found
        if self._descriptors:  # it computes its own pointers
            return self._descriptors[-1]
        return int(pointer.data.item()) if pointer.data.size == 1 else None

    @contextlib.contextmanager
    def following(self, builder: Any) -> Iterator[None]:
        """Watch everything that makes a pointer of another, and put it back after."""
        with contextlib.ExitStack() as stack:
            for name in dir(builder):
                method = getattr(builder, name)
                if name.startswith("create_") and callable(method):
                    stack.enter_context(replaced(builder, name, self._passing_on(method)))
            yield

    def _passing_on(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)  # with its signature: what counts may look at it
        def method(*args: Any, **kwargs: Any) -> Any:
            given = (*args, *kwargs.values())
            described = next((one.base for one in given if _is_pointer(_base(one))), None)
            if described is not None:
                self._descriptors.append(self.of(described))
            try:
                result = original(*args, **kwargs)
            finally:
                if described is not None:
                    self._descriptors.pop()
            if _is_pointer(result) and KEY not in result.attr:
                origin = next((self.of(one) for one in given if _is_pointer(one)), None)
                if origin is not None:
                    result.attr[KEY] = origin
            return result

        return method


def _base(value: Any) -> Any:
    """What a block pointer or a tensor descriptor points at; None for anything else."""
    return getattr(value, "base", None)


def _is_pointer(value: Any) -> bool:
    return hasattr(getattr(value, "dtype", None), "element_ty") and hasattr(value, "attr")
