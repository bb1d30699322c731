"""Ticks of a time axis: round numbers in the unit that fits the span."""

import math

_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns"))


def axis_ticks(
    start_ns: float, end_ns: float, wanted: int = 8
) -> tuple[list[float], list[str], str]:
    """Tick positions in ns, their texts, and the unit: steps of 1, 2 or 5 times a power of ten."""
    span = max(1.0, end_ns - start_ns)
    raw = span / wanted
    power = 10 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)
    step = max(1.0, step)
    factor, unit = next((f, u) for f, u in _UNITS if span >= 2 * f or f == 1)
    decimals = max(0, -math.floor(math.log10(step / factor) + 1e-9))
    first = math.ceil(start_ns / step - 1e-9)
    last = math.floor(end_ns / step + 1e-9)
    ticks = [index * step for index in range(first, last + 1)]
    return ticks, [f"{tick / factor:.{decimals}f}" for tick in ticks], unit
