"""The stages as HTML: all texts for everyone to unfold; a script that puts two side by side."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

import pandas as pd

from attnlab_helpers.plots.script import squeezed
from attnlab_helpers.plots.stages.highlight import MATTERS, machine_html, source_html
from attnlab_helpers.plots.stages.listings import Listing
from attnlab_helpers.plots.stages.what_matters import as_html
from attnlab_helpers.plots.timeline.data import to_script_json
from attnlab_helpers.units import format_count

FILES = ("look.js", "pane.js", "live.js")


def figure_html(
    *,
    title: str,
    source_titles: Sequence[str],
    labels: Sequence[str],
    group: str,
    stages: Sequence[str],
    stage: str,
    listings: Sequence[Listing],
    table: pd.DataFrame,
    provenance: Sequence[str],
) -> str:
    """One ``<figure>``: the source and one stage as text, the others folded, a table, the script.

    The script reads the texts where they stand, so that each is in the page once.
    """
    shown = [one for one in listings if _is_first(one, stage)]
    folded = [one for one in listings if not _is_first(one, stage)]
    data = {
        "title": title,
        "bold": [name for name in stages if name in MATTERS],
        "labels": list(labels),
        "group": group,
        "stages": list(stages),
        "stage": stage,
        "sources": list(source_titles),
    }
    parts = [
        '<figure class="attnlab-stages" style="margin:0"><div class="attnlab-still">',
        f"<p><strong>{escape(title)}</strong></p>",
    ]
    parts += [_listing(one, labels, source_titles[one.of[0]], fold=False) for one in shown]
    parts += [_listing(one, labels, source_titles[one.of[0]], fold=True) for one in folded]
    parts.append("</div>")
    if not table.empty:
        parts.append(as_html(table, "What matters (without rows of zeros)"))
    lines = "<br>".join(escape(text) for text in dict.fromkeys(provenance))
    parts.append(f"<figcaption>{lines}</figcaption>")
    parts.append(f'<script type="application/json">{to_script_json(data)}</script>')
    parts.append(f"<script>{squeezed(Path(__file__).parent, FILES)}</script></figure>")
    return "\n".join(parts)


def _listing(one: Listing, labels: Sequence[str], source_title: str, *, fold: bool) -> str:
    whose = f" ({', '.join(labels[position] for position in one.of)})" if len(labels) > 1 else ""
    if one.stage is None:
        head, texts = f"{source_title}{whose}", source_html([t for _, t in one.rows], one.language)
    else:
        head = f"{one.stage}{whose}, in front of each line the source line that it came from"
        texts = machine_html([text for _, text in one.rows], one.stage)
    width = max(len(str(number or "")) for number, _ in one.rows)
    body = "\n".join(
        f"{number or '':>{width}}| {text}".rstrip()
        for (number, _), text in zip(one.rows, texts, strict=True)
    )
    of = " ".join(map(str, one.of))
    note = left_out_note(one)
    marks = f'data-of="{of}" data-stage="{escape(one.stage or "", quote=True)}"'
    if note:
        marks += f' data-note="{escape(note, quote=True)}"'
    text = f"<pre {marks}>{body}</pre>" + (f"<p>{escape(note)}</p>" if note else "")
    if fold:
        return f"<details><summary>{escape(head)}</summary>{text}</details>"
    return f"<p>{escape(head)}</p>{text}"


def _is_first(one: Listing, stage: str) -> bool:
    return 0 in one.of and one.stage in (None, stage)


def left_out_note(one: Listing) -> str:
    """What of a long stage is not in the figure, as a sentence, or nothing."""
    if not one.left_out:
        return ""
    return (
        f"The first {len(one.rows):,} lines; {format_count(one.left_out, 'line')} more are in "
        f".stages[{one.stage!r}]."
    )
