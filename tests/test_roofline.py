"""The roofline: its numbers, what bounds a point, labels that never overlap, ceilings' sources."""

import dataclasses
import random

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg

from attnlab_helpers.gpus import find
from attnlab_helpers.plots import roofline
from attnlab_helpers.plots.roofline_labels import AXES_HEIGHT, AXES_WIDTH, LINE, place_labels

MIB = 2**20
# Round numbers, so that the expected ones are worked out in the head: ridge at 100 FLOP/byte.
CARD = dataclasses.replace(
    find("H200"), name="Card", memory_bandwidth=1e12, bf16_flops=1e14, fp32_flops=1e13, source="me"
)


def point(label, flops, size, time_ns, **more):
    return {"label": label, "flops": flops, "bytes": size, "time_ns": time_ns, **more}


def drawn_boxes(picture):
    """The texts of the first axes with their boxes in pixels, as matplotlib lays them out."""
    figure = picture.figure()
    FigureCanvasAgg(figure).draw()
    return figure, [(t.get_text(), t.get_window_extent()) for t in figure.axes[0].texts]


def test_numbers_of_a_point_below_and_above_the_ridge():
    points = [
        point("low", 10e9, 1e9, 2e6),  # 10 FLOP/byte, 5 TFLOP/s of 10
        point("high", 1e12, 1e9, 20e6),  # 1000 FLOP/byte, 50 TFLOP/s of 100
        point("fp32", 1e11, 1e9, 20e6, dtype="float32"),  # 100 FLOP/byte, 5 of 10
        point("copy", 0, 1e9, 1.25e6),  # 0.8 TB/s
    ]
    for given_points in (points, pd.DataFrame(points)):
        picture = roofline(given_points, CARD, provenance="worked out")
        rows = picture.table.set_index("label")
        assert rows["FLOP/byte"].tolist() == pytest.approx([10, 1000, 100, 0])
        assert rows["TFLOP/s"].tolist() == pytest.approx([5, 50, 5, 0])
        assert rows["share_%"].tolist() == pytest.approx([50, 50, 50, 80])
        assert rows["bound by"].tolist() == [
            "memory", "compute (bfloat16)", "compute (float32)", "memory",
        ]  # fmt: skip
        assert rows["roof TFLOP/s"].tolist()[:3] == pytest.approx([10, 100, 10])
        assert "group" not in rows and "share_of_measured_%" not in rows


def test_measured_ceilings_have_a_share_of_their_own():
    points = [point("a", 10e9, 1e9, 2e6), point("b", 1e12, 1e9, 20e6), point("c", 0, 1e9, 1.25e6)]
    picture = roofline(
        points, CARD, measured_bandwidth=0.8e12, measured_flops=8e13,
        measured_provenance="live on Card", provenance="worked out",
    )  # fmt: skip
    shares = picture.table["share_of_measured_%"].tolist()
    assert shares == pytest.approx([62.5, 62.5, 100])
    assert "dashed: measured, live on Card" in picture.provenance
    texts = [text for text, _ in drawn_boxes(picture)[1]]
    assert "memory 1 TB/s, measured 800 GB/s" in texts
    assert "bfloat16 100 TFLOP/s, measured 80 TFLOP/s" in texts
    dashed = [line for line in picture.figure().axes[0].lines if line.get_linestyle() == "--"]
    assert len(dashed) == 2


def test_words_say_what_the_picture_shows(tmp_path):
    points = [
        point("<b>naive</b>", 10e9, 1e9, 2e6, group="five lines"),
        point("fused", 1e12, 1e9, 20e6, group="one line"),
        point("copy", 0, 1e9, 1.25e6, group="five lines"),
    ]
    picture = roofline(points, CARD, title="Mine", provenance="live on Card")
    assert picture.alt.startswith("Mine. Rate over arithmetic intensity")
    for said in ("100 FLOP/byte on", "fused: 1e+03 FLOP/byte", "copy: no arithmetic, 80 %"):
        assert said in picture.alt
    assert picture.provenance == "Points: live on Card. Ceilings: Card, me"
    figure, texts = drawn_boxes(picture)
    assert "ridge 100 FLOP/byte" in [text for text, _ in texts]
    assert picture.provenance in [text.get_text() for text in figure.texts]
    assert {"five lines", "one line"} <= {text.get_text() for text in figure.texts}
    markers = {line.get_marker() for line in figure.axes[0].lines} - {"None", "", None}
    assert len(markers) == 2
    html = picture._repr_mimebundle_()["text/html"]
    assert "<b>naive" not in html and "&lt;b&gt;naive" in html
    assert picture.save(tmp_path / "roof.png").stat().st_size < 60_000


NASTY = {
    "all in one place": [point(f"kernel {i} " + "x" * 60, 1e10, 1e9, 90e3) for i in range(12)],
    "one intensity": [point(f"kernel number {i}", 1e10, 64e6, (90 + i) * 1e3) for i in range(20)],
    "along the roof": [point(f"k{i} on the slope", 3.0**i, 1, 3.0**i / 1e14 * 1e9 + 1e-3)
                       for i in range(14)],
    "at the ends": [point("tiny", 1, 1e9, 1e9), point("huge", 1e15, 1, 1e10)],
}  # fmt: skip


@pytest.mark.parametrize("name", NASTY)
def test_labels_do_not_overlap(name):
    figure, texts = drawn_boxes(roofline(NASTY[name], CARD, provenance="p"))
    everything = figure.bbox
    for place, (text, box) in enumerate(texts):
        assert everything.x0 <= box.x0 and box.x1 <= everything.x1, text
        for other, second in texts[place + 1 :]:
            # A pixel of the outline is no overlap that anybody sees.
            wide = min(box.x1, second.x1) - max(box.x0, second.x0)
            tall = min(box.y1, second.y1) - max(box.y0, second.y0)
            assert wide <= 1 or tall <= 1, f"{text!r} covers {other!r}"


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 12))
def test_any_spots_get_labels_apart_and_inside(seed, count):
    draw = random.Random(seed)
    spots = [
        (draw.uniform(0.5, 0.55) * AXES_WIDTH, draw.uniform(0.2, 0.8) * AXES_HEIGHT)
        for _ in range(count)
    ]
    widths = [draw.uniform(0.3, 2.3) for _ in range(count)]
    placed = place_labels(spots, widths, [], [])
    boxes = [(x, y, x + width) for (x, y), width in zip(placed, widths, strict=True)]
    for index, (left, bottom, right) in enumerate(boxes):
        assert left >= 0 and right <= AXES_WIDTH and 0 <= bottom <= AXES_HEIGHT - LINE / 2
        for second in boxes[index + 1 :]:
            apart = abs(bottom - second[1]) > LINE - 0.02
            assert apart or right <= second[0] or second[2] <= left


def test_only_copies_and_long_names_are_drawn():
    picture = roofline([point("copy " + "y" * 200, 0, 1e9, 1.25e6)], CARD, provenance="p " * 400)
    figure = picture.figure()
    FigureCanvasAgg(figure).draw()
    (axes,) = figure.axes
    assert axes.texts[0].get_window_extent().x1 <= figure.bbox.x1
    assert axes.patches[0].get_width() == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([], "at least one point"),
        ([{"label": "a", "flops": 1, "bytes": 2}], r"point 0 \(a\) has no time_ns"),
        ([point("a", 1, 0, 1)], "'a' has bytes=0: above 0"),
        ([point("a", -1, 1, 1)], "'a' has flops=-1: 0 or more"),
        ([point("a", 1, 1, float("nan"))], "'a' has time_ns=nan"),
        ([point("a", 1, 1, 1, dtype="int8")], "'a' has dtype 'int8': one of bfloat16"),
        ([point("a", 1, 1, 1)] * 21, "21 points in 1 groups"),
    ],
)
def test_what_cannot_be_drawn_is_refused(points, message):
    with pytest.raises(ValueError, match=message):
        roofline(points, CARD, provenance="p")


def test_unknown_peaks_and_wrong_types_are_refused():
    with pytest.raises(TypeError, match="point 0 is a str"):
        roofline(["a"], CARD, provenance="p")
    one = [point("a", 1, 1, 1)]
    with pytest.raises(ValueError, match="peak of Tesla T4 for bfloat16 is not known"):
        roofline(one, find("T4"), provenance="p")
    assert len(roofline(one, find("T4"), dtype="float16", provenance="p").table) == 1
    with pytest.raises(ValueError, match="memory bandwidth of Card is not known"):
        roofline(one, dataclasses.replace(CARD, memory_bandwidth=None), provenance="p")
    with pytest.raises(ValueError, match="measured_flops=0 must be above 0"):
        roofline(one, CARD, measured_flops=0, provenance="p")
