"""What heads look at, in numbers: on attention made by hand, and on the small model's."""

import math

import pandas as pd
import pytest
import torch

from attnlab_helpers.vit import (
    attention_distance,
    attention_weights,
    cat,
    head_table,
    patch_colours,
    queries_keys_values,
    rollout,
    small_vit,
    unlikeness,
    without_class_token,
)
from attnlab_helpers.vit.heads import query_distances

GRID = (3, 4)
N = 12


def even(layers: int = 1, heads: int = 1) -> torch.Tensor:
    return torch.full((layers, heads, N, N), 1 / N, dtype=torch.float64)


def random(layers: int = 2, heads: int = 3, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(layers, heads, N, N, generator=generator).double().softmax(dim=-1)


def test_distance_of_attention_made_by_hand():
    itself = torch.eye(N)[None, None]
    assert attention_distance(itself, GRID).tolist() == [[0.0]]
    # Everybody looks one patch to the right, the last of a row two to the left.
    right = torch.zeros(N, N)
    for i in range(N):
        right[i, i + 1 if i % 4 < 3 else i - 2] = 1
    assert attention_distance(right, GRID, patch=16).item() == pytest.approx(16 * (9 + 3 * 2) / 12)
    corner = torch.zeros(N, N)
    corner[:, 0] = 1
    expected = sum(math.hypot(i // 4, i % 4) for i in range(N)) / N
    assert attention_distance(corner, GRID, patch=1).item() == pytest.approx(expected)


def test_distance_is_the_same_in_every_direction():
    turned = random().reshape(2, 3, 3, 4, 3, 4).transpose(2, 3).transpose(4, 5).reshape(2, 3, N, N)
    assert torch.allclose(attention_distance(random(), GRID), attention_distance(turned, (4, 3)))


def test_even_attention_is_like_anywhere():
    features = torch.randn(N, 3, generator=torch.Generator().manual_seed(0))
    row = unlikeness(even(), features, GRID).iloc[0]
    assert row["attended"] == pytest.approx(row["anywhere"])
    assert row["same_distance"] == pytest.approx(row["anywhere"])


def test_attention_by_content_is_told_from_attention_by_distance():
    columns = torch.arange(N) % 4
    features = (columns % 2).double()[:, None]  # stripes
    alike = (features == features.T).double()
    content = (alike / alike.sum(dim=-1, keepdim=True))[None, None]
    row = unlikeness(content, features, GRID).iloc[0]
    assert row["attended"] == 0 and row["same_distance"] > 0.2
    # Attention that depends on distance alone gains nothing over its own distance.
    rows, across = torch.arange(N) // 4, columns
    squared = (rows[:, None] - rows) ** 2 + (across[:, None] - across) ** 2
    near = torch.softmax(-squared.double(), dim=-1)[None, None]
    row = unlikeness(near, features, GRID).iloc[0]
    assert row["attended"] == pytest.approx(row["same_distance"])
    assert row["attended"] != pytest.approx(row["anywhere"], rel=0.01)


def test_what_a_patch_gives_itself_does_not_count():
    features = torch.randn(N, 3, generator=torch.Generator().manual_seed(0)).double()
    mixed = 0.9 * torch.eye(N).double() + 0.1 * random()
    columns = ["attended", "same_distance", "anywhere"]
    off = random() * (1 - torch.eye(N))
    off = off / off.sum(dim=-1, keepdim=True)
    pd.testing.assert_frame_equal(
        unlikeness(mixed, features, GRID)[columns], unlikeness(off, features, GRID)[columns]
    )


def test_a_class_token_is_taken_out_and_said_when_forgotten():
    weights = torch.rand(2, 3, N + 1, N + 1).softmax(dim=-1)
    among = without_class_token(weights)
    assert among.shape == (2, 3, N, N)
    assert torch.allclose(among.sum(dim=-1), torch.ones(2, 3, N))
    assert torch.allclose(
        among[0, 0, 4, 1] / among[0, 0, 4, 2], weights[0, 0, 5, 2] / weights[0, 0, 5, 3]
    )
    with pytest.raises(ValueError, match="without_class_token"):
        attention_distance(weights, GRID)
    with pytest.raises(ValueError, match="do not fit"):
        unlikeness(even(), torch.zeros(N + 1, 3), GRID)


def test_weights_without_a_class_token_are_noticed():
    square = torch.full((2, 3, 196, 196), 1 / 196)
    with pytest.raises(ValueError, match="14 x 14 patches without a class token"):
        without_class_token(square)
    # 15 patches and a class token are a square number, too: the grid says which it is.
    sixteen = torch.full((16, 16), 1 / 16)
    with pytest.raises(ValueError, match="say how they lie"):
        without_class_token(sixteen)
    assert without_class_token(sixteen, grid=(3, 5)).shape == (15, 15)
    with pytest.raises(ValueError, match="16 tokens are not a class token and 4 x 4 patches: 17"):
        without_class_token(sixteen, grid=(4, 4))
    for wrong in (torch.ones(1, 1), torch.ones(5), torch.ones(4, 5)):
        with pytest.raises(ValueError, match=r"not \(\.\.\., N \+ 1"):
            without_class_token(wrong)


def test_a_head_that_only_looks_at_itself_attends_to_no_other_patch():
    features = torch.randn(N, 3, generator=torch.Generator().manual_seed(0)).double()
    itself = torch.eye(N).double()
    row = unlikeness(itself[None, None], features, GRID).iloc[0]
    assert math.isnan(row["attended"]) and math.isnan(row["same_distance"]) and row["anywhere"] > 0
    # One such query among others is left out of the mean.
    some = random(1, 1)
    some[0, 0, 4] = itself[4]
    row = unlikeness(some, features, GRID).iloc[0]
    elsewhere = some[0, 0] * (1 - itself)
    unlike = torch.cdist(features, features)
    by_hand = [
        float((elsewhere[i] * unlike[i]).sum() / elsewhere[i].sum()) for i in range(N) if i != 4
    ]
    assert row["attended"] == pytest.approx(sum(by_hand) / len(by_hand))


def test_every_querys_own_distance():
    weights = random()
    own = query_distances(weights, GRID)
    assert own.shape == (2, 3, N)
    assert torch.allclose(own.mean(dim=-1), attention_distance(weights, GRID))
    by_hand = sum(
        float(weights[1, 2, 5, j]) * 16 * math.hypot(j // 4 - 1, j % 4 - 1) for j in range(N)
    )
    assert own[1, 2, 5].item() == pytest.approx(by_hand)


@pytest.mark.parametrize("shape", [(3, N, N), (N, N), (1, 2, 3, N, N), (2, 3, N, N + 1)])
def test_rollout_takes_layers_and_heads(shape):
    with pytest.raises(ValueError, match=r"rollout takes \(layers, heads, N, N\)"):
        rollout(torch.ones(shape))


def test_weights_are_tensors_of_layers_and_heads():
    with pytest.raises(TypeError, match=r"torch\.from_numpy"):
        attention_distance(even().numpy(), GRID)
    with pytest.raises(ValueError, match=r"needs \(layers, heads, 12, 12\)"):
        unlikeness(even()[0], torch.zeros(N, 3), GRID)


def test_patch_colours_are_means():
    image = torch.rand(3, 32, 48)
    colours = patch_colours(image)
    assert colours.shape == (6, 3)
    assert torch.allclose(colours[4], image[:, 16:, 16:32].mean(dim=(1, 2)))


def test_rollout_by_hand():
    first, second = random(1, 3, seed=1)[0], random(1, 3, seed=2)[0]
    one, two = (w.mean(dim=0) / 2 + torch.eye(N).double() / 2 for w in (first, second))
    expected = two @ one
    assert torch.allclose(rollout(torch.stack([first, second])), expected)
    assert torch.allclose(expected.sum(dim=-1), torch.ones(N).double())
    assert torch.equal(rollout(torch.eye(N).expand(4, 2, N, N)), torch.eye(N))
    # The order of layers matters: the first layer's attention is applied first.
    assert not torch.allclose(rollout(torch.stack([second, first])), expected)


@pytest.fixture(scope="module")
def tables():
    """The table of heads on the cat, trained and untrained."""
    image = cat()
    return {
        name: head_table(attention_weights(small_vit(trained=name == "trained"), image), image)
        for name in ("trained", "untrained")
    }


def test_trained_heads_differ_in_how_far_they_look(tables):
    spread = {name: table["distance"].std() for name, table in tables.items()}
    assert spread["trained"] > 20 > 1 > spread["untrained"]
    assert tables["trained"]["distance"].min() < 50 < 110 < tables["trained"]["distance"].max()
    assert len(tables["trained"]) == 24


def test_trained_attention_follows_content(tables):
    trained, untrained = tables["trained"], tables["untrained"]
    means = trained[["attended", "same_distance", "anywhere"]].mean()
    # Attended patches are more alike than those anywhere, and than those as far away.
    assert means["attended"] < 0.95 * means["same_distance"] < 0.95 * means["anywhere"]
    assert (trained["attended"] < trained["same_distance"]).sum() >= 20
    for against in ("anywhere", "same_distance"):
        gain = {name: (t[against] - t["attended"]).mean() for name, t in tables.items()}
        assert gain["trained"] > 100 * abs(gain["untrained"])
    assert untrained["attended"].std() < 0.001


def test_the_numbers_hold_for_other_starts():
    image = cat()
    for seed in (1, 2):
        weights = attention_weights(small_vit(trained=False, seed=seed), image)
        table = head_table(weights, image)
        assert table["distance"].std() < 1
        assert (table["attended"] - table["anywhere"]).abs().max() < 0.002


@pytest.mark.parametrize("layer", [0, 3, -1])
def test_one_layers_queries_and_keys_give_its_weights(layer) -> None:
    model, picture = small_vit(), cat()
    q, k, v = queries_keys_values(model, picture, layer)
    assert q.shape == k.shape == v.shape == (4, 196, 32)
    weights = torch.softmax(q @ k.transpose(-2, -1) / 32**0.5, dim=-1)
    torch.testing.assert_close(weights, attention_weights(model, picture)[layer])


@pytest.mark.parametrize("layer", [6, -7, True, 1.0])
def test_a_layer_that_is_not_there_is_an_error(layer) -> None:
    with pytest.raises(ValueError, match="layers 0 to 5"):
        queries_keys_values(small_vit(), cat(), layer)
