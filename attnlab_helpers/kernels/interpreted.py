"""Noticing that a kernel ran in Triton's interpreter, whose times say nothing about any GPU."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from .replacing import replaced

INTERPRETER = "triton.runtime.interpreter"
LANGUAGE = f"{__package__}.language"


@contextlib.contextmanager
def noticing_interpreted_kernels() -> Iterator[Callable[[], bool]]:
    """Gives a function that tells whether the interpreter ran a kernel inside the block.

    Imports no Triton. Where `language` is loaded inside the block, a kernel wanted it, whose first
    launch came before anyone could look; torch loads Triton for reasons of its own.
    """
    module = sys.modules.get(INTERPRETER)
    before = LANGUAGE in sys.modules
    launched: list[bool] = []

    def ran() -> bool:
        language = None if before else sys.modules.get(LANGUAGE)
        return bool(launched) or (language is not None and language.mode() == "interpreter")

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
