"""What SDPA did for a grid of cells on one GPU: read, saved, and asked for the nearest cell."""

from __future__ import annotations

import functools
import gzip
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ..machine import Provenance
from ..problem import AttentionProblem
from ..recordings import NoRecording
from .backends import FUSED
from .cell import Cell

FORMAT = 1
SHIPPED = Path(__file__).parents[1] / "recordings" / "atlas"
# What a cell's question looks like, then what was found.
QUESTION = (
    "dtype", "head_dim", "mask", "lengths", "batch", "heads", "kv_heads", "q_len", "kv_len",
    "layout", "direction",
)  # fmt: skip
FOUND = (
    "asked", "status", "ran", "reason", "kernel", "activities", "median_ns", "low_ns", "high_ns",
    "peak_memory_bytes", "error", "allowed",
)  # fmt: skip
# Two cells that differ in one of these are different questions, however near the numbers.
NEVER_MIXED = ("dtype", "mask", "lengths", "grouped", "layout", "direction")


@dataclass(frozen=True)
class Atlas:
    """A recorded grid.

    frame: one row a cell and asked backend ("auto" and the four pinned ones). Columns: the
    question (dtype, head_dim, mask, lengths, batch, heads, kv_heads, q_len, kv_len, layout,
    direction); asked; status ("ran", "refused", "failed", "crashed", "hung", "out of memory",
    "not seen"); ran (the backend whose kernels ran); reason; kernel (the longest one);
    activities; median_ns, low_ns, high_ns (GPU work of a call, L2 emptied, of 3 calls);
    peak_memory_bytes; error and allowed (the largest absolute error against float64 over the
    output and, in training, the gradients; allowed is twice that of plain PyTorch).
    priority: PyTorch's order there.
    """

    frame: pd.DataFrame
    provenance: Provenance
    priority: tuple[str, ...]

    @functools.cached_property
    def cells(self) -> pd.DataFrame:
        """One row a cell: the question, what `auto` did, and what the others would have done.

        status, ran, reason, kernel, activities, median_ns, peak_memory_bytes, error, allowed
        are of `auto`; agrees: error <= allowed; `why_not_<backend>`: the reason ("" when it can);
        fastest, fastest_ns: of all backends that could; slowdown: median_ns / fastest_ns, and 1
        where the fastest is the one that ran.
        """
        question = list(QUESTION)
        auto = self.frame[self.frame["asked"] == "auto"].drop(
            columns=["asked", "low_ns", "high_ns"]
        )
        auto = auto.assign(agrees=auto["error"] <= auto["allowed"])
        pinned = self.frame[self.frame["asked"] != "auto"]
        for backend in FUSED:
            reasons = pinned[pinned["asked"] == backend].set_index("cell")["reason"]
            auto[f"why_not_{backend}"] = auto["cell"].map(reasons).fillna("")
        timed = pinned[pinned["median_ns"].notna()]
        best = timed.loc[timed.groupby("cell")["median_ns"].idxmin()].set_index("cell")
        auto["fastest"] = auto["cell"].map(best["asked"])
        auto["fastest_ns"] = auto["cell"].map(best["median_ns"])
        # Where the fastest is the backend that ran, two timings of one thing differ by noise.
        same = auto["fastest"] == auto["ran"]
        auto["slowdown"] = (auto["median_ns"] / auto["fastest_ns"]).mask(same, 1.0)
        rest = [column for column in auto.columns if column not in ("cell", *question)]
        return auto.set_index("cell")[question + rest]

    def nearest(self, cell: Cell) -> tuple[int, bool]:
        """The number of the recorded cell that is most like this one, and whether it is the same.

        dtype, mask, kind of lengths, grouped or not, layout and direction must agree, and the
        head dims must lie on the same side of PyTorch's rules (multiples of 8 and 4, 128, 256);
        the nearest head dim comes next. Raises NoRecording when nothing agrees, and for an empty
        problem: the grid holds none.
        """
        wanted = describe(cell)
        if 0 in (wanted[name] for name in ("batch", "heads", "head_dim", "q_len", "kv_len")):
            raise NoRecording(
                f"{cell.label} is empty, and empty problems are not in the atlas. No fused kernel "
                "takes one: PyTorch leaves them to math (see its reasons on a GPU)."
            )
        cells = self.cells.assign(grouped=self.cells["heads"] != self.cells["kv_heads"])
        fitting = cells
        for column in NEVER_MIXED:
            value = cell.grouped if column == "grouped" else wanted[column]
            kept = fitting[fitting[column] == value]
            if kept.empty:
                there = ", ".join(map(str, sorted(fitting[column].unique())))
                raise NoRecording(
                    f"the atlas of {self.provenance.device} has no cell like {cell.label}: for "
                    f"what it asks otherwise, {column} {value!r} was not recorded, but {there}."
                )
            fitting = kept
        head_dims = sorted(fitting["head_dim"].unique())
        fitting = fitting[
            [_sides(int(one)) == _sides(wanted["head_dim"]) for one in fitting["head_dim"]]
        ]
        if fitting.empty:
            raise NoRecording(
                f"the atlas of {self.provenance.device} has no cell like {cell.label}: PyTorch "
                "asks whether head_dim is a multiple of 8 or 4 and at most 128 or 256, and none of "
                f"{', '.join(map(str, head_dims))} answers as {wanted['head_dim']} does."
            )
        distances = [_distance(wanted, row) for row in fitting.to_dict("records")]
        best = min(range(len(distances)), key=lambda index: distances[index])
        return int(fitting.index[best]), distances[best] == 0

    def cell(self, number: int) -> Cell:
        """The recorded cell of this number, as a question that can be asked again."""
        row = self.cells.loc[number]
        problem = AttentionProblem(
            *(int(row[name]) for name in ("batch", "heads", "q_len", "head_dim")),
            kv_len=int(row["kv_len"]),
            kv_heads=int(row["kv_heads"]),
            dtype=row["dtype"],
            causal=row["mask"] == "causal",
        )
        mask = row["mask"] if row["mask"] in ("boolean", "bias") else "none"
        return Cell(problem, mask, row["layout"], row["direction"])

    def __repr__(self) -> str:
        return f"<Atlas of {self.frame['cell'].nunique():,} cells, {self.provenance}>"


def describe(cell: Cell) -> dict[str, Any]:
    """A cell as the values of the atlas's axes."""
    problem = cell.problem
    return {
        "dtype": problem.dtype,
        "head_dim": problem.head_dim,
        "mask": cell.kind_of_mask,
        "lengths": cell.kind_of_lengths,
        "batch": problem.batch,
        "heads": problem.heads,
        "kv_heads": problem.kv_heads,
        "q_len": problem.q_len,
        "kv_len": problem.kv_len,
        "layout": cell.layout,
        "direction": cell.direction,
    }


def _sides(head_dim: int) -> tuple[bool, ...]:
    """On which side of PyTorch's rules a head dim lies: across one, the answer is another."""
    return (head_dim % 8 == 0, head_dim % 4 == 0, head_dim <= 128, head_dim <= 256)


def _distance(wanted: dict[str, Any], row: dict[str, Any]) -> float:
    def apart(name: str) -> float:
        return abs(math.log2(max(wanted[name], 1)) - math.log2(max(row[name], 1)))

    sizes = sum(apart(name) for name in ("batch", "heads", "kv_heads", "q_len", "kv_len"))
    return 30.0 * apart("head_dim") + sizes


def build(
    cells: Sequence[Cell],
    rows: list[dict[str, Any]],
    provenance: Provenance,
    priority: tuple[str, ...],
) -> Atlas:
    """An atlas from the rows of `probe_all`, whose "cell" is a place in `cells`."""
    records = [
        {"cell": row["cell"], **describe(cells[row["cell"]])}
        | {name: row.get(name) for name in FOUND}
        for row in rows
    ]
    return Atlas(_typed(pd.DataFrame(records)), provenance, priority)


def save(atlas: Atlas, folder: Path) -> Path:
    """Write an atlas below `folder`, in a folder named after its GPU; return the file's path."""
    device = "-".join(atlas.provenance.device.lower().split())
    torch_version = atlas.provenance.versions.get("torch", "unknown")
    path = folder / device / f"torch-{torch_version}.json.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = atlas.frame.astype(object).where(atlas.frame.notna(), None)
    texts = [name for name in frame if any(isinstance(value, str) for value in frame[name])]
    words = sorted({value for name in texts for value in frame[name] if value is not None})
    number = {word: index for index, word in enumerate(words)}
    columns = {
        name: [number.get(value) for value in frame[name]]
        if name in texts
        else [_short(value) for value in frame[name]]
        for name in frame
    }
    document = {
        "format": FORMAT,
        "provenance": atlas.provenance.to_json(),
        "priority": list(atlas.priority),
        "words": words,
        "texts": texts,
        "columns": columns,
    }
    text = json.dumps(document, separators=(",", ":"), sort_keys=True)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    return path


def read_atlas(path: str | Path) -> Atlas:
    """Read an atlas file. Raises NoRecording when it cannot be read."""
    path = Path(path)
    try:
        document = json.loads(gzip.decompress(path.read_bytes()))
        if document["format"] != FORMAT:
            raise ValueError(f"its format is {document['format']}, not {FORMAT}")
        words, columns = document["words"], document["columns"]
        for name in document["texts"]:
            columns[name] = [None if index is None else words[index] for index in columns[name]]
        frame = _typed(pd.DataFrame(columns))
        provenance = Provenance.from_json(document["provenance"])
        return Atlas(frame, provenance.as_recorded(), tuple(document["priority"]))
    except (OSError, EOFError, KeyError, ValueError, IndexError, TypeError) as error:
        raise NoRecording(
            f"the atlas {path.name} cannot be read ({error}). Restore it from the repository, or "
            "record it again with `python -m attnlab_helpers.sdpa.record_atlas` on a GPU."
        ) from error


@functools.lru_cache(maxsize=4)
def load_atlas(gpu: str | None = None) -> Atlas:
    """The newest atlas that ships with the package, of `gpu` if given (a part of its name).

    Raises NoRecording with what there is.
    """
    paths = sorted(SHIPPED.glob("*/*.json.gz"))
    wanted = "" if gpu is None else "-".join(str(gpu).lower().split())
    fitting = [path for path in paths if wanted in path.parent.name]
    if not fitting:
        there = ", ".join(f"{path.parent.name} ({path.stem})" for path in paths) or "none"
        raise NoRecording(
            f"no atlas of {gpu or 'any GPU'} was recorded. There is: {there}. On a GPU, "
            "`python -m attnlab_helpers.sdpa.record_atlas` records one."
        )
    return max(map(read_atlas, fitting), key=lambda atlas: atlas.provenance.date)


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    frame = frame.reindex(columns=["cell", *QUESTION, *FOUND])
    numbers = [
        "activities", "median_ns", "low_ns", "high_ns", "peak_memory_bytes", "error", "allowed",
    ]  # fmt: skip
    for name in numbers:
        frame[name] = pd.to_numeric(frame[name]).astype(float)
    frame["reason"] = frame["reason"].fillna("")
    return frame.sort_values(["cell"], kind="stable").reset_index(drop=True)


def _short(value: Any) -> Any:
    """Numbers as short as they are known: three digits of an error, no ".0" behind a count."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() else float(f"{value:.3g}")
    return int(value) if hasattr(value, "__index__") else value
