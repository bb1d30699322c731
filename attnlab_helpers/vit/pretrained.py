"""Real pretrained weights for our ViT-B/16: timm's names for them, mapped to ours.

timm (https://github.com/huggingface/pytorch-image-models) is an optional extra and downloads
the weights, about 350 MB, the first time. `from_timm` needs neither: it takes any state dict
with timm's names, from a file of the reader's own, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from .model import VIT_B16_CONFIG, ViT, ViTConfig
from .multihead import Attention

TIMM_NAME = "vit_base_patch16_224.augreg2_in21k_ft_in1k"
# timm's name -> ours, for what there is once, and for what there is in every block.
ONCE = {
    "cls_token": "class_token",
    "pos_embed": "positions",
    "patch_embed.proj.weight": "embedding.projection.weight",
    "patch_embed.proj.bias": "embedding.projection.bias",
    "norm.weight": "norm.weight",
    "norm.bias": "norm.bias",
    "head.weight": "head.weight",
    "head.bias": "head.bias",
}
IN_BLOCK = {
    "norm1": "norm_attention",
    "attn.qkv": "attention.qkv",
    "attn.proj": "attention.output",
    "norm2": "norm_mlp",
    "mlp.fc1": "mlp.widen",
    "mlp.fc2": "mlp.narrow",
}


class NoPretrainedWeights(RuntimeError):
    """Pretrained weights cannot be had here; the text says why and what to do instead."""


def load_pretrained(
    checkpoint: str | Path | None = None,
    *,
    name: str = TIMM_NAME,
    config: ViTConfig = VIT_B16_CONFIG,
    attention: Attention = "naive",
) -> ViT:
    """ViT-B/16 as others trained it, ready to be looked at.

    checkpoint: a file with timm's state dict (.safetensors, or .pt/.pth/.bin as torch.save wrote
    it), or None to let timm download `name`. It expects pictures with values 0 to 1 that have
    gone through `normalise`.

    Raises NoPretrainedWeights without timm or without a connection, FileNotFoundError, and
    ValueError for weights of another model.
    """
    state = _download(name) if checkpoint is None else read_checkpoint(checkpoint)
    return from_timm(state, config, attention=attention)


def from_timm(
    state: Mapping[str, torch.Tensor],
    config: ViTConfig = VIT_B16_CONFIG,
    *,
    attention: Attention = "naive",
) -> ViT:
    """Our model with the numbers of a state dict that uses timm's names.

    Every name must be known, present, and of the shape that `config` says; ValueError lists
    what is not.
    """
    # Built without memory for its own numbers: all of them come from the state dict.
    with torch.device("meta"):
        model = ViT(config, attention=attention)
    shapes = {name: tuple(values.shape) for name, values in model.state_dict().items()}
    names = {theirs: ours for theirs, ours in _names(config.depth).items() if ours in shapes}
    extra = sorted(set(shapes) - set(names.values()))
    if extra or config.positions != "learned":
        raise ValueError(
            "timm's ViTs have learned positions and no mark: use a config with "
            "positions='learned' and marks=False."
        )
    ours, wrong = {}, []
    for theirs, values in state.items():
        name = names.get(theirs)
        if name is None:
            wrong.append(f"{theirs} is unknown")
            continue
        if theirs == "patch_embed.proj.weight":
            # A convolution's kernel (D, channels, y, x) is our matrix, row by row.
            values = values.flatten(1)
        if tuple(values.shape) != shapes[name]:
            wrong.append(f"{theirs} has shape {tuple(values.shape)}, not {shapes[name]}")
        ours[name] = values.detach().to("cpu", torch.float32).clone()
    wrong += [f"{theirs} is missing" for theirs in names if theirs not in state]
    if wrong:
        shown = "; ".join(wrong[:5]) + (f"; and {len(wrong) - 5} more" if len(wrong) > 5 else "")
        raise ValueError(
            f"these are not the weights of a ViT with {config.depth} blocks of width "
            f"{config.width} on {config.image} x {config.image} pixels: {shown}. Pass the config "
            "that fits, or other weights."
        )
    model.load_state_dict(ours, assign=True)
    return model.eval()


def normalise(images: torch.Tensor) -> torch.Tensor:
    """Pictures (..., 3, H, W) with values 0 to 1 as this model was trained on them: -1 to 1."""
    return (images - 0.5) / 0.5


def read_checkpoint(path: str | Path) -> dict[str, torch.Tensor]:
    """The tensors in a checkpoint file; no code in the file is run.

    .safetensors needs the package safetensors. A file with more in it than one state dict is
    looked into for "state_dict" or "model". ValueError for anything else.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}. Relative paths start at {Path.cwd()}.")
    if path.suffix == ".safetensors":
        try:
            from safetensors.torch import load_file
        except ModuleNotFoundError:
            raise NoPretrainedWeights(
                f"reading {path.name} needs safetensors: pip install safetensors"
            ) from None
        return load_file(path)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as problem:  # torch raises what pickle, zip or its own checks raise
        raise ValueError(
            f"{path.name} is no checkpoint that can be read without running code from it: "
            f"{str(problem).splitlines()[0] if str(problem) else type(problem).__name__}"
        ) from None
    for key in ("state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    tensors = isinstance(state, dict) and all(isinstance(v, torch.Tensor) for v in state.values())
    if not tensors or not state:
        raise ValueError(f"{path.name} holds no state dict: a dictionary of names and tensors.")
    return dict(state)


def _names(depth: int) -> dict[str, str]:
    names = dict(ONCE)
    for block in range(depth):
        for theirs, ours in IN_BLOCK.items():
            for kind in ("weight", "bias"):
                names[f"blocks.{block}.{theirs}.{kind}"] = f"blocks.{block}.{ours}.{kind}"
    return names


def _download(name: str) -> dict[str, torch.Tensor]:
    instead = (
        "Everything else here works without it: small_vit() ships with the package. Or fetch a "
        "checkpoint elsewhere and pass its path: load_pretrained('vit_b16.safetensors')."
    )
    try:
        import timm
    except ModuleNotFoundError as problem:
        if problem.name != "timm":
            raise NoPretrainedWeights(
                f"timm is here, but {problem.name} is not. {instead}"
            ) from None
        raise NoPretrainedWeights(
            "pretrained weights come through timm, which is not installed: "
            f'pip install "attnlab[timm]". {instead}'
        ) from None
    except Exception as problem:
        raise NoPretrainedWeights(
            f"timm is installed but does not load ({problem}); often torchvision was built for "
            f"another torch: install the two together. {instead}"
        ) from problem
    try:
        return timm.create_model(name, pretrained=True).state_dict()
    except Exception as problem:  # whatever the hub's client raises without a connection
        first = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise NoPretrainedWeights(
            f"timm could not get {name!r} ({first}). It is downloaded once and needs an internet "
            f"connection. {instead}"
        ) from problem
