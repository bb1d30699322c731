"""A Triton kernel taken out of a notebook: its text, and all that it needs from around it."""

from __future__ import annotations

import ast
import contextlib
import inspect
import reprlib
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

from .arguments import encode, function_under

# Options of @triton.jit that change what is compiled.
_OPTIONS = {"do_not_specialize", "do_not_specialize_on_alignment", "noinline", "debug"}
_LIBRARY = "triton"


@dataclass
class Shipment:
    """What another process needs to compile a kernel.

    source: the kernel's text, then those of the functions that it uses. functions: their names,
    with the options of their decorators. modules: modules that they use, by the name they have
    there. references: things out of triton's modules. constants: other values. aliases: names
    under which a function is known besides its own. What is in a module of the reader's own has
    its name in front, "mine.scale". plain: names that a kernel cannot use, with what they are.
    """

    source: str = ""
    functions: dict[str, dict[str, Any]] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    references: dict[str, list[str]] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    plain: dict[str, str] = field(default_factory=dict)


def plain_function(kernel: Any) -> FunctionType:
    """The function under @triton.jit, @triton.autotune and the like.

    Raises TypeError for what is no kernel.
    """
    function = function_under(kernel)
    if (
        function is not None
        and (function.__module__ or "").split(".")[0] == _LIBRARY
        and ("__getitem__" in function.__qualname__)
    ):
        raise TypeError("give the kernel itself, without [grid]: compile_triton(kernel, x, ...).")
    if function is None:
        raise TypeError(
            f"{reprlib.repr(kernel)} is no kernel. Give the function under @triton.jit itself; for "
            "CUDA C++ there is compile_cuda(source, target)."
        )
    return function


def decorators(function: FunctionType) -> list[str]:
    """The last parts of the names above a function: ["heuristics", "jit"]; none if unreadable."""
    try:
        _, node = _source(function)
    except ValueError:
        return []
    calls = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
    return [ast.unparse(one).rpartition(".")[2] for one in calls]


def ship(kernel: Callable[..., Any], passed: tuple[Any, ...] = ()) -> Shipment:
    """Everything that `kernel` needs, the reader's own functions in `passed` as well.

    Raises ValueError when a source cannot be read, or when two functions of one name meet.
    """
    shipment = Shipment()
    first = plain_function(kernel)
    waiting = [first, *(plain_function(one) for one in passed)]
    seen: dict[str, FunctionType] = {}
    texts = []
    while waiting:
        function = waiting.pop(0)
        known = seen.setdefault(function.__name__, function)
        if known is not function:
            raise ValueError(
                f"{first.__name__} uses two functions called {function.__name__}. Give one of "
                "them another name."
            )
        if function.__name__ in shipment.functions:
            continue
        text, node = _source(function)
        texts.append(text)
        shipment.functions[function.__name__] = _options(node)
        if function is first:
            shipment.parameters = _annotations(node)
        annotated = function.__globals__.get("__annotations__", {})
        for name, value in _used(function, node).items():
            constexpr = "constexpr" in str(annotated.get(name, ""))
            waiting += _add(shipment, name, value, constexpr)
    shipment.source = "\n\n".join(texts)
    return shipment


def _source(function: FunctionType) -> tuple[str, ast.FunctionDef]:
    try:
        text = textwrap.dedent(inspect.getsource(function))
        node = ast.parse(text).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        node = None
    if function.__name__ == "<lambda>":
        raise ValueError("a lambda is no kernel: define it with `def` under @triton.jit.")
    if not isinstance(node, ast.FunctionDef):
        raise ValueError(
            f"the source of {function.__name__} cannot be read: it was made by exec, or typed at a "
            "plain prompt. Triton compiles from a kernel's text, so define it with `def` in a "
            "notebook cell or a file."
        )
    return text.rstrip("\n") + "\n", node


def _options(node: ast.FunctionDef) -> dict[str, Any]:
    options = {}
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("jit"):
            for keyword in decorator.keywords:
                if keyword.arg in _OPTIONS:
                    with contextlib.suppress(ValueError):  # not written out: left as it is usually
                        options[keyword.arg] = ast.literal_eval(keyword.value)
    return options


def _annotations(node: ast.FunctionDef) -> dict[str, str]:
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return {one.arg: ast.unparse(one.annotation) if one.annotation else "" for one in arguments}


def _used(function: FunctionType, node: ast.FunctionDef) -> dict[str, Any]:
    """Names that the kernel looks up outside itself, in its annotations too, and their values."""
    # The decorator stays out: it is applied again where the kernel is compiled.
    parts = [node.args, *node.body, *([node.returns] if node.returns else [])]
    names = {one.id for part in parts for one in ast.walk(part) if isinstance(one, ast.Name)}
    around = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # a cell that nothing was put into yet
            around[name] = cell.cell_contents
    around = {name: around[name] for name in around if name not in function.__code__.co_varnames}
    found = {name: around[name] for name in sorted(names) if name in around}
    dotted = dict(
        one
        for part in parts
        for node in ast.walk(part)
        if isinstance(node, ast.Attribute) and (one := _in_a_module(node, around))
    )
    return found | dict(sorted(dotted.items()))


def _in_a_module(node: ast.Attribute, around: dict[str, Any]) -> tuple[str, Any] | None:
    """What "mine.scale" names, where `mine` is a module of the reader's own; else None."""
    path = ast.unparse(node).split(".")
    value = around.get(path[0])
    for place, part in enumerate(path[1:], 2):
        if not isinstance(value, ModuleType) or _is_shared(value) or not hasattr(value, part):
            return None
        value = getattr(value, part)
        if not isinstance(value, ModuleType) or _is_shared(value):
            return ".".join(path[:place]), value
    return None


def _is_shared(module: ModuleType) -> bool:
    """Whether the other process imports this module itself."""
    return module.__name__.split(".")[0] in {_LIBRARY, "math"}


def _add(shipment: Shipment, name: str, value: Any, constexpr: bool) -> list[FunctionType]:
    """Note what `name` stands for; return the functions whose texts have to come along."""
    if isinstance(value, ModuleType):
        if _is_shared(value):
            shipment.modules[name] = value.__name__
        shipment.plain[name] = (
            "a module without anything in it that a kernel can use: @triton.jit functions and "
            "tl.constexpr constants"
        )
        return []
    inner = function_under(value) or value
    home = getattr(inner, "__module__", None) or ""
    qualified = getattr(inner, "__qualname__", None)
    if home.split(".")[0] == _LIBRARY and qualified and "<" not in qualified:
        shipment.references[name] = [home, qualified]
        return []
    if isinstance(value, FunctionType):
        shipment.plain[name] = (
            "a plain Python function: a kernel can call it under @triton.jit only"
        )
        return []
    if isinstance(inner, FunctionType):
        if name != inner.__name__:
            shipment.aliases[name] = inner.__name__
        return [inner]
    try:
        encoded = encode(value, name)
    except TypeError:
        article = "a class" if isinstance(value, type) else f"a {type(value).__name__}"
        shipment.plain[name] = (
            f"{article}, which a kernel cannot use. Put what it holds into a name of its own: "
            "VALUE = tl.constexpr(3)"
        )
        return []
    if constexpr and "constexpr" not in encoded:  # NAME: tl.constexpr = value
        encoded = {"constexpr": encoded}
    if shipment.constants.setdefault(name, encoded) != encoded:
        raise ValueError(f"two functions of this kernel use different values called {name}.")
    return []
