"""Command `python -m attnlab_helpers.sdpa.record_atlas`: on a GPU, record its dispatch atlas."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections import Counter
from pathlib import Path

import torch

from ..machine import provenance
from .atlas import SHIPPED, build, save
from .backends import priority
from .grid import grid
from .probing import probe_all


def main(arguments: list[str] | None = None) -> int:
    """Probe the grid, the most telling cells first, until the time is up; return the status."""
    parser = argparse.ArgumentParser(prog="python -m attnlab_helpers.sdpa.record_atlas")
    parser.add_argument("--seconds", type=float, default=600, help="stop after (default: 600)")
    parser.add_argument("--cells", type=int, default=None, help="at most so many (default: all)")
    parser.add_argument(
        "--workers", type=int, default=max(1, (os.cpu_count() or 1) // 2 - 1),
        help="processes at once (default: half of the CPU's cores, less one)",
    )  # fmt: skip
    parser.add_argument("--target", type=Path, default=SHIPPED, help="default: the package's own")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print(
            "Recording an atlas needs a CUDA GPU, and torch finds none here. Without one, "
            "sdpa.choose and sdpa.reasons answer from the atlas that was recorded.",
            file=sys.stderr,
        )
        return 1
    start = time.monotonic()
    cells = list(itertools.islice(grid(), options.cells))
    rows = probe_all(cells, seconds=options.seconds, workers=options.workers)
    # The first call settles PyTorch's order; a tiny one, in this process.
    tiny = torch.zeros(1, 1, 8, 8, dtype=torch.float16, device="cuda")
    torch.nn.functional.scaled_dot_product_attention(tiny, tiny, tiny)
    atlas = build(cells, rows, provenance("cuda"), priority())
    path = save(atlas, options.target)
    recorded = atlas.frame["cell"].nunique()
    print(
        f"{recorded:,} of {len(cells):,} cells in {time.monotonic() - start:.0f} s, "
        f"{path.stat().st_size / 1000:.0f} KB: {path.parent.name}/{path.name}"
    )
    print("statuses:", dict(Counter(atlas.frame["status"])))
    print("auto:", dict(Counter(atlas.cells["ran"].fillna("none"))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
