"""The timeline: what is laid out, drawn and written, for good traces and for bad ones."""

import io
import json
import re
import time
import warnings
from dataclasses import dataclass
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import trace_factory as factory
from PIL import Image

from attnlab_helpers.plots import style, timeline
from attnlab_helpers.plots.timeline.labels import printable, ruler, shorten_middle, wrap
from attnlab_helpers.plots.timeline.leaders import Wish, place_leaders
from attnlab_helpers.plots.timeline.plan import EDGE, LEFT, PLOT, plan_picture
from attnlab_helpers.plots.timeline.spans import COLUMNS, idle_gaps, merge_narrow, stack_rows
from attnlab_helpers.profiling import label_kernels
from attnlab_helpers.profiling.kernel_names import WORK_KINDS

RECORDED = "recorded on NVIDIA H200, torch 2.11.0, 2026-12-03"


@dataclass
class Times:
    median_ns: int = 1_066_000
    p20_ns: int = 1_061_000
    p80_ns: int = 1_071_000
    samples: int = 50


class StandInRun:
    def __init__(self, label, trace, measured=None):
        self.label, self.call_trace, self.time = label, trace, measured
        self.provenance = RECORDED


@pytest.fixture(scope="module")
def naive():
    return StandInRun("naive", factory.naive_attention().trace(), Times())


@pytest.fixture(scope="module")
def in_place():
    return StandInRun("in_place", factory.naive_attention(in_place=True).trace())


@pytest.fixture(scope="module")
def pair(naive, in_place):
    return timeline(naive, in_place)


@pytest.fixture(autouse=True)
def _no_warnings():
    """A warning (a font not found, a glyph missing) would land in a notebook's output."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


class Page(HTMLParser):
    """Collects what an HTML output consists of."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.stack, self.scripts, self.text = [], [], [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("img", "br", "meta", "link"):
            self.stack.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        if self.stack and self.stack[-1] == "script":
            self.scripts[-1] += data
        else:
            self.text.append(data)


def live(picture):
    return json.loads(Page(picture._repr_mimebundle_()["text/html"]).scripts[0])


# What is laid out


def test_every_activity_is_drawn_once_and_counted(pair):
    panel = pair.picture.panels[0]
    gpu = [lane for lane in panel.lanes if lane.role == "gpu"]
    assert [lane.title for lane in gpu] == ["GPU 0\nstream 7"]
    assert sorted(gpu[0].spans["number"]) == [1, 2, 3, 4, 5, 6, 7]
    assert panel.totals[0] == "7 GPU activities"
    work_ns = int(gpu[0].spans["duration_ns"].sum())
    assert work_ns == 899_200 and "899 us of GPU work" in panel.totals
    assert "timed: median 1.066 ms" in panel.totals
    assert pair.picture.panels[1].totals[0] == "6 GPU activities"


def test_one_scale_starts_at_each_items_first_event(pair):
    for panel in pair.picture.panels:
        starts = [int(lane.spans["start_ns"].min()) for lane in panel.lanes]
        assert min(starts) == 0
    longest = max(panel.span_ns for panel in pair.picture.panels)
    assert pair.picture.span_ns == longest == pair.picture.panels[0].span_ns


def test_links_join_each_launch_with_what_it_started(pair):
    links = pair.picture.panels[0].links
    assert len(links) == 7
    assert (links["launch_ns"] < links["start_ns"]).all()


def test_operators_nest_and_name_who_launched(naive):
    panel = timeline(naive).picture.panels[0]
    operators = panel.lanes[0]
    assert operators.role == "operators" and operators.rows == 3
    copy = panel.activities[panel.activities["work"] == "copy"].iloc[0]
    assert copy["launched_by"] == "aten::masked_fill > aten::clone > aten::copy_"
    assert "copy_" in panel.launching.values()


def test_idle_gaps_follow_the_stated_rule():
    picture = timeline(factory.mlp().trace()).picture
    gaps = picture.panels[0].gaps
    assert len(gaps) == 9  # eight between nine kernels, one before the first
    assert (gaps["duration_ns"] >= max(1_000, 0.02 * picture.span_ns)).all()
    assert any("2% of the time axis" in note for note in picture.notes)
    quiet = timeline(factory.naive_attention().trace()).picture
    assert quiet.panels[0].gaps["duration_ns"].min() >= 0.02 * quiet.span_ns or not len(
        quiet.panels[0].gaps
    )


def test_waits_share_the_launch_lane_but_are_not_launches():
    picture = timeline(factory.mlp().trace()).picture
    launches = next(lane for lane in picture.panels[0].lanes if lane.role == "launches")
    waits = launches.spans[launches.spans["work"] == "wait"]
    assert waits["name"].tolist() == ["cudaDeviceSynchronize"]
    assert "9 launches" in picture.panels[0].totals


def test_streams_and_devices_get_a_lane_each():
    builder = factory.TraceBuilder()
    for device, stream in ((0, 7), (0, 20), (1, 7)):
        builder.gpu(factory.GEMM, 10 * device + stream, 5, stream=stream, device=device)
    panel = timeline(builder.trace()).picture.panels[0]
    titles = [lane.title for lane in panel.lanes if lane.role == "gpu"]
    assert titles == ["GPU 0\nstream 7", "GPU 0\nstream 20", "GPU 1\nstream 7"]
    assert "3 without a launch" in panel.totals


def test_lanes_can_be_chosen(naive):
    panel = timeline(naive, lanes=("gpu",)).picture.panels[0]
    assert {lane.role for lane in panel.lanes} == {"gpu"} and panel.links.empty
    with pytest.raises(ValueError, match="operators, launches, gpu"):
        timeline(naive, lanes=("kernels",))
    with pytest.raises(ValueError, match="at least one"):
        timeline()
    with pytest.raises(TypeError, match="not int"):
        timeline(3)


def test_overlaps_on_one_stream_go_to_rows_of_their_own_and_none_is_lost():
    builder = factory.TraceBuilder()
    for start in (0, 2, 4, 30):
        builder.gpu(factory.GEMM, start, 10)
    picture = timeline(builder.trace()).picture
    lane = picture.panels[0].lanes[0]
    assert len(lane.spans) == 4 and lane.rows == 3
    assert lane.spans["row"].tolist() == [0, 1, 2, 0]
    assert any("rows of their own" in note for note in picture.notes)


@pytest.mark.parametrize("seed", range(5))
def test_stacked_bars_never_overlap_within_a_row(seed):
    random = np.random.default_rng(seed)
    starts = np.sort(random.integers(0, 1_000, 60))
    durations = random.integers(0, 60, 60)
    rows = stack_rows(starts, durations)
    for row in range(5):  # the sixth takes what is left
        mine = rows == row
        ends = (starts + durations)[mine]
        assert (starts[mine][1:] >= ends[:-1]).all()


def test_gaps_ignore_what_overlaps():
    starts, durations = np.array([0, 5, 40]), np.array([30, 2, 1])
    assert idle_gaps(starts, durations).tolist() == [[30, 10]]
    assert len(idle_gaps(np.array([3]), np.array([1]))) == 0


# What is merged


def _spans(starts, durations, works=None):
    count = len(starts)
    return pd.DataFrame(
        {
            "name": [f"k{i}" for i in range(count)],
            "work": works or ["matmul"] * count,
            "start_ns": starts,
            "duration_ns": durations,
            "row": 0,
            "number": np.arange(1, count + 1),
            "record": np.arange(count),
            "count": 1,
            "busy_ns": durations,
        },
        columns=list(COLUMNS),
    )


def test_merging_keeps_count_and_time_and_wide_bars():
    spans = _spans(
        [0, 10, 20, 500, 900], [3, 4, 5, 300, 6], ["copy", "mask", "mask", "fill", "copy"]
    )
    merged = merge_narrow(spans, 100)
    assert merged["count"].tolist() == [3, 1, 1]
    assert merged["busy_ns"].sum() == spans["duration_ns"].sum()
    assert merged["work"].tolist() == ["mask", "fill", "copy"]
    assert (merged["start_ns"].iat[0], merged["duration_ns"].iat[0]) == (0, 25)
    assert merge_narrow(spans, 1) is spans


def test_fifty_thousand_events_stay_usable():
    builder = factory.many(50_000)
    trace = builder.trace()
    began = time.perf_counter()
    shown = timeline(trace)
    bundle = shown._repr_mimebundle_()
    took = time.perf_counter() - began
    print(f"50,000 events: {took:.1f} s, {len(bundle['text/html']) / 1000:.0f} kB of HTML")
    assert took < 10
    assert len(bundle["text/html"]) < 500_000
    data = live(shown)
    lanes = data["panels"][0]["lanes"]
    assert sum(len(lane["s"]) for lane in lanes) < 8_000  # of 50,000: at most one a pixel and row
    gpu = next(lane for lane in lanes if lane["role"] == "gpu")
    assert sum(gpu["c"]) == len(trace.kernels)
    assert any("narrower than a pixel" in note for note in shown.notes)
    assert any("live picture merges" in note for note in shown.notes)
    assert len(shown.table) == len(trace.kernels)


def test_two_hundred_events_cost_tens_of_kilobytes(pair):
    shown = timeline(factory.many(200).trace())
    bundle = shown._repr_mimebundle_()
    size = len(bundle["text/html"].encode()) + len(bundle["image/png"])
    print(f"200 events: {size / 1000:.0f} kB of HTML and PNG")
    assert size < 100_000
    small = pair._repr_mimebundle_()
    assert len(small["text/html"].encode()) + len(small["image/png"]) < 115_000


# Texts


def _boxes_overlap(one, other):
    rows = one.row <= other.last_row and other.row <= one.last_row
    return rows and one.left < other.right and other.left < one.right


def _crosses(line, text):
    """A leader's line runs from the bars to its own row; texts nearer the bars are in its way."""
    return line.row > text.last_row and text.left < line.x < text.right


@pytest.mark.parametrize("seed", range(8))
def test_texts_and_leaders_never_cross(seed):
    random = np.random.default_rng(seed)
    wishes = [
        Wish(i, float(x), "multiply by a number " * int(1 + i % 2), float(random.random()))
        for i, x in enumerate(random.uniform(1, 8, 18))
    ]
    placed = place_leaders(wishes, measure=ruler(7), rows=5, low=0.1, high=8.8)
    assert len(placed) >= 5
    for one in placed:
        assert one.left >= 0.1 and one.right <= 8.8 and one.last_row < 5
        for other in placed:
            if one is not other:
                assert not _boxes_overlap(one, other)
                assert not _crosses(one, other)


def test_labels_inside_bars_fit_them(pair):
    measure = ruler(6.8)
    scale = PLOT / pair.picture.span_ns
    for plans in plan_picture(pair.picture):
        for plan in plans:
            for key, lines in plan.inside.items():
                width = plan.spans["duration_ns"].iat[key] * scale
                assert max(measure(line) for line in lines) <= width
            for leader in plan.leaders:
                assert leader.left >= EDGE and leader.right <= LEFT + PLOT


def test_all_seven_activities_of_naive_attention_are_named(naive):
    picture = timeline(naive).picture
    gpu = plan_picture(picture)[0][-1]
    texts = [" ".join(lines) for lines in gpu.inside.values()]
    texts += [" ".join(leader.lines) for leader in gpu.leaders]
    for number, label in enumerate(picture.panels[0].activities["activity"], start=1):
        assert any(text.startswith(f"{number} {label}") for text in texts), label
    assert gpu.unlabelled == 0


def test_texts_are_made_drawable():
    assert printable("a\nb\tc  d") == "a b c d"
    assert "\u202e" not in printable("abc\u202edef")
    assert printable("\u4e2d") == "\u25a1"
    measure = ruler(7)
    cut = shorten_middle("one_long_name_forward", 0.8, measure)
    assert measure(cut) <= 0.8 and cut.startswith("one") and cut.endswith("ward")
    assert shorten_middle("short", 10, measure) == "short"
    assert wrap("softmax of rows", 10, ruler(7), 2) == ["softmax of rows"]
    assert wrap("unbreakable", 0.1, ruler(7), 3) is None


# The style


def test_each_kind_of_work_has_its_own_colour_and_hatch():
    looks = [style.WORK_STYLES[kind] for kind in WORK_KINDS]
    assert set(style.WORK_STYLES) == set(WORK_KINDS)
    assert len({look.color for look in looks}) == len(looks)
    assert len({look.pattern for look in looks}) == len(looks)
    plain = [kind for kind in WORK_KINDS if not style.WORK_STYLES[kind].hatch]
    assert plain == ["matmul", "other"]  # blue without, grey without


def _luminance(color):
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_on_every_fill_is_readable():
    grounds = [look.fill for look in style.WORK_STYLES.values()]
    grounds += [*style.OPERATOR_FILLS, style.LANE, style.HIDDEN_FILL]
    for ground in grounds:
        ratio = (_luminance(ground) + 0.05) / (_luminance(style.INK) + 0.05)
        assert ratio >= 4.5, ground
    for ink in (style.MUTED_INK, style.IDLE_INK):
        assert (_luminance(style.LANE) + 0.05) / (_luminance(ink) + 0.05) >= 4.5


# What is written


def test_the_bundle_holds_text_html_and_png(pair):
    bundle = pair._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", "image/png"}
    image = Image.open(io.BytesIO(bundle["image/png"]))
    assert image.format == "PNG" and image.width == 1155


def test_the_same_trace_gives_the_same_bytes(naive, in_place, pair):
    again = timeline(naive, in_place)._repr_mimebundle_()
    assert again == pair._repr_mimebundle_()


def test_plain_text_is_stable_and_without_times(pair):
    text = str(pair)
    assert text == repr(pair)
    assert "naive: 7 GPU activities" in text and "copy device to device" in text
    assert RECORDED in text
    assert " at 0x" not in text and " us" not in text and " ms" not in text


def test_html_works_without_script_style_and_svg(pair):
    page = Page(pair._repr_mimebundle_()["text/html"])
    assert page.stack == [], "every tag is closed"
    assert {"figure", "img", "details", "table", "figcaption"} <= set(page.tags)
    assert not {"svg", "iframe", "style", "link", "object"} & set(page.tags)
    alt = dict(page.attributes)["alt"]
    assert "naive: 7 GPU activities" in alt and "copy device to device 129 us" in alt
    text = " ".join(page.text)
    assert RECORDED in text and "aten::masked_fill > aten::clone > aten::copy_" in text
    assert not any(name.startswith("on") for name, _ in page.attributes)


def test_the_source_is_said_once_where_all_runs_share_it(pair, naive):
    def caption(picture):
        html = picture._repr_mimebundle_()["text/html"]
        return re.search(r"<figcaption>(.*?)</figcaption>", html).group(1)

    assert caption(pair) == RECORDED
    live = StandInRun("here", naive.call_trace)
    live.provenance = "live on CPU, torch 0"
    assert caption(timeline(naive, live)) == f"naive: {RECORDED}<br>here: live on CPU, torch 0"


def test_html_asks_the_network_for_nothing(pair, tmp_path):
    html = pair.save(tmp_path / "two.html").read_text(encoding="utf-8")
    for name, value in Page(html).attributes:
        if name in ("src", "href"):
            assert value.startswith("data:")
    assert not re.search(r"https?:|//[a-z0-9.-]+\.[a-z]{2,}/|@import|fetch\(|XMLHttp", html)


def test_the_live_data_is_the_trace(pair, naive):
    panel = live(pair)["panels"][0]
    gpu = next(lane for lane in panel["lanes"] if lane["role"] == "gpu")
    kernels = naive.call_trace.kernels.sort_values("start_ns")
    assert gpu["d"] == kernels["duration_ns"].tolist()
    origin = pair.picture.panels[0].origin_ns
    assert gpu["s"] == (kernels["start_ns"] - origin).tolist()
    details = live(pair)["details"]
    assert "grid 64x8x1" in details[gpu["t"][1]] and "168 registers" in details[gpu["t"][1]]


def test_the_table_has_the_numbers(pair):
    table = pair.table
    assert table["item"].tolist() == ["naive"] * 7 + ["in_place"] * 6
    assert table.loc[table["item"] == "naive", "share_percent"].sum() == pytest.approx(100)
    assert table.loc[3, "bytes"] == 268_435_456


def test_saving_by_ending(pair, tmp_path):
    assert pair.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    svg = pair.save(tmp_path / "a.svg").read_bytes()
    assert b"<svg" in svg and svg == pair.save(tmp_path / "b.svg").read_bytes()
    with pytest.raises(ValueError, match=r"\.png, \.svg or \.html"):
        pair.save(tmp_path / "a.pdf")


def test_drawing_leaves_matplotlib_as_it_was(naive):
    import matplotlib

    before = dict(matplotlib.rcParams)
    backend = matplotlib.rcParams["backend"]
    timeline(naive)._repr_mimebundle_()
    assert dict(matplotlib.rcParams) == before and matplotlib.rcParams["backend"] == backend


# Guess, then look


def test_guess_hides_names_until_asked(naive):
    shown = timeline(naive, guess=True)
    bundle = shown._repr_mimebundle_()
    page = Page(bundle["text/html"])
    assert page.tags.count("img") == 2
    first_alt = next(value for name, value in page.attributes if name == "alt")
    before, after = bundle["text/html"].split("<details>", 1)
    for label in shown.picture.labels.values():
        assert label not in first_alt and label not in before and label not in str(shown)
    assert "masked fill" in after and "<details open" not in bundle["text/html"]
    assert live(shown)["guess"] and live(timeline(naive))["guess"] is False
    assert not shown.picture.panels[0].activities.empty
    assert timeline(naive)._repr_mimebundle_()["image/png"] != bundle["image/png"]


def drawn_texts(shown):
    return [text.get_text() for text in shown.figure().axes[0].texts]


def test_guess_hides_totals_and_times_too(naive, in_place):
    shown = timeline(naive, in_place, guess=True)
    html = shown._repr_mimebundle_()["text/html"]
    before, after = html.split("<details>", 1)
    read = " ".join(drawn_texts(shown))
    said = re.sub('src="[^"]*"', "", before)
    for answer in ("7 GPU activities", "6 GPU activities", "median", " us ", "899 us", "launches,"):
        assert answer not in f"{read} " and answer not in f"{said} " and answer not in str(shown)
    assert not re.search(r"\d (us|ms)\b", read + said + str(shown))
    assert "names, totals and times" in read and "hidden" in said and "hidden" in str(shown)
    assert "7 GPU activities" in after
    assert "7 GPU activities" in drawn_texts(timeline(naive))


def test_a_guess_about_the_cpu_alone_says_what_is_hidden():
    builder = factory.TraceBuilder()
    builder.operator("aten::add", 0, 10).operator("aten::empty", 2, 3)
    shown = timeline(builder.trace(), guess=True)
    assert "hidden" in str(shown) and "hidden" in shown.alt
    assert "names, totals and times" in drawn_texts(shown)
    assert not any("aten" in text for text in drawn_texts(shown))


# Other people's input

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "\"quotes\" 'and' <b>tags</b> & more",
    "\u202eright to left\u202c \u0627\u0644\u0639",
    "two\nlines\rand\x00zero",
    "$not_math$ \\alpha_{x",
    "\u4e2d\u6587 \U0001f600 \ud800",
    "x" * 2_000,
    "",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(name):
    builder = factory.TraceBuilder(source=f"evil{name[:60]}.json")
    safe = name.encode("utf-8", "replace").decode()
    builder.operator(safe, 0, 20)
    builder.gpu(safe, 8, 30, correlation=builder.launch(2))
    run = StandInRun(safe, builder.trace())
    bundle = timeline(run, title=safe)._repr_mimebundle_()
    page = Page(bundle["text/html"])
    assert page.stack == []
    assert page.tags.count("script") == 2 and page.tags.count("img") == 1
    assert not {"b", "iframe"} & set(page.tags)
    assert not any(attribute.startswith("on") for attribute, _ in page.attributes)
    data = json.loads(page.scripts[0])
    assert not re.search("[<>&]", page.scripts[0])
    assert data["panels"][0]["label"] == safe
    assert bundle["text/plain"] and len(bundle["text/html"]) < 120_000


def test_two_kernels_alike_at_their_start_have_two_labels():
    builder = factory.TraceBuilder()
    names = ["k" * 60 + ending for ending in ("a", "b")]
    for index, name in enumerate(names):
        builder.gpu(name, 20 * index, 10)
    shown = timeline(builder.trace())
    assert len(set(shown.table["activity"])) == 2
    assert shown.picture.labels == label_kernels(names)


def test_nothing_to_draw_says_so():
    empty = timeline(factory.TraceBuilder().trace())
    bundle = empty._repr_mimebundle_()
    assert "Nothing to draw" in bundle["text/plain"] and "Nothing to draw" in bundle["text/html"]
    assert len(empty.table) == 0 and "number" in empty.table


def test_a_trace_of_the_cpu_alone_is_drawn_and_says_so():
    builder = factory.TraceBuilder()
    builder.operator("aten::add", 0, 10).operator("aten::empty", 2, 3)
    shown = timeline(builder.trace())
    assert "No GPU activity" in shown.alt and "no GPU activity" in shown.alt
    assert "aten::add" in live(shown)["names"]
    assert "everything on record ran on the CPU" in str(shown)
    mixed = timeline(builder.trace(), factory.naive_attention().trace())
    assert len(mixed.table) == 7


def test_a_cut_gpu_trace_does_not_pass_for_one_of_the_cpu():
    builder = factory.TraceBuilder("cut.json")
    for index, call in enumerate(("cudaLaunchKernel", "cuLaunchKernelEx", "cudaMemcpyAsync")):
        builder.operator("aten::mm", 20 * index, 15)
        builder.launch(20 * index + 4, 4, call)
    builder.launch(80, 5, "cudaDeviceSynchronize")
    builder.launch(90, 5, "cudaGetDevice")
    shown = timeline(builder.trace())
    sentence = "3 launches, but no GPU activity on record: the file was cut, or the profiler did"
    assert sentence in str(shown) and sentence in shown.alt
    assert "ran on the CPU" not in shown.alt + str(shown) + " ".join(shown.notes)
    assert sum(text.startswith(sentence) for text in drawn_texts(shown)) == 1
    launches = next(lane for lane in shown.picture.panels[0].lanes if lane.role == "launches")
    assert sorted(launches.spans["number"]) == [-1, 0, 0, 0]


def annotated():
    builder = factory.naive_attention()
    builder.event("user_annotation", "attnlab call", -5, 100)
    builder.event("user_annotation", "ProfilerStep#3", -4, 90)
    builder.event("user_annotation", "my scores", 0, 75)
    builder.event("user_annotation", "my softmax", 76, 10)
    return builder.trace()


def test_annotations_of_the_user_get_a_lane_above_the_operators():
    shown = timeline(annotated())
    lane = shown.picture.panels[0].lanes[0]
    assert (lane.role, lane.rows) == ("annotations", 2)
    assert dict(zip(lane.spans["name"], lane.spans["row"], strict=True)) == {
        "ProfilerStep#3": 0,
        "my scores": 1,
        "my softmax": 1,
    }
    assert {"annotations", "ProfilerStep#3", "my scores"} <= set(drawn_texts(shown))
    assert live(shown)["panels"][0]["lanes"][0]["role"] == "annotations"
    assert lane.spans["start_ns"].min() == 0, "the scale starts with the first event drawn"
    hidden = timeline(annotated(), guess=True)
    assert not any("my s" in text for text in drawn_texts(hidden))
    assert "annotations" not in drawn_texts(timeline(annotated(), lanes=("operators", "gpu")))


def test_without_annotations_there_is_no_such_lane(naive):
    only_ours = factory.naive_attention().event("user_annotation", "attnlab call", -5, 100)
    for item in (naive, only_ours.trace()):
        roles = [lane.role for lane in timeline(item).picture.panels[0].lanes]
        assert roles[0] == "operators"


def test_long_labels_lose_their_middle_and_stay_on_the_picture(naive):
    long = "a" * 150 + " against " + "b" * 150
    run = StandInRun(long, naive.call_trace)
    run.provenance = "recorded on " + "W" * 300 + " at the end"
    shown = timeline(run, title=long)
    figure = shown.figure()
    renderer = figure.canvas.get_renderer()
    for text in figure.axes[0].texts:
        assert text.get_window_extent(renderer).x1 <= figure.bbox.width, text.get_text()[:40]
    cut = [text for text in drawn_texts(shown) if "\N{HORIZONTAL ELLIPSIS}" in text]
    assert sum(text.startswith("aaa") and text.endswith("bbb") for text in cut) == 2
    assert any(text.endswith("at the end") for text in cut)
    assert live(shown)["panels"][0]["label"] == long


def test_events_without_length_are_drawn():
    builder = factory.TraceBuilder(base=0.0)
    for _ in range(5):
        builder.gpu(factory.GEMM, 0, 0).operator("aten::mm", 0, 0)
    shown = timeline(builder.trace())
    assert shown._repr_mimebundle_()["image/png"] and len(shown.table) == 5


def test_many_threads_and_streams_are_cut_with_a_note():
    builder = factory.TraceBuilder()
    for index in range(30):
        builder.operator("aten::add", index, 5, tid=index)
        builder.gpu(factory.GEMM, index, 3, stream=index)
    shown = timeline(builder.trace())
    assert any("busiest threads" in note for note in shown.notes)
    assert any("streams are drawn" in note for note in shown.notes)
    assert len(shown.table) == 30
    assert shown._repr_mimebundle_()


def test_notes_of_the_trace_stand_under_the_picture():
    builder = factory.TraceBuilder()
    builder.gpu(factory.GEMM, 0, 10).gpu(factory.SOFTMAX, 20, -5)
    trace = builder.trace()
    assert trace.notes, "the reader noted the negative duration"
    page = Page(timeline(trace)._repr_mimebundle_()["text/html"])
    assert any(trace.notes[0].text in text for text in page.text)
