"""What a built notebook must keep to; each check returns sentences that say what is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator

import nbformat
from nbformat import NotebookNode

from attnlab_helpers.building.tracebacks import ANSI

MAX_BYTES = 1_500_000
MAX_CODE_LINES = 30
MAX_KERNEL_LINES = 60
MAX_IMPORT_LINES = 8
PICTURE_WITHIN = 3

ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{4,}")
# Folders at the root of a disk that hold what belongs to one machine or one person.
PERSONAL_FOLDERS = (
    *("home", "root", "tmp", "Users", "private", "work", "opt", "mnt", "media", "data"),
    *("usr", "var", "srv", "scratch", "Volumes", "nix"),
)
MACHINE_PATH = re.compile(
    rf"(?<![\w.:/])/(?:{'|'.join(PERSONAL_FOLDERS)})/[\w.~-]+"
    r"|\b[A-Za-z]:\\+(?:Users|Windows|Temp)\\+[\w.~-]+"
    # A traceback names our files from their package on, and no other in full, wherever it lies.
    r"|\bFile \"?(?:~?/|[A-Za-z]:\\)[^\s\"][^\n\"]*"
)
IMAGE_TAG = re.compile(r"<img\b[^>]*>", re.IGNORECASE)
ALT = re.compile(r"\balt\s*=\s*(?:\"[^\"]+\"|'[^']+')", re.IGNORECASE)
DATA_URL = re.compile(r"data:[\w/+.-]+;base64,[A-Za-z0-9+/=\s]+")
MARKDOWN_IMAGE_WITHOUT_ALT = re.compile(r"!\[\s*\]\(")


def tags(cell: NotebookNode) -> list[str]:
    """The cell's tags."""
    return list(cell.metadata.get("tags", []))


def code_cells(notebook: NotebookNode) -> list[tuple[int, NotebookNode]]:
    """(number in the notebook from 1, cell) of each code cell."""
    return [(n, cell) for n, cell in enumerate(notebook.cells, 1) if cell.cell_type == "code"]


def output_texts(cell: NotebookNode) -> Iterator[str]:
    """Every text a reader sees in the cell's outputs, without colours and pictures' bytes."""
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            yield ANSI.sub("", output.text)
        elif output.output_type == "error":
            yield ANSI.sub("", "\n".join([output.evalue, *output.traceback]))
        for kind, value in output.get("data", {}).items():
            if not kind.startswith("image/") or kind == "image/svg+xml":
                yield DATA_URL.sub("", value if isinstance(value, str) else str(value))


def agrees_with_source(notebook: NotebookNode, source: NotebookNode) -> list[str]:
    """Differences between a built notebook and the notebook its source describes."""
    problems = []
    if notebook.metadata != source.metadata:
        problems.append("the notebook's metadata differs from what the build writes")
    if len(notebook.cells) != len(source.cells):
        problems.append(f"{len(notebook.cells)} cells, but {len(source.cells)} in the source")
    for number, (built, wanted) in enumerate(
        zip(notebook.cells, source.cells, strict=False), start=1
    ):
        for field in ("cell_type", "source", "id", "metadata"):
            if built.get(field) != wanted.get(field):
                problems.append(f"cell {number}: its {field} differs from the source")
    return problems


def executed_in_order(notebook: NotebookNode) -> list[str]:
    """Code cells that were not executed, or not in the order they stand in."""
    return [
        f"cell {number}: execution count {cell.execution_count}, expected {expected}"
        for expected, (number, cell) in enumerate(code_cells(notebook), start=1)
        if cell.execution_count != expected
    ]


def clean_outputs(notebook: NotebookNode) -> list[str]:
    """Object addresses, machine paths, stderr text and unexpected errors in outputs."""
    problems = []
    for number, cell in code_cells(notebook):
        for text in output_texts(cell):
            if found := ADDRESS.search(text):
                problems.append(f"cell {number}: an object's address in an output: {found[0]}")
            if found := MACHINE_PATH.search(text):
                problems.append(f"cell {number}: a path of this machine in an output: {found[0]}")
        for output in cell.outputs:
            if output.output_type == "stream" and output.name == "stderr":
                problems.append(f"cell {number}: text on stderr: {output.text[:80]!r}")
            if output.output_type == "error" and "raises-exception" not in tags(cell):
                problems.append(f"cell {number}: ended in {output.ename}, not tagged for it")
    return problems


def pictures_described(notebook: NotebookNode) -> list[str]:
    """Pictures without an alternative text, in outputs and in the text between them."""
    problems = []
    for number, cell in enumerate(notebook.cells, 1):
        if cell.cell_type == "markdown":
            if MARKDOWN_IMAGE_WITHOUT_ALT.search(cell.source):
                problems.append(f"cell {number}: a Markdown picture without alternative text")
            for tag in IMAGE_TAG.findall(cell.source):
                if not ALT.search(tag):
                    problems.append(f"cell {number}: an <img> without alternative text")
        for output in cell.get("outputs", []):
            html = output.get("data", {}).get("text/html", "")
            images = IMAGE_TAG.findall(html)
            problems += [
                f"cell {number}: an <img> in an output without alternative text"
                for tag in images
                if not ALT.search(tag)
            ]
            alone = "image/png" in output.get("data", {}) and not images
            if alone and not output.metadata.get("image/png", {}).get("alt"):
                problems.append(f"cell {number}: a picture in an output without alternative text")
    return problems


def readable_cells(notebook: NotebookNode) -> list[str]:
    """Code cells that are too long to take in at once, or that import too much."""
    problems = []
    for number, cell in code_cells(notebook):
        lines = cell.source.splitlines()
        limit = MAX_KERNEL_LINES if "kernel" in tags(cell) else MAX_CODE_LINES
        if len(lines) > limit:
            problems.append(f"cell {number}: {len(lines)} lines, at most {limit}")
        imports = [line for line in lines if re.match(r"\s*(import|from)\s", line)]
        if len(imports) > MAX_IMPORT_LINES:
            problems.append(f"cell {number}: {len(imports)} imports, at most {MAX_IMPORT_LINES}")
    return problems


def early_picture(notebook: NotebookNode) -> list[str]:
    """A picture among the outputs of the first three code cells, for the series' first notebook."""
    for _, cell in code_cells(notebook)[:PICTURE_WITHIN]:
        for output in cell.outputs:
            data = output.get("data", {})
            if "image/png" in data or IMAGE_TAG.search(data.get("text/html", "")):
                return []
    return [f"no picture in the outputs of the first {PICTURE_WITHIN} code cells"]


def valid_format(notebook: NotebookNode) -> list[str]:
    """What nbformat or GitHub would refuse; widget metadata without a state among it."""
    problems = []
    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        problems.append(f"not a valid notebook: {error.message}")
    for kind, content in notebook.metadata.get("widgets", {}).items():
        if "state" not in content:
            problems.append(f"widget metadata without a state ({kind})")
    return problems


def sections(notebook: NotebookNode) -> list[tuple[str, list[int]]]:
    """(heading, indices of its cells from 0) of each part that starts with a `## ` heading."""
    found: list[tuple[str, list[int]]] = []
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            heading = re.search(r"^## (.+)$", cell.source, re.MULTILINE)
            if heading:
                found.append((heading[1].strip(), []))
        if found:
            found[-1][1].append(index)
    return found
