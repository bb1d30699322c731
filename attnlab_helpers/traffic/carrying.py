"""A notebook's function as a file of its own: its source, and what it uses from other cells."""

from __future__ import annotations

import ast
import dis
import inspect
import textwrap
from dataclasses import is_dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ..kernels.stand_ins import Triton
from .interpreter_hooks import CountingUnavailable
from .plain_values import as_text


def module_text(function: FunctionType) -> str:
    """Python source of a module that holds `function` and all that it uses.

    Carried are functions and Triton kernels of the notebook with their decorators (as source),
    imports, problems, and plain values (`plain_values.as_text`).
    Raises CountingUnavailable, with its name, for anything else: a tensor, say, is to be made
    inside the function.
    """
    parts: list[str] = []
    _carry_function(function, parts, set())
    return "\n\n".join(parts) + "\n"


def _carry_function(function: FunctionType, parts: list[str], seen: set[str]) -> None:
    seen.add(function.__name__)
    try:
        source = textwrap.dedent(inspect.getsource(function.__code__))
    except (OSError, TypeError) as error:
        raise CountingUnavailable(
            f"the source of {function.__name__} cannot be read, so no other process can run it. "
            "Define it with `def` in a notebook cell or a file."
        ) from error
    if function.__name__ == "<lambda>":
        raise CountingUnavailable(
            f"{source.strip()!r} is a lambda, which cannot be carried to another process. Define "
            "it with `def`."
        )
    known = _known(function)
    for name in sorted(_names_used(function, source)):
        if name in known and name not in seen:
            seen.add(name)
            _carry(name, known[name], function, parts, seen)
    parts.append(source.rstrip())


def _known(function: FunctionType) -> dict[str, Any]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {**function.__globals__, **{name: cell.cell_contents for name, cell in cells}}


def _names_used(function: FunctionType, source: str) -> set[str]:
    """Globals of the body, and names in decorators, annotations and defaults."""
    # Not every name that is looked up in a cell: one of this function's own may be called like
    # a global of the notebook.
    names = _globals_of(function.__code__) | set(function.__code__.co_freevars)
    definition = ast.parse(source).body[0]
    if isinstance(definition, ast.FunctionDef):
        arguments = definition.args
        heads = [*definition.decorator_list, arguments, definition.returns]
        for head in heads:
            if head is not None:
                names |= {one.id for one in ast.walk(head) if isinstance(one, ast.Name)}
    return names


def _globals_of(code: CodeType) -> set[str]:
    looked_up = ("LOAD_GLOBAL", "LOAD_NAME")
    names = {one.argval for one in dis.get_instructions(code) if one.opname in looked_up}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            names |= _globals_of(inner)
    return names


def _carry(name: str, value: Any, user: FunctionType, parts: list[str], seen: set[str]) -> None:
    original = _decorated(value)
    if isinstance(value, ModuleType):
        parts.append(f"import {value.__name__} as {name}")
    elif isinstance(value, Triton):  # stands for the module where it was imported too early
        parts.append(f"import triton as {name}")
    elif isinstance(original, FunctionType) and original.__module__ == user.__module__:
        _carry_function(original, parts, seen)
        if original.__name__ != name:
            parts.append(f"{name} = {original.__name__}")
    elif (plain := as_text(value)) is not None:
        parts.append(f"{plain.imports}{name} = {plain.text}")
    elif is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        parts.append(f"from {kind.__module__} import {kind.__qualname__}\n{name} = {value!r}")
    elif _can_be_imported(original):
        parts.append(f"from {original.__module__} import {original.__qualname__} as {name}")
    else:
        raise CountingUnavailable(
            f"{user.__name__} uses {name}, a {type(value).__name__}, which another process cannot "
            f"be given. Make it inside {user.__name__}, or hand in plain values."
        )


def _decorated(value: Any) -> Any:
    """The function in a Triton kernel: below its autotuner and heuristics, if it has them."""
    kernel = value
    while not isinstance(kernel, FunctionType) and hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel if isinstance(kernel, FunctionType) else value


def _can_be_imported(value: Any) -> bool:
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", "<")
    return bool(module) and module != "__main__" and "<" not in name and "." not in name
