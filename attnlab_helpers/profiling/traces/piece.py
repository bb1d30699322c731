"""One event out of text that is damaged somewhere: where it ends, and what it says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice

import msgspec

from attnlab_helpers.profiling.traces.event import Event, decode_event, lenient_event
from attnlab_helpers.profiling.traces.repair import read_event

# How many "} , {" may lie inside one event (lists of objects in its args).
MOST_INNER_ENDS = 16
# When an event has no end within this, there is none to wait for.
LARGEST_EVENT = 16 * 1024 * 1024
LARGEST_BEFORE_JUNK = 64 * 1024

_FIELD = rb'"(?:ph|cat|name|pid|tid|ts|dur|tts|tdur|id|id2|bp|s|sf|args|cname|scope)"\s*:'
# From the last brace of one event to the first of the next, as sound text has it.
SEAM = re.compile(rb"\}\s*,\s*(?=\{\s*" + _FIELD + rb")")
BETWEEN = re.compile(rb"[\s,]*")
# Not behind a colon: an object there is a part of an event.
_BEGIN = re.compile(rb"[,\[}]\s*(?=\{\s*" + _FIELD + rb")")
_MAYBE_END = re.compile(rb"\}(?=\s*(?:,\s*)?(?:[{\]]|\Z))")


class Pieces:
    """Reads events one by one from `text`; `whole` says that nothing follows it.

    Positions may only grow from call to call: what lies ahead is searched for once, so that the
    time stays in proportion to the text, whatever is in it.
    """

    def __init__(self, text: bytes, whole: bool) -> None:
        self.text = text
        self.whole = whole
        self._view = memoryview(text)
        self._ahead: dict[re.Pattern[bytes], re.Match[bytes] | None] = {}

    def event_at(self, at: int) -> tuple[int, Event | None, tuple[str, ...]]:
        """The event at `at`: (where it ends, the event or None if it is lost, what was mended).

        The end is -1 when the text stops before the event does.
        """
        patient = not self.whole and len(self.text) - at <= LARGEST_EVENT
        first_end = -1
        if self.text[at : at + 1] == b"{":
            tried = 0
            for end in self._ends(at):
                read = self._read(at, end, mend=first_end < 0)
                if read is not None:
                    return end, *read
                first_end = end if first_end < 0 else first_end
                tried += 1
            if tried <= MOST_INNER_ENDS and patient:
                return -1, None, ()
            end = _sound_end(self.text, at)
            read = self._read(at, end, mend=False) if end > 0 else None
            if read is not None:
                return end, *read
        # Lost: go on at the next event, which may begin before this one seems to end.
        begin = self._next(_BEGIN, at + 1)
        if begin:
            return begin.end(), None, ()
        if self.whole:
            return (-1 if first_end == len(self.text) else first_end), None, ()
        return (-1 if patient else len(self.text)), None, ()

    def _ends(self, at: int) -> Iterator[int]:
        """Where the event at `at` may end, nearest first."""
        nearest = self._next(_MAYBE_END, at)
        if nearest is None:
            return
        ends = _MAYBE_END.finditer(self.text, nearest.start())
        for found in islice(ends, MOST_INNER_ENDS + 1):
            if found.end() < len(self.text) or self.whole:
                yield found.end()

    def _read(self, at: int, end: int, mend: bool) -> tuple[Event, tuple[str, ...]] | None:
        """The one event between `at` and `end`, mended if need be; None when it is not one."""
        view = self._view[at:end]
        try:
            # A valid object cannot go on behind its last brace: what reads is the event.
            return decode_event(view), ()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        if is_json(view):
            # Only the type of a field is unusual.
            mend = True
        else:
            # No repair across the beginning of another event.
            begin = self._next(_BEGIN, at + 1)
            mend = mend and (begin is None or begin.end() >= end)
        read = read_event(self.text[at:end]) if mend else None
        return None if read is None else (lenient_event(read[0]), read[1])

    def _next(self, pattern: re.Pattern[bytes], at: int) -> re.Match[bytes] | None:
        known = self._ahead.get(pattern)
        if pattern not in self._ahead or (known is not None and known.start() < at):
            known = self._ahead[pattern] = pattern.search(self.text, at)
        return known


def _sound_end(text: bytes, at: int) -> int:
    """Where a sound object ends that something senseless follows; -1 if it is not sound."""
    # Latin-1 keeps one character a byte, and quotes and braces where they are.
    piece = text[at : at + LARGEST_BEFORE_JUNK].decode("latin-1")
    try:
        return at + json.JSONDecoder().raw_decode(piece)[1]
    except (ValueError, RecursionError):
        return -1


def is_json(text: bytes | memoryview) -> bool:
    """Whether `text` is one sound JSON value."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
