"""The stages' texts made readable: debug information is taken out, and read into line numbers.

Each line of a stage belongs to a line of the reader's source, or to none. Where the compiler put
in a function of its own library, the innermost place that is in the reader's file counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

Lines = tuple[int | None, ...]


def tidy(stage: str, text: str, file: str, entry: str) -> tuple[str, Lines]:
    """A stage's text without debug information, and the line of `file` for each of its lines."""
    if stage in ("TTIR", "TTGIR"):
        pairs = _mlir(text, file)
    elif stage == "LLVM IR":
        pairs = _llvm(text, file)
    else:
        pairs = _ptx(_one_entry(text, entry), file)
    return _joined(pairs)


def _joined(pairs: Iterator[tuple[str, int | None]]) -> tuple[str, Lines]:
    kept: list[tuple[str, int | None]] = []
    for line, number in pairs:
        if line.strip() or (kept and kept[-1][0].strip()):  # at most one empty line
            # Line 0 is the compiler's word for "nowhere in the source".
            kept.append((line.rstrip(), number or None))
    while kept and not kept[-1][0]:
        kept.pop()
    text = "".join(f"{line}\n" for line, _ in kept)
    return text, tuple(number for _, number in kept)


# --- MLIR: loc(#loc3), #loc3 = loc("kernel.py":12:7), loc(callsite(#loc1 at #loc2)) -------------

_INNER = r"[^()\"]|\"[^\"]*\""
_NESTED = rf"(?:{_INNER}|\((?:{_INNER}|\((?:{_INNER}|\((?:{_INNER})*\))*\))*\))*"
_LOCATION = re.compile(rf"\s?\bloc\(({_NESTED})\)")
_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)\s*$")
_PLACE = re.compile(r"(#loc\d*)|\"([^\"]+)\":(\d+):\d+")


def _mlir(text: str, file: str) -> Iterator[tuple[str, int | None]]:
    aliases = dict(
        found.groups() for line in text.splitlines() if (found := _ALIAS.match(line)) is not None
    )
    for line in text.splitlines():
        if _ALIAS.match(line):
            continue
        locations = _LOCATION.findall(line)
        number = _first_place(locations[-1], aliases, file) if locations else None
        yield _LOCATION.sub("", line), number


def _first_place(expression: str, aliases: dict[str, str], file: str, depth: int = 0) -> int | None:
    # A call site is written from the inside out, so the first place in the file is the innermost.
    for alias, path, line in _PLACE.findall(expression):
        if alias and depth < 50:
            number = _first_place(aliases.get(alias, ""), aliases, file, depth + 1)
            if number is not None:
                return number
        elif _is(path, file):
            return int(line)
    return None


def _is(path: str, file: str) -> bool:
    return bool(path) and PurePath(path).name == file


# --- LLVM IR: !dbg !12, !12 = !DILocation(line: 3, scope: !4, inlinedAt: !9) ---------------------

_DEBUG = re.compile(r",?\s!dbg !(\d+)")
_NODE = re.compile(r"^!(\d+) = (?:distinct )?!(DI\w+)\((.*)\)$")
_METADATA = re.compile(r"^!(?:\d+|[\w.]+) = |^; Function Attrs|^source_filename|^; ModuleID")


def _llvm(text: str, file: str) -> Iterator[tuple[str, int | None]]:
    lines = text.splitlines()
    nodes = {found[1]: found.groups()[1:] for line in lines if (found := _NODE.match(line))}
    for line in lines:
        if _METADATA.match(line):
            continue
        found = _DEBUG.search(line)
        yield _DEBUG.sub("", line), _debug_line(found[1], nodes, file) if found else None


def _debug_line(node: str, nodes: dict[str, tuple[str, ...]], file: str) -> int | None:
    place: str | None = node
    while place in nodes:
        kind, content = nodes[place]
        # A function is its own scope.
        scope = place if kind == "DISubprogram" else _field(content, "scope")
        line = re.search(r"\bline: (\d+)", content)
        if line and _scope_is(scope, nodes, file):
            return int(line[1])
        place = _field(content, "inlinedAt")
    return None


def _scope_is(scope: str | None, nodes: dict[str, tuple[str, ...]], file: str) -> bool:
    if scope not in nodes:
        return False
    named = _field(nodes[scope][1], "file")
    return named in nodes and f'filename: "{file}"' in re.sub(
        r"filename: \"[^\"]*/", 'filename: "', nodes[named][1]
    )


def _field(content: str, name: str) -> str | None:
    found = re.search(rf"\b{name}: !(\d+)", content)
    return found[1] if found else None


# --- PTX: .loc 1 12 7, function_name $L__info_string0, inlined_at 1 16 7 -------------------------

_LOC = re.compile(r"^\s*\.loc\s+(\d+) (\d+) (\d+)(?:.*inlined_at (\d+) (\d+) (\d+))?")
_FILE = re.compile(r"^\s*\.file\s+(\d+)\s+\"([^\"]+)\"(?:\s+\"([^\"]+)\")?")
_NOISE = re.compile(r"^\s*(?:// (?:begin|end) inline asm|\$L__(?:tmp|func_\w+?)\d+:|\.file\s)")
_END = re.compile(r"^\s*\.section\s+\.debug")
_FLOW = re.compile(r"^\s*(?:[{}()]\s*$|\.(?:reg|param|visible|entry|version|target)|//|$)")


def _ptx(text: str, file: str) -> Iterator[tuple[str, int | None]]:
    lines = text.rstrip("\0").splitlines()
    files = {
        found[1]: found[3] or found[2] for line in lines if (found := _FILE.match(line)) is not None
    }
    ours = {number for number, path in files.items() if _is(path, file)}
    seen: dict[tuple[str, ...], int | None] = {}  # places of inlined calls, with the reader's line
    current: int | None = None
    for line in lines:
        found = _LOC.match(line)
        if found:
            place, caller = found.groups()[:3], found.groups()[3:]
            current = int(place[1]) if place[0] in ours else None
            if current is None and caller[0]:
                current = int(caller[1]) if caller[0] in ours else seen.get(caller)
            seen[place] = current
        elif _END.match(line):
            break
        elif not _NOISE.match(line):
            if line.startswith("}"):
                current = None
            yield re.sub(r"\s+// (?:-- |@).*$", "", line), None if _FLOW.match(line) else current


def _one_entry(text: str, entry: str) -> str:
    """The PTX with the other kernels of the same source left out."""
    pieces = re.split(r"(?m)^(?=\s*// \.(?:globl|weak)\s)", text)
    if len(pieces) < 3:
        return text
    kept = [pieces[0], *(p for p in pieces[1:] if ".entry" not in p or f" {entry}(" in p)]
    tail = re.search(r"(?m)^\s*\.file\s[\s\S]*", pieces[-1])  # the table of files stands last
    return "".join([*kept, tail[0] if tail and pieces[-1] not in kept else ""])
