"""Texts for the still picture: made drawable, measured, shortened, wrapped."""

import unicodedata
from collections.abc import Callable
from functools import lru_cache

from attnlab_helpers.plots.style import FONT

Measure = Callable[[str], float]


@lru_cache(maxsize=1)
def _font():
    """Our own FT2Font: matplotlib's cached one changes size under other drawings."""
    from matplotlib.font_manager import FontProperties, findfont
    from matplotlib.ft2font import FT2Font

    font = FT2Font(findfont(FontProperties(family=FONT)))
    font.set_size(100, 72)
    return font, frozenset(font.get_charmap())


def ruler(size_pt: float) -> Measure:
    """A function that gives the width in inches of a text set at ``size_pt``."""
    font, _ = _font()

    @lru_cache(maxsize=4096)
    def width(text: str) -> float:
        font.set_text(text, 0.0)
        return font.get_width_height()[0] / 64 / 100 * size_pt / 72

    return width


def printable(text: str) -> str:
    """``text`` on one line with only characters the font can draw; direction marks are dropped."""
    _, known = _font()
    kept = []
    for character in text:
        category = unicodedata.category(character)
        if category in ("Cc", "Zl", "Zp", "Zs"):
            kept.append(" ")
        elif category not in ("Cf", "Cs", "Co", "Cn"):
            kept.append(character if ord(character) in known else "\N{WHITE SQUARE}")
    return " ".join("".join(kept).split())


def shorten(text: str, width: float, measure: Measure) -> str:
    """``text``, cut at its end to fit ``width``; empty when fewer than four characters stay."""
    if measure(text) <= width:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if measure(text[:middle] + "\N{HORIZONTAL ELLIPSIS}") <= width:
            low = middle
        else:
            high = middle - 1
    return text[:low] + "\N{HORIZONTAL ELLIPSIS}" if low >= 4 else ""


def shorten_middle(text: str, width: float, measure: Measure) -> str:
    """``text``, cut in its middle to fit ``width``: what tells two long names apart is often last.

    Six signs at the least stay, whatever the width.
    """
    if measure(text) <= width:
        return text
    low, high = 6, len(text)
    while low < high:
        kept = (low + high + 1) // 2
        if measure(_without_middle(text, kept)) <= width:
            low = kept
        else:
            high = kept - 1
    return _without_middle(text, low)


def _without_middle(text: str, kept: int) -> str:
    head = (kept + 1) // 2
    return text[:head] + "\N{HORIZONTAL ELLIPSIS}" + text[len(text) - (kept - head) :]


def wrap(text: str, width: float, measure: Measure, most_lines: int) -> list[str] | None:
    """``text`` broken at spaces into ``most_lines`` lines of ``width``; None if too long."""
    lines: list[str] = []
    for word in text.split():
        if measure(word) > width:
            return None
        if lines and measure(f"{lines[-1]} {word}") <= width:
            lines[-1] = f"{lines[-1]} {word}"
        else:
            lines.append(word)
    return lines if len(lines) <= most_lines else None
