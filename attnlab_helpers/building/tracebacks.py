"""Tracebacks as they may stand in a notebook: files by name, without their place on a machine."""

from __future__ import annotations

import re

ANSI = re.compile(r"\x1b\[[0-9;]*m")

_START = r"(?:~|[A-Za-z]:|/|\\\\)"
# A traceback names a file behind the word File, by a path that may hold spaces and whatever else
# a folder may be called: IPython's ends at the line number or a colour, Python's at its quote.
_FILE = re.compile(rf"(File (?:{ANSI.pattern})*)({_START}[^\n\x1b]*?)(?=:\d+\b|\x1b|\n|$)")
_QUOTED_FILE = re.compile(rf"(File \")({_START}[^\n\"]*)(?=\")")
# Elsewhere nothing tells where a path begins but white space and signs around it.
_PATH = re.compile(r"(?<![\w.:/\\~)-])(?:[A-Za-z]:)?[/\\~][^\s\"'()<>:]*")
# What the reader needs is the end: from the package's folder on.
_KEPT = (
    re.compile(r".*[/\\]((?:site|dist)-packages[/\\].*)"),
    re.compile(r".*[/\\](attnlab_helpers[/\\].*)"),
    re.compile(r".*[/\\]lib[/\\](python3\.\d+[/\\].*)", re.IGNORECASE),
)


def without_machine_paths(line: str) -> str:
    """A line of a traceback, coloured or not, with the files in it named from their package on.

    A file of no package keeps its name alone.
    """
    for pattern in (_FILE, _QUOTED_FILE):
        line = pattern.sub(lambda found: found[1] + (_end_of(found[2]) or _name(found[2])), line)
    pieces = re.split(f"({ANSI.pattern})", line)  # text, colour, text, ...
    pieces[::2] = [
        _PATH.sub(lambda found: _end_of(found[0]) or found[0], piece) for piece in pieces[::2]
    ]
    return "".join(pieces)


def _end_of(path: str) -> str:
    """The path from its package's folder on; empty when it is in no package."""
    for pattern in _KEPT:
        found = pattern.fullmatch(path)
        if found:
            return re.sub(r"^dist-packages", "site-packages", found[1].replace("\\", "/"))
    return ""


def _name(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]
