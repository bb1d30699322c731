"""Kernel names made readable: what a name tells, and short labels that are never ambiguous."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from .aten import describe_aten
from .attentions import describe_attention
from .convolutions import describe_convolution
from .description import (
    LABEL_WIDTH,
    WORK_KINDS,
    KernelDescription,
    read_name,
    shorten_middle,
)
from .families import (
    describe_communication,
    describe_inductor,
    describe_plain,
    describe_runtime,
)
from .gemms import describe_gemm
from .symbols import readable_symbol

__all__ = ["WORK_KINDS", "KernelDescription", "describe_kernel", "label_kernels"]

# Attention stands before matmul: FlashAttention-3 is a cutlass::device_kernel too. A bare
# identifier stands last: nvjet_... and triton_... are bare as well.
_FAMILIES = (
    describe_runtime,
    describe_communication,
    describe_inductor,
    describe_attention,
    describe_convolution,
    describe_gemm,
    describe_aten,
    describe_plain,
)
_MIN_WIDTH = 12


def describe_kernel(name: str) -> KernelDescription:
    """Say what the name of a GPU activity tells, and leave open (None) what it does not.

    name: as the profiler writes it: a demangled C++ name, a compiler's symbol, a plain
        identifier, "Memcpy ...", "Memset ...". Any text is accepted, none raises; the time is
        linear in its length.

    A name of no known family comes back with work "other" and itself, shortened in the middle,
    as its label.
    """
    symbol = readable_symbol(name)
    read = read_name(name, symbol)
    for family in _FAMILIES:
        description = family(read)
        if description is not None:
            return description
    return KernelDescription(
        name, "other", shorten_middle(symbol or name, LABEL_WIDTH) or "(no name)"
    )


def label_kernels(names: Iterable[str], width: int = LABEL_WIDTH) -> dict[str, str]:
    """One label a name, each at most `width` characters, no two alike for different names.

    names: kernel names; repeats count once. width: characters, at least 12.

    Two kernels that would share a label get first their element type, then the last word of
    their name (the transposes, in a matrix product's), and where that is not enough a number.
    The result depends on the set of names only, not on their order.

    Raises ValueError for a width under 12.
    """
    if width < _MIN_WIDTH:
        raise ValueError(
            f"width={width} is too narrow for labels that differ; use {_MIN_WIDTH} or more."
        )
    distinct = list(dict.fromkeys(names))
    groups: dict[str, list[str]] = defaultdict(list)
    described = {name: describe_kernel(name) for name in distinct}
    for name in sorted(distinct):
        groups[shorten_middle(described[name].label, width)].append(name)

    chosen: dict[str, str] = {}
    # Labels that need no help are taken first, so that a refined one never collides with them.
    taken = {label for label, members in groups.items() if len(members) == 1}
    for label in sorted(groups):
        members = groups[label]
        if len(members) == 1:
            chosen[members[0]] = label
            continue
        refined = _refine([described[name] for name in members], width)
        if len(set(refined)) < len(refined) or not taken.isdisjoint(refined):
            refined = _number(label, len(members), taken, width)
        chosen.update(zip(members, refined, strict=True))
        taken.update(refined)
    return {name: chosen[name] for name in distinct}


def _refine(group: list[KernelDescription], width: int) -> list[str]:
    """Labels of a group with what tells its members apart, if the descriptions have it."""
    by_dtype = [_append(kernel.label, kernel.dtype, width) for kernel in group]
    if len(set(by_dtype)) == len(group):
        return by_dtype
    return [
        _append(label, _last_word(kernel), width)
        for label, kernel in zip(by_dtype, group, strict=True)
    ]


def _append(label: str, word: str | None, width: int) -> str:
    if not word or word in label.split():
        return shorten_middle(label, width)
    return f"{shorten_middle(label, width - len(word) - 1)} {word}"


def _last_word(kernel: KernelDescription) -> str | None:
    if kernel.work != "matmul":
        return None
    word = kernel.name.rpartition("_")[2]
    return word if word.isalnum() and len(word) <= 4 else None


def _number(label: str, count: int, taken: set[str], width: int) -> list[str]:
    labels: list[str] = []
    number = 0
    while len(labels) < count:
        number += 1
        suffix = f" #{number}"
        candidate = shorten_middle(label, width - len(suffix)) + suffix
        if candidate not in taken:
            labels.append(candidate)
    return labels
