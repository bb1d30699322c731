"""A short mark of a function's code, so that a recording is never shown for other code."""

from __future__ import annotations

import ast
import contextlib
import dis
import hashlib
import inspect
import textwrap
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

PACKAGE = __package__


def fingerprint(function: Callable[..., Any]) -> str:
    """Twelve hexadecimal digits of a hash over what the function's code does.

    Comments, docstrings, white space and line breaks do not count: only what runs. Functions
    that it uses count as well, as far as they are the reader's own (not of an installed
    package), and so do plain values that it captures: numbers, texts, tuples of them. A
    function from `torch.compile` has another mark than the one that was compiled. A Triton
    kernel counts like the function it was written as, so that its mark is the same compiled,
    interpreted, and where Triton is missing; so do the kernels and constants that it uses.

    Raises ValueError for what cannot be recognised: built-ins, partials, callable objects, and
    functions whose source cannot be seen (typed at a plain prompt).
    """
    return hashlib.sha256(_text(function, set()).encode()).hexdigest()[:12]


def own_fingerprint(function: Callable[..., Any]) -> str:
    """The mark of a function's own code alone; raises like `fingerprint`."""
    function = _as_written(function)
    if not isinstance(function, FunctionType):
        raise ValueError(_not_recognised(function))
    return hashlib.sha256(_code(function).encode()).hexdigest()[:12]


def functions_used(function: Callable[..., Any]) -> dict[str, FunctionType] | None:
    """The reader's own functions that `function` uses, by name; None if it captures values too.

    A function from `torch.compile` stands for the one that was compiled, and a Triton kernel for
    the function it was written as.
    """
    used = {}
    for value in _used(function).values():
        original = _as_written(getattr(value, "_torchdynamo_orig_callable", value))
        if isinstance(original, FunctionType) and _is_the_readers(original):
            used[original.__name__] = original
        elif _dependency(value, set()) is not None:
            return None
    return used


def _not_recognised(function: object) -> str:
    return (
        f"{type(function).__name__} objects cannot be recognised in a recording. Put the call "
        "into a function of its own, with `def`."
    )


def _text(function: Callable[..., Any], seen: set[int]) -> str:
    compiled = getattr(function, "_torchdynamo_orig_callable", None)
    if compiled is not None:
        return f"torch.compile({_text(compiled, seen)})"
    function = _as_written(function)
    if not isinstance(function, FunctionType):
        raise ValueError(_not_recognised(function))
    if id(function) in seen:
        return function.__name__
    seen.add(id(function))
    parts = [_code(function)]
    # The package's own helpers change together with its recordings, and are tested; what a
    # reader's function uses can change in the next cell.
    if not (function.__module__ or "").startswith(PACKAGE):
        parts += [
            f"\n{name} = {text}"
            for name, value in sorted(_used(function).items())
            if (text := _dependency(value, seen)) is not None
        ]
    return "".join(parts)


def _code(function: FunctionType) -> str:
    try:
        # Of the code object: `inspect` would otherwise look through functools.wraps.
        source = textwrap.dedent(inspect.getsource(function.__code__))
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError) as error:
        raise ValueError(
            f"the source of {function.__name__} cannot be read. Define it with `def` in a notebook "
            "cell or a file."
        ) from error
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = node.body[0]
            is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            if is_text and isinstance(first.value.value, str) and len(node.body) > 1:
                node.body.pop(0)
    return ast.unparse(tree)


def _used(function: FunctionType) -> dict[str, Any]:
    """Names that the function looks up outside itself, with what they stand for now."""
    # Not inspect.getclosurevars: it takes the name of an attribute for a global.
    names = _global_names(function.__code__)
    found = {name: function.__globals__[name] for name in names if name in function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # a cell that nothing was put into yet
            found[name] = cell.cell_contents
    return found


def _global_names(code: CodeType) -> set[str]:
    names = {
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    for inner in code.co_consts:  # functions and comprehensions defined inside
        if isinstance(inner, CodeType):
            names |= _global_names(inner)
    return names


def _dependency(value: Any, seen: set[int]) -> str | None:
    if isinstance(value, bool | int | float | complex | str | bytes | type(None)):
        return repr(value)
    if isinstance(value, tuple | list) and all(isinstance(v, int | float | str) for v in value):
        return repr(value)
    if type(value).__name__ == "constexpr" and _is_tritons(value):
        inner = _dependency(value.value, seen)
        return None if inner is None else f"constexpr({inner})"
    original = _as_written(getattr(value, "_torchdynamo_orig_callable", value))
    if isinstance(original, FunctionType) and _is_the_readers(original):
        return _text(value, seen)
    return None


def _is_the_readers(function: FunctionType) -> bool:
    path = function.__code__.co_filename
    # A function of executed text may have no module.
    return "site-packages" not in path and not (function.__module__ or "").startswith(
        (PACKAGE, "torch", "numpy", "pandas", "matplotlib")
    )


def _as_written(value: Any) -> Any:
    """The function that `triton.jit` was given, for a kernel of any kind; else `value` itself.

    Triton is not imported for it. Its kernels, its interpreter's, its autotuner's and this
    package's stand-ins all keep what they wrap in `fn`.
    """
    inner = value
    # An autotuned kernel holds its heuristics, and those the kernel. Counted, because a stand-in
    # for `tl` answers to every name.
    for _ in range(4):
        if not (_is_tritons(inner) and hasattr(inner, "fn")):
            break
        inner = inner.fn
    return inner if isinstance(inner, FunctionType) else value


def _is_tritons(value: Any) -> bool:
    module = type(value).__module__
    return module.split(".")[0] == "triton" or module.startswith(f"{PACKAGE}.kernels.")
