"""Launches that are asked for again: what Triton found out about their arguments is kept.

`kernel[grid](...)` looks at each of its arguments (its type, whether 16 divides it, whether it is
1), looks up the compiled kernel for them, and checks the descriptors. For a small attention call
that takes longer than the GPU does. All of it follows from the form of the tensors; another call
of the same form needs their addresses and nothing else.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .language import triton_version

# How a compiled kernel is asked for again is Triton's own affair, and may change: it has been
# compared with first calls with 3.6 to 3.9. With a later one every call is a first one.
TRITON_BELOW = (3, 10)
# Forms whose launches are kept. Texts of any length have many; a form takes a few kilobytes.
MOST_FORMS = 512


@dataclass(frozen=True)
class Launch:
    """What was launched: Triton's compiled kernel, the grid, and all of the kernel's arguments.

    compiled: None in the interpreter.
    """

    compiled: Any | None
    grid: tuple[int, int, int]
    arguments: tuple[Any, ...]


def launch(kernel: Any, programs: int, *arguments: Any, **options: Any) -> Launch:
    """kernel[(programs,)](*arguments, **options), and what was launched by it."""
    compiled = kernel[(programs,)](*arguments, **options)
    rest = (options[name] for name in kernel.arg_names[len(arguments) :])
    return Launch(compiled, (programs, 1, 1), (*arguments, *rest))


class Launches:
    """The launches of one form: the first time they are chosen, then they are asked for again."""

    def __init__(self) -> None:
        self._again: list[_Again] | None = None

    def run(
        self,
        tensors: Sequence[torch.Tensor],
        choose: Callable[..., Sequence[Launch]],
    ) -> None:
        """Launch on these tensors, `choose(*tensors)` the first time, which says what it did.

        The tensors are of the form that these launches are kept for. In the interpreter it is
        always the first time.
        """
        if self._again is not None:
            for again in self._again:
                again(tensors)
            return
        # Objects of their own: where q and k are one tensor, the next call's may be two.
        own = [tensor.detach() for tensor in tensors]
        chosen = choose(*own)
        if any(each.compiled is None for each in chosen) or triton_version() >= TRITON_BELOW:
            return
        # While a graph is captured, the choice is a narrower one: see `flash_hopper_launch`.
        capturing = tensors[0].is_cuda and torch.cuda.is_current_stream_capturing()
        if not capturing:
            self._again = [_Again(each, own) for each in chosen]


class _Again:
    """A launch with other tensors of the same form in their places."""

    def __init__(self, launched: Launch, tensors: Sequence[torch.Tensor]) -> None:
        self._launch = launched.compiled[launched.grid]
        self._arguments: list[Any] = list(launched.arguments)
        self._tensors: list[tuple[int, int]] = []  # place among the arguments, which tensor
        self._descriptors: list[tuple[int, int, Any]] = []
        for place, argument in enumerate(launched.arguments):
            if isinstance(argument, torch.Tensor):
                self._tensors.append((place, _which(argument, tensors)))
            elif hasattr(argument, "base"):
                which = _which(argument.base, tensors)
                self._descriptors.append((place, which, _of(None, argument)))
            else:
                continue
            self._arguments[place] = None  # the memory is the caller's

    def __call__(self, tensors: Sequence[torch.Tensor]) -> None:
        arguments = self._arguments.copy()
        for place, which in self._tensors:
            arguments[place] = tensors[which]
        for place, which, descriptor in self._descriptors:
            arguments[place] = _of(tensors[which], descriptor)
        self._launch(*arguments)


def _of(tensor: torch.Tensor | None, descriptor: Any) -> Any:
    """The descriptor, for this tensor: a new one, as another thread may want it as well.

    As copy.copy does it; that takes microseconds, and so does the descriptor's own check.
    """
    own = object.__new__(type(descriptor))
    own.__dict__ = {**descriptor.__dict__, "base": tensor}
    return own


def _which(tensor: torch.Tensor, tensors: Sequence[torch.Tensor]) -> int:
    return next(number for number, each in enumerate(tensors) if each is tensor)


def launches_of(name: str, tensors: Sequence[torch.Tensor], *options: Hashable) -> Launches:
    """The launches kept for tensors of this form; new ones where there are none.

    The form is all that a launch may depend on besides the numbers: device, shapes, strides,
    dtypes, which addresses are multiples of 16 bytes, and the options.
    """
    form = [
        (tensor.shape, tensor.stride(), tensor.dtype, tensor.data_ptr() % 16) for tensor in tensors
    ]
    return _launches_of(name, tensors[0].get_device(), *form, *options)


@functools.lru_cache(maxsize=MOST_FORMS)
def _launches_of(*form: Hashable) -> Launches:
    return Launches()


def forget() -> None:
    """Choose anew at the next call of every form, as after a change of the configurations."""
    _launches_of.cache_clear()
