"""The stages side by side in a real browser: pick, point, press keys; no network, no complaint."""

from __future__ import annotations

import pytest
from offline_browser import Page
from test_stages_view import fake

from attnlab_helpers.plots import stages
from attnlab_helpers.plots.timeline.page import page_html

pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys


class Opened(Page):
    """A page in the browser, its two sides, and what it asked for."""

    @property
    def sides(self):
        return self.browser.find_elements(By.CSS_SELECTOR, "pre.pane")

    def rows(self, side: int, selector: str = ".row"):
        return self.sides[side].find_elements(By.CSS_SELECTOR, selector)

    def marked(self, side: int) -> list[int]:
        """Places of the marked lines, which are also those that a screen reader hears of."""
        seen = self.browser.execute_script(
            "return [...arguments[0].children].map(row =>"
            " [row.classList.contains('on'), row.getAttribute('aria-selected') === 'true'])",
            self.sides[side],
        )
        assert all(on == told for on, told in seen)
        return [place for place, (on, _) in enumerate(seen) if on]

    def point(self, row) -> None:
        webdriver.ActionChains(self.browser).move_to_element(row).perform()

    def press(self, side: int, *keys) -> None:
        for key in keys:
            self.sides[side].send_keys(key)

    def pick(self, text: str) -> None:
        self.browser.find_element(By.XPATH, f"//button[text()='{text}']").click()

    def text(self, selector: str) -> str:
        return self.browser.find_element(By.CSS_SELECTOR, selector).get_attribute("textContent")

    def active(self) -> str:
        return self.browser.execute_script(
            "const one = document.getElementById("
            "document.activeElement.getAttribute('aria-activedescendant'));"
            "return one && one.textContent"
        )

    def in_sight(self, row) -> bool:
        return self.browser.execute_script(
            "const row = arguments[0].getBoundingClientRect(),"
            " box = arguments[0].parentElement.getBoundingClientRect();"
            "return row.top >= box.top - 1 && row.bottom <= box.bottom + 1",
            row,
        )


def long_kernel(target: str):
    """A kernel whose store's machine line stands far below, out of sight."""
    kernel = fake(target)
    kernel.stages["SASS"] = "\n".join(
        ["LDG.E R1, [R2] ;", *(f"IADD3 R{n}, R1, R2, RZ ;" for n in range(90)), "STG.E [R2], R1 ;"]
    )
    kernel.maps["SASS"] = [4, *[3] * 90, 5]
    return kernel


@pytest.fixture
def kernels():
    return [long_kernel("8.0"), long_kernel("9.0")]


@pytest.fixture
def page(browser, tmp_path, kernels):
    opened = Opened(browser, stages(*kernels).save(tmp_path / "stages.html"))
    yield opened
    assert opened.requests() == []
    assert browser.get_log("browser") == []


def test_two_sides_replace_the_text(page, kernels) -> None:
    source, code = (side.text.split("\n") for side in page.sides)
    assert len(source) == 5 and "tl.load" in source[3] and "×1" in source[3]
    assert len(code) == 92 and code[0] == "4 LDG.E R1, [R2] ;"
    assert not page.browser.find_element(By.CSS_SELECTOR, ".attnlab-still").is_displayed()
    assert page.browser.find_element(By.CSS_SELECTOR, "figure > table").is_displayed()


def test_pointing_at_a_source_line_marks_what_it_became_and_scrolls_there(page) -> None:
    store = page.rows(1)[91]
    assert not page.in_sight(store)
    top = page.browser.execute_script("return window.scrollY")
    page.point(page.rows(0)[4])
    assert page.marked(0) == [4] and page.marked(1) == [91]
    assert page.in_sight(store) and page.browser.execute_script("return scrollY") == top
    assert "Source line 5 became 1 of 92 lines of SASS" in page.text(".say")
    page.point(page.browser.find_element(By.CSS_SELECTOR, ".say"))
    assert page.marked(0) == page.marked(1) == []


def test_pointing_at_a_machine_line_marks_its_source_line(page) -> None:
    page.point(page.rows(1)[2])
    assert page.marked(0) == [2] and page.marked(1) == list(range(1, 91))


def test_a_click_keeps_a_line_until_escape(page) -> None:
    page.rows(0)[3].click()
    page.point(page.rows(0)[4])
    assert page.marked(0) == [3] and page.marked(1) == [0]
    page.press(0, Keys.ESCAPE)
    assert page.marked(0) == []
    page.rows(0)[3].click()
    page.rows(0)[3].click()
    page.point(page.rows(0)[4])
    assert page.marked(0) == [4]


def test_picking_a_stage_and_a_target_shows_its_text(page, kernels) -> None:
    page.pick("PTX")
    assert ".target sm_8.0" in page.sides[1].text
    page.pick("9.0")
    assert ".target sm_9.0" in page.sides[1].text
    pressed = page.browser.find_elements(By.CSS_SELECTOR, "button[aria-pressed=true]")
    assert [button.text for button in pressed] == ["9.0", "PTX"]
    assert page.rows(1)[0].text.strip() == ".target sm_9.0"  # no source line in front


def test_a_kept_line_stays_kept_in_another_stage(page) -> None:
    page.rows(0)[3].click()
    page.pick("TTIR")
    page.pick("9.0")
    assert page.marked(0) == [3] and page.marked(1) == [0]
    assert "of 2 lines of TTIR" in page.text(".say")


def test_everything_works_by_keyboard(page) -> None:
    seen = []
    for _ in range(8):
        page.browser.switch_to.active_element.send_keys(Keys.TAB)
        seen.append(page.browser.switch_to.active_element.text.split("\n")[0])
    assert seen[:5] == ["8.0", "9.0", "TTIR", "PTX", "SASS"]
    page.press(0, *[Keys.ARROW_DOWN] * 5)
    assert "tl.store" in page.active() and page.marked(1) == [91]
    page.press(0, Keys.ARROW_UP)
    assert "tl.load" in page.active() and page.marked(1) == [0]
    page.press(0, Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    assert "STG.E" in page.active()
    page.press(1, Keys.HOME)
    assert "LDG.E" in page.active() and page.marked(0) == [3]
    page.press(1, Keys.PAGE_DOWN, Keys.ARROW_LEFT)
    assert "tl.program_id" in page.active()
    page.press(0, Keys.ENTER, Keys.ENTER)
    assert "Shown: 2 of 90" in page.text(".say")
    outline = page.browser.execute_script(
        "return getComputedStyle(document.activeElement).outlineStyle"
    )
    assert outline == "solid"
    page.press(0, Keys.END, Keys.ESCAPE)
    assert page.marked(0) == [] and page.active() is None


def test_a_stage_that_a_kernel_lacks_cannot_be_picked(browser, tmp_path) -> None:
    cuda = fake("9.0", language="CUDA C++", source="__global__ void add() {}\n")
    cuda.stages.pop("TTIR")
    page = Opened(browser, stages(fake(), cuda, stage="TTIR").save(tmp_path / "two.html"))
    page.pick("CUDA C++")
    assert "__global__" in page.sides[0].text and ".target" in page.sides[1].text
    button = browser.find_element(By.XPATH, "//button[text()='TTIR']")
    assert not button.is_enabled()
    page.pick("Triton")
    assert button.is_enabled() and "tl.load" in page.sides[0].text
    assert browser.get_log("browser") == []


def test_the_source_gets_the_width_it_needs_up_to_a_limit_and_no_empty_height(
    browser, tmp_path
) -> None:
    def panes(source):
        Opened(browser, stages(fake(source=source)).save(tmp_path / "wide.html"))
        return browser.execute_script(
            "return [...document.querySelectorAll('pre.pane')].map(one =>"
            " [one.clientWidth, one.scrollWidth, one.clientHeight])"
        )

    (short, _, low), (code, _, _) = panes("def f():\n    return 1\n")
    assert short < code and low < 300
    (wide, needed, _), (code, _, _) = panes("def f():\n    return " + "a + " * 14 + "1\n")
    assert needed == wide > short  # the whole line is in sight
    (most, needed, high), (code, _, _) = panes("def f():\n    return " + "a + " * 90 + "1\n" * 80)
    assert needed > most and 0.5 < most / (most + code) < 0.6 and low < high < 500


def test_hostile_texts_run_nothing(browser, tmp_path) -> None:
    evil = "</pre></script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
    kernel = fake(name=evil, source=evil, language=evil, counts={evil: evil})
    kernel.stages["SASS"], kernel.maps["SASS"] = f"{evil} | {evil}\n&lt;i&gt;", [1, 1]
    shown = stages(kernel, fake("8.0"), source_title=evil)
    page = Opened(browser, shown.save(tmp_path / "hostile.html"))
    page.press(0, Keys.ARROW_DOWN, Keys.ENTER)
    assert page.sides[1].text.split("\n")[0].endswith(f"{evil} | {evil}")
    assert page.sides[1].text.endswith("&lt;i&gt;")
    assert browser.execute_script("return window.hacked === undefined")
    assert page.requests() == [] and browser.get_log("browser") == []


def test_several_figures_share_a_page_and_a_cell_can_run_again(browser, tmp_path, kernels) -> None:
    one = stages(kernels[0])._repr_mimebundle_()["text/html"]
    two = stages(*kernels)._repr_mimebundle_()["text/html"]
    path = tmp_path / "several.html"
    path.write_text(page_html("several", one + two), encoding="utf-8")
    page = Opened(browser, path)
    assert len(page.sides) == 4
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
    assert len(page.sides) == 4
    page.press(0, Keys.ARROW_DOWN)
    assert page.marked(2) == [] and browser.get_log("browser") == []


def test_without_scripts_and_on_paper_the_text_is_there(browser, tmp_path, kernels) -> None:
    shown = stages(*kernels)
    page = Opened(browser, shown.save(tmp_path / "stages.html"))
    still = browser.find_element(By.CSS_SELECTOR, ".attnlab-still")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert still.is_displayed() and not page.sides[0].is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(page.path.as_uri())
        text = browser.find_element(By.TAG_NAME, "body").text
        assert "tl.program_id" in text and "STG.E [R2], R1 ;" in text
        assert ".target sm_8.0" not in text  # folded
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
