"""A wrong cell in a notebook must fail under `pytest --nbval-lax`; noise must not."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

ROOT = Path(__file__).resolve().parents[1]
CHECKED = {"tags": ["nbval-check-output"]}


def printed(text, name="stdout"):
    return new_output("stream", name=name, text=text)


def cell(source, *outputs, checked=False):
    metadata = CHECKED if checked else {}
    return new_code_cell(source, outputs=list(outputs), execution_count=1, metadata=metadata)


def write(folder, name, *cells):
    metadata = {"kernelspec": {"name": "python3", "display_name": "x", "language": "python"}}
    nbformat.write(new_notebook(cells=list(cells), metadata=metadata), folder / f"{name}.ipynb")


def run_nbval(folder):
    """pytest's exit status, and the outcome of each notebook's cells: name -> list of words."""
    shutil.copy(ROOT / "conftest.py", folder)
    command = [sys.executable, "-m", "pytest", "--nbval-lax", "--nbval-current-env", "-v"]
    command += ["-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    outcomes = {}
    for name, outcome in re.findall(r"^(\w+)::ipynb::Cell 0 (\w+)", done.stdout, re.MULTILINE):
        outcomes.setdefault(name, []).append(outcome)
    assert outcomes, done.stdout + done.stderr
    return done.returncode, outcomes


@pytest.mark.slow
def test_planted_wrong_cells_fail(tmp_path):
    write(tmp_path, "wrong_output", cell("print(1 + 1)", printed("3\n"), checked=True))
    write(
        tmp_path,
        "wrong_result",
        cell("2 * 2", new_output("execute_result", {"text/plain": "5"}), checked=True),
    )
    write(tmp_path, "lost_output", cell("x = 1", printed("gone\n"), checked=True))
    write(tmp_path, "raises", cell("raise ValueError('planted')"))
    # A cell that begins with a magic once hid the error that follows it.
    write(tmp_path, "magic_raises", cell("%pwd\nraise ValueError('planted')"))
    write(tmp_path, "timed_raises", cell("%%time\nraise ValueError('planted')"))
    status, outcomes = run_nbval(tmp_path)
    assert status == 1
    assert outcomes == {
        name: ["FAILED"]
        for name in (
            "wrong_output",
            "wrong_result",
            "lost_output",
            "raises",
            "magic_raises",
            "timed_raises",
        )
    }


@pytest.mark.slow
def test_noise_does_not_fail_twice_in_a_row(tmp_path):
    # Output that reaches the notebook in two pieces is one text (case J01).
    pieces = "import sys\nprint('goo')\nsys.stdout.flush()\nprint('gah')"
    write(tmp_path, "pieces", cell(pieces, printed("goo\ngah\n"), checked=True))
    # Times differ from run to run; their cell is run and not compared (J02).
    write(tmp_path, "times", cell("%timeit -n1 -r1 sum(range(10))", printed("1 us\n")))
    # A library's new warning is no fault of the notebook (J04).
    warns = "import warnings\nprint('result')\nwarnings.warn('new in this version')"
    write(tmp_path, "warns", cell(warns, printed("result\n"), checked=True))
    # HTML with a picture in it may differ, the plain text beside it may not.
    html = "from IPython.display import display\ndisplay({'text/html': '<b>new', 'text/plain': 'a'}"
    saved = new_output("display_data", {"text/html": "<b>old", "text/plain": "a"})
    write(tmp_path, "html", cell(f"{html}, raw=True)", saved, checked=True))
    allowed = cell("raise ValueError('shown on purpose')")
    allowed.metadata = nbformat.from_dict({"tags": ["raises-exception"]})
    write(tmp_path, "on_purpose", allowed)
    for _ in range(2):
        status, outcomes = run_nbval(tmp_path)
        assert status == 0, outcomes
        assert outcomes == {
            name: ["PASSED"] for name in ("pieces", "times", "warns", "html", "on_purpose")
        }
