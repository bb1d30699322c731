"""Where the labels of a roofline's points go: they and their lines keep out of one another."""

from __future__ import annotations

import math

AXES_WIDTH, AXES_HEIGHT = 7.9, 4.1  # inches
LINE = 0.155  # inches from one label to the next
MARK = 0.055  # inches from a marker's centre to its edge
GAP = 0.04  # inches between a label and the end of its line
NEAR = 0.14  # inches from a point at which its label needs no line to it

Box = tuple[float, float, float, float]  # left, bottom, right, top; inches in the axes
Spot = tuple[float, float]


def place_labels(
    spots: list[Spot],
    widths: list[float],
    taken: list[Box],
    crossed: list[Spot],
) -> list[Spot]:
    """Left bottom corners of labels, in inches: beside their spots, or above and below each other.

    The nearest free place wins, spots from the top down; `taken` are boxes to keep out of,
    `crossed` points of lines that are left free where that costs no long way. A label farther
    away has a line to its spot (`leader`), which keeps out of other labels, as they do of it.
    """
    marks = [(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in spots]
    labels: list[Box] = list(taken)
    leaders: list[tuple[Spot, Spot]] = []
    found: dict[int, Spot] = {}
    for index in sorted(range(len(spots)), key=lambda one: (-spots[one][1], spots[one][0], one)):
        spot, width = spots[index], widths[index]
        best = None
        for way, box in _candidates(spot, width):
            if best is not None and way >= best[0]:
                continue
            cost = way + 100 * sum(_overlap(box, other) for other in (*labels, *marks))
            cost += 0.7 * any(_overlap(box, (*point, *point)) for point in crossed)
            cost += 30 * sum(crosses(*line, box) for line in leaders)
            end = leader(spot, (box[0], box[1] + 0.02), width)
            if end is not None:
                cost += 30 * sum(crosses(spot, end, other) for other in labels)
                others = (mark for other, mark in enumerate(marks) if spots[other] != spot)
                cost += sum(crosses(spot, end, mark) for mark in others)
            if best is None or cost < best[0]:
                best = (cost, box, end)
        _, box, end = best or (0.0, (0.0, 0.0, width, LINE), None)
        labels.append(box)
        if end is not None:
            leaders.append((spot, end))
        found[index] = (box[0], box[1] + 0.02)
    return [found[index] for index in range(len(spots))]


def leader(spot: Spot, corner: Spot, width: float) -> Spot | None:
    """Where the line from a spot to its label ends; None where the label is near enough."""
    left, bottom = corner
    low, high = bottom - 0.02, bottom + LINE - 0.03
    x = min(max(spot[0], left - GAP), left + width + GAP)
    y = (low + high) / 2
    if left < x < left + width:  # above or below its point: up to the words, not through them
        y = low if spot[1] < low else high
    return (x, y) if math.dist((x, y), spot) > NEAR else None


def crosses(start: Spot, end: Spot, box: Box) -> bool:
    """Whether the straight line from `start` to `end` goes through the inside of `box`."""
    low, high = 0.0, 1.0  # the part of the line that is inside, as shares of its length
    for axis in (0, 1):
        step = end[axis] - start[axis]
        edges = box[axis] - start[axis], box[axis + 2] - start[axis]
        if abs(step) < 1e-12:
            if not edges[0] < 0 < edges[1]:
                return False
            continue
        enter, leave = sorted(edge / step for edge in edges)
        low, high = max(low, enter), min(high, leave)
    return high - low > 1e-9


def _candidates(spot: Spot, width: float) -> list[tuple[float, Box]]:
    """Places for a label inside the axes, each with how far it is out of the way."""
    x, y = spot
    places = []
    for line in range(-40, 41):
        bottom = y - 0.05 + line * LINE * 0.75
        for aside in (0.1, 0.6, 1.2):
            places += [(x + aside, bottom, line), (x - aside - width, bottom, line)]
        places.append((x - width / 2, bottom, line))
    found = []
    for left, bottom, line in places:
        box = (left, bottom - 0.02, left + width, bottom + LINE - 0.03)
        if box[0] < 0 or box[1] < 0 or box[2] > AXES_WIDTH or box[3] > AXES_HEIGHT:
            continue
        middle = abs(left - (x - width / 2)) < 1e-9
        # Far above or below its point a label would bar the way to those beyond it.
        way = abs(line) * LINE + middle * (0.1 if abs(line) <= 2 else 2.0)
        way += 0 if middle else 0.4 * (max(left - x, x - left - width) - 0.1)
        found.append((way, box))
    return found


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
