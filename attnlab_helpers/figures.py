"""Command `python -m attnlab_helpers.figures`: README's pictures, from recordings or computed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .problem import PROFILING_POST
from .recordings import NoRecording
from .study import compare, run

# A figure is drawn in a checkout, which has the benchmark's table.
BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "results" / "attention_speed.csv"


def the_copy_is_gone() -> Any:
    """Causal attention with masked_fill and with masked_fill_, one timeline under the other."""
    return compare(
        run("naive", PROFILING_POST, source="recorded", label="naive: masked_fill"),
        run("in_place", PROFILING_POST, source="recorded", label="in place: masked_fill_"),
    ).timeline()


def one_block_of_queries() -> Any:
    """FlashAttention's walk over the photograph of the notebooks: six telling moments."""
    from .plots import tile_walk
    from .vit import cat, queries_keys_values, small_vit

    picture = cat()
    q, k, v = queries_keys_values(small_vit(), picture, layer=2)
    return tile_walk(q[1], k[1], v[1], image=picture, causal="both")


def the_machine() -> Any:
    """Threads, warps, blocks and grid beside what runs them, for the card of the recordings."""
    from .gpus import find
    from .plots import hardware

    return hardware(find("H200"))


def speed_over_length() -> Any:
    """TFLOP/s of attention's forward passes over the length, as the benchmark measured them."""
    import pandas as pd

    from .machine import Provenance
    from .plots import curves

    rows = pd.read_csv(BENCHMARK).query(
        "direction == 'forward' and head_dim == 128 and causal and 1024 <= length <= 8192"
    )
    table = rows.pivot(index="length", columns="contestant", values="tflops")
    shown = table[["naive", "sdpa_efficient", "sdpa_flash", "sdpa_cudnn", "flash_triton"]]
    about = rows.iloc[0]
    return curves(
        list(shown.index),
        {name: list(shown[name]) for name in shown},
        title="Causal attention, bfloat16, head dim 128, 32,768 tokens a call",
        x_label="tokens a text",
        y_label="TFLOP/s",
        unit="",
        log_y=False,
        provenance=Provenance("recorded", about.gpu, about.date, {"torch": about.torch}),
    )


# File name -> what draws it. The name says what the picture shows.
FIGURES: dict[str, Callable[[], Any]] = {
    "timeline_masked_fill_against_masked_fill_in_place": the_copy_is_gone,
    "tile_walk_of_one_block_of_queries": one_block_of_queries,
    "threads_blocks_and_memories_of_an_h200": the_machine,
    "speed_of_attention_kernels_over_the_length": speed_over_length,
}


def main(arguments: list[str] | None = None) -> int:
    """Draw every figure into the folder; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m attnlab_helpers.figures")
    parser.add_argument("--folder", type=Path, default=Path("figures"), help="default: figures")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        try:
            picture = draw()
        except NoRecording as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
        for ending in (".png", ".svg"):
            path = picture.save(options.folder / f"{name}{ending}")
            print(f"{path} {path.stat().st_size / 1000:.0f} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
