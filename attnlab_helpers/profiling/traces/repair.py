"""One event whose text is not JSON: what it must have said, and what had to be mended.

Nothing is made up: a repair changes how a text is read (a quote, a backslash), never a number. A
value that is no JSON (N/A, nan) becomes "no value".
"""

from __future__ import annotations

import json
import re
from typing import Any

# Beyond this an "event" is a run of damage, and looking for quotes in it costs more than it gives.
LONGEST_REPAIR = 1_000_000

BARE_WORD = "held a bare word such as N/A or NaN where a value belongs; read as no value."
CONTROL = "held a raw control character inside a text; read as written."
NOT_UTF8 = "held bytes that are not UTF-8; shown as \ufffd."
BACKSLASH = "held a backslash that is no JSON escape; read as a plain backslash."
INNER_QUOTE = "held an unescaped quote inside a text; read as part of it."
MISSING_QUOTE = "missed the quote before the name of a field; read as if it were there."
EMPTY = "held a field without a value; read as no value."

_BARE = re.compile(r'[^,{}\[\]"\n]+')
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_UNQUOTED_KEY = re.compile(r'([A-Za-z_][^":,{}\[\]\n]{0,80})"\s*:')
_GOOD_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_ANY_ESCAPE = re.compile(r'\\(?:["\\]|u[0-9a-fA-F]{4}|.|$)', re.DOTALL)
_AFTER_KEY = re.compile(r"\s*:")
_AFTER_ITEM = re.compile(r"\s*[,\]]")
_AFTER_VALUE = re.compile(r'\s*(?:\}\s*(?:[,}\]]|\Z)|,\s*"?[A-Za-z_][^":,{}]{0,80}"\s*:)')


def read_event(data: bytes) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """The event that `data` holds, floats as their text, and what was mended to read it.

    Returns None when `data` is no event, mended or not.
    """
    mended: list[str] = []
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", errors="replace")
        mended.append(NOT_UTF8)
    event = _parse(text, mended)
    if event is None and len(text) <= LONGEST_REPAIR:
        event = _parse(_Rewriter(text, mended).rewrite(), mended)
    if event is None:
        return None
    return event, tuple(dict.fromkeys(mended))


def _parse(text: str, mended: list[str]) -> dict[str, Any] | None:
    found: list[str] = []

    def no_value(word: str) -> None:
        found.append(BARE_WORD)

    # Floats stay text: a time in microseconds has more digits than a float can hold.
    options: dict[str, Any] = {"parse_float": str, "parse_constant": no_value}
    try:
        event = json.loads(text, **options)
    except (ValueError, RecursionError):
        found.clear()
        try:
            event = json.loads(text, strict=False, **options)
        except (ValueError, RecursionError):
            return None
        found.append(CONTROL)
    if not isinstance(event, dict):
        return None
    mended.extend(found)
    return event


class _Rewriter:
    """Writes a damaged object again, sign by sign, as JSON that a parser takes."""

    def __init__(self, text: str, mended: list[str]) -> None:
        self.text = text
        self.mended = mended
        self.at = 0
        self.out: list[str] = []
        self.open: list[str] = []
        self.key_next = False

    def rewrite(self) -> str:
        while self.at < len(self.text):
            sign = self.text[self.at]
            if sign == '"':
                self._string()
            elif sign in "{[":
                self.open.append(sign)
                self.key_next = sign == "{"
                self._take(sign)
            elif sign in "}]":
                self._fill_empty()
                if self.open:
                    self.open.pop()
                self.key_next = False
                self._take(sign)
            elif sign == ",":
                self._fill_empty()
                self.key_next = bool(self.open) and self.open[-1] == "{"
                self._take(sign)
            elif sign == ":":
                self.key_next = False
                self._take(sign)
            elif sign.isspace():
                self.at += 1
            elif self.key_next and (key := _UNQUOTED_KEY.match(self.text, self.at)):
                self.mended.append(MISSING_QUOTE)
                self.out.append(json.dumps(key[1].strip()) + ":")
                self.key_next = False
                self.at = key.end()
            else:
                self._bare()
        return "".join(self.out)

    def _take(self, sign: str) -> None:
        self.out.append(sign)
        self.at += 1

    def _fill_empty(self) -> None:
        if self.out and self.out[-1].endswith(":"):
            self.mended.append(EMPTY)
            self.out.append("null")

    def _bare(self) -> None:
        found = _BARE.match(self.text, self.at)
        word = found[0].strip() if found else self.text[self.at]
        self.at = found.end() if found else self.at + 1
        if _NUMBER.fullmatch(word) or word in ("true", "false", "null"):
            self.out.append(word)
        else:
            self.mended.append(BARE_WORD)
            self.out.append("null")

    def _string(self) -> None:
        """Copy a string up to the quote that what follows it shows to be its last."""
        is_key = self.key_next
        if is_key:
            ends = _AFTER_KEY
        elif self.open and self.open[-1] == "[":
            ends = _AFTER_ITEM
        else:
            ends = _AFTER_VALUE
        pieces: list[str] = []
        start = self.at + 1
        at = start
        while True:
            quote = self.text.find('"', at)
            if quote < 0:
                # No end in sight: leave it, the parser will refuse the event.
                self.out.append(self.text[self.at :])
                self.at = len(self.text)
                return
            at = quote + 1
            before = self.text[start:quote]
            if (len(before) - len(before.rstrip("\\"))) % 2:
                continue
            pieces.append(before)
            if ends.match(self.text, at):
                break
            self.mended.append(INNER_QUOTE)
            start = at
        self.out.append('"' + '\\"'.join(self._escapes(piece) for piece in pieces) + '"')
        self.at = at

    def _escapes(self, body: str) -> str:
        if "\\" not in body:
            return body
        if all(_GOOD_ESCAPE.fullmatch(escape) for escape in _ANY_ESCAPE.findall(body)):
            return body
        # One wrong escape shows that the writer escaped nothing: the \b of foo\bar is no backspace.
        self.mended.append(BACKSLASH)
        return _ANY_ESCAPE.sub(
            lambda found: found[0] if found[0] in ('\\"', "\\\\") else "\\" + found[0], body
        )
