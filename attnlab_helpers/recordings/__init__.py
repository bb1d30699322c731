"""What was recorded, on which GPU, and how it is looked up.

A recording is one JSON file (what ran, its numbers, its provenance) and, beside it, the raw
trace as the profiler wrote it, gzipped. They are written by `make record` on a machine with a
GPU, one folder a GPU, and never edited. Further folders can be named in ATTNLAB_RECORDINGS.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ..machine import Provenance
from ..quiet import OneSentence

FORMAT = 1
SHIPPED = Path(__file__).parent / "data"


class NoRecording(OneSentence, LookupError):
    """Nothing fitting was recorded. The text lists what was."""


@dataclass(frozen=True)
class Recording:
    """One recorded study.

    name: the implementation or function; problem: the problem's key; direction: "forward",
    "training" or "measurement". fingerprint: of the source that ran. numbers: plain data, times
    in nanoseconds, memory in bytes. trace: the raw trace, or None.
    """

    name: str
    problem: str
    direction: str
    label: str
    fingerprint: str
    seed: int
    provenance: Provenance
    numbers: dict[str, Any]
    trace: bytes | None = None

    @property
    def slug(self) -> str:
        """The file name without its ending."""
        return _slug(self.name, self.problem, self.direction)


def save(recording: Recording, folder: Path) -> Path:
    """Write a recording below `folder`, in a folder named after its GPU; return the JSON's path."""
    target = folder / _plain(recording.provenance.device)
    target.mkdir(parents=True, exist_ok=True)
    document = {
        "format": FORMAT,
        "name": recording.name,
        "problem": recording.problem,
        "direction": recording.direction,
        "label": recording.label,
        "fingerprint": recording.fingerprint,
        "seed": recording.seed,
        "provenance": recording.provenance.to_json(),
        "numbers": recording.numbers,
        "has_trace": recording.trace is not None,
    }
    path = target / f"{recording.slug}.json"
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if recording.trace is not None:
        # mtime=0: the same trace gives the same bytes.
        _trace_path(path).write_bytes(gzip.compress(recording.trace, 9, mtime=0))
    return path


def find(
    name: str,
    problem: str,
    direction: str,
    *,
    fingerprints: Sequence[str] | None,
    gpu: str | None = None,
) -> Recording:
    """The newest recording of this study, on `gpu` if given (a part of its name is enough).

    fingerprints: marks of the code that the caller would run; a recording of other code is no
    answer. None accepts any. Raises NoRecording.
    """
    slug = _slug(name, problem, direction)
    found = [_read(path) for path in _files() if path.stem == slug]
    if gpu is not None:
        found = [one for one in found if gpu.lower() in one.provenance.device.lower()]
    if not found:
        wanted = f" on {gpu}" if gpu else ""
        # An experiment of the reader's own chooses its device itself.
        own = direction == "measurement"
        on_the_cpu = "" if own else "; a small problem can run on the CPU with device='cpu'"
        raise NoRecording(
            f"nothing was recorded for {name} with {problem} ({direction}){wanted}. Measuring it "
            f"live needs a GPU{on_the_cpu}. Recorded are:\n{_list_text(name)}"
        )
    fitting = [one for one in found if fingerprints is None or one.fingerprint in fingerprints]
    if not fitting:
        raise NoRecording(
            f"{name} was recorded, but its code has changed since (recorded: "
            f"{found[0].fingerprint}, now: {' or '.join(fingerprints or ())}). Old numbers would "
            "be shown for new code, so none are. Run it on a GPU, or on the CPU with "
            "device='cpu'."
        )
    # Of several from one day, the last: a reader's own folder comes after what was shipped.
    return sorted(fitting, key=lambda one: one.provenance.date)[-1]


def is_recorded(name: str, fingerprint: str) -> bool:
    """Whether anything was recorded under this name for code with this mark."""
    slug = f"{_plain(name)}--"
    candidates = (path for path in _files() if path.name.startswith(slug))
    return any(_read(path, with_trace=False).fingerprint == fingerprint for path in candidates)


def listing() -> pd.DataFrame:
    """What was recorded: one row a recording (name, problem, direction, GPU, torch, date)."""
    rows = [
        {
            "name": one.name,
            "problem": one.label,
            "direction": one.direction,
            "GPU": one.provenance.device,
            "torch": one.provenance.versions.get("torch", ""),
            "date": one.provenance.date,
        }
        for one in (_read(path, with_trace=False) for path in _files())
    ]
    columns = ["name", "problem", "direction", "GPU", "torch", "date"]
    return pd.DataFrame(rows, columns=columns).sort_values(columns[:4], ignore_index=True)


def recording_folder() -> Path | None:
    """Where results are being recorded just now (ATTNLAB_RECORD), or None."""
    folder = os.environ.get("ATTNLAB_RECORD")
    return Path(folder) if folder else None


def _folders() -> list[Path]:
    own = os.environ.get("ATTNLAB_RECORDINGS", "")
    return [SHIPPED, *(Path(part) for part in own.split(os.pathsep) if part)]


def _files() -> Iterator[Path]:
    for folder in _folders():
        yield from sorted(folder.glob("*/*.json"))


def _trace_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}.trace.json.gz")


def _read(path: Path, with_trace: bool = True) -> Recording:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise ValueError(f"its format is {data['format']}, not {FORMAT}")
        trace = None
        if with_trace and data["has_trace"]:
            trace = gzip.decompress(_trace_path(path).read_bytes())
        return Recording(
            data["name"],
            data["problem"],
            data["direction"],
            data["label"],
            data["fingerprint"],
            data["seed"],
            Provenance.from_json(data["provenance"]),
            data["numbers"],
            trace,
        )
    except (OSError, EOFError, KeyError, ValueError) as error:
        raise NoRecording(
            f"the recording {path.name} cannot be read ({error}). Restore it from the "
            "repository, or make it again with `make record` on a GPU."
        ) from error


def _slug(name: str, problem: str, direction: str) -> str:
    return "--".join(_plain(part) for part in (name, problem, direction))


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-.").lower()


def _list_text(name: str) -> str:
    frame = listing()
    # What has the same name first: that is what the reader was looking for.
    frame = frame.loc[(frame["name"] != name).sort_values(kind="stable").index]
    if frame.empty:
        return "  (nothing yet)"
    lines = [
        f"  {row['name']}: {row['problem']} ({row['direction']}, {row['GPU']})"
        for _, row in frame.iterrows()
    ]
    return "\n".join(lines)
