"""The walk as HTML: strip, caption and table for everyone; data and script to step through it."""

from __future__ import annotations

import base64
from html import escape

from ..table import table_html
from ..timeline.data import to_script_json
from .data import live_data
from .frames import Walk, table, table_caption
from .places import Places
from .script import script
from .static import telling

WIDTH = 1050  # CSS pixels of the strip; sheets that know better shrink it


def figure_html(
    walks: tuple[Walk, ...], places: Places, image: bytes, *, title: str, provenance: str
) -> str:
    """One `<figure>` that works with scripts and styles taken out, and better with them."""
    shown = base64.b64encode(image).decode("ascii")
    numbers = table_html(table(walks), table_caption(walks, title), provenance)
    return "\n".join(
        (
            '<figure class="attnlab-tile-walk" style="margin:0">',
            f'<img width="{WIDTH}" alt="{_text(alternative_text(walks, places, title))}" '
            f'src="data:image/png;base64,{shown}">',
            f"<figcaption>{_text(caption(walks, places))}<br>{_text(provenance)}</figcaption>",
            f"<details><summary>The numbers</summary>{numbers}</details>",
            f'<script type="application/json">{to_script_json(live_data(walks, places, title))}'
            "</script>",
            f"<script>{script()}</script></figure>",
        )
    )


def caption(walks: tuple[Walk, ...], places: Places) -> str:
    """What the colours and the bars mean, and what causal means for a photograph."""
    where = "patches" if places.image is not None else "tokens"
    text = (
        f"Blue: the block of queries. Orange: the {where} whose keys and values are in SRAM. "
        f"Bars: exp(score - m) of query {walks[0].query} for each key; their sum is l. "
        "Rescale: what l and acc are multiplied with when m rises. Read so far: bytes of Q, K and "
        "V that this block of queries has read from HBM."
    )
    if places.image is not None and any(walk.name == "causal" for walk in walks):
        text += (
            " A photograph has no order, so nobody masks it causally; a language model's tokens "
            "have one, and here the patches stand in for them, row by row."
        )
    return text


def alternative_text(walks: tuple[Walk, ...], places: Places, title: str) -> str:
    """What the strip shows, in words, with each frame's own text."""
    first = walks[0]
    told = " ".join(
        f"{place + 1}. {walk.name}, {frame.title}: {frame.text}"
        for place, (walk, frame) in enumerate(telling(walks))
    )
    what = "a photograph's patches" if places.image is not None else "tokens"
    return (
        f"{title}. Still frames; each shows {what}, of which queries {first.queries.start} to "
        f"{first.queries.stop - 1} are one block, the matrix of scores with only one tile "
        f"filled, and the weights of query {first.query} so far. {told}"
    )


def _text(text: str) -> str:
    return escape(" ".join(str(text).split()), quote=True)
