"""The small table under the stages: what was counted, one column a compiled kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from attnlab_helpers.plots.table import cell_text, table_html, table_text

ZEROS = {"0", "none", "-", "0 (PTX)", "none (PTX)"}


def count_table(compiled: Sequence[Any], labels: Sequence[str]) -> pd.DataFrame:
    """A column "count" and one a kernel, all text: `compiler.summary`, else the bare `.counts`."""
    from attnlab_helpers import compiler

    if all(isinstance(one, compiler.Compiled) for one in compiled):
        # The provenance stands under the figure.
        rows = compiler.summary(*compiled).drop(index="provenance", errors="ignore")
        return rows.set_axis(list(labels), axis=1).rename_axis("count").reset_index()
    names = dict.fromkeys(name for one in compiled for name in one.counts)
    frame = pd.DataFrame({"count": [str(name).replace("_", " ") for name in names]})
    for label, one in zip(labels, compiled, strict=True):
        frame[label] = [_text(one.counts.get(name)) for name in names]
    return frame


def without_zeros(table: pd.DataFrame) -> pd.DataFrame:
    """The rows in which at least one kernel has something."""
    empty = table.iloc[:, 1:].isin(ZEROS).all(axis=1)
    return table[~empty].reset_index(drop=True)


def as_html(table: pd.DataFrame, caption: str) -> str:
    """The table with the kernels' names as they are."""
    return table_html(table, caption, verbatim=True)


def as_text(table: pd.DataFrame, caption: str, provenance: str) -> str:
    """The table as plain text with the kernels' names as they are."""
    return table_text(table, caption, provenance, verbatim=True)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_text(count)}" for name, count in value.items()) or "-"
    return cell_text(value)
