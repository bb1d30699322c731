"""Forward and backward speed of flash_triton beside its peers, in one run on one GPU.

    python benchmarks/attention_speed.py --out results

writes results/attention_speed.csv (a row a cell: median, 20th and 80th percentile, FLOP/s, GPU,
versions), a picture for each head dim, direction and masking, and prints the ratios. The setting is
that of the FlashAttention papers: hidden size 2048, a fixed number of tokens a call, causal counted
as half (arXiv 2307.08691, section 4.1). The L2 cache is emptied before every call. Under load a
card goes back and forth between clocks, so the contestants take turns, call by call, and a ratio is
that of the two calls of a round; those that make score matrices take far longer and come after the
others.
"""

from __future__ import annotations

import argparse
import functools
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from peers import NAMES, OURS, QUADRATIC, contestant, drawn_on_gpu

from attnlab_helpers.attention import UnsupportedProblem
from attnlab_helpers.machine import Provenance, provenance
from attnlab_helpers.plots.curves import curves
from attnlab_helpers.problem import AttentionProblem
from attnlab_helpers.profiling import time_in_turn

HIDDEN, TOKENS = 2048, 32_768
VERSIONS = ("python", "torch", "triton", "cuda", "driver", "cudnn")
DIRECTIONS = ("forward", "backward")
CELL_NS = 100_000_000  # how long one contestant is measured in one cell
# flex_attention is compiled for seconds, for each shape and direction anew.
FLEX_LENGTHS = (4096,)
RATIO = ("ours over it", "ours over it, p20", "ours over it, p80")
# Goals of the project: our speed over the peer's, at least.
GOALS = {
    ("forward", "sdpa_flash"): 1.3,
    ("forward", "sdpa_cudnn"): 0.9,
    ("backward", "sdpa_flash"): 1.2,
    ("backward", "sdpa_cudnn"): 0.8,
}


def problems(options: argparse.Namespace) -> Iterator[AttentionProblem]:
    """Every shape that was asked for."""
    for head_dim in options.head_dims:
        for causal in options.causal:
            for length in options.lengths:
                yield AttentionProblem(
                    max(1, TOKENS // length), HIDDEN // head_dim, length, head_dim, causal=causal
                )


def call_to_time(
    function: Callable[..., torch.Tensor],
    tensors: Sequence[torch.Tensor],
    gradient: torch.Tensor,
    direction: str,
) -> Callable[[], Any]:
    """What one sample runs: forward without autograd, or backward alone through a kept graph."""
    if direction == "forward":
        return torch.no_grad()(functools.partial(function, *tensors))
    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
    out = function(*leaves)
    return functools.partial(torch.autograd.grad, out, leaves, gradient, retain_graph=True)


def measure(
    problem: AttentionProblem,
    tensors: Sequence[torch.Tensor],
    gradient: torch.Tensor,
    names: Sequence[str],
    direction: str,
) -> Iterator[dict[str, Any]]:
    """A row for each of these contestants, timed in turn; one that cannot says why in `note`.

    "ours over it": our speed over its speed, the median of all rounds, and its percentiles.
    """
    about = {
        "direction": direction,
        "head_dim": problem.head_dim,
        "causal": bool(problem.causal),
        "length": problem.q_len,
        "batch": problem.batch,
        "heads": problem.heads,
        "dtype": problem.dtype,
    }
    calls: dict[str, Callable[[], Any]] = {}
    for name in names:
        try:
            call = call_to_time(contestant(name, problem), tensors, gradient, direction)
            call()
        except (UnsupportedProblem, torch.OutOfMemoryError) as error:
            yield {"contestant": name} | about | {"note": str(error).splitlines()[0][:120]}
        else:
            calls[name] = call
    if not calls:
        return
    times = time_in_turn(calls, "cuda", target_ns=CELL_NS * len(calls))
    for name in calls:
        time = times.stats(name)
        row = {"contestant": name} | about | time.columns | {"samples": time.samples}
        row["tflops"] = round(problem.flops(direction) / time.median_ns / 1e3, 1)
        if OURS in calls and name != OURS:
            row |= dict(zip(RATIO, times.ratio(name, OURS), strict=True))
        yield row


def ratios(frame: pd.DataFrame) -> pd.DataFrame:
    """TFLOP/s of everyone, a row a cell, and "ours over it" of each peer that has a goal."""
    keys = ["direction", "head_dim", "causal", "length"]
    wide = frame.pivot_table(index=keys, columns="contestant", values="tflops", sort=False)
    for peer in ("sdpa_flash", "sdpa_cudnn"):
        if OURS in wide and peer in wide:
            one = frame[frame.contestant.eq(peer)].set_index(keys)
            wide[f"x {peer}"] = one[RATIO[0]].reindex(wide.index)
    return wide.reset_index()


def judged(table: pd.DataFrame) -> list[tuple[str, float, float]]:
    """Each cell that has a goal, 1k and longer with head dim 64 or 128: (cell, ratio, goal)."""
    found = []
    for (direction, peer), goal in GOALS.items():
        if f"x {peer}" not in table:
            continue
        cells = table[table.direction.eq(direction) & table.head_dim.isin([64, 128])]
        cells = cells[cells.length.ge(1024)].dropna(subset=[f"x {peer}"])
        for _, cell in cells.iterrows():
            masking = "causal" if cell.causal else "full"
            ratio = cell[f"x {peer}"]
            text = f"{direction}, head dim {cell.head_dim}, {masking}, {cell.length}: "
            found.append((f"{text}{ratio:.2f} x {peer}, goal {goal}", ratio, goal))
    return found


def draw(frame: pd.DataFrame, folder: Path, source: Provenance) -> None:
    """One picture for each head dim, direction and masking: TFLOP/s over the length."""
    done = frame.dropna(subset=["tflops"])
    for (head_dim, causal, direction), part in done.groupby(["head_dim", "causal", "direction"]):
        lengths = sorted(part.length.unique())
        series = {
            name: one.sort_values("length").tflops.tolist()
            for name, one in part.groupby("contestant", sort=False)
            if len(one) == len(lengths)  # a curve that ends early has no place for its name
        }
        masking = "causal" if causal else "full"
        picture = curves(
            lengths,
            dict(list(series.items())[:6]),
            title=f"{direction}, head dim {head_dim}, {masking}, {TOKENS // 1024}k tokens",
            x_label="length",
            y_label="TFLOP/s",
            unit="",
            log_y=False,
            provenance=source,
        )
        picture.save(folder / f"{direction}_d{head_dim}_{masking}.png")


def report(frame: pd.DataFrame, source: Provenance) -> None:
    """Print everyone's speed, our ratios, and which goals are missed."""
    table = ratios(frame)
    print(source)
    print(table.round(2).to_string(index=False))
    cells = judged(table)
    missed = [text for text, ratio, goal in cells if ratio < goal]
    if missed:
        print("\n".join(missed))
    print(f"{len(cells) - len(missed)} of {len(cells)} goals in this table are reached.")


def source_of(frame: pd.DataFrame) -> Provenance:
    """Where a table's numbers come from, as its rows say."""
    row = frame.iloc[0]
    versions = {name: str(row[name]) for name in VERSIONS if name in row}
    return Provenance("recorded", row["gpu"], row["date"], versions)


def main(arguments: list[str] | None = None) -> int:
    """Measure, write, print; 2 without a GPU."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--head-dims", type=int, nargs="+", default=[64, 128, 256])
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[512, 1024, 2048, 4096, 8192, 16_384]
    )
    parser.add_argument("--causal", type=int, nargs="+", choices=[0, 1], default=[1, 0])
    parser.add_argument("--contestants", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--directions", nargs="+", choices=DIRECTIONS, default=list(DIRECTIONS))
    parser.add_argument("--table", type=Path, help="draw and compare a table that was measured")
    options = parser.parse_args(arguments)
    if options.table:
        try:
            frame = pd.read_csv(options.table).dropna(subset=["tflops"])
            ratios(frame)
        except (OSError, KeyError, ValueError) as error:
            print(f"{options.table} is no table of this benchmark: {error}")
            return 2
        options.out.mkdir(parents=True, exist_ok=True)
        draw(frame, options.out, source_of(frame))
        report(frame, source_of(frame))
        return 0
    options.causal = [bool(causal) for causal in options.causal]
    if not torch.cuda.is_available():
        print("A benchmark needs a CUDA GPU; times from elsewhere would say nothing.")
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    source = provenance("cuda")
    about = {"gpu": source.device, "date": source.date, **source.versions}
    rows: list[dict[str, Any]] = []
    path = options.out / "attention_speed.csv"
    for problem in problems(options):
        *tensors, gradient = drawn_on_gpu(problem)
        here = [
            name for name in options.contestants if name != "flex" or problem.q_len in FLEX_LENGTHS
        ]
        fused = [name for name in here if name not in QUADRATIC]
        for together in (fused, *([name] for name in here if name in QUADRATIC)):
            for direction in options.directions:
                found = measure(problem, tensors, gradient, together, direction)
                rows += [row | about for row in found]
                gc.collect()
        pd.DataFrame(rows).to_csv(path, index=False)  # what was measured survives an early end
        torch.cuda.empty_cache()
    frame = pd.DataFrame(rows)
    draw(frame, options.out, source)
    report(frame, source)
    return 0


if __name__ == "__main__":
    sys.exit(main())
