"""The build of notebooks: source to cells and ids, canonical bytes, and failing cells."""

import json
import struct
import zlib

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from attnlab_helpers.building import __main__ as command
from attnlab_helpers.building import check
from attnlab_helpers.building.canonical import canonical, png_without_notes, to_bytes
from attnlab_helpers.building.execute import CellFailed, execute
from attnlab_helpers.building.source import cell_ids, read_source
from attnlab_helpers.building.tracebacks import without_machine_paths

HEADER = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: whatever
  language: python
  name: some-kernel
---

"""
TICKS = "```"


def code(text, *tags):
    line = f":tags: [{', '.join(tags)}]\n\n" if tags else ""
    return f"{TICKS}{{code-cell}} ipython3\n{line}{text}\n{TICKS}\n\n"


def write_source(folder, name, *parts):
    (folder / "source").mkdir(parents=True, exist_ok=True)
    path = folder / "source" / f"{name}.md"
    path.write_text(HEADER + "".join(parts), encoding="utf-8")
    return path


def png(*chunks):
    def chunk(kind, data):
        crc = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    parts = [chunk(b"IHDR", header), *(chunk(kind, data) for kind, data in chunks)]
    parts += [chunk(b"IDAT", zlib.compress(b"\x00\x00")), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def executed(*cells):
    """A notebook whose code cells carry execution counts."""
    notebook = new_notebook(cells=list(cells))
    for count, (_, cell) in enumerate(check.code_cells(notebook), start=1):
        cell.execution_count = count
    return notebook


# --- source -------------------------------------------------------------------------------------


def test_source_becomes_cells_with_tags_and_fixed_metadata(tmp_path):
    source = write_source(tmp_path, "00_demo", "# Title\n\n", code("x = 1", "setup"), "Text.\n")
    notebook = read_source(source)
    assert [cell.cell_type for cell in notebook.cells] == ["markdown", "code", "markdown"]
    assert notebook.cells[1].metadata == {"tags": ["setup"]}
    assert notebook.cells[1].source == "x = 1"
    assert notebook.metadata.kernelspec.name == "python3"
    assert "version" not in notebook.metadata.language_info
    assert "jupytext" not in notebook.metadata
    nbformat.validate(notebook)


def test_ids_depend_on_the_content_and_an_edit_changes_one(tmp_path):
    cells = [code("x = 1"), "## A\n\n", code("x = 1"), code("y = 2")]
    before = read_source(write_source(tmp_path, "a", *cells))
    again = read_source(write_source(tmp_path, "b", *cells))
    cells[-1] = code("y = 3")
    after = read_source(write_source(tmp_path, "c", *cells))
    ids = [cell.id for cell in before.cells]
    assert len(set(ids)) == 4
    assert ids == [cell.id for cell in again.cells]
    assert ids[:3] == [cell.id for cell in after.cells][:3]
    assert ids[3] != after.cells[3].id


def test_equal_cells_of_two_types_get_different_ids():
    cells = [new_code_cell("same"), new_markdown_cell("same"), new_code_cell("same")]
    first, second, third = cell_ids(cells)
    assert third == f"{first}-2"
    assert second != first


def test_a_source_without_code_is_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no code cell"):
        read_source(write_source(tmp_path, "a", "Text only.\n"))


# --- canonical form -----------------------------------------------------------------------------


def test_png_loses_software_and_date_and_keeps_its_pixels():
    pixels = (b"pHYs", struct.pack(">IIB", 3937, 3937, 1))
    noted = png((b"tEXt", b"Software\x00Matplotlib 3"), pixels, (b"tIME", b"\x07\xea\x01\x01aaa"))
    assert png_without_notes(noted) == png(pixels)
    assert png_without_notes(b"no png") == b"no png"


def test_canonical_merges_streams_numbers_cells_and_drops_timing():
    split = [new_output("stream", name="stdout", text=text) for text in ("a\n", "b\n")]
    cell = new_code_cell("f()", outputs=split, execution_count=17)
    cell.metadata = nbformat.from_dict({"collapsed": True, "tags": ["setup"], "trusted": True})
    result = new_output("execute_result", {"text/plain": "3"}, execution_count=18)
    other = new_code_cell("g()", outputs=[result], execution_count=18)
    notebook = canonical(new_notebook(cells=[cell, other]))
    assert [o.text for o in notebook.cells[0].outputs] == ["a\nb\n"]
    assert notebook.cells[0].metadata == {"tags": ["setup"]}
    assert [c.execution_count for c in notebook.cells] == [1, 2]
    assert notebook.cells[1].outputs[0].execution_count == 2
    assert len(cell.outputs) == 2, "the given notebook must stay as it was"


def test_widgets_leave_their_picture_and_no_dead_view():
    view = {"model_id": "0123"}
    bare = new_output(
        "display_data",
        {"application/vnd.jupyter.widget-view+json": view, "text/plain": "IntSlider(value=0)"},
    )
    pictured = new_output(
        "display_data",
        {
            "application/vnd.jupyter.widget-view+json": view,
            "text/html": "<img alt='the default state'>",
        },
    )
    notebook = new_notebook(cells=[new_code_cell("w", outputs=[bare, pictured])])
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {}}}
    tidy = canonical(notebook)
    assert [list(output.data) for output in tidy.cells[0].outputs] == [["text/html"]]
    assert "widgets" not in tidy.metadata


def test_a_traceback_keeps_names_but_no_place_of_this_machine():
    lines = [
        "File \x1b[32m/somewhere/.venv/lib/python3.11/site-packages/torch/nn.py:7\x1b[39m, in f",
        "File /usr/lib/python3.12/json/decoder.py:1",
        "File \x1b[32m~/lab/attnlab_helpers/study.py:3\x1b[39m",
    ]
    error = new_output("error", ename="E", evalue="e", traceback=lines)
    tidy = canonical(new_notebook(cells=[new_code_cell("f()", outputs=[error])]))
    first, second, third = tidy.cells[0].outputs[0].traceback
    assert first == "File \x1b[32msite-packages/torch/nn.py:7\x1b[39m, in f"
    assert second == "File python3.12/json/decoder.py:1"
    assert third == "File \x1b[32mattnlab_helpers/study.py:3\x1b[39m"


@pytest.mark.parametrize(
    "folder",
    ["attn lab", "a b  c", "Jürgens Büro", "ada's lab", "演習", "dots.and-signs (2)", "a:1b"],
)
@pytest.mark.parametrize("start", ["/somewhere/", "~/", "C:\\Users\\ada\\"])
def test_no_folder_name_stays_in_a_traceback(folder, start):
    packages = f"{start}{folder}/.venv/lib/python3.11/site-packages/torch/_tensor.py"
    own = f"{start}{folder}/attnlab_helpers/study.py"
    lines = [
        f"\x1b[36mFile \x1b[39m\x1b[32m{packages}:623\x1b[39m, in f\n    1 code()",
        f'  File "{own}", line 3, in <module>',
        f"File {start}{folder}/mine.py:7, in g",
        "\x1b[32m----> 3\x1b[39m (a / b).sum()  # File it under q/k/v",
    ]
    first, second, third, fourth = map(without_machine_paths, lines)
    place = "\x1b[36mFile \x1b[39m\x1b[32msite-packages/torch/_tensor.py:623\x1b[39m"
    assert first == f"{place}, in f\n    1 code()"
    assert second == '  File "attnlab_helpers/study.py", line 3, in <module>'
    assert third == "File mine.py:7, in g"
    assert fourth == lines[3]


def test_bytes_are_sorted_and_survive_reading(tmp_path):
    notebook = canonical(executed(new_code_cell("x = 1\nprint('é')"), new_markdown_cell("t")))
    content = to_bytes(notebook)
    assert content.endswith(b"}\n") and "é".encode() in content
    assert list(json.loads(content)) == sorted(json.loads(content))
    (tmp_path / "a.ipynb").write_bytes(content)
    assert to_bytes(canonical(nbformat.read(tmp_path / "a.ipynb", as_version=4))) == content


# --- building -----------------------------------------------------------------------------------


def test_building_twice_gives_the_same_bytes_and_keeps_to_the_checks(tmp_path, capsys):
    picture = (
        "import matplotlib.pyplot as plt\nfrom IPython.display import display\n"
        "figure = plt.figure()\nplt.plot([1, 2])\nplt.close(figure)\n"
        "display(figure, metadata={'image/png': {'alt': 'a line'}})\nprint('one')\nprint('two')"
    )
    write_source(
        tmp_path,
        "00_demo",
        "# Demo\n\n",
        code("import json", "setup"),
        code(picture),
        code("json.loads('{')", "raises-exception"),
    )
    target = tmp_path / "00_demo.ipynb"
    assert command.main(["--folder", str(tmp_path)]) == 0
    first = target.read_bytes()
    assert command.main(["--folder", str(tmp_path), "00"]) == 0
    assert target.read_bytes() == first
    assert "00_demo ..." in capsys.readouterr().out
    notebook = nbformat.read(target, as_version=4)
    text = [o.text for o in notebook.cells[2].outputs if o.output_type == "stream"]
    assert text == ["one\ntwo\n"]
    source = read_source(tmp_path / "source" / "00_demo.md")
    assert check.agrees_with_source(notebook, source) == []
    for rule in (
        check.executed_in_order,
        check.clean_outputs,
        check.pictures_described,
        check.early_picture,
        check.valid_format,
    ):
        assert rule(notebook) == []


def test_a_failing_cell_stops_the_build_and_leaves_the_old_notebook(tmp_path, capsys):
    write_source(tmp_path, "00_demo", "# Demo\n\n", code("x = 1"), code("y = x + 'a'"))
    (tmp_path / "00_demo.ipynb").write_text("the old one")
    assert command.main(["--folder", str(tmp_path)]) == 1
    message = capsys.readouterr().err
    assert "00_demo: cell 3 failed." in message
    assert "y = x + 'a'" in message and "TypeError" in message and "\x1b" not in message
    assert (tmp_path / "00_demo.ipynb").read_text() == "the old one"
    assert not list(tmp_path.glob("*.part"))


def test_a_dead_kernel_is_told_as_such(tmp_path):
    notebook = new_notebook(cells=[new_code_cell("import os; os._exit(1)")])
    with pytest.raises(CellFailed, match="kernel died"):
        execute(notebook, tmp_path, "demo")


def test_unknown_names_are_answered_with_what_there_is(tmp_path, capsys):
    assert command.main(["--folder", str(tmp_path)]) == 1
    assert "no notebook source" in capsys.readouterr().err
    write_source(tmp_path, "04_masking", code("1"))
    assert command.main(["--folder", str(tmp_path), "07"]) == 1
    assert "There are: 04_masking." in capsys.readouterr().err
