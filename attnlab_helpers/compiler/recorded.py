"""Stages that were compiled elsewhere, for machines without the compilers.

One gzipped JSON a kernel, target and set of arguments, found by a hash over all of them. They are
written when the variable ATTNLAB_RECORD_STAGES names a folder, and never edited.
"""

from __future__ import annotations

import datetime
import gzip
import hashlib
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from .compiled import Compiled
from .counts import FROM_CUBIN, count
from .errors import CompilerMissing

FORMAT = 1
FOLDER = Path(__file__).parent.parent / "recordings" / "stages"
VARIABLE = "ATTNLAB_RECORD_STAGES"


def key(request: dict[str, Any]) -> str:
    """Twelve hexadecimal digits that stand for all that decides what a kernel becomes."""
    text = json.dumps(request, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def save_if_asked(compiled: Compiled) -> Path | None:
    """Save into the folder that ATTNLAB_RECORD_STAGES names; nothing if it is not set."""
    folder = os.environ.get(VARIABLE)
    return save_recorded(compiled, Path(folder)) if folder else None


def save_recorded(compiled: Compiled, folder: Path = FOLDER) -> Path:
    """Write a kernel's stages into `folder`, without its machine code; return the file's path.

    What was itself read from a recording is not written again.
    """
    path = folder / f"{_plain(compiled.name)}-{compiled.key}.json.gz"
    if compiled.provenance.startswith("recorded"):
        return path
    document = {
        "format": FORMAT,
        "date": datetime.date.today().isoformat(),
        "name": compiled.name,
        "language": compiled.language,
        "target": compiled.target,
        "source": compiled.source,
        "stages": dict(compiled.stages),
        "provenance": compiled.provenance,
        "entry": compiled.entry,
        "counts": dict(compiled.counts),
        "line_maps": {name: list(lines) for name, lines in compiled.line_maps.items()},
        "shared_bytes": compiled.shared_bytes,
        "num_warps": compiled.num_warps,
        "notes": list(compiled.notes),
        "key": compiled.key,
    }
    folder.mkdir(parents=True, exist_ok=True)
    # mtime=0: the same stages give the same bytes.
    path.write_bytes(gzip.compress(json.dumps(document).encode(), 9, mtime=0))
    return path


def find(
    language: str, name: str, target: str, wanted: str, missing: str, folder: Path | None = None
) -> Compiled:
    """The recorded stages with the key `wanted`, or CompilerMissing.

    missing: the sentence that says which compiler is not here and how to get it.
    """
    folder = FOLDER if folder is None else folder
    path = folder / f"{_plain(name)}-{wanted}.json.gz"
    if path.is_file():
        return _read(path)
    raise CompilerMissing(f"{missing}\n{_nothing_text(language, name, target, folder)}")


def with_machine_code(compiled: Compiled, folder: Path | None = None) -> Compiled:
    """A kernel without SASS, as nothing here takes machine code apart: its recording, if there.

    The machine code itself stays the one that was compiled here, so that it can be launched.
    """
    folder = FOLDER if folder is None else folder
    path = folder / f"{_plain(compiled.name)}-{compiled.key}.json.gz"
    if "SASS" in compiled.stages or not path.is_file():
        return compiled
    found = _read(path)
    if "SASS" not in found.stages:
        return compiled
    here = f"Stages and counts are recorded; what is launched was {compiled.provenance}."
    notes = (*found.notes[:-1], here)
    more = {"settings": compiled.settings, "arguments": compiled.arguments}
    return replace(found, cubin=compiled.cubin, entry=compiled.entry, notes=notes, **more)


def _nothing_text(language: str, name: str, target: str, folder: Path) -> str:
    found = [_load(path) for path in sorted(folder.glob("*.json.gz"))]
    rows = sorted({(one["name"], one["target"]) for one in found if one["language"] == language})
    if not rows:
        return f"No {language} kernel was recorded."
    listed = ", ".join(f"{name} for {target}" for name, target in rows)
    if (name, target) in rows:
        return (
            f"A kernel {name} for {target} was recorded, but another one: its text, the types of "
            f"its arguments, a constant or an option differ. Recorded are: {listed}."
        )
    return f"And {name} for {target} was not recorded. Recorded are: {listed}."


def _load(path: Path) -> dict[str, Any]:
    document = json.loads(gzip.decompress(path.read_bytes()))
    if document["format"] != FORMAT:
        raise ValueError(f"{path.name} has format {document['format']}, this package {FORMAT}")
    return document


def _read(path: Path) -> Compiled:
    document = _load(path)
    document.pop("format")
    date = document.pop("date")
    how = document["provenance"].replace("compiled here", "compiled", 1)
    kept = dict(document["counts"])
    if "spilled_bytes" in kept:  # as local_bytes was called at first
        kept["local_bytes"] = kept.pop("spilled_bytes")
    document |= {
        # Counted again, so that old recordings and new kernels stand in one table.
        "counts": count(document["stages"]) | {n: kept[n] for n in FROM_CUBIN if n in kept},
        "provenance": f"recorded: {how}, {date}",
        "line_maps": {name: tuple(lines) for name, lines in document["line_maps"].items()},
        "notes": (*document["notes"], "Recorded stages hold no machine code to launch."),
    }
    return Compiled(**document)


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "_", text)
