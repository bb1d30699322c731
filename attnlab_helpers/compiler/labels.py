"""Labels: what tells several compiled kernels from one another, in tables and on buttons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def distinct(bases: Sequence[str], compiled: Sequence[Any]) -> list[str]:
    """A label for each kernel, each once: its base, and what differs from its sisters.

    Sisters are kernels of one name and language. What differs is shown as "BLOCK=128"; where that
    leaves two alike, the types of their arguments follow, and at last a number.
    """
    found = list(bases)
    sisters: dict[tuple[str, str], list[int]] = {}
    for place, one in enumerate(compiled):
        sisters.setdefault((str(one.name), str(one.language)), []).append(place)
    for places in sisters.values():
        for kind in ("settings", "arguments"):
            alike = len({found[place] for place in places}) < len(places)
            if kind == "settings" or alike:
                texts = _differing([getattr(compiled[place], kind, {}) for place in places])
                for place, text in zip(places, texts, strict=True):
                    found[place] += f", {text}" if text else ""
    return _numbered(found)


def chosen(labels: Sequence[str] | None, compiled: Sequence[Any]) -> list[str] | None:
    """The reader's own labels, checked: as many as kernels, all different. None stays None."""
    if labels is None:
        return None
    if isinstance(labels, str) or not all(isinstance(one, str) for one in labels):
        raise TypeError(f"labels={labels!r}: a list of texts is wanted, one for each kernel.")
    if len(labels) != len(compiled) or len(set(labels)) < len(labels):
        raise ValueError(
            f"{len(compiled)} kernels need as many labels, all different; given: {list(labels)}."
        )
    return list(labels)


def _differing(settings: Sequence[Mapping[str, str]]) -> list[str]:
    names = dict.fromkeys(name for one in settings for name in one)
    telling = [name for name in names if len({one.get(name) for one in settings}) > 1]
    return [
        ", ".join(
            one[name] if name == "options" else f"{name}={one[name]}"
            for name in telling
            if name in one
        )
        for one in settings
    ]


def _numbered(labels: Sequence[str]) -> list[str]:
    found: list[str] = []
    for label in labels:
        number, one = 1, label
        while one in found:  # two versions of one kernel
            number += 1
            one = f"{label} ({number})"
        found.append(one)
    return found
