"""Multi-head attention and the vision transformer: equal to PyTorch's, with its properties."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab_helpers.attention import IMPLEMENTATIONS, reference
from attnlab_helpers.vit import (
    SMALL_CONFIG,
    VIT_B16_CONFIG,
    MultiHeadAttention,
    ViT,
    ViTConfig,
    from_patches,
    parameter_table,
    to_patches,
    torch_mask,
)

TINY = ViTConfig(image=32, patch=8, width=24, depth=2, heads=3, outputs=5)


def exact(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    """Equal but for rounding in float64."""
    return torch.allclose(actual, expected, rtol=0, atol=1e-12)


def tiny(**changes) -> ViT:
    torch.manual_seed(0)
    model = ViT(ViTConfig(**{**vars(TINY), **changes})).double().eval()
    with torch.no_grad():  # the usual start is so small that attention would be nearly even
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("width", "heads", "tokens"), [(768, 12, 197), (24, 1, 7), (30, 5, 1)])
def test_it_equals_torchs_module(width, heads, tokens, bias):
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(width, heads, bias=bias, batch_first=True).double()
    if bias:
        nn.init.normal_(theirs.in_proj_bias)
        nn.init.normal_(theirs.out_proj.bias)
    ours = MultiHeadAttention.from_torch(theirs)
    x = torch.randn(2, tokens, width, dtype=torch.float64)
    expected, weights = theirs(x, x, x, average_attn_weights=False)
    assert exact(ours(x), expected)
    output, ours_weights = ours.with_weights(x)
    assert exact(output, expected) and exact(ours_weights, weights)
    assert exact(ours_weights.sum(dim=-1), torch.ones(2, heads, tokens, dtype=torch.float64))


def test_torchs_boolean_mask_means_the_opposite():
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(16, 4, batch_first=True).double()
    ours = MultiHeadAttention.from_torch(theirs)
    x = torch.randn(2, 9, 16, dtype=torch.float64)
    allowed = torch.ones(9, 9, dtype=torch.bool).tril()
    expected, _ = theirs(x, x, x, attn_mask=torch_mask(allowed))
    assert exact(ours(x, mask=allowed), expected)
    assert exact(ours.with_weights(x, mask=allowed)[0], expected)
    # Handed over as it is, the same mask gives something else (and NaN in the last row).
    wrong, _ = theirs(x, x, x, attn_mask=allowed)
    assert not torch.allclose(wrong[:, :-1], expected[:, :-1], atol=1e-3)
    assert torch.equal(torch_mask(torch_mask(allowed)), allowed)
    with pytest.raises(TypeError, match="float mask is added to the scores everywhere"):
        torch_mask(torch.zeros(9, 9))


def test_a_float_mask_is_added_to_the_scores():
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(16, 4, batch_first=True).double()
    ours = MultiHeadAttention.from_torch(theirs)
    x, bias = torch.randn(2, 9, 16).double(), torch.randn(9, 9).double()
    expected, _ = theirs(x, x, x, attn_mask=bias)
    assert exact(ours(x, mask=bias), expected)
    assert exact(ours.with_weights(x, mask=bias)[0], expected)


def layer_and_tokens() -> tuple[MultiHeadAttention, torch.Tensor]:
    torch.manual_seed(0)
    return MultiHeadAttention(16, 4).double(), torch.randn(2, 5, 16, dtype=torch.float64)


@pytest.mark.parametrize(
    "mask",
    [
        torch.ones(5, 5, dtype=torch.int64),
        torch.ones(4, 4, dtype=torch.bool),
        torch.ones(2, 5, dtype=torch.bool),
        torch.ones(7, 1, 5, 5, dtype=torch.bool),
        [[True]],
    ],
)
def test_masks_that_forward_refuses_are_refused_with_weights_too(mask):
    layer, x = layer_and_tokens()
    with pytest.raises((TypeError, ValueError)) as plain:
        layer(x, mask=mask)
    with pytest.raises(type(plain.value)) as opened:
        layer.with_weights(x, mask=mask)
    assert str(opened.value) == str(plain.value)
    with pytest.raises(ValueError, match="does not broadcast"):  # a batch of one is not stretched
        layer.with_weights(x[:1], mask=torch.ones(7, 1, 5, 5, dtype=torch.bool))


@pytest.mark.parametrize("kind", ["boolean", "float"])
def test_a_token_that_may_see_none_gets_zeros_in_both(kind):
    layer, x = layer_and_tokens()
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    mask[3] = False
    if kind == "float":
        mask = torch.zeros(5, 5).double().masked_fill(~mask, float("-inf"))
    output, weights = layer.with_weights(x, mask=mask)
    assert exact(output, layer(x, mask=mask)) and bool(torch.isfinite(output).all())
    assert weights[:, :, 3].abs().max() == 0
    assert exact(weights.sum(dim=-1)[:, :, [0, 1, 2, 4]], torch.ones(2, 4, 4).double())
    output.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters())


def test_a_float_mask_of_zeros_and_ones_is_doubted_in_both():
    layer, x = layer_and_tokens()
    for call in (layer, layer.with_weights):
        with pytest.warns(UserWarning, match="hides nothing"):
            call(x, mask=torch.ones(5, 5).double().tril())


@pytest.mark.parametrize("x", [torch.zeros(5, 16), torch.zeros(2, 5, 8), None])
def test_tokens_of_another_shape_are_refused(x):
    layer, _ = layer_and_tokens()
    for call in (layer, layer.with_weights):
        with pytest.raises(ValueError, match=r"x must be a tensor \(batch, N, 16\)"):
            call(x)


def test_a_mask_to_turn_around_is_a_tensor():
    with pytest.raises(TypeError, match="must be a torch tensor, not list"):
        torch_mask([True])


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"kdim": 8}, "kdim"),
        ({"add_bias_kv": True}, "add_bias_kv"),
        ({"add_zero_attn": True}, "zero"),
    ],
)
def test_what_torchs_module_has_more_is_refused(options, name):
    with pytest.raises(ValueError, match=f"no .*{name}"):
        MultiHeadAttention.from_torch(nn.MultiheadAttention(16, 4, **options))


def fused(q, k, v, *, causal=False, scale=None, mask=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, scale=scale)


@pytest.mark.parametrize("attention", [*IMPLEMENTATIONS, fused, reference])
def test_any_implementation_computes_the_heads(attention):
    torch.manual_seed(0)
    layer = MultiHeadAttention(24, 3).double()
    x = torch.randn(2, 11, 24, dtype=torch.float64)
    expected = layer.with_weights(x)[0]
    layer.attention = attention
    try:
        assert exact(layer(x), expected)
    except ValueError as refusal:  # a GPU's implementation says that it cannot do this here
        assert type(refusal).__name__ == "UnsupportedProblem"


def test_a_wrong_name_or_width_is_an_error_at_once():
    with pytest.raises(ValueError, match=r"no implementation is called 'flash9'.*naive"):
        MultiHeadAttention(24, 3, attention="flash9")
    with pytest.raises(ValueError, match="24 cannot be shared out over 5 heads"):
        MultiHeadAttention(24, 5)


def test_attention_alone_cannot_tell_the_order():
    torch.manual_seed(0)
    layer = MultiHeadAttention(24, 3).double()
    x, order = torch.randn(1, 13, 24, dtype=torch.float64), torch.randperm(13)
    assert exact(layer(x[:, order]), layer(x)[:, order])
    weights = layer.with_weights(x)[1]
    shuffled = layer.with_weights(x[:, order])[1]
    assert exact(shuffled, weights[:, :, order][:, :, :, order])


def shuffle(images: torch.Tensor, order: torch.Tensor, patch: int) -> torch.Tensor:
    side = images.shape[-1]
    return from_patches(to_patches(images, patch)[:, order], side, side, patch)


@pytest.mark.parametrize("positions", ["none", "learned", "sine"])
def test_a_shuffled_picture_is_noticed_only_with_positions(positions):
    model = tiny(positions=positions, readout="patches", class_token=False)
    torch.manual_seed(1)
    images, order = torch.randn(2, 3, 32, 32).double(), torch.randperm(16)
    with torch.no_grad():
        shuffled, straight = model(shuffle(images, order, 8)), model(images)
    assert exact(shuffled, straight[:, order]) == (positions == "none")


def test_without_positions_the_class_token_cannot_tell_either():
    model = tiny(positions="none")
    images, order = torch.randn(2, 3, 32, 32).double(), torch.randperm(16)
    with torch.no_grad():
        assert exact(model(shuffle(images, order, 8)), model(images))
    assert not exact(model(images[:1]), model(images[1:]))


def test_weights_are_given_for_every_layer_and_head():
    model = tiny()
    images = torch.randn(2, 3, 32, 32).double()
    output, weights = model.with_weights(images)
    assert output.shape == (2, 5) and weights.shape == (2, 2, 3, 17, 17)
    assert exact(output, model(images))
    assert exact(weights.sum(dim=-1), torch.ones_like(weights[..., 0]))


def test_marks_and_readouts():
    model = tiny(marks=True, readout="patches", class_token=False)
    images = torch.randn(2, 3, 32, 32).double()
    nothing = torch.zeros(2, 16, dtype=torch.bool)
    one = nothing.clone()
    one[0, 5] = True
    assert exact(model(images, nothing), model(images))
    changed = (model.tokens(images, one) - model.tokens(images)).abs().sum(dim=-1) > 0
    assert torch.equal(changed, one)
    assert model(images).shape == (2, 16, 5)
    assert tiny(readout="patches")(images).shape == (2, 16, 5)
    with pytest.raises(ValueError, match="this model has no mark"):
        tiny()(images, nothing)


def test_pictures_of_another_size_are_refused_with_what_to_do():
    with pytest.raises(ValueError, match=r"takes \(batch, 3, 32, 32\).*images\[None\]"):
        tiny()(torch.zeros(3, 32, 32).double())
    with pytest.raises(ValueError, match="Resize the pictures"):
        tiny()(torch.zeros(1, 3, 64, 64).double())


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"image": 33}, "no multiple of 8"),
        ({"heads": 5}, "shared out over 5 heads"),
        ({"heads": 0}, "heads must be a whole number of 1 or more, not 0"),
        ({"heads": 3.0}, "heads must be a whole number"),
        ({"width": 0}, "width must be a whole number"),
        ({"depth": -1}, "depth must be a whole number"),
        ({"outputs": True}, "outputs must be a whole number"),
        ({"mlp_ratio": float("nan")}, "mlp_ratio must be a finite number"),
        ({"mlp_ratio": 0}, "leaves the MLP without"),
        ({"readout": "mean"}, "readout='mean'"),
        ({"class_token": False}, "reads the class token"),
        ({"positions": "rotary"}, "positions='rotary'"),
    ],
)
def test_configs_that_do_not_fit_together(changes, text):
    with pytest.raises(ValueError, match=text):
        ViTConfig(**{**vars(TINY), **changes})


def test_numpys_whole_numbers_are_sizes():
    config = ViTConfig(image=np.int64(32), patch=np.int8(8), width=np.int32(24), heads=np.int8(3))
    assert config == ViTConfig(image=32, patch=8, width=24, heads=3)
    assert all(type(getattr(config, name)) is int for name in ("image", "patch", "width", "heads"))
    assert MultiHeadAttention(np.int64(24), np.int8(3)).head_dim == 8
    for heads in (0, 2.0, True, "2"):
        with pytest.raises(ValueError, match="heads must be a whole number"):
            MultiHeadAttention(24, heads)


def test_pictures_that_are_no_tensors_are_refused():
    with pytest.raises(TypeError, match="images must be a torch tensor, not ndarray"):
        tiny()(np.zeros((1, 3, 32, 32)))
    with pytest.raises(TypeError, match="images / 255"):
        tiny()(torch.zeros(1, 3, 32, 32, dtype=torch.uint8))
    with pytest.raises(TypeError, match="a ViT or a ViTConfig, not str"):
        parameter_table("vit")


def test_gradients_reach_every_parameter():
    model = tiny(marks=True, readout="patches")
    marked = torch.zeros(1, 16, dtype=torch.bool)
    marked[0, 0] = True
    model(torch.randn(1, 3, 32, 32).double(), marked).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


def test_vit_b16_has_86_million_parameters():
    table = parameter_table()
    assert table["parameters"].sum() == 86_567_656
    parts = dict(zip(table["part"], table["parameters"], strict=True))
    assert parts["attention"] == 12 * (4 * 768 * 768 + 4 * 768)
    assert parts["MLP"] == 12 * (2 * 768 * 3072 + 3072 + 768)
    assert parts["embedding"] == 768 * 768 + 768 + 768 + 197 * 768
    assert parts["rest"] == 25 * 2 * 768 + 768 * 1000 + 1000
    assert table["share"].sum() == pytest.approx(1)


@pytest.mark.parametrize("config", [TINY, SMALL_CONFIG, ViTConfig(image=32, positions="sine")])
def test_the_table_counts_every_parameter_once(config):
    model = ViT(config)
    counted = parameter_table(model)["parameters"].sum()
    assert counted == sum(p.numel() for p in model.parameters())
    assert counted == parameter_table(config)["parameters"].sum()


def test_the_big_one_runs_and_its_attention_starts_nearly_even():
    torch.manual_seed(0)
    model = ViT(VIT_B16_CONFIG)
    with torch.no_grad():
        output, weights = model.with_weights(torch.randn(1, 3, 224, 224))
    assert output.shape == (1, 1000) and weights.shape == (1, 12, 12, 197, 197)
    assert weights.max() < 8 / 197  # nobody stands out before training
