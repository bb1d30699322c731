"""The kernels for Hopper against the float64 oracle without a GPU: see gluon_on_the_cpu.py."""

import math

import hypothesis.strategies as st
import pytest
import torch
from gluon_on_the_cpu import Barrier, Descriptor, Pointer, Stuck, World
from hypothesis import given, settings
from test_flash_triton import UNIT_ROUNDOFF, plain_pytorch

from attnlab_helpers.attention import reference
from attnlab_helpers.kernels.flash_launch import LOG2_E, offset_of
from attnlab_helpers.kernels.tiles import how_many, padded

BLOCK_Q, GROUP_Q = 128, 64
STAGES = {("forward", 64): 3, ("forward", 128): 2, ("dq", 64): 4, ("dq", 128): 4}


def computed(q, k, v, do, causal, scale, programs, at_once=2):
    """(out, lse in powers of two, dq) by the kernels' own source."""
    batch, heads, q_len, head_dim = q.shape
    kv_heads, kv_len = k.shape[1:3]
    block_d, q_blocks = padded(head_dim), how_many(q_len, BLOCK_Q)
    all_blocks = q_blocks * batch * heads
    programs = min(programs, how_many(all_blocks, 2 if causal else 1))
    sizes = (all_blocks, heads, batch * heads, heads // kv_heads, at_once, q_len, kv_len, q_blocks)
    out, dq = (torch.full_like(q, math.nan) for _ in range(2))
    lse = torch.full(q.shape[:3], math.nan)
    offset, powers = offset_of(q_len, kv_len, causal), scale * LOG2_E

    def sources(rows):
        groups = [Descriptor(x, GROUP_Q, block_d) for x in (q, do, out, dq)]
        return groups, [Descriptor(x, rows, block_d) for x in (k, v)]

    (q_source, _, out_target, _), keys = sources(128)
    constants = {"CAUSAL": bool(causal), "BLOCK_D": block_d}
    World().launch(
        "flash_hopper", programs, q_source, *keys, out_target, Pointer(lse), *sizes, powers, offset,
        BLOCK_K=128, STAGES=STAGES["forward", block_d], **constants,
    )  # fmt: skip
    padded_len = how_many(q_len, 128) * 128
    shift = torch.full((batch * heads, padded_len), math.inf)
    delta = torch.zeros_like(shift)
    statistic = torch.where(lse == -math.inf, math.inf, lse)
    shift[:, :q_len] = statistic.reshape(-1, q_len)
    delta[:, :q_len] = (out.float() * do.float()).sum(-1).reshape(-1, q_len)
    (q_source, do_source, _, dq_target), keys = sources(64)
    World().launch(
        "flash_hopper_dq", programs, q_source, *keys, do_source, dq_target, Pointer(shift),
        Pointer(delta), *sizes, padded_len, scale, powers, offset,
        BLOCK_K=64, STAGES=STAGES["dq", block_d], AHEAD=2 if block_d == 64 else 1, **constants,
    )  # fmt: skip
    return out, lse, dq


def with_dq(function, q, k, v, do, options):
    leaf = q.clone().requires_grad_()
    out = function(leaf, k, v, **options)
    return out.detach(), *torch.autograd.grad(out, leaf, do)


def assert_right(shape, kv_heads, kv_len, causal, programs, seed=0, scale=None, **options):
    batch, heads, q_len, head_dim = shape
    generator = torch.Generator().manual_seed(seed)
    draw = [(batch, heads, q_len), (batch, heads, q_len), *[(batch, kv_heads, kv_len)] * 2]
    q, do, k, v = (
        torch.randn(*one, head_dim, generator=generator).to(torch.float16) for one in draw
    )
    scale = head_dim**-0.5 if scale is None else scale
    out, lse, dq = computed(q, k, v, do, causal, scale, programs, **options)
    options = {"causal": causal, "scale": scale}
    expected = with_dq(reference, q.double(), k.double(), v.double(), do.double(), options)
    plain = with_dq(plain_pytorch, q, k, v, do, options)
    rounded = 0.0
    for found, oracle, theirs in zip((out, dq), expected, plain, strict=True):
        assert torch.isfinite(found).all()
        error = (found.double() - oracle).abs().max().item()
        allowed = 2 * (theirs.double() - oracle).abs().max().item()
        # As in test_flash_triton: rounding the largest number, and terms that cancel.
        terms = max(x.abs().max().item() for x in (q, k, v, do, oracle)) ** 2
        floor = UNIT_ROUNDOFF[q.dtype] * oracle.abs().max().item() + 8 * 2**-24 * terms
        assert error <= allowed + floor + rounded
        # The kernel takes delta from the rounded result; a row's weights sum to one.
        products = (do.double() * expected[0]).abs().sum(-1).max().item()
        rounded = UNIT_ROUNDOFF[q.dtype] * products * scale * k.abs().max().item()
    seen = torch.full((q_len,), kv_len)
    if causal:
        offset = offset_of(q_len, kv_len, causal)
        seen = (torch.arange(q_len) + 1 + offset).clamp(0, kv_len)
    assert torch.equal(lse == -math.inf, (seen == 0).expand_as(lse))


@pytest.mark.parametrize("causal", [False, True, "lower_right"])
@pytest.mark.parametrize(
    ("shape", "kv_heads", "kv_len"),
    [
        ((2, 6, 300, 64), 2, 400),  # grouped heads, keys for three queries each
        ((1, 4, 130, 128), 1, 77),  # lower right: the first 53 queries see no key
        ((1, 2, 400, 80), 2, 130),  # and here whole blocks of them
        ((3, 1, 1, 64), 1, 500),
        ((1, 3, 650, 128), 3, 650),
    ],
)
def test_results_statistics_and_dq(shape, kv_heads, kv_len, causal) -> None:
    assert_right(shape, kv_heads, kv_len, causal, programs=3)


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_any_shape_any_number_of_programs(data) -> None:
    kv_heads, groups = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    shape = (data.draw(st.integers(1, 2)), kv_heads * groups, data.draw(st.integers(1, 300)), 64)
    assert_right(
        shape,
        kv_heads,
        data.draw(st.integers(1, 300)),
        data.draw(st.sampled_from([False, True, "lower_right"])),
        programs=data.draw(st.integers(1, 5)),
        at_once=data.draw(st.integers(1, shape[0] * shape[1])),
        seed=data.draw(st.integers(0, 99)),
    )


def test_keys_that_nobody_sees_may_be_nan() -> None:
    """The first block of queries sees no key, and its tile is multiplied all the same."""
    q, do = torch.randn(2, 1, 2, 300, 64).half()
    k, v = torch.randn(2, 1, 2, 100, 64).half()
    k[:], v[:] = math.nan, math.nan
    out, lse, dq = computed(q, k, v, do, "lower_right", 0.1, programs=2)
    assert (out[:, :, :200] == 0).all() and (dq[:, :, :200] == 0).all()
    assert (lse[:, :, :200] == -math.inf).all() and out[:, :, 200:].isnan().all()


def test_the_imitation_notices_a_deadlock_and_a_tile_too_many(monkeypatch) -> None:
    world = World()
    barrier = Barrier(world)
    barrier.init(1)
    monkeypatch.setattr("gluon_on_the_cpu.PATIENCE", 0.1)
    with pytest.raises(Stuck):
        barrier.wait(0)
    barrier.change(1, 0)
    barrier.wait(0)  # that phase is over now
    with pytest.raises(Stuck):
        barrier.wait(1)
    barrier.change(0, 64)  # bytes are expected, and one arrival is missing
    barrier.change(1, 0)
    with pytest.raises(Stuck):
        barrier.wait(1)
    barrier.change(0, -64)
    barrier.wait(1)
