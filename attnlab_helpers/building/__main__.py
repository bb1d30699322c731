"""Command `python -m attnlab_helpers.building [04 ...]`: notebooks/source/ to notebooks/."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from attnlab_helpers.building.canonical import canonical, to_bytes
from attnlab_helpers.building.execute import CellFailed, execute
from attnlab_helpers.building.source import read_source


def find_sources(folder: Path, only: list[str]) -> list[Path]:
    """The sources in `folder`, those whose names start with one of `only` when it names any.

    Raises FileNotFoundError with what there is when nothing fits.
    """
    found = sorted(folder.glob("*.md"))
    if not found:
        raise FileNotFoundError(
            f"There is no notebook source in {folder}. "
            "Start this command in the folder that holds notebooks/."
        )
    if not only:
        return found
    chosen = [path for path in found if path.name.startswith(tuple(only))]
    for wanted in only:
        if not any(path.name.startswith(wanted) for path in chosen):
            names = ", ".join(path.stem for path in found)
            raise FileNotFoundError(f"No notebook starts with {wanted!r}. There are: {names}.")
    return chosen


def build(source: Path, target: Path) -> int:
    """Builds one notebook from its source and returns its size in bytes.

    The old notebook is replaced only after every cell has passed. Raises CellFailed, ValueError.
    """
    notebook = read_source(source)
    execute(notebook, target.parent, source.stem)
    content = to_bytes(canonical(notebook))
    unfinished = target.with_name(target.name + ".part")
    unfinished.write_bytes(content)
    unfinished.replace(target)
    return len(content)


def main(arguments: list[str] | None = None) -> int:
    """Builds the notebooks named on the command line, or all; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m attnlab_helpers.building")
    parser.add_argument("only", nargs="*", help="beginnings of names, such as 04; all when none")
    parser.add_argument("--folder", type=Path, default=Path("notebooks"), help="default: notebooks")
    options = parser.parse_args(arguments)
    try:
        sources = find_sources(options.folder / "source", options.only)
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    for source in sources:
        print(f"{source.stem} ...", end=" ", flush=True)
        start = time.monotonic()
        try:
            size = build(source, options.folder / f"{source.stem}.ipynb")
        except (CellFailed, ValueError) as error:
            print("failed\n")
            print(f"{error}\nThe notebook on disk was left as it is.", file=sys.stderr)
            return 1
        print(f"{time.monotonic() - start:.0f} s, {size / 1000:.0f} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
