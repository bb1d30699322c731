"""The still strip: the frames that tell the story, for paper and where no script may run."""

from __future__ import annotations

import io

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from PIL import Image

from .. import style
from ..timeline.labels import ruler, wrap
from .frames import Frame, Walk, number
from .ghost import SIDE, draw_matrix, free_rows
from .places import Places
from .shades import faded, lit_keys, shares

BLUE, ORANGE, GREEN = (style.WORK_STYLES[kind].color for kind in ("matmul", "copy", "attention"))
CELL_WIDTH, CELL_HEIGHT, COLUMNS = 3.5, 2.92, 3  # inches
COLOURS = 96  # of the PNG: enough for a small photograph


def telling(walks: tuple[Walk, ...]) -> list[tuple[Walk, Frame]]:
    """Up to six frames: start, first tile, a rescaling one, end; causal: the diagonal, a skip."""
    first = walks[0]
    computed = [frame for frame in first.frames if frame.phase == "scores"]
    later = [frame for frame in computed if frame.rescale[first.row] > 0]
    chosen = [first.frames[0], *computed[:1]]
    if later:
        chosen.append(min(later, key=lambda frame: float(frame.rescale[first.row])))
    shown = [(first, frame) for frame in chosen]
    causal = next((one for one in walks if one.name == "causal"), None)
    if causal is not None:
        masked = [step.key_tile for step in causal.steps if step.state == "masked in part"]
        of_diagonal = [f for f in causal.frames if f.phase == "scores" and f.tile in masked[:1]]
        skips = [frame for frame in causal.frames if frame.phase == "skip"]
        known = {id(frame) for frame in chosen}
        shown += [(causal, f) for f in (*of_diagonal, *skips[:1]) if id(f) not in known]
    end = (first, first.frames[-1])
    if len(walks) == 1:
        return [*shown, end]
    place = len(chosen)
    return [*shown[:place], end, *shown[place:]]


def draw(walks: tuple[Walk, ...], places: Places, title: str, provenance: str) -> Figure:
    """The telling frames side by side."""
    frames = telling(walks)
    lines = -(-len(frames) // COLUMNS)
    width, height = COLUMNS * CELL_WIDTH, lines * CELL_HEIGHT + 0.75
    with rc_context({"font.family": style.FONT, "hatch.linewidth": 0.6}):
        figure = Figure(figsize=(width, height), dpi=100, facecolor=style.CARD)
        sheet = figure.add_axes((0, 0, 1, 1))
        sheet.set_xlim(0, width)
        sheet.set_ylim(height, 0)  # inches from the top left
        sheet.set_axis_off()
        _write(sheet, 0.12, 0.25, title, 11, weight="bold")
        for place, (walk, frame) in enumerate(frames):
            line, column = divmod(place, COLUMNS)
            corner = (column * CELL_WIDTH + 0.12, line * CELL_HEIGHT + 0.46)
            _cell(figure, sheet, walk, frame, places, corner, place, len(walks) > 1)
        _write(sheet, 0.12, height - 0.12, provenance, 8, color=style.MUTED_INK, slant="italic")
    return figure


def strip_png(figure: Figure) -> bytes:
    """PNG bytes with a palette made for this picture: it holds a photograph."""
    raw = io.BytesIO()
    figure.savefig(raw, format="png", metadata={"Software": None})
    image = Image.open(raw).convert("RGB")
    small = image.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    out = io.BytesIO()
    small.save(out, format="png", optimize=True)
    return out.getvalue()


def _cell(
    figure: Figure, sheet: Axes, walk: Walk, frame: Frame, places: Places,
    corner: tuple[float, float], place: int, named: bool,
) -> None:  # fmt: skip
    x, y = corner
    room = CELL_WIDTH - 0.3
    mode = f" ({walk.name})" if named else ""
    for shift, line in enumerate(
        wrap(f"{place + 1}. {frame.title}{mode}", room, ruler(8.5), 2) or []
    ):
        _write(sheet, x, y + 0.14 * shift, line, 8, weight="bold")
    y += 0.32
    _write(sheet, x, y, "HBM: q, k, v", 7, color=style.MUTED_INK)
    where = "SRAM: scores" if free_rows(walk) else "SRAM: scores, never whole"
    _write(sheet, x + 1.9, y, where, 7, color=style.MUTED_INK)
    y += 0.07
    longest = max(places.rows, places.columns)
    box = (x, y, SIDE * places.columns / longest, SIDE * places.rows / longest)
    _photograph(_inset(figure, box), walk, frame, places)
    draw_matrix(_inset(figure, (x + 1.9, y, SIDE, SIDE)), walk, frame)
    _arrow(sheet, frame, x + SIDE + 0.06, x + 1.84, y + SIDE / 2)
    _bars(_inset(figure, (x, y + SIDE + 0.1, room, 0.34)), walk, frame)
    for line, text in enumerate(_numbers(walk, frame)):
        size = min(8.0, 8.0 * room / ruler(8)(text))
        _write(sheet, x, y + SIDE + 0.61 + 0.17 * line, text, size)


def _numbers(walk: Walk, frame: Frame) -> tuple[str, str]:
    """Two lines about the query that is followed: what the tile made of m and l, and of acc."""
    after, row, name = frame.running, walk.row, "acc"
    m, l = number(float(after.m[row]), 3), number(float(after.l[row]), 3)  # noqa: E741
    line = f"query {walk.query}:  m {m}   l {l}"
    if frame.phase == "scores":
        after = walk.steps[frame.tile].running
        before = walk.frames[walk.frames.index(frame) - 1].running
        olds = number(float(before.m[row]), 3), number(float(before.l[row]), 3)
        news = number(float(after.m[row]), 3), number(float(after.l[row]), 3)
        m, l = (  # noqa: E741
            old if old == new else f"{old} \N{RIGHTWARDS ARROW} {new}"
            for old, new in zip(olds, news, strict=True)
        )
        line = (
            f"query {walk.query}:  m {m}   rescale {number(float(frame.rescale[row]), 3)}   l {l}"
        )
    values = after.acc if frame.output is None else frame.output
    if frame.output is not None:
        name = "acc / l"
    told = [number(value, 3) for value in values[row, :4].tolist()]
    more = "  \N{HORIZONTAL ELLIPSIS}" if values.shape[-1] > 4 else ""
    return line, f"{name}  {'  '.join(told)}{more}"


def _inset(figure: Figure, box: tuple[float, float, float, float]) -> Axes:
    """Axes at x, y, width, height in inches from the top left."""
    x, y, width, height = box
    all_width, all_height = figure.get_size_inches()
    axes = figure.add_axes(
        (x / all_width, 1 - (y + height) / all_height, width / all_width, height / all_height)
    )
    axes.set_xticks([])
    axes.set_yticks([])
    return axes


def _photograph(axes: Axes, walk: Walk, frame: Frame, places: Places) -> None:
    rows, columns = places.rows, places.columns
    lit = lit_keys(walk, frame)
    pixels = faded(places, lit)
    axes.imshow(pixels, extent=(0, columns, rows, 0), interpolation="nearest", aspect="auto")
    # The wider line first, so that both are seen where the block meets its own keys.
    for tokens, color, line in ((walk.queries, BLUE, 3.4), (lit, ORANGE, 1.5)):
        for x, y, width, height in places.boxes(tokens) if tokens is not None else ():
            axes.add_patch(
                Rectangle((x, y), width, height, fill=False, edgecolor=color, linewidth=line)
            )
    line, column = divmod(walk.query, columns)
    if line < rows:
        axes.plot(
            column + 0.5, line + 0.5, "o", markersize=3.5, color=BLUE, markeredgecolor="white"
        )
    axes.set_xlim(-0.15, columns + 0.15)
    axes.set_ylim(rows + 0.15, -0.15)
    axes.set_axis_off()


def _arrow(sheet: Axes, frame: Frame, left: float, right: float, y: float) -> None:
    what = {"start": ("Q", BLUE), "scores": ("K, V", ORANGE), "end": ("out", GREEN)}
    if frame.phase not in what:
        _write(sheet, (left + right) / 2, y, "no read", 7, color=style.MUTED_INK, ha="center")
        return
    word, color = what[frame.phase]
    ends = ((left, y), (right, y)) if frame.phase != "end" else ((right, y), (left, y))
    sheet.add_patch(
        FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=11, color=color, linewidth=1.8)
    )
    _write(sheet, (left + right) / 2, y - 0.09, word, 8, color=color, ha="center", weight="bold")


def _bars(axes: Axes, walk: Walk, frame: Frame) -> None:
    values = shares(walk, frame)
    axes.bar(np.arange(len(values)) + 0.5, values, width=1.0, color=GREEN, linewidth=0)
    lit = lit_keys(walk, frame)
    if lit is not None:
        axes.axvspan(lit.start, lit.stop, facecolor="#f8c3a0", alpha=0.5, linewidth=0)
    axes.set_xlim(0, len(values))
    axes.set_ylim(0, 1.02)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(style.FAINT_INK)


def _write(
    sheet: Axes, x: float, y: float, text: str, size: float, *, color: str = style.INK,
    weight: str = "normal", slant: str = "normal", ha: str = "left",
) -> None:  # fmt: skip
    sheet.text(
        x, y, text, fontsize=size, color=color, fontweight=weight, fontstyle=slant, ha=ha,
        va="baseline", fontfamily=style.FONT,
    )  # fmt: skip
