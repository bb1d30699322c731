"""The first Triton kernel against the float64 oracle, in the interpreter and on a GPU."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sums_in_order import plain_in_order

from attnlab_helpers.attention import IMPLEMENTATIONS, UnsupportedProblem, reference, tiled
from attnlab_helpers.attention.tiled import tiled_attention
from attnlab_helpers.kernels import language
from attnlab_helpers.kernels.errors import KernelCannotRun
from attnlab_helpers.kernels.tiled_attention import default_block
from attnlab_helpers.problem import AttentionProblem

CAN_RUN = pytest.mark.skipif(
    language.mode() not in ("compiled", "interpreter"), reason="no kernel can run here"
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
UNIT_ROUNDOFF = {torch.float32: 2**-24, torch.float16: 2**-11, torch.bfloat16: 2**-8}
ALIGNMENTS = [False, True, "lower_right"]


def assert_close_to_oracle(q, k, v, *, block_q=None, block_k=None, **options) -> None:
    actual, lse = tiled_attention(
        q, k, v, block_q=block_q, block_k=block_k, return_lse=True, **options
    )
    expected = reference(q, k, v, **options)
    assert actual.shape == expected.shape and actual.dtype == q.dtype
    assert lse.shape == q.shape[:3] and lse.dtype == torch.float32
    assert torch.isfinite(actual).all()
    if expected.numel():
        error = (actual.double() - expected).abs().max().item()
        naive = IMPLEMENTATIONS["naive"](q, k, v, **options)
        allowed = (naive.double() - expected).abs().max().item()
        floor = UNIT_ROUNDOFF[q.dtype] * expected.abs().max().item()
        assert error <= 2 * allowed + floor, f"error {error:.3g}, naive {allowed:.3g}"
    torch.testing.assert_close(
        lse.double(), expected_lse(q, k, **options), rtol=1e-5, atol=1e-5, check_device=False
    )


def expected_lse(q, k, *, causal=False, scale=None):
    """log(sum(exp(scores))) over the visible keys, in float64; -inf where there is none."""
    scale = q.shape[3] ** -0.5 if scale is None else scale
    keys = k.double().repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    scores = q.double() @ keys.mT * scale
    if causal:
        shift = k.shape[2] - q.shape[2] if causal == "lower_right" else 0
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1 + shift)
        scores = scores.masked_fill(hidden.to(q.device), float("-inf"))
    return scores.logsumexp(-1) if k.shape[2] else scores.new_full(q.shape[:3], float("-inf"))


@CAN_RUN
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("causal", ALIGNMENTS)
@pytest.mark.parametrize("length", [1, 17, 127, 129])
def test_odd_lengths(dtype, causal, length) -> None:
    problem = AttentionProblem(1, 1, length, 40, dtype=dtype)
    assert_close_to_oracle(*problem.tensors(DEVICE, seed=length), causal=causal)


@CAN_RUN
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_problem(data) -> None:
    kv_heads, groups = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 3))
    problem = AttentionProblem(
        data.draw(st.integers(0, 2)),
        kv_heads * groups,
        data.draw(st.integers(0, 40)),
        data.draw(st.sampled_from([1, 3, 8, 16, 59])),
        kv_len=data.draw(st.integers(0, 40)),
        kv_heads=kv_heads,
        dtype=data.draw(st.sampled_from(["float32", "float16", "bfloat16"])),
        scale=data.draw(st.sampled_from([None, 0.0, -0.3, 2.0])),
    )
    q, k, v = problem.tensors(DEVICE, seed=data.draw(st.integers(0, 99)))
    blocks = {name: data.draw(st.sampled_from([16, 32])) for name in ("block_q", "block_k")}
    causal = data.draw(st.sampled_from(ALIGNMENTS))
    assert_close_to_oracle(q, k, v, causal=causal, scale=problem.scale, **blocks)


@CAN_RUN
@pytest.mark.parametrize("causal", [True, "lower_right"])
def test_a_future_token_changes_nothing(causal) -> None:
    q, k, v = AttentionProblem(1, 1, 40, 16, dtype="float32").tensors(DEVICE)
    before = tiled_attention(q, k, v, causal=causal, block_q=16, block_k=16)
    for row in (0, 15, 16, 38):
        k_new, v_new = k.clone(), v.clone()
        k_new[:, :, row + 1 :] *= -9
        v_new[:, :, row + 1 :] *= -9
        after = tiled_attention(q, k_new, v_new, causal=causal, block_q=16, block_k=16)
        assert torch.equal(before[:, :, : row + 1], after[:, :, : row + 1])
        assert not torch.equal(before[:, :, row + 1 :], after[:, :, row + 1 :])


@CAN_RUN
@pytest.mark.parametrize("causal", ALIGNMENTS)
def test_tile_sizes_change_nothing_but_rounding(causal) -> None:
    q, k, v = AttentionProblem(1, 2, 50, 16, kv_len=70, dtype="float32").tensors(DEVICE)
    expected = tiled_attention(q, k, v, causal=causal)
    for block_q, block_k in ((16, 16), (16, 128), (128, 16), (32, 64)):
        actual = tiled_attention(q, k, v, causal=causal, block_q=block_q, block_k=block_k)
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


@CAN_RUN
def test_rows_of_weights_sum_to_one() -> None:
    q, k, _ = AttentionProblem(2, 2, 37, 16, dtype="float32").tensors(DEVICE)
    rows = tiled_attention(q * 5, k, torch.ones_like(k), causal=True, block_q=16, block_k=16)
    torch.testing.assert_close(rows, torch.ones_like(q))


@CAN_RUN
def test_n01_queries_that_see_no_key_are_zero_with_a_logarithm_of_minus_infinity() -> None:
    q, k, v = AttentionProblem(1, 2, 40, 16, kv_len=3, dtype="float32").tensors(DEVICE)
    out, lse = tiled_attention(
        q, k, v, causal="lower_right", block_q=16, block_k=16, return_lse=True
    )
    assert torch.equal(out[:, :, :37], torch.zeros_like(out[:, :, :37]))
    assert (lse[:, :, :37] == float("-inf")).all() and torch.isfinite(lse[:, :, 37:]).all()
    assert_close_to_oracle(q, k, v, causal="lower_right")


@CAN_RUN
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_n24_large_logits_stay_finite_and_exact(dtype) -> None:
    q, k, v = AttentionProblem(1, 1, 40, 64, dtype="float32").tensors(DEVICE)
    q, k = q * (576 / q.abs().max()), k * (382.75 / k.abs().max())
    q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    # Scores of 10^5 leave float32 about 0.01 of absolute precision; in float16 `naive` is lost.
    actual = tiled_attention(q, k, v, block_q=16, block_k=16)
    torch.testing.assert_close(actual.double(), reference(q, k, v), rtol=0.05, atol=0.05)


@CAN_RUN
def test_n16_every_tensor_may_have_its_own_strides() -> None:
    q, k, v = AttentionProblem(2, 4, 20, 24, dtype="float32").tensors(DEVICE)
    by_row = v.transpose(1, 2).contiguous().transpose(1, 2)
    by_column = k.mT.contiguous().mT
    padded = torch.zeros(2, 4, 25, 30, device=DEVICE)[:, :, 3:23, 5:29].copy_(q)
    expanded = k[:, :1].expand_as(k)
    for others in (
        (padded, by_column, by_row),
        (q, expanded, v),
        (q.flip(2), k[:, ::2], v[:, 1::2]),
    ):
        assert_close_to_oracle(*others, causal=True, block_q=16, block_k=16)


@CAN_RUN
@pytest.mark.parametrize("shape", [(0, 2, 3, 4), (1, 2, 0, 4), (1, 0, 3, 4), (1, 2, 3, 0)])
def test_n33_empty_problems_have_empty_results(shape) -> None:
    q = torch.randn(shape, dtype=torch.bfloat16, device=DEVICE)
    for causal in ALIGNMENTS:
        out, lse = tiled_attention(q, q, q, causal=causal, return_lse=True)
        assert out.shape == q.shape and lse.shape == q.shape[:3]


def test_what_it_cannot_do_is_refused_before_a_launch(monkeypatch) -> None:
    monkeypatch.setattr(tiled, "launch_tiled_attention", lambda *_, **__: pytest.fail("launched"))
    q = torch.randn(1, 2, 4, 16, device=DEVICE)
    mask = torch.ones(4, 4, dtype=torch.bool, device=DEVICE)
    wide = torch.randn(1, 1, 4, 257, device=DEVICE)
    wanting = q.clone().requires_grad_()
    for refused, why in (
        (lambda: tiled_attention(q.double(), q.double(), q.double()), "float64"),
        (lambda: tiled_attention(q, q, q, mask=mask), "mask"),
        (lambda: tiled_attention(wide, wide, wide), "257"),
        (lambda: tiled_attention(q, wanting, q), "no_grad"),
    ):
        with pytest.raises(UnsupportedProblem, match=why):
            refused()
    for block in (8, 48, 0, True, 16.0):
        with pytest.raises(ValueError, match="block_k must be a power of two"):
            tiled_attention(q, q, q, block_k=block)
    with pytest.raises(ValueError, match="finite"):
        tiled_attention(q, q, q, scale=float("nan"))
    with pytest.raises(ValueError, match="must divide"):
        tiled_attention(q[:, [0, 1, 0]], q, q)


@CAN_RUN
def test_gradients_that_nobody_asks_for_are_no_reason_to_refuse() -> None:
    q = torch.randn(1, 1, 4, 16, device=DEVICE, requires_grad=True)
    with torch.no_grad():
        assert_close_to_oracle(q, q, q)


def test_where_no_kernel_can_run_the_call_says_so(monkeypatch) -> None:
    def refuse() -> None:
        raise KernelCannotRun("restart")

    monkeypatch.setattr(tiled, "check_can_run", refuse)
    q = torch.randn(1, 1, 4, 16)
    with pytest.raises(KernelCannotRun):
        tiled_attention(q, q, q)


def test_tiles_that_do_not_fit_are_refused_with_what_to_do(monkeypatch) -> None:
    class OutOfResources(Exception):
        pass

    def refuse(*_, **__) -> None:
        raise OutOfResources("shared memory")

    monkeypatch.setattr(tiled, "launch_tiled_attention", refuse)
    monkeypatch.setattr(tiled, "check_can_run", lambda: None)
    monkeypatch.setattr(tiled, "mode", lambda: "interpreter")
    q = torch.randn(1, 1, 4, 16)
    with pytest.raises(UnsupportedProblem, match=r"block_q=64 and block_k=128 .* Take smaller"):
        tiled_attention(q, q, q, block_k=128)


def test_default_tiles_take_at_most_16_kib() -> None:
    for dtype in (torch.float16, torch.float32):
        for head_dim in (1, 16, 40, 64, 96, 128, 200, 256):
            rows = default_block(head_dim, dtype)
            padded = max(16, 1 << (head_dim - 1).bit_length())
            assert rows in (16, 32, 64) and rows * padded * dtype.itemsize <= 16 * 1024
    assert default_block(64, torch.bfloat16) == default_block(128, torch.float16) == 64


def over_alignments(length, head_dim, dtype) -> None:
    problem = AttentionProblem(2, 4, length, head_dim, kv_heads=2, dtype=dtype)
    for causal in ALIGNMENTS:
        for kv_len in (length, 200):
            one = dataclasses.replace(problem, kv_len=kv_len)
            assert_close_to_oracle(*one.tensors("cuda", seed=length), causal=causal)


@pytest.mark.gpu
@CAN_RUN
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("head_dim", [16, 40, 64, 96, 128, 256])
def test_compiled_over_lengths_and_head_dims(dtype, head_dim) -> None:
    for length in (17, 127, 129, 1025) if dtype == "float32" else (1, 17, 127, 129, 1025):
        over_alignments(length, head_dim, dtype)


@pytest.mark.gpu
@CAN_RUN
@pytest.mark.xfail(reason="PyTorch adds in a tree there (H200: all six): see sums_in_order")
@pytest.mark.parametrize("head_dim", [16, 40, 64, 96, 128, 256])
def test_one_query_in_float32_is_as_exact_as_naive(head_dim) -> None:
    over_alignments(1, head_dim, "float32")


@pytest.mark.gpu
@CAN_RUN
@pytest.mark.parametrize("kv_len", [1, 17, 200, 1025])
@pytest.mark.parametrize("head_dim", [16, 40, 64, 96, 128, 256])
def test_one_query_in_float32_is_as_exact_as_sums_in_order(head_dim, kv_len) -> None:
    problem = AttentionProblem(2, 4, 1, head_dim, kv_len=kv_len, kv_heads=2, dtype="float32")
    q, k, v = problem.tensors(DEVICE, seed=1)
    expected = reference(q, k, v)
    error = (tiled_attention(q, k, v).double() - expected).abs().max()
    allowed = (plain_in_order(q, k, v).double() - expected).abs().max()
    assert error <= 2 * allowed + UNIT_ROUNDOFF[q.dtype] * expected.abs().max()


@pytest.mark.gpu
@CAN_RUN
def test_compiled_offsets_pass_two_to_the_31() -> None:
    if torch.cuda.mem_get_info()[0] < 30 * 2**30:
        pytest.skip("needs 30 GB of GPU memory")
    big = torch.empty(2**31 + 2**24, dtype=torch.float16, device="cuda")
    # Rows lie 2^24 elements apart: the last of 129 begins at element 2^31.
    k = big.as_strided((1, 1, 129, 64), (1, 1, 2**24, 1)).copy_(torch.randn(1, 1, 129, 64))
    q = torch.randn(1, 1, 129, 64, dtype=torch.float16, device="cuda")
    assert_close_to_oracle(q, k, q)
    assert_close_to_oracle(k, q, k)


@pytest.mark.gpu
@CAN_RUN
def test_compiled_more_than_65535_heads() -> None:
    q, k, v = AttentionProblem(2, 33_000, 17, 16, dtype="float16").tensors("cuda")
    assert_close_to_oracle(q, k, v, causal=True)


@pytest.mark.parametrize(
    ("capability", "dtype", "why"),
    [
        ((7, 0), torch.float16, "7.5 and newer, and this card has 7.0"),
        ((7, 5), torch.bfloat16, "use float16"),
    ],
)
def test_t11_an_old_card_is_refused_before_a_launch(capability, dtype, why, monkeypatch) -> None:
    class OnGpu(torch.Tensor):
        is_cuda = True

    monkeypatch.setattr(tiled, "mode", lambda: "compiled")
    monkeypatch.setattr(tiled, "check_can_run", lambda: None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(tiled, "launch_tiled_attention", lambda *_, **__: pytest.fail("launched"))
    q = torch.randn(1, 1, 4, 16).to(dtype).as_subclass(OnGpu)
    with pytest.raises(UnsupportedProblem, match=why):
        tiled_attention(q, q, q)
