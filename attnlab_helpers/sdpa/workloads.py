"""Attention calls of real models, and how long each backend takes for them on this GPU."""

from __future__ import annotations

from typing import Any

import torch

from ..attention import UnsupportedProblem
from ..problem import GPT2_MEDIUM, VIT_B16, AttentionProblem
from ..profiling import capture, peak_memory, time_call
from .backends import BACKENDS, backend_that_ran
from .cell import Cell, prepare

# Heads and head dims: ViT-B/16 from arXiv 2010.11929 (1024 px in patches of 16 are 64 x 64, and
# a class token); Llama 3 8B from arXiv 2407.21783, table 3; Stable Diffusion 1.5's U-Net has 8
# heads of 40, 80 and 160 (arXiv 2112.10752 and its published configuration), at 64 x 64, 32 x 32
# and 16 x 16 positions for a picture of 512 px, and 77 tokens of text.
_LLAMA = {"kv_heads": 8, "dtype": "bfloat16"}
_DIFFUSION = {"dtype": "float16"}
WORKLOADS: dict[str, Cell] = {
    "ViT-B/16, 224 px": Cell(VIT_B16),
    "ViT-B/16, 1024 px": Cell(AttentionProblem(8, 12, 4097, 64)),
    "Llama 3 8B, prefill of 8192": Cell(AttentionProblem(1, 32, 8192, 128, causal=True, **_LLAMA)),
    "Llama 3 8B, decode at 8192": Cell(
        AttentionProblem(16, 32, 1, 128, kv_len=8192, causal="lower_right", **_LLAMA)
    ),
    "Llama 3 8B, padded batch": Cell(
        AttentionProblem(4, 32, 2048, 128, causal=True, **_LLAMA), mask="boolean"
    ),
    "Diffusion, 64 x 64, d 40": Cell(AttentionProblem(4, 8, 4096, 40, **_DIFFUSION)),
    "Diffusion, 16 x 16, d 160": Cell(AttentionProblem(4, 8, 256, 160, **_DIFFUSION)),
    "Diffusion, text, d 40": Cell(AttentionProblem(4, 8, 4096, 40, kv_len=77, **_DIFFUSION)),
    "Long context, 64k": Cell(AttentionProblem(1, 16, 65_536, 128, causal=True)),
    "Float bias, 2048": Cell(AttentionProblem(4, 16, 2048, 64), mask="bias"),
    "GPT-2 medium, training": Cell(GPT2_MEDIUM, direction="training"),
    "Float bias, training": Cell(
        AttentionProblem(4, 16, 2048, 64), mask="bias", direction="training"
    ),
}


def time_backends(name: str, cell: Cell) -> list[dict[str, Any]]:
    """Run one workload with every backend and with `auto` on the GPU; one row each.

    workload, asked, ran (by the kernels), median_ns, p20_ns, p80_ns, peak_memory_bytes, note
    (why there is no time). Memory that a backend could not get is free again afterwards.
    """
    rows = []
    for asked in ("auto", *BACKENDS):
        row: dict[str, Any] = {"workload": name, "asked": asked, "ran": None, "note": ""}
        try:
            row |= _time(cell, asked)
        except UnsupportedProblem as error:
            row["note"] = str(error)
        except torch.OutOfMemoryError:
            row["note"] = "does not fit into the GPU's memory"
        torch.cuda.empty_cache()
        rows.append(row)
    return rows


def _time(cell: Cell, asked: str) -> dict[str, Any]:
    tensors = cell.tensors("cuda")
    gradient = cell.gradient("cuda") if cell.direction == "training" else None
    call = prepare(cell, f"sdpa_{asked}", tensors, gradient)
    ran = backend_that_ran(capture(call, calls=1, warmup=1))
    time = time_call(call, "cuda", warmup=2)
    return {"ran": ran, **time.columns, "peak_memory_bytes": peak_memory(call, "cuda")}
