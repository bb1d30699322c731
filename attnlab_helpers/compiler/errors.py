"""What can go wrong when a kernel is compiled, said with the reader's own line."""

from __future__ import annotations

from dataclasses import dataclass

from ..quiet import OneSentence


class CompileFailed(OneSentence, RuntimeError):
    """The compiler refused the source. The text shows its complaint with the line it is about.

    line: the line of the reader's source, from 1, or None where the compiler named none.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class CompilerMissing(OneSentence, ImportError):
    """The compiler is not installed, or too old. The text says how to get it."""


@dataclass(frozen=True)
class Complaint:
    """One thing that a compiler said. line and column are counted from 1; None: not said."""

    text: str
    line: int | None = None
    column: int | None = None


def refused(compiler: str, name: str, source: str, complaints: list[Complaint]) -> CompileFailed:
    """The error for what `compiler` said about `source`, its lines and a caret in it."""
    first = next((one.line for one in complaints if one.line is not None), None)
    where = f"line {first} of {name}" if first is not None else name
    parts = [f"{compiler} refused {where}.", *(_shown(one, source) for one in complaints)]
    return CompileFailed("\n\n".join(parts), first)


def _shown(complaint: Complaint, source: str) -> str:
    lines = source.splitlines()
    if complaint.line is None or not 1 <= complaint.line <= len(lines):
        return complaint.text
    mark = f"{complaint.line:>4} | "
    shown = [mark + lines[complaint.line - 1]]
    if complaint.column is not None:
        shown.append(" " * (len(mark) + complaint.column - 1) + "^")
    return "\n".join([*shown, complaint.text])
