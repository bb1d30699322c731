"""Run an implementation on a problem, and keep everything that can be seen of it.

`run` measures live where there is a GPU and replays a recording where there is none; `measure`
does the same for an experiment that returns a table of numbers; `compare` puts runs side by side.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Literal

import pandas as pd
import torch

from . import recordings
from .attention import IMPLEMENTATIONS, Implementation
from .comparison import Comparison, compare
from .fingerprint import fingerprint, functions_used, own_fingerprint
from .kernels.interpreted import noticing_interpreted_kernels
from .machine import Provenance, provenance
from .measuring import measure_live
from .problem import Problem
from .profiling import TimeStats, parse_trace
from .quiet import OneSentence
from .recordings import NoRecording, Recording
from .result import Measurement, Run
from .triton_support import prefer_interpreter

__all__ = [
    "Comparison",
    "Measurement",
    "NoGpu",
    "NotEnoughMemory",
    "Run",
    "compare",
    "measure",
    "run",
]

Source = Literal["auto", "live", "recorded"]
Attention = str | Implementation | Callable[..., Any]


class NotEnoughMemory(OneSentence, RuntimeError):
    """A problem did not fit into the GPU's memory. What it had taken is free again."""


class NoGpu(OneSentence, RuntimeError):
    """A live GPU measurement was asked for on a machine without a GPU."""


def run(
    implementation: Attention,
    problem: Problem,
    *,
    label: str | None = None,
    source: Source = "auto",
    device: str | torch.device | None = None,
    direction: Literal["forward", "training"] = "forward",
    seed: int = 0,
    gpu: str | None = None,
) -> Run:
    """Run, profile, time and weigh `implementation` on `problem`.

    implementation: a name from `attention.IMPLEMENTATIONS` or any callable of yours. On an
    AttentionProblem it is called as f(q, k, v, causal=..., scale=...), on a TensorProblem with
    one tensor a shape. problem: AttentionProblem, TensorProblem or anything with their members.
    source: "auto" measures live on a GPU (or on `device`, "cuda" or "cpu") and replays a
    recording without one; "live" and "recorded" insist. direction: "forward" runs without
    gradients; "training" adds the backward pass. seed: of the inputs. gpu: which recorded GPU
    to prefer, by a part of its name.

    Raises NoRecording (with the list of what was recorded), NoGpu, NotEnoughMemory, TypeError
    or ValueError for arguments that fit nothing, and what the implementation raises for a
    problem that it cannot compute.
    """
    name, function = _resolve(implementation)
    for member in ("key", "label", "tensors", "bind"):
        if not hasattr(problem, member):
            raise TypeError(
                f"problem must be an AttentionProblem or a TensorProblem, not {problem!r}."
            )
    if _replays(source, device):
        found = recordings.find(
            name, problem.key, direction, fingerprints=_known_marks(function), gpu=gpu
        )
        if found.seed != seed:
            raise NoRecording(
                f"{name} was recorded with seed {found.seed}, not {seed}. Leave `seed` out, or "
                "run it live (device='cpu' needs no GPU)."
            )
        return _replay(found, label or name.removeprefix("function "))
    device = _device(device)
    prefer_interpreter()
    with noticing_interpreted_kernels() as interpreted:
        live, failure = measure_live(function, problem, device, direction, seed)
    if live is None:
        where = "this machine"
        if device.startswith("cuda"):
            torch.cuda.empty_cache()
            where = torch.cuda.get_device_name(device)
        raise NotEnoughMemory(
            f"{problem.label} does not fit into the memory of {where} with {name}: {failure} "
            "What it had taken is free again. Try a smaller problem."
        )
    result = Run(
        name=name,
        label=label or name.removeprefix("function "),
        problem=problem.label,
        direction=direction,
        provenance=_provenance(device, interpreted()),
        **live | ({"time": None} if interpreted() else {}),
    )
    folder = recordings.recording_folder()
    if folder is not None and device.startswith("cuda"):
        recordings.save(_as_recording(result, problem, _mark(function), seed), folder)
    return result


def measure(
    experiment: Callable[..., list[dict[str, Any]]],
    *,
    source: Source = "auto",
    gpu: str | None = None,
    **settings: Any,
) -> Measurement:
    """Run an experiment of your own on the GPU, or replay what it gave on a recorded one.

    experiment: a function that takes `settings` and returns rows (dictionaries of plain
    values); it may assume a GPU. Raises NoRecording and NoGpu like `run`.
    """
    name = f"function {experiment.__name__}"
    key = "-".join(f"{word}-{value}" for word, value in sorted(settings.items())) or "default"
    if _replays(source, None):
        found = recordings.find(
            name, key, "measurement", fingerprints=_known_marks(experiment), gpu=gpu
        )
        rows = found.numbers["rows"]
        return Measurement(experiment.__name__, pd.DataFrame(rows), found.provenance.as_recorded())
    device = _device(None)
    with noticing_interpreted_kernels() as interpreted:
        rows = experiment(**settings)
    source_of_rows = _provenance(device, interpreted())
    result = Measurement(experiment.__name__, pd.DataFrame(rows), source_of_rows)
    folder = recordings.recording_folder()
    if folder is not None:
        recording = Recording(
            name, key, "measurement", key, _mark(experiment), 0, result.provenance, {"rows": rows}
        )
        recordings.save(recording, folder)
    return result


def resolve_source(source: Source) -> Literal["live", "recorded"]:
    """What "auto" means here: live where there is a GPU, unless ATTNLAB_SOURCE says otherwise.

    ATTNLAB_SOURCE=recorded replays on a GPU machine too: notebooks are built that way.
    ValueError for anything that is neither.
    """
    if source not in ("auto", "live", "recorded"):
        raise ValueError(f"source={source!r} is not one of 'auto', 'live', 'recorded'.")
    if source != "auto":
        return source
    found = "live" if torch.cuda.is_available() else "recorded"
    asked = os.environ.get("ATTNLAB_SOURCE", found)
    if asked not in ("live", "recorded"):
        raise ValueError(f"ATTNLAB_SOURCE={asked!r} is not one of 'live', 'recorded'.")
    return asked


def _replays(source: Source, device: object) -> bool:
    if source == "recorded" and device is not None:
        raise ValueError(
            "source='recorded' replays what a recorded GPU did; leave `device` out (gpu='H200' "
            "chooses among recorded ones), or take source='live'."
        )
    if source == "auto" and device is not None:  # a device that is named is measured on
        return False
    return resolve_source(source) == "recorded"


def _provenance(device: str, interpreted: bool) -> Provenance:
    if not interpreted:
        return provenance(device)
    from .kernels.precision import provenance as of_kernels  # triton is imported by now

    return of_kernels(device)


def _device(device: str | torch.device | None) -> str:
    try:
        chosen = torch.device("cuda" if device is None else device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device={device!r} is not one of 'cuda', 'cuda:1', 'cpu'.") from error
    if chosen.type not in ("cuda", "cpu"):
        raise ValueError(f"device={device!r}: runs are measured on 'cuda' or 'cpu' only.")
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise NoGpu(
            "there is no CUDA GPU here to measure on. Use source='recorded' to see what was "
            "recorded, or device='cpu' to run a small problem on the CPU."
        )
    return str(chosen)


def _resolve(implementation: Attention) -> tuple[str, Callable[..., Any]]:
    if isinstance(implementation, str):
        if implementation not in IMPLEMENTATIONS:
            known = ", ".join(IMPLEMENTATIONS)
            raise ValueError(f"no implementation is called {implementation!r}. There are: {known}.")
        return implementation, IMPLEMENTATIONS[implementation]
    if isinstance(implementation, Implementation):
        return implementation.name, implementation
    if not callable(implementation):
        raise TypeError(f"implementation must be a name or a callable, not {implementation!r}.")
    name = getattr(implementation, "__name__", type(implementation).__name__)
    if hasattr(implementation, "_torchdynamo_orig_callable"):
        name = f"compiled {name}"
    # Apart from our own names: a reader's function may be called naive, too.
    return f"function {name}", implementation


def _mark(function: Callable[..., Any]) -> str:
    return fingerprint(function.compute if isinstance(function, Implementation) else function)


def _known_marks(function: Callable[..., Any]) -> tuple[str, ...]:
    """The marks under which a recording of this code may stand; NoRecording if it has none.

    A function that uses others is known by a mark of them all. One that was recorded by its own
    code alone counts as well, when each function that it uses has a recording of its own code.
    """
    try:
        marks = (_mark(function),)
        if isinstance(function, Implementation):
            return marks
        used = functions_used(function)
        confirmed = used and all(
            recordings.is_recorded(f"function {name}", own_fingerprint(other))
            for name, other in used.items()
        )
        return (*marks, own_fingerprint(function)) if confirmed else marks
    except ValueError as error:
        raise NoRecording(
            f"{error} Without a GPU, device='cpu' runs a small problem live whatever it is."
        ) from error


def _as_recording(result: Run, problem: Problem, mark: str, seed: int) -> Recording:
    numbers = {
        "digest": result.digest,
        "peak_memory": result.peak_memory,
        "time": asdict(result.time) if result.time else None,
    }
    return Recording(
        name=result.name,
        problem=problem.key,
        direction=result.direction,
        label=result.problem,
        fingerprint=mark,
        seed=seed,
        provenance=result.provenance,
        numbers=numbers,
        trace=result.trace.raw,
    )


def _replay(found: Recording, label: str) -> Run:
    if found.trace is None:
        raise NoRecording(f"the recording of {found.name} holds no trace; make it again.")
    seconds = found.numbers["time"]
    return Run(
        name=found.name,
        label=label,
        problem=found.label,
        direction=found.direction,
        output=None,
        digest=found.numbers["digest"],
        trace=parse_trace(found.trace, f"{found.slug}.trace.json.gz"),
        time=TimeStats(**seconds) if seconds else None,
        peak_memory=found.numbers["peak_memory"],
        provenance=found.provenance.as_recorded(),
    )
