"""Who called whom: the CPU operators under one operator, and what each launched on the GPU."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from .kernel_names import label_kernels
from .traces.trace import Trace


@dataclass(frozen=True)
class OperatorTree:
    """Lines of text, one an operator or GPU activity, indented by depth. Prints as a tree."""

    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    __repr__ = __str__


def operator_tree(trace: Trace, name: str, *, durations: bool = False) -> OperatorTree:
    """The first operator called `name` in the trace, with everything it called and launched.

    durations: also print how long each GPU activity took (in microseconds). LookupError, with
    the names that occur, when there is no such operator.
    """
    operators, kernels = trace.operators, trace.kernels
    found = operators.index[operators["name"] == name]
    if found.empty:
        names = ", ".join(sorted(set(operators["name"]))) or "none at all"
        raise LookupError(f"no operator is called {name!r} in this trace. It holds: {names}.")
    labels = label_kernels(kernels["name"])
    lines: list[str] = []

    def add(row: int, indent: str) -> None:
        below = _in_order(operators, kernels, row)
        for position, (kind, index) in enumerate(below):
            last = position == len(below) - 1
            branch, further = ("└─ ", "   ") if last else ("├─ ", "│  ")
            if kind == "operator":
                lines.append(indent + branch + operators.loc[index, "name"])
                add(index, indent + further)
            else:
                kernel = kernels.loc[index]
                time = f", {kernel['duration_ns'] / 1e3:.1f} us" if durations else ""
                lines.append(f"{indent}{branch}GPU: {labels[kernel['name']]}{time}")

    lines.append(name)
    add(int(found[0]), "")
    return OperatorTree(tuple(lines))


def _in_order(operators: pd.DataFrame, kernels: pd.DataFrame, row: int) -> list[tuple[str, int]]:
    # Children start in the order they were called; a GPU activity belongs where its launch was,
    # which lies between them, and activities of one operator keep the order of the GPU.
    children = operators[operators["parent"] == row].sort_values("start_ns")
    launched = kernels[kernels["operator"] == row].sort_values("start_ns")
    return [("operator", int(index)) for index in children.index] + [
        ("kernel", int(index)) for index in launched.index
    ]
