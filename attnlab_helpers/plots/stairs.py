"""Memory held after each operator, as stairs that one climbs from left to right."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from ..units import format_bytes
from . import style
from .axes import new_figure
from .picture import Picture
from .timeline.labels import ruler, shorten_middle

NAME_PT = 9
NAME_ROOM = 0.68  # inches for a ledger's name; its bold letters are wider than the ruler's


def memory_stairs(ledgers: Mapping[str, pd.DataFrame], title: str, provenance: object) -> Picture:
    """Draw what `profiling.memory_steps` returned, one row of stairs a ledger, on one scale.

    ledgers: name -> frame with the columns operator and held_bytes. The highest step of each is
    marked. ValueError without a ledger or with an empty one.
    """
    if not ledgers or any(frame.empty for frame in ledgers.values()):
        raise ValueError("memory_stairs needs at least one ledger, and a row in each.")
    top = max(frame["held_bytes"].max() for frame in ledgers.values())
    longest = max(len(frame) for frame in ledgers.values())

    def draw() -> Figure:
        height = 0.55 + 1.5 * len(ledgers)
        figure, first = new_figure(8.6, height)
        first.remove()
        figure.text(
            0.012, 1 - 0.26 / height, title, fontsize=11, fontweight="bold", color=style.INK,
            fontfamily=style.FONT,
        )  # fmt: skip
        for row, (name, frame) in enumerate(ledgers.items()):
            bottom = (0.35 + 1.5 * (len(ledgers) - 1 - row) + 0.25) / height
            axes = figure.add_axes((0.105, bottom, 0.885, 1.0 / height))
            _stairs(axes, name, frame, float(top), longest)
        figure.text(
            0.012, 0.08 / height, str(provenance), fontsize=8, style="italic",
            color=style.MUTED_INK, fontfamily=style.FONT,
        )  # fmt: skip
        return figure

    rows = [frame.assign(run=name) for name, frame in ledgers.items()]
    table = pd.concat(rows, ignore_index=True)[["run", "operator", "new_bytes", "held_bytes"]]
    peaks = "; ".join(
        f"{name} peaks at {format_bytes(frame['held_bytes'].max())} in "
        f"{frame.loc[frame['held_bytes'].idxmax(), 'operator']}"
        for name, frame in ledgers.items()
    )
    alt = f"{title}. One bar an operator, from left to right: {peaks}."
    return Picture(draw, title=title, alt=alt, table=table, provenance=provenance, width=860)


def _stairs(axes, name: str, frame: pd.DataFrame, top: float, longest: int) -> None:
    held = frame["held_bytes"].to_numpy(dtype=float)
    peak = held.max()
    for position, (operator, size) in enumerate(zip(frame["operator"], held, strict=True)):
        at_peak = size == peak
        axes.bar(
            position, size, width=1.0, align="edge", color="#a9d3ee" if not at_peak else "#f8c3a0",
            edgecolor="#0072b2" if not at_peak else "#c04a00", hatch="" if not at_peak else "xxx",
            linewidth=1.2,
        )  # fmt: skip
        text = f"{format_bytes(size)}{'  peak' if at_peak else ''}"
        axes.text(
            position + 0.5, size + top * 0.04, text, ha="center", va="bottom", fontsize=8,
            color=style.INK, fontfamily=style.FONT, fontweight="bold" if at_peak else "normal",
        )  # fmt: skip
        axes.text(
            position + 0.5, -top * 0.07, operator.removeprefix("aten::"), ha="center", va="top",
            fontsize=8, color=style.MUTED_INK, fontfamily=style.FONT,
        )  # fmt: skip
    axes.set_xlim(0, longest)
    axes.set_ylim(0, top * 1.25)
    axes.set_yticks([])
    axes.set_xticks([])
    axes.set_ylabel(
        shorten_middle(name, NAME_ROOM, ruler(NAME_PT)), rotation=0, ha="right", va="center",
        fontsize=NAME_PT, fontweight="bold", color=style.INK, fontfamily=style.FONT, labelpad=8,
    )  # fmt: skip
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(style.FAINT_INK)
