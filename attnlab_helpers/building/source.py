"""Reads a notebook's source (MyST Markdown): a notebook without outputs, with stable ids."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import nbformat
from nbformat import NotebookNode

# Every built notebook carries this metadata and no other, so that its bytes do not depend on the
# Python that executed it. No version: readers run 3.11 to 3.13.
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE_INFO = {
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
}


def cell_ids(cells: list[NotebookNode]) -> list[str]:
    """One id a cell, derived from its type and text; equal cells get -2, -3, ... in their order.

    An edit changes the id of the edited cell only, so that a diff shows what was edited.
    """
    seen: Counter[str] = Counter()
    ids = []
    for cell in cells:
        text = f"{cell.cell_type}\n{cell.source}"
        digest = hashlib.sha256(text.encode("utf-8")).hexdigest()[:12]
        seen[digest] += 1
        ids.append(digest if seen[digest] == 1 else f"{digest}-{seen[digest]}")
    return ids


def read_source(path: str | Path) -> NotebookNode:
    """The notebook that a MyST Markdown file describes: cells, tags and ids, nothing executed.

    Raises ValueError when the file holds no cells, or no code cell that jupytext recognises.
    """
    import jupytext

    path = Path(path)
    parsed = jupytext.reads(path.read_text(encoding="utf-8"), fmt="md:myst")
    if not any(cell.cell_type == "code" for cell in parsed.cells):
        raise ValueError(
            f"{path.name} holds no code cell. Code cells in MyST Markdown start with "
            "```{code-cell} and end with ```; the file starts with a jupytext header."
        )
    notebook = nbformat.v4.new_notebook()
    notebook.nbformat_minor = 5
    for cell in parsed.cells:
        # Tags are the only metadata we use; whatever else an editor left there stays out.
        tags = list(cell.metadata.get("tags", []))
        make = {
            "code": nbformat.v4.new_code_cell,
            "markdown": nbformat.v4.new_markdown_cell,
            "raw": nbformat.v4.new_raw_cell,
        }[cell.cell_type]
        notebook.cells.append(make(cell.source, metadata={"tags": tags} if tags else {}))
    for cell, identity in zip(notebook.cells, cell_ids(notebook.cells), strict=True):
        cell.id = identity
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": dict(KERNELSPEC), "language_info": dict(LANGUAGE_INFO)}
    )
    return notebook
