"""The ghost of the matrix of scores in a still: never whole, with the one tile that exists."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from .. import style
from .frames import Frame, Walk
from .shades import limits

SIDE = 1.3  # inches: the photograph's longer side, and the matrix's
BLUE, ORANGE = (style.WORK_STYLES[kind].color for kind in ("matmul", "copy"))


def draw_matrix(axes: Axes, walk: Walk, frame: Frame) -> None:
    """The ghost of the whole matrix, and in it the one tile that exists."""
    keys, queries = walk.steps[-1].keys.stop, walk.queries
    last = walk.q_len
    for step in walk.steps:
        x, width = step.keys.start, len(step.keys)
        done = frame.phase == "end" or (frame.tile is not None and step.key_tile < frame.tile)
        edge = style.FAINT_INK
        face = style.HIDDEN_FILL if done else style.CARD
        hatch = ""
        if step.state == "skipped" and (done or step.key_tile == frame.tile):
            face, hatch = style.CARD, "xxxx"
        axes.add_patch(
            Rectangle(
                (x, queries.start), width, len(queries), facecolor=face, edgecolor=edge,
                linewidth=0.6, hatch=hatch,
            )
        )  # fmt: skip
        if step.key_tile == frame.tile and frame.phase == "scores":
            scores = step.scores.clone()
            scores[scores == float("-inf")] = float("nan")
            low, high = limits(walk)
            axes.imshow(
                scores.numpy(), extent=(x, x + width, queries.stop, queries.start), cmap="Blues",
                vmin=low, vmax=high, interpolation="nearest", aspect="auto", zorder=2,
            )  # fmt: skip
            axes.add_patch(
                Rectangle(
                    (x, queries.start), width, len(queries), fill=False, edgecolor=ORANGE,
                    linewidth=1.6, zorder=3,
                )
            )  # fmt: skip
    axes.add_patch(
        Rectangle((0, queries.start), keys, len(queries), fill=False, edgecolor=BLUE, linewidth=1.4)
    )
    axes.add_patch(
        Rectangle(
            (0, 0), keys, last, fill=False, edgecolor=style.FAINT_INK, linewidth=0.8,
            linestyle=(0, (3, 3)),
        )
    )  # fmt: skip
    free = free_rows(walk)
    if free is not None:
        axes.text(
            keys / 2, (free.start + free.stop) / 2, "never whole", va="center", ha="center",
            fontsize=6.5, color=style.FAINT_INK, fontfamily=style.FONT,
        )  # fmt: skip
    axes.set_xlim(-0.01 * keys, 1.01 * keys)
    axes.set_ylim(1.01 * last, -0.01 * last)
    axes.set_axis_off()


def free_rows(walk: Walk) -> range | None:
    """The queries above or below the block, where words fit between the lines; None: nowhere."""
    sides = range(walk.queries.start), range(walk.queries.stop, walk.q_len)
    largest = max(sides, key=len)
    return largest if SIDE * len(largest) / walk.q_len > 0.2 else None
