"""Which backend runs for a problem, and why not the others: live on a GPU, else by the atlas."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import torch

from ..machine import Provenance, provenance
from ..problem import AttentionProblem
from ..profiling import capture, peak_memory, time_call
from ..study import NoGpu, Source, resolve_source
from .atlas import load_atlas
from .backends import BACKENDS, FUSED, backend_that_ran, priority
from .cell import Cell, Direction, Layout, Mask, prepare
from .probe import why_not


@dataclass(frozen=True)
class Choice:
    """The backend that ran for a call that left it to PyTorch.

    asked: the call in words. backend: "cudnn", "flash", "efficient", "math", or the status of a
    recorded cell without one ("crashed"). time_ns, peak_memory: of one call. answered_for: the
    recorded cell that answers, or the call itself when `exact`. why: the way to the choice.
    """

    asked: str
    backend: str
    time_ns: float | None
    peak_memory: int | None
    provenance: Provenance
    answered_for: str
    exact: bool
    why: str

    def __str__(self) -> str:
        near = "" if self.exact else f"; not in the atlas, the nearest cell: {self.answered_for}"
        return f"{self.backend} for {self.asked} ({self.provenance}{near})"

    def __repr__(self) -> str:
        return f"<Choice {self}>"


def choose(
    problem: AttentionProblem,
    *,
    mask: Mask = "none",
    layout: Layout = "contiguous",
    direction: Direction = "forward",
    source: Source = "auto",
    gpu: str | None = None,
) -> Choice:
    """Which backend SDPA runs for `problem`, found by looking at the kernels that ran.

    mask, layout, direction: see `Cell`. source: "live" runs it on this machine's GPU,
    "recorded" asks the atlas, "auto" does the first where there is a GPU. gpu: which atlas, by
    a part of the name. Raises NoRecording when the atlas has nothing comparable.
    """
    cell = Cell(problem, mask, layout, direction)
    if _is_live(source):
        tensors = cell.tensors("cuda")
        gradient = cell.gradient("cuda") if direction == "training" else None
        call = prepare(cell, "sdpa_auto", tensors, gradient)
        backend = backend_that_ran(capture(call, calls=1))
        return Choice(
            asked=cell.label,
            backend=backend,
            time_ns=time_call(call, "cuda").median_ns,
            peak_memory=peak_memory(call, "cuda"),
            provenance=provenance("cuda"),
            answered_for=cell.label,
            exact=True,
            why=_why(backend, why_not(cell, tensors), priority()),
        )
    atlas = load_atlas(gpu)
    number, exact = atlas.nearest(cell)
    row = atlas.cells.loc[number]
    ran = row["ran"] if isinstance(row["ran"], str) else row["status"]
    against = {backend: row[f"why_not_{backend}"] for backend in FUSED}
    return Choice(
        asked=cell.label,
        backend=ran,
        time_ns=None if pd.isna(row["median_ns"]) else float(row["median_ns"]),
        peak_memory=None if pd.isna(row["peak_memory_bytes"]) else int(row["peak_memory_bytes"]),
        provenance=atlas.provenance,
        answered_for=atlas.cell(number).label,
        exact=exact,
        why=_why(ran, against, atlas.priority),
    )


def reasons(
    problem: AttentionProblem,
    *,
    mask: Mask = "none",
    layout: Layout = "contiguous",
    direction: Direction = "forward",
    source: Source = "auto",
    gpu: str | None = None,
) -> pd.DataFrame:
    """For each backend whether it runs, could run, or why it cannot, in PyTorch's own words.

    Arguments as `choose`. Columns: backend (in PyTorch's order), answer, reason, answered_for
    (the call itself, or the nearest recorded cell) and provenance.
    """
    cell = Cell(problem, mask, layout, direction)
    if _is_live(source):
        chosen = choose(problem, mask=mask, layout=layout, direction=direction, source="live")
        against, order = why_not(cell, cell.tensors("cuda")), priority()
        backend, origin, answered_for = chosen.backend, chosen.provenance, cell.label
    else:
        atlas = load_atlas(gpu)
        number, exact = atlas.nearest(cell)
        row = atlas.cells.loc[number]
        against = {name: row[f"why_not_{name}"] for name in FUSED}
        backend, order, origin = row["ran"], atlas.priority, atlas.provenance
        answered_for = cell.label if exact else f"nearest: {atlas.cell(number).label}"
    rows = []
    for name in order if set(order) == set(BACKENDS) else BACKENDS:
        reason = against.get(name, "")
        answer = "runs" if name == backend else "cannot" if reason else "could"
        if answer == "could":
            reason = f"{backend} comes first in PyTorch's order"
        rows.append({"backend": name, "answer": answer, "reason": reason})
    return pd.DataFrame(rows).assign(answered_for=answered_for, provenance=str(origin))


def _is_live(source: Source) -> bool:
    live = resolve_source(source) == "live"
    if live and not torch.cuda.is_available():
        raise NoGpu(
            "there is no CUDA GPU here to ask. source='recorded' answers from the recorded atlas."
        )
    return live


def _why(backend: str, against: dict[str, str], order: tuple[str, ...]) -> str:
    if backend not in order:
        return ""
    before = order[: order.index(backend)]
    steps = [f"{name} cannot: {against[name].rstrip('.')}." for name in before if against.get(name)]
    return " ".join([*steps, f"{backend} is the first in PyTorch's order that can."])
