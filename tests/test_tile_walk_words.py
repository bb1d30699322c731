"""The tile walk's words: one name for each thing, numbers explained, no word crossed out."""

import re

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from attnlab_helpers import AttentionProblem
from attnlab_helpers.plots import tile_walk
from attnlab_helpers.plots.tile_walk.data import live_data
from attnlab_helpers.traffic import formula
from attnlab_helpers.vit import cat


def head(seed, tokens=196, size=16, spread=2.0):
    draw = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(tokens, size, generator=draw) for _ in range(3))
    return spread * q, k, v


@pytest.fixture(scope="module")
def both():
    return tile_walk(*head(1), image=cat(), causal="both", query_block=3)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_what_is_not_finite_is_refused_when_the_walk_is_made(value, which):
    tensors = [x.clone() for x in head(1, 20, 4)]
    tensors[which][3, 1] = value
    with pytest.raises(ValueError, match=f"{'qkv'[which]} has NaN or infinite values"):
        tile_walk(*tensors)
    q, k, v = head(1, 20, 4)
    with pytest.raises(ValueError, match="too large for the floating-point type"):
        tile_walk(q * 1e30, k * 1e30, v)
    assert tile_walk(q.double() * 1e30, k.double() * 1e30, v.double(), causal="both")


def test_one_word_for_rescale_and_the_table_says_whose_numbers_it_has(both):
    data = live_data(both.walks, both.places, both.title)
    assert data["columns"][:4] == ["query", "m", "rescale", "l"] and "rescale" in both.table
    html = both._repr_mimebundle_()["text/html"]
    bare = re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
    assert "factor" not in html + str(both)
    query = both.walks[0].query
    for text in (bare, str(both)):
        assert f"the numbers of query {query}. Read so far: bytes of Q, K and V, in float32" in text
    assert "Read so far: bytes of Q, K and V that this block of queries has read" in bare
    half = tile_walk(*(x.half() for x in head(1)))
    assert "in float16, that this block of 28 queries" in str(half)


@pytest.mark.parametrize(("tokens", "block"), [(5, 28), (30, 28), (196, 28), (40, 20), (28, 28)])
def test_no_line_of_the_ghost_goes_through_its_words(tokens, block):
    q, _, _ = head(1, tokens, 4)
    _, k, v = head(2, 40, 4)
    figure = tile_walk(q, k, v, block_q=block, causal="both").figure()
    FigureCanvasAgg(figure).draw()
    found = 0
    for axes in figure.axes:
        for text in axes.texts:
            if "never whole" not in text.get_text():
                continue
            found += 1
            box = text.get_window_extent()
            if axes is figure.axes[0]:  # the sheet, beside which there are no lines
                continue
            for patch in axes.patches:
                edges = patch.get_window_extent()
                for line in (edges.y0, edges.y1):
                    assert not box.y0 < line < box.y1, (tokens, block)
    assert found >= 4


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("q_len", "kv_len"), [(5, 100), (32, 100), (20, 20)])
def test_one_block_reads_what_the_formula_says(q_len, kv_len, causal):
    problem = AttentionProblem(1, 1, q_len, 16, kv_len=kv_len, causal=causal, dtype="float32")
    q, k, v = (x[0, 0] for x in problem.tensors("cpu"))
    walk = tile_walk(q, k, v, causal=causal, block_q=32, block_k=16)
    read = formula("tiled", problem, block_q=32, block_k=16)["read_bytes"].sum()
    assert walk.table["read_so_far_bytes"].iloc[-1] == walk.walks[0].frames[-1].read_bytes == read
