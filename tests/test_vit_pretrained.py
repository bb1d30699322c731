"""Weights with timm's names: mapped, checked, read from files; a clear word when there are none."""

import builtins
import sys
import types

import pytest
import torch
import torch.nn.functional as F

from attnlab_helpers.vit import (
    NoPretrainedWeights,
    ViTConfig,
    from_timm,
    load_pretrained,
    normalise,
)

CONFIG = ViTConfig(image=32, patch=8, width=24, depth=3, heads=2, outputs=7)


def checkpoint(config: ViTConfig = CONFIG, seed: int = 0) -> dict[str, torch.Tensor]:
    """A state dict with timm's names and random numbers."""
    width, hidden = config.width, config.hidden
    shapes = {
        "cls_token": (1, 1, width),
        "pos_embed": (1, config.tokens, width),
        "patch_embed.proj.weight": (width, 3, config.patch, config.patch),
        "patch_embed.proj.bias": (width,),
    }
    for block in range(config.depth):
        for name, shape in {
            "norm1.weight": (width,),
            "norm1.bias": (width,),
            "attn.qkv.weight": (3 * width, width),
            "attn.qkv.bias": (3 * width,),
            "attn.proj.weight": (width, width),
            "attn.proj.bias": (width,),
            "norm2.weight": (width,),
            "norm2.bias": (width,),
            "mlp.fc1.weight": (hidden, width),
            "mlp.fc1.bias": (hidden,),
            "mlp.fc2.weight": (width, hidden),
            "mlp.fc2.bias": (width,),
        }.items():
            shapes[f"blocks.{block}.{name}"] = shape
    shapes |= {"norm.weight": (width,), "norm.bias": (width,)}
    shapes |= {"head.weight": (config.outputs, width), "head.bias": (config.outputs,)}
    generator = torch.Generator().manual_seed(seed)
    return {
        name: 0.3 * torch.randn(shape, generator=generator) + (0.5 if "norm" in name else 0)
        for name, shape in shapes.items()
    }


def by_hand(state: dict[str, torch.Tensor], images: torch.Tensor, heads: int) -> torch.Tensor:
    """timm's ViT in functions: a convolution, then blocks; queries before keys before values."""
    x = F.conv2d(images, state["patch_embed.proj.weight"], state["patch_embed.proj.bias"], stride=8)
    x = x.flatten(2).transpose(1, 2)
    x = torch.cat([state["cls_token"].expand(len(x), -1, -1), x], dim=1) + state["pos_embed"]
    width = x.shape[-1]

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.layer_norm(x, (width,), state[f"{name}.weight"], state[f"{name}.bias"], 1e-6)

    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])

    for block in range(CONFIG.depth):
        name = f"blocks.{block}"
        qkv = linear(norm(x, f"{name}.norm1"), f"{name}.attn.qkv")
        parts = [part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in qkv.chunk(3, dim=-1)]
        mixed = F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2)
        x = x + linear(mixed, f"{name}.attn.proj")
        inner = F.gelu(linear(norm(x, f"{name}.norm2"), f"{name}.mlp.fc1"))
        x = x + linear(inner, f"{name}.mlp.fc2")
    return linear(norm(x, "norm")[:, 0], "head")


def test_the_mapped_model_computes_what_timms_names_say():
    state = checkpoint()
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    model = from_timm(state, CONFIG)
    with torch.no_grad():
        assert torch.allclose(model(images), by_hand(state, images, CONFIG.heads), atol=2e-5)
    assert not model.training and next(model.parameters()).requires_grad
    # A copy: the reader's tensors stay theirs.
    state["head.bias"].zero_()
    assert model.head.bias.abs().sum() > 0


def test_against_timm_itself():
    try:
        import timm
    except Exception as problem:  # not installed, or its torchvision fits another torch
        pytest.skip(f"timm does not load here: {problem}")
    torch.manual_seed(0)
    theirs = timm.create_model("vit_tiny_patch16_224", pretrained=False, num_classes=9).eval()
    ours = from_timm(theirs.state_dict(), ViTConfig(width=192, heads=3, outputs=9))
    images = torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        assert torch.allclose(ours(images), theirs(images), atol=1e-4)


@pytest.mark.parametrize("wrap", [None, "state_dict", "model"])
def test_from_a_file_of_torch(tmp_path, wrap):
    path = tmp_path / "vit.pt"
    torch.save({wrap: checkpoint(), "epoch": 3} if wrap else checkpoint(), path)
    model = load_pretrained(path, config=CONFIG)
    assert torch.equal(model.class_token, checkpoint()["cls_token"])


def test_from_a_safetensors_file(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    path = tmp_path / "vit.safetensors"
    safetensors.save_file(checkpoint(), path)
    assert torch.equal(load_pretrained(path, config=CONFIG).head.bias, checkpoint()["head.bias"])


def test_half_precision_weights_are_widened():
    state = {name: values.half() for name, values in checkpoint().items()}
    assert from_timm(state, CONFIG).head.weight.dtype == torch.float32


def test_weights_of_another_model_are_refused_with_the_reasons():
    state = checkpoint()
    del state["cls_token"]
    state["head.weight"] = torch.zeros(3, 24)
    state["fc_norm.weight"] = torch.zeros(24)
    with pytest.raises(ValueError) as caught:
        from_timm(state, CONFIG)
    for part in ("cls_token is missing", "head.weight has shape (3, 24), not (7, 24)", "fc_norm"):
        assert part in str(caught.value)
    with pytest.raises(ValueError, match=r"and [0-9]+ more"):
        from_timm(checkpoint())
    with pytest.raises(ValueError, match="positions='learned'"):
        from_timm(checkpoint(), ViTConfig(**{**vars(CONFIG), "positions": "sine"}))


class Evil:
    """Runs code when a careless reader unpickles it."""

    def __reduce__(self):
        return (print, ("this must not run",))


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", Evil(), [1, 2], {"lr": 3}, {}])
def test_files_that_are_no_checkpoint(tmp_path, capsys, content):
    path = tmp_path / "vit.pt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    with pytest.raises(ValueError, match=r"vit\.pt (is no checkpoint|holds no state dict)"):
        load_pretrained(path)
    assert "must not run" not in capsys.readouterr().out


def test_a_missing_file():
    with pytest.raises(FileNotFoundError, match=r"there is no file nowhere\.pt"):
        load_pretrained("nowhere.pt")


def test_the_home_folder_may_be_written_short(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    torch.save(checkpoint(), tmp_path / "vit.pt")
    assert load_pretrained("~/vit.pt", config=CONFIG).head.bias.shape == (7,)


def test_without_timm_the_text_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def missing(name, *rest, **options):
        if name == "timm":
            raise ModuleNotFoundError("No module named 'timm'", name="timm")
        return real(name, *rest, **options)

    monkeypatch.delitem(sys.modules, "timm", raising=False)
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(NoPretrainedWeights, match=r'pip install "attnlab\[timm\]".*small_vit'):
        load_pretrained()


def fake_timm(monkeypatch, create_model) -> None:
    module = types.ModuleType("timm")
    module.create_model = create_model
    monkeypatch.setitem(sys.modules, "timm", module)


def test_offline_the_text_says_so(monkeypatch):
    def offline(name, pretrained):
        raise OSError("Max retries exceeded\nwith a long story")

    fake_timm(monkeypatch, offline)
    with pytest.raises(NoPretrainedWeights, match=r"\(Max retries exceeded\).*internet connection"):
        load_pretrained()


def test_what_timm_gives_is_used(monkeypatch):
    asked = []

    def create_model(name, pretrained):
        asked.append((name, pretrained))
        return types.SimpleNamespace(state_dict=checkpoint)

    fake_timm(monkeypatch, create_model)
    model = load_pretrained(name="vit_of_a_reader", config=CONFIG)
    assert asked == [("vit_of_a_reader", True)]
    assert torch.equal(model.positions, checkpoint()["pos_embed"])


def test_normalise():
    assert normalise(torch.tensor([0.0, 0.5, 1.0])).tolist() == [-1.0, 0.0, 1.0]
