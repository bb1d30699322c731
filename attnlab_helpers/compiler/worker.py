"""A process that compiles one Triton kernel: a request comes in as JSON, the stages go out.

Run by `triton_stages` as a file, not as a module, so that neither this package nor torch is
imported: Triton has to be imported without TRITON_INTERPRET, and LLVM may take the process down.
"""

from __future__ import annotations

import base64
import importlib
import importlib.util
import json
import os
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any


def main() -> int:
    """Answer the request on standard input with one JSON object on standard output."""
    # Compilers print to standard output; the answer has a pipe of its own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    request = json.load(sys.stdin)
    json.dump(answer(request, Path(request["folder"])), answers)
    answers.close()
    return 0


def answer(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The stages of the kernel, or what the compiler said against it."""
    internals = _internals()
    path = folder / request["file"]
    path.write_text(_without_decorators(request["source"]), encoding="utf-8")
    try:
        internals.check()
        internals.repair_line_numbers(request["file"])
        names = _names(request, path)
        values = {
            one["name"]: {"constant": decode(one["constant"], names)} if "constant" in one else one
            for one in request["arguments"]
        }
        kernel = names[request["kernel"]]
        compiled = internals.compile_function(
            kernel, values, request["capability"], request["options"]
        )
        stages = internals.stages_of(compiled)
    except internals.Moved as error:
        return {"moved": str(error)}
    except Exception as error:
        functions = [names[name] for name in request["functions"]] if "names" in locals() else []
        return {"refused": _complaint(error, functions, internals)}
    return {
        "stages": stages,
        "cubin": base64.b64encode(compiled.asm["cubin"]).decode(),
        "entry": compiled.metadata.name,
        "shared": compiled.metadata.shared,
        "version": internals.version(),
    }


def decode(data: dict[str, Any], names: dict[str, Any]) -> Any:
    """The value that `arguments.encode` made plain data of."""
    import triton.language as tl

    ((kind, content),) = data.items()
    if kind == "float":
        return float(content)
    if kind == "tuple":
        return tuple(decode(item, names) for item in content)
    if kind == "constexpr":
        return tl.constexpr(decode(content, names))
    if kind == "dtype":
        return tl.dtype(content)
    if kind == "function":
        return names[content]
    return content


def _internals() -> ModuleType:
    path = Path(__file__).with_name("triton_internals.py")
    spec = importlib.util.spec_from_file_location("triton_internals", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _without_decorators(source: str) -> str:
    """The text with its decorators as comments: every line keeps its number."""
    import ast

    lines = source.splitlines()
    for node in ast.parse(source).body:
        for decorator in node.decorator_list:
            for place in range(decorator.lineno - 1, decorator.end_lineno):
                lines[place] = f"# {lines[place]}"
    return "\n".join(lines) + "\n"


def _names(request: dict[str, Any], path: Path) -> dict[str, Any]:
    """The names that the kernel's file would have: its functions, and what they use."""
    import triton
    import triton.language as tl

    names: dict[str, Any] = {"__name__": path.stem, "triton": triton, "tl": tl}
    for name, module in request["modules"].items():
        _place(names, name, importlib.import_module(module))
    for name, (module, qualified) in request["references"].items():
        value: Any = importlib.import_module(module)
        for part in qualified.split("."):
            value = getattr(value, part)
        _place(names, name, value)
    for name, data in request["constants"].items():
        if "function" not in data:
            _place(names, name, decode(data, names))
    # dont_inherit: this file's postponed annotations are not the reader's.
    code = compile(path.read_text(encoding="utf-8"), str(path), "exec", dont_inherit=True)
    exec(code, names)
    for name, options in request["functions"].items():
        names[name] = triton.jit(**options)(names[name])
    for alias, name in request["aliases"].items():
        _place(names, alias, names[name])
    return names


def _place(names: dict[str, Any], dotted: str, value: Any) -> None:
    """Put a value where "mine.scale" will find it: in a module made for the purpose."""
    *modules, last = dotted.split(".")
    for module in modules:
        names = vars(names.setdefault(module, ModuleType(module)))
    names[last] = value


def _complaint(error: Exception, functions: list[Any], internals: ModuleType) -> dict[str, Any]:
    """What went wrong, and where in the reader's text: the innermost place that is in it."""
    known = dict(internals.text_of(function) for function in functions)
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    line = column = None
    for one in chain:
        node, text = getattr(one, "node", None), getattr(one, "src", None)
        if text in known and hasattr(node, "lineno"):
            line, column = known[text] + node.lineno - 1, node.col_offset + 1
    said = [getattr(one, "error_message", None) or _text(one) for one in chain]
    return {"text": _last(said), "line": line, "column": column, "kind": type(error).__name__}


def _text(error: BaseException) -> str:
    if hasattr(error, "node"):  # its text is an excerpt of the source, which is shown anyway
        return ""
    return str(error) or type(error).__name__


def _last(texts: list[str]) -> str:
    text = next((text for text in reversed(texts) if text), "the compiler gave no reason")
    # Triton hands some errors on by their repr: NameError('x is not defined').
    found = re.fullmatch(r"\w+Error\((['\"])(.*)\1\)", text, re.DOTALL)
    return found[2] if found else text


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception:
        traceback.print_exc()
        sys.exit(1)
