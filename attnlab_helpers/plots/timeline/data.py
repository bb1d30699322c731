"""The picture as compact JSON for the live canvas: columns and indices instead of objects."""

import json
from typing import Any

import numpy as np
import pandas as pd

from attnlab_helpers.plots import style
from attnlab_helpers.plots.timeline.layout import Lane, Panel, Picture
from attnlab_helpers.plots.timeline.spans import busy_shares, merge_narrow
from attnlab_helpers.plots.timeline.words import GUESS_LINES, activity_detail

MOST_SPANS = 4_000  # about 100 kB of page; beyond it the narrowest are merged,
SCREEN_PIXELS = 1_500  # but nothing wider than a pixel of a wide screen
MOST_LINKS = 1_500


class _Index:
    """Gives each distinct value a number, in order of first use."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def __call__(self, value: Any) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def values(self) -> list[Any]:
        return list(self.numbers)


def live_resolution(picture: Picture) -> float:
    """Below how many ns bars are merged in the live data: 0 when everything fits."""
    lanes = [lane.spans for panel in picture.panels for lane in panel.lanes]
    resolution = 0.0
    for pieces in (None, 64, 32, 16, 8, 4, 2, 1):
        resolution = picture.span_ns / SCREEN_PIXELS / pieces if pieces else 0.0
        if sum(len(merge_narrow(spans, resolution)) for spans in lanes) <= MOST_SPANS:
            break
    return resolution


def live_data(picture: Picture, resolution_ns: float) -> dict[str, Any]:
    """What the script draws. Times are ns from a panel's first event.

    A lane's columns: s start, d duration, r row, n name, k kind, i number, c count of merged
    events, b busy percent, t detail, o launching operator, u inner operators that launch. n, k, t,
    o and u are indices into names, kinds and details; in a launch lane k is 1 for a wait.
    guess: False, or the lines to show in the place of the totals until the reader asks.
    """
    names, details = _Index(), _Index()
    panels = [_panel(panel, picture, resolution_ns, names, details) for panel in picture.panels]
    looks = [(kind, style.work_style(kind)) for kind in picture.kinds]
    return {
        "title": picture.title,
        "guess": list(GUESS_LINES) if picture.guess else False,
        "signs": _signs(picture),
        "span": picture.span_ns,
        "names": names.values(),
        "labels": [_label(name, picture) for name in names.values()],
        "details": details.values(),
        "kinds": [[kind, look.fill, look.color, look.pattern] for kind, look in looks],
        "colors": {
            "card": style.CARD, "ink": style.INK, "muted": style.MUTED_INK,
            "faint": style.FAINT_INK, "grid": style.GRID, "lane": style.LANE,
            "idle": style.IDLE_INK, "launch": style.LAUNCH, "wait": style.WAIT_FILL,
            "hidden": style.HIDDEN_FILL, "operators": style.OPERATOR_FILLS,
            "operatorEdge": style.OPERATOR_EDGE,
        },
        "panels": panels,
    }  # fmt: skip


def to_script_json(data: dict[str, Any]) -> str:
    """JSON that cannot end the script element it stands in, nor start another."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _panel(
    panel: Panel, picture: Picture, resolution_ns: float, names: _Index, details: _Index
) -> dict[str, Any]:
    return {
        "label": panel.label,
        "provenance": panel.provenance,
        "totals": panel.totals,
        "message": panel.message,
        "lanes": [
            _lane(lane, panel, picture, resolution_ns, names, details) for lane in panel.lanes
        ],
        "links": _links(panel, max(resolution_ns, picture.span_ns / SCREEN_PIXELS / 8)),
        "gaps": panel.gaps[["lane", "start_ns", "duration_ns"]].to_numpy().tolist(),
    }


def _lane(
    lane: Lane,
    panel: Panel,
    picture: Picture,
    resolution_ns: float,
    names: _Index,
    details: _Index,
) -> dict[str, Any]:
    spans = merge_narrow(lane.spans, resolution_ns)
    data: dict[str, Any] = {
        "role": lane.role,
        "title": lane.title,
        "rows": lane.rows,
        "s": spans["start_ns"].tolist(),
        "d": spans["duration_ns"].tolist(),
        "r": spans["row"].tolist(),
        "n": [names(str(name)) for name in spans["name"]],
        "i": spans["number"].tolist(),
    }
    merged = bool((spans["count"] > 1).any())
    if merged:
        data["c"] = spans["count"].tolist()
        data["b"] = np.ceil(100 * busy_shares(spans, resolution_ns)).astype(int).tolist()
    data["leaders"] = lane.role in ("operators", "gpu")
    if lane.role == "launches":
        data["k"] = [int(work == "wait") for work in spans["work"]]
    if lane.role == "operators" and panel.launching:
        inner = [panel.launching.get(record, "") for record in spans["record"]]
        data["u"] = [details(text) if text else -1 for text in inner]
    if lane.role == "gpu":
        kinds = {kind: position for position, kind in enumerate(picture.kinds)}
        data["k"] = [kinds[work] for work in spans["work"]]
        rows = panel.activities.set_index("number")
        known = {
            row.Index: row for row in rows.loc[spans["number"][spans["number"] > 0]].itertuples()
        }
        texts = {number: activity_detail(row) for number, row in known.items()}
        data["t"] = [details(texts[n]) if texts.get(n) else -1 for n in data["i"]]
        data["o"] = [
            details(known[n].launched_by) if n in known and known[n].launched_by else -1
            for n in data["i"]
        ]
    return data


def _links(panel: Panel, resolution_ns: float) -> list[int]:
    """Flat sixes, one per launch and start that differ by more than the resolution."""
    links = panel.links
    if links.empty:
        return []
    step = max(1.0, resolution_ns)
    while True:
        places = pd.DataFrame(
            {
                "launch": links["launch_ns"] // step,
                "start": links["start_ns"] // step,
                "lane": links["lane"],
            }
        )
        kept = links[~places.duplicated()]
        if len(kept) <= MOST_LINKS:
            columns = ["launch_lane", "launch_row", "launch_ns", "lane", "row", "start_ns"]
            return kept[columns].to_numpy(dtype=np.int64).ravel().tolist()
        step *= 2


def _signs(picture: Picture) -> str:
    """The legend's words for lines that have no colour of their own kind."""
    signs = []
    if any(len(panel.links) for panel in picture.panels):
        signs.append("thin line: launch to what it started")
    if any(len(panel.gaps) for panel in picture.panels):
        signs.append("red: stream idle")
    return "; ".join(signs)


def _label(name: str, picture: Picture, longest: int = 60) -> str | int:
    """What stands in a bar for ``name``; 0 when that is the name itself."""
    label = picture.labels.get(name, name)
    if len(label) > longest:
        label = label[: longest - 3] + "..."
    return 0 if label == name else label
