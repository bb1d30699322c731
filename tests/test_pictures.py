"""Pictures with axes: what is drawn, said in words and tabled; quiet fonts; no widgets needed."""

import subprocess
import sys

import pandas as pd
import pytest
import torch

from attnlab_helpers.plots import apart, curves, matrices, memory_stairs, photographs

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


def test_curves_of_bytes_and_numbers_say_their_unit() -> None:
    says = {"title": "T", "x_label": "size", "provenance": "p"}
    picture = curves([1, 2], {"held": [2**20, 2**30]}, unit="bytes", **says)
    assert "held goes from 1 MiB to 1 GiB" in picture.alt and "1 GiB" in str(picture)
    plain = curves([1, 2], {"entropy": [0.5, 6.2]}, unit="", log_y=False, **says)
    assert "entropy goes from 0.5 to 6.2" in plain.alt
    with pytest.raises(ValueError, match="is not one of"):
        curves([1], {"a": [1]}, unit="apples", **says)


def test_matrices_grey_what_is_hidden_and_write_small_ones_out() -> None:
    hidden = torch.tensor([[1.0, float("-inf")], [0.5, -0.25]])
    picture = matrices({"scores": hidden}, title="S <", provenance="live on X")
    assert "scores, 2 x 2, from -0.25 to 1" in picture.alt
    assert 'alt="S &lt;' in picture._repr_mimebundle_()["text/html"]
    for wrong in ({}, {"a": torch.zeros(3)}, {"a": torch.zeros(0, 2)}):
        with pytest.raises(ValueError, match="matri"):
            matrices(wrong, title="", provenance="")


def test_photographs_and_patches_pulled_apart() -> None:
    image = torch.rand(3, 32, 48)
    sheet = apart(image, patch=16, gap=4)
    assert sheet.shape == (3, 36, 56)
    assert torch.equal(sheet[:, 20:36, 40:56], image[:, 16:32, 32:48])
    assert (sheet[:, 16:20] == 1).all() and (sheet[:, :, 36:40] == 1).all()
    picture = photographs({"a": image, "b": image[0]}, title="T", provenance="p")
    assert set(picture._repr_mimebundle_()) == {"text/plain", "text/html"}
    with pytest.raises(ValueError, match="one to six"):
        photographs({}, title="", provenance="")
    with pytest.raises(ValueError, match="cannot be cut"):
        apart(image, patch=15)


def test_stairs_mark_the_peak() -> None:
    picture = memory_stairs({"naive": HELD, "other": HELD[:1]}, "Memory", "counted")
    assert "naive peaks at 3 KiB in aten::mul; other peaks at 1 KiB in aten::bmm" in picture.alt
    assert len(picture.table) == 3


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: curves([1], {}, title="", x_label="", provenance=""), "one to 4 curves"),
        (lambda: curves([1], {"a": []}, title="", x_label="", provenance=""), "0 values for 1"),
        (
            lambda: curves([0, 1], {"a": [1, 2]}, title="", x_label="", provenance=""),
            r"x holds 0.*must be above 0.*Leave that point out",
        ),
        (lambda: curves([], {"a": []}, title="", x_label="", provenance=""), "at least one size"),
        (
            lambda: curves([1, 2], {"a": [5, 0]}, title="", x_label="", provenance=""),
            r"'a' holds 0.*log_y=False",
        ),
        (lambda: memory_stairs({}, "", ""), "at least one ledger"),
        (lambda: memory_stairs({"a": HELD[:0]}, "", ""), "a row in each"),
    ],
)
def test_what_cannot_be_drawn_gets_a_sentence(call, words) -> None:
    with pytest.raises(ValueError, match=words):
        call()


def test_zeros_are_drawn_where_an_axis_has_them() -> None:
    picture = curves(
        [1, 2], {"a": [0, -3]}, title="", x_label="", provenance="", unit="", log_y=False
    )
    assert "a goes from 0 to -3" in picture.alt


def test_a_long_name_stays_on_the_picture() -> None:
    name = "a" * 100 + "b" * 100
    figure = curves([1, 2], {name: [1, 2]}, title="", x_label="", provenance="").figure()
    figure.draw_without_rendering()
    (text,) = [one for one in figure.axes[0].texts if "aaa" in one.get_text()]
    assert text.get_text().endswith("bb")
    assert text.get_window_extent().x1 <= figure.bbox.width
    stairs = memory_stairs({name: HELD}, "Memory", "counted").figure()
    stairs.draw_without_rendering()
    label = stairs.axes[0].yaxis.label
    assert label.get_window_extent().x0 >= 0 and label.get_text().endswith("b")


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
