"""FlashAttention in Triton against the float64 oracle: results, gradients, and faults of the field.

Runs in the interpreter without a GPU, compiled with one. The large grid is in test_flash_gpu.py.
"""

import math
import subprocess
import sys

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attnlab_helpers.attention import UnsupportedProblem, reference
from attnlab_helpers.attention.flash_triton import FLASH_TRITON, flash_triton
from attnlab_helpers.kernels import language
from attnlab_helpers.problem import AttentionProblem
from attnlab_helpers.triton_support import triton_refusal

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
COMPILED = language.mode() == "compiled"
CAN_RUN = pytest.mark.skipif(
    language.mode() not in ("compiled", "interpreter"), reason="no kernel can run here"
)
pytestmark = CAN_RUN
ALIGNMENTS = [False, True, "lower_right"]
UNIT_ROUNDOFF = {torch.float32: 2**-24, torch.float16: 2**-11, torch.bfloat16: 2**-8}


def plain_pytorch(q, k, v, causal=False, scale=None):
    """The formula in the same precision, as PyTorch's users write it: its error is the measure."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = torch.matmul(q * scale, k.mT)
    if causal:
        diagonal = k.shape[2] - q.shape[2] if causal == "lower_right" else 0
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1 + diagonal)
        # A row that sees nothing is spared here and cleared behind: no NaN on the way.
        scores = scores.masked_fill(hidden & ~hidden.all(-1, keepdim=True), float("-inf"))
        weights = scores.softmax(-1).masked_fill(hidden.all(-1, keepdim=True), 0.0)
    else:
        weights = scores.softmax(-1)
    return weights @ v


def with_gradients(function, tensors, do, **options):
    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
    out = function(*leaves, **options)
    return (out, *torch.autograd.grad(out, leaves, do.to(out.dtype)))


def error_ratios(tensors, do, function=flash_triton, **options):
    """Result and three gradients: error over what is allowed (at most 1 is right)."""
    actual = with_gradients(function, tensors, do, **options)
    options = {name: options[name] for name in ("causal", "scale") if name in options}
    expected = with_gradients(reference, tensors, do, **options)
    plain = with_gradients(plain_pytorch, tensors, do, **options)
    ratios = []
    for ours, oracle, theirs in zip(actual, expected, plain, strict=True):
        assert ours.shape == oracle.shape and ours.dtype == tensors[0].dtype
        assert torch.isfinite(ours).all()
        if not oracle.numel():
            continue
        error = (ours.double() - oracle).abs().max().item()
        allowed = 2 * (theirs.double() - oracle).abs().max().item()
        # Rounding the largest number is nobody's fault. Nor is what sums in float32, in another
        # order than PyTorch's, leave of terms that cancel: its own error there may be zero.
        terms = max(tensor.abs().max().item() for tensor in (*tensors, do, oracle))
        terms = terms if ours.dtype == torch.float32 else terms**2
        floor = UNIT_ROUNDOFF[ours.dtype] * oracle.abs().max().item() + 8 * 2**-24 * terms
        ratios.append(error / (allowed + floor) if error else 0.0)
    return ratios


def problem(*shape, seed=0, **options):
    made = AttentionProblem(*shape, **options)
    tensors = made.tensors(DEVICE, seed)
    generator = torch.Generator().manual_seed(seed + 1)
    do = torch.randn(tensors[0].shape, generator=generator).to(tensors[0].dtype).to(DEVICE)
    return tensors, do


def assert_right(tensors, do, **options):
    ratios = error_ratios(tensors, do, **options)
    assert all(ratio <= 1 for ratio in ratios), ratios


@pytest.mark.parametrize("causal", ALIGNMENTS)
@pytest.mark.parametrize(
    ("length", "kv_len", "head_dim", "dtype"),
    [
        (1, 1, 32, "bfloat16"),
        (17, 17, 40, "float16"),
        (97, 97, 59, "bfloat16"),
        (113, 113, 111, "float32"),
        (128, 128, 128, "bfloat16"),
        (129, 129, 72, "float16"),
        (130, 70, 64, "float32"),
        (70, 203, 96, "bfloat16"),
        (65, 65, 192, "float16"),
        (33, 50, 256, "bfloat16"),
        (8, 3, 16, "float32"),
        (5, 200, 1, "float16"),
    ],
)
def test_results_and_gradients(length, kv_len, head_dim, dtype, causal) -> None:
    shape = (1, 2, length, head_dim)
    tensors, do = problem(*shape, kv_len=kv_len, kv_heads=1, dtype=dtype, seed=length)
    assert_right(tensors, do, causal=causal)


def test_any_problem() -> None:
    hypothesis = pytest.importorskip("hypothesis")
    st = hypothesis.strategies

    @hypothesis.settings(max_examples=10, deadline=None)
    @hypothesis.given(data=st.data())
    def check(data) -> None:
        kv_heads, groups = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 3))
        tensors, do = problem(
            data.draw(st.integers(0, 1)),
            kv_heads * groups,
            data.draw(st.integers(0, 40)),
            data.draw(st.sampled_from([1, 3, 8, 16, 59])),
            kv_len=data.draw(st.integers(0, 70)),
            kv_heads=kv_heads,
            dtype=data.draw(st.sampled_from(["float32", "float16", "bfloat16"])),
            seed=data.draw(st.integers(0, 99)),
        )
        causal = data.draw(st.sampled_from(ALIGNMENTS))
        scale = data.draw(st.sampled_from([None, 0.0, -0.3, 0.7]))
        if tensors[1].shape[2] and tensors[0].numel():
            assert_right(tensors, do, causal=causal, scale=scale)
        else:
            found = with_gradients(flash_triton, tensors, do, causal=causal, scale=scale)
            assert not any(tensor.count_nonzero() for tensor in found)

    check()


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [
        *(("float16", scale) for scale in (0.0, -0.5, 3.0)),
        *(("float32", scale) for scale in (0.0, -0.5)),
        ("float32", 3.0),
    ],
)
def test_scales_of_any_sign(dtype, scale) -> None:
    tensors, do = problem(1, 2, 70, 32, dtype=dtype)
    for causal in (False, True):
        assert_right(tensors, do, causal=causal, scale=scale)


@pytest.mark.parametrize("causal", ALIGNMENTS)
def test_the_log_sum_exp(causal) -> None:
    q, k, v = AttentionProblem(2, 4, 90, 24, kv_len=40, kv_heads=2, dtype="float32").tensors(DEVICE)
    q.requires_grad_()
    out, lse = flash_triton(q, k, v, causal=causal, scale=-0.4, return_lse=True)
    scores = -0.4 * q.double() @ k.double().repeat_interleave(2, 1).mT
    if causal:
        offset = 40 - 90 if causal == "lower_right" else 0
        hidden = torch.ones(90, 40, dtype=torch.bool, device=DEVICE).triu(1 + offset)
        scores = scores.masked_fill(hidden, float("-inf"))
    assert lse.shape == (2, 4, 90) and lse.dtype == torch.float32 and not lse.requires_grad
    assert torch.allclose(lse.double(), scores.logsumexp(-1), atol=2e-6)
    assert out.requires_grad
    if causal == "lower_right":  # the first 50 queries see no key
        assert (lse[:, :, :50] == float("-inf")).all() and not out[:, :, :50].any()
        (gradient,) = torch.autograd.grad(out.sum(), q)
        assert not gradient[:, :, :50].any() and torch.isfinite(gradient).all()


@pytest.mark.parametrize("causal", [True, "lower_right"])
def test_a_future_token_changes_nothing(causal) -> None:
    q, k, v = AttentionProblem(1, 2, 140, 16, dtype="float32").tensors(DEVICE)
    before = flash_triton(q, k, v, causal=causal)
    for row in (0, 63, 64, 127):
        k_new, v_new = k.clone(), v.clone()
        k_new[:, :, row + 1 :], v_new[:, :, row + 1 :] = 5.0, -7.0
        after = flash_triton(q, k_new, v_new, causal=causal)
        assert torch.equal(before[:, :, : row + 1], after[:, :, : row + 1])
        assert not torch.equal(before[:, :, row + 1 :], after[:, :, row + 1 :])


def test_without_keys_every_row_is_zero() -> None:
    tensors = AttentionProblem(1, 2, 3, 4, kv_len=0, dtype="float32").tensors(DEVICE)
    found = with_gradients(flash_triton, tensors, torch.ones(1, 2, 3, 4, device=DEVICE))
    assert not any(tensor.count_nonzero() for tensor in found)
    _, lse = flash_triton(*tensors, return_lse=True)
    assert (lse == float("-inf")).all()


def test_a_nan_stays_in_its_row() -> None:
    (q, k, v), do = problem(1, 2, 100, 16, dtype="float32")
    clean = with_gradients(flash_triton, (q, k, v), do, causal=True)
    q = q.clone()
    q[0, 1, 40, 3] = float("nan")
    found = with_gradients(flash_triton, (q, k, v), do, causal=True)
    for before, after in zip(clean[:2], found[:2], strict=True):  # the result and dq
        assert after[0, 1, 40].isnan().all()
        after[0, 1, 40] = before[0, 1, 40]
        assert torch.equal(before, after)
    # dv of keys that it sees is NaN, and dk of a whole head: 0 x NaN, in any matrix product.
    assert torch.equal(clean[3][0, 1, 41:], found[3][0, 1, 41:])
    for before, after in zip(clean[2:], found[2:], strict=True):
        assert torch.equal(before[0, 0], after[0, 0])


def test_a_second_backward_gives_the_same() -> None:
    (q, k, v), do = problem(1, 2, 70, 32, dtype="float16")
    leaves = [tensor.requires_grad_() for tensor in (q, k, v)]
    out = flash_triton(*leaves, causal=True)
    first = torch.autograd.grad(out, leaves, do, retain_graph=True)
    second = torch.autograd.grad(out, leaves, do)
    assert all(map(torch.equal, first, second))


def test_only_the_gradients_that_are_asked_for() -> None:
    (q, k, v), do = problem(1, 2, 40, 16, dtype="float32")
    expected = with_gradients(reference, (q, k, v), do)[1:]
    for index in range(3):
        tensors = [tensor.detach().clone() for tensor in (q, k, v)]
        tensors[index].requires_grad_()
        (gradient,) = torch.autograd.grad(flash_triton(*tensors), tensors[index], do)
        torch.testing.assert_close(gradient, expected[index], rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        assert not flash_triton(q, k, v).requires_grad


def test_there_is_no_second_derivative() -> None:
    q = torch.randn(1, 1, 4, 16, device=DEVICE, requires_grad=True)
    for loss in (flash_triton(q, q, q).square().sum(), flash_triton(q, q, q).sum()):
        with pytest.raises(UnsupportedProblem, match="no second derivative"):
            torch.autograd.grad(loss, q, create_graph=True)
    with pytest.raises(UnsupportedProblem, match="no second derivative"):
        torch.autograd.functional.hessian(lambda x: flash_triton(x, x, x).sum(), q)
    (gradient,) = torch.autograd.grad(flash_triton(q, q, q).sum(), q)
    assert not gradient.requires_grad


@pytest.mark.parametrize("kind", ["meta", "sparse", "nested"])
def test_tensors_without_numbers_side_by_side_are_refused(kind) -> None:
    q = torch.randn(1, 2, 8, 16, device=DEVICE)
    if kind == "meta":
        other, error, words = q.to("meta"), UnsupportedProblem, "meta tensor"
    elif kind == "sparse":
        other, error, words = q.to_sparse(), TypeError, "dense"
    else:
        other, error, words = torch.nested.nested_tensor([q[0], q[0, :, :4]]), TypeError, "dense"
    with pytest.raises(error, match=words):
        flash_triton(other, other, other)


def test_cards_that_lack_something_are_named() -> None:
    assert triton_refusal(torch.bfloat16, (8, 0)) is None
    assert triton_refusal(torch.float16, (7, 5)) is None
    assert "8.0 on, and this card has 7.5: use float16" in triton_refusal(torch.bfloat16, (7, 5))
    assert "7.5 and newer, and this card has 7.0" in triton_refusal(torch.float16, (7, 0))


def test_it_can_be_prepared_and_triton_is_imported_by_the_first_call_only() -> None:
    flash = FLASH_TRITON
    (q, k, v), _ = problem(1, 1, 20, 16, dtype="float32")
    prepared = flash.prepare(q, k, v, causal=True)
    assert torch.equal(prepared(), flash_triton(q, k, v, causal=True))
    assert torch.equal(flash(q, k, v), flash_triton(q, k, v))
    code = "import sys, attnlab_helpers.attention; assert 'triton' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_lse_of_equal_scores_without_columns() -> None:
    q = torch.randn(1, 1, 3, 0, device=DEVICE)
    k = torch.randn(1, 1, 5, 0, device=DEVICE)
    _, lse = flash_triton(q, k, k, causal=True, return_lse=True)
    assert torch.allclose(lse[0, 0].cpu(), torch.tensor([1.0, 2.0, 3.0]).log())
    assert math.isclose(
        flash_triton(q, k, k, return_lse=True)[1][0, 0, 0].item(), math.log(5), rel_tol=1e-6
    )


class Operations(TorchDispatchMode):
    """Writes down the name of every operation of PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


@CAN_RUN
def test_backward_fills_no_tensor_with_zeros_for_nobody() -> None:
    """lse has no gradient, and PyTorch would make one of zeros: a kernel more in every call."""
    tensors, do = problem(1, 1, 20, 16, dtype="float32")
    leaves = [tensor.requires_grad_() for tensor in tensors]
    out = flash_triton(*leaves)
    with Operations() as operations:
        torch.autograd.grad(out, leaves, do)
    assert operations.names and not [name for name in operations.names if "zero" in name]
