"""FlashAttention in Triton against faults that people met in software of its kind.

Cases that do not apply: N01, N03, N39 (it takes no mask, see N32), N35 (there is no dropout), N38
(nothing is done in place), N37 in the interpreter (one program after the other: see the GPU tests).
"""

import concurrent.futures

import pytest
import torch
from test_flash_triton import (
    ALIGNMENTS,
    CAN_RUN,
    COMPILED,
    DEVICE,
    assert_right,
    problem,
    with_gradients,
)

from attnlab_helpers.attention import IMPLEMENTATIONS, UnsupportedProblem, reference
from attnlab_helpers.attention.flash_triton import flash_triton
from attnlab_helpers.problem import AttentionProblem

pytestmark = CAN_RUN


def test_n16_every_tensor_may_have_its_own_strides() -> None:
    # Seeded: with one key for all queries the true dq is zero, and what is left of float16's
    # rounding is a matter of luck, theirs as well as ours.
    torch.manual_seed(0)
    q, k, v = AttentionProblem(2, 4, 62, 40, dtype="float16").tensors(DEVICE)
    do = torch.randn(2, 62, 4, 40, device=DEVICE).half().transpose(1, 2)
    layout = v.transpose(1, 2).contiguous().transpose(1, 2)  # (batch, length, heads, dim)
    columns_first = k.mT.contiguous().mT
    packed = torch.randn(62, 2, 3, 4, 40, device=DEVICE).half().permute(2, 1, 3, 0, 4)
    every_second = torch.randn(2, 4, 124, 80, device=DEVICE).half()[:, :, ::2, 1::2]
    for tensors in (
        (q, k, layout),
        (layout, columns_first, q),
        tuple(packed),
        (every_second, k[:, :1].expand(2, 4, 62, 40), v[:1].expand(2, 4, 62, 40)),
        (q, k[:, :, :1].expand(2, 4, 62, 40), every_second),
    ):
        assert_right(tensors, do, causal=True)


def test_n17_the_gradient_of_the_output_may_have_any_strides() -> None:
    (q, k, v), do = problem(1, 4, 4, 64, kv_len=1, dtype="float16")
    for gradient in (
        do.transpose(1, 2).contiguous().transpose(1, 2),
        do.mT.contiguous().mT,
        torch.ones((), dtype=q.dtype, device=DEVICE).expand(q.shape),
        do[:, :, :1].expand(q.shape),
    ):
        assert_right((q, k, v), gradient)


def test_n08_backward_follows_causal() -> None:
    tensors, do = problem(1, 1, 40, 16, dtype="float32")
    full, causal = (
        with_gradients(flash_triton, tensors, do, causal=causal) for causal in (False, True)
    )
    for one, other in zip(full, causal, strict=True):
        assert not torch.allclose(one, other)


def test_n05_alignment_is_a_named_choice() -> None:
    q, k, v = AttentionProblem(1, 4, 1, 64, kv_len=16, dtype="float32").tensors(DEVICE)
    torch.testing.assert_close(flash_triton(q, k, v, causal=True), v[:, :, :1])
    everything = flash_triton(q, k, v, causal="lower_right")
    torch.testing.assert_close(everything, flash_triton(q, k, v))


def test_n09_a_decode_step() -> None:
    tensors, do = problem(1, 32, 1, 128, kv_len=20, dtype="bfloat16")
    assert_right(tensors, do, causal="lower_right")


@pytest.mark.parametrize("length", range(1, 9))
def test_n10_short_sequences(length) -> None:
    assert_right(*problem(1, 1, length, 16, dtype="float32"), causal=True)


@pytest.mark.parametrize("length", [255, 256, 257])
def test_n11_lengths_around_a_tile(length) -> None:
    assert_right(*problem(1, 1, length, 64, dtype="bfloat16"), causal=True)


def test_n20_more_heads_than_a_grid_axis_holds_are_one_axis_here() -> None:
    # The grid has one axis, x, which goes to 2^31 - 1; the GPU test launches 65,536 of them.
    (q, k, v), do = problem(8, 3, 2, 16, dtype="float32")
    assert_right((q, k, v), do)


@pytest.mark.parametrize(("heads", "kv_heads"), [(3, 2), (33, 2)])
def test_n23_heads_that_cannot_be_shared_out_are_refused(heads, kv_heads) -> None:
    q, k = torch.randn(1, heads, 4, 8), torch.randn(1, kv_heads, 4, 8)
    with pytest.raises(ValueError, match="must divide"):
        flash_triton(q, k, k)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_n24_large_logits(dtype) -> None:
    q, k, v = AttentionProblem(1, 1, 64, 64, dtype="float32").tensors(DEVICE)
    q, k = (q * (576 / q.abs().max())).to(dtype), (k * (382.75 / k.abs().max())).to(dtype)
    v = v.to(dtype)
    found = with_gradients(flash_triton, (q, k, v), torch.ones_like(v))
    assert all(torch.isfinite(tensor).all() for tensor in found)
    error = (found[0].double() - reference(q, k, v)).abs().max()
    assert error <= 2e-2 if dtype == torch.bfloat16 else error <= 2e-3


def test_n27_all_of_head_dim_counts() -> None:
    q, k, v = AttentionProblem(1, 2, 70, 128, dtype="float32").tensors(DEVICE)
    q[..., :64] = 0
    do = torch.randn(v.shape, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    assert_right((q, k, v), do)


@pytest.mark.parametrize("length", [127, 129])
def test_n29_sizes_that_are_no_power_of_two(length) -> None:
    assert_right(*problem(1, 2, length, 63, dtype="float16"))


def test_n32_float64_and_masks_are_refused_with_what_to_use_instead() -> None:
    q = torch.randn(1, 1, 4, 16, dtype=torch.float64, device=DEVICE)
    with pytest.raises(UnsupportedProblem, match=r"not torch.float64.*sdpa_auto can"):
        flash_triton(q, q, q)
    q = q.float()
    with pytest.raises(UnsupportedProblem, match=r"no mask.*sdpa_auto can"):
        flash_triton(q, q, q, mask=torch.ones(4, 4, dtype=torch.bool, device=DEVICE))
    with pytest.raises(ValueError, match="broadcast"):  # wrong everywhere, not only here
        flash_triton(q, q, q, mask=torch.ones(3, 3, dtype=torch.bool, device=DEVICE))
    wide = torch.randn(1, 1, 4, 264, device=DEVICE)
    with pytest.raises(UnsupportedProblem, match="up to 256"):
        flash_triton(wide, wide, wide)
    with pytest.raises(ValueError, match="'ieee', 'tf32'"):
        flash_triton(q, q, q, precision="tf64")


@pytest.mark.parametrize(
    "shape", [(0, 0, 2, 0), (0, 2, 3, 4), (1, 2, 0, 4), (1, 0, 3, 4), (1, 2, 3, 0)]
)
def test_n33_empty_problems_have_empty_results_and_gradients(shape) -> None:
    q = torch.randn(shape, dtype=torch.bfloat16, device=DEVICE, requires_grad=True)
    for causal in ALIGNMENTS:
        out, lse = flash_triton(q, q, q, causal=causal, return_lse=True)
        assert out.shape == q.shape and lse.shape == shape[:3]
        (gradient,) = torch.autograd.grad(out.sum(), q)
        assert gradient.shape == q.shape


def test_s17_strongly_negative_scores_leave_gradients_finite() -> None:
    q, k, v = AttentionProblem(1, 2, 1, 64, kv_len=100, dtype="bfloat16").tensors(DEVICE)
    q, k = q.abs() * 20, -k.abs() * 20
    found = with_gradients(flash_triton, (q, k, v), torch.ones_like(q))
    assert all(torch.isfinite(tensor).all() for tensor in found)
    assert found[3].any()


@CAN_RUN
def test_a_sign_that_pytorch_keeps_in_a_flag_is_seen() -> None:
    flagged = torch.randn(3, 1, 2, 20, 16, dtype=torch.complex64, device=DEVICE).conj().imag
    assert flagged.is_neg()
    do = torch.randn(1, 2, 20, 16, dtype=torch.complex64, device=DEVICE).conj().imag
    leaves = [tensor.detach() for tensor in flagged]
    assert_right(leaves, do, causal=True)


@CAN_RUN
@pytest.mark.skipif(COMPILED, reason="autocast on the CPU")
def test_autocast_lowers_float32_as_pytorchs_attention_does() -> None:
    q, k, v = AttentionProblem(1, 2, 20, 16, dtype="float32").tensors("cpu")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = flash_triton(q, k, v)
        theirs = IMPLEMENTATIONS["sdpa_auto"](q, k, v)
    assert found.dtype == theirs.dtype == torch.bfloat16
    lowered = flash_triton(*(tensor.bfloat16() for tensor in (q, k, v)))
    assert torch.equal(found, lowered)


@CAN_RUN
def test_several_threads_may_call_it() -> None:
    q, k, v = AttentionProblem(1, 2, 40, 16, dtype="float32").tensors(DEVICE)
    alone = flash_triton(q, k, v, causal=True)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: flash_triton(q, k, v, causal=True), range(8)))
    assert all(torch.equal(one, alone) for one in found)
