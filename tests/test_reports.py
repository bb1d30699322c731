"""`make reports`: what is exported, what is told on failure, and a real browser without network."""

import re
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from attnlab_helpers import reports
from attnlab_helpers.plots.table import table_html
from attnlab_helpers.report_template.network import external_resources
from attnlab_helpers.report_template.page import make_page

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
BROWSER = next(filter(shutil.which, ("chromium", "chromium-browser", "google-chrome")), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
MOVING = (
    "<figure><p id='lane'>a still lane</p></figure>"
    '<script type="application/json" id="data">{"name": "\\u003cb>k & n</i>"}</script>'
    "<script>const d = JSON.parse(document.getElementById('data').textContent);"
    "if (1 < 2 && d.name) document.getElementById('lane').textContent = 'script ran: ' + d.name;"
    "</script>"
)


def text(source):
    return new_markdown_cell(source)


def shown(html):
    output = new_output("display_data", {"text/html": html})
    return new_code_cell("show()", outputs=[output], execution_count=1)


# --- the command --------------------------------------------------------------------------------


@pytest.fixture
def series(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notebooks").mkdir()

    def write(name, *cells):
        nbformat.write(new_notebook(cells=list(cells)), tmp_path / "notebooks" / f"{name}.ipynb")

    write("00_good", text("# Good one\n\nAbout it."), new_code_cell("print(6 * 7)"))
    write("01_bad", text("# Bad one"), new_code_cell("boom = 1 / 0"))
    write("02_after", text("# After\n\n[back](00_good.ipynb)"), new_code_cell("print('later')"))
    return tmp_path


def test_one_failure_does_not_stop_the_others_and_is_told_at_the_end(series, capsys):
    (series / "reports").mkdir()
    (series / "reports" / "01_bad.html").write_text("of an earlier run")
    before = (series / "notebooks" / "00_good.ipynb").read_bytes()
    assert reports.main([]) == 1
    printed = capsys.readouterr()
    assert "2 of 3 notebooks exported" in printed.out
    assert "01_bad failed:" in printed.err and "boom = 1 / 0" in printed.err
    assert "ZeroDivisionError" in printed.err
    assert "42" in (series / "reports" / "00_good.html").read_text()
    assert 'href="00_good.html"' in (series / "reports" / "02_after.html").read_text()
    assert not (series / "reports" / "01_bad.html").exists()
    assert (series / "notebooks" / "00_good.ipynb").read_bytes() == before
    index = (series / "reports" / "index.html").read_text()
    assert 'href="00_good.html">Good one</a>' in index and "About it." in index
    assert "ZeroDivisionError" in index and 'href="01_bad.html"' not in index
    assert external_resources(index) == []


def test_a_notebook_of_ones_own_keeps_its_outputs_when_asked(series, capsys):
    own = series / "own.ipynb"
    cell = new_code_cell("print(1)", outputs=[new_output("stream", name="stdout", text="kept")])
    nbformat.write(new_notebook(cells=[cell]), own)
    assert reports.main([str(own), "--no-execute"]) == 0
    assert "kept" in (series / "reports" / "own.html").read_text()
    assert not (series / "reports" / "index.html").exists()
    assert 'href="index.html"' not in (series / "reports" / "own.html").read_text()
    assert reports.main(["nowhere.ipynb"]) == 1
    assert "no notebook nowhere.ipynb" in capsys.readouterr().err


def test_one_page_links_only_to_what_stands_beside_it(series):
    folder = series / "reports"
    alone = ["notebooks/02_after.ipynb", "--no-execute"]
    assert reports.main(alone) == 0
    page = (folder / "02_after.html").read_text()
    assert "00_good" not in re.sub(r'title="[^"]*"', "", page) and "index.html" not in page
    for name in ("index", "00_good"):
        (folder / f"{name}.html").write_text("of an earlier export")
    assert reports.main(alone) == 0
    page = (folder / "02_after.html").read_text()
    assert 'href="00_good.html"' in page and 'href="index.html"' in page


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_series_exports_offline_small_and_without_a_note(path, tmp_path):
    names = frozenset(one.stem for one in NOTEBOOKS)
    target = tmp_path / "page.html"
    page = reports.export(path, target, run=False, pages=names, foot="")
    assert page.notes == []
    assert external_resources(page.html) == []
    assert target.stat().st_size <= reports.LARGE_PAGE


# --- a real browser -----------------------------------------------------------------------------


class _Recorder(BaseHTTPRequestHandler):
    """A proxy that answers nothing and writes down what was asked for."""

    def answer(self):
        self.server.asked.append(self.path)
        self.send_error(502)

    do_GET = do_CONNECT = do_POST = answer

    def log_message(self, *_):
        pass


def open_in_browser(page: Path, profile: Path):
    """(the document after its scripts ran, what the browser asked the network for)."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Recorder)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        command += [f"--user-data-dir={profile}", "--disable-background-networking"]
        command += ["--disable-component-update", "--disable-sync", "--disable-default-apps"]
        command += [f"--proxy-server=http://127.0.0.1:{server.server_port}"]
        command += ["--proxy-bypass-list=<-loopback>", "--virtual-time-budget=3000", "--dump-dom"]
        done = subprocess.run(
            [*command, page.as_uri()], capture_output=True, text=True, timeout=120
        )
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    # Chromium's own services are none of the page's doing.
    own = re.compile(r"(google|gstatic|googleapis|gvt1|chromium)\.(com|org)\b")
    return done.stdout, [address for address in server.asked if not own.search(address)]


@needs_browser
@pytest.mark.slow
def test_a_page_is_complete_without_a_network(tmp_path):
    planted = "<img alt='x' src='http://planted.example/a.png'>"
    planted += "<script src='http://planted.example/a.js'></script>"
    notebook = new_notebook(cells=[text("# T\n\n$\\sqrt{d}$"), shown(MOVING), shown(planted)])
    page = make_page(notebook, name="demo", folder=tmp_path)
    assert len([note for note in page.notes if "planted.example" in note]) == 2
    target = tmp_path / "page.html"
    target.write_text(page.html, encoding="utf-8")
    document, asked = open_in_browser(target, tmp_path / "profile")
    assert "script ran: &lt;b&gt;k &amp; n&lt;/i&gt;" in document
    assert "<msqrt>" in document
    assert asked == []
    # The same page without its policy does ask: the browser and the recorder would have told.
    policy = re.compile(r'<meta[^>]*http-equiv="Content-Security-Policy"[^>]*>')
    assert policy.search(page.html)
    target.write_text(policy.sub("", page.html), encoding="utf-8")
    _, asked = open_in_browser(target, tmp_path / "profile")
    assert sorted(asked) == ["http://planted.example/a.js", "http://planted.example/a.png"]


@needs_browser
def test_numbers_in_tables_stand_at_the_right(tmp_path):
    table = table_html(pd.DataFrame({"name": ["a"], "time_ns": [1_200]}))
    told = (
        "<p id='told'></p><script>document.getElementById('told').textContent = 'aligned ' +"
        "[...document.querySelectorAll('th,td')].map(c => getComputedStyle(c).textAlign).join();"
        "</script>"
    )
    page = make_page(new_notebook(cells=[shown(table + told)]), name="demo", folder=tmp_path)
    target = tmp_path / "page.html"
    target.write_text(page.html, encoding="utf-8")
    document, _ = open_in_browser(target, tmp_path / "profile")
    assert "aligned left,right,left,right" in document
