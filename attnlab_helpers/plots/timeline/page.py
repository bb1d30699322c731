"""The picture as HTML: image, table and notes for everyone; data and script to make it live."""

import base64
from collections.abc import Sequence
from html import escape

from attnlab_helpers.plots.table import table_html
from attnlab_helpers.plots.timeline.data import live_data, live_resolution, to_script_json
from attnlab_helpers.plots.timeline.layout import Picture
from attnlab_helpers.plots.timeline.script import script
from attnlab_helpers.plots.timeline.words import alternative_text, full_names, page_table

WIDTH = 1050  # CSS pixels of the still picture; sheets that know better shrink it


def figure_html(picture: Picture, image: bytes, answer: bytes | None, notes: Sequence[str]) -> str:
    """One ``<figure>`` that works with scripts, styles and SVG taken out, and better with them.

    ``answer`` is the labelled image that a guess hides in a closed ``<details>``.
    """
    parts = [
        '<figure class="attnlab-timeline" style="margin:0">',
        _image(image, alternative_text(picture)),
        f"<figcaption>{'<br>'.join(map(_text, _sources(picture)))}</figcaption>",
    ]
    if answer is not None:
        named = Picture(**{**picture.__dict__, "guess": False})
        parts.append(
            "<details><summary>Show the names</summary>"
            f"{_image(answer, alternative_text(named))}{_numbers(picture)}</details>"
        )
    else:
        parts.append(f"<details><summary>The numbers</summary>{_numbers(picture)}</details>")
    if notes:
        items = "".join(f"<li>{_text(note)}</li>" for note in notes)
        parts.append(f"<ul>{items}</ul>")
    data = to_script_json(live_data(picture, live_resolution(picture)))
    parts.append(f'<script type="application/json">{data}</script>')
    parts.append(f"<script>{script()}</script></figure>")
    return "\n".join(parts)


def page_html(title: str, figure: str) -> str:
    """A page of its own around a figure; asks the network for nothing."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<link rel="icon" href="data:,">'
        f"<title>{_text(title)}</title>"
        "<style>body{margin:16px;background:#fff;color:#1b1f24;font:14px 'DejaVu Sans',"
        "system-ui,sans-serif}figure{margin:0}img{max-width:100%;height:auto}"
        "table{border-collapse:collapse}td,th{padding:2px 8px;text-align:left}"
        "[align=right]{text-align:right}</style>"
        f"</head>\n<body>{figure}</body></html>\n"
    )


def _image(image: bytes, alt: str) -> str:
    data = base64.b64encode(image).decode("ascii")
    return f'<img width="{WIDTH}" alt="{_text(alt)}" src="data:image/png;base64,{data}">'


def _sources(picture: Picture) -> list[str]:
    """Where the numbers come from: said once where it is the same for all."""
    sources = list(dict.fromkeys(panel.provenance for panel in picture.panels))
    if len(sources) == 1:
        return sources
    return list(dict.fromkeys(f"{panel.label}: {panel.provenance}" for panel in picture.panels))


def _numbers(picture: Picture) -> str:
    parts = []
    for panel in picture.panels:
        caption, frame = page_table(panel)
        parts.append(table_html(frame, caption, panel.provenance))
    names = full_names(picture)
    if names:
        rows = "".join(
            f"<li>{_text(label)}: <code>{_text(name)}</code></li>" for label, name in names
        )
        rest = len([1 for name, label in picture.labels.items() if name != label]) - len(names)
        more = f"<li>and {rest:,} more</li>" if rest else ""
        parts.append(f"<details><summary>Names in full</summary><ul>{rows}{more}</ul></details>")
    return "".join(parts)


def _text(text: str) -> str:
    """Escaped, on one line."""
    return escape(" ".join(str(text).split()), quote=True)
