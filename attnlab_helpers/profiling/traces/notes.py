"""Notes: what a reader of a trace must know about how it was read."""

from __future__ import annotations

from dataclasses import dataclass

NOTE_KINDS = ("dropped", "clipped", "repaired", "unlinked", "overlap", "info")
EXAMPLE_LENGTH = 60


class TraceError(ValueError):
    """Nothing of a trace could be read; the text says what it is and what to do."""


@dataclass(frozen=True)
class Note:
    """One plain sentence about what was dropped, clipped, repaired or could not be linked.

    Attributes:
        kind: one of `NOTE_KINDS`.
        text: the sentence, as plain text. It may quote the file: escape it before it enters HTML.
        count: how many events (activities, bytes, ...) the sentence speaks of.
    """

    kind: str
    text: str
    count: int

    def __str__(self) -> str:
        return self.text


def visible(text: str) -> str:
    """`text` with every control character and lone surrogate written out (`\\x01` as six signs).

    Neither may stand in an SVG or an HTML page, and a backspace in a name is in truth the `\\b`
    of an unescaped Windows path: written out, it reads as it was meant.
    """
    if text.isprintable():
        return text
    return "".join(_VISIBLE.get(sign) or _written_out(sign) for sign in text)


_VISIBLE = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _written_out(sign: str) -> str:
    code = ord(sign)
    if code < 0x20 or 0x7F <= code < 0xA0:
        return f"\\x{code:02x}"
    if 0xD800 <= code <= 0xDFFF or code in (0x2028, 0x2029, 0xFFFE, 0xFFFF):
        return f"\\u{code:04x}"
    return sign


def example(text: str) -> str:
    """`text` on one line and short enough to be quoted in a note."""
    text = visible(" ".join(text.split()))
    return text if len(text) <= EXAMPLE_LENGTH else text[: EXAMPLE_LENGTH - 3] + "..."


def counted(count: int, noun: str) -> str:
    """`1 event`, `2,400 events`, `3 GPU activities`; a unit stays (`2 MiB`)."""
    if count != 1 and noun != "MiB":
        ending = "es" if noun.endswith("ch") else "s"
        noun = noun[:-1] + "ies" if noun.endswith("y") else noun + ending
    return f"{count:,} {noun}"


class NoteCollector:
    """Gathers notes: one a kind of damage, with its count and its first example."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], tuple[int, str]] = {}

    def add(
        self, kind: str, what: str, *, noun: str = "event", count: int = 1, first: str = ""
    ) -> None:
        """Note `count` things. The sentence becomes `<count> <noun>s <what> First: <first>.`"""
        if count <= 0:
            return
        known, known_first = self._found.get((kind, what, noun), (0, ""))
        self._found[kind, what, noun] = (known + count, known_first or first)

    def count(self, kind: str) -> int:
        """How many things were noted under `kind` so far."""
        return sum(count for (k, _, _), (count, _) in self._found.items() if k == kind)

    def notes(self) -> tuple[Note, ...]:
        """The notes, in the order of `NOTE_KINDS`."""
        made = []
        for (kind, what, noun), (count, first) in self._found.items():
            text = f"{counted(count, noun)} {what}"
            if first:
                text += f" First: {example(first)}"
            made.append(Note(kind, text, count))
        return tuple(sorted(made, key=lambda note: NOTE_KINDS.index(note.kind)))
