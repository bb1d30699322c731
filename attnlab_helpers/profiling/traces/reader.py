"""Reading a trace: a file or bytes in, a `Trace` out, with notes about all that was not right."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd

from attnlab_helpers.profiling.traces.category import CATEGORIES
from attnlab_helpers.profiling.traces.cleaning import clean_times
from attnlab_helpers.profiling.traces.columns import Codes, Columns
from attnlab_helpers.profiling.traces.notes import NoteCollector, TraceError, visible
from attnlab_helpers.profiling.traces.source import GZIP, open_blocks, too_large
from attnlab_helpers.profiling.traces.stream import EventStream
from attnlab_helpers.profiling.traces.trace import Trace

__all__ = ["MAX_BYTES", "TraceError", "parse_trace", "read_trace"]

# Of text, unpacked. A larger trace would still be read, but no picture of it helps anyone.
MAX_BYTES = 2 * 2**30
# Files up to this size are kept with the trace, so that a capture can become a recording.
KEPT_BYTES = 8 * 2**20
# Above this a note advises to profile fewer steps.
LARGE_BYTES = 256 * 2**20

# Every "ph" that the Chrome trace format knows.
_PHASES = frozenset("BEXiICbnestfPNODMVvRcpS()TFa") | {"="}


def read_trace(path: str | Path, *, max_bytes: int = MAX_BYTES) -> Trace:
    """Read a Chrome trace as torch.profiler's export_chrome_trace (Kineto) writes it.

    Plain or gzip whatever the name says; an object with "traceEvents" or a bare list; old and new
    versions. Damage costs the events it touches, and `Trace.notes` says which. Memory grows with
    the number of events, not with the size of the file.

    Args:
        path: the file.
        max_bytes: refuse a trace whose unpacked text is longer than this.

    Raises:
        TraceError: there is nothing to read; the text says what the file is and what to do.
    """
    path = Path(path)
    if path.is_dir():
        raise TraceError(f"{path.name!r} is a folder, not a trace. {_traces_in(path)}")
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            head = file.read(2)
            file.seek(0)
            if head != GZIP and size > max_bytes:
                raise TraceError(too_large(path.name, max_bytes))
            if size <= KEPT_BYTES:
                return parse_trace(file.read(), path.name, max_bytes=max_bytes)
            return _read(file, path.name, max_bytes)
    except FileNotFoundError:
        raise TraceError(f"There is no file {path.name!r}. {_traces_in(path.parent)}") from None
    except OSError as error:
        raise TraceError(f"{path.name!r} could not be read: {error.strerror or error}.") from error


def parse_trace(data: bytes, source: str, *, max_bytes: int = MAX_BYTES) -> Trace:
    """Read a trace from bytes: what `read_trace` does with the content of a file.

    `source` names it in notes and errors: a file name without folder, or "live capture".

    Raises:
        TraceError: there is nothing to read.
    """
    raw = data if len(data) <= KEPT_BYTES else None
    return _read(io.BytesIO(data), source, max_bytes, raw)


def _read(stream: BinaryIO, source: str, max_bytes: int, raw: bytes | None = None) -> Trace:
    notes = NoteCollector()
    columns = Columns(notes)
    reading = EventStream(open_blocks(stream, notes, max_bytes, source), columns, notes, source)
    reading.read()
    _check_events(reading.objects, columns.phases, notes, source)
    columns.finish()
    events, details = _tables(columns, notes)
    if reading.size > LARGE_BYTES:
        notes.add(
            "info",
            f"of text, {len(events):,} events: to get a smaller trace, profile fewer steps "
            "(torch.profiler.schedule) and leave out with_stack.",
            noun="MiB",
            count=reading.size // 2**20,
        )
    properties = reading.surroundings.get("deviceProperties")
    return Trace(
        events,
        details,
        reading_notes=notes.notes(),
        source=source,
        device_properties=_only_objects(properties),
        raw=raw,
    )


def _check_events(objects: int, phases: set[str], notes: NoteCollector, source: str) -> None:
    """Refuse what turned out to be JSON of another kind."""
    if objects and not phases & _PHASES:
        raise TraceError(
            f"{source!r} is JSON but no trace: none of its {objects:,} objects has a field "
            '"ph" that says what kind of event it is.'
        )
    if not objects and notes.count("dropped"):
        found = "; ".join(note.text for note in notes.notes())
        raise TraceError(
            f"{source!r} begins like a trace, but not one event in it could be read ({found}). "
            "Export the profile again with prof.export_chrome_trace(path)."
        )


def _tables(columns: Columns, notes: NoteCollector) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The event table and the details of its GPU activities, cleaned and sorted."""
    names, held_controls = _texts(columns.names)
    codes, start, duration = (columns.events[key] for key in ("name", "start_ns", "duration_ns"))
    keep = clean_times(start, duration, notes, lambda row: names[codes[row]])
    unprintable = held_controls[codes] & keep
    notes.add(
        "repaired",
        "held control characters in the name; written out, as in \\x01 or \\b.",
        count=int(unprintable.sum()),
        first=names[codes[np.argmax(unprintable)]] if unprintable.any() else "",
    )
    rows = np.flatnonzero(keep)
    # Among equal starts the longer first: a parent stands before its children.
    rows = rows[np.lexsort((-duration[rows], start[rows]))]
    events = pd.DataFrame(
        {
            "name": _column(names[codes[rows]]),
            "category": pd.Categorical.from_codes(
                columns.events["category"][rows], categories=list(CATEGORIES)
            ),
            "start_ns": start[rows],
            "duration_ns": duration[rows],
            "pid": _column(_texts(columns.pids)[0][columns.events["pid"][rows]]),
            "tid": _column(_texts(columns.tids)[0][columns.events["tid"][rows]]),
            "correlation": columns.events["correlation"][rows],
        }
    )
    label = np.full(len(keep), -1, np.int64)
    label[rows] = np.arange(len(rows))
    event = label[columns.gpu["event"]]
    chosen = np.flatnonzero(event >= 0)
    chosen = chosen[np.argsort(event[chosen])]
    details = pd.DataFrame({name: values[chosen] for name, values in columns.gpu.items()})
    details["event"] = event[chosen]
    for shape in ("grid", "block"):
        details[shape] = _column(columns.gpu[shape][chosen])
    return events, details


def _texts(codes: Codes) -> tuple[np.ndarray, np.ndarray]:
    """The distinct values as texts that can be shown, and which of them had to be changed."""
    written = [str(value) for value in codes]
    shown = [visible(text) for text in written]
    changed = [a != b for a, b in zip(written, shown, strict=True)]
    return np.array(shown, object), np.array(changed, bool)


def _column(values: np.ndarray) -> pd.Series:
    # "str" is pandas' own text type from version 3 on, and Python's str before.
    return pd.Series(values, dtype="str")


def _only_objects(properties: Any) -> tuple[dict[str, Any], ...]:
    if not isinstance(properties, list):
        return ()
    return tuple(device for device in properties if isinstance(device, dict))


def _traces_in(folder: Path) -> str:
    """What could be read instead."""
    if not folder.is_dir():
        return f"Nor is there a folder {folder.name!r}."
    found = sorted(
        entry.name
        for pattern in ("*.json", "*.json.gz")
        for entry in folder.glob(pattern)
        if entry.is_file()
    )
    if not found:
        return "There is no .json or .json.gz file in that folder either."
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return f"Traces in that folder: {', '.join(found[:5])}{more}."
