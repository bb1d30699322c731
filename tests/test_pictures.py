"""Pictures with axes: what is drawn, said in words and tabled; quiet fonts; no widgets needed."""

import subprocess
import sys

import pandas as pd
import pytest

from attnlab_helpers.plots import curves, memory_stairs

HELD = pd.DataFrame(
    {"operator": ["aten::bmm", "aten::mul"], "new_bytes": [1024, 2048], "held_bytes": [1024, 3072]}
)


def test_curves_say_their_ends_and_table_their_numbers() -> None:
    picture = curves(
        [64, 128], {"GPU": [2_900, 61_000]}, title="A < B", x_label="size", provenance="live on X"
    )
    bundle = picture._repr_mimebundle_()
    assert "GPU goes from 2.90 us to 61 us" in picture.alt
    assert 'alt="A &lt; B. Curves' in bundle["text/html"] and "A < B" not in bundle["text/html"]
    assert "live on X" in bundle["text/html"] and "live on X" in bundle["text/plain"]
    assert list(picture.table["GPU_ns"]) == [2_900, 61_000]
    assert bundle["image/png"].startswith(b"\x89PNG") and len(bundle["image/png"]) < 40_000
    assert "0x" not in repr(picture)


def test_stairs_mark_the_peak() -> None:
    picture = memory_stairs({"naive": HELD, "other": HELD[:1]}, "Memory", "counted")
    assert "naive peaks at 3 KiB in aten::mul; other peaks at 1 KiB in aten::bmm" in picture.alt
    assert len(picture.table) == 3


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: curves([1], {}, title="", x_label="", provenance=""), "one to 4 curves"),
        (lambda: curves([1], {"a": []}, title="", x_label="", provenance=""), "0 times for 1"),
        (lambda: memory_stairs({}, "", ""), "at least one ledger"),
        (lambda: memory_stairs({"a": HELD[:0]}, "", ""), "a row in each"),
    ],
)
def test_what_cannot_be_drawn_gets_a_sentence(call, words) -> None:
    with pytest.raises(ValueError, match=words):
        call()


def test_saved_pictures_have_the_format_of_their_ending(tmp_path) -> None:
    picture = memory_stairs({"naive": HELD}, "Memory", "counted")
    assert picture.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in picture.save(tmp_path / "a.svg").read_text()
    with pytest.raises(ValueError, match=r"use .png or .svg"):
        picture.save(tmp_path / "a.jpg")


def test_j11_j13_pictures_need_no_widgets_and_print_nothing_about_fonts(tmp_path) -> None:
    code = """
import sys
sys.modules["ipywidgets"] = None
from attnlab_helpers import PROFILING_POST, compare, run
both = [run(name, PROFILING_POST, source="recorded") for name in ("naive", "in_place")]
bundle = compare(*both).timeline()._repr_mimebundle_()
assert "<img" in bundle["text/html"]
"""
    environment = {"MPLCONFIGDIR": str(tmp_path), "PATH": "", "PYTHONPATH": ""}
    answer = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", code],
        capture_output=True,
        text=True,
        env=environment | {"PYTHONPATH": ":".join(path for path in sys.path if path)},
    )
    assert answer.returncode == 0, answer.stderr
    assert "findfont" not in answer.stderr
