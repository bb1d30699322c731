"""Patches, positions and growth: cut in two ways, put together again, counted."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from attnlab_helpers.vit import (
    VIT_B16_CONFIG,
    PatchEmbedding,
    ViT,
    ViTConfig,
    cat,
    from_patches,
    growth,
    patch_grid,
    sine_positions,
    to_patches,
    to_patches_by_convolution,
)


def test_the_photograph_gives_196_rows_of_768_numbers():
    assert to_patches(cat()).shape == (196, 768)
    assert torch.equal(from_patches(to_patches(cat()), 224, 224), cat())


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(1, 5),
    columns=st.integers(1, 5),
    patch=st.integers(1, 7),
    channels=st.integers(1, 4),
    batch=st.integers(1, 3),
)
def test_reshape_and_convolution_cut_the_same_and_both_go_back(
    rows, columns, patch, channels, batch
):
    images = torch.randn(batch, channels, rows * patch, columns * patch)
    cut = to_patches(images, patch)
    assert cut.shape == (batch, rows * columns, channels * patch * patch)
    assert torch.equal(to_patches_by_convolution(images, patch), cut)
    assert torch.equal(from_patches(cut, rows * patch, columns * patch, patch, channels), images)


def test_a_patch_holds_the_pixels_of_its_place():
    image = torch.arange(3 * 4 * 6).reshape(3, 4, 6).float()
    cut = to_patches(image, 2)
    # Row 1, column 2 of 2 x 3 patches; channel by channel, row by row.
    assert torch.equal(cut[5], image[:, 2:4, 4:6].reshape(-1))
    assert to_patches(image.expand(2, 5, 3, 4, 6), 2).shape == (2, 5, 6, 12)


def test_what_does_not_divide_is_said_with_what_does():
    with pytest.raises(ValueError, match=r"its width, 225, is no multiple of 16.*224 or 240"):
        to_patches(torch.zeros(3, 224, 225))
    with pytest.raises(ValueError, match=r"its height, 5, is no multiple of 16.*to 16\."):
        to_patches_by_convolution(torch.zeros(1, 3, 5, 16))
    with pytest.raises(ValueError, match="patch must be a whole number"):
        patch_grid(224, 224, 0)
    with pytest.raises(ValueError, match=r"takes \(channels, height"):
        to_patches(torch.zeros(16, 16))
    with pytest.raises(ValueError, match=r"needs \(\.\.\., 4, 12\)"):
        from_patches(torch.zeros(5, 12), 4, 4, 2)


def test_pictures_without_a_batch_are_not_cut_wrongly():
    embedding, image = PatchEmbedding(16, width=8), torch.rand(3, 32, 32)
    for cut in (to_patches_by_convolution, embedding, embedding.as_convolution):
        with pytest.raises(ValueError, match=r"images\[None\]"):
            cut(image)
        with pytest.raises(TypeError, match="images / 255"):
            cut((image[None] * 255).byte())
        with pytest.raises(TypeError, match="must be a torch tensor"):
            cut(image.numpy())
    with pytest.raises(ValueError, match=r"\(batch, 3, height, width\) is needed"):
        embedding(image[None, :1])
    with pytest.raises(TypeError, match="must be a torch tensor"):
        to_patches(image.numpy())
    with pytest.raises(ValueError, match=r"needs \(\.\.\., 4, 768\)"):
        from_patches(torch.zeros(768), 32, 32)
    for wrong in (16.0, True, "16"):
        with pytest.raises(ValueError, match="patch must be a whole number"):
            to_patches(image, wrong)
    assert patch_grid(np.int64(32), np.int32(48), np.int8(16)) == (2, 3)
    assert to_patches(image, np.int8(16)).shape == (4, 768)


@pytest.mark.parametrize(("size", "patch"), [(224, 16), (48, 8), (30, 15)])
def test_the_embedding_is_a_product_and_a_convolution(size, patch):
    torch.manual_seed(0)
    embedding = PatchEmbedding(patch, width=24).double()
    images = torch.randn(2, 3, size, size, dtype=torch.float64)
    product, convolution = embedding.as_product(images), embedding.as_convolution(images)
    assert product.shape == (2, (size // patch) ** 2, 24)
    assert torch.allclose(product, convolution, rtol=0, atol=1e-12)
    assert torch.equal(embedding(images), product)


def test_sines_are_those_of_the_formula():
    table = sine_positions(3, 5, 8)
    row, column = 2, 3
    slow = 10_000 ** (-1 / 2)
    expected = [f(x * w) for x in (column, row) for f in (math.sin, math.cos) for w in (1, slow)]
    assert table[row * 5 + column].tolist() == pytest.approx(expected, abs=1e-6)
    assert table.shape == (15, 8) and len(table.unique(dim=0)) == 15
    with pytest.raises(ValueError, match="width=6 is no positive multiple of 4"):
        sine_positions(3, 5, 6)
    for wrong in ((0, 5, 8), (3, 2.0, 8), (3, 5, 8.0)):
        with pytest.raises(ValueError):
            sine_positions(*wrong)


def test_near_patches_have_nearer_positions_than_far_ones():
    table = sine_positions(14, 14, 768)
    middle = table[7 * 14 + 7]
    steps = [(table[7 * 14 + 7 + step] - middle).norm().item() for step in (1, 3, 6)]
    assert steps == sorted(steps) and steps[0] < 0.5 * steps[2]


def test_growth_at_four_sizes():
    table = growth()
    assert table["image"].tolist() == [224, 384, 1024, 4096]
    assert table["patches"].tolist() == [196, 576, 4096, 65_536]
    assert table["tokens"].tolist() == [197, 577, 4097, 65_537]
    assert table["matrix_bytes"].tolist() == [4 * n * n for n in table["tokens"]]
    assert table["layer_bytes"].iloc[3] == 12 * 4 * 65_537**2
    assert table["attention_share"].iloc[0] < 0.05 and table["attention_share"].iloc[3] > 0.9
    halved = growth([224], [16, 8], dtype="float16")
    assert halved["patches"].tolist() == [196, 784]
    assert halved["matrix_bytes"].tolist() == [2 * 197**2, 2 * 785**2]
    with pytest.raises(ValueError, match="no multiple of 16"):
        growth([225])
    with pytest.raises(ValueError, match="dtype"):
        growth(dtype="int8")
    for sizes in (224, None, "224"):
        with pytest.raises(ValueError, match=r"sizes must be a list of whole numbers"):
            growth(sizes=sizes)
    with pytest.raises(ValueError, match=r"patches must be a list"):
        growth([224], 16)
    # numpy's 32-bit integers would overflow at 4096 pixels.
    small = growth(np.array([4096], dtype=np.int32), np.array([16], dtype=np.int32))
    assert small.equals(growth([4096]))


def test_growth_counts_what_the_model_does():
    config = ViTConfig(image=64, width=32, depth=3, heads=4, mlp_ratio=2.0, outputs=5)
    row = growth([64], config=config).iloc[0]
    with FlopCounterMode(display=False) as counter:
        ViT(config)(torch.randn(1, 3, 64, 64))
    beside = 2 * 16 * 768 * 32 + 2 * 32 * 5  # patch projection and head
    assert counter.get_total_flops() == row["linear_flops"] + row["attention_flops"] + beside


def test_growth_of_vit_b16_is_the_known_figure():
    row = growth([224]).iloc[0]
    projection = 2 * 196 * 768 * 768
    total = row["linear_flops"] + row["attention_flops"] + projection + 2 * 768 * 1000
    # 17.6 billion multiply-adds, the figure that is quoted for ViT-B/16 at 224 pixels.
    assert total / 2 == pytest.approx(17.6e9, rel=0.005)
    assert VIT_B16_CONFIG.tokens == 197
