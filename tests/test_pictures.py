"""Pictures with axes: what is drawn, said in words and tabled; quiet fonts; no widgets needed."""

import itertools
import subprocess
import sys

import pandas as pd
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from attnlab_helpers.plots import apart, curves, matrices, memory_stairs, photographs
from attnlab_helpers.plots.curves import keep_apart, plain_number

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


def test_matrices_leave_room_for_every_word() -> None:
    for count in (1, 2, 3, 4):
        values = {f"matrix {place}": torch.rand(14, 14) for place in range(count)}
        figure = matrices(values, title="T", provenance="live on X").figure()
        figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in figure.texts]  # title and provenance
        for axes in figure.axes:
            words = [axes.xaxis.label, axes.yaxis.label, axes.title]
            for axis, ends in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
                marks = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=True)
                words += [text for at, text in marks if min(ends) <= at <= max(ends)]
            mine = [word.get_window_extent() for word in words if word.get_text()]
            assert not [box for box in boxes for own in mine if box.overlaps(own)]
            assert all(own.x0 >= 0 and own.x1 <= figure.bbox.width for own in mine)
            boxes += mine
        assert len(figure.axes) == 2 * count  # a scale of colours for each
        assert all(axes.get_xlim()[0] == 0 for axes in figure.axes[1::2])


def test_ticks_of_matrices_are_whole_numbers() -> None:
    for shape in ((9, 9), (14, 30), (3, 196)):
        figure = matrices({"a": torch.rand(shape)}, title="T", provenance="p").figure()
        figure.draw_without_rendering()
        axes = figure.axes[0]
        for axis in (axes.xaxis, axes.yaxis):
            assert all(float(tick).is_integer() for tick in axis.get_majorticklocs())


def test_matrices_on_one_scale() -> None:
    values = {"a": torch.tensor([[0.0, 0.5]]), "b": torch.tensor([[-2.0, 3.0]])}
    picture = matrices(values, title="T", provenance="p", limits=(-1, 2))
    assert "One scale of colours for all, from -1 to 2" in picture.alt
    figure = picture.figure()
    figure.draw_without_rendering()
    ticks = [[one.get_text() for one in axes.get_xticklabels()] for axes in figure.axes[1::2]]
    assert ticks == [["-1", "2", "0"], ["≤ -1", "≥ 2", "0"]]
    looks = [axes.images[0] for axes in figure.axes[::2]]
    assert looks[0].get_clim() == looks[1].get_clim() == (-2, 2)  # white stays at zero
    assert looks[0].get_cmap()(looks[0].norm(0.0))[:3] == pytest.approx((1, 1, 1), abs=0.01)
    own = matrices(values, title="T", provenance="p").figure()
    assert [axes.images[0].get_clim() for axes in own.axes[::2]] == [(0, 0.5), (-3, 3)]
    for wrong in ((1, 0), (0, float("inf")), (0,), 3, (False, True), "ab"):
        with pytest.raises(ValueError, match="must be two finite numbers"):
            matrices(values, title="", provenance="", limits=wrong)


def test_matrices_name_rows_in_the_plural() -> None:
    one = torch.ones(2, 2)
    assert (
        "rows are queries, columns are keys:" in matrices({"a": one}, title="", provenance="").alt
    )
    says = {"title": "", "provenance": "", "row_label": "row", "column_label": "box"}
    assert "rows are rows, columns are boxes:" in matrices({"a": one}, **says).alt


def test_numbers_from_a_thousand_to_a_million_are_written_out() -> None:
    texts = {
        0: "0", 0.5: "0.5", 6.25: "6.25", 999: "999", 999.7: "1,000", 1000: "1,000",
        1024.4: "1,024", -250_000: "-250,000", 1_000_000: "1,000,000", 12_345_678: "1.23e+07",
    }  # fmt: skip
    assert {value: plain_number(value) for value in texts} == texts
    picture = curves(
        [4, 1024], {"a": [4, 1024]}, title="", x_label="", provenance="", unit="", log_y=True
    )
    figure = picture.figure()
    figure.draw_without_rendering()
    assert "1,000" in [text.get_text() for text in figure.axes[0].get_yticklabels()]


def test_photographs_are_as_wide_as_what_they_show() -> None:
    image = torch.rand(3, 32, 32)
    for count in (1, 2, 3, 6):
        picture = photographs({str(n): image for n in range(count)}, title="T", provenance="p")
        figure = picture.figure()
        right = max(axes.get_position().x1 for axes in figure.axes)
        assert (1 - right) * figure.get_figwidth() < 0.3
        assert picture.width == round(100 * figure.get_figwidth())
    title = "a title that is longer than one photograph, but not by much"
    figure = photographs({"a": image}, title=title, provenance="p").figure()
    figure.draw_without_rendering()
    assert all(text.get_window_extent().x1 <= figure.bbox.width for text in figure.texts)


@pytest.mark.parametrize(
    ("image", "error", "words"),
    [
        (torch.rand(3, 8, 8) * 255, ValueError, "Divide by 255"),
        (torch.zeros(3, 8, 8, dtype=torch.uint8), TypeError, "divide by 255"),
        (torch.zeros(8, 8, dtype=torch.bool), TypeError, "float"),
        (torch.zeros(1, 3, 8, 8), ValueError, "one picture of the batch"),
        (torch.zeros(8, 8).numpy(), TypeError, "must be a torch tensor"),
    ],
)
def test_photographs_are_pictures(image, error, words) -> None:
    with pytest.raises(error, match=words):
        photographs({"a": image}, title="", provenance="")
    with pytest.raises((TypeError, ValueError), match="image"):
        apart(image, 8)
    with pytest.raises(TypeError, match="name -> picture"):
        photographs([image], title="", provenance="")


@pytest.mark.parametrize("gap", [-1, 1.5, True, "4"])
def test_a_gap_is_a_whole_number(gap) -> None:
    with pytest.raises(ValueError, match="gap must be a whole number of 0 or more"):
        apart(torch.rand(3, 32, 32), 16, gap)


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
        (lambda: curves([1], {}, title="", x_label="", provenance=""), "one to 6 curves"),
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


def test_names_at_the_ends_keep_their_distance_and_move_little() -> None:
    assert keep_apart([0, 10, 20], 5) == [0, 10, 20]
    assert keep_apart([7, 7, 7], 10) == [-3, 7, 17]
    assert keep_apart([0, 1, 30, 31, 32], 10) == [-4.5, 5.5, 21, 31, 41]
    places = keep_apart([0, 8, 16, 17], 10)
    gaps = [b - a for a, b in itertools.pairwise(places)]
    assert min(gaps) > 9.999
    assert sum(places) == pytest.approx(41)


def test_sizes_in_bytes_are_written_as_sizes_and_every_second_of_many() -> None:
    x = [2**power for power in range(10, 34, 2)]
    picture = curves(
        x, {"copy": [1.0 * size for size in x]}, title="t", x_label="size", x_unit="bytes",
        provenance="p", unit="", y_label="GB/s",
    )  # fmt: skip
    axes = picture.figure().axes[0]
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels[:3] == ["1 KiB", "", "16 KiB"]
    assert "1 KiB" in picture.alt and picture.table.columns[0] == "size_bytes"


@pytest.mark.parametrize(
    "x", [[224, 384, 448, 1024, 4096], [512, 8000, 8192, 8300], [100, 101], [7]]
)
def test_the_numbers_of_sizes_that_lie_close_do_not_touch(x) -> None:
    picture = curves(
        x, {"a": [float(size) for size in x]}, title="t", x_label="n", provenance="p", unit=""
    )
    figure = picture.figure()
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    labels = [label for label in figure.axes[0].get_xticklabels() if label.get_text()]
    boxes = [label.get_window_extent(canvas.get_renderer()) for label in labels]
    gaps = [right.x0 - left.x1 for left, right in itertools.pairwise(boxes)]
    assert all(gap > 5 for gap in gaps), gaps
    assert labels[-1].get_text() == f"{x[-1]:,}" and len(figure.axes[0].get_xticks()) == len(x)


def test_columns_of_a_table_are_drawn_by_place_not_by_label() -> None:
    table = pd.DataFrame({"copy": [1.0, 2.0, 4.0]}, index=[64, 128, 256])
    picture = curves(
        table.index, {"copy": table["copy"]}, title="t", x_label="size", provenance="p", unit=""
    )
    assert "copy goes from 1 to 4" in picture.alt
    assert picture._png.startswith(b"\x89PNG")
