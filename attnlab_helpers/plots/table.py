"""A table to show: numbers to the right, a caption, and where the numbers come from."""

import math
from html import escape
from numbers import Number
from typing import Any

import pandas as pd

from attnlab_helpers.units import format_bytes, format_ns

LONGEST_LINE = 90  # characters of a caption that stay on one line beside a narrow table


class Table:
    """Shows ``frame`` with a ``caption`` and its ``provenance``, in a notebook and as plain text.

    A column whose name ends in ``_ns`` is shown as times, one in ``_bytes`` as sizes, each with
    its unit, and underscores as spaces in names that are one word. ``verbatim`` leaves all names
    as they are. The index is shown when it has a name or is not simply 0, 1, 2 ...; floats get
    four digits that count. ``frame`` stays as it is, for reading the numbers on.
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        caption: str = "",
        provenance: str = "",
        *,
        verbatim: bool = False,
    ) -> None:
        self.frame = frame
        self.verbatim = verbatim
        self.caption = str(caption)
        self.provenance = str(provenance)

    def _repr_html_(self) -> str:
        return table_html(self.frame, self.caption, self.provenance, verbatim=self.verbatim)

    def __str__(self) -> str:
        return table_text(self.frame, self.caption, self.provenance, verbatim=self.verbatim)

    __repr__ = __str__


def table_html(
    frame: pd.DataFrame, caption: str = "", provenance: str = "", *, verbatim: bool = False
) -> str:
    """``frame`` as an HTML table, every text escaped; no script and no style sheet needed."""
    shown = _with_index(frame) if verbatim else _readable(_with_index(frame))
    numeric = [_is_numeric(shown.iloc[:, position]) for position in range(shown.shape[1])]
    head = "".join(
        f'<th scope="col"{_align(right)}>{escape(str(name))}</th>'
        for name, right in zip(shown.columns, numeric, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{_align(right)}>{_cell_html(value, right)}</td>"
            for value, right in zip(values, numeric, strict=True)
        )
        + "</tr>"
        for values in shown.itertuples(index=False, name=None)
    )
    title = _caption_html(caption, provenance)
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def table_text(
    frame: pd.DataFrame, caption: str = "", provenance: str = "", *, verbatim: bool = False
) -> str:
    """``frame`` as aligned plain text, the same for the same numbers."""
    shown = _with_index(frame) if verbatim else _readable(_with_index(frame))
    numeric = [_is_numeric(shown.iloc[:, position]) for position in range(shown.shape[1])]
    cells = [[str(name) for name in shown.columns]]
    cells += [
        [cell_text(value) for value in row] for row in shown.itertuples(index=False, name=None)
    ]
    cells = [[" ".join(text.split()) for text in row] for row in cells]
    widths = [max(len(row[column]) for row in cells) for column in range(shown.shape[1])]
    lines = [caption] if caption else []
    for row in cells:
        padded = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, numeric, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    if frame.empty:
        lines.append("(no rows)")
    if provenance:
        lines.append(provenance)
    return "\n".join(lines)


def cell_text(value: Any) -> str:
    """A cell as text: integers with commas, floats with four digits that count, missing as "-"."""
    if value is None or value is pd.NA or value is pd.NaT:
        return "-"
    if isinstance(value, Number) and not isinstance(value, bool | complex):
        number = float(value)
        if math.isnan(number):
            return "-"
        if math.isinf(number):
            return "inf" if number > 0 else "-inf"
        if _is_integer_type(value):
            return f"{int(value):,}"
        if abs(number) >= 1e15 or 0 < abs(number) < 1e-4:
            return f"{number:.3e}"
        decimals = 0 if number == 0 else max(0, 3 - math.floor(math.log10(abs(number))))
        return f"{number:,.{decimals}f}"
    return str(value)


def _is_integer_type(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return isinstance(value, int) or getattr(dtype, "kind", "other") in "iu"


def _is_numeric(column: pd.Series) -> bool:
    """Numbers, or texts that begin with one ("61.1 us"): both read best aligned at the right."""
    if pd.api.types.is_bool_dtype(column):
        return False
    if pd.api.types.is_numeric_dtype(column):
        return True
    texts = [cell_text(value) for value in column]
    filled = [text for text in texts if text not in ("", "-")]
    return bool(filled) and all(_starts_with_number(text) for text in filled)


def _starts_with_number(text: str) -> bool:
    first = text.split()[0] if text.split() else ""
    try:
        float(first.replace(",", ""))
    except ValueError:
        return False
    return len(text.split()) <= 2


def _readable(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns in the package's units (``_ns``, ``_bytes``) as text with the unit that fits."""
    columns = []
    for position, name in enumerate(frame.columns):
        text, column = str(name), frame.iloc[:, position]
        for ending, to_text in (("_ns", format_ns), ("_bytes", format_bytes)):
            if text.endswith(ending):
                text = text.removesuffix(ending)
                values = ["-" if pd.isna(value) else to_text(float(value)) for value in column]
                column = pd.Series(values, index=frame.index, dtype=object)
        # A name in words, such as "add_kernel (Triton) for 9.0", keeps its underscores.
        columns.append(column.rename(text.replace("_", " ") if text.isidentifier() else text))
    return pd.concat(columns, axis=1) if columns else frame


def _with_index(frame: pd.DataFrame) -> pd.DataFrame:
    index = frame.index
    plain = isinstance(index, pd.RangeIndex) and index.name is None
    if plain or (index.name is None and list(index) == list(range(len(index)))):
        return frame
    names = list(index.names)
    labels = [name if name is not None else "" for name in names]
    parts = [
        pd.Series(index.get_level_values(level), name=label) for level, label in enumerate(labels)
    ]
    return pd.concat([*parts, frame.reset_index(drop=True)], axis=1)


def _caption_html(caption: str, provenance: str) -> str:
    lines = [escape(caption)] if caption else []
    lines += [f"<small>{escape(provenance)}</small>"] if provenance else []
    if not lines:
        return ""
    look = "text-align:left"
    if max(len(caption), len(provenance)) <= LONGEST_LINE:
        # Without a width of its own the line runs on beside the table: else a browser folds it to
        # a narrow table's width, or stretches the table.
        look += ";white-space:nowrap;width:0"
    return f'<caption style="{look}">{"<br>".join(lines)}</caption>'


def _cell_html(value: Any, right: bool) -> str:
    text = escape(cell_text(value))
    # A number and its unit stay together in a table that is short of room.
    return text.replace(" ", "\N{NO-BREAK SPACE}") if right else text


def _align(right: bool) -> str:
    # The attribute survives sanitisers that take styles out. Where numbers need nothing more,
    # texts do: JupyterLab's own sheet puts every cell to the right.
    # Without quotes: a figure holds hundreds of cells.
    return " align=right" if right else " style=text-align:left"
