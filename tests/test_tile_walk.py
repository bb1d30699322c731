"""The tile walk: its frames hold the generator's numbers, its page holds up without a script."""

import base64
import itertools
import json
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from attnlab_helpers.attention import reference
from attnlab_helpers.attention.online_softmax import tiled_attention_steps
from attnlab_helpers.plots import TileWalk, tile_walk
from attnlab_helpers.plots.tile_walk.data import live_data, watched_rows
from attnlab_helpers.plots.tile_walk.places import places
from attnlab_helpers.plots.tile_walk.shades import shares
from attnlab_helpers.plots.tile_walk.static import telling
from attnlab_helpers.vit import cat


def head(seed, tokens=196, size=16, spread=2.0):
    draw = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(tokens, size, generator=draw) for _ in range(3))
    return spread * q, k, v


@pytest.fixture(scope="module")
def both():
    return tile_walk(*head(1), image=cat(), causal="both", query_block=3)


def test_frames_hold_the_generators_numbers(both):
    q, k, v = head(1)
    for walk, causal in zip(both.walks, (False, True), strict=True):
        steps = tiled_attention_steps(q, k, v, causal=causal, block_q=28, block_k=28)
        steps = [step for step in steps if step.query_block == 3]
        phases = {"skipped": ["skip"]}
        of_tiles = [phases.get(s.state, ["load", "scores", "update"]) for s in steps]
        expected = ["start", *itertools.chain(*of_tiles), "end"]
        assert [frame.phase for frame in walk.frames] == expected
        for step in steps:
            of_tile = [frame for frame in walk.frames if frame.tile == step.key_tile]
            if step.state == "skipped":
                assert torch.equal(of_tile[0].running.acc, step.acc)
                continue
            _, scores, update = of_tile
            assert torch.equal(scores.rescale, step.rescale)
            assert torch.equal(scores.running.m, step.m)
            for name in ("m", "l", "acc"):
                assert torch.equal(getattr(update.running, name), getattr(step, name))


def test_the_last_frame_is_attention(both):
    q, k, v = head(1)
    for walk, causal in zip(both.walks, (False, True), strict=True):
        whole = reference(q[None, None], k[None, None], v[None, None], causal=causal)[0, 0]
        output = walk.frames[-1].output
        torch.testing.assert_close(output.double(), whole[84:112], rtol=1e-5, atol=1e-5)
        weights = shares(walk, walk.frames[-1]) / float(walk.frames[-1].running.l[walk.row])
        assert weights.sum() == pytest.approx(1, abs=1e-5)
        assert weights @ v.numpy() == pytest.approx(output[walk.row].numpy(), abs=1e-5)


def test_bytes_are_those_of_the_tensors_that_were_read(both):
    block = 28 * 16 * 4
    for walk, tiles in zip(both.walks, (7, 4), strict=True):
        assert walk.frames[0].read_bytes == block and walk.frames[-2].written_bytes == 0
        assert walk.frames[-1].read_bytes == block + tiles * 2 * block
        assert walk.frames[-1].written_bytes == block
        assert walk.naive_bytes == 28 * 196 * 4
    half = tile_walk(*(x.bfloat16() for x in head(1)), query_block=3)
    assert half.walks[0].frames[-1].read_bytes == 15 * block // 2


def test_the_words_agree_with_the_numbers(both):
    seen = set()
    for walk in both.walks:
        for frame in walk.frames:
            found = re.search(r"exp\((\S+) - \(?([^ )]+)\)?\) = (\S+) of itself", frame.text)
            if found:
                old, new, factor = map(float, found.groups())
                assert np.exp(old - new) == pytest.approx(factor, rel=3e-3)
                assert "a new maximum" in frame.title
                seen.add("rescaled")
            found = re.match(r"l = (\S+) x (\S+) \+ (\S+) = (\S+):", frame.text)
            if found:
                factor, before, added, after = map(float, found.groups())
                assert factor * before + added == pytest.approx(after, rel=1e-3)
                seen.add("summed")
            if "rescale = 1." in frame.text:
                assert float(frame.rescale[walk.row]) == 1 and "the maximum stays" in frame.title
                seen.add("stayed")
    assert seen == {"rescaled", "summed", "stayed"}
    (diagonal,) = [f for f in both.walks[1].frames if "masked in part" in f.title]
    assert f"{28 * 27 // 2} of them lie in the future" in diagonal.text


def test_the_live_data_are_the_same_numbers(both):
    data = live_data(both.walks, both.places, both.title)
    text = json.dumps(data)
    assert len(text) < 90_000 and data["keys"] == [[28 * tile, 28] for tile in range(7)]
    for walk, live in zip(both.walks, data["walks"], strict=True):
        rows = watched_rows(walk)
        assert data["watched"] == [walk.queries[row] for row in rows] and rows[0] == walk.row
        for frame, shown in zip(walk.frames, live["frames"], strict=True):
            values = frame.running.acc if frame.output is None else frame.output
            for row, numbers in zip(rows, shown["n"], strict=True):
                assert float(numbers[0]) == pytest.approx(float(frame.running.m[row]), abs=6e-4)
                assert float(numbers[2]) == pytest.approx(float(frame.running.l[row]), rel=6e-4)
                told = [float(number) for number in numbers[3:]]
                assert told == pytest.approx(values[row, :4].tolist(), rel=6e-4)
        for step, tile in zip(walk.steps, live["tiles"], strict=True):
            assert (tile is None) == (step.state == "skipped")
            if tile:
                scores, weights = (np.frombuffer(base64.b64decode(one), np.uint8) for one in tile)
                hidden = (step.scores == float("-inf")).numpy().ravel()
                assert ((scores == 0) == hidden).all() and ((weights == 0) == hidden).all()
                shown = (weights.astype(float) - 1) / 254
                expected = step.weights.numpy().ravel()
                assert np.abs(shown - expected)[~hidden].max() < 0.003


def test_the_page_stands_without_script_and_stays_small(both, tmp_path):
    bundle = both._repr_mimebundle_()
    html = bundle["text/html"]
    assert len(html) < 200_000 and len(both._png) < 60_000
    bare = re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
    for said in (
        "<img ",
        'alt="One block',
        "A photograph has no order",
        "masked in part",
        "<table",
    ):
        assert said in bare
    assert "http" not in bare and html.count("<figure") == 1
    assert bundle["text/plain"].count("computed tile by tile") == 1
    for ending in (".png", ".svg", ".html"):
        assert both.save(tmp_path / f"walk{ending}").stat().st_size > 10_000
    assert Image.open(tmp_path / "walk.png").width == 1050
    with pytest.raises(ValueError, match=r"use \.png, \.svg or \.html"):
        both.save(tmp_path / "walk.pdf")


def test_foreign_words_are_escaped():
    walk = tile_walk(*head(2, 12, 4), block_q=4, block_k=4, title="</script><b>", provenance="<i>&")
    html = walk._repr_mimebundle_()["text/html"]
    assert "<b>" not in html and "<i>" not in html and html.count("</script>") == 2


def test_the_strip_tells_the_story(both):
    told = [(walk.name, frame.phase) for walk, frame in telling(both.walks)]
    assert told == [
        ("every key", "start"),
        ("every key", "scores"),
        ("every key", "scores"),
        ("every key", "end"),
        ("causal", "scores"),
        ("causal", "skip"),
    ]
    rescaled = telling(both.walks)[2][1]
    assert 0 < float(rescaled.rescale[both.walks[0].row]) < 1
    alone = telling(tile_walk(*head(1), causal=True).walks)
    assert [f.phase for _, f in alone] == ["start", "scores", "scores", "scores", "skip", "end"]


@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_any_shape_has_a_walk(data):
    q_len, kv_len = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 30))
    q, _, _ = head(data.draw(st.integers(0, 99)), q_len, 3)
    _, k, v = head(data.draw(st.integers(0, 99)), kv_len, 3)
    blocks = {name: data.draw(st.integers(2, 12)) for name in ("block_q", "block_k")}
    walk = tile_walk(q, k, v, causal=data.draw(st.sampled_from([False, True, "both"])), **blocks)
    assert isinstance(walk, TileWalk) and len(walk._repr_mimebundle_()["text/html"]) < 150_000
    # json.dumps refuses NaN and infinity here, as a browser would.
    json.dumps(live_data(walk.walks, walk.places, "t"), allow_nan=False)


def test_places_cover_their_tokens_once():
    for image, tokens in ((cat(), 196), (None, 30), (torch.zeros(3, 32, 64), 8)):
        grid = places(tokens, image)
        for start in range(tokens):
            for stop in range(start + 1, tokens + 1, 3):
                cover = np.zeros((grid.rows, grid.columns), int)
                for x, y, width, height in grid.boxes(range(start, stop)):
                    cover[y : y + height, x : x + width] += 1
                expected = np.zeros(grid.rows * grid.columns, int)
                expected[start:stop] = 1
                assert (cover.ravel() == expected).all()
                assert len(grid.boxes(range(start, stop))) <= 3
    assert (places(8, torch.zeros(3, 32, 64)).rows, places(30, None).columns) == (2, 6)


def test_the_row_that_tells_most_is_followed():
    q = torch.eye(2).repeat(2, 1)[:4]
    k = torch.tensor([[0.0, 9.0], [1.0, 8.0], [2.0, 7.0], [3.0, 6.0]])
    walk = tile_walk(q, k, torch.ones(4, 2), block_q=4, block_k=1)
    assert walk.walks[0].row == 0  # q = (1, 0): its maximum rises with every key
    assert tile_walk(q, k, torch.ones(4, 2), block_q=4, block_k=1, row=1).walks[0].row == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"causal": "lower_right"}, "causal='lower_right' is not one of False, True, 'both'"),
        ({"causal": 1}, "causal=1 is not one of"),
        ({"block_k": 5}, "in 40 tiles cannot be read"),
        ({"block_k": 0}, "block_k must be a whole number"),
        ({"query_block": 7}, "query_block=7 does not exist: there are 0 to 6"),
        ({"row": 28}, "row=28 does not exist: there are 0 to 27"),
        ({"image": torch.zeros(3, 30, 30)}, "30 x 30 pixels cannot be cut into 196 square"),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        tile_walk(*head(1), **options)


def test_only_one_head_is_taken():
    q, k, v = (x[None, None] for x in head(1))
    assert len(tile_walk(q, k, v).walks) == 1
    with pytest.raises(ValueError, match=r"q has shape \(1, 2, 196, 16\)"):
        tile_walk(q.expand(1, 2, -1, -1), k, v)
    with pytest.raises(TypeError, match="k must be a torch tensor, not list"):
        tile_walk(q, [1], v)
