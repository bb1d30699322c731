"""Command `python -m attnlab_helpers.record`: on a GPU, make every recording again.

Every notebook is executed live, and whatever it measures is kept. So the recordings are exactly
what the notebooks ask for, and no list of studies can fall behind. The old recordings of this
GPU are replaced only when every notebook has passed; what was measured before one failed is kept
beside them. Then the dispatch atlas is made again.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

import torch

from . import recordings
from .building.__main__ import find_sources
from .building.execute import CellFailed, execute
from .building.source import read_source
from .sdpa import record_atlas


def record(sources: list[Path], target: Path, *, keep_others: bool) -> list[Path]:
    """Execute the sources live and move what they recorded below `target`.

    keep_others: leave recordings that these sources did not make (for a part of the series).
    Returns the files of this GPU. Raises CellFailed, and leaves `target` as it was: GPU time is
    dear, so what was measured until then goes to `unfinished(target)`.
    """
    with tempfile.TemporaryDirectory(prefix="attnlab") as scratch:
        fresh = Path(scratch) / "recordings"
        variables = {"ATTNLAB_RECORD": str(fresh), "ATTNLAB_SOURCE": "live"}
        try:
            for source in sources:
                start = time.monotonic()
                print(f"{source.stem} ...", end=" ", flush=True)
                execute(read_source(source), source.parent.parent, source.stem, variables)
                print(f"{time.monotonic() - start:.0f} s", flush=True)
        except BaseException:  # interrupted, too
            if fresh.exists():
                shutil.copytree(fresh, unfinished(target), dirs_exist_ok=True)
            raise
        files: list[Path] = []
        for made in sorted(fresh.glob("*")):
            folder = target / made.name
            if folder.exists() and not keep_others:
                shutil.rmtree(folder)
            shutil.copytree(made, folder, dirs_exist_ok=True)
            files += sorted(folder.iterdir())
        return files


def unfinished(target: Path) -> Path:
    """Where recordings go that were made before a notebook failed: a folder beside `target`."""
    return target.with_name(f"{target.name}-unfinished")


def main(arguments: list[str] | None = None) -> int:
    """Record what the notebooks named on the command line measure, or all; return the status."""
    parser = argparse.ArgumentParser(prog="python -m attnlab_helpers.record")
    parser.add_argument("only", nargs="*", help="beginnings of names, such as 04; all when none")
    parser.add_argument("--folder", type=Path, default=Path("notebooks"), help="default: notebooks")
    parser.add_argument(
        "--target", type=Path, default=recordings.SHIPPED, help="default: the package's own"
    )
    parser.add_argument(
        "--atlas", type=float, default=600, metavar="SECONDS",
        help="how long the dispatch atlas of notebook 05 may take; 0 leaves it (default: 600)",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print(
            "Recording needs a CUDA GPU, and torch finds none here. Run this on a GPU machine; "
            "without one the notebooks replay what was recorded.",
            file=sys.stderr,
        )
        return 1
    start = time.monotonic()
    try:
        sources = find_sources(options.folder / "source", options.only)
        files = record(sources, options.target, keep_others=bool(options.only))
    except (CellFailed, FileNotFoundError, ValueError) as error:
        print(f"\n{error}\nThe old recordings were left as they are.", file=sys.stderr)
        kept = unfinished(options.target)
        if kept.exists():
            print(f"What was measured until then is in {kept.name}, beside them.", file=sys.stderr)
        return 1
    # Notebook 05 reads the atlas, and it is made in worker processes, not in the notebook.
    if options.atlas > 0 and any(source.stem.startswith("05") for source in sources):
        record_atlas.main(["--seconds", str(options.atlas)])
    size = sum(path.stat().st_size for path in files)
    print(f"{len(files)} files, {size / 1000:.0f} KB, {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
