"""The roofline: its numbers, what bounds a point, labels that never overlap, ceilings' sources."""

import dataclasses
import random

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg

from attnlab_helpers.gpus import find, numbers_for
from attnlab_helpers.plots import roofline
from attnlab_helpers.plots.roofline_labels import (
    AXES_HEIGHT,
    AXES_WIDTH,
    LINE,
    crosses,
    place_labels,
)
from attnlab_helpers.plots.roofline_plane import LEADER

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


@pytest.mark.parametrize("name", NASTY)
def test_lines_to_labels_keep_out_of_other_labels(name):
    figure, texts = drawn_boxes(roofline(NASTY[name], CARD, provenance="p"))
    leaders = [line for line in figure.axes[0].lines if line.get_gid() == LEADER]
    assert leaders or name in ("along the roof", "at the ends")
    for line in leaders:
        start, end = line.get_transform().transform(line.get_xydata())
        for text, box in texts:
            shrunk = box.x0 + 1, box.y0 + 2, box.x1 - 1, box.y1 - 2
            own = box.x0 - 9 <= end[0] <= box.x1 + 9 and box.y0 - 5 <= end[1] <= box.y1 + 5
            assert own or not crosses(tuple(start), tuple(end), shrunk), text


def test_a_line_crosses_a_box_or_not():
    box = (1.0, 1.0, 2.0, 2.0)
    assert crosses((0, 0), (3, 3), box) and crosses((1.5, 0), (1.5, 3), box)
    assert crosses((0, 1.5), (1.5, 1.5), box)
    assert not crosses((0, 0), (0.9, 0.9), box) and not crosses((0, 2.5), (3, 2.5), box)
    assert not crosses((0, 1.5), (2, 4), box) and not crosses((2.5, 0), (2.5, 3), box)


def test_a_card_without_vendors_roofs_is_drawn_with_the_measured_ones():
    points = [point("a", 10e9, 1e9, 2e6), point("b", 1e12, 1e9, 20e6), point("c", 0, 1e9, 1.25e6)]
    picture = roofline(points, "NVIDIA L4", measured_bandwidth=1e12, provenance="p")
    rows = picture.table.set_index("label")
    # Only the memory's roof is there: 10 and 1000 TFLOP/s above the two points, 1 TB/s.
    assert rows["share_%"].tolist() == pytest.approx([50, 5, 80])
    assert rows["share_of_measured_%"].tolist() == rows["share_%"].tolist()
    assert rows["bound by"].tolist() == ["unknown (no compute roof)"] * 2 + ["memory"]
    figure, texts = drawn_boxes(picture)
    said = [text for text, _ in texts]
    assert "memory, measured 1 TB/s" in said
    assert not any("ridge" in text or "TFLOP/s" in text for text in said)
    assert "memory at 1 TB/s (measured); no compute roof known in bfloat16" in picture.alt
    assert "NVIDIA L4, not in the table of cards" in picture.provenance
    solid = [line for line in figure.axes[0].lines if line.get_linewidth() == 1.6]
    assert not solid

    both = roofline(
        points, numbers_for("NVIDIA L4"), measured_bandwidth=1e12, measured_flops=1e14,
        provenance="p",
    )  # fmt: skip
    assert both.table["share_%"].tolist() == pytest.approx([50, 50, 80])
    assert both.table["bound by"].tolist() == ["memory", "compute (bfloat16)", "memory"]
    said = [text for text, _ in drawn_boxes(both)[1]]
    assert "bfloat16, measured 100 TFLOP/s" in said and "ridge 100 FLOP/byte" in said
    assert "100 TFLOP/s in bfloat16 (measured), from 100 FLOP/byte on" in both.alt

    older = roofline(points, "Tesla T4", provenance="p")  # no bfloat16, but a known memory
    assert older.table["share_%"].iloc[2] == pytest.approx(100 * 800 / 320)
    assert "memory 320 GB/s" in [text for text, _ in drawn_boxes(older)[1]]


def test_a_card_by_name_is_the_card():
    one = [point("a", 1e9, 1e9, 1e6)]
    by_name, by_card = (roofline(one, gpu, provenance="p") for gpu in ("NVIDIA H200", find("H200")))
    assert by_name.table.equals(by_card.table) and by_name.provenance == by_card.provenance
    with pytest.raises(TypeError, match=r"gpu must be a card of gpus\.GPUS"):
        roofline(one, None, provenance="p")


def test_what_nobody_knows_and_wrong_types_are_refused():
    with pytest.raises(TypeError, match="point 0 is a str"):
        roofline(["a"], CARD, provenance="p")
    with pytest.raises(TypeError, match="points must be a DataFrame"):
        roofline(None, CARD, provenance="p")
    with pytest.raises(ValueError, match="'a' has flops='many': a number it must be"):
        roofline([point("a", "many", 1, 1)], CARD, provenance="p")
    one = [point("a", 1, 1, 1)]
    assert len(roofline(one, find("T4"), dtype="float16", provenance="p").table) == 1
    with pytest.raises(ValueError, match="bandwidth of Card is not known: hand in measured_band"):
        roofline(one, dataclasses.replace(CARD, memory_bandwidth=None), provenance="p")
    with pytest.raises(ValueError, match="bandwidth of NVIDIA L4 is not known"):
        roofline(one, "NVIDIA L4", measured_flops=1e12, provenance="p")
    for wrong in (0, -1, "4", float("nan"), float("inf"), True):
        with pytest.raises(ValueError, match="must be a number above 0"):
            roofline(one, CARD, measured_flops=wrong, provenance="p")
        with pytest.raises(ValueError, match="must be a number above 0"):
            roofline(one, CARD, measured_bandwidth=wrong, provenance="p")
