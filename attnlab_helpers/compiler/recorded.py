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
from pathlib import Path
from typing import Any

from .compiled import Compiled
from .counts import BY_WIDTH
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
    raise CompilerMissing(
        f"{missing}\nNothing was recorded for this very kernel ({name} for {target}, with these "
        f"arguments and constants). {_list_text(language, folder)}"
    )


def _list_text(language: str, folder: Path) -> str:
    found = [_load(path) for path in sorted(folder.glob("*.json.gz"))]
    rows = sorted({(one["name"], one["target"]) for one in found if one["language"] == language})
    if not rows:
        return f"No {language} kernel was recorded."
    return "Recorded are: " + ", ".join(f"{name} for {target}" for name, target in rows) + "."


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
    counts = document["counts"]
    for name in BY_WIDTH:  # JSON made texts of the widths
        counts[name] = {int(width): count for width, count in counts[name].items()}
    document |= {
        "provenance": f"recorded: {how}, {date}",
        "line_maps": {name: tuple(lines) for name, lines in document["line_maps"].items()},
        "notes": (*document["notes"], "Recorded stages hold no machine code to launch."),
    }
    return Compiled(**document)


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "_", text)
