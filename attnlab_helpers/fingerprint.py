"""A short mark of a function's code, so that a recording is never shown for other code."""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Callable
from typing import Any


def fingerprint(function: Callable[..., Any]) -> str:
    """Twelve hexadecimal digits of a hash over the function's code.

    Comments, docstrings, type hints of the arguments' defaults, white space and line breaks do
    not count: only what runs. Functions that this one calls are not looked into. Raises
    ValueError when the source cannot be seen (typed at a plain prompt, or a built-in).
    """
    try:
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError) as error:
        name = getattr(function, "__name__", type(function).__name__)
        raise ValueError(
            f"the source of {name} cannot be read. Define it with `def` in a notebook cell or a "
            "file."
        ) from error
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = node.body[0]
            is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            if is_text and isinstance(first.value.value, str) and len(node.body) > 1:
                node.body.pop(0)
            node.decorator_list = []
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()[:12]
