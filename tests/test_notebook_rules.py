"""The checks of a built notebook each find the fault that they are there for."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from attnlab_helpers.building import check

# One black pixel, as a PNG.
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)


def executed(*cells):
    """A notebook whose code cells carry execution counts."""
    notebook = new_notebook(cells=list(cells))
    for count, (_, cell) in enumerate(check.code_cells(notebook), start=1):
        cell.execution_count = count
    return notebook


def with_output(output, **cell):
    return executed(new_code_cell("f()", outputs=[output], **cell))


# Put together here, so that no path of a machine stands in a committed file.
SLASH = "/"
PLANTED_PATH = f"{SLASH}home{SLASH}ada{SLASH}attnlab"


def failed(*lines):
    return new_output("error", ename="E", evalue="e", traceback=list(lines))


@pytest.mark.parametrize(
    ("output", "word"),
    [
        (new_output("stream", name="stdout", text="<Figure at 0x7f12ab34>"), "address"),
        (new_output("stream", name="stdout", text=f"read {PLANTED_PATH}"), "path"),
        (new_output("display_data", {"text/html": f"<p>{PLANTED_PATH}"}), "path"),
        (new_output("stream", name="stdout", text="C:" + "\\Users\\ada"), "path"),
        # A colour before a path must not hide it.
        (failed(f"File \x1b[32m{SLASH}tmp{SLASH}ada{SLASH}x.py:3\x1b[39m"), "path"),
        (failed(f"in \x1b[32m{SLASH}opt{SLASH}conda{SLASH}x.py"), "path"),
        (failed(f"in {SLASH}usr{SLASH}lib{SLASH}x.py"), "path"),
        (failed(f"File {SLASH}elsewhere{SLASH}x.py:3, in f"), "path"),
        (failed(f'File "~{SLASH}lab{SLASH}x.py", line 3'), "path"),
        (new_output("stream", name="stderr", text="UserWarning: old"), "stderr"),
        (new_output("error", ename="ValueError", evalue="", traceback=[]), "ValueError"),
    ],
)
def test_dirty_outputs_are_found(output, word):
    allowed = {"tags": ["raises-exception"]} if word == "path" else {}
    (problem,) = check.clean_outputs(with_output(output, metadata=allowed))
    assert word in problem


def test_ordinary_text_is_no_machine_path():
    text = "q/k/v at 0.5, https://example.org/home/page, time/work/launch, 3 /data, "
    text += "File site-packages/torch/nn.py:3, File / Open"
    assert check.clean_outputs(with_output(new_output("stream", name="stdout", text=text))) == []


def test_missing_alternative_texts_are_found():
    bare = new_output("display_data", {"image/png": PIXEL})
    assert check.pictures_described(with_output(bare))
    html = new_output("display_data", {"image/png": PIXEL, "text/html": "<img src='x'>"})
    assert check.pictures_described(with_output(html))
    good = new_output("display_data", {"image/png": PIXEL, "text/html": "<img alt='two lanes'>"})
    assert check.pictures_described(with_output(good)) == []
    assert check.pictures_described(executed(new_markdown_cell("![ ](a.png)")))
    assert check.pictures_described(executed(new_markdown_cell("![a plot](a.png)"))) == []


def test_long_cells_and_many_imports_are_found():
    long = "\n".join(f"x{n} = {n}" for n in range(31))
    kernel = new_code_cell(long, metadata={"tags": ["kernel"]})
    imports = "\n".join(f"import a{n}" for n in range(9))
    notebook = executed(new_code_cell(long), kernel, new_code_cell(imports))
    first, second = check.readable_cells(notebook)
    assert "31 lines" in first and "9 imports" in second


def test_order_source_and_format_are_checked():
    notebook = executed(new_code_cell("a = 1"), new_code_cell("b = 2"))
    notebook.cells[1].execution_count = 5
    assert len(check.executed_in_order(notebook)) == 1
    other = executed(new_code_cell("a = 1"), new_code_cell("b = 3"))
    problems = check.agrees_with_source(notebook, other)
    assert any("cell 2: its source differs" in problem for problem in problems)
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {}}
    assert check.valid_format(notebook)
    assert check.early_picture(notebook)


def test_sections_start_at_second_level_headings():
    notebook = new_notebook(
        cells=[
            new_markdown_cell("# Title"),
            new_code_cell("setup"),
            new_markdown_cell("## One\n\ntext"),
            new_code_cell("a"),
            new_markdown_cell("### Deeper"),
            new_markdown_cell("## Two"),
        ]
    )
    assert check.sections(notebook) == [("One", [2, 3, 4]), ("Two", [5])]
