"""The notebooks of the series: as their sources say, clean, readable, and runnable in any order."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import torch

from attnlab_helpers.building import check
from attnlab_helpers.building.canonical import canonical, to_bytes
from attnlab_helpers.building.execute import kernel_for
from attnlab_helpers.building.source import read_source

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
SOURCES = sorted((FOLDER / "source").glob("*.md"))
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
EACH = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)

# Keeps what the set-up cells defined, and later goes back to exactly that.
KEEP = "_kept = {k: v for k, v in globals().items() if k[0] != '_' and k not in ('In', 'Out')}"
GO_BACK = """
for _name in [k for k in globals() if k[0] != '_' and k not in ('In', 'Out') and k not in _kept]:
    del globals()[_name]
globals().update(_kept)
"""


def read(path):
    return nbformat.read(path, as_version=4)


def test_every_source_has_its_notebook_and_the_other_way_round():
    assert SOURCES, "notebooks/source/ holds no notebook source"
    assert [path.stem for path in NOTEBOOKS] == [path.stem for path in SOURCES], (
        "run `make notebooks`"
    )


@EACH
def test_notebook_and_source_agree(path):
    source = read_source(FOLDER / "source" / f"{path.stem}.md")
    problems = check.agrees_with_source(read(path), source)
    assert problems == [], "run `make notebooks`"


@EACH
def test_bytes_are_canonical_and_few(path):
    content = path.read_bytes()
    assert content == to_bytes(canonical(read(path)))
    assert len(content) <= check.MAX_BYTES


@EACH
@pytest.mark.parametrize(
    "rule",
    [
        check.executed_in_order,
        check.clean_outputs,
        check.pictures_described,
        check.readable_cells,
        check.valid_format,
    ],
    ids=lambda rule: rule.__name__,
)
def test_rules_for_readers(path, rule):
    assert rule(read(path)) == []


@EACH
def test_a_set_up_cell_and_sections_are_marked(path):
    notebook = read(path)
    tagged = [n for n, cell in check.code_cells(notebook) if "setup" in check.tags(cell)]
    sections = check.sections(notebook)
    assert tagged, "tag the cell with the imports `setup`"
    assert sections, "no `## ` heading"
    assert max(tagged) <= sections[0][1][0], "a set-up cell stands behind the first section"


def test_the_first_notebook_shows_a_picture_early():
    first = [path for path in NOTEBOOKS if path.name.startswith("00_")]
    assert first, "no notebook 00"
    assert check.early_picture(read(first[0])) == []


def replayed(notebook):
    """The text beneath each cell that names a recording; a stream may come in several pieces."""
    texts = [
        "".join(
            "".join(output.get("text", output.get("data", {}).get("text/plain", "")))
            for output in cell.outputs
        )
        for _, cell in check.code_cells(notebook)
    ]
    return [text for text in texts if "recorded on" in text]


@pytest.mark.slow
@EACH
def test_runs_twice_and_starts_at_any_section(path):
    notebook = read(path)
    cells = list(enumerate(notebook.cells))
    with kernel_for(notebook, FOLDER, path.stem) as session:
        setup = [(n, cell) for n, cell in cells if "setup" in check.tags(cell)]
        for index, cell in setup:
            session.run_cell(cell, index)
        session.run_code(KEEP)
        for time in ("first", "second"):
            for index, cell in cells:
                session.run_cell(cell, index)
            if time == "first" and not torch.cuda.is_available():
                # What is shown as recorded is what the recordings of this repository say.
                assert replayed(notebook) == replayed(read(path)), "run `make notebooks`"
        for heading, indices in check.sections(notebook):
            session.run_code(GO_BACK)
            for index in indices:
                try:
                    session.run_cell(notebook.cells[index], index)
                except Exception as error:
                    pytest.fail(f"alone after the set-up cell, '{heading}' fails.\n{error}")


@pytest.mark.slow
@EACH
def test_exports_to_a_script(path, tmp_path):
    """The script compiles; where a cell defines a kernel, whose source Triton reads, it runs."""
    command = [sys.executable, "-m", "nbconvert", "--to", "script", "--log-level=ERROR"]
    command += ["--output-dir", str(tmp_path), str(path)]
    subprocess.run(command, check=True, timeout=120)
    script = tmp_path / f"{path.stem}.py"
    text = script.read_text(encoding="utf-8")
    compile(text, script.name, "exec")
    notebook = read(path)
    if any("raises-exception" in check.tags(cell) for cell in notebook.cells):
        return
    if "@triton.jit" in text and not re.search(r"get_ipython\(\)", text):
        run = [sys.executable, "-m", "IPython", "--no-banner", str(script)]
        done = subprocess.run(run, cwd=FOLDER, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
