"""Stand-ins for Triton's names, so that a cell that defines a kernel runs where none can run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

Why = Callable[[], Exception]


class StandInKernel:
    """What `triton.jit` makes of a function here. Launching or calling it raises the reason.

    fn: the function as it was written, as Triton's own kernels have it.
    """

    def __init__(self, fn: FunctionType, why: Why) -> None:
        self.fn = fn
        self._why = why
        functools.update_wrapper(self, fn)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        # Launching is what fails, not naming the grid: `kernel[grid]` alone computes nothing.
        return self

    def __call__(self, *arguments: Any, **constants: Any) -> Any:
        raise self._why()

    def run(self, *arguments: Any, **constants: Any) -> Any:
        raise self._why()

    warmup = run

    def __repr__(self) -> str:
        return f"<kernel {self.__name__}, which cannot run here>"


class constexpr:
    """A constant of a kernel; only its value, for launch code and for annotations."""

    def __init__(self, value: Any) -> None:
        self.value = value.value if isinstance(value, constexpr) else value

    def __repr__(self) -> str:
        return f"constexpr[{self.value}]"

    def __eq__(self, other: object) -> bool:
        return self.value == (other.value if isinstance(other, constexpr) else other)

    def __hash__(self) -> int:
        return hash(self.value)

    def __index__(self) -> int:
        return int(self.value)


class Name:
    """Any other name of Triton's: good for annotations and defaults, and an error when called."""

    def __init__(self, path: str, why: Why) -> None:
        self._path = path
        self._why = why

    def __getattr__(self, name: str) -> Name:
        # Names with an underscore are Python's and other libraries' questions: not answered.
        if name.startswith("_"):
            raise AttributeError(name)
        return Name(f"{self._path}.{name}", self._why)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        raise self._why()

    def __repr__(self) -> str:
        return f"<{self._path}, which is not available here>"


class Language(Name):
    """In the place of `triton.language`."""

    constexpr = constexpr

    def __init__(self, why: Why) -> None:
        super().__init__("tl", why)


class Triton(Name):
    """In the place of `triton`: kernels can be defined, and the arithmetic of grids works.

    real: the true module, where it is there; everything but `jit` is then taken from it.
    """

    def __init__(self, why: Why, real: ModuleType | None = None) -> None:
        super().__init__("triton", why)
        self._real = real
        self.language = real.language if real else Language(why)

    def __getattr__(self, name: str) -> Any:
        if self._real is not None and not name.startswith("__"):
            return getattr(self._real, name)
        return super().__getattr__(name)

    def jit(self, fn: FunctionType | None = None, **options: Any) -> Any:
        """As a decorator, bare or with options."""
        if fn is None:
            return functools.partial(self.jit, **options)
        return StandInKernel(fn, self._why)

    def autotune(self, *arguments: Any, **options: Any) -> Callable[[Any], Any]:
        """Nothing is tuned where nothing runs."""
        return lambda kernel: kernel

    heuristics = autotune

    @staticmethod
    def Config(*arguments: Any, **options: Any) -> tuple[Any, ...]:
        """One configuration of `autotune`, which ignores it."""
        return (*arguments, options)

    @staticmethod
    def cdiv(x: int, y: int) -> int:
        """x / y, rounded up."""
        return (x + y - 1) // y

    @staticmethod
    def next_power_of_2(n: int) -> int:
        """The smallest power of two that is at least n; 0 for 0, as Triton has it."""
        return 1 << (n - 1).bit_length() if n > 0 else 0
