"""The picture in words and numbers: plain text, alternative text, the table for everyone."""

import pandas as pd

from attnlab_helpers.plots.timeline.layout import Panel, Picture
from attnlab_helpers.units import format_bytes, format_count, format_ns

MOST_ROWS = 32  # longer lists are summed by kernel on the page; Timeline.table has them all
MOST_NAMES = 16
ALT_ACTIVITIES = 12
# What stands in the place of the totals while a picture asks for a guess.
GUESS_LINES = ("guess first", "names, totals and times", "are hidden")


def shown_totals(panel: Panel, guess: bool) -> tuple[str, ...]:
    """The lines at the right of a panel; while the reader guesses, they would be the answer."""
    return GUESS_LINES if guess else panel.totals


def plain_text(picture: Picture) -> str:
    """Stable text: labels, counts, names in order, provenance. No times, they change run by run."""
    lines = [f"Timeline{': ' + picture.title if picture.title else ''}"]
    for panel in picture.panels:
        if picture.guess:
            lines.append(f"{panel.label}: names, totals and times are hidden: guess first")
            lines.append("  (timeline() without guess=True shows them)")
        else:
            count = len(panel.activities)
            lines.append(f"{panel.label}: {format_count(count, 'GPU activity', 'GPU activities')}")
            lines += [f"  {line}" for line in _runs(panel.activities["activity"].tolist())]
        if panel.message:
            lines.append(f"  {panel.message}")
        lines.append(f"  {panel.provenance}")
    return "\n".join(" ".join(line.split(" ")).replace("\n", " ") for line in lines)


def _runs(labels: list[str]) -> list[str]:
    """Labels in order, equal neighbours counted, twenty lines at most."""
    runs: list[tuple[str, int]] = []
    for label in labels:
        if runs and runs[-1][0] == label:
            runs[-1] = (label, runs[-1][1] + 1)
        else:
            runs.append((label, 1))
    lines = [label if count == 1 else f"{label} x {count}" for label, count in runs]
    return lines if len(lines) <= 20 else [*lines[:19], f"and {len(lines) - 19:,} more"]


def alternative_text(picture: Picture) -> str:
    """What the picture shows, for those who do not see it; a guess without the answer."""
    several = len(picture.panels) > 1 and not picture.guess
    scale = f" on one scale of {format_ns(picture.span_ns)}" if several else ""
    parts = [f"Timeline of {format_count(len(picture.panels), 'item')}{scale}."]
    for panel in picture.panels:
        sentence = f"{panel.label}: {', '.join(panel.totals)}."
        if picture.guess:
            sentence = f"{panel.label}: names, totals and times are hidden; guess first."
        rows = panel.activities.head(0 if picture.guess else ALT_ACTIVITIES)
        if len(rows):
            seen = [f"{row.activity} {format_ns(row.duration_ns)}" for row in rows.itertuples()]
            more = len(panel.activities) - len(rows)
            rest = f", and {more:,} more" if more else ""
            sentence += f" In order: {', '.join(seen)}{rest}."
        if panel.message:
            sentence += f" {panel.message}"
        parts.append(sentence)
    return " ".join(parts)


def numbers(picture: Picture) -> pd.DataFrame:
    """One row per GPU activity of every panel; times in ns from the panel's first event."""
    frames = [panel.activities for panel in picture.panels]
    full = [frame for frame in frames if len(frame)] or frames[:1]
    return pd.concat(full, ignore_index=True)


def page_table(panel: Panel) -> tuple[str, pd.DataFrame]:
    """A caption and the numbers of a panel as the page shows them: all rows, or sums by kernel."""
    rows = panel.activities
    if len(rows) <= MOST_ROWS:
        shown = pd.DataFrame(
            {
                "no.": rows["number"],
                "GPU activity": rows["activity"],
                "kind": rows["work"],
                "start": [format_ns(value) for value in rows["start_ns"]],
                "duration": [format_ns(value) for value in rows["duration_ns"]],
                "share": [f"{value:.1f} %" for value in rows["share_percent"]],
                "launched by": rows["launched_by"],
            }
        )
        return f"{panel.label}: every GPU activity", shown
    sums = (
        rows.groupby(["activity", "work"], sort=False)
        .agg(
            count=("number", "size"), total=("duration_ns", "sum"), median=("duration_ns", "median")
        )
        .reset_index()
        .sort_values("total", ascending=False, kind="stable")
    )
    whole = max(1, int(sums["total"].sum()))
    top = sums.head(MOST_ROWS)
    shown = pd.DataFrame(
        {
            "GPU activity": top["activity"],
            "kind": top["work"],
            "count": [f"{value:,}" for value in top["count"]],
            "total": [format_ns(value) for value in top["total"]],
            "median": [format_ns(value) for value in top["median"]],
            "share": [f"{100 * value / whole:.1f} %" for value in top["total"]],
        }
    )
    left_out = len(sums) - len(top)
    tail = f" (the {len(top)} longest of {len(sums):,} kernels)" if left_out else ""
    return f"{panel.label}: {len(rows):,} GPU activities, summed by kernel{tail}", shown


def full_names(picture: Picture, longest: int = 200) -> list[tuple[str, str]]:
    """Label and full name where they differ; very long names shortened in the middle."""
    pairs = []
    for name, label in picture.labels.items():
        if name != label:
            half = longest // 2
            short = name if len(name) <= longest else f"{name[:half]} ... {name[-half:]}"
            pairs.append((label, short))
    return pairs[:MOST_NAMES]


def activity_detail(row) -> str:
    """What a kernel's launch says about it, one line; unknown values are left out."""
    parts = []
    if row.grid:
        parts.append(f"grid {row.grid}")
    if row.block:
        parts.append(f"block {row.block}")
    if row.registers >= 0:
        parts.append(f"{row.registers} registers a thread")
    if row.shared_bytes >= 0:
        parts.append(f"{format_bytes(row.shared_bytes)} shared memory")
    if row.occupancy_percent == row.occupancy_percent:  # not NaN
        parts.append(f"occupancy {row.occupancy_percent:g} % (estimated)")
    if row.bytes >= 0:
        parts.append(format_bytes(row.bytes))
    return ", ".join(parts)
