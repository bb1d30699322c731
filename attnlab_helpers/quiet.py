"""What a reader need not see: noise of C libraries, and the way through our package to an error.

Kineto (the library under torch.profiler) writes lines such as ``ERROR ... gpuGetDeviceCount``
straight to the process's file descriptor 2, where Python's ``sys.stderr`` cannot hold them back
and Jupyter shows them as red text.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


class OneSentence(Exception):
    """An error whose text says all; a notebook shows it without the traceback above it.

    For errors that are about the machine or the call itself, never about the reader's own code.
    """

    def _render_traceback_(self) -> list[str]:  # IPython asks for it
        return [f"{type(self).__name__}: {self}"]


@dataclass
class HeldOutput:
    """The lines that were written to file descriptor 2 while it was held."""

    lines: list[str] = field(default_factory=list)


@contextmanager
def hold_c_stderr() -> Iterator[HeldOutput]:
    """Collect what is written to file descriptor 2 inside the block, and put it back after.

    Python's own ``sys.stderr`` is untouched in Jupyter (it is not descriptor 2 there); in a
    plain interpreter it is held as well. The descriptor is restored after an exception too.
    """
    held = HeldOutput()
    try:
        saved = os.dup(2)
    except OSError:  # no descriptor 2 at all (some Windows services): nothing to hold
        yield held
        return
    with tempfile.TemporaryFile() as sink:
        os.dup2(sink.fileno(), 2)
        try:
            yield held
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            sink.seek(0)
            held.lines.extend(sink.read().decode("utf-8", "replace").splitlines())
