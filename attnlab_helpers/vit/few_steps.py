"""A few training steps of a small vision transformer, with any attention: loss, time, memory.

Made for comparing attentions: the same start, the same pictures, one row a step. `train` is the
whole training, with the same task and the same loss.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from ..triton_support import prefer_interpreter
from .colours import SMALL_CONFIG
from .model import ViT, ViTConfig
from .multihead import Attention
from .photographs import PHOTOGRAPHS, pieces
from .train import loss_on, puzzle

RATE = 1e-3


def few_steps(
    attention: Attention,
    *,
    steps: int,
    batch: int,
    config: ViTConfig = SMALL_CONFIG,
    half: bool = False,
    seed: int = 0,
    device: str = "cpu",
) -> list[dict[str, Any]]:
    """Train from `seed` with AdamW; one row a step.

    attention: as in `ViT`. config: a model that guesses colours of patches, as SMALL_CONFIG
    does. half: bfloat16 where autocast allows it, else float32. A row holds step (from 1), loss
    (before the step's update), time_ns (forward, backward and update, waited for; the pictures
    are cut before) and peak_bytes (held at most during the step, above what the model and its
    optimizer hold; None on a CPU). One seed gives the same start and pictures for every attention
    and device. The first step also compiles, and makes the optimizer's tensors. It needs the
    photographs in scikit-image's wheel, and raises ValueError where they are others.
    """
    if steps < 1 or batch < 1:
        raise ValueError(f"steps={steps} and batch={batch} must be at least 1.")
    prefer_interpreter()  # before the optimizer imports Triton
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ViT(config, attention=attention).to(device)
    # Only those that ship with what the package needs anyway: the same ones on every machine.
    photographs = [one.pixels().to(device) for one in PHOTOGRAPHS if one.package == "skimage"]
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98))
    on_gpu = torch.device(device).type == "cuda"
    rows = []
    for step in range(1, steps + 1):
        images = pieces(photographs, batch, config.image, generator)
        shown, errors = puzzle(batch, config.patches, generator, device)
        optimizer.zero_grad()  # before the baseline is read: gradients are part of a step
        before = _start(on_gpu)
        begin = time.perf_counter_ns()
        with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=half):
            loss = loss_on(model, images, shown, errors)
        loss.backward()
        optimizer.step()
        if on_gpu:
            torch.cuda.synchronize()
        took = time.perf_counter_ns() - begin
        peak = torch.cuda.max_memory_allocated() - before if on_gpu else None
        rows.append(
            {"step": step, "loss": loss.item(), "time_ns": took, "peak_bytes": peak},
        )
    return rows


def _start(on_gpu: bool) -> int:
    """Wait for the GPU and forget its peak; bytes that are held now."""
    if not on_gpu:
        return 0
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()
