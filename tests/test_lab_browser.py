"""JupyterLab in a real browser, as a reader has it: each notebook runs, and its pictures live.

`make test-browser` runs these; they take minutes, so `make test` leaves them out.
"""

import json
import os
import shutil
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest

from attnlab_helpers import lab

pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="stops the server with a POSIX signal"),
]
ROOT = Path(__file__).resolve().parents[1]
NAMES = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
TOKEN = "reader"
UNSIGNED = "unsigned.ipynb"
OPEN_PANEL = ".jp-NotebookPanel:not(.lm-mod-hidden)"
TIMELINE = "figure.attnlab-timeline"

# Run in the page with an array of arguments; the promise's result comes back.
IN_LAB = """
const done = arguments[arguments.length - 1], given = arguments[0];
(async () => { const app = window.jupyterapp; %s })()
    .then((result) => done(['', result]), (error) => done([String(error), null]));
"""
OPEN = """
const panel = window.attnlabPanel = await app.commands.execute('docmanager:open', {path: given});
await panel.context.ready; await panel.sessionContext.ready; await panel.revealed;
app.shell.collapseLeft();
"""
FIND_PANEL = """
const shown = [...app.shell.widgets('main')];
window.attnlabPanel = shown.find((one) => one.sessionContext) || null;
return window.attnlabPanel !== null;
"""
# The command's promise ends early where a cell raises, on purpose or not, so: until all have run
# or the kernel has nothing left to do.
RUN_ALL = """
await app.commands.execute('notebook:run-all-cells');
const { content, sessionContext } = window.attnlabPanel;
const code = content.widgets.filter((one) => one.model.type === 'code');
let idle = 0;
while (code.some((one) => one.model.executionCount === null) && idle < 10) {
    await new Promise((go) => setTimeout(go, 200));
    idle = sessionContext.session.kernel.status === 'idle' ? idle + 1 : 0;
}
return code.map((one) => one.model.toJSON());
"""
# Output that scrolled out of sight is drawn again when it comes back.
SHOW = """
const { content } = window.attnlabPanel;
const place = content.widgets.findIndex((one) => one.model.sharedModel.getSource().includes(given));
content.activeCellIndex = place;
content.scrollToItem(place, 'start');
"""
RUN_CELL = f"""
{SHOW}
await app.commands.execute('notebook:run-cell');
"""
CLOSE = """
const panel = window.attnlabPanel;
await panel.sessionContext.shutdown().catch(() => null);
panel.context.model.dirty = false;
panel.dispose();
"""


class Lab:
    """One JupyterLab, its address and the browser that shows it."""

    def __init__(self, browser, port: int) -> None:
        self.browser, self.address = browser, f"http://127.0.0.1:{port}"

    def ask(self, script: str, given=None):
        error, result = self.browser.execute_async_script(IN_LAB % script, given)
        assert error == "", error
        return result

    def enter(self, path: str = "/") -> None:
        """The page as `make lab` opens it, with the panel that it shows."""
        self.browser.get(f"{self.address}{path}?token={TOKEN}&reset")
        self.wait(lambda: self.browser.find_elements(By.CSS_SELECTOR, ".jp-LabShell"))
        self.wait(lambda: self.browser.execute_script("return !!window.jupyterapp"))
        self.ask("await app.restored;")

    def wait(self, condition, seconds: float = 30):
        return WebDriverWait(self.browser, seconds, 0.1).until(lambda _: condition())

    def complaints(self) -> list[str]:
        """Errors in the console since it was last asked, without the server's own answers.

        JupyterLab asks about kernels while one is being shut down, and is told 404 or 500.
        """
        entries = self.browser.get_log("browser")
        grave = [entry["message"] for entry in entries if entry["level"] == "SEVERE"]
        return [message for message in grave if "/api/" not in message]

    def change_theme(self, theme: str) -> None:
        """And wait until the picture that JupyterLab shows meanwhile is gone.

        It takes it away 200 ms after the theme is there, and twice, with an error in the console,
        when the next theme has come before.
        """
        self.ask("await app.commands.execute('apputils:change-theme', {theme: given});", theme)
        splash = "return document.getElementById('jupyterlab-splash')"
        self.wait(lambda: self.browser.execute_script(splash) is None)

    def show(self, source: str, selector: str):
        """The first element in sight that the selector finds once a cell is scrolled to."""

        def there():
            self.ask(SHOW, source)  # again: what is drawn above it may push it out of sight
            found = self.browser.find_elements(By.CSS_SELECTOR, f"{OPEN_PANEL} {selector}")
            return next(filter(lambda one: one.is_displayed(), found), None)

        return WebDriverWait(self.browser, 60, 0.5).until(lambda _: there())


def copy_of_the_notebooks(folder: Path) -> Path:
    """A copy of the notebooks, signed, and one that is not."""
    root = folder / "my lab"
    shutil.copytree(ROOT / "notebooks", root / "notebooks")
    shutil.copytree(ROOT / "figures", root / "figures")
    lab.trust(root / "notebooks")
    notebook = nbformat.read(root / "notebooks" / lab.FIRST, as_version=4)
    notebook.metadata["title"] = "changed, so the signature of the first does not fit"
    nbformat.write(notebook, root / "notebooks" / UNSIGNED)
    return root


def signed_in(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/api/status?token={TOKEN}", timeout=5) as answer:
            return "kernels" in json.load(answer)
    except OSError:
        return False


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The port of a running JupyterLab whose settings and data are all its own."""
    folder = tmp_path_factory.mktemp("lab")
    names = ("DATA_DIR", "RUNTIME_DIR", "CONFIG_DIR")
    variables = {f"JUPYTER_{name}": str(folder / name) for name in names}
    variables |= {
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, text in variables.items():
            patch.setenv(name, text)
        root = copy_of_the_notebooks(folder)
        port = 8900 + os.getpid() % 1000
        extra = [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
        extra += [f"--IdentityProvider.token={TOKEN}", "--LabApp.expose_app_in_browser=True"]
        as_root = os.geteuid() == 0
        command = lab.lab_command(root, display=False, as_root=as_root, extra=extra)
        with (folder / "log").open("w") as log:
            running = subprocess.Popen(
                command,
                cwd=root,
                env=lab.lab_environment(os.environ),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    try:
        deadline = time.monotonic() + 90
        while not signed_in(f"http://127.0.0.1:{port}"):
            told = (folder / "log").read_text()
            assert running.poll() is None and time.monotonic() < deadline, told
            time.sleep(0.2)
        yield port
    finally:
        os.killpg(running.pid, signal.SIGTERM)
        running.wait(timeout=30)


@pytest.fixture
def shown(browser, server):
    """The lab with nothing open, and nothing left running behind the test."""
    browser.set_script_timeout(300)
    page = Lab(browser, server)
    page.enter("/lab/tree/notebooks")
    page.complaints()
    yield page
    if browser.execute_script("return !!window.attnlabPanel"):
        page.ask(CLOSE)
    browser.get("about:blank")


def test_it_opens_on_the_first_notebook_with_a_living_picture(shown):
    shown.enter("/")
    shown.wait(lambda: f"/lab/tree/notebooks/{lab.FIRST}" in shown.browser.current_url)
    shown.wait(lambda: shown.ask(FIND_PANEL))
    canvas = shown.show("attention.timeline()", f"{TIMELINE} canvas")
    assert canvas.size["height"] > 200  # signed, so it lives before any cell ran
    questions = shown.browser.find_elements(By.CSS_SELECTOR, ".jp-Dialog, .Toastify__toast")
    assert [question.text for question in questions] == []
    assert shown.complaints() == []


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_from_top_to_bottom(shown, name):
    shown.ask(OPEN, f"notebooks/{name}.ipynb")
    cells = shown.ask(RUN_ALL)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    errors = [
        f"{output['ename']}: {output['evalue']}"
        for cell in cells
        if "raises-exception" not in cell["metadata"].get("tags", [])
        for output in cell["outputs"]
        if output["output_type"] == "error"
    ]
    assert errors == []
    assert shown.complaints() == []


def test_a_timeline_zooms_and_tells_by_pointer_and_keyboard(shown):
    shown.ask(OPEN, f"notebooks/{lab.FIRST}")
    canvas = shown.show("attention.timeline()", f"{TIMELINE} canvas")
    canvas.send_keys("+")
    start, end = map(int, shown.wait(lambda: canvas.get_attribute("data-view")).split())
    canvas.send_keys("+", Keys.ARROW_RIGHT)
    shown.wait(lambda: canvas.get_attribute("data-view") != f"{start} {end}")
    closer = list(map(int, canvas.get_attribute("data-view").split()))
    assert closer[0] > start and closer[1] - closer[0] < end - start
    canvas.send_keys("0", Keys.TAB)
    tip = shown.browser.find_element(By.CSS_SELECTOR, f"{OPEN_PANEL} {TIMELINE} .attnlab-tip")
    assert "Memset" in tip.get_attribute("textContent")
    canvas.send_keys(Keys.ENTER)
    figure = f"{OPEN_PANEL} {TIMELINE}"
    detail = shown.browser.find_element(By.CSS_SELECTOR, f"{figure} .attnlab-detail")
    assert detail.is_displayed() and "takes" in detail.text
    canvas.send_keys(Keys.ESCAPE)

    told = set()
    for share in (-0.15, 0.0, 0.15):
        for height in range(0, canvas.size["height"] // 2, 12):
            actions = webdriver.ActionChains(shown.browser, duration=0)
            place = int(share * canvas.size["width"])
            actions.move_to_element_with_offset(canvas, place, height).perform()
            if tip.is_displayed():
                told.add(tip.get_attribute("textContent").split("\n")[0])
    assert any("softmax" in name.lower() or "masked" in name.lower() for name in told), told
    assert shown.complaints() == []


def test_widgets_react(shown):
    shown.ask(OPEN, "notebooks/02_queries_keys_values.ipynb")
    shown.ask(RUN_CELL, "from attnlab_helpers import")
    shown.ask(RUN_CELL, "attention_picker(")
    slider = shown.show("attention_picker(", ".jupyter-widgets [role=slider]")

    def picture():
        images = shown.browser.find_elements(By.CSS_SELECTOR, f"{OPEN_PANEL} .jupyter-widgets img")
        return images[0].get_attribute("src") if images else None

    before = shown.wait(picture)
    slider.send_keys(Keys.ARROW_RIGHT)
    shown.wait(lambda: picture() not in (None, before))
    assert shown.complaints() == []


def test_an_unsigned_notebook_shows_still_pictures_until_its_cell_runs(shown):
    shown.ask(OPEN, f"notebooks/{UNSIGNED}")
    still = shown.show("attention.timeline()", "figure img")
    assert still.size["height"] > 150 and len(still.get_attribute("alt")) > 40
    canvases = f"{OPEN_PANEL} {TIMELINE} canvas"
    assert not shown.browser.find_elements(By.CSS_SELECTOR, canvases)
    shown.ask(RUN_CELL, "from attnlab_helpers import")
    shown.ask(RUN_CELL, "attention.timeline()")
    assert shown.show("attention.timeline()", f"{TIMELINE} canvas").size["height"] > 200


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_pictures_keep_their_paper_in_both_themes(shown, theme):
    """Labels are drawn for a light ground: the canvas and the still picture bring one."""
    shown.change_theme(theme)
    try:
        shown.ask(OPEN, f"notebooks/{lab.FIRST}")
        canvas = shown.show("attention.timeline()", f"{TIMELINE} canvas")
        corner = shown.browser.execute_script(
            "const c = arguments[0];"
            "return [...c.getContext('2d').getImageData(3, c.height - 4, 1, 1).data];",
            canvas,
        )
        ground = shown.browser.execute_script(
            "let one = arguments[0]; let colour;"
            "do { colour = getComputedStyle(one).backgroundColor; one = one.parentElement; }"
            "while (colour === 'rgba(0, 0, 0, 0)'); return colour;",
            canvas,
        )
        assert (corner[3] == 255 and min(corner) > 230) or ground == "rgb(255, 255, 255)"
        assert shown.complaints() == []
    finally:
        shown.change_theme("JupyterLab Light")
