"""The tables of a trace: operators, launches and GPU activities, made from its events."""

from __future__ import annotations

import numpy as np
import pandas as pd

from attnlab_helpers.profiling.traces.category import (
    GPU_KINDS,
    LAUNCH_CATEGORIES,
    starts_gpu_work,
)
from attnlab_helpers.profiling.traces.links import (
    Nesting,
    innermost,
    match_launches,
    nest,
    overlapping,
    sum_upwards,
    thread_codes,
)
from attnlab_helpers.profiling.traces.notes import Note, NoteCollector, counted


def operator_spans(events: pd.DataFrame) -> tuple[pd.DataFrame, Nesting]:
    """The CPU operators among `events`, and how they lie in each other."""
    spans = events[(events["category"] == "cpu_op").to_numpy()].reset_index(drop=True)
    nesting = nest(
        spans["start_ns"].to_numpy(),
        spans["duration_ns"].to_numpy(),
        thread_codes(spans["pid"], spans["tid"]),
    )
    return spans, nesting


def operator_table(spans: pd.DataFrame, nesting: Nesting, kernels: pd.DataFrame) -> pd.DataFrame:
    """`Trace.operators`: the spans with their place in the tree and their time on the GPU."""
    own = np.zeros(len(spans), np.int64)
    operator = kernels["operator"].to_numpy()
    inside = operator >= 0
    np.add.at(own, operator[inside], kernels["duration_ns"].to_numpy()[inside])
    return pd.DataFrame(
        {
            "name": spans["name"],
            "start_ns": spans["start_ns"],
            "duration_ns": spans["duration_ns"],
            "self_ns": nesting.self_ns,
            "pid": spans["pid"],
            "tid": spans["tid"],
            "depth": nesting.depth,
            "parent": nesting.parent,
            "device_ns": sum_upwards(own, nesting.parent, nesting.depth),
            "self_device_ns": own,
        }
    )


def link_gpu(
    events: pd.DataFrame, details: pd.DataFrame, spans: pd.DataFrame, nesting: Nesting
) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """`Trace.kernels`, `Trace.launches`, and the labels in `events` of the launches."""
    calls = np.flatnonzero(events["category"].isin(LAUNCH_CATEGORIES).to_numpy())
    activities = events.iloc[details["event"].to_numpy()].reset_index(drop=True)
    call = match_launches(
        activities["correlation"].to_numpy(),
        activities["start_ns"].to_numpy(),
        events["correlation"].to_numpy()[calls],
        events["start_ns"].to_numpy()[calls],
    )
    # Of all CUDA calls only those that started something are launches; -1 stays -1.
    started = np.bincount(call[call >= 0], minlength=len(calls))
    launching = np.flatnonzero(started)
    label = np.full(len(calls) + 1, -1, np.int64)
    label[launching] = np.arange(len(launching))
    launch = label[call]

    rows = calls[launching]
    columns = ["name", "start_ns", "duration_ns", "pid", "tid", "correlation"]
    launches = events.iloc[rows][columns].reset_index(drop=True)
    launches["activities"] = started[launching].astype(np.int64)
    launches["operator"] = _operators_around(launches, spans, nesting)
    kernels = pd.DataFrame(
        {
            "name": activities["name"],
            "kind": activities["category"].astype(str).map(GPU_KINDS).astype("str"),
            "start_ns": activities["start_ns"],
            "duration_ns": activities["duration_ns"],
            "device": details["device"],
            "stream": details["stream"],
            "correlation": activities["correlation"],
            "grid": details["grid"],
            "block": details["block"],
            "registers": details["registers"],
            "shared_bytes": details["shared_bytes"],
            "occupancy_percent": details["occupancy_percent"],
            "bytes": details["bytes"],
            "launch": launch,
            "operator": np.append(launches["operator"].to_numpy(), -1)[launch],
        }
    )
    return kernels, launches, rows


def launch_calls(events: pd.DataFrame) -> pd.DataFrame:
    """The calls in `events` that are there to start GPU work, whether or not it is on record."""
    calls = events[events["category"].isin(LAUNCH_CATEGORIES).to_numpy()]
    names = calls["name"].astype(str)
    known = {name: starts_gpu_work(name) for name in names.unique()}
    columns = ["name", "start_ns", "duration_ns", "pid", "tid", "correlation"]
    return calls.loc[names.map(known).to_numpy(bool), columns].reset_index(drop=True)


def no_gpu_side(launches: int) -> str:
    """The sentence for a trace with `launches` launches and no GPU activity."""
    return (
        f"{counted(launches, 'launch')}, but no GPU activity on record: the file was cut, or the "
        "profiler did not record the GPU."
    )


def _operators_around(launches: pd.DataFrame, spans: pd.DataFrame, nesting: Nesting) -> np.ndarray:
    threads = thread_codes(
        pd.concat([spans["pid"], launches["pid"]]), pd.concat([spans["tid"], launches["tid"]])
    )
    start = spans["start_ns"].to_numpy()
    return innermost(
        launches["start_ns"].to_numpy(),
        threads[len(spans) :],
        start,
        start + spans["duration_ns"].to_numpy(),
        threads[: len(spans)],
        nesting.parent,
    )


def structure_notes(
    events: pd.DataFrame, kernels: pd.DataFrame, launches: pd.DataFrame, nesting: Nesting
) -> tuple[Note, ...]:
    """What the tables themselves show: missing links, overlaps, clocks that differ."""
    if not len(events):
        return (Note("info", "The trace holds no complete event: nothing was recorded.", 0),)
    found = NoteCollector()
    found.add(
        "overlap",
        "began inside another of its thread and ended after it; all are shown.",
        noun="CPU operator",
        count=nesting.crossing,
    )
    if not len(kernels):
        calls = len(launch_calls(events))
        said = Note("info", "The trace holds no GPU activity: only the CPU was recorded.", 0)
        if calls:
            said = Note("unlinked", no_gpu_side(calls), calls)
        return (*found.notes(), said)
    launch = kernels["launch"].to_numpy()
    start = kernels["start_ns"].to_numpy()
    linked = launch >= 0
    found.add(
        "unlinked",
        f"(of {len(kernels):,}) had no launch on record; shown without a link.",
        noun="GPU activity",
        count=int((~linked).sum()),
    )
    early = launches["start_ns"].to_numpy()[launch[linked]] - start[linked]
    found.add(
        "info",
        "began before the call that launched it: the clocks of CPU and GPU differ by at least "
        f"{max(int(early.max(initial=0)), 0):,} ns.",
        noun="GPU activity",
        count=int((early > 0).sum()),
    )
    found.add(
        "overlap",
        "began before an earlier one of the same stream had ended; all are shown.",
        noun="GPU activity",
        count=overlapping(
            start,
            kernels["duration_ns"].to_numpy(),
            thread_codes(kernels["device"], kernels["stream"]),
        ),
    )
    return found.notes()
