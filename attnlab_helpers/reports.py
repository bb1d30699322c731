"""Executes the notebooks and exports each to one HTML file that needs no network.

`python -m attnlab_helpers.reports` does all of notebooks/ and writes reports/index.html;
`python -m attnlab_helpers.reports path/to/own.ipynb` does one notebook, a reader's own too.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import nbformat

from attnlab_helpers.building.canonical import canonical
from attnlab_helpers.building.execute import execute
from attnlab_helpers.report_template.page import TEMPLATES, Page, make_page

LARGE_PAGE = 3_000_000
GLOSSARY = Path("notebooks") / "GLOSSARY.md"


@dataclass(frozen=True)
class Exported:
    """What became of one notebook: its entry in the index, or the problem that stopped it."""

    name: str
    title: str
    summary: str
    problem: str = ""


def _machine() -> tuple[str, str]:
    """(HTML table of this machine, why there is none); one of the two is empty."""
    # A report must not fail because the machine it runs on cannot be described.
    try:
        from attnlab_helpers import machine

        return machine.summary_table().to_html(index=False, border=0, classes="machine"), ""
    except Exception as error:
        return "", f"{type(error).__name__}: {error}"


def _read(path: Path) -> nbformat.NotebookNode:
    """A notebook; a Markdown file as a notebook of one text cell."""
    if path.suffix == ".md":
        text = nbformat.v4.new_markdown_cell(path.read_text(encoding="utf-8"))
        return nbformat.v4.new_notebook(cells=[text])
    return nbformat.read(path, as_version=4)


def export(
    path: Path, target: Path, *, run: bool, pages: frozenset[str], foot: str, index: bool = False
) -> Page:
    """Writes the page of one notebook, or of a Markdown file, to `target`; `path` stays as it is.

    pages, index: what stands beside it and may be linked, see make_page.
    Raises CellFailed when a cell fails, and nbformat's errors for a file that is no notebook.
    """
    notebook = _read(path)
    if run:
        execute(notebook, path.parent, path.stem)
    notebook = canonical(notebook)
    page = make_page(
        notebook, name=path.stem, folder=path.parent, pages=pages, index=index, foot=foot
    )
    target.write_text(page.html, encoding="utf-8")
    return page


def write_index(target: Path, exported: list[Exported], date: str) -> None:
    """Writes the page that lists the notebooks, with what failed and this machine's summary."""
    from jinja2 import Environment, FileSystemLoader

    environment = Environment(loader=FileSystemLoader(TEMPLATES / "attnlab"), autoescape=True)
    table, problem = _machine()
    html = environment.get_template("series.html.j2").render(
        pages=exported, machine=table, machine_problem=problem, date=date
    )
    target.write_text(html, encoding="utf-8")


def export_all(paths: list[Path], folder: Path, *, run: bool, index: bool) -> list[Exported]:
    """Exports each notebook into `folder`, with a line of progress; a failure does not stop it.

    index: whether the caller writes index.html. Pages link to one another, to pages that earlier
    exports left in `folder`, and to nothing that is not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    date = datetime.date.today().isoformat()
    foot = f"Executed and exported {date}." if run else f"Exported {date}, outputs as saved."
    there = {page.stem for page in folder.glob("*.html")}
    pages = frozenset(path.stem for path in paths) | (there - {"index"})
    index = index or "index" in there
    exported = []
    for number, path in enumerate(paths):
        bar = "#" * number + "-" * (len(paths) - number)
        print(f"[{bar}] {path.stem} ...", end=" ", flush=True)
        target = folder / f"{path.stem}.html"
        # A page of an earlier run must not pass for the result of this one.
        target.unlink(missing_ok=True)
        start = time.monotonic()
        try:
            page = export(path, target, run=run, pages=pages, index=index, foot=foot)
        except Exception as error:  # whatever stopped this one, the others are still wanted
            print("failed")
            problem = str(error).strip() or type(error).__name__
            exported.append(Exported(path.stem, path.stem, "", problem))
            continue
        size = target.stat().st_size
        print(f"{time.monotonic() - start:.0f} s, {size / 1000:.0f} KB")
        for note in page.notes:
            print(f"  note: {note}")
        if size > LARGE_PAGE:
            print(f"  note: over {LARGE_PAGE / 1e6:.0f} MB, which is slow to open and to send")
        exported.append(Exported(path.stem, page.title, page.summary))
    return exported


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns 0 when every notebook was exported, else 1."""
    parser = argparse.ArgumentParser(prog="python -m attnlab_helpers.reports")
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: all of notebooks/")
    parser.add_argument("--folder", type=Path, default=Path("reports"), help="default: reports")
    parser.add_argument("--no-execute", action="store_true", help="keep the outputs as they are")
    options = parser.parse_args(arguments)
    paths = options.notebooks or sorted(Path("notebooks").glob("*.ipynb"))
    missing = [str(path) for path in paths if not path.is_file()]
    if missing or not paths:
        print(
            f"There is no notebook {', '.join(missing)}."
            if missing
            else "There is no notebook in notebooks/. Start this command in the folder that holds "
            "notebooks/, and run `make notebooks` first where they are not built yet.",
            file=sys.stderr,
        )
        return 1
    whole = not options.notebooks
    if whole and GLOSSARY.is_file():
        paths.append(GLOSSARY)  # the notebooks link to its terms
    exported = export_all(paths, options.folder, run=not options.no_execute, index=whole)
    if whole:
        write_index(options.folder / "index.html", exported, datetime.date.today().isoformat())
    failed = [one for one in exported if one.problem]
    notebooks = [one for one in exported if one.name != GLOSSARY.stem]
    good = sum(not one.problem for one in notebooks)
    print(f"{good} of {len(notebooks)} notebooks exported to {options.folder}/")
    for one in failed:
        print(f"\n{one.name} failed:\n{one.problem}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
