"""Triton as it can run on this machine: notebooks and kernels take `triton` and `tl` from here.

    from attnlab_helpers.kernels.language import triton, tl

With a CUDA GPU these are the real modules, and kernels are compiled. Without one, Triton's
interpreter runs them on the CPU: TRITON_INTERPRET=1 is set for this process, before Triton is
imported, because Triton reads it then. Where Triton is missing, or was imported too early, kernels
can still be defined; launching one raises an error that says what to do.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from ..triton_support import VARIABLE, TritonMode, triton_mode
from . import errors
from .old_interpreter import mend
from .stand_ins import Triton


def _load() -> tuple[TritonMode, Any]:
    has_gpu = torch.cuda.is_available()
    found = triton_mode(has_gpu)
    set_here = found == "no GPU" and VARIABLE not in os.environ
    if set_here and "triton.language" in sys.modules:
        # Setting it now would make half of Triton interpret and half compile.
        found = "set too late"
    elif set_here:
        os.environ[VARIABLE] = "1"
        found = "interpreter"
    if found == "missing":
        return found, Triton(errors.missing)
    try:
        module = importlib.import_module("triton")
        importlib.import_module("triton.language")
    except ImportError as error:
        if set_here:
            os.environ.pop(VARIABLE, None)
        reason = str(error) or type(error).__name__
        return "missing", Triton(lambda: errors.missing(reason))
    if found in ("set too late", "no GPU"):
        text = errors.RESTART if found == "set too late" else errors.NO_GPU
        return found, Triton(lambda: errors.KernelCannotRun(text), module)
    if found == "interpreter":
        mend(module)
    return found, module


def _writable(folder: Path) -> bool:
    """Whether files can be made in `folder`, which is made if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def cache_folder() -> Path | None:
    """Where compiled kernels are to be kept, if Triton's own place cannot be written; else None.

    Triton keeps them below the home folder and fails where that is read-only, another user's, or
    a link to nowhere (a container without a home, a shared one). TRITON_CACHE_DIR and TRITON_HOME
    are the reader's own choice and left alone.
    """
    if os.environ.get("TRITON_CACHE_DIR") or os.environ.get("TRITON_HOME"):
        return None
    if _writable(Path("~/.triton/cache").expanduser()):
        return None
    user = getattr(os, "getuid", lambda: 0)()
    return Path(tempfile.gettempdir()) / f"attnlab-triton-{user}"


_MODE, triton = _load()
if _MODE == "compiled" and (_folder := cache_folder()) is not None:
    os.environ["TRITON_CACHE_DIR"] = str(_folder)
tl = triton.language
_INTERPRETER = threading.RLock()
_THREAD = threading.local()


@contextlib.contextmanager
def where_it_runs(tensor: torch.Tensor) -> Iterator[None]:
    """The place for launches on this tensor: its GPU, or the interpreter, for this thread alone.

    Triton's interpreter keeps a program's place in the grid once for the whole process.
    """
    if not tensor.is_cuda:
        with _INTERPRETER:
            yield
        return
    with torch.cuda.device(tensor.device):
        if not hasattr(_THREAD, "has_context"):
            # A thread has no CUDA context before it first asks the CUDA runtime for something,
            # which PyTorch, with memory at hand, does not; and without one there is no descriptor.
            torch.cuda.mem_get_info(tensor.device)
            _THREAD.has_context = True
        yield


def mode() -> TritonMode:
    """How kernels run in this process: "compiled", "interpreter", "missing", "set too late".

    Or "no GPU", where the reader has turned the interpreter off. It is decided once, when this
    file is first imported: Triton cannot change its mind later.
    """
    return _MODE


@functools.lru_cache(maxsize=1)
def triton_version() -> tuple[int, ...]:
    """(major, minor) of the Triton that is used here."""
    return tuple(int(part) for part in triton.__version__.split(".")[:2])


def check_can_run() -> None:
    """Raise TritonMissing or KernelCannotRun where no kernel can run, before anything is made."""
    if mode() not in ("compiled", "interpreter"):
        triton.jit(check_can_run)()
