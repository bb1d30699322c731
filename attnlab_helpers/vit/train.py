"""Train the small model: `python -m attnlab_helpers.vit.train --out PATH`.

Writes the weights to PATH and NOTICE beside it, from the photographs in `photographs.py`, each
with its author and licence; it needs the extra `train`. The weights that ship with the package
are left alone, unless `--replace-shipped` asks for new ones in their place. Meant for a GPU:
minutes there, many hours on a CPU (try it with --steps 20 --out elsewhere/try.pt). On a CPU one
seed gives the same bytes each time, which is tested; GPUs and versions round differently, so
there expect the same numbers for the heads within a few percent, not the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F

from ..machine import provenance
from .colours import SMALL_CONFIG, hide_colours, target
from .images import cat
from .model import ViT
from .photographs import PHOTOGRAPHS, pieces
from .small import WEIGHTS

STEPS = 3_500
BATCH = 256
PEAK_RATE = 1e-3


def loss_on(
    model: ViT, images: torch.Tensor, shown: torch.Tensor, errors: torch.Tensor
) -> torch.Tensor:
    """Mean absolute error of the colours said, in UNIT, smoothed near zero."""
    said = model(hide_colours(images, shown, errors, model.config.patch), ~shown)
    return F.smooth_l1_loss(said.float(), target(images, model.config.patch), beta=0.1)


def puzzle(
    batch: int, patches: int, generator: torch.Generator, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Which patches show a colour (batch, patches), and how wrong it is (batch, patches, 2).

    Between one patch and all of them, few more often than many; errors up to a deviation that
    differs from picture to picture. Drawn from `generator`, which lives on the CPU.
    """
    fraction = torch.rand(batch, 1, generator=generator).square()
    order = torch.rand(batch, patches, generator=generator)
    deviation = 0.1 * torch.rand(batch, 1, 1, generator=generator)
    errors = deviation * torch.randn(batch, patches, 2, generator=generator)
    count = (fraction * patches).ceil().clamp(min=1).to(device)
    rank = order.to(device).argsort(dim=1).argsort(dim=1)
    return rank < count, errors.to(device)


def rate(step: int, steps: int) -> float:
    """The learning rate: rising over the first twentieth, then falling along a cosine to zero."""
    warm = max(1, steps // 20)
    if step < warm:
        return PEAK_RATE * (step + 1) / warm
    return PEAK_RATE * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


def train(
    steps: int = STEPS,
    batch: int = BATCH,
    seed: int = 0,
    device: str = "cpu",
    report: Callable[[str], None] = print,
) -> tuple[ViT, list[float]]:
    """The trained model (on the CPU, float32) and the loss of every step."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    model = ViT(SMALL_CONFIG, attention=_fused).to(device)
    photographs = [photograph.pixels().to(device) for photograph in PHOTOGRAPHS]
    decayed = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}],
        betas=(0.9, 0.98),
        fused=True,
    )
    losses = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, steps)
        images = pieces(photographs, batch, SMALL_CONFIG.image, generator)
        shown, errors = puzzle(batch, SMALL_CONFIG.patches, generator, device)
        with torch.autocast(torch.device(device).type, torch.bfloat16):
            loss = loss_on(model, images, shown, errors)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
        if (step + 1) % 500 == 0 or step + 1 == steps:
            report(f"step {step + 1:6,} of {steps:,}: loss {torch.stack(losses[-200:]).mean():.4f}")
    return model.cpu().float().eval(), torch.stack(losses).tolist()


def held_out_loss(model: ViT) -> float:
    """The loss on the cat, the mean over 64 puzzles that are always the same."""
    shown, errors = puzzle(64, SMALL_CONFIG.patches, torch.Generator().manual_seed(1))
    images = cat()[None].expand(64, -1, -1, -1)
    with torch.no_grad():
        return float(loss_on(model, images, shown, errors))


def _fused(q, k, v, *, causal=False, scale=None, mask=None) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, scale=scale)


def _save(model: ViT, path: Path) -> str:
    state = {name: values.half().contiguous() for name, values in model.state_dict().items()}
    # Through memory, because torch.save writes the name of the file into the file.
    held = io.BytesIO()
    torch.save(state, held)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(held.getvalue())
    return hashlib.sha256(held.getvalue()).hexdigest()


OURS = "holds the weights of attnlab's small vision transformer"
NOTICE = """{name} holds the weights of attnlab's small vision transformer, in half precision.
The command below made it from photographs that ship inside Python packages. No photograph is in
this folder. The cat (skimage/data/chelsea.png) was held out.

    {command}

{facts}

Learned from:
{rights}
CC0: creativecommons.org/publicdomain/zero/1.0; CC BY 2.0: creativecommons.org/licenses/by/2.0
"""


def notice(facts: list[str], command: str, name: str = Path(WEIGHTS).name) -> str:
    """The text beside the weights: how they were made, and whose photographs they learned from.

    facts: a line each; command: what made them; name: of the file of weights.
    """
    rights = [f"- {p.package}/{p.path}: {p.title}. {p.rights}." for p in PHOTOGRAPHS]
    return NOTICE.format(
        name=name, command=command, facts="\n".join(facts), rights="\n".join(rights)
    )


def where_to(out: Path | None, replace_shipped: bool) -> Path:
    """The file to write; ValueError, before anything is computed, where none may be written."""
    shipped = Path(__file__).parent / WEIGHTS
    if replace_shipped and out is None:
        return shipped
    both = (
        "--out PATH writes the weights there and a NOTICE beside them; --replace-shipped writes "
        "over the weights that ship with the package"
    )
    if out is None or replace_shipped:
        raise ValueError(f"say where the weights shall go, in one of two ways: {both}.")
    out = out.expanduser()
    if out.is_dir():
        raise ValueError(f"{out} is a folder: --out takes the name of a file, such as model.pt.")
    if out.resolve().parent == shipped.resolve().parent:
        raise ValueError(f"{out} lies beside the weights that ship with the package: {both}.")
    beside = out.with_name("NOTICE")
    if beside.exists() and OURS not in beside.read_text(encoding="utf-8", errors="replace"):
        raise ValueError(
            f"{beside} is not ours and would be written over: choose another folder for --out."
        )
    return out


def command_of(asked: argparse.Namespace) -> str:
    """The command line that says what was asked for, without the folder of --out."""
    words = ["python -m attnlab_helpers.vit.train"]
    for name, usual in (("steps", STEPS), ("batch", BATCH), ("seed", 0)):
        if getattr(asked, name) != usual:
            words.append(f"--{name} {getattr(asked, name)}")
    return " ".join([*words, f"--out {asked.out.name}" if asked.out else "--replace-shipped"])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train the small vision transformer.")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, help="the file to write; NOTICE goes beside it")
    parser.add_argument(
        "--replace-shipped", action="store_true", help="write over the package's own weights"
    )
    asked = parser.parse_args(arguments)
    try:
        path = where_to(asked.out, asked.replace_shipped)
    except ValueError as problem:
        parser.error(str(problem))
    # The same bytes again on the same machine: these two are this program's, not a notebook's.
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    begin = time.perf_counter()
    model, losses = train(asked.steps, asked.batch, asked.seed, asked.device)
    seconds = time.perf_counter() - begin
    digest = _save(model, path)
    end = losses[-200:]
    facts = [
        f"steps {asked.steps}, batch {asked.batch}, seed {asked.seed}: {seconds:.0f} s, "
        f"{provenance(asked.device)}",
        f"loss at the end (mean of the last {len(end)} steps): {sum(end) / len(end):.4f}",
        f"loss on the cat, held out: {held_out_loss(model):.4f}",
        f"SHA-256 of {path.name}: {digest}",
    ]
    text = notice(facts, command_of(asked), path.name)
    path.with_name("NOTICE").write_text(text, encoding="utf-8")
    print("\n".join(facts))


if __name__ == "__main__":
    main()
