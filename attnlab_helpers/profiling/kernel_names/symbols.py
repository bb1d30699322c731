"""Reads a compiler's symbol (`_ZN2at6native18elementwise_kernelILi128E...`) as far as it needs.

This is no demangler. In an Itanium symbol every identifier stands behind its length, so the
identifiers can be picked out in one pass: those up to the first template argument are the
function with its namespaces, the others are set behind it as if they were its arguments.
"""

from __future__ import annotations

import re

from .description import READ_LIMIT

_PREFIX = re.compile(r"_Z(L?)(N?)")
_LENGTH = re.compile(r"[0-9]{1,5}")
# Numbers that are no lengths: literals such as Li128E or Lb0E, and back references S12_, T0_.
_NO_LENGTH = re.compile(r"L[a-z]n?[0-9]{1,20}E|[ST][0-9A-Z]{0,8}_")
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$.]*")


def readable_symbol(name: str) -> str | None:
    """`namespace::function<identifier, ...>` for a mangled symbol; None if the name is not one."""
    text = name[:READ_LIMIT]
    start = _PREFIX.match(text)
    if start is None or not text[start.end() : start.end() + 1].isdigit():
        return None
    function: list[str] = []
    others: list[str] = []
    place, in_function = start.end(), True
    while place < len(text):
        skipped = _NO_LENGTH.match(text, place)
        if skipped:
            place, in_function = skipped.end(), False
            continue
        length = _LENGTH.match(text, place)
        identifier = None
        if length:
            end = length.end() + int(length.group())
            identifier = (
                _IDENTIFIER.fullmatch(text, length.end(), end) if end <= len(text) else None
            )
        if identifier is None:
            # A symbol that was cut off ends in the middle of an identifier.
            if length and length.end() + int(length.group()) > len(text):
                if in_function and not function:
                    return None
                break
            in_function = in_function and not function
            place += 1
            continue
        if not identifier.group().startswith("_GLOBAL__N_"):
            (function if in_function else others).append(identifier.group())
        if in_function and not start.group(2):
            in_function = False
        place = identifier.end()
    if not function:
        return None
    return "::".join(function) + (f"<{', '.join(others)}>" if others else "")
