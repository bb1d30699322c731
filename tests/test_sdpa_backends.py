"""SDPA's backends, pinned and free: right, refused with PyTorch's reason, flags left as found."""

import contextlib
import math

import pytest
import torch
import torch.nn.functional as F
from torch.backends import cuda
from torch.nn.attention import SDPBackend, sdpa_kernel

from attnlab_helpers import sdpa
from attnlab_helpers.attention import IMPLEMENTATIONS, UnsupportedProblem, reference
from attnlab_helpers.attention.sdpa import refusals, translate
from attnlab_helpers.fingerprint import fingerprint
from attnlab_helpers.problem import PROFILING_POST, AttentionProblem
from attnlab_helpers.profiling import capture
from attnlab_helpers.sdpa.cell import Cell, prepare
from attnlab_helpers.sdpa.probe import UNIT_ROUNDOFF

FUSED = ["sdpa_flash", "sdpa_efficient", "sdpa_cudnn"]
ALL = ["sdpa_math", "sdpa_auto", *FUSED]
SMALL = AttentionProblem(1, 2, 16, 8, dtype="float32")


def flags():
    return (
        cuda.flash_sdp_enabled(),
        cuda.mem_efficient_sdp_enabled(),
        cuda.math_sdp_enabled(),
        cuda.cudnn_sdp_enabled(),
        tuple(torch._C._get_sdp_priority_order()),
    )


def assert_right(cell: Cell, name: str, device: str = "cuda") -> None:
    """Output and gradients against the oracle: at most twice the error of plain PyTorch."""
    tensors = cell.tensors(device)
    gradient = cell.gradient(device)
    results = prepare(cell, name, tensors, gradient)()
    plain = prepare(cell, "naive", tensors, gradient)()
    wide = [None if one is None else one.detach() for one in tensors]
    wide = [one.double() if one is not None and one.is_floating_point() else one for one in wide]
    for leaf in wide[:3]:
        leaf.requires_grad_(cell.direction == "training")
    oracle = prepare(cell, reference, tuple(wide), gradient.double())()
    for one, other, right in zip(results, plain, oracle, strict=True):
        error = (one.double() - right).abs().max().item()
        allowed = 2 * (other.double() - right).abs().max().item()
        floor = UNIT_ROUNDOFF[cell.problem.dtype] * right.abs().max().item()
        assert error <= allowed + floor, f"{name}: {error:.3g}, allowed {allowed + floor:.3g}"


def test_each_backend_has_a_fingerprint_of_its_own() -> None:
    marks = {fingerprint(IMPLEMENTATIONS[name].compute) for name in ALL}
    assert len(marks) == len(ALL)


@pytest.mark.parametrize("name", ["sdpa_efficient", "sdpa_cudnn"])
def test_on_a_cpu_kernels_for_cuda_are_refused_with_that_reason(name) -> None:
    with pytest.raises(UnsupportedProblem, match="cpu tensors, only for CUDA"):
        IMPLEMENTATIONS[name](*SMALL.tensors("cpu"))


def test_on_a_cpu_flash_is_pytorchs_flash_for_the_cpu() -> None:
    q, k, v = SMALL.tensors("cpu")
    call = IMPLEMENTATIONS["sdpa_flash"].prepare(q, k, v, causal=True)
    assert sdpa.backend_that_ran(capture(call, calls=1)) == "flash"
    torch.testing.assert_close(call().double(), reference(q, k, v, causal=True), atol=1e-6, rtol=0)
    strided = q.transpose(2, 3).contiguous().transpose(2, 3)
    with pytest.raises(UnsupportedProblem, match="stride 1"):
        IMPLEMENTATIONS["sdpa_flash"](strided, k, v)
    call = IMPLEMENTATIONS["sdpa_math"].prepare(q, k, v)
    assert sdpa.backend_that_ran(capture(call, calls=1)) == "math"


@pytest.mark.parametrize("name", ALL)
def test_flags_are_left_as_found_also_after_a_failure(name) -> None:
    q, k, v = SMALL.tensors("cpu")
    before = flags()
    cuda.enable_flash_sdp(False)
    try:
        changed = flags()
        for bad in (k, k[..., :4]):
            with contextlib.suppress(ValueError):
                IMPLEMENTATIONS[name](q, bad, v)
            assert flags() == changed
    finally:
        cuda.enable_flash_sdp(True)
    assert flags() == before


def test_no_reason_is_printed(recwarn) -> None:
    q, k, v = SMALL.tensors("cpu")
    with pytest.raises(UnsupportedProblem):
        IMPLEMENTATIONS["sdpa_flash"](q.mT.contiguous().mT, k, v)
    assert not [one for one in recwarn if "because" in str(one.message)]


def test_causal_becomes_the_flag_only_where_the_two_mean_the_same() -> None:
    equal = SMALL.tensors("cpu")
    more_keys = AttentionProblem(1, 2, 4, 8, kv_len=6, dtype="float32").tensors("cpu")
    decode = AttentionProblem(1, 2, 1, 8, kv_len=6, dtype="float32").tensors("cpu")
    mask = torch.ones(16, 16, dtype=torch.bool)
    for tensors, causal, given, flag, has_mask in (
        (equal, True, None, True, False),
        (equal, "lower_right", None, True, False),
        (more_keys, "upper_left", None, True, False),
        (more_keys, "lower_right", None, False, True),
        (decode, "lower_right", None, False, False),
        (decode, True, None, True, False),
        (equal, True, mask, False, True),
        (equal, False, mask, False, True),
    ):
        call = translate(*tensors, causal=causal, mask=given)
        assert (call.is_causal, call.mask is not None) == (flag, has_mask)


def test_a_long_causal_call_needs_no_mask() -> None:
    """A triangle of 70,000 x 70,000 would take 4.9 GB."""
    q = torch.empty(1, 1, 70_000, 8, device="meta")
    assert translate(q, q, q, causal=True).mask is None


def test_a_scale_of_zero_or_below_is_right() -> None:
    q, k, v = SMALL.tensors("cpu")
    for scale in (0.0, -0.3):
        for causal in (False, True):
            for name in ("sdpa_auto", "sdpa_math", "sdpa_flash"):
                actual = IMPLEMENTATIONS[name](q, k, v, causal=causal, scale=scale)
                expected = reference(q, k, v, causal=causal, scale=scale)
                torch.testing.assert_close(actual.double(), expected, atol=1e-5, rtol=0)


def test_n24_half_precision_survives_large_logits_because_math_is_wide() -> None:
    q, k, v = AttentionProblem(1, 1, 64, 64, dtype="float32").tensors("cpu")
    q, k = q * (576 / q.abs().max()), k * (382.75 / k.abs().max())
    half = [tensor.half() for tensor in (q, k, v)]
    assert torch.isfinite(IMPLEMENTATIONS["sdpa_math"](*half)).all()


def test_n03_sdpa_adds_its_mask_so_an_infinite_hidden_key_spreads() -> None:
    """Documented: minus infinity is added to the score, and inf - inf is NaN."""
    q = k = v = torch.arange(8.0).view(1, 1, 2, 4)
    mask = torch.tensor([True, False]).expand(2, 2)
    plain = IMPLEMENTATIONS["sdpa_math"](q, k, v, mask=mask)
    large, infinite = k.clone(), k.clone()
    large[..., 1, 0], infinite[..., 1, 0] = 1e10, float("inf")
    assert torch.equal(IMPLEMENTATIONS["sdpa_math"](q, large, v, mask=mask), plain)
    assert IMPLEMENTATIONS["sdpa_math"](q, infinite, v, mask=mask).isnan().any()
    assert not IMPLEMENTATIONS["naive"](q, infinite, v, mask=mask).isnan().any()


@pytest.mark.parametrize("layout", ["contiguous", "strided", "last dim strided"])
@pytest.mark.parametrize("mask", ["none", "boolean", "bias"])
@pytest.mark.parametrize("direction", ["forward", "training"])
def test_cells_are_what_they_say_and_right_on_a_cpu(layout, mask, direction) -> None:
    problem = AttentionProblem(2, 4, 12, 8, kv_len=10, kv_heads=2)
    cell = Cell(problem, mask, layout, direction)
    q, k, _, made = cell.tensors("cpu")
    assert q.shape == (2, 4, 12, 8) and k.shape == (2, 2, 10, 8)
    assert q.is_contiguous() == (layout == "contiguous")
    assert (q.stride(-1) == 1) == (layout != "last dim strided")
    assert (made is None) == (mask == "none")
    for name in ("sdpa_math", "sdpa_auto"):
        assert_right(cell, name, "cpu")


# From here on: faults from the field that need a GPU.


@pytest.mark.gpu
@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize("head_dim", [36, 44, 100])
def test_s01_head_dims_off_eight_are_right_or_refused_with_the_reason(name, head_dim) -> None:
    problem = AttentionProblem(2, 4, 128, head_dim)
    try:
        assert_right(Cell(problem), name)
    except UnsupportedProblem as error:
        assert "divisible by" in str(error) or "multiple of" in str(error)
        assert "Triggered internally" not in str(error)
    else:
        assert name == "sdpa_flash"


@pytest.mark.gpu
@pytest.mark.parametrize("mask", ["none", "boolean", "bias"])
@pytest.mark.parametrize("name", FUSED)
def test_s03_masks_are_right_or_named_as_the_reason(name, mask) -> None:
    cell = Cell(AttentionProblem(2, 4, 128, 64), mask, direction="training")
    try:
        assert_right(cell, name)
    except UnsupportedProblem as error:
        assert "mask" in str(error) and mask != "none" and name != "sdpa_efficient"
    else:
        assert mask == "none" or name != "sdpa_flash"


@pytest.mark.gpu
def test_s04_grouped_heads_in_float32_say_that_math_ran() -> None:
    problem = AttentionProblem(4, 24, 3081, 64, kv_heads=12, dtype="float32")
    choice = sdpa.choose(problem, source="live")
    assert choice.backend == "math" and "math is the first" in choice.why
    assert choice.provenance.kind == "live"


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", [320, 512])
def test_s06_large_head_dims_are_answered_for_each_backend(head_dim) -> None:
    problem = AttentionProblem(1, 8, 512, head_dim, kv_heads=2)
    found = sdpa.reasons(problem, source="live").set_index("backend")
    assert list(found["answer"]).count("runs") == 1
    assert (found.loc[found["answer"] == "cannot", "reason"] != "").all()
    assert found.loc["flash", "answer"] == "cannot" and "256" in found.loc["flash", "reason"]


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["sdpa_auto", "sdpa_math", "sdpa_efficient", "sdpa_cudnn"])
def test_s09_an_expanded_mask_is_its_contiguous_copy(name) -> None:
    q, k, v = AttentionProblem(2, 4, 64, 64).tensors("cuda")
    row = torch.rand(2, 1, 1, 64, device="cuda") > 0.4
    row[..., 0] = True
    expected = reference(q, k, v, mask=row)
    for mask in (row, row.expand(2, 4, 64, 64), row.expand(2, 4, 64, 64).contiguous()):
        try:
            actual = IMPLEMENTATIONS[name](q, k, v, mask=mask)
        except UnsupportedProblem:
            assert name == "sdpa_cudnn"
            continue
        assert (actual.double() - expected).abs().max() < 2**-6


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["sdpa_auto", "sdpa_efficient", "sdpa_cudnn"])
def test_s10_a_bias_of_43_columns_is_right_or_refused(name) -> None:
    cell = Cell(AttentionProblem(2, 4, 43, 64), "bias", direction="training")
    try:
        assert_right(cell, name)
    except UnsupportedProblem as error:
        assert str(error) and name != "sdpa_auto"


@pytest.mark.gpu
@pytest.mark.parametrize("mask", ["none", "boolean", "bias"])
@pytest.mark.parametrize("length", [1, 43, 129])
def test_s15_cudnn_is_right_or_refuses_and_the_next_call_works(mask, length) -> None:
    cell = Cell(AttentionProblem(1, 2, length, 64, kv_len=97), mask, direction="training")
    try:
        assert_right(cell, "sdpa_cudnn")
    except UnsupportedProblem as error:
        assert str(error)
    assert_right(cell, "sdpa_auto")


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["sdpa_math", "sdpa_flash", "sdpa_efficient"])
def test_s17_gradients_are_finite_for_strongly_negative_scores(name) -> None:
    """Not cuDNN's: its gradients were NaN here with 9.19, which notebook 05 shows."""
    q, k, v = AttentionProblem(1, 2, 1, 64, kv_len=128).tensors("cuda")
    q, k = 30 * q.abs(), -30 * k.abs()
    leaves = [tensor.requires_grad_() for tensor in (q, k, v)]
    out = IMPLEMENTATIONS[name](*leaves)
    for one in (out, *torch.autograd.grad(out.float().sum(), leaves)):
        assert torch.isfinite(one).all()


@pytest.mark.gpu
def test_s19_the_order_of_a_list_counts_only_when_asked_to() -> None:
    call = PROFILING_POST.bind(IMPLEMENTATIONS["sdpa_auto"], PROFILING_POST.tensors("cuda"))
    call()  # settles PyTorch's own order, which leaving the context would undo
    before = flags()
    pair = [SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION]
    ran = {}
    for name, wanted in (("as given", pair), ("reversed", pair[::-1])):
        for in_order in (False, True):
            with torch.no_grad(), sdpa_kernel(wanted, set_priority=in_order):
                ran[name, in_order] = sdpa.backend_that_ran(capture(call, calls=1))
    assert ran["as given", False] == ran["reversed", False]
    assert (ran["as given", True], ran["reversed", True]) == ("flash", "cudnn")
    assert flags() == before


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", [64, 96, 256])
def test_s20_forward_and_training_are_asked_apart(head_dim) -> None:
    for direction in ("forward", "training"):
        choice = sdpa.choose(
            AttentionProblem(1, 4, 256, head_dim), direction=direction, source="live"
        )
        assert choice.backend in sdpa.BACKENDS and direction in choice.asked


@pytest.mark.gpu
@pytest.mark.parametrize("name", ALL)
def test_pinned_backends_run_what_they_are_called(name) -> None:
    call = PROFILING_POST.bind(IMPLEMENTATIONS[name], PROFILING_POST.tensors("cuda"))
    with torch.no_grad():
        ran = sdpa.backend_that_ran(capture(call, calls=1))
    assert name in ("sdpa_auto", f"sdpa_{ran}")


@pytest.mark.gpu
@pytest.mark.parametrize("name", ALL)
def test_a_row_without_keys_is_zero_on_every_backend(name) -> None:
    q, k, v = AttentionProblem(1, 2, 64, 64, kv_len=48).tensors("cuda")
    mask = torch.ones(64, 48, dtype=torch.bool, device="cuda").tril()
    mask[7] = False
    for options in ({"mask": mask}, {"causal": "lower_right"}):
        try:
            actual = IMPLEMENTATIONS[name](q, k, v, **options)
        except UnsupportedProblem:
            continue
        expected = reference(q, k, v, **options)
        dead = expected.abs().sum(-1) == 0
        assert dead.any() and (actual[dead] == 0).all()
        assert (actual.double() - expected).abs().max() < 2**-6


@pytest.mark.gpu
def test_reasons_agree_with_what_pytorch_does() -> None:
    for problem in (
        PROFILING_POST,
        AttentionProblem(1, 4, 64, 36),
        AttentionProblem(1, 4, 64, 512),
    ):
        q, k, v = problem.tensors("cuda")
        for backend, pin in (
            ("flash", SDPBackend.FLASH_ATTENTION),
            ("efficient", SDPBackend.EFFICIENT_ATTENTION),
        ):
            refused = bool(refusals(translate(q, k, v, causal=problem.causal), backend))
            with sdpa_kernel(pin), pytest.warns() if refused else contextlib.nullcontext():
                try:
                    F.scaled_dot_product_attention(q, k, v, is_causal=bool(problem.causal))
                    ran = True
                except RuntimeError:
                    ran = False
            assert ran != refused


def test_scale_defaults_to_the_root_of_the_head_dim() -> None:
    assert math.isclose(translate(*SMALL.tensors("cpu")).scale, 8**-0.5)
