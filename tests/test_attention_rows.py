"""Rows of the attention matrix, rebuilt from the log-sum-exp: against the softmax in float64."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab_helpers.attention.attention_rows import attention_rows
from attnlab_helpers.attention.flash_triton import flash_triton
from attnlab_helpers.kernels import language
from attnlab_helpers.problem import AttentionProblem

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CAN_RUN = pytest.mark.skipif(
    language.mode() not in ("compiled", "interpreter"), reason="no kernel can run here"
)


def softmax(q, k, causal=False, scale=None):
    """(weights, log-sum-exp) in float64; rows that see no key are zero and minus infinity."""
    scale = q.shape[3] ** -0.5 if scale is None else scale
    keys = k.double().repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    scores = q.double() @ keys.mT * scale
    if causal:
        shift = k.shape[2] - q.shape[2] if causal == "lower_right" else 0
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1 + shift)
        scores = scores.masked_fill(future, float("-inf"))
    return scores.softmax(-1).nan_to_num(0.0), scores.logsumexp(-1)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_rows_are_the_softmaxs_rows(data) -> None:
    kv_heads, groups = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 3))
    q_len = data.draw(st.integers(1, 20))
    problem = AttentionProblem(
        data.draw(st.integers(1, 2)),
        kv_heads * groups,
        q_len,
        data.draw(st.sampled_from([1, 3, 16])),
        kv_len=data.draw(st.integers(1, 20)),
        kv_heads=kv_heads,
        dtype=data.draw(st.sampled_from(["float64", "float32", "bfloat16"])),
    )
    q, k, _ = problem.tensors("cpu", seed=data.draw(st.integers(0, 99)))
    options = {
        "causal": data.draw(st.sampled_from([False, True, "lower_right"])),
        "scale": data.draw(st.sampled_from([None, 0.0, -0.3, 2.0])),
    }
    weights, lse = softmax(q, k, **options)
    rows = data.draw(st.lists(st.integers(-q_len, q_len - 1), max_size=4))
    found = attention_rows(q, k, lse, rows, **options)
    exact = q.dtype == torch.float64
    assert found.dtype == (torch.float64 if exact else torch.float32)
    close = 1e-12 if exact else 1e-4
    torch.testing.assert_close(found.double(), weights[:, :, rows], rtol=close, atol=close)
    whole = attention_rows(q, k, lse, **options)
    torch.testing.assert_close(whole[:, :, rows], found)


@CAN_RUN
@pytest.mark.parametrize("causal", [False, True, "lower_right"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rows_under_the_fused_kernel_sum_to_one(dtype, causal) -> None:
    """Nothing is normalised, so that the sum is a test of the kernel's own statistic."""
    problem = AttentionProblem(1, 4, 70, 40, kv_len=90, kv_heads=2, dtype=dtype)
    q, k, v = problem.tensors(DEVICE)
    out, lse = flash_triton(q, k, v, causal=causal, return_lse=True)
    rows = attention_rows(q, k, lse, causal=causal)
    torch.testing.assert_close(rows.sum(-1), torch.ones_like(lse), rtol=0, atol=1e-5)
    torch.testing.assert_close(rows.double(), softmax(q, k, causal)[0], rtol=2e-5, atol=1e-7)
    values = v.float().repeat_interleave(2, dim=1)
    close = 2e-3 if dtype == "float16" else 1e-5
    torch.testing.assert_close(out.float(), rows @ values, rtol=close, atol=close)


def test_another_lse_shows() -> None:
    q, k, _ = AttentionProblem(1, 1, 8, 16, dtype="float32").tensors("cpu")
    lse = softmax(q, k)[1].float()
    sums = attention_rows(q, k, lse + math.log(2)).sum(-1)
    torch.testing.assert_close(sums, torch.full_like(sums, 0.5))


def test_queries_that_see_no_key_have_zeros() -> None:
    q, k, _ = AttentionProblem(1, 1, 5, 16, kv_len=2, dtype="float32").tensors("cpu")
    lse = softmax(q, k, "lower_right")[1]
    rows = attention_rows(q, k, lse, causal="lower_right")
    assert (rows[:, :, :3] == 0).all() and torch.isfinite(rows).all()


@pytest.mark.parametrize(
    ("rows", "error", "word"),
    [
        ([8], IndexError, "rows 0 to 7"),
        ([-9], IndexError, "no row -9"),
        ([0.5], TypeError, "whole numbers"),
        ([True], TypeError, "whole numbers"),
        (3, TypeError, "list"),
    ],
)
def test_rows_that_are_not_there_are_refused(rows, error, word) -> None:
    q, k, _ = AttentionProblem(1, 1, 8, 16, dtype="float32").tensors("cpu")
    with pytest.raises(error, match=word):
        attention_rows(q, k, torch.zeros(1, 1, 8), rows)


def test_an_lse_that_does_not_fit_is_refused() -> None:
    q, k, _ = AttentionProblem(1, 2, 8, 16, dtype="float32").tensors("cpu")
    with pytest.raises(ValueError, match="one number a query"):
        attention_rows(q, k, torch.zeros(1, 8))
    with pytest.raises(TypeError, match="torch tensor"):
        attention_rows(q, k, [0.0])
    with pytest.raises(ValueError, match="floating-point"):
        attention_rows(q, k, torch.zeros(1, 2, 8, dtype=torch.int64))
    with pytest.raises(ValueError, match="scale"):
        attention_rows(q, k, torch.zeros(1, 2, 8), scale=float("nan"))
