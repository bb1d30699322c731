"""Online softmax: merging does not depend on the order, nor tiles on their size."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab_helpers.attention import reference
from attnlab_helpers.attention.online_softmax import (
    Partial,
    finish,
    identity,
    merge,
    partial,
    tiled_attention_steps,
    tiled_attention_torch,
)

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


def random(seed, *shape, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def some_part(seed, rows, keys, spread, hide):
    scores = spread * random(seed, rows, keys)
    hidden = random(seed + 1, rows, keys) < hide
    return scores.masked_fill(hidden, float("-inf")), random(seed + 2, keys, 5)


def assert_same(a: Partial, b: Partial):
    torch.testing.assert_close(a.m, b.m, rtol=0, atol=0)
    torch.testing.assert_close(a.l, b.l, rtol=1e-12, atol=0)
    # The sums cancel, so what is fair is an error against their largest term.
    torch.testing.assert_close(a.acc, b.acc, rtol=1e-12, atol=1e-11)


# hide above 3 hides a whole tile.
PART = st.tuples(
    st.integers(0, 10**6),
    st.integers(0, 7),
    st.sampled_from([0.0, 1.0, 1e4]),
    st.sampled_from([-9.0, 0.5, 9.0]),
)


@settings(max_examples=80, deadline=None)
@given(parts=st.tuples(PART, PART, PART))
def test_merge_does_not_mind_order_or_grouping(parts):
    made = [some_part(seed, 4, keys, spread, hide) for seed, keys, spread, hide in parts]
    a, b, c = (partial(*one) for one in made)
    assert_same(merge(a, merge(b, c)), merge(merge(a, b), c))
    assert_same(merge(a, b), merge(b, a))
    nothing = identity(4, 5, dtype=torch.float64)
    assert_same(merge(a, nothing), a)
    assert_same(merge(nothing, a), a)
    together = partial(torch.cat([s for s, _ in made], -1), torch.cat([v for _, v in made]))
    assert_same(merge(a, merge(b, c)), together)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_the_size_of_a_tile_changes_nothing(data):
    groups, kv_heads = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))
    q_len, kv_len = data.draw(st.integers(0, 20)), data.draw(st.integers(0, 20))
    seed, spread = data.draw(st.integers(0, 10**6)), data.draw(st.sampled_from([1.0, 1e4]))
    q = spread * random(seed, 2, groups * kv_heads, q_len, 3)
    k, v = random(seed + 1, 2, kv_heads, kv_len, 3), random(seed + 2, 2, kv_heads, kv_len, 3)
    options = {
        "causal": data.draw(st.sampled_from([False, True, "lower_right"])),
        "scale": data.draw(st.sampled_from([None, 0.0, -0.3, 2.0])),
    }
    sizes = {name: data.draw(st.integers(1, 25)) for name in ("block_q", "block_k")}
    actual = tiled_attention_torch(q, k, v, **options, **sizes)
    expected = reference(q, k, v, **options)
    # Scores near 1e4 are rounded to 1e-12 of themselves before exp sees them.
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10 * max(1.0, spread / 100))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("length", [1, 63, 129])
def test_other_precisions_and_odd_lengths(device, dtype, length):
    q, k, v = (random(seed, 1, 2, length, 16, dtype=dtype).to(device) for seed in range(3))
    actual = tiled_attention_torch(q, k, v, causal=True, block_q=32, block_k=16)
    expected = reference(q, k, v, causal=True)
    assert actual.dtype == dtype and actual.shape == q.shape
    unit = torch.finfo(dtype).eps
    assert (actual.double() - expected).abs().max() <= 4 * unit * max(1.0, expected.abs().max())


def test_large_scores_are_exact():
    scores = torch.tensor([[1e4, -1e4, 1e4 - math.log(3)], [-1e4, -1e4, -1e4]], dtype=torch.float64)
    v = torch.tensor([[1.0], [10.0], [2.0]], dtype=torch.float64)
    whole = identity(2, 1, dtype=torch.float64)
    for key in (1, 2, 0):
        whole = merge(whole, partial(scores[:, key : key + 1], v[key : key + 1]))
    expected = torch.tensor([[(3 * 1 + 1 * 2) / 4], [13 / 3]], dtype=torch.float64)
    torch.testing.assert_close(finish(whole), expected, rtol=1e-11, atol=0)


def test_rows_that_see_nothing_are_zero():
    scores = torch.full((3, 4), float("-inf"))
    whole = merge(partial(scores, torch.ones(4, 2)), partial(scores, torch.ones(4, 2)))
    assert torch.equal(finish(whole), torch.zeros(3, 2)) and torch.equal(whole.l, torch.zeros(3))
    # Lower right with more queries than keys: the first rows see nothing.
    q, k, v = (random(seed, 1, 1, length, 4) for seed, length in enumerate((7, 3, 3)))
    out = tiled_attention_torch(q, k, v, causal="lower_right", block_q=2, block_k=2)
    assert torch.equal(out[0, 0, :4], torch.zeros(4, 4)) and bool((out[0, 0, 4:] != 0).all())


@settings(max_examples=60, deadline=None)
@given(
    q_len=st.integers(1, 20),
    kv_len=st.integers(1, 20),
    block_q=st.integers(1, 9),
    block_k=st.integers(1, 9),
    causal=st.sampled_from([False, True, "lower_right"]),
)
def test_the_states_follow_the_diagonal(q_len, kv_len, block_q, block_k, causal):
    seen = torch.ones(q_len, kv_len, dtype=torch.bool)
    if causal:
        seen = seen.tril(kv_len - q_len if causal == "lower_right" else 0)
    q, k, v = (random(seed, length, 2) for seed, length in enumerate((q_len, kv_len, kv_len)))
    options = {"causal": causal, "block_q": block_q, "block_k": block_k}
    steps = list(tiled_attention_steps(q, k, v, **options))
    places = [(step.query_block, step.key_tile) for step in steps]
    blocks, tiles = -(-q_len // block_q), -(-kv_len // block_k)
    assert places == [(block, tile) for block in range(blocks) for tile in range(tiles)]
    for step in steps:
        tile = seen[step.queries.start : step.queries.stop, step.keys.start : step.keys.stop]
        expected = "computed" if tile.all() else "masked in part" if tile.any() else "skipped"
        assert step.state == expected
        assert torch.equal(step.scores == float("-inf"), ~tile)


def test_a_step_tells_how_the_state_came_about():
    q, k, v = (random(seed, 10, 4) for seed in range(3))
    before = None
    for step in tiled_attention_steps(q, k, v, causal=True, block_q=3, block_k=4):
        if step.key_tile == 0:
            before = identity(len(step.queries), 4, dtype=torch.float64)
        v_tile = v[step.keys.start : step.keys.stop]
        torch.testing.assert_close(step.l, before.l * step.rescale + step.weights.sum(-1))
        torch.testing.assert_close(
            step.acc, before.acc * step.rescale[:, None] + step.weights @ v_tile
        )
        assert torch.equal(step.m, torch.maximum(before.m, step.scores.amax(-1)))
        if step.state == "skipped":
            assert step.running is before and bool((step.rescale == 1).all())
        before = step.running


def test_gradients_are_those_of_the_whole_softmax():
    q, k, v = (random(seed, 1, 1, 9, 3).requires_grad_() for seed in range(3))
    wanted = torch.autograd.grad(reference(q, k, v, causal=True).square().sum(), (q, k, v))
    tiled = tiled_attention_torch(q, k, v, causal=True, block_q=4, block_k=2)
    for actual, expected in zip(
        torch.autograd.grad(tiled.square().sum(), (q, k, v)), wanted, strict=True
    ):
        torch.testing.assert_close(actual, expected)


def test_what_does_not_fit_is_refused_before_the_first_step():
    x = torch.zeros(6, 4)
    for block in (0, -1, 2.0, True, None):
        with pytest.raises(ValueError, match=r"block_k must be a whole number of 1 or more, not"):
            tiled_attention_steps(x, x, x, block_q=2, block_k=block)
    with pytest.raises(ValueError, match="causal='diagonal' is not one of"):
        tiled_attention_steps(x, x, x, block_q=2, block_k=2, causal="diagonal")
    with pytest.raises(TypeError, match="q must be a torch tensor, not list"):
        tiled_attention_steps([1], x, x, block_q=2, block_k=2)
    with pytest.raises(ValueError, match="same shape"):
        tiled_attention_steps(x, x, x[:3], block_q=2, block_k=2)
    four = torch.zeros(1, 2, 6, 4)
    with pytest.raises(ValueError, match="repeat k and v"):
        tiled_attention_steps(four, four[:, :1], four[:, :1], block_q=2, block_k=2)
    with pytest.raises(ValueError, match="2 keys and v_tile"):
        partial(torch.zeros(3, 2), torch.zeros(3, 2))


def test_sums_of_16_bit_scores_are_in_float32():
    keys = 70_000  # more than float16 counts to
    for dtype in (torch.float16, torch.bfloat16):
        v = torch.linspace(0, 1, keys)[:, None].to(dtype)
        one = partial(torch.zeros(2, keys, dtype=dtype), v)
        assert one.l.dtype == one.acc.dtype == one.m.dtype == torch.float32
        assert one.l.tolist() == [keys, keys]
        torch.testing.assert_close(finish(one), v.float().mean(0).expand(2, 1), rtol=1e-4, atol=0)
        empty = partial(torch.zeros(2, 0, dtype=dtype), v[:0])
        assert merge(empty, one).acc.dtype == torch.float32
    assert partial(torch.zeros(1, 2).double(), torch.ones(2, 1).double()).l.dtype == torch.float64


def test_partial_results_that_do_not_fit_are_refused():
    one = partial(torch.zeros(4, 3), torch.ones(3, 2))
    others = {
        "one row": partial(torch.zeros(1, 3), torch.ones(3, 2)),
        "another head_dim": partial(torch.zeros(4, 3), torch.ones(3, 5)),
        "head_dim of 1": partial(torch.zeros(4, 3), torch.ones(3, 1)),
        "more dimensions": partial(torch.zeros(2, 4, 3), torch.ones(2, 3, 2)),
    }
    for other in others.values():
        for pair in ((one, other), (other, one)):
            with pytest.raises(ValueError, match="of other rows or head_dim"):
                merge(*pair)
    for wrong in ((1.0, 2.0), None, torch.zeros(3)):
        with pytest.raises(TypeError, match="a Partial is needed"):
            merge(one, wrong)
        with pytest.raises(TypeError, match="a Partial is needed"):
            finish(wrong)
    with pytest.raises(TypeError, match="scores_tile must be a torch tensor, not list"):
        partial([[1.0]], torch.ones(1, 1))
    with pytest.raises(TypeError, match="v_tile must be a torch tensor, not list"):
        partial(torch.ones(1, 1), [[1.0]])
    with pytest.raises(ValueError, match=r"v_tile has shape \(3,\)"):
        partial(torch.zeros(4, 3), torch.ones(3))
