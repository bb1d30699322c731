"""Attention over the photograph: what the pictures say in their tables, texts and bytes."""

import importlib.util
import io
import re

import numpy as np
import pytest
import torch
from PIL import Image

from attnlab_helpers.plots.attention_maps import attention_map, head_grid
from attnlab_helpers.plots.attention_picker import MEAN, ROLLOUT, VIEW, attention_picker
from attnlab_helpers.plots.head_distances import head_distances
from attnlab_helpers.vit import attention_weights, cat, head_table, rollout, small_vit

IMAGE = torch.rand(3, 48, 64, generator=torch.Generator().manual_seed(0))  # 3 x 4 patches
WEIGHTS = torch.rand(2, 3, 12, 12, generator=torch.Generator().manual_seed(1)).softmax(dim=-1)
SAYS = {"title": "A <map> & more", "provenance": "live on CPU, torch 0"}


def shown(picture) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(picture._png)).convert("RGB")).astype(int)


def test_the_table_has_the_strongest_patches_of_the_query():
    weights = torch.full((12, 12), 1 / 12)
    weights[5] = 0.01
    weights[5, 7], weights[5, 2] = 0.6, 0.3
    table = attention_map(IMAGE, weights, (1, 1), **SAYS).table
    assert table[["row", "column"]].head(2).values.tolist() == [[1, 3], [0, 2]]
    assert table["weight"].head(2).tolist() == pytest.approx([0.6, 0.3])
    assert table["times_even_share"].iloc[0] == pytest.approx(7.2)
    assert len(table) == 10


def test_the_picture_says_all_in_words_and_escapes_them():
    picture = attention_map(IMAGE, WEIGHTS[0, 0], (2, 1), **SAYS)
    bundle = picture._repr_mimebundle_()
    html = bundle["text/html"]
    assert "row 2, column 1" in picture.alt and "times" in picture.alt
    assert "A &lt;map&gt; &amp; more" in html and "<map>" not in html
    assert re.search(r'<img [^>]*alt="A &lt;map', html) and "data:image/jpeg;base64," in html
    assert "data:image/png" not in html and "live on CPU, torch 0" in html
    assert Image.open(io.BytesIO(picture._jpeg)).size[0] > 800
    assert "live on CPU, torch 0" in bundle["text/plain"]


def test_colour_lies_on_the_attended_patch_and_moves_with_it():
    white = torch.ones(3, 48, 64)
    pictures = []
    for key in (0, 11):
        weights = torch.zeros(12, 12)
        weights[:, key] = 1
        pictures.append(shown(attention_map(white, weights, (1, 1), **SAYS)))
    # Vermilion: much more red than blue. Right of the photograph, left of the colour bar.
    width = pictures[0].shape[1]
    maps = [picture[:, int(0.47 * width) : int(0.91 * width)] for picture in pictures]
    strong = [pixels[:, :, 0] - pixels[:, :, 2] > 120 for pixels in maps]
    first, last = (np.argwhere(mask).mean(axis=0) for mask in strong)
    assert first[0] < last[0] and first[1] < last[1]


def test_a_grid_has_every_head():
    picture = head_grid(IMAGE, WEIGHTS, (0, 3), **SAYS)
    assert picture.table[["layer", "head"]].values.tolist() == [
        [layer, head] for layer in range(2) for head in range(3)
    ]
    strongest = WEIGHTS[1, 2, 3].argmax().item()
    assert picture.table[["row", "column"]].iloc[5].tolist() == [strongest // 4, strongest % 4]
    assert "6 small maps" in picture.alt and shown(picture).shape[1] > 800


def test_the_grid_tells_this_query_from_the_mean_over_all():
    weights = torch.eye(12).expand(1, 2, 12, 12).clone()
    weights[0, 1, 3] = torch.eye(12)[0]  # this one looks three patches to the left
    picture = head_grid(IMAGE, weights, (0, 3), **SAYS)
    assert picture.table["distance"].tolist() == [0, pytest.approx(48)]
    assert picture.table["mean_distance"].tolist() == [0, pytest.approx(4)]
    assert "farthest in layer 0, head 1 (48 pixels)" in picture.alt
    assert "nearest in layer 0, head 0 (0 pixels)" in picture.alt


def test_who_attends_to_the_framed_patch():
    weights = torch.full((12, 12), 1 / 12)
    weights[2] = 0.02
    weights[2, 5] = 0.78
    picture = attention_map(IMAGE, weights, (1, 1), looks="in", **SAYS)
    assert picture.table[["row", "column"]].iloc[0].tolist() == [0, 2]
    assert picture.table["weight"].iloc[0] == pytest.approx(0.78)
    mean = (0.78 + 11 / 12) / 12
    assert picture.table["times_mean"].head(2).tolist() == pytest.approx(
        [0.78 / mean, 1 / 12 / mean]
    )
    assert "who attends to it" in picture.alt and "even share" not in picture.alt
    panels = [axes.get_title() for axes in picture.figure().axes]
    assert "who attends to it" in panels and "what it attends to" not in panels
    out = attention_map(IMAGE, weights, (1, 1), **SAYS)
    assert "what it attends to" in [axes.get_title() for axes in out.figure().axes]
    nobody = torch.eye(12)
    nobody[5] = torch.eye(12)[0]
    alone = attention_map(IMAGE, nobody, (1, 1), looks="in", **SAYS)
    assert "No patch attends to" in alone.alt and alone.table["times_mean"].eq(0).all()
    assert not [text for axes in alone.figure().axes for text in axes.texts]  # no rank, no number
    with pytest.raises(ValueError, match="looks='both' is not one of"):
        attention_map(IMAGE, weights, (1, 1), looks="both", **SAYS)


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        (torch.full((12, 12), float("nan")), "not finite"),
        (torch.eye(12) - torch.eye(12).roll(1, 0) + torch.full((12, 12), 1 / 12), "below 0"),
        (torch.zeros(12, 12), "sums to 0"),
        (torch.full((12, 12), 1.01 / 12), r"sums to 1\.01"),
    ],
)
def test_what_is_no_share_is_refused(weights, text):
    with pytest.raises(ValueError, match=text):
        attention_map(IMAGE, weights, (0, 0), **SAYS)
    with pytest.raises(ValueError, match=text):
        head_grid(IMAGE, weights.expand(1, 2, 12, 12), (0, 0), **SAYS)
    with pytest.raises(ValueError, match=text):
        attention_picker(IMAGE, weights.expand(1, 2, 12, 12), **SAYS)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_shares_in_every_precision_are_shares(dtype):
    for count in (12, 13):  # 1 / 13 is rounded by every one of them
        grid = (3, 4) if count == 12 else (1, 13)
        image = torch.rand(3, 16 * grid[0], 16 * grid[1])
        assert attention_map(
            image, torch.full((count, count), 1 / count, dtype=dtype), (0, 0), **SAYS
        )


@pytest.mark.parametrize("query", [(True, False), (1.0, 2), (1,), (1, 2, 3), "ab", 5, None])
def test_a_query_is_two_whole_numbers(query):
    for draw, weights in ((attention_map, WEIGHTS[0, 0]), (head_grid, WEIGHTS)):
        with pytest.raises(ValueError, match="query must be two whole numbers"):
            draw(IMAGE, weights, query, **SAYS)
    with pytest.raises(ValueError, match="query must be two whole numbers"):
        picker().choose(query, 0, 0)


def test_numpys_whole_numbers_do():
    query = (np.int64(2), np.int32(1))
    picture = attention_map(IMAGE, WEIGHTS[0, 0], query, **SAYS)
    assert "row 2, column 1" in picture.alt
    choice = attention_picker(
        IMAGE, WEIGHTS, query=query, layer=np.int64(1), head=np.int64(2), **SAYS
    )
    assert "layer 1, head 2, patch in row 2, column 1" in choice.picture.title


@pytest.mark.parametrize(
    ("image", "error", "text"),
    [
        (IMAGE * 255, ValueError, "from 0.* Divide by 255"),
        (IMAGE * 2 - 1, ValueError, r"clamp\(0, 1\)"),
        ((IMAGE * 255).byte(), TypeError, "divide by 255"),
        (IMAGE * float("nan"), ValueError, "not finite"),
        (IMAGE.numpy(), TypeError, "must be a torch tensor"),
        (IMAGE[0], ValueError, "expand"),
        (IMAGE[None], ValueError, r"image\[0\]"),
        (IMAGE.permute(1, 2, 0), ValueError, r"permute\(2, 0, 1\)"),
    ],
)
def test_what_is_no_picture_is_refused_everywhere(image, error, text):
    for draw in (
        lambda: attention_map(image, WEIGHTS[0, 0], (0, 0), **SAYS),
        lambda: head_grid(image, WEIGHTS, (0, 0), **SAYS),
        lambda: attention_picker(image, WEIGHTS, **SAYS),
        lambda: head_table(WEIGHTS, image),
    ):
        with pytest.raises(error, match=text):
            draw()


def test_a_layer_and_a_head_are_whole_numbers():
    for layer in (1.0, "1", True, None, -1):
        with pytest.raises(ValueError, match=r"layer .* does not exist"):
            picker().choose((0, 0), layer, 0)
    for head in (1.0, "1", True, None, -1):
        with pytest.raises(ValueError, match=r"head .* does not exist"):
            picker().choose((0, 0), 0, head)


def test_distances_want_a_dictionary_of_tables():
    table = head_table(WEIGHTS, IMAGE)
    with pytest.raises(TypeError, match=r'head_distances\(\{"trained": table'):
        head_distances(table, **SAYS)
    with pytest.raises(TypeError, match="'a' must be a table"):
        head_distances({"a": 1}, **SAYS)
    with pytest.raises(ValueError, match="'a' has no columns: head, distance"):
        head_distances({"a": table[["layer"]]}, **SAYS)
    with pytest.raises(ValueError, match="'a' has no rows"):
        head_distances({"a": table[:0]}, **SAYS)


def test_a_picture_shows_its_provenance_once_and_says_it_to_those_who_do_not_see():
    html = attention_map(IMAGE, WEIGHTS[0, 0], (0, 0), **SAYS)._repr_mimebundle_()["text/html"]
    # Title and provenance stand in the picture, and again with the folded numbers.
    shown = re.sub(r"<img [^>]*>|<details>.*</details>", "", html)
    assert "live on CPU" not in shown and "map" not in shown
    assert html.count("A &lt;map&gt;") == 2 and "<caption" in html
    assert re.search(r'alt="[^"]*Source: live on CPU, torch 0\."', html)


def test_pictures_repeat_and_are_small_enough_for_a_notebook(tmp_path):
    image = cat()
    weights = attention_weights(small_vit(), image)
    for draw in (
        lambda: attention_map(image, weights[2, 1], (5, 4), **SAYS),
        lambda: head_grid(image, weights, (5, 4), **SAYS),
    ):
        bundle, again = draw()._repr_mimebundle_(), draw()._repr_mimebundle_()
        assert bundle == again
        assert len(bundle["text/html"]) < 250_000 and set(bundle) == {"text/plain", "text/html"}
    assert attention_map(image, weights[0, 0], (0, 0), **SAYS).save(tmp_path / "a.png").exists()
    assert attention_map(image, weights[0, 0], (0, 0), **SAYS).save(tmp_path / "a.svg").exists()


def test_distances_of_trained_and_untrained_heads():
    image = cat()
    tables = {
        name: head_table(attention_weights(small_vit(trained=trained), image), image)
        for name, trained in (("trained", True), ("untrained", False))
    }
    picture = head_distances(tables, **SAYS)
    assert len(picture.table) == 48 and set(picture.table["run"]) == set(tables)
    assert "trained: from 39 to 118 pixels" in picture.alt
    assert picture._repr_mimebundle_()["image/png"][:4] == b"\x89PNG"
    with pytest.raises(ValueError, match="one to 3 tables"):
        head_distances({}, **SAYS)


@pytest.mark.parametrize(
    ("weights", "query", "text"),
    [
        (torch.ones(13, 13), (0, 0), "without_class_token"),
        (torch.ones(12), (0, 0), r"needs \(12, 12\)"),
        (torch.ones(12, 12), (3, 0), "rows go from 0 to 2"),
        (torch.ones(12, 12), (0, -1), "columns to 3"),
    ],
)
def test_what_does_not_fit_is_said(weights, query, text):
    with pytest.raises(ValueError, match=text):
        attention_map(IMAGE, weights, query, **SAYS)


def test_the_grid_wants_layers_and_heads():
    with pytest.raises(ValueError, match=r"\(layers, heads, 12, 12\)"):
        head_grid(IMAGE, WEIGHTS[0], (0, 0), **SAYS)


def test_even_attention_draws_without_a_complaint(recwarn):
    assert shown(attention_map(IMAGE, torch.full((12, 12), 1 / 12), (0, 0), **SAYS)).size
    assert not recwarn.list


def picker(**options):
    return attention_picker(IMAGE, WEIGHTS, query=(1, 2), layer=1, head=2, **SAYS, **options)


def test_the_picker_chooses_heads_means_and_rollouts():
    choice = picker()
    assert "layer 1, head 2" in choice.picture.title
    assert choice.picture.table["weight"].iloc[0] == pytest.approx(WEIGHTS[1, 2, 6].max().item())
    mean = choice.choose((0, 0), 0, MEAN)
    assert mean.table["weight"].iloc[0] == pytest.approx(WEIGHTS[0].mean(dim=0)[0].max().item())
    rolled = choice.choose((0, 0), 1, ROLLOUT)
    assert rolled.table["weight"].iloc[0] == pytest.approx(rollout(WEIGHTS)[0].max().item())
    for wrong in (((0, 0), 2, 0), ((0, 0), 0, 3), ((0, 0), 0, "best"), ((0, 9), 0, 0)):
        with pytest.raises(ValueError, match=r"does not exist|lies outside"):
            choice.choose(*wrong)
    with pytest.raises(ValueError, match=r"needs \(layers, heads, 12, 12\)"):
        attention_picker(IMAGE, WEIGHTS[0], **SAYS)


def test_the_picker_redraws_when_a_slider_moves():
    pytest.importorskip("ipywidgets")
    choice = picker()
    *controls, page = choice.widget.children
    assert [control.description for control in controls] == ["row", "column", "layer", "head"]
    assert [control.value for control in controls] == [1, 2, 1, 2]
    assert controls[0].max == 2 and controls[1].max == 3
    assert "layer 1, head 2, patch in row 1, column 2" in page.value
    controls[0].value, controls[3].value = 0, MEAN
    assert f"layer 1, {MEAN}, patch in row 0, column 2" in page.value
    bundle = choice._repr_mimebundle_()
    assert VIEW in bundle and "layer 1, head 2" in bundle["text/html"]  # its default state


def test_without_ipywidgets_the_picture_stays(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *a: None if name == "ipywidgets" else real(name, *a),
    )
    choice = picker()
    assert choice.widget is None
    assert set(choice._repr_mimebundle_()) == {"text/plain", "text/html"}
    assert "layer 1, head 2" in repr(choice)
