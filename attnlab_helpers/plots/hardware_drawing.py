"""How the GPU's picture is drawn: three columns, dotted lines where one place enlarges another."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle

from .. import gpus
from ..gpus import GpuNumbers
from ..units import format_bytes
from . import style
from .axes import new_figure

WIDTH, HEIGHT = 10.4, 7.0  # inches, which are also the units of the drawing
THREADS_PER_BLOCK = 1024  # at most, on every card: CUDA C++ Programming Guide
REGISTERS_PER_THREAD = 255  # at most, since 3.5: the same table
SAME, REGISTERS, SHARED, L2, MEMORY = "#f0cfe1", "#a5e0cc", "#fbd78f", "#d8cff0", "#a9d3ee"
ROWS = {"thread": (5.06, 5.96), "warp": (4.02, 4.92), "block": (2.42, 3.88), "grid": (0.62, 2.28)}
LEFT, MIDDLE, RIGHT = 0.15, 4.05, 7.35  # where the three columns begin
RIM = style.OPERATOR_EDGE


def draw_hardware(
    card: GpuNumbers, memory: Mapping[str, Sequence[str]], title: str, provenance: str
) -> Figure:
    """The picture. memory: the lines to write at "registers", "shared", "l2" and "memory"."""
    figure, axes = new_figure(WIDTH, HEIGHT)
    axes.set_position((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(0, HEIGHT))
    axes.set_axis_off()
    _words(axes, LEFT, 6.82, title, size=12, weight="bold")
    note = (
        "Pink: one thread, and what holds it at each level; dotted lines enlarge. "
        "Memory: nearest at the top, not to scale."
    )
    _words(axes, LEFT, 6.54, note, size=8.5, color=style.MUTED_INK)
    heads = ("what you write", "what runs it", "which memory it uses")
    for x, head in zip((LEFT, MIDDLE, RIGHT), heads, strict=True):
        _words(axes, x, 6.24, head, size=10, weight="bold", color=style.MUTED_INK)
    for bottom, _ in list(ROWS.values())[:-1]:
        axes.plot([LEFT, RIGHT - 0.25], [bottom - 0.07] * 2, color=style.GRID, linewidth=1)
    _software(axes)
    _hardware(axes, card)
    _pyramid(axes, memory)
    source = textwrap.fill(provenance, 165)
    _words(axes, LEFT, 0.46, source, size=7.5, color=style.MUTED_INK, style="italic")
    return figure


@dataclass(frozen=True)
class _Place:
    """A rectangle: its corner below left, its size."""

    x: float
    y: float
    wide: float
    tall: float

    def draw(self, axes: Axes, fill: str, edge: str = RIM, width: float = 0.8) -> None:
        axes.add_patch(
            Rectangle(
                (self.x, self.y), self.wide, self.tall, facecolor=fill, edgecolor=edge,
                linewidth=width,
            )
        )  # fmt: skip

    def zoom(self, axes: Axes, above: _Place) -> None:
        """Two lines that say: the place above is this one, larger."""
        top = self.y + self.tall
        for x0, x1 in ((self.x, above.x), (self.x + self.wide, above.x + above.wide)):
            axes.plot([x0, x1], [top, above.y], color=style.INK, linewidth=0.8, linestyle=":")


def _software(axes: Axes) -> None:
    thread = _Place(LEFT, ROWS["thread"][0] + 0.1, 0.22, 0.22)
    thread.draw(axes, SAME)
    low = ROWS["warp"][0] + 0.12
    lane = 2.4 / gpus.WARP_THREADS
    lanes = [_Place(LEFT + number * lane, low, lane, 0.16) for number in range(gpus.WARP_THREADS)]
    low = ROWS["block"][0] + 0.12
    warps = [_Place(LEFT, low + 0.1 * number, 2.4, 0.07) for number in reversed(range(8))]
    low = ROWS["grid"][0] + 0.1
    blocks = [
        _Place(LEFT + 0.3 * column, low + 0.33 * row, 0.26, 0.27)
        for row in reversed(range(3))
        for column in range(8)
    ]
    for parts in (lanes, warps, blocks):
        for place in parts[1:]:
            place.draw(axes, style.LANE)
        parts[0].draw(axes, SAME)  # last, over its neighbours' rims
    most = THREADS_PER_BLOCK // gpus.WARP_THREADS
    _level(axes, "thread", "one element, or a few")
    _level(axes, "warp", f"{gpus.WARP_THREADS} threads, one instruction")
    _level(axes, "block", f"a Triton program: 1 to {most} warps")
    _level(axes, "grid", "a launch: as many blocks as you like")


def _level(axes: Axes, name: str, text: str) -> None:
    top = ROWS[name][1]
    _words(axes, LEFT, top - 0.04, name, size=10, weight="bold")
    _words(axes, LEFT, top - 0.25, text, size=8, color=style.MUTED_INK)


def _hardware(axes: Axes, card: GpuNumbers) -> None:
    low, _ = ROWS["thread"]
    lane = _Place(MIDDLE + 0.1, low + 0.1, 0.3, 0.68)
    lane.draw(axes, SAME)
    _Place(lane.x + 0.05, lane.y + 0.05, 0.2, 0.4).draw(axes, REGISTERS)
    _words(axes, MIDDLE + 0.55, low + 0.72, f"one lane; up to {REGISTERS_PER_THREAD}\n"
           "registers of its own", size=8.5)  # fmt: skip
    low, _ = ROWS["warp"]
    scheduler = _Place(MIDDLE, low + 0.08, 2.85, 0.74)
    scheduler.draw(axes, style.LANE)
    for number in range(gpus.WARP_THREADS):
        _Place(MIDDLE + 0.1 + number * 0.083, low + 0.16, 0.083, 0.16).draw(axes, style.CARD)
    first = _Place(MIDDLE + 0.1, low + 0.16, 0.083, 0.16)
    first.draw(axes, SAME)
    first.zoom(axes, lane)
    _words(axes, MIDDLE + 0.42, low + 0.76, "one scheduler: each clock one\ninstruction of one "
           "ready warp", size=8.5)  # fmt: skip
    low, _ = ROWS["block"]
    sm = _Place(MIDDLE, low + 0.05, 2.85, 1.38)
    sm.draw(axes, style.CARD)
    part = 2.65 / gpus.SCHEDULERS_PER_SM
    parts = [
        _Place(MIDDLE + 0.1 + number * part, low + 0.98, part - 0.06, 0.3)
        for number in range(gpus.SCHEDULERS_PER_SM)
    ]
    for number, place in enumerate(parts):
        place.draw(axes, style.LANE if number else SAME)
        _words(axes, place.x + place.wide / 2, place.y + 0.15, f"scheduler {number + 1}",
               size=6.5, ha="center", va="center")  # fmt: skip
    parts[0].zoom(axes, scheduler)
    bars = [
        (REGISTERS, f"{card.registers_per_sm:,} registers: "
         f"{format_bytes(card.register_bytes_per_sm)}"),
        (SHARED, f"shared memory: {format_bytes(card.shared_bytes_per_sm)}"),
    ]  # fmt: skip
    for number, (fill, text) in enumerate(bars):
        bar = _Place(MIDDLE + 0.1, low + 0.66 - 0.28 * number, 2.59, 0.24)
        bar.draw(axes, fill)
        _words(axes, bar.x + bar.wide / 2, bar.y + 0.12, text, size=8, ha="center", va="center")
    _words(axes, MIDDLE + 0.1, low + 0.31, f"one SM: up to {card.max_threads_per_sm:,} threads, "
           f"{card.max_warps_per_sm} warps", size=8.5)  # fmt: skip
    _whole_gpu(axes, card, sm)
    for row, text in (
        ("thread", "is one lane\nof its warp"),
        ("warp", "stays with\none scheduler"),
        ("block", "stays on one SM\nto its end, beside\nothers if they fit"),
        ("grid", "blocks go to SMs\nas these get free,\nin any order"),
    ):
        low, high = ROWS[row]
        middle = (low + high) / 2 - 0.12
        axes.annotate("", (MIDDLE - 0.08, middle), (LEFT + 2.55, middle),
                      arrowprops={"arrowstyle": "-|>", "color": style.INK, "lw": 1.4})  # fmt: skip
        _words(axes, LEFT + 3.2, middle + 0.07, text, size=7.5, ha="center", va="bottom")


def _whole_gpu(axes: Axes, card: GpuNumbers, sm: _Place) -> None:
    low, _ = ROWS["grid"]
    _Place(MIDDLE, low + 0.02, 2.85, 1.62).draw(axes, style.CARD)
    columns = max(1, -(-card.multiprocessors // 6))
    step = min(2.65 / columns, 0.13)
    first = None
    for number in range(card.multiprocessors):
        column, row = number % columns, number // columns
        one = _Place(MIDDLE + 0.1 + step * column, low + 1.47 - 0.13 * row, step * 0.8, 0.104)
        first = first or one
        one.draw(axes, SAME if number == 0 else style.LANE, width=0.5)
    if first:
        first.zoom(axes, sm)
    bars = [(L2, f"L2 cache: {format_bytes(card.l2_bytes)}"),
            (MEMORY, f"device memory: {format_bytes(card.memory_bytes)}")]  # fmt: skip
    _words(axes, MIDDLE + 0.1, low + 0.73, f"the GPU: {card.multiprocessors} SMs", size=8.5)
    for number, (fill, text) in enumerate(bars):
        bar = _Place(MIDDLE + 0.1, low + 0.33 - 0.25 * number, 2.65, 0.22)
        bar.draw(axes, fill)
        _words(axes, bar.x + bar.wide / 2, bar.y + 0.11, text, size=8, ha="center", va="center")


def _pyramid(axes: Axes, memory: Mapping[str, Sequence[str]]) -> None:
    # All of one height: the nearest memory must not look like the largest.
    center, top, bottom = (RIGHT + WIDTH - 0.15) / 2, ROWS["thread"][1], ROWS["grid"][0]
    gap = 0.1
    tall = (top - bottom + gap) / 4
    fills = {"registers": REGISTERS, "shared": SHARED, "l2": L2, "memory": MEMORY}
    levels = [
        (top - place * tall, top - (place + 1) * tall + gap, fill, memory[name])
        for place, (name, fill) in enumerate(fills.items())
    ]

    def half(y: float) -> float:
        return 0.75 + (top - y) / (top - bottom) * 0.7

    for high, low, fill, lines in levels:
        corners = [
            (center - half(high), high),
            (center + half(high), high),
            (center + half(low), low),
            (center - half(low), low),
        ]
        axes.add_patch(Polygon(corners, facecolor=fill, edgecolor=RIM, linewidth=0.8))
        middle = (high + low) / 2
        start = middle + 0.085 * (len(lines) - 1)
        for number, line in enumerate(lines):
            _words(axes, center, start - 0.17 * number, line, size=9.5 if not number else 8,
                   weight="normal" if number else "bold", ha="center", va="center")  # fmt: skip


def _words(axes: Axes, x: float, y: float, text: str, *, size: float, **more: object) -> None:
    settings = {"color": style.INK, "va": "top", "fontfamily": style.FONT, **more}
    axes.text(x, y, text, fontsize=size, **settings)
