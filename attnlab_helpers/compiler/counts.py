"""Counting: how many instructions of the kinds that matter a kernel has."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

Counts = dict[str, "int | dict[int, int]"]

# Every key that `Compiled.counts` may have, and what it counts. All values are whole numbers, but
# for the two `BY_WIDTH`: those are {128: 2, 32: 1}, how many of each width in bits.
KEYS: Mapping[str, str] = MappingProxyType(
    {
        "instructions": "instructions in total",
        "mma.sync": "tensor-core instructions of a warp (mma.sync)",
        "wgmma": "tensor-core instructions of four warps (wgmma)",
        "tcgen05.mma": "tensor-core instructions with tensor memory (tcgen05.mma)",
        "cp.async": "asynchronous copies of a thread (cp.async)",
        "tma": "asynchronous copies of the Tensor Memory Accelerator (cp.async.bulk)",
        "global_loads": "loads from global memory, by the bits that a thread gets with one",
        "global_stores": "stores to global memory, by the bits that a thread gives with one",
        "global_atomics": "atomic operations on global memory",
        "shared_loads": "loads from shared memory",
        "shared_stores": "stores to shared memory",
        "shared_atomics": "atomic operations on shared memory",
        "generic_loads": "loads of which only the address says, at run time, from which memory",
        "generic_stores": "stores of which only the address says, at run time, to which memory",
        "generic_atomics": "atomic operations of which only the address says on which memory",
        "local_loads": "loads from local memory (spills, arrays with a computed index, stacks)",
        "local_stores": "stores to local memory (spills, arrays with a computed index, stacks)",
        "barriers": "barriers of the block",
        "branches": "branches",
        "predicated_exits": "exits under a condition",
        "predicated_memory": "global and generic loads and stores under a condition",
        # Only where cuobjdump could read the cubin; for local_bytes: and knows the number, which
        # nobody does when functions call themselves.
        "registers": "registers a thread",
        "local_bytes": "local memory, bytes a thread: spills, arrays with a computed index, stacks",
        # Of a block, known at compile time:
        "shared_bytes": "shared memory of a block, bytes",
    }
)
BY_WIDTH = ("global_loads", "global_stores")
FROM_CUBIN = ("registers", "local_bytes", "shared_bytes")
_COUNTED = tuple(name for name in KEYS if name not in FROM_CUBIN)

_SASS = re.compile(r"^\s*(@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)((?:\.\w+)*)")
# SASS operations by what PTX calls them. HFMA2.MMA is no tensor-core instruction: it moves
# constants, and its operation is HFMA2.
_SASS_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("mma.sync", re.compile(r"[HIBDQO]MMA")),
    ("wgmma", re.compile(r"[HIBQ]GMMA")),
    ("tcgen05.mma", re.compile(r"UTC[HIQO](?:MX)?MMA|UTCMXQMMA")),
    ("cp.async", re.compile(r"LDGSTS")),
    ("tma", re.compile(r"UTMALDG|UTMASTG|UTMAREDG|UBLKCP|UBLKRED")),
    ("global_atomics", re.compile(r"ATOMG|REDG?")),
    ("shared_loads", re.compile(r"LDS|LDSM")),
    ("shared_stores", re.compile(r"STS|STSM")),
    ("shared_atomics", re.compile(r"ATOMS")),
    ("generic_loads", re.compile(r"LD")),
    ("generic_stores", re.compile(r"ST")),
    ("generic_atomics", re.compile(r"ATOM")),
    ("local_loads", re.compile(r"LDL")),
    ("local_stores", re.compile(r"STL")),
    ("barriers", re.compile(r"BAR")),
    ("branches", re.compile(r"BRA|BRX|JMP|CALL")),
)


def count(stages: Mapping[str, str]) -> Counts:
    """Counts of the SASS among a kernel's stages, or of the PTX where there is none."""
    return count_sass(stages["SASS"]) if "SASS" in stages else count_ptx(stages["PTX"])


def count_sass(text: str) -> Counts:
    """Counts of a SASS text (see KEYS), each instruction once: a static count, not a run's."""
    return _complete(_sass_keys(text.splitlines()))


def count_ptx(text: str) -> Counts:
    """Counts of a PTX text (see KEYS), for where there is no SASS. Registers are not in it."""
    return _complete(_ptx_keys(text.splitlines()))


def _complete(found: Iterable[str | tuple[str, int]]) -> Counts:
    counter = Counter(found)
    counts: Counts = {name: counter[name] for name in _COUNTED}
    for name in BY_WIDTH:
        widths = sorted((key[1] for key in counter if key[0] == name), reverse=True)
        counts[name] = {width: counter[name, width] for width in widths}
    return counts


def _sass_keys(lines: Iterable[str]) -> Iterator[str | tuple[str, int]]:
    for line in lines:
        found = _SASS.match(line)
        if not found or line.rstrip().endswith(":"):
            continue
        predicate, operation, modifiers = found.groups()
        yield "instructions"
        yield from (name for name, pattern in _SASS_KINDS if pattern.fullmatch(operation))
        if operation in ("LDG", "STG"):
            yield BY_WIDTH[operation == "STG"], _width(modifiers)
        if predicate and operation in ("LDG", "STG", "LD", "ST"):
            yield "predicated_memory"
        if operation == "EXIT" and predicate:
            yield "predicated_exits"


def _width(modifiers: str) -> int:
    parts = modifiers.split(".")
    for width in (256, 128, 64):
        if str(width) in parts:
            return width
    if {"U8", "S8"} & set(parts):
        return 8
    return 16 if {"U16", "S16"} & set(parts) else 32


_PTX = re.compile(r"^\s*(@!?%\w+\s+)?([a-z][a-z0-9_]*(?:[.:]{1,2}\w+)*)")
# No state space in front of the type: the address is generic (PTX ISA, "ld").
_NO_SPACE = r"(?!async|bulk)(?!.*(?:global|shared|local|param|const)).*"
_PTX_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("mma.sync", re.compile(r"w?mma\.(?:mma\.)?sync.*")),
    ("wgmma", re.compile(r"wgmma\.mma_async.*")),
    ("tcgen05.mma", re.compile(r"tcgen05\.mma.*")),
    ("cp.async", re.compile(r"cp\.async\.c[ag].*")),
    ("tma", re.compile(r"cp\.(?:reduce\.)?async\.bulk\.(?:tensor|shared|global).*")),
    ("global_atomics", re.compile(r"(?:atom|red)\.(?!async)(?:\w+\.)*global.*")),
    ("shared_atomics", re.compile(r"(?:atom|red)\.(?!async)(?:\w+\.)*shared.*")),
    ("generic_atomics", re.compile(r"(?:atom|red)\.(?!async)(?!.*(?:global|shared)).*")),
    ("generic_loads", re.compile(rf"ld\.{_NO_SPACE}")),
    ("generic_stores", re.compile(rf"st\.{_NO_SPACE}")),
    ("shared_loads", re.compile(r"ld\.(?:\w+\.)*shared.*|ldmatrix.*")),
    ("shared_stores", re.compile(r"st\.(?:\w+\.)*shared.*|stmatrix.*")),
    ("local_loads", re.compile(r"ld\.local.*")),
    ("local_stores", re.compile(r"st\.local.*")),
    ("barriers", re.compile(r"bar(?:rier)?\..*sync.*")),
    ("branches", re.compile(r"bra.*|call.*")),
)


def _ptx_keys(lines: Iterable[str]) -> Iterator[str | tuple[str, int]]:
    for line in lines:
        found = _PTX.match(line)
        if not found or ";" not in line:
            continue
        predicate, operation = found.groups()
        yield "instructions"
        yield from (name for name, pattern in _PTX_KINDS if pattern.fullmatch(operation))
        access = re.match(r"(ld|st)\.(?:\w+\.)*?global\b", operation)
        if access:
            vector = re.search(r"\.v(\d)", operation)
            bits = re.search(r"\.[busf](8|16|32|64|128)$", operation)
            width = int(bits[1] if bits else 32) * int(vector[1] if vector else 1)
            yield BY_WIDTH[access[1] == "st"], width
        generic = re.fullmatch(rf"(?:ld|st)\.{_NO_SPACE}", operation)
        if predicate and (access or generic):
            yield "predicated_memory"
        if operation in ("ret", "exit") and predicate:
            yield "predicated_exits"
