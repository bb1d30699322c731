"""Texts beside a lane, tied to their bars by lines, so that no text or line crosses a text."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from attnlab_helpers.plots.timeline.labels import Measure, wrap

PAD = 0.035  # inches between a text and what stands beside it
MOST_LINES = 4
SHUFFLES, SHUFFLED_MOST = 60, 24  # orders tried by chance when the plans below leave a text out
NARROWEST = 0.5  # inches: a column of text below this reads badly


@dataclass(frozen=True)
class Wish:
    """A text that wants a place at ``x``; ``weight`` decides who goes first when room is short."""

    key: int
    x: float
    text: str
    weight: float


@dataclass(frozen=True)
class Leader:
    """``lines`` from row ``row`` on, between ``left`` and ``right``; its line stands at ``x``."""

    key: int
    x: float
    lines: tuple[str, ...]
    row: int
    left: float
    right: float

    @property
    def last_row(self) -> int:
        return self.row + len(self.lines) - 1


@dataclass(frozen=True)
class _Form:
    lines: tuple[str, ...]
    width: float


Order = Callable[[Wish], float]
# The orders and sides to try: a stair that falls to the left, one that falls to the right, every
# text under its own bar, the heaviest first. Which one seats most depends on how the bars crowd.
_PLANS: tuple[tuple[Order, tuple[str, ...]], ...] = (
    (lambda wish: -wish.x, ("center", "right", "left")),
    (lambda wish: -wish.x, ("right", "left")),
    (lambda wish: wish.x, ("left", "right")),
    (lambda wish: wish.x, ("center", "left", "right")),
    (lambda wish: -wish.weight, ("center", "right", "left")),
    (lambda wish: wish.weight, ("center", "right", "left")),
)


def place_leaders(
    wishes: Sequence[Wish], *, measure: Measure, rows: int, low: float, high: float
) -> list[Leader]:
    """Places for ``wishes`` in ``rows`` rows from ``low`` to ``high``; row 0 is next to the bars.

    What finds no place is left out. Among several plans, the one that seats most wins, then the
    one that needs fewer rows.
    """
    forms = {wish.key: _forms(wish.text, measure, rows) for wish in wishes}
    best: list[Leader] = []
    for order, sides in _PLANS:
        found = _place(sorted(wishes, key=order), sides, forms, rows, low, high)
        best = max(best, found, key=_merit)
    middles = sorted(wish.x for wish in wishes)
    for share in (0.25, 0.5, 0.75):  # two stairs that fall away from each other
        if middles:
            split = middles[int(share * (len(middles) - 1))]
            left = sorted((w for w in wishes if w.x <= split), key=lambda wish: wish.x)
            right = sorted((w for w in wishes if w.x > split), key=lambda wish: -wish.x)
            found = _place(left, ("left", "right"), forms, rows, low, high)
            found = _place(right, ("right", "left"), forms, rows, low, high, found)
            best = max(best, found, key=_merit)
    shuffler = random.Random(0)  # the same picture from the same trace
    for _ in range(SHUFFLES if len(wishes) <= SHUFFLED_MOST else 0):
        if len(best) == len(wishes):
            break
        order = shuffler.sample(list(wishes), len(wishes))
        found = _place(order, ("center", "right", "left"), forms, rows, low, high)
        best = max(best, found, key=_merit)
    return best


def _merit(leaders: list[Leader]) -> tuple[int, int]:
    return len(leaders), -max((leader.last_row for leader in leaders), default=0)


def _place(
    wishes: Sequence[Wish],
    sides: tuple[str, ...],
    forms: dict[int, list[_Form]],
    rows: int,
    low: float,
    high: float,
    placed: Sequence[Leader] = (),
) -> list[Leader]:
    seated = list(placed)
    for wish in wishes:
        for spot in _spots(wish, sides, forms[wish.key], rows):
            if low <= spot.left and spot.right <= high and all(_apart(spot, o) for o in seated):
                seated.append(spot)
                break
    return seated


def _spots(wish: Wish, sides: tuple[str, ...], forms: list[_Form], rows: int) -> Iterator[Leader]:
    """Candidate places, the best first."""
    lefts = {"right": lambda w: PAD, "left": lambda w: -PAD - w, "center": lambda w: -w / 2}
    if sides[0] == "center":
        trials = [(row, form, side) for row in range(rows) for form in forms for side in sides]
    else:
        trials = [(row, form, side) for side in sides for form in forms[:1] for row in range(rows)]
    for row, form, side in trials:
        if row + len(form.lines) <= rows:
            left = wish.x + lefts[side](form.width)
            yield Leader(wish.key, wish.x, form.lines, row, left, left + form.width)


def _forms(text: str, measure: Measure, rows: int) -> list[_Form]:
    """The text on one line, then wrapped to two lines and more."""
    forms = [_Form((text,), measure(text))]
    for count in range(2, min(rows, MOST_LINES) + 1):
        width = max(NARROWEST, 1.12 * forms[0].width / count)
        lines = wrap(text, width, measure, count)
        if lines is not None and len(lines) > len(forms[-1].lines):
            forms.append(_Form(tuple(lines), max(measure(line) for line in lines)))
    return forms


def _apart(one: Leader, other: Leader) -> bool:
    """True when neither text touches the other's text or line."""
    if one.row <= other.last_row and other.row <= one.last_row:
        return one.right + 2 * PAD < other.left or one.left > other.right + 2 * PAD
    near, far = (one, other) if one.row < other.row else (other, one)
    return not near.left - PAD / 2 < far.x < near.right + PAD / 2
