"""Measure flash_triton's configurations on this GPU and write the best into its table.

    python benchmarks/tune.py --head-dims 64 128 --out results

For each kernel (two of them compute the forward pass, two dq) and head dim every candidate is
checked against the float64 oracle, launched again for equal bits, and timed on six shapes; the
least geometric mean of the times, of the short shapes and of the long ones apart, makes the
finalists. A card that computes for long lowers its clock, by how much depends on the kernel: so the
finalists are timed again under load, and the best of them wins. All times go to results/tuning.csv;
--write puts the winners into attnlab_helpers/kernels/flash_configurations.json.
"""

from __future__ import annotations

import argparse
import functools
import importlib.resources
import json
import math
import multiprocessing
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from bench import Bench, fault
from candidates import candidates

from attnlab_helpers.kernels import flash_hopper_launch
from attnlab_helpers.kernels.flash_configurations import (
    FILE,
    HOPPER,
    KERNELS,
    Configuration,
    Listed,
    as_row,
)
from attnlab_helpers.kernels.tiles import padded
from attnlab_helpers.machine import provenance
from attnlab_helpers.problem import AttentionProblem

HIDDEN, TOKENS = 2048, 32_768
# Length and causal, for the "short" and the "long" row of the table.
SHAPES = {
    "short": ((1024, True), (1024, False)),
    "long": ((4096, True), (4096, False), (16_384, True), (16_384, False)),
}
REPEATS = 10
FINALISTS, LOAD_MS, LOADED = 3, 150, " under load"


def milliseconds(call: Callable[[], Any]) -> float:
    """Median of REPEATS launches by CUDA events, all queued before the wait."""
    for _ in range(2):
        call()
    pairs = []
    for _ in range(REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        pairs.append((start, end))
    torch.cuda.synchronize()
    times = sorted(start.elapsed_time(end) for start, end in pairs)
    return times[len(times) // 2]


def under_load(call: Callable[[], Any]) -> float:
    """Mean of so many launches in a row that the card's clock has come down to what it can keep."""
    once = milliseconds(call)
    launches = max(3, int(LOAD_MS / once))
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(launches):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / launches


def compile_share(share: list[tuple[Listed, Configuration, int]]) -> None:
    """Fill Triton's cache on disk, in a process of its own."""
    for kernel, configuration, head_dim in share:
        fault(kernel, configuration, head_dim)


def name_of(length: int, causal: bool) -> str:
    """A shape's column."""
    return f"{'causal' if causal else 'full'} {length}"


def time_all(
    rows: list[dict[str, Any]],
    jobs: list[tuple[Listed, Configuration, int]],
    kind: str,
    clock: Callable[[Callable[[], Any]], float],
    suffix: str,
) -> None:
    """Time those jobs on the shapes of one kind, and take the geometric mean, under `suffix`."""
    for head_dim in {job[2] for job in jobs}:
        for length, causal in SHAPES[kind]:
            heads, batch = HIDDEN // head_dim, TOKENS // length
            bench = Bench(AttentionProblem(batch, heads, length, head_dim, causal=causal))
            for row, (kernel, configuration, its_dim) in zip(rows, jobs, strict=True):
                if its_dim == head_dim and row["fault"] is None:
                    call = functools.partial(bench.call, kernel, configuration)
                    row[name_of(length, causal) + suffix] = clock(call)
    for row in rows:
        times = [row.get(name_of(*shape) + suffix, math.nan) for shape in SHAPES[kind]]
        row[kind + suffix] = math.exp(sum(map(math.log, times)) / len(times))


def tune(
    kernels: list[Listed], head_dims: list[int], descriptors: list[bool], workers: int
) -> pd.DataFrame:
    """One row a candidate: its fault, or its time in ms on each shape and their geometric means.

    The best of each kind of shapes are timed once more, under load.
    """
    jobs = [
        (kernel, configuration, head_dim)
        for kernel in kernels
        for head_dim in head_dims
        for configuration in candidates(kernel, head_dim, descriptors)
    ]
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        pool.map(compile_share, [jobs[i::workers] for i in range(workers)], chunksize=1)
    rows = [
        {"kernel": kernel, "head_dim": head_dim, "fault": fault(kernel, configuration, head_dim)}
        | as_row(configuration)
        for kernel, configuration, head_dim in jobs
    ]
    for kind in SHAPES:
        time_all(rows, jobs, kind, milliseconds, "")
        groups: dict[tuple[Listed, int], list[int]] = {}
        for index, (kernel, _, head_dim) in enumerate(jobs):
            if not math.isnan(rows[index][kind]):
                groups.setdefault((kernel, head_dim), []).append(index)
        best = [
            index
            for group in groups.values()
            for index in sorted(group, key=lambda index: rows[index][kind])[:FINALISTS]
        ]
        time_all([rows[i] for i in best], [jobs[i] for i in best], kind, under_load, LOADED)
    return pd.DataFrame(rows)


Rows = dict[str, dict[str, dict[str, dict[str, Any]]]]


def winners(frame: pd.DataFrame) -> Rows:
    """Kernel -> padded head dim -> "short" and "long" -> configuration.

    Those for Hopper only where they are faster than the kernel whose place they take.
    """
    found: Rows = {kernel: {} for kernel in frame.kernel.unique()}
    for kind in SHAPES:
        good = frame.dropna(subset=[kind + LOADED])
        for (kernel, head_dim), part in good.groupby(["kernel", "head_dim"]):
            row = part.loc[part[kind + LOADED].idxmin()]
            plain = {
                name: bool(row[name]) if name in ("overlap", "descriptors") else int(row[name])
                for name in as_row(Configuration(16, 16))
            }
            found[kernel].setdefault(str(padded(int(head_dim))), {})[kind] = plain
        best = good.groupby(["kernel", "head_dim"])[kind + LOADED].min()
        for kernel, head_dim in best.index:
            usual = best.get((HOPPER.get(kernel), head_dim))
            if usual is not None and usual <= best[kernel, head_dim]:
                del found[kernel][str(padded(int(head_dim)))][kind]
    return found


def write(found: Rows, source: str) -> Path:
    """Put the winners into the package's table; rows of other head dims and cards stay."""
    path = Path(str(importlib.resources.files("attnlab_helpers.kernels").joinpath(FILE)))
    table = json.loads(path.read_text(encoding="utf-8"))
    capability = "{}.{}".format(*torch.cuda.get_device_capability())
    card = table.setdefault(capability, {kernel: {} for kernel in KERNELS})
    told = card.setdefault("timed", {})
    for kernel, rows in found.items():
        card[kernel] = card.get(kernel, {}) | rows
        told |= {f"{kernel} {block_d}": source for block_d in rows}
    path.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    return path


def main(arguments: list[str] | None = None) -> int:
    """Tune, print, write; 2 without a GPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--head-dims", type=int, nargs="+", default=[64, 128, 256])
    every = [*KERNELS, *HOPPER]
    parser.add_argument("--kernels", nargs="+", choices=every, default=every)
    parser.add_argument("--without-descriptors", action="store_true", help="try those as well")
    parser.add_argument("--workers", type=int, default=8, help="processes that compile")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--write", action="store_true", help="put the winners into the table")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print("Tuning needs a CUDA GPU.")
        return 2
    capability = torch.cuda.get_device_capability()
    if capability != flash_hopper_launch.CAPABILITY:
        options.kernels = [kernel for kernel in options.kernels if kernel not in HOPPER]
    descriptors = [capability >= (9, 0)]
    if descriptors[0] and options.without_descriptors:
        descriptors.append(False)
    frame = tune(options.kernels, options.head_dims, descriptors, options.workers)
    options.out.mkdir(parents=True, exist_ok=True)
    source = provenance("cuda")
    about = {"gpu": source.device, "date": source.date, **source.versions}
    frame.assign(**about).to_csv(options.out / "tuning.csv", index=False)
    print(frame.sort_values(["kernel", "head_dim", "long"]).to_string(index=False))
    found = winners(frame)
    print(json.dumps(found, indent=1))
    if options.write:
        text = f"{source.device}, {source.date}, triton {source.versions.get('triton', '?')}"
        print(write(found, text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
