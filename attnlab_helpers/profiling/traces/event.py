"""One event: the fields of it that are kept, read fast when they are as Kineto writes them."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any

import msgspec

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
NO_TEXT = msgspec.Raw()


class Args(msgspec.Struct, frozen=True, gc=False):
    """What Kineto says about a GPU activity or a launch. -1, nan or nothing: not said."""

    correlation: Int64 = -1
    device: Int64 = -1
    stream: Int64 = -1
    grid: msgspec.Raw = NO_TEXT
    block: msgspec.Raw = NO_TEXT
    registers: Int64 = msgspec.field(default=-1, name="registers per thread")
    shared_bytes: Int64 = msgspec.field(default=-1, name="shared memory")
    occupancy_percent: float = msgspec.field(default=math.nan, name="est. achieved occupancy %")
    bytes: Int64 = -1


NO_ARGS = Args()


class Event(msgspec.Struct, gc=False):
    """An event of a Chrome trace. `ts` and `dur` (microseconds) stay text: see `times`."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = ""
    tid: int | str = ""
    ts: msgspec.Raw = NO_TEXT
    dur: msgspec.Raw = NO_TEXT
    args: Args | None = NO_ARGS


decode_events = msgspec.json.Decoder(list[Event]).decode
decode_event = msgspec.json.Decoder(Event).decode


def lenient_event(fields: dict[str, Any]) -> Event:
    """An event from fields of any type: what has the wrong type counts as not said.

    `fields` comes from `repair.read_event`, which leaves floats as text.
    """
    args = fields.get("args")
    if not isinstance(args, dict):
        args = {}
    return Event(
        ph=_text(fields.get("ph")),
        cat=_text(fields.get("cat")),
        name=_text(fields.get("name")),
        pid=_text(fields.get("pid")),
        tid=_text(fields.get("tid")),
        ts=_number_text(fields.get("ts")),
        dur=_number_text(fields.get("dur")),
        args=Args(
            correlation=_whole(args.get("correlation")),
            device=_whole(args.get("device")),
            stream=_whole(args.get("stream")),
            grid=msgspec.Raw(json.dumps(args.get("grid")).encode()),
            block=msgspec.Raw(json.dumps(args.get("block")).encode()),
            registers=_whole(args.get("registers per thread")),
            shared_bytes=_whole(args.get("shared memory")),
            occupancy_percent=_real(args.get("est. achieved occupancy %")),
            bytes=_whole(args.get("bytes")),
        ),
    )


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _number_text(value: Any) -> msgspec.Raw:
    """The text of a number; nothing for what is none (a line break in it would shift others)."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return NO_TEXT
    text = str(value)
    return msgspec.Raw(text.encode()) if text.isascii() and text.isprintable() else NO_TEXT


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return -1
    try:
        number = float(value)
        whole = value if isinstance(value, int) else int(number)
    except (ValueError, OverflowError):
        return -1
    return whole if whole == number and -(2**63) <= whole < 2**63 else -1


def _real(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan
