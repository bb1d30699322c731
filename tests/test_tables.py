"""Tables and units: what a reader sees is exact, escaped, and the same each time."""

import numpy as np
import pandas as pd
import pytest

from attnlab_helpers.plots import Table
from attnlab_helpers.plots.table import cell_text, table_html, table_text
from attnlab_helpers.units import format_bytes, format_count, format_ns


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0 ns"),
        (704, "704 ns"),
        (61_100, "61.1 us"),
        (7_040, "7.04 us"),
        (131_000, "131 us"),
        (999_960, "1 ms"),  # rounds past 999 us: the next unit takes it
        (1_066_000, "1.066 ms"),
        (2_500_000_000, "2.500 s"),
        (-3_000, "-3 us"),
        (float("nan"), "-"),
        (None, "-"),
        (float("inf"), "inf"),
    ],
)
def test_times_carry_the_unit_that_fits(nanoseconds, text):
    assert format_ns(nanoseconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1_023, "1023 B"),
        (1_536, "1.50 KiB"),
        (268_435_456, "256 MiB"),
        (1_073_741_823, "1 GiB"),
        (-5, "-5 B"),
        (None, "-"),
    ],
)
def test_sizes_are_powers_of_1024(size, text):
    assert format_bytes(size) == text


def test_counts_have_their_noun():
    assert format_count(1, "launch", "launches") == "1 launch"
    assert format_count(50_000, "launch", "launches") == "50,000 launches"
    assert format_count(0, "kernel") == "0 kernels"


FRAME = pd.DataFrame(
    {
        "name": ["naive", "<script>alert(1)</script>"],
        "time": ["1.066 ms", "937 us"],
        "kernels": [7, 6],
        "error": [0.000123456, np.nan],
    }
)


def test_html_is_escaped_and_carries_caption_and_provenance():
    table = Table(FRAME, 'Two <b>runs</b> & "more"', "recorded on <GPU>")
    html = table._repr_html_()
    assert "<script" not in html and "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert ">Two &lt;b&gt;runs&lt;/b&gt; &amp; &quot;more&quot;<br>" in html
    assert "recorded on &lt;GPU&gt;" in html


def test_numbers_stand_at_the_right_also_without_style():
    html = Table(FRAME)._repr_html_()
    assert "<td align=right>1.066\N{NO-BREAK SPACE}ms</td>" in html
    assert "<td align=right>7</td>" in html
    assert "<td style=text-align:left>naive</td>" in html


def test_a_caption_stays_on_one_line_beside_a_narrow_table_and_a_long_one_is_folded():
    short = Table(FRAME, "A caption", "recorded on a GPU with a long name, 2026-12-01")
    assert 'style="text-align:left;white-space:nowrap;width:0"' in short._repr_html_()
    for told in ({"caption": "word " * 40}, {"caption": "A caption", "provenance": "word " * 40}):
        assert '<caption style="text-align:left">' in Table(FRAME, **told)._repr_html_()
    assert "<caption" not in Table(FRAME)._repr_html_()


def test_plain_text_is_stable_and_aligned():
    table = Table(FRAME, "Two runs", "live on CPU")
    assert str(table) == repr(table) == str(Table(FRAME.copy(), "Two runs", "live on CPU"))
    lines = str(table).splitlines()
    assert lines[0] == "Two runs" and lines[-1] == "live on CPU"
    assert lines[2].startswith("naive") and "0.0001235" in lines[2]
    assert lines[3].endswith("-")
    assert " at 0x" not in str(table)


def test_empty_table_says_so():
    assert "(no rows)" in str(Table(FRAME.iloc[:0], "Nothing"))
    assert "<tbody></tbody>" in Table(FRAME.iloc[:0])._repr_html_()


def test_a_named_index_is_a_column():
    frame = pd.DataFrame({"ms": [1.5]}, index=pd.Index(["naive"], name="implementation"))
    assert "implementation" in str(Table(frame)) and "naive" in Table(frame)._repr_html_()
    assert "index" not in Table(FRAME)._repr_html_()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.int64(1_234_567), "1,234,567"),
        (12, "12"),
        (1.5, "1.500"),
        (2.0, "2.000"),
        (0.0, "0"),
        (1e-9, "1.000e-09"),
        (float("inf"), "inf"),
        (None, "-"),
        (pd.NA, "-"),
        (True, "True"),
        ("text", "text"),
    ],
)
def test_cells_read_as_people_write(value, text):
    assert cell_text(value) == text


def test_columns_in_the_packages_units_are_shown_with_the_unit_that_fits():
    frame = pd.DataFrame({"gpu_time_ns": [61_100.0, None], "peak_memory_bytes": [2**28, 0]})
    text = str(Table(frame))
    assert text.splitlines()[0].split("  ") == ["gpu time", "peak memory"]
    assert text.splitlines()[1].split("  ")[-1].strip() == "256 MiB"
    assert "61.1 us" in text and text.splitlines()[2].split()[0] == "-"
    assert list(frame.columns) == ["gpu_time_ns", "peak_memory_bytes"]


def test_underscores_are_spaces_in_names_of_one_word_only() -> None:
    frame = pd.DataFrame({"gpu_activities": [1], "add_kernel (Triton) for 9.0": [2]})
    head = table_text(frame).splitlines()[0]
    assert "gpu activities" in head and "add_kernel (Triton)" in head
    named = pd.DataFrame({"add_kernel": ["a_b"], "time_ns": [5]})
    assert table_text(named, verbatim=True).splitlines()[0].split() == ["add_kernel", "time_ns"]
    assert ">add_kernel<" in table_html(named, verbatim=True)
    assert "add_kernel" not in str(Table(named)) and "add_kernel" in str(
        Table(named, verbatim=True)
    )
