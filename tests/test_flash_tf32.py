"""flash_triton with precision="tf32": rounded to the nearest, as cuBLAS does it, and not cut."""

import math

import pytest
import torch
from test_flash_triton import problem, with_gradients

from attnlab_helpers.attention import IMPLEMENTATIONS, reference
from attnlab_helpers.attention.flash_triton import flash_triton
from attnlab_helpers.kernels import language
from attnlab_helpers.kernels.flash_tiles import factor
from attnlab_helpers.kernels.language import tl, triton
from attnlab_helpers.kernels.precision import TF32_ENDS, rounded_to_tf32

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CAN_RUN = pytest.mark.skipif(
    language.mode() not in ("compiled", "interpreter"), reason="no kernel can run here"
)


class Product(torch.autograd.Function):
    """a @ b with all factors rounded to tf32, forward and backward, and sums in float32."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return rounded_to_tf32(a) @ rounded_to_tf32(b)

    @staticmethod
    def backward(ctx, grad):
        a, b = map(rounded_to_tf32, ctx.saved_tensors)
        grad = rounded_to_tf32(grad)
        return grad @ b.mT, a.mT @ grad


def plain(q, k, v):
    scores = Product.apply(q, k.mT) / math.sqrt(q.shape[-1])
    return Product.apply(torch.softmax(scores, -1), v)


@CAN_RUN
@pytest.mark.parametrize("head_dim", [64, 111, 128])
def test_its_error_is_at_most_twice_that_of_the_formula_in_tf32(head_dim) -> None:
    (q, k, v), do = problem(1, 2, 300, head_dim, dtype="float32")
    found = with_gradients(flash_triton, (q, k, v), do, precision="tf32")
    expected = with_gradients(reference, (q, k, v), do)
    rounded = with_gradients(plain, (q, k, v), do)
    exact = with_gradients(flash_triton, (q, k, v), do)
    for actual, its, oracle, ieee in zip(found, rounded, expected, exact, strict=True):
        error = (actual.double() - oracle).abs().max()
        assert error <= 2 * (its.double() - oracle).abs().max()
        assert error > 20 * (ieee.double() - oracle).abs().max()  # it is tf32 indeed


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", [64, 111, 128])
def test_its_error_is_at_most_twice_that_of_plain_pytorch(head_dim, record_property) -> None:
    (q, k, v), do = problem(1, 2, 300, head_dim, dtype="float32")
    found = with_gradients(flash_triton, (q, k, v), do, precision="tf32")
    expected = with_gradients(reference, (q, k, v), do)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        naive = with_gradients(IMPLEMENTATIONS["naive"], (q, k, v), do)
    finally:
        torch.set_float32_matmul_precision(before)
    ratios = [
        ((actual.double() - oracle).abs().max() / (its.double() - oracle).abs().max()).item()
        for actual, its, oracle in zip(found, naive, expected, strict=True)
    ]
    record_property("tf32_ratio", max(ratios))
    assert max(ratios) <= 2, ratios


def test_to_the_nearest() -> None:
    x = torch.cat([10 * torch.randn(2000), torch.randn(2000) * 1e-30, torch.randn(2000) * 1e30])
    rounded = rounded_to_tf32(x)
    step = 2.0 ** (torch.floor(torch.log2(x.abs().double())) - 10)
    assert ((rounded.double() / step).frac() == 0).all()
    assert ((rounded.double() - x.double()).abs() <= step / 2).all()
    assert torch.equal(rounded_to_tf32(rounded), rounded)
    largest = torch.finfo(torch.float32).max
    special = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), largest, -largest])
    assert torch.equal(rounded_to_tf32(special), special)
    below = torch.tensor(TF32_ENDS).nextafter(torch.tensor(0.0))  # the largest that is rounded
    assert rounded_to_tf32(below).isfinite() and rounded_to_tf32(below) != below
    # All ones is the NaN that NVIDIA's GPUs make: adding to it would give zero.
    nan = torch.tensor([0x7FFFFFFF, 0x7FC00000, -1], dtype=torch.int32).view(torch.float32)
    assert rounded_to_tf32(nan).isnan().all()


@CAN_RUN
def test_the_kernels_own_rounding_is_the_same() -> None:
    @triton.jit
    def kernel(x, out, PRECISION: tl.constexpr):
        places = tl.arange(0, 1024)
        found = factor(tl.load(x + places), tl.float32, PRECISION)
        tl.store(out + places, found)

    bits = torch.randint(-(2**31), 2**31, (1024,), dtype=torch.int32)  # NaN of all kinds too
    bits[:5] = torch.tensor([0x7FFFFFFF, 0x7F800000, 0x7F7FFFFF, 0x7F7FF000, 0x7F7FEFFF])
    x = bits.view(torch.float32).to(DEVICE)
    out = torch.empty_like(x)
    kernel[(1,)](x, out, PRECISION="tf32")
    expected = rounded_to_tf32(x)
    assert torch.equal(out.isnan(), x.isnan())
    assert torch.equal(out[~x.isnan()], expected[~x.isnan()])
    kernel[(1,)](x, out, PRECISION="ieee")
    assert torch.equal(out[~x.isnan()], x[~x.isnan()])


@CAN_RUN
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_other_dtypes_do_not_mind(dtype) -> None:
    (q, k, v), do = problem(1, 2, 70, 40, dtype=dtype)
    found = with_gradients(flash_triton, (q, k, v), do, precision="tf32")
    expected = with_gradients(flash_triton, (q, k, v), do)
    assert all(map(torch.equal, found, expected))


@CAN_RUN
def test_a_hidden_value_leaves_no_trace_however_large_it_is() -> None:
    (q, k, v), do = problem(1, 1, 70, 32, dtype="float32")
    before = with_gradients(flash_triton, (q, k, v), do, causal=True, precision="tf32")
    v[0, 0, 69] = torch.finfo(torch.float32).max
    after = with_gradients(flash_triton, (q, k, v), do, causal=True, precision="tf32")
    assert torch.equal(before[0][:, :, :69], after[0][:, :, :69])


@CAN_RUN
def test_nan_stays_in_its_row() -> None:
    (q, k, v), _ = problem(1, 1, 70, 64, dtype="float32")
    q[0, 0, 7] = float("nan")
    wrong = flash_triton(q, k, v, precision="tf32").isnan().any(-1)
    assert wrong[0, 0, 7] and wrong.sum() == 1
