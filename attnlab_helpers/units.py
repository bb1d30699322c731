"""Numbers as people read them: times and bytes with the unit that fits, counts with commas."""

import math

_TIME_UNITS = ((1, "ns"), (1_000, "us"), (1_000_000, "ms"), (1_000_000_000, "s"))
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def format_ns(nanoseconds: float | None) -> str:
    """A duration in nanoseconds as text: ``61_100 -> "61.1 us"``, ``1_066_000 -> "1.066 ms"``.

    Three digits that count, four from a millisecond on; ``None`` and NaN give ``"-"``.
    """
    if nanoseconds is None or math.isnan(nanoseconds):
        return "-"
    if math.isinf(nanoseconds):
        return "inf" if nanoseconds > 0 else "-inf"
    sign = "-" if nanoseconds < 0 else ""
    size = abs(float(nanoseconds))
    for position, (factor, unit) in enumerate(_TIME_UNITS):
        digits = 3 if factor < 1_000_000 else 4
        text = _digits(size / factor, digits, whole=factor == 1)
        # 999.96 us rounds to 1000 us: that is 1 ms, so the next unit takes it.
        if float(text) < 1_000 or position == len(_TIME_UNITS) - 1:
            return f"{sign}{text} {unit}"
    raise AssertionError("unreachable: seconds take every size")


def format_bytes(size: float | None) -> str:
    """A number of bytes as text, in powers of 1024: ``268_435_456 -> "256 MiB"``.

    ``None`` and NaN give ``"-"``.
    """
    if size is None or math.isnan(size):
        return "-"
    sign = "-" if size < 0 else ""
    amount = abs(float(size))
    for position, unit in enumerate(_BYTE_UNITS):
        text = _digits(amount, 3, whole=position == 0)
        if float(text) < 1_024 or position == len(_BYTE_UNITS) - 1:
            return f"{sign}{text} {unit}"
        amount /= 1_024
    raise AssertionError("unreachable: PiB take every size")


def format_count(number: int, one: str, many: str | None = None) -> str:
    """A count with its noun: ``(1, "kernel") -> "1 kernel"``, ``(5000, ...) -> "5,000 ..."``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _digits(value: float, digits: int, whole: bool) -> str:
    """``value`` with ``digits`` digits that count; no exponent, no zeros after whole numbers."""
    if whole:
        return f"{value:.0f}"
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(value)))
    text = f"{value:.{min(decimals, digits - 1)}f}"
    return text.removesuffix("." + "0" * (len(text) - text.find(".") - 1)) if "." in text else text
