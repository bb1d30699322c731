"""naive, in_place and PyTorch's own against the float64 oracle and faults met in the field."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab_helpers.attention import IMPLEMENTATIONS, reference
from attnlab_helpers.problem import AttentionProblem

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
BOTH = pytest.mark.parametrize("name", ["naive", "in_place"])
# These take every problem on every device.
EACH = pytest.mark.parametrize("name", ["naive", "in_place", "sdpa_math", "sdpa_auto"])
ON = pytest.mark.parametrize("device", DEVICES)
UNIT_ROUNDOFF = {"float32": 2**-24, "float16": 2**-11, "bfloat16": 2**-8}


def plain_pytorch(q, k, v, causal=False, scale=None, mask=None, both_sides=False):
    """The same formula in the same precision, as PyTorch's users write it: the error allowed.

    both_sides: with the root of the scale on q and on k, as PyTorch's math backend has it
    (`_scaled_dot_product_attention_math`). That rounds four times where the scale alone may not
    round at all.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if both_sides:
        root = math.sqrt(abs(scale))
        q, k, scale = q * math.copysign(root, scale), k * root, 1.0
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = torch.matmul(q * scale, k.mT)
    allowed = torch.ones(scores.shape, dtype=torch.bool, device=q.device)
    if causal:
        diagonal = k.shape[2] - q.shape[2] if causal == "lower_right" else 0
        allowed = allowed.tril(diagonal)
    if mask is not None and mask.dtype == torch.bool:
        allowed = allowed & mask
    elif mask is not None:
        scores = scores + mask.to(scores.dtype)
    weights = scores.masked_fill(~allowed, float("-inf")).softmax(-1).nan_to_num(0.0)
    return weights @ v


def assert_close_to_oracle(actual, q, k, v, written=({},), **options):
    """written: the ways of writing plain PyTorch whose largest error counts."""
    expected = reference(q, k, v, **options)
    assert actual.shape == expected.shape and actual.dtype == q.dtype
    assert torch.isfinite(actual).all()
    if not expected.numel():
        return
    error = (actual.double() - expected).abs().max().item()
    allowed = max(
        (plain_pytorch(q, k, v, **options, **way).double() - expected).abs().max().item()
        for way in written
    )
    floor = UNIT_ROUNDOFF[str(q.dtype).removeprefix("torch.")] * expected.abs().max().item()
    assert error <= 2 * allowed + floor, f"error {error:.3g}, plain PyTorch {allowed:.3g}"


@EACH
@ON
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("causal", [False, True, "lower_right"])
@pytest.mark.parametrize("length", [1, 17, 127, 129, 1025])
def test_odd_lengths(name, device, dtype, causal, length) -> None:
    problem = AttentionProblem(1, 2, length, 40, dtype=dtype, causal=causal)
    q, k, v = problem.tensors(device, seed=length)
    actual = IMPLEMENTATIONS[name](q, k, v, causal=causal)
    assert_close_to_oracle(actual, q, k, v, causal=causal)


@EACH
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_problem(name, data) -> None:
    kv_heads, groups = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    problem = AttentionProblem(
        data.draw(st.integers(0, 2)),
        kv_heads * groups,
        data.draw(st.integers(0, 20)),
        data.draw(st.sampled_from([1, 3, 8, 16, 59])),
        kv_len=data.draw(st.integers(0, 20)),
        kv_heads=kv_heads,
        dtype=data.draw(st.sampled_from(["float32", "float16", "bfloat16"])),
        causal=data.draw(st.sampled_from([False, True, "lower_right"])),
        scale=data.draw(st.sampled_from([None, 0.0, -0.3, 2.0])),
    )
    q, k, v = problem.tensors("cpu", seed=data.draw(st.integers(0, 99)))
    scores = (problem.batch, problem.heads, problem.q_len, problem.kv_len)
    options = {"causal": problem.causal, "scale": problem.scale}
    kind = data.draw(st.sampled_from(["none", "boolean", "bias", "bias with -inf"]))
    generator = torch.Generator().manual_seed(7)
    if kind == "boolean":
        options["mask"] = torch.rand(scores, generator=generator) > 0.6
    elif kind != "none":
        bias = torch.randn(scores[2:], generator=generator).to(q.dtype)
        if kind == "bias with -inf":
            bias[torch.rand(bias.shape, generator=generator) > 0.5] = float("-inf")
        options["mask"] = bias
    written = ({}, {"both_sides": True}) if name.startswith("sdpa") else ({},)
    actual = IMPLEMENTATIONS[name](q, k, v, **options)
    assert_close_to_oracle(actual, q, k, v, written, **options)


@EACH
@ON
def test_agrees_with_sdpa(name, device) -> None:
    q, k, v = AttentionProblem(2, 3, 33, 16, dtype="float32").tensors(device)
    for causal in (False, True):
        expected = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        torch.testing.assert_close(IMPLEMENTATIONS[name](q, k, v, causal=causal), expected)


def test_the_oracle_agrees_with_a_loop_over_single_numbers() -> None:
    q, k, v = AttentionProblem(1, 1, 4, 3, kv_len=5, dtype="float64").tensors("cpu")
    expected = torch.zeros(4, 3, dtype=torch.float64)
    for row in range(4):
        seen = range(min(row + 1 + 1, 5))  # lower right: one key more than upper left
        powers = [math.exp(float(q[0, 0, row] @ k[0, 0, key]) * 0.7) for key in seen]
        for key in seen:
            expected[row] += powers[key] / sum(powers) * v[0, 0, key]
    actual = reference(q, k, v, causal="lower_right", scale=0.7)
    torch.testing.assert_close(actual[0, 0], expected)


@EACH
@ON
@pytest.mark.parametrize("causal", [True, "lower_right"])
def test_a_future_token_changes_nothing(name, device, causal) -> None:
    q, k, v = AttentionProblem(1, 2, 12, 8, dtype="float32").tensors(device)
    before = IMPLEMENTATIONS[name](q, k, v, causal=causal)
    for row in (0, 5, 10):
        k_new, v_new = k.clone(), v.clone()
        k_new[:, :, row + 1 :] = torch.randn_like(k_new[:, :, row + 1 :]) * 9
        v_new[:, :, row + 1 :] = torch.randn_like(v_new[:, :, row + 1 :]) * 9
        after = IMPLEMENTATIONS[name](q, k_new, v_new, causal=causal)
        assert torch.equal(before[:, :, : row + 1], after[:, :, : row + 1])
        assert not torch.equal(before[:, :, row + 1 :], after[:, :, row + 1 :])


@EACH
def test_rows_of_weights_sum_to_one(name) -> None:
    q, k, _ = AttentionProblem(1, 2, 19, 8, dtype="float32").tensors("cpu")
    ones = torch.ones_like(k)
    torch.testing.assert_close(IMPLEMENTATIONS[name](q, k, ones, causal=True), torch.ones_like(q))


@EACH
@ON
def test_n01_a_fully_masked_row_is_zero_and_the_others_do_not_change(name, device) -> None:
    problem = AttentionProblem(1, 2, 6, 8, kv_len=10, dtype="float32", scale=0.125)
    q, k, v = (tensor.requires_grad_() for tensor in problem.tensors(device))
    mask = torch.rand(6, 10, generator=torch.Generator().manual_seed(1)).to(device) > 0.5
    mask[:, 0], mask[5] = True, False
    for masking in (mask, torch.zeros(6, 10, device=device).masked_fill(~mask, float("-inf"))):
        actual = IMPLEMENTATIONS[name](q, k, v, scale=0.125, mask=masking)
        assert torch.equal(actual[:, :, 5], torch.zeros_like(actual[:, :, 5]))
        expected = reference(q, k, v, scale=0.125, mask=masking)
        torch.testing.assert_close(actual.double(), expected)
        for gradient in torch.autograd.grad(actual.sum(), (q, k, v)):
            assert torch.isfinite(gradient).all()


@BOTH
def test_n03_masked_keys_never_matter_and_masked_values_matter_only_as_nan(name) -> None:
    q = k = v = torch.arange(8.0).view(1, 1, 2, 4)
    mask = torch.tensor([True, False]).expand(2, 2)
    plain = IMPLEMENTATIONS[name](q, k, v, mask=mask)
    for poison in (1e10, float("inf"), float("nan")):
        k_poisoned = k.clone()
        k_poisoned[..., 1, 0] = poison
        assert torch.equal(IMPLEMENTATIONS[name](q, k_poisoned, v, mask=mask), plain)
    v_poisoned = v.clone()
    v_poisoned[..., 1, 0] = float("nan")  # documented: 0 x NaN is NaN
    assert IMPLEMENTATIONS[name](q, k, v_poisoned, mask=mask)[..., 0].isnan().all()


@EACH
def test_n05_alignment_is_a_named_choice(name) -> None:
    q, k, v = AttentionProblem(1, 4, 1, 64, kv_len=16, dtype="float32").tensors("cpu")
    upper = IMPLEMENTATIONS[name](q, k, v, causal=True)
    lower = IMPLEMENTATIONS[name](q, k, v, causal="lower_right")
    torch.testing.assert_close(upper, v[:, :, :1])  # query 0 sees key 0 alone
    torch.testing.assert_close(lower, F.scaled_dot_product_attention(q, k, v))
    torch.testing.assert_close(upper, F.scaled_dot_product_attention(q, k, v, is_causal=True))


@EACH
def test_n09_a_decode_step_is_attention_without_a_mask(name) -> None:
    q, k, v = AttentionProblem(4, 32, 1, 128, kv_len=20, dtype="float32").tensors("cpu")
    actual = IMPLEMENTATIONS[name](q, k, v, causal="lower_right")
    torch.testing.assert_close(actual, F.scaled_dot_product_attention(q, k, v))


@EACH
@ON
def test_n16_every_tensor_may_have_its_own_strides(name, device) -> None:
    problem = AttentionProblem(1, 16, 62, 128, dtype="bfloat16")
    q, k, v = problem.tensors(device)
    strided = v.transpose(1, 2).contiguous().transpose(1, 2)
    assert strided.stride() != v.stride()
    expanded = k[:, :1].expand(1, 16, 62, 128)
    for other in ((q, k, strided), (strided, k, q), (q, expanded, v)):
        assert_close_to_oracle(IMPLEMENTATIONS[name](*other), *other)


@EACH
@pytest.mark.parametrize(("heads", "kv_heads"), [(3, 2), (33, 2)])
def test_n23_heads_that_cannot_be_shared_out_are_refused(name, heads, kv_heads) -> None:
    q, k = torch.randn(1, heads, 4, 8), torch.randn(1, kv_heads, 4, 8)
    with pytest.raises(ValueError, match="must divide"):
        IMPLEMENTATIONS[name](q, k, k)


@BOTH
@ON
def test_n24_large_logits(name, device) -> None:
    q, k, v = AttentionProblem(1, 1, 64, 64, dtype="float32").tensors(device)
    q, k = q * (576 / q.abs().max()), k * (382.75 / k.abs().max())
    for dtype in (torch.bfloat16, torch.float32):
        assert torch.isfinite(IMPLEMENTATIONS[name](q.to(dtype), k.to(dtype), v.to(dtype))).all()
    # float16 ends at 65,504. These two keep the scores in q's dtype, which is the lesson that
    # notebook 07 draws from them: the row is lost, loudly, and the oracle still has it.
    half = [tensor.half() for tensor in (q, k, v)]
    assert IMPLEMENTATIONS[name](*half).isnan().any()
    assert torch.isfinite(reference(*half)).all()


@EACH
@pytest.mark.parametrize(
    "shape", [(0, 0, 2, 0), (0, 2, 3, 4), (1, 2, 0, 4), (1, 0, 3, 4), (1, 2, 3, 0)]
)
def test_n33_empty_problems_have_empty_results(name, shape) -> None:
    q = torch.randn(shape, dtype=torch.bfloat16)
    for causal in (False, True, "lower_right"):
        assert IMPLEMENTATIONS[name](q, q, q, causal=causal).shape == q.shape


@EACH
def test_without_keys_every_row_is_zero(name) -> None:
    q, k, v = AttentionProblem(1, 2, 3, 4, kv_len=0, dtype="float32").tensors("cpu")
    assert torch.equal(IMPLEMENTATIONS[name](q, k, v), torch.zeros_like(q))


def test_n38_in_place_gives_gradients_and_leaves_the_callers_tensors_alone() -> None:
    problem = AttentionProblem(2, 4, 9, 8, dtype="float64", kv_heads=2, causal=True)
    tensors = [tensor.requires_grad_() for tensor in problem.tensors("cpu")]
    mask = torch.rand(9, 9, generator=torch.Generator().manual_seed(2)) > 0.3
    bias = torch.randn(9, 9, dtype=torch.float64)
    kept = [tensor.detach().clone() for tensor in (*tensors, mask, bias)]
    for options in ({"causal": True}, {"causal": True, "mask": mask}, {"mask": bias}):
        actual = IMPLEMENTATIONS["in_place"](*tensors, **options)
        expected = reference(*tensors, **options)
        weight = torch.randn(actual.shape, dtype=torch.float64)
        for ours, theirs in zip(
            torch.autograd.grad(actual, tensors, weight),
            torch.autograd.grad(expected, tensors, weight),
            strict=True,
        ):
            torch.testing.assert_close(ours, theirs)
    for before, after in zip(kept, (*tensors, mask, bias), strict=True):
        assert torch.equal(before, after)


def test_n38_in_place_works_on_a_view_of_a_projection() -> None:
    hidden = torch.randn(2, 5, 3 * 16, requires_grad=True)
    q, k, v = hidden.view(2, 5, 3, 2, 8).permute(2, 0, 3, 1, 4)
    IMPLEMENTATIONS["in_place"](q, k, v, causal=True).sum().backward()
    assert torch.isfinite(hidden.grad).all()


@EACH
def test_n39_the_mask_has_an_effect(name) -> None:
    q, k, v = AttentionProblem(1, 1, 6, 8, dtype="float32").tensors("cpu")
    mask = torch.ones(6, 6, dtype=torch.bool).tril()
    assert not torch.allclose(
        IMPLEMENTATIONS[name](q, k, v), IMPLEMENTATIONS[name](q, k, v, mask=mask)
    )
    torch.testing.assert_close(
        IMPLEMENTATIONS[name](q, k, v, mask=mask), IMPLEMENTATIONS[name](q, k, v, causal=True)
    )


@EACH
def test_causal_and_a_mask_combine(name) -> None:
    q, k, v = AttentionProblem(1, 2, 7, 8, dtype="float32").tensors("cpu")
    mask = torch.rand(7, 7, generator=torch.Generator().manual_seed(3)) > 0.4
    both = IMPLEMENTATIONS[name](q, k, v, causal=True, mask=mask)
    torch.testing.assert_close(both, IMPLEMENTATIONS[name](q, k, v, mask=mask.tril()))


@EACH
def test_j16_a_boolean_mask_with_a_dead_row_gives_zeros(name) -> None:
    q, k, v = AttentionProblem(1, 1, 2, 4, dtype="float32").tensors("cpu")
    mask = torch.tensor([[False, False], [True, True]])
    actual = IMPLEMENTATIONS[name](q, k, v, mask=mask)
    assert torch.equal(actual[0, 0, 0], torch.zeros(4))
    torch.testing.assert_close(actual[0, 0, 1], F.scaled_dot_product_attention(q, k, v)[0, 0, 1])


@EACH
@pytest.mark.parametrize(
    ("problem", "words"),
    [
        ("3d", r"x\[None\]"),
        ("2d", r"x\[None, None\]"),
        ("ints", "floating point"),
        ("dtypes", "one dtype"),
        ("batch", "agree in batch"),
        ("k and v", "same shape"),
        ("not a tensor", "torch tensor"),
        ("mask int", r"mask.bool\(\)"),
        ("mask shape", "does not broadcast"),
        ("causal", "is not one of"),
        ("scale", "finite"),
        ("mask list", "torch tensor"),
    ],
)
def test_bad_arguments_get_a_sentence(name, problem, words) -> None:
    q = torch.randn(1, 2, 4, 8)
    arguments, options = [q, q, q], {}
    match problem:
        case "3d":
            arguments = [q[0]] * 3
        case "2d":
            arguments = [q[0, 0]] * 3
        case "ints":
            arguments = [q.int()] * 3
        case "dtypes":
            arguments = [q, q.half(), q]
        case "batch":
            arguments = [q, q.expand(3, 2, 4, 8), q.expand(3, 2, 4, 8)]
        case "k and v":
            arguments = [q, q, q[:, :, :3]]
        case "not a tensor":
            arguments = [q, q.numpy(), q]
        case "mask int":
            options = {"mask": torch.ones(4, 4, dtype=torch.long)}
        case "mask shape":
            options = {"mask": torch.ones(3, 4, dtype=torch.bool)}
        case "causal":
            options = {"causal": "left"}
        case "scale":
            options = {"scale": math.nan}
        case "mask list":
            options = {"mask": [[True]]}
    with pytest.raises((TypeError, ValueError), match=words):
        IMPLEMENTATIONS[name](*arguments, **options)


@EACH
def test_s13_a_float_mask_of_zeros_and_ones_is_warned_about(name) -> None:
    q, k, v = AttentionProblem(1, 1, 8, 8, dtype="float32").tensors("cpu")
    with pytest.warns(UserWarning, match="hides nothing"):
        IMPLEMENTATIONS[name](q, k, v, mask=torch.ones(1, 1, 8, 8).tril())


@EACH
def test_s12_a_bias_of_another_float_dtype_is_rounded_to_the_queries(name) -> None:
    q, k, v = AttentionProblem(1, 1, 8, 8, dtype="bfloat16").tensors("cpu")
    bias = torch.randn(8, 8)
    actual = IMPLEMENTATIONS[name](q, k, v, mask=bias)
    assert torch.equal(actual, IMPLEMENTATIONS[name](q, k, v, mask=bias.bfloat16()))


def test_the_two_implementations_give_the_same_bits() -> None:
    q, k, v = AttentionProblem(2, 4, 65, 16, dtype="bfloat16").tensors("cpu")
    naive, in_place = IMPLEMENTATIONS["naive"], IMPLEMENTATIONS["in_place"]
    assert torch.equal(naive(q, k, v, causal=True), in_place(q, k, v, causal=True))


@EACH
@pytest.mark.parametrize("length", range(1, 9))
def test_n10_short_sequences(name, length) -> None:
    q, k, v = AttentionProblem(1, 2, length, 16, dtype="float32", causal=True).tensors("cpu")
    assert_close_to_oracle(IMPLEMENTATIONS[name](q, k, v, causal=True), q, k, v, causal=True)


@EACH
@ON
def test_n17_an_output_gradient_may_have_any_strides(name, device) -> None:
    problem = AttentionProblem(2, 8, 4, 32, kv_len=3, dtype="float64")
    tensors = [tensor.requires_grad_() for tensor in problem.tensors(device)]
    gradient = torch.randn(2, 4, 8, 32, dtype=torch.float64, device=device).transpose(1, 2)
    for strided in (gradient, gradient[:, :, :1].expand(2, 8, 4, 32)):
        ours = torch.autograd.grad(IMPLEMENTATIONS[name](*tensors), tensors, strided)
        expected = torch.autograd.grad(reference(*tensors), tensors, strided)
        for a, b in zip(ours, expected, strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.gpu
@BOTH
@pytest.mark.parametrize("batch", [65535, 65536])
def test_n20_more_heads_than_a_grid_axis_holds(name, batch) -> None:
    q, k, v = AttentionProblem(batch, 8, 4, 64, dtype="float16").tensors("cuda")
    actual = IMPLEMENTATIONS[name](q, k, v, causal=True)
    last = [tensor[-2:] for tensor in (q, k, v)]
    assert_close_to_oracle(actual[-2:], *last, causal=True)


@EACH
def test_n32_float64_is_computed_in_float64(name) -> None:
    q, k, v = AttentionProblem(1, 2, 9, 8, dtype="float64").tensors("cpu")
    actual = IMPLEMENTATIONS[name](q, k, v)
    torch.testing.assert_close(actual, reference(q, k, v), rtol=1e-12, atol=1e-12)


@EACH
def test_s09_a_mask_may_be_expanded(name) -> None:
    q, k, v = AttentionProblem(2, 3, 5, 8, dtype="float32").tensors("cpu")
    mask = torch.rand(2, 1, 1, 5, generator=torch.Generator().manual_seed(4)) > 0.4
    mask[..., 0] = True
    expected = IMPLEMENTATIONS[name](q, k, v, mask=mask.expand(2, 3, 5, 5).contiguous())
    assert torch.equal(IMPLEMENTATIONS[name](q, k, v, mask=mask.expand(2, 3, 5, 5)), expected)
    assert torch.equal(IMPLEMENTATIONS[name](q, k, v, mask=mask), expected)


@EACH
def test_j17_grouped_heads_with_a_mask(name) -> None:
    problem = AttentionProblem(2, 4, 3, 8, kv_heads=2, dtype="float32")
    q, k, v = problem.tensors("cpu")
    mask = torch.ones(3, 3, dtype=torch.bool)
    assert_close_to_oracle(IMPLEMENTATIONS[name](q, k, v, mask=mask), q, k, v, mask=mask)


@EACH
@ON
def test_j18_grouped_decode_and_permuted_views(name, device) -> None:
    decode = AttentionProblem(1, 32, 1, 128, kv_len=1024, kv_heads=2, dtype="bfloat16")
    q, k, v = decode.tensors(device)
    assert_close_to_oracle(IMPLEMENTATIONS[name](q, k, v), q, k, v)
    packed = torch.randn(84, 3, 3, 64, generator=torch.Generator().manual_seed(5)).to(device)
    views = [packed.permute(1, 2, 0, 3)] * 3
    assert_close_to_oracle(IMPLEMENTATIONS[name](*views), *views)


@EACH
@pytest.mark.parametrize("shape", [(), (1,), (6,)])
def test_masks_of_few_dimensions_broadcast(name, shape) -> None:
    q, k, v = AttentionProblem(1, 2, 5, 8, kv_len=6, dtype="float32").tensors("cpu")
    mask = torch.ones(shape, dtype=torch.bool)
    if shape == (6,):
        mask[2:] = False
    assert_close_to_oracle(IMPLEMENTATIONS[name](q, k, v, mask=mask), q, k, v, mask=mask)
    bias = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    assert_close_to_oracle(IMPLEMENTATIONS[name](q, k, v, mask=bias), q, k, v, mask=bias)
