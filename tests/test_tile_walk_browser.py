"""The live tile walk in a real browser: from a file, no network, slider, buttons and keyboard."""

import pytest
import torch
from offline_browser import Page

from attnlab_helpers.plots import tile_walk
from attnlab_helpers.plots.timeline.page import page_html
from attnlab_helpers.vit import cat

pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait


def make_walk(title="A walk", causal="both", image=True):
    draw = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(196, 16, generator=draw) for _ in range(3))
    return tile_walk(
        2 * q, k, v, image=cat() if image else None, causal=causal, query_block=3, title=title
    )


@pytest.fixture(scope="module")
def walk():
    return make_walk()


class Opened(Page):
    """A page in the browser, and what it asked for and complained about."""

    @property
    def root(self):
        return self.browser.find_element(By.CSS_SELECTOR, ".attnlab-walk")

    @property
    def step(self):
        return self.root.get_attribute("data-step")

    def press(self, *keys):
        self.root.send_keys(*keys)
        return self.step

    def click(self, label):
        self.browser.find_element(By.CSS_SELECTOR, f'button[aria-label="{label}"]').click()
        return self.step

    def text(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector).get_attribute("textContent")

    def shown(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector).is_displayed()


@pytest.fixture
def page(browser, tmp_path, walk):
    return Opened(browser, walk.save(tmp_path / "walk.html"))


def bars(page):
    heights = page.browser.execute_script(
        "return [...document.querySelectorAll('.attnlab-walk .bar')].map((bar) =>"
        " Number(bar.style.transform.slice(7, -1)));"
    )
    return torch.tensor(heights)


def test_it_lives_without_network_and_without_complaint(page):
    assert page.step == "every key 0"
    assert not page.shown("figure > img") and page.shown("figcaption")
    page.press(*[Keys.ARROW_RIGHT] * 22)
    page.click("attention over: causal")
    page.press(Keys.HOME, *[Keys.ARROW_RIGHT] * 16)
    assert page.requests() == [] and page.browser.get_log("browser") == []


def test_keys_step_forwards_and_backwards(page):
    assert page.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT) == "every key 2"
    assert page.press(Keys.ARROW_LEFT) == "every key 1"
    assert page.press(Keys.END) == "every key 22"
    assert page.press(Keys.ARROW_RIGHT) == "every key 22"
    assert page.press(Keys.HOME) == "every key 0"
    assert page.press(Keys.ARROW_LEFT) == "every key 0"


def test_the_slider_and_the_buttons_scrub(page):
    slider = page.browser.find_element(By.CSS_SELECTOR, 'input[type="range"]')
    page.browser.execute_script(
        "arguments[0].value = 9; arguments[0].dispatchEvent(new Event('input'));", slider
    )
    assert page.step == "every key 9"
    slider.send_keys(Keys.ARROW_RIGHT)
    assert page.step == "every key 10"
    slider.send_keys(Keys.ARROW_DOWN)
    assert page.step == "every key 9" and slider.get_attribute("value") == "9"
    assert page.click("one step back") == "every key 8"
    assert page.click("last step") == "every key 22"
    assert page.click("first step") == "every key 0"
    assert page.click("one step forward") == "every key 1"


def test_what_is_shown_is_what_was_computed(page, walk):
    full = walk.walks[0]
    for place, frame in enumerate(full.frames):
        assert page.text(".attnlab-walk-story strong") == frame.title
        assert page.text(".attnlab-walk-story span") == frame.text
        assert page.text(".attnlab-walk-bar small") == f"step {place + 1} of 23"
        cells = page.browser.execute_script(
            "return [...document.querySelectorAll('.attnlab-walk td.followed')].map((cell) =>"
            " cell.textContent);"
        )
        values = frame.running.acc if frame.output is None else frame.output
        assert float(cells[2]) == pytest.approx(float(frame.running.l[full.row]), rel=6e-4)
        assert [float(cell) for cell in cells[3:]] == pytest.approx(
            values[full.row, :4].tolist(), rel=6e-4
        )
        if frame.phase in ("update", "end"):
            # The bars' sum is l, because each is exp(score - m).
            assert float(bars(page).sum()) == pytest.approx(float(cells[2]), rel=5e-3)
        page.press(Keys.ARROW_RIGHT)


def test_causal_keeps_the_tile_and_skips(page):
    page.press(*[Keys.ARROW_RIGHT] * 13)  # tile 4: its first frame
    assert page.text(".attnlab-walk-story strong") == "Tile 4: read K and V"
    assert page.click("attention over: causal") == "causal 13"
    assert page.text(".attnlab-walk-story strong") == "Tile 4: skip"
    assert float(bars(page)[112:].abs().sum()) == 0
    pressed = page.browser.find_element(By.CSS_SELECTOR, 'button[aria-pressed="true"]')
    assert pressed.text == "causal"
    assert page.press(Keys.END) == "causal 16"
    assert page.click("attention over: every key") == "every key 22"


def test_the_tile_is_painted_and_its_hidden_part_grey(page):
    page.click("attention over: causal")
    page.press(Keys.HOME, *[Keys.ARROW_RIGHT] * 11)
    assert "masked in part" in page.text(".attnlab-walk-story strong")
    grey = page.browser.execute_async_script(
        "const done = arguments[0]; const image = document.querySelector('.attnlab-walk-zoom img');"
        "image.decode().then(() => { const c = document.createElement('canvas');"
        " c.width = image.naturalWidth; c.height = image.naturalHeight;"
        " const pen = c.getContext('2d'); pen.drawImage(image, 0, 0);"
        " const d = pen.getImageData(0, 0, c.width, c.height).data; let n = 0;"
        " for (let i = 0; i < d.length; i += 4) n += d[i] === 196 && d[i + 2] === 196;"
        " done([c.width, c.height, n]); });"
    )
    assert grey == [28, 28, 28 * 27 // 2]


def test_space_plays_and_stops(page):
    page.press(Keys.SPACE)
    WebDriverWait(page.browser, 8).until(lambda _: page.step == "every key 1")
    assert page.text('button[aria-label="stop"]') == "stop"
    page.press(Keys.SPACE)
    assert page.text('button[aria-label="play"]') == "play"
    # On a button, Space is the button's own.
    page.browser.find_element(By.CSS_SELECTOR, 'button[aria-label="one step forward"]').send_keys(
        Keys.SPACE
    )
    assert page.step == "every key 2"


def test_it_says_what_it_shows_to_who_cannot_see_it(page):
    assert "arrow keys step" in page.root.get_attribute("aria-label")
    story = page.browser.find_element(By.CSS_SELECTOR, ".attnlab-walk-story")
    assert story.get_attribute("aria-live") == "polite"
    page.press(Keys.ARROW_RIGHT)
    slider = page.browser.find_element(By.CSS_SELECTOR, 'input[type="range"]')
    assert slider.get_attribute("aria-valuetext") == "Tile 0: read K and V"
    scene = page.browser.find_element(By.CSS_SELECTOR, ".attnlab-walk-stage > svg")
    assert "tokens 0 to 27" in scene.get_attribute("aria-label")


def test_the_focus_is_seen_and_motion_can_be_refused(page):
    style = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    page.root.click()
    assert page.browser.execute_script(style, ".attnlab-walk", "outlineStyle") == "solid"
    assert page.browser.execute_script(style, ".attnlab-walk .bar", "transitionDuration") != "0s"
    page.browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]},
    )
    try:
        assert page.browser.execute_script(style, ".attnlab-walk .bar", "transitionDuration") in (
            "0s",
            "",
        )
    finally:
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_paper_gets_the_still_frames(page):
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert page.shown("figure > img") and not page.shown(".attnlab-walk")
    finally:
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_nothing_overflows_a_narrow_page(page):
    page.browser.set_window_size(700, 900)
    try:
        page.press(*[Keys.ARROW_RIGHT] * 9)
        wide = page.browser.execute_script(
            "const root = document.querySelector('.attnlab-walk');"
            "return [...root.querySelectorAll('*')].filter((e) => e.getBoundingClientRect().right >"
            " root.getBoundingClientRect().right + 1).map((e) => e.tagName);"
        )
        assert wide == []
    finally:
        page.browser.set_window_size(1100, 900)


def test_several_walks_share_a_page_and_hostile_titles_run_nothing(browser, tmp_path):
    hostile = make_walk("</script><script>window.hacked=1</script><img src=x onerror=hacked()>")
    plain = make_walk(causal=False, image=False)
    html = "".join(one._repr_mimebundle_()["text/html"] for one in (hostile, plain, plain))
    path = tmp_path / "several.html"
    path.write_text(page_html("several", html), encoding="utf-8")
    page = Opened(browser, path)
    roots = browser.find_elements(By.CSS_SELECTOR, ".attnlab-walk")
    assert len(roots) == 3
    roots[1].send_keys(Keys.ARROW_RIGHT)
    assert [root.get_attribute("data-step") for root in roots] == [
        "every key 0", "every key 1", "every key 0",
    ]  # fmt: skip
    assert browser.execute_script("return window.hacked === undefined")
    # Only one kind of masking: nothing to switch.
    assert not roots[1].find_elements(By.CSS_SELECTOR, "button[aria-pressed]")
    assert page.requests() == [] and browser.get_log("browser") == []
