"""Times: microseconds as a trace writes them -> exact integer nanoseconds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

import msgspec
import numpy as np

INT64_MAX = 2**63 - 1

_THREE_DECIMALS = re.compile(rb"(?:-?\d{1,15}\.\d{3}\n)*")
_WHOLE = re.compile(rb"(?:-?\d{1,15}\n)*")
_ONE_NUMBER = re.compile(r"-?\d{1,40}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,2})?")


def nanoseconds(texts: Sequence[msgspec.Raw | bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Microseconds as JSON text -> (nanoseconds as int64, whether each could be read).

    Exact: `1718000000000123.456` has more digits than a float holds, so no float is involved.
    Numbers in quotes count; parts of a nanosecond are rounded (half to even); what leaves int64
    stops at its end.
    """
    joined = b"\n".join(texts)
    if not joined:
        count = len(texts)
        return np.zeros(count, np.int64), np.zeros(count, bool)
    joined += b"\n"
    # The two ways Kineto writes a time, old and new, take one pass; all others go one by one.
    if _THREE_DECIMALS.fullmatch(joined):
        values = np.array(list(map(int, joined.replace(b".", b"").split())), np.int64)
        return values, np.ones(len(values), bool)
    if _WHOLE.fullmatch(joined):
        values = np.array(list(map(int, joined.split())), np.int64) * 1000
        return values, np.ones(len(values), bool)
    exact = [_one_time(text) for text in joined.decode("utf-8", "replace").split("\n")[:-1]]
    readable = np.array([value is not None for value in exact], bool)
    return np.array([value or 0 for value in exact], np.int64), readable


def _one_time(text: str) -> int | None:
    text = text.strip().strip('"').strip()
    if not _ONE_NUMBER.fullmatch(text):
        return None
    value = Decimal(text).scaleb(3)
    if abs(value) > INT64_MAX:
        return INT64_MAX if value > 0 else -INT64_MAX
    return int(value.to_integral_value())
