"""Machine code as text: SASS from a cubin, its source lines, and the registers that it takes."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePath

from . import triton_internals
from .counts import Counts, count_ptx, count_sass

_NO_TOOL = (
    "SASS is left out: no nvdisasm here (it comes with the triton wheel and with the CUDA "
    "Toolkit). The counts are of the PTX."
)
_PLACE = re.compile(r"//## File \"([^\"]+)\", line (\d+)(?: inlined at \"([^\"]+)\", line (\d+))?")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(.*?)\s*;?\s*(?:/\*.*)?$")
_LABEL = re.compile(r"^([.$\w]+):$")
_NO_STACK = (
    "How much local memory a thread needs is not known when this kernel is compiled: functions in "
    "it call themselves, or are called by pointer."
)


@dataclass(frozen=True)
class MachineCode:
    """SASS (None where it cannot be shown), its lines in the source, what was counted, notes."""

    text: str | None
    lines: tuple[int | None, ...]
    counts: Counts
    notes: tuple[str, ...] = ()


def machine_stage(cubin: bytes, entry: str, file: str, ptx: str) -> MachineCode:
    """The machine code of the kernel `entry` in a cubin, compiled from the source `file`.

    Where nothing here can take a cubin apart, the instructions are counted in the PTX, and a note
    says so.
    """
    with tempfile.TemporaryDirectory(prefix="attnlab-") as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        listing, complaint = _run("nvdisasm", "-gi", "-c", str(path))
        usage, _ = _run("cuobjdump", "-res-usage", str(path))
    resources = _resources(usage, entry)
    notes = (_NO_STACK,) if "registers" in resources and "local_bytes" not in resources else ()
    text, lines = sass(listing, entry, file)
    if text:
        return MachineCode(text, lines, count_sass(text) | resources, notes)
    note = (
        f"SASS is left out: nvdisasm said {complaint!r}. The counts are of the PTX."
        if complaint
        else _NO_TOOL
    )
    return MachineCode(None, (), count_ptx(ptx) | resources, (note, *notes))


def sass(listing: str, entry: str, file: str) -> tuple[str, tuple[int | None, ...]]:
    """The instructions of `entry` in what nvdisasm wrote, and the line of `file` of each.

    Labels and predicates stay; addresses, directives and the padding behind the end go.
    """
    rows: list[tuple[str, int | None]] = []
    current: int | None = None
    fresh = True  # whether the next place begins a new group: the innermost call stands first
    for line in _section(listing, entry):
        place = _PLACE.search(line)
        if place:
            if fresh:
                current, fresh = None, False
            if current is None:
                current = _ours(place[1], place[2], file) or _ours(place[3], place[4], file)
            continue
        fresh = True
        instruction = _INSTRUCTION.match(line)
        if instruction:
            rows.append((_set(instruction[1]), current))
        elif _LABEL.match(line) and not line.startswith(".text"):
            rows.append((line.rstrip(), None))
    rows = _without_padding(rows)
    return "".join(f"{text}\n" for text, _ in rows), tuple(number for _, number in rows)


def _section(listing: str, entry: str) -> list[str]:
    found = re.search(
        rf"^\.text\.{re.escape(entry)}:\n(.*?)(?=^//-------|\Z)", listing, re.MULTILINE | re.DOTALL
    )
    return [f"{entry}:", *found[1].splitlines()] if found else []


def _set(instruction: str) -> str:
    predicate, _, rest = instruction.rpartition("@")[2].partition(" ")
    if not instruction.startswith("@"):
        return f"{'':10}{instruction}"
    return f"{'@' + predicate:>9} {rest.strip()}"


def _ours(path: str | None, line: str | None, file: str) -> int | None:
    # Line 0 is the compiler's word for "nowhere in the source".
    return (int(line) or None) if path and line and PurePath(path).name == file else None


def _without_padding(rows: list[tuple[str, int | None]]) -> list[tuple[str, int | None]]:
    """Without the NOPs that fill the last block, and the endless loop in front of them."""
    end = len(rows)
    while end and (rows[end - 1][0].strip() == "NOP" or _LABEL.match(rows[end - 1][0])):
        end -= 1
    if end >= 2:
        loop = re.fullmatch(r"BRA `\((\S+)\)", rows[end - 1][0].strip())
        if loop and rows[end - 2][0] == f"{loop[1]}:":
            end -= 2
    kept = rows[:end]
    # A branch may lead to the very end: its label stays.
    used = "\n".join(text for text, _ in kept)
    labels = [row for row in rows[end:] if _LABEL.match(row[0]) and f"({row[0][:-1]})" in used]
    return [*kept, *labels]


def _resources(usage: str, entry: str) -> dict[str, int]:
    line = re.search(rf"Function {re.escape(entry)}:\s*\n(.*)", usage)
    # A number that the tool does not know is a word: STACK:UNKNOWN.
    said = dict(re.findall(r"\b(\w+):(\d+)\b", line[1])) if line else {}
    values = {"registers": ("REG",), "local_bytes": ("STACK", "LOCAL"), "shared_bytes": ("SHARED",)}
    return {
        name: sum(int(said[part]) for part in parts)
        for name, parts in values.items()
        if all(part in said for part in parts)
    }


def _run(tool: str, *arguments: str) -> tuple[str, str]:
    """What a program of the toolkit writes, and its complaint if it writes nothing."""
    program = triton_internals.tool(tool) or shutil.which(tool)
    if program is None:
        return "", ""
    try:
        done = subprocess.run(
            [str(program), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return "", f"{tool}: {error}"
    if done.returncode:
        return "", next(iter(done.stderr.strip().splitlines()[-1:]), f"exit code {done.returncode}")
    return done.stdout, ""  # its warnings, about older ELF layouts for example, are left out


def user_shared_bytes(counts: Counts, capability: int) -> int:
    """Static shared memory of a block, without the 1 KB that the system keeps of it.

    From compute capability 9.0 on the cubin of a kernel that uses shared memory counts that
    kilobyte in (CUDA C++ Programming Guide, compute capability 9.0: "1 KB is reserved for system
    use per thread block").
    """
    shared = counts.get("shared_bytes", 0)
    return max(0, shared - 1024) if capability >= 90 else shared
