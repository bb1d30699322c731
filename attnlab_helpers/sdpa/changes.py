"""Two atlases side by side: another GPU, or another version of PyTorch on the same one."""

from __future__ import annotations

import pandas as pd

from .atlas import QUESTION, Atlas


def changes(before: Atlas, after: Atlas, *, factor: float = 1.2) -> pd.DataFrame:
    """Cells that both hold and in which something changed; one row each, the worst first.

    Columns: the question; what ("backend", "status", "exactness" or "time", the first that
    applies); before and after (what ran, or the status); before_ns, after_ns; ratio (after_ns /
    before_ns). A time counts as changed from `factor` on, up or down.
    """
    if not factor > 1:
        raise ValueError(f"factor must be above 1 (1.2 is a fifth slower), not {factor!r}.")
    question = list(QUESTION)
    left, right = (
        atlas.cells.assign(shown=atlas.cells["ran"].fillna(atlas.cells["status"]))
        for atlas in (before, after)
    )
    kept = [*question, "shown", "status", "agrees", "median_ns"]
    both = left[kept].merge(right[kept], on=question, suffixes=("_before", "_after"))
    both["ratio"] = both["median_ns_after"] / both["median_ns_before"]
    both["what"] = ""
    slower = (both["ratio"] >= factor) | (both["ratio"] <= 1 / factor)
    both.loc[slower, "what"] = "time"
    both.loc[both["agrees_before"] != both["agrees_after"], "what"] = "exactness"
    both.loc[both["status_before"] != both["status_after"], "what"] = "status"
    is_backend = (both["shown_before"] != both["shown_after"]) & (both["what"] != "status")
    both.loc[is_backend, "what"] = "backend"
    renamed = both.rename(
        columns={
            "shown_before": "before",
            "shown_after": "after",
            "median_ns_before": "before_ns",
            "median_ns_after": "after_ns",
        }
    )
    columns = [*question, "what", "before", "after", "before_ns", "after_ns", "ratio"]
    changed = renamed.loc[renamed["what"] != "", columns]
    return changed.sort_values("ratio", ascending=False, ignore_index=True)
