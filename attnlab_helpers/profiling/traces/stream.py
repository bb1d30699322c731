"""A trace's text, block by block -> events: a fast way for sound text, a patient one for damage.

The fast way cuts the text where one event seems to end and the next to begin, and gives the piece
to msgspec. Only if that fails, the patient way goes through that piece event by event: it tries
each as it is, then mended (`repair`), and drops what no repair helps. So damage costs time
only where it is, and never more than the events it touches.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from attnlab_helpers.profiling.traces.columns import Columns
from attnlab_helpers.profiling.traces.event import Event, decode_events
from attnlab_helpers.profiling.traces.notes import NoteCollector, TraceError
from attnlab_helpers.profiling.traces.piece import BETWEEN, MOST_INNER_ENDS, SEAM, Pieces, is_json
from attnlab_helpers.profiling.traces.source import not_a_trace, other_list

WINDOW = 8 * 1024 * 1024
# What stands before the events (device properties, module tree) and after them.
LARGEST_SURROUNDINGS = 64 * 1024 * 1024
_ROOT_LIST = re.compile(rb'"traceEvents"\s*:\s*\[')
_LIST_END = re.compile(rb"(?:\}|\A)\s*(?:,\s*)?(?=\])")


class EventStream:
    """Reads blocks of text to their end into `columns`.

    Attributes, after `read`:
        objects: how many events of any kind were read.
        size: bytes of text read.
        surroundings: what the root object holds beside its events, as far as it could be read.
    """

    def __init__(
        self, blocks: Iterator[bytes], columns: Columns, notes: NoteCollector, source: str
    ) -> None:
        self.columns = columns
        self.notes = notes
        self.source = source
        self.objects = 0
        self.size = 0
        self.surroundings: dict[str, Any] = {}
        self._blocks = blocks
        self._buffer = b""
        self._at_end = False
        self._list_ended = False
        self._root_is_list = False

    def read(self) -> None:
        """Read everything.

        Raises:
            TraceError: the text is no trace.
        """
        self._find_list()
        self._fill(WINDOW)
        if refusal := other_list(self.source, self._buffer):
            raise TraceError(refusal)
        window = WINDOW
        while not self._list_ended:
            self._fill(window)
            if self._at_end and self._read_tail():
                break
            used = self._read_window()
            self._buffer = self._buffer[used:]
            # Nothing could be used: the event is longer than the window.
            window = WINDOW if used else 2 * window
            if self._at_end and not used and not self._list_ended:
                self._note_open_end()
                break
        if self._list_ended:
            self._read_rest()

    # The root

    def _find_list(self) -> None:
        self._fill(4096)
        self._buffer = self._buffer.lstrip()
        while not self._buffer and not self._at_end:
            self._fill(4096)
            self._buffer = self._buffer.lstrip()
        if self._buffer.startswith(b"["):
            self._root_is_list = True
            self._buffer = self._buffer[1:]
            return
        if not self._buffer.startswith(b"{"):
            raise TraceError(not_a_trace(self.source, self._buffer[:64]))
        searched = 0
        while not (found := _ROOT_LIST.search(self._buffer, searched)):
            if self._at_end or len(self._buffer) > LARGEST_SURROUNDINGS:
                raise TraceError(self._without_list())
            searched = max(0, len(self._buffer) - 64)
            self._fill(len(self._buffer) + WINDOW)
        self._read_surroundings(self._buffer[: found.end()] + b"]}")
        self._buffer = self._buffer[found.end() :]

    def _without_list(self) -> str:
        try:
            keys = list(msgspec.json.decode(self._buffer, type=dict[str, msgspec.Raw]))
        except msgspec.DecodeError:
            return (
                f'{self.source!r} begins like JSON, but the list "traceEvents" does not appear '
                "in it: it may be cut off, or another kind of file. Export the profile again "
                "with prof.export_chrome_trace(path)."
            )
        held = ", ".join(repr(key[:40]) for key in keys[:6]) or "nothing"
        return (
            f'{self.source!r} is JSON but no trace: it has no list "traceEvents" '
            f"(it holds {held}). This reader takes what export_chrome_trace writes."
        )

    def _read_surroundings(self, text: bytes) -> None:
        """Keep the fields of the root object that `text`, made whole, holds."""
        try:
            fields = json.loads(text.decode("utf-8", "replace"), strict=False)
        except (ValueError, RecursionError):
            # Only device properties matter here, and a trace reads well without them.
            self.notes.add(
                "info",
                "of the file beside the events (device properties and such) could not be read.",
                noun="part",
            )
            return
        if isinstance(fields, dict):
            fields.pop("traceEvents", None)
            self.surroundings.update(fields)

    def _read_rest(self) -> None:
        """What follows the list: fields of the root object, read when they are of bearable size."""
        self._fill(LARGEST_SURROUNDINGS)
        rest = self._buffer[1:].strip()
        self._buffer = b""
        if self._root_is_list or rest in (b"", b"}") or not self._at_end:
            return
        self._read_surroundings(b'{"traceEvents":[]' + rest)

    # The list

    def _fill(self, size: int) -> None:
        if len(self._buffer) >= size or self._at_end:
            return
        parts = [self._buffer]
        held = len(self._buffer)
        while held < size:
            block = next(self._blocks, b"")
            if not block:
                self._at_end = True
                break
            parts.append(block)
            held += len(block)
        self.size += held - len(self._buffer)
        self._buffer = b"".join(parts)

    def _read_tail(self) -> bool:
        """At the end of the file: read the last events if the list is closed as it should be."""
        closings = [found.end() for found in _LIST_END.finditer(self._buffer)]
        for closing in closings[: -MOST_INNER_ENDS - 1 : -1]:
            rest = self._buffer[closing + 1 :].strip()
            if not rest if self._root_is_list else is_json(b'{"traceEvents":[]' + rest):
                text = self._buffer[:closing].rstrip().rstrip(b",")
                if not self._read_fast(text):
                    return False
                self._buffer = self._buffer[closing:]
                self._list_ended = True
                return True
        return False

    def _read_window(self) -> int:
        """Read the events at the start of the buffer; returns how many bytes are done with."""
        size = len(self._buffer)
        seam = None
        # The last seam, looked for from the end in growing steps.
        start = size
        while seam is None and start > 0:
            start = max(0, size - max(64 * 1024, 4 * (size - start)))
            for seam in SEAM.finditer(self._buffer, start):  # noqa: B007
                pass
        if seam is None:
            return self._read_patiently(size)
        if self._read_fast(self._buffer[: seam.start() + 1]):
            return seam.end()
        return self._read_patiently(seam.end())

    def _read_fast(self, text: bytes) -> bool:
        try:
            events = decode_events(b"[" + text.lstrip(b", \t\r\n") + b"]")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        self.objects += len(events)
        self.columns.add(events)
        return True

    def _read_patiently(self, stop: int) -> int:
        """Read every event that begins before `stop`, one by one; returns where it ended."""
        text = self._buffer
        pieces = Pieces(text, self._at_end)
        events: list[Event] = []
        at = 0
        while True:
            at = BETWEEN.match(text, at).end()
            if at >= stop:
                break
            if text[at : at + 1] == b"]":
                self._list_ended = True
                break
            end, event, mended = pieces.event_at(at)
            if event is None and end < 0:
                break
            if event is None:
                self.notes.add(
                    "dropped",
                    "could not be read, nor mended; left out.",
                    noun="damaged piece",
                    first=text[at : at + 200].decode("utf-8", "replace"),
                )
            else:
                events.append(event)
                for what in mended:
                    self.notes.add("repaired", what, first=event.name)
            at = end
        self.objects += len(events)
        self.columns.add(events)
        if self._list_ended:
            self._buffer = text[at:]
            return 0
        return min(at, len(text))

    def _note_open_end(self) -> None:
        rest = BETWEEN.sub(b"", self._buffer, count=1)
        if rest:
            self.notes.add(
                "dropped",
                "is cut off by the end of the file; what followed it is missing too.",
                first=rest[:200].decode("utf-8", "replace"),
            )
        elif self._root_is_list:
            self.notes.add(
                "info",
                "was not closed, which the format allows: nothing tells whether any is missing.",
                noun="list of events",
            )
        else:
            self.notes.add(
                "dropped",
                "was not closed: the file was cut off between two events, what came next is lost.",
                noun="list of events",
            )
