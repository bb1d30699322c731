"""Watching the launches of Triton's interpreter: their tensors and grids, and what is none."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..kernels.replacing import replaced
from ..quiet import OneSentence


class NotCountable(OneSentence, TypeError):
    """A kernel is launched in a way that cannot work; the text says how it does."""


@dataclass(frozen=True, eq=False)
class Launch:
    """One kernel launch: the sizes of its grid, and the tensors that it was given."""

    grid: tuple[int, int, int]
    tensors: tuple[torch.Tensor, ...]


@contextlib.contextmanager
def watching_launches(
    interpreter: Any, builder: Any, see: Callable[[Launch], None]
) -> Iterator[None]:
    """Call `see` before each kernel that is launched inside the block runs.

    NotCountable is raised for a kernel without a grid, for an argument that is a NumPy array, and
    for an autotuner that would have to choose.
    """
    given: list[tuple[torch.Tensor, ...]] = []  # of the launches that run, the innermost last
    run = interpreter.GridExecutor.__call__
    call = interpreter.InterpretedFunction.__call__
    set_grid_dim = builder.set_grid_dim

    @functools.wraps(run)
    def launch(self: Any, *args: Any, **kwargs: Any) -> Any:
        _check(self, args, kwargs)
        given.append(tuple(_tensors((*args, *kwargs.values()))))
        try:
            return run(self, *args, **kwargs)
        finally:
            given.pop()

    @functools.wraps(call)
    def call_inside_a_kernel(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not given:
            name = self.fn.__name__
            raise NotCountable(
                f"{name} is called without a grid. A kernel is launched with one: "
                f"{name}[(programs,)](...)."
            )
        return call(self, *args, **kwargs)

    def new_launch(*sizes: int) -> Any:
        see(Launch(tuple(int(size) for size in sizes), given[-1] if given else ()))
        return set_grid_dim(*sizes)

    with contextlib.ExitStack() as stack:
        stack.enter_context(replaced(interpreter.GridExecutor, "__call__", launch))
        stack.enter_context(
            replaced(interpreter.InterpretedFunction, "__call__", call_inside_a_kernel)
        )
        stack.enter_context(replaced(builder, "set_grid_dim", new_launch))
        stack.enter_context(_one_configuration())
        yield


@contextlib.contextmanager
def _one_configuration() -> Iterator[None]:
    """Refuses to choose among configurations: that takes times, which nobody has here."""
    from triton.runtime.autotuner import Autotuner

    run = Autotuner.run

    @functools.wraps(run)
    def run_the_only_one(self: Any, *args: Any, **kwargs: Any) -> Any:
        if len(self.configs) > 1:
            name = getattr(self.base_fn, "__name__", "the kernel")
            raise NotCountable(
                f"{name} is autotuned over {len(self.configs)} configurations, and choosing takes "
                "times, which the interpreter does not have. Take one config: "
                "@triton.autotune(configs=[triton.Config(...)], key=[...])."
            )
        return run(self, *args, **kwargs)

    with replaced(Autotuner, "run", run_the_only_one):
        yield


def _check(executor: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    name = executor.fn.__name__
    if not callable(executor.grid) and not isinstance(executor.grid, tuple):
        raise NotCountable(
            f"the grid of {name} is {executor.grid!r}; a tuple of one to three numbers is needed: "
            f"{name}[(programs,)](...)."
        )
    named = dict(zip(executor.arg_names, args, strict=False)) | kwargs
    for argument, value in named.items():
        if isinstance(value, np.ndarray):
            raise NotCountable(
                f"{argument} of {name} is a NumPy array; a kernel takes torch tensors: "
                f"torch.from_numpy({argument})."
            )


def _tensors(values: tuple[Any, ...]) -> Iterator[torch.Tensor]:
    """The tensors among a kernel's arguments: in tuples and behind descriptors, too."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, tuple):
            yield from _tensors(value)
        elif hasattr(value, "base"):  # a tensor descriptor, or a tensor seen as another dtype
            yield from _tensors((value.base,))
