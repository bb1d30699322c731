"""Names of CUDA C++ kernels: as the source has them, and as the machine code has them."""

from __future__ import annotations

import re

_ENTRY = re.compile(r"(?m)^\s*(?:\.visible|\.weak)?\s*\.entry ([\w$]+)")


def entry_of(ptx: str, source: str, name: str | None) -> str:
    """The kernel's name in the machine code, by its name in the source. Raises ValueError."""
    entries = {entry: plain_name(entry) for entry in _ENTRY.findall(ptx)}
    unused = name and re.search(rf"template\s*<[^;{{}}]*\b{re.escape(name)}\s*\(", source)
    if unused and name not in entries.values():
        raise ValueError(
            f"{name} is a template, which becomes a kernel once its parameters are given: "
            f"name='{name}<4>' or name='{name}<float>', say."
        )
    if not entries:
        raise ValueError(
            "the source has no __global__ function (a template counts once it is used: give its "
            "instance as name='kernel<4>')."
        )
    fitting = [entry for entry, plain in entries.items() if name in (None, plain, entry)]
    if len(fitting) == 1:
        return fitting[0]
    possible = ", ".join(sorted(entries.values()))
    if name is None:
        raise ValueError(f"the source has several kernels; say which with name=: {possible}.")
    if not fitting:
        raise ValueError(f"the source has no kernel {name!r}; it has {possible}.")
    raise ValueError(f"several kernels are called {name}; give one's entry: {', '.join(fitting)}.")


def plain_name(entry: str) -> str:
    """The name in the source of a kernel by its name in the machine code: _Z3addPf is add."""
    nested = re.match(r"_ZN((?:\d+\w*)+)", entry)
    text = entry[3:] if nested else entry[2:]
    if not entry.startswith("_Z"):
        return entry
    name = entry
    while found := re.match(r"(\d+)", text):  # length, then the name itself
        start, length = len(found[1]), int(found[1])
        name, text = text[start : start + length], text[start + length :]
        if not nested:
            break
    return name


def name_in(source: str) -> str:
    """The name of the first kernel in a source, for where nothing can compile it."""
    plain = re.sub(r"__launch_bounds__\s*\([^)]*\)", "", source)
    found = re.search(r"__global__\s+(?:\w+\s+)*?(\w+)\s*\(", plain)
    return found[1] if found else "kernel"
