"""How far every head looks, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from . import style
from .axes import dress, new_figure
from .picture import Picture

COLUMNS = ("layer", "head", "distance")
LOOKS = (("#c04a00", "o", "-"), ("#0072b2", "s", "--"), ("#007a58", "^", "-."))


def head_distances(
    tables: Mapping[str, pd.DataFrame], *, title: str, provenance: object
) -> Picture:
    """How far every head looks, layer by layer: a mark a head, a line through each layer's mean.

    tables: name -> what `vit.head_table` gave (columns layer, head, distance in pixels), at
    most three. After figure 7 of arXiv 2010.11929. TypeError for what is no such dictionary,
    ValueError for none, more, or tables without these columns or rows.
    """
    if not isinstance(tables, Mapping):
        raise TypeError(
            f"tables must be a dictionary, name -> head_table(...), not {type(tables).__name__}: "
            'head_distances({"trained": table}, ...).'
        )
    if not tables or len(tables) > len(LOOKS):
        raise ValueError(f"head_distances draws one to {len(LOOKS)} tables, not {len(tables)}.")

    for name, table in tables.items():
        if not isinstance(table, pd.DataFrame):
            raise TypeError(f"{name!r} must be a table, not {type(table).__name__}.")
        missing = [column for column in COLUMNS if column not in table.columns]
        if missing or table.empty:
            lacks = f"columns: {', '.join(missing)}" if missing else "rows"
            raise ValueError(f"table {name!r} has no {lacks}. vit.head_table makes such tables.")

    def draw() -> Figure:
        figure, axes = new_figure(7.6, 3.9)
        for (name, table), (color, marker, dash) in zip(tables.items(), LOOKS, strict=False):
            mean = table.groupby("layer")["distance"].mean()
            axes.plot(
                table["layer"], table["distance"], marker, color=color, markersize=6,
                markerfacecolor="none", markeredgewidth=1.5,
            )  # fmt: skip
            axes.plot(
                mean.index, mean, dash, color=color, linewidth=1.6, marker=marker, markersize=0,
                label=name,
            )  # fmt: skip
        axes.set_xticks(sorted({layer for table in tables.values() for layer in table["layer"]}))
        axes.set_ylim(bottom=0)
        dress(axes, title, "layer", "mean attention distance (pixels)", provenance)
        # A head's mark and its layers' line side by side, as the legend's sign.
        legend = axes.legend(
            loc="lower right", frameon=False, fontsize=9, prop={"family": style.FONT, "size": 9}
        )
        for line, (color, _, _) in zip(legend.get_lines(), LOOKS, strict=False):
            line.set(markersize=6, markerfacecolor="none", markeredgecolor=color)
        return figure

    spans = "; ".join(
        f"{name}: from {table['distance'].min():.0f} to {table['distance'].max():.0f} pixels"
        for name, table in tables.items()
    )
    runs = [table.assign(run=name)[["run", *COLUMNS]] for name, table in tables.items()]
    rows = pd.concat(runs, ignore_index=True)
    alt = f"{title}. A mark for the mean attention distance of every head, over layers. {spans}."
    return Picture(draw, title=title, alt=alt, table=rows, provenance=provenance, width=760)
