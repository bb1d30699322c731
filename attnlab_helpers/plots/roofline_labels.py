"""Where the labels of a roofline's points go, so that none covers another."""

from __future__ import annotations

AXES_WIDTH, AXES_HEIGHT = 7.9, 4.1  # inches
LINE = 0.155  # inches from one label to the next
MARK = 0.055  # inches from a marker's centre to its edge

Box = tuple[float, float, float, float]  # left, bottom, right, top; inches in the axes


def place_labels(
    spots: list[tuple[float, float]],
    widths: list[float],
    taken: list[Box],
    crossed: list[tuple[float, float]],
) -> list[tuple[float, float]]:
    """Left bottom corners of labels, in inches: beside their spots, or above and below each other.

    The nearest free place wins, spots from the top down; `taken` are boxes to keep out of,
    `crossed` points of lines that are left free where that costs no long way.
    """
    marks = [(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in spots]
    placed: list[Box] = [*taken, *marks]
    found: dict[int, tuple[float, float]] = {}
    for index in sorted(range(len(spots)), key=lambda one: (-spots[one][1], spots[one][0], one)):
        x, y = spots[index]
        width = widths[index]
        best = None
        for line in range(-40, 41):
            for left in (x + 0.1, x - 0.1 - width, x - width / 2, x + 0.6, x - 0.6 - width):
                bottom = y - 0.05 + line * LINE * 0.75
                box = (left, bottom - 0.02, left + width, bottom + LINE - 0.03)
                if box[0] < 0 or box[1] < 0 or box[2] > AXES_WIDTH or box[3] > AXES_HEIGHT:
                    continue
                middle = abs(left - (x - width / 2)) < 1e-9
                cost = abs(line) * LINE + 0.4 * (abs(left - x) - 0.1) * (not middle)
                cost += 0.1 * middle + 100 * sum(_overlap(box, other) for other in placed)
                cost += 0.7 * any(_overlap(box, (*point, *point)) for point in crossed)
                if best is None or cost < best[0]:
                    best = (cost, box)
        box = best[1] if best else (0.0, 0.0, width, LINE)
        placed.append(box)
        found[index] = (box[0], box[1] + 0.02)
    return [found[index] for index in range(len(spots))]


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
