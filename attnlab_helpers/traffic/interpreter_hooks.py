"""Watching the loads and stores of Triton's interpreter, through its insides.

Triton has no public hook for this (its `knobs` know launches and compilations only), so the
methods through which every load and store goes are replaced on the interpreter's builder for the
duration of a `with` block, and put back. Whether a version of Triton still goes through them is
not believed but tried, on four numbers, each time. Two neighbours know other insides:
launch_hooks the launches, pointer_bases the pointer arithmetic.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from ..kernels.replacing import replaced
from ..quiet import OneSentence
from ..triton_support import triton_mode
from .launch_hooks import Launch, watching_launches
from .pointer_bases import Bases

KNOWN_TO_WORK = "3.6 to 3.9"
Kind = Literal["load", "store", "atomic"]
# Method of the builder -> what it does, and its parameter that holds the addresses. Unmasked loads
# and stores and tensor descriptors end in the first two (but a descriptor's atomics, which the
# interpreter does not run), and so do block pointers, where Triton still has them (not in 3.9).
METHODS: dict[str, tuple[Kind, str]] = {
    "create_masked_load": ("load", "ptrs"),
    "create_masked_store": ("store", "ptrs"),
    "create_atomic_rmw": ("atomic", "ptr"),
    "create_atomic_cas": ("atomic", "ptr"),
}


class CountingUnavailable(OneSentence, RuntimeError):
    """Loads and stores cannot be counted here; the text says why, and what can be done."""


@dataclass(frozen=True)
class Event:
    """One load, store or atomic instruction of one program.

    launch: the how many-th kernel launch, from 0. program: its three program ids. addresses:
    the first byte of each lane, uint64; mask: which lanes take part; item_bytes: of one lane.
    base: the first byte of the tensor that the pointer was made from, None if that got lost.
    """

    kind: Kind
    launch: int
    program: tuple[int, int, int]
    addresses: np.ndarray
    mask: np.ndarray
    item_bytes: int
    base: int | None = None


def require_interpreter() -> str:
    """Triton's version, where kernels run in the interpreter; CountingUnavailable elsewhere."""
    mode = triton_mode(torch.cuda.is_available())
    if mode == "missing":
        raise CountingUnavailable(
            "counting runs a kernel in Triton's interpreter, and Triton is not installed (it has "
            "no build for macOS and Windows). The formula needs no Triton."
        )
    if mode != "interpreter":
        raise CountingUnavailable(
            "counting runs a kernel in Triton's interpreter, but in this process kernels are "
            f"{'compiled for the GPU' if mode == 'compiled' else 'not interpreted'}. "
            "traffic.count_in_process(function, ...) runs a function of yours in a process of its "
            "own, with the interpreter; traffic.count_tiled(problem) does so for the package's "
            "kernel. Or set TRITON_INTERPRET=1 before anything imports triton."
        )
    return importlib.metadata.version("triton")


@contextlib.contextmanager
def watching(
    see: Callable[[Event], None], see_launch: Callable[[Launch], None] = lambda launch: None
) -> Iterator[None]:
    """Call `see` with each memory instruction that a kernel runs inside the block.

    see_launch: called with each launch, before its instructions. Raises CountingUnavailable where
    kernels do not run in the interpreter, or where this version of Triton keeps its loads and
    stores elsewhere; `launch_hooks.NotCountable` for launches that cannot work.
    """
    version = require_interpreter()
    builder = _builder(version)
    from triton.runtime import interpreter

    launches = 0
    bases = Bases()

    def new_launch(launch: Launch) -> None:
        nonlocal launches
        launches += 1
        see_launch(launch)

    with contextlib.ExitStack() as stack:
        stack.enter_context(bases.following(builder))
        for name, (kind, pointers) in METHODS.items():
            original = getattr(builder, name)
            watched = _watched(original, kind, pointers, builder, lambda: launches - 1, see, bases)
            stack.enter_context(replaced(builder, name, watched))
        stack.enter_context(watching_launches(interpreter, builder, new_launch))
        stack.enter_context(_loops_up_to_a_tensor())
        yield


def _watched(
    original: Callable[..., Any],
    kind: Kind,
    pointers: str,
    builder: Any,
    launch: Callable[[], int],
    see: Callable[[Event], None],
    bases: Bases,
) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)  # with its signature: another `watching` may look at it
    def method(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        pointer, mask = given[pointers], given.get("mask")
        addresses = np.asarray(pointer.data, dtype=np.uint64)
        # Triton 3.6 gives the masks of descriptors as plain arrays.
        lanes = mask if mask is None or isinstance(mask, np.ndarray) else mask.data
        if lanes is not None and lanes.dtype != np.bool_:
            raise ValueError(
                f"the mask of a {kind} is {lanes.dtype}; it must be truth values, as a comparison "
                "gives: mask=places < n, or mask=m != 0."
            )
        taking_part = True if lanes is None else lanes
        see(
            Event(
                kind,
                launch(),
                tuple(getattr(builder, "grid_idx", (0, 0, 0))),
                addresses.ravel(),
                np.broadcast_to(taking_part, addresses.shape).ravel(),
                max(1, pointer.get_element_ty().primitive_bitwidth // 8),
                bases.of(pointer),
            )
        )
        return original(*args, **kwargs)

    return method


@contextlib.contextmanager
def _loops_up_to_a_tensor() -> Iterator[None]:
    """Lets range(0, n) run when n was computed in the kernel.

    Triton before 3.9 takes int() of an array with one number in one dimension. NumPy 2.5 refuses
    that (seen: triton 3.6, NumPy 2.5, "only 0-dimensional arrays can be converted").
    """
    from triton.runtime import interpreter

    patch = getattr(interpreter, "_patch_lang_tensor", None)
    if patch is None or list(inspect.signature(patch).parameters) != ["tensor", "scope"]:
        yield
        return

    def patch_and_mend(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.squeeze()))

    with replaced(interpreter, "_patch_lang_tensor", patch_and_mend):
        yield


def _builder(version: str) -> Any:
    try:
        from triton.runtime import autotuner, interpreter

        builder = interpreter.interpreter_builder
        fresh = type(builder)()  # so that nobody who watches already sees what is tried
        for name, (_, pointers) in METHODS.items():
            if pointers not in inspect.signature(getattr(fresh, name)).parameters:
                raise AttributeError(f"{name} has no parameter {pointers}")
        builder.set_grid_dim, interpreter.GridExecutor.__call__  # noqa: B018 - must be there
        interpreter.InterpretedFunction.__call__, autotuner.Autotuner.run  # noqa: B018
        seen = _try_on_four_numbers(interpreter, fresh)
        if seen != [("load", 4, 4), ("store", 4, 4)]:
            raise AttributeError(f"a load and a store of four numbers were seen as {seen}")
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise CountingUnavailable(
            f"counting needs Triton's interpreter as it is in versions {KNOWN_TO_WORK}; triton "
            f"{version} has moved what is counted ({error}). Install one of those versions, or "
            "use the formula."
        ) from error
    return builder


def _try_on_four_numbers(interpreter: Any, builder: Any) -> list[tuple[str, int, int]]:
    """What watching sees of one load and one store, as (kind, lanes, bytes of a lane)."""
    import triton.language as tl

    numbers = np.arange(4, dtype=np.int32)
    addresses = numbers.ctypes.data + 4 * np.arange(4, dtype=np.uint64)
    pointers = interpreter.TensorHandle(addresses.astype(np.uint64), tl.pointer_type(tl.int32))
    seen: list[tuple[str, int, int]] = []

    def see(event: Event) -> None:
        seen.append((event.kind, int(event.mask.sum()), event.item_bytes))

    with contextlib.ExitStack() as stack:
        for name, (kind, parameter) in METHODS.items():
            original = getattr(builder, name)
            watched = _watched(original, kind, parameter, builder, lambda: 0, see, Bases())
            stack.enter_context(replaced(builder, name, watched))
        loaded = _call(builder.create_load, pointers)
        _call(builder.create_store, pointers, loaded)
    return seen


def _call(method: Callable[..., Any], *args: Any) -> Any:
    """Call with None for the options that follow: versions differ in how many there are."""
    options = len(inspect.signature(method).parameters) - len(args)
    return method(*args, *[None] * options)
