"""The live timeline in a real browser: a page from a file, no network, pointer and keyboard."""

import time
from pathlib import Path

import pytest
import trace_factory as factory
from offline_browser import Page

from attnlab_helpers.plots import timeline
from attnlab_helpers.plots.timeline.page import page_html

pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys


class Opened(Page):
    """A page in the browser, and what it asked for and complained about."""

    def __init__(self, browser, path: Path):
        super().__init__(browser, path)
        self.settle()

    def settle(self):
        self.browser.execute_async_script(
            "const done = arguments[0];"
            "requestAnimationFrame(() => requestAnimationFrame(() => done()));"
        )

    @property
    def canvases(self):
        return self.browser.find_elements(By.CSS_SELECTOR, "figure.attnlab-timeline canvas")

    @property
    def view(self):
        shown = self.canvases[0].get_attribute("data-view")
        return [int(number) for number in shown.split()] if shown else None

    def press(self, *keys):
        self.canvases[0].send_keys(*keys)
        self.settle()

    def wheel(self, amount, **more):
        canvas = self.canvases[0]
        stopped = self.browser.execute_script(
            "const [canvas, deltaY, more] = arguments; const box = canvas.getBoundingClientRect();"
            "return !canvas.dispatchEvent(new WheelEvent('wheel', {deltaY, bubbles: true,"
            "cancelable: true, clientX: box.left + 500, clientY: box.top + 100, ...more}));",
            canvas,
            amount,
            more,
        )
        self.settle()
        return stopped

    def text(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector).get_attribute("textContent")

    def shown(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector).is_displayed()


@pytest.fixture
def page(browser, tmp_path):
    path = timeline(factory.naive_attention().trace(), title="Naive").save(tmp_path / "one.html")
    return Opened(browser, path)


def test_the_canvas_lives_without_network_and_without_complaint(page):
    assert len(page.canvases) == 1 and page.canvases[0].size["height"] > 200
    assert not page.shown("figure.attnlab-timeline > img")
    assert page.requests() == []
    assert page.browser.get_log("browser") == []
    colours = page.browser.execute_script(
        "const c = arguments[0], d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "const seen = new Set(); for (let i = 0; i < d.length; i += 4)"
        " seen.add(d[i] + ',' + d[i + 1] + ',' + d[i + 2]); return [...seen];",
        page.canvases[0],
    )
    assert {"169,211,238", "248,195,160", "216,207,240"} <= set(colours)  # matmul, copy, mask


def test_keys_zoom_move_and_reset(page):
    page.press("+")
    zoomed = page.view
    assert zoomed[1] - zoomed[0] < 750_000
    page.press(Keys.ARROW_RIGHT)
    moved = page.view
    assert moved[0] > zoomed[0] and moved[1] - moved[0] == pytest.approx(
        zoomed[1] - zoomed[0], 1e-3
    )
    page.press("-", "-", "-", "0")
    assert page.view[0] == 0 and page.view[1] > 900_000


def test_the_wheel_scrolls_the_page_until_the_picture_has_focus(page):
    assert page.wheel(-300) is False and page.view is None
    assert page.wheel(-300, ctrlKey=True) is True
    by_ctrl = page.view
    assert by_ctrl[1] - by_ctrl[0] < 800_000
    page.press("0")
    assert page.wheel(-300) is True
    assert page.view[1] - page.view[0] < 800_000


def test_dragging_moves_the_view(page):
    page.press("+", "+")
    before = page.view
    actions = webdriver.ActionChains(page.browser)
    actions.move_to_element(page.canvases[0]).click_and_hold().move_by_offset(-120, 0).release()
    actions.perform()
    page.settle()
    assert page.view[0] > before[0]


def test_tab_walks_the_activities_and_enter_shows_one_in_full(page):
    page.press(Keys.TAB)
    assert "Memset (Device)" in page.text(".attnlab-tip")
    page.press(Keys.TAB)
    assert factory.GEMM in page.text(".attnlab-tip")
    page.press(Keys.ENTER)
    assert page.shown(".attnlab-detail")
    detail = page.text(".attnlab-detail")
    assert factory.GEMM in detail and "takes 96.3 us" in detail
    assert "grid 64x8x1, block 128x1x1, 168 registers a thread" in detail
    assert "launched by aten::matmul > aten::bmm" in detail
    page.press(Keys.SHIFT + Keys.TAB)
    assert "Memset (Device)" in page.text(".attnlab-detail")


def test_tab_leaves_the_picture_at_its_end_and_after_escape(page):
    focused = "return document.activeElement.tagName"
    for _ in range(7):
        page.press(Keys.TAB)
    assert page.browser.execute_script(focused) == "CANVAS"
    page.browser.switch_to.active_element.send_keys(Keys.TAB)
    assert page.browser.execute_script(focused) != "CANVAS"
    page.press(Keys.TAB, Keys.ESCAPE)
    page.browser.switch_to.active_element.send_keys(Keys.TAB)
    assert page.browser.execute_script(focused) != "CANVAS"


def test_hovering_shows_the_full_name(page):
    canvas = page.canvases[0]
    x, y = page.browser.execute_script(
        # The longest bar of the GPU lane: at the middle of the canvas' lower lane.
        "const c = arguments[0]; return [c.clientWidth, c.clientHeight];",
        canvas,
    )
    actions = webdriver.ActionChains(page.browser)
    found = set()
    for share in (0.25, 0.35, 0.5, 0.6, 0.7):
        for height in (0.55, 0.62, 0.68, 0.74):
            actions.move_to_element_with_offset(
                canvas, int(x * (share - 0.5)), int(y * (height - 0.5))
            ).perform()
            if page.shown(".attnlab-tip"):
                found.add(page.text(".attnlab-tip").split("\n")[0])
    assert factory.MASK in found and factory.SOFTMAX in found


def texts_painted(page):
    """The texts that the next drawing writes on the canvas, each within its width."""
    page.browser.execute_script(
        "window.painted = []; const proto = CanvasRenderingContext2D.prototype;"
        "const paint = proto.fillText; proto.fillText = function (text, x, y) {"
        " painted.push([text, this.textAlign === 'left' ? x + this.measureText(text).width : x,"
        " this.canvas.clientWidth]); return paint.call(this, text, x, y); };"
    )
    page.press("0")
    painted = page.browser.execute_script("return window.painted")
    assert all(end <= width + 1 for _, end, width in painted)
    return [text for text, _, _ in painted]


def test_guess_hides_names_until_the_button(browser, tmp_path):
    shown = timeline(factory.naive_attention().trace(), guess=True)
    page = Opened(browser, shown.save(tmp_path / "guess.html"))
    page.press(Keys.TAB)
    assert page.text(".attnlab-tip") == "?1"
    assert "Memset" not in page.text(".attnlab-live")
    told = page.canvases[0].get_attribute("aria-label")
    assert "hidden" in told and " us" not in told
    painted = texts_painted(page)
    assert "are hidden" in painted and "?7" in painted
    assert not any(text.endswith((" us", "activities")) for text in painted)
    browser.find_element(By.XPATH, "//button[text()='Show the names']").click()
    page.settle()
    page.press(Keys.TAB)
    assert "Memset (Device)" in page.text(".attnlab-tip") or factory.GEMM in page.text(
        ".attnlab-tip"
    )
    assert "softmax" in page.text(".attnlab-bar")
    assert "7 GPU activities" in page.canvases[0].get_attribute("aria-label")
    painted = texts_painted(page)
    assert "7 GPU activities" in painted and "are hidden" not in painted


def test_annotations_and_long_labels_are_painted(browser, tmp_path):
    builder = factory.naive_attention()
    builder.source = "a" * 150 + "b" * 150 + ".json"
    builder.event("user_annotation", "my scores", 0, 400)
    path = timeline(builder.trace()).save(tmp_path / "annotated.html")
    page = Opened(browser, path)
    painted = texts_painted(page)
    assert "my scores" in painted and "annotations" in painted
    (label,) = [text for text in painted if text.startswith("aaa")]
    assert label.endswith("b.json") and "\N{HORIZONTAL ELLIPSIS}" in label
    assert browser.get_log("browser") == []


def test_several_pictures_share_a_page_and_a_cell_can_run_again(browser, tmp_path):
    one = timeline(factory.naive_attention().trace())._repr_mimebundle_()["text/html"]
    two = timeline(factory.mlp().trace())._repr_mimebundle_()["text/html"]
    path = tmp_path / "several.html"
    path.write_text(page_html("several", one + two + one), encoding="utf-8")
    page = Opened(browser, path)
    assert len(page.canvases) == 3
    # As JupyterLab does: the output's HTML anew, its scripts made again.
    browser.execute_script(
        "const old = document.querySelector('figure'); const box = document.createElement('div');"
        "box.innerHTML = arguments[0]; old.replaceWith(box);"
        "for (const dead of [...box.querySelectorAll('script')]) {"
        " const fresh = document.createElement('script');"
        " for (const a of dead.attributes) fresh.setAttribute(a.name, a.value);"
        " fresh.textContent = dead.textContent; dead.replaceWith(fresh); }",
        one,
    )
    page.settle()
    assert len(page.canvases) == 3
    assert browser.get_log("browser") == []


def test_hostile_names_run_nothing(browser, tmp_path):
    builder = factory.TraceBuilder(source="<img src=x onerror=hacked()>.json")
    for index, name in enumerate(
        (
            "</script><script>window.hacked=1</script>",
            "<img src=x onerror='window.hacked=1'>",
            "`${0}",
        )
    ):
        builder.operator(name, 40 * index, 20)
        builder.gpu(name, 40 * index + 8, 30, correlation=builder.launch(40 * index + 2))
    page = Opened(browser, timeline(builder.trace()).save(tmp_path / "hostile.html"))
    page.press(Keys.TAB, Keys.ENTER)
    assert "</script><script>" in page.text(".attnlab-detail")
    assert browser.execute_script("return window.hacked === undefined")
    assert page.requests() == [] and browser.get_log("browser") == []


def test_empty_and_long_traces_open(browser, tmp_path):
    for name, trace in (
        ("empty", factory.TraceBuilder().trace()),
        ("long", factory.many(20_000).trace()),
    ):
        began = time.perf_counter()
        page = Opened(browser, timeline(trace).save(tmp_path / f"{name}.html"))
        page.press("+", Keys.ARROW_RIGHT)
        assert len(page.canvases) == 1 and time.perf_counter() - began < 15
        assert browser.get_log("browser") == []


def test_paper_gets_the_still_picture(page):
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert page.shown("figure.attnlab-timeline > img")
        assert not page.shown(".attnlab-live")
    finally:
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
