"""The exported pages in a real browser: no network, no complaint, readable in light, dark, print.

The axe-core rules come with the package axe-core-python; nothing is fetched.
"""

import base64
import importlib.util
import re
from pathlib import Path

import pandas as pd
import pytest
from offline_browser import Page

from attnlab_helpers import reports
from attnlab_helpers.plots.table import LONGEST_LINE, table_html

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
EACH = pytest.mark.parametrize("name", NAMES)
GRAVE = {"serious", "critical"}
# CSS pixels between the margins that a browser prints with.
A4_WIDTH, A4_HEIGHT = 718, 1046


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The folder that `make reports` writes, with the outputs as they are saved."""
    folder = tmp_path_factory.mktemp("reports")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(FOLDER.parent)
        assert reports.main(["--folder", str(folder), "--no-execute"]) == 0
    return folder


@pytest.fixture
def shown(browser, pages):
    """Opens a page by its name, in one of the two colour schemes, on paper or on a screen."""

    def open_page(name, scheme="light", media="screen"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        asked = {"media": media, "features": features}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", asked)
        return Page(browser, pages / f"{name}.html")

    yield open_page
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def axe_source():
    """axe-core as one script; skips where the package is not installed."""
    found = importlib.util.find_spec("axe_core_python")
    if found is None or found.origin is None:
        pytest.skip("needs axe-core-python")
    return (Path(found.origin).parent / "axe.min.js").read_text(encoding="utf-8")


def grave_faults(browser, rules=None):
    """What axe-core finds on the open page, serious or critical: a line for each element.

    rules: the names of some, None for all.
    """
    browser.execute_script(axe_source())
    options = {"resultTypes": ["violations"]} | ({"runOnly": rules} if rules else {})
    found = browser.execute_async_script(
        "const [options, done] = arguments;"
        "axe.run(document, options).then((result) =>"
        " done(result.violations.flatMap((rule) => rule.nodes.map((node) =>"
        " [rule.impact, rule.id, node.html.slice(0, 100), node.failureSummary]))));",
        options,
    )
    return [
        f"{rule}: {html} {' '.join(why.split())[:160]}"
        for impact, rule, html, why in found
        if impact in GRAVE
    ]


@EACH
def test_a_page_asks_for_nothing_and_complains_about_nothing(shown, pages, name):
    page = shown(name)
    for figure in page.browser.find_elements("css selector", "canvas"):
        figure.send_keys("+")
    assert page.requests() == []
    assert page.browser.get_log("browser") == []
    assert (pages / f"{name}.html").stat().st_size <= reports.LARGE_PAGE


@EACH
def test_a_page_has_no_grave_fault_for_readers(shown, name):
    assert grave_faults(shown(name, "light").browser) == []
    # What a dark page changes is colours.
    assert grave_faults(shown(name, "dark").browser, ["color-contrast"]) == []


@EACH
def test_every_picture_has_a_text_and_is_there(shown, name):
    page = shown(name)
    pictures = page.browser.execute_script(
        "return [...document.images].filter((one) => one.hasAttribute('src')).map((one) =>"
        " [one.alt.trim(), one.naturalWidth, one.outerHTML.slice(0, 80)])"
    )
    assert pictures, "a notebook without a picture"
    assert [html for alt, width, html in pictures if not alt or not width] == []


@EACH
def test_live_pictures_live(shown, name):
    """Each still picture with data for a script has become a canvas or a set of controls."""
    page = shown(name)
    left = page.browser.execute_script(
        "return [...document.querySelectorAll('figure')].filter((figure) =>"
        " figure.querySelector('script[type=\"application/json\"]') &&"
        " !figure.querySelector('canvas, button, input')).map((figure) =>"
        " figure.outerHTML.slice(0, 120))"
    )
    assert left == []


@EACH
def test_nothing_is_cut_off_on_paper(shown, name):
    page = shown(name, media="print")
    size = {"width": A4_WIDTH, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wide = page.browser.execute_script(
        "const edge = document.documentElement.clientWidth + 0.5;"
        "return [...document.body.querySelectorAll('*')].filter((one) => one.checkVisibility() &&"
        " one.getBoundingClientRect().right > edge).map((one) => one.outerHTML.slice(0, 120))"
    )
    assert wide == []


@pytest.mark.parametrize("media", ["screen", "print"])
def test_a_printed_table_keeps_its_lines(shown, media):
    """PyTorch's profiler prints lines of 108 characters; folded, its columns are lost."""
    page = shown("03_reading_a_profile", media=media)
    width = A4_WIDTH if media == "print" else 1080
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    lines, height, one_line = page.browser.execute_script(
        "const pre = [...document.querySelectorAll('.output_text pre')].find((one) =>"
        " one.textContent.includes('Self CPU time total'));"
        "const style = getComputedStyle(pre);"
        "return [pre.textContent.trimEnd().split('\\n').length, pre.getBoundingClientRect().height"
        " - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom),"
        " parseFloat(style.lineHeight)]"
    )
    # An empty line at the end of what was printed may have a height, too.
    assert lines * one_line - 1 < height < (lines + 1.5) * one_line


@pytest.mark.parametrize("media", ["screen", "print"])
@pytest.mark.parametrize("length", [40, 85, 400])
def test_a_caption_does_not_change_its_table(shown, media, length):
    page = shown("03_reading_a_profile", media=media)
    size = {"width": A4_WIDTH, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    frame = pd.DataFrame({"call": [1, 2], "duration_ns": [75_070_000, 26_800]})
    tables = [table_html(frame, told) for told in ("", ("word " * length)[:length].strip())]
    bare, captioned, lines, over = page.browser.execute_script(
        "document.querySelector('main').insertAdjacentHTML('afterbegin', arguments[0]);"
        "const [bare, captioned] = document.querySelectorAll('main table');"
        "const text = document.createRange(); text.selectNodeContents(captioned.caption);"
        "return [bare, captioned].map((one) => one.tHead.getBoundingClientRect().width).concat(["
        " text.getClientRects().length, text.getBoundingClientRect().right - innerWidth])",
        "".join(tables),
    )
    assert captioned == pytest.approx(bare, abs=1)
    assert over <= 0
    assert (lines == 1) == (length <= LONGEST_LINE)


@EACH
def test_no_picture_is_taller_than_the_paper(shown, name):
    page = shown(name, media="print")
    size = {"width": A4_WIDTH, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    heights = page.browser.execute_script(
        "return [...document.images].map((one) => one.getBoundingClientRect().height)"
    )
    assert max(heights) < A4_HEIGHT


def test_print_makes_a_pdf_of_light_pages(shown):
    page = shown("04_masking_in_place", scheme="dark")
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    colours = page.browser.execute_script(
        "const style = getComputedStyle(document.body); return [style.color,"
        " style.backgroundColor, getComputedStyle(document.querySelector('h2')).color]"
    )
    assert colours == ["rgb(0, 0, 0)", "rgb(255, 255, 255)", "rgb(0, 0, 0)"]
    printed = page.browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    pdf = base64.b64decode(printed["data"])
    assert pdf.startswith(b"%PDF") and len(pdf) > 100_000


def test_folded_parts_stay_off_the_paper_unless_opened(shown):
    page = shown(NAMES[-1], media="print")
    folded = page.browser.find_element("css selector", "details")
    assert not folded.is_displayed()
    page.browser.execute_script("arguments[0].open = true", folded)
    assert folded.is_displayed()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_index_leads_to_every_page_and_describes_the_machine(shown, pages, scheme):
    page = shown("index", scheme)
    anchors = page.browser.find_elements("css selector", ".series a")
    addresses = [anchor.get_attribute("href").partition("#")[0] for anchor in anchors]
    targets = {address.rpartition("/")[2] for address in addresses}
    assert {f"{name}.html" for name in NAMES} <= targets
    assert all((pages / target).is_file() for target in targets)
    machine = page.browser.find_element("css selector", "table.machine").text
    assert "GPU" in machine and "torch" in machine
    assert page.requests() == [] and page.browser.get_log("browser") == []
    assert grave_faults(page.browser) == []


def test_links_between_pages_lead_somewhere(shown, pages):
    """Pages that exist, and headings that exist on them."""
    ids = {
        path.name: set(re.findall(r'\bid="([^"]+)"', path.read_text(encoding="utf-8")))
        for path in pages.glob("*.html")
    }
    lost = []
    for name in NAMES:
        links = shown(name).browser.execute_script(
            "return [...document.querySelectorAll('main a[href], nav a[href]')].filter((one) =>"
            " one.protocol === 'file:').map((one) => [one.pathname, decodeURIComponent(one.hash)])"
        )
        for path, anchor in links:
            target = path.rpartition("/")[2]
            if target not in ids or (anchor and anchor[1:] not in ids[target]):
                lost.append(f"{name}: {target}{anchor}")
    assert lost == []
