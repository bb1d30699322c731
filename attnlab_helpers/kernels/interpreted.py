"""Noticing that a kernel ran in Triton's interpreter, whose times say nothing about any GPU."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from .replacing import replaced

INTERPRETER = "triton.runtime.interpreter"


@contextlib.contextmanager
def noticing_interpreted_kernels() -> Iterator[Callable[[], bool]]:
    """Gives a function that tells whether the interpreter ran a kernel inside the block.

    Imports no Triton. A process that loads the interpreter inside the block is taken to have used
    it, because its first launch may have come before anyone could look.
    """
    module = sys.modules.get(INTERPRETER)
    launched: list[bool] = []

    def ran() -> bool:
        asked = os.environ.get("TRITON_INTERPRET", "0") not in ("", "0")
        return bool(launched) or (module is None and asked and INTERPRETER in sys.modules)

    # Not a public class of Triton. Where it is gone, nothing is noticed, and a test fails.
    executor = getattr(module, "GridExecutor", None)
    if executor is None:
        yield ran
        return
    run = executor.__call__

    @functools.wraps(run)
    def noticed(self: Any, *args: Any, **kwargs: Any) -> Any:
        launched.append(True)
        return run(self, *args, **kwargs)

    with replaced(executor, "__call__", noticed):
        yield ran
