"""FlashAttention compiled, on a GPU: all lengths and head dims, limits, repeatability.

Every test here needs a GPU; the sample that the interpreter runs is in test_flash_triton.py.
"""

import pytest
import torch
from sums_in_order import plain_in_order
from test_flash_triton import (
    ALIGNMENTS,
    assert_right,
    error_ratios,
    problem,
    with_gradients,
)

from attnlab_helpers.attention import IMPLEMENTATIONS, reference
from attnlab_helpers.attention.flash_triton import flash_triton
from attnlab_helpers.kernels.flash_configurations import KERNELS, Configuration, listed
from attnlab_helpers.kernels.flash_launch import (
    launch_dkdv,
    launch_dq,
    launch_forward,
    statistics,
)
from attnlab_helpers.problem import AttentionProblem

pytestmark = pytest.mark.gpu
LENGTHS = [1, 17, 97, 113, 127, 128, 129, 203, 1023, 1024, 1025, 2048]
HEAD_DIMS = [32, 40, 59, 64, 80, 96, 111, 128, 160, 192, 224, 256]


def worst(head_dim, dtype, lengths, causal, **options):
    found = {}
    for length in lengths:
        tensors, do = problem(1, 2, length, head_dim, dtype=dtype, seed=length)
        found[length] = max(error_ratios(tensors, do, causal=causal, **options))
    return found


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_the_grid_in_half_precision(head_dim, dtype, causal, record_property) -> None:
    found = worst(head_dim, dtype, LENGTHS, causal)
    record_property("worst", max(found.values()))
    assert all(ratio <= 1 for ratio in found.values()), found


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [40, 64, 111, 128])
def test_the_grid_in_float32(head_dim, causal) -> None:
    found = worst(head_dim, "float32", [1, 113, 129, 1025], causal)
    assert all(ratio <= 1 for ratio in found.values()), found


@pytest.mark.parametrize("kv_len", [17, 200, 1025])
@pytest.mark.parametrize("head_dim", [40, 64, 128])
def test_one_query_in_float32(head_dim, kv_len) -> None:
    (q, k, v), _ = problem(2, 4, 1, head_dim, kv_len=kv_len, kv_heads=2, dtype="float32")
    expected = reference(q, k, v)
    error = (flash_triton(q, k, v).double() - expected).abs().max()
    allowed = (plain_in_order(q, k, v).double() - expected).abs().max()
    assert error <= 2 * allowed + 2**-24 * expected.abs().max()


@pytest.mark.parametrize("causal", ALIGNMENTS)
@pytest.mark.parametrize(("q_len", "kv_len"), [(1, 4096), (300, 77), (77, 300), (1024, 2048)])
@pytest.mark.parametrize("head_dim", [64, 80, 128])
def test_unequal_lengths_and_grouped_heads(head_dim, q_len, kv_len, causal) -> None:
    shape = (2, 6, q_len, head_dim)
    tensors, do = problem(*shape, kv_len=kv_len, kv_heads=2, dtype="bfloat16")
    assert_right(tensors, do, causal=causal)


@pytest.mark.parametrize("batch_and_heads", [(65_536, 2), (2, 65_536)])
def test_n20_more_heads_than_a_grid_axis_holds(batch_and_heads) -> None:
    tensors, do = problem(*batch_and_heads, 10, 16, dtype="float16")
    found = with_gradients(flash_triton, tensors, do)
    # The oracle on both ends, where a wrapped number would show.
    for part in (slice(0, 1), slice(-1, None)):
        some = [tensor[part, part].contiguous() for tensor in tensors]
        expected = with_gradients(reference, some, do[part, part])
        for actual, oracle in zip(found, expected, strict=True):
            error = (actual[part, part].double() - oracle).abs().max()
            assert error < 4e-3


@pytest.mark.parametrize("head_dim", [64, 59])
def test_n21_tensors_beyond_two_to_the_31_elements(head_dim) -> None:
    rows, row_stride = 4200, 2**19 + 8
    if torch.cuda.mem_get_info()[0] < 12 * 2**30:
        pytest.skip("needs 12 GB of GPU memory")
    storage = torch.zeros(rows * row_stride, dtype=torch.float16, device="cuda")
    far = storage.as_strided((1, 1, rows, head_dim), (1, 1, row_stride, 1))
    assert (rows - 1) * row_stride > 2**31
    (q, k, v), do = problem(1, 1, rows, head_dim, dtype="float16")
    far.copy_(k)
    for tensors in ((q, far, v), (far, k, v), (q, k, far)):
        same = [k if one is far else one for one in tensors]  # the same numbers, side by side
        expected = with_gradients(flash_triton, same, do, causal=True)
        found = with_gradients(flash_triton, tensors, do, causal=True)
        for actual, near in zip(found, expected, strict=True):
            torch.testing.assert_close(actual, near, rtol=1e-2, atol=2e-3)


@pytest.mark.parametrize("direction", ["forward", "training"])
def test_extra_memory_is_linear_in_the_length(direction) -> None:
    def extra(length: int) -> int:
        tensors = AttentionProblem(1, 1, length, 64, causal=True).tensors("cuda")
        if direction == "training":
            tensors = [tensor.requires_grad_() for tensor in tensors]
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        out = flash_triton(*tensors, causal=True)
        if direction == "training":
            torch.autograd.grad(out, tensors, torch.ones_like(out))
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before

    short, long = extra(16_384), extra(131_072)
    assert long <= 8 * short * 1.05
    # In bytes: the result, three gradients, dout and one copy of it; a few statistics a query.
    assert long <= 131_072 * (64 * 2 * 6 + 4 * 8) + 2**21


def kernel_launches(configuration, kernel, causal):
    """One launch of a kernel with every output poisoned, as a call."""
    (q, k, v), do = problem(2, 4, 1000, 64, kv_len=1000, dtype="bfloat16")
    options = {"scale": 0.125, "causal": causal, "precision": "ieee"}
    out, lse = torch.empty_like(q), torch.empty(q.shape[:3], device="cuda")
    launch_forward(q, k, v, out, lse, Configuration(64, 64), **options)
    delta, shift = statistics(out, do, lse)
    results = {
        "forward": (torch.empty_like(q), torch.empty_like(lse)),
        "dkdv": (torch.empty_like(k), torch.empty_like(v)),
        "dq": (torch.empty_like(q),),
    }[kernel]

    def launch():
        for tensor in results:
            tensor.fill_(float("nan"))
        if kernel == "forward":
            launch_forward(q, k, v, *results, configuration, **options)
        elif kernel == "dq":
            launch_dq(q, k, v, do, delta, shift, *results, configuration, **options)
        else:
            launch_dkdv(q, k, v, do, delta, shift, *results, configuration, **options)
        return [tensor.clone() for tensor in results]

    return launch


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [1, 4096], ids=["short", "long"])  # which row of the table
@pytest.mark.parametrize("kernel", KERNELS)
def test_200_launches_give_finite_and_equal_results(kernel, length, causal) -> None:
    capability = torch.cuda.get_device_capability()
    configuration = listed(kernel, block_d=64, length=length, capability=capability)
    if configuration is None:
        configuration = Configuration(64, 64, descriptors=capability >= (9, 0))
    launch = kernel_launches(configuration, kernel, causal)
    first = launch()
    assert all(torch.isfinite(tensor).all() for tensor in first)
    for _ in range(199):
        assert all(map(torch.equal, first, launch()))


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("descriptors", [False, True])
@pytest.mark.parametrize("blocks", [(64, 64), (128, 64), (128, 128), (64, 128)])
def test_every_way_of_cutting_gives_the_same(blocks, descriptors, overlap) -> None:
    if descriptors and torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("no copy engine for tiles on this card")
    configuration = Configuration(
        *blocks, num_warps=8 if blocks[0] == 128 else 4, overlap=overlap, descriptors=descriptors
    )
    for causal in (False, True):
        (q, k, v), _ = problem(2, 4, 1000, 64, dtype="bfloat16")
        out, lse = torch.full_like(q, float("nan")), torch.empty(q.shape[:3], device="cuda")
        options = {"scale": 0.125, "causal": causal, "precision": "ieee"}
        launch_forward(q, k, v, out, lse, configuration, **options)
        error = (out.double() - reference(q, k, v, causal=causal)).abs().max().item()
        assert error < 2**-8 * v.abs().max().item()


def test_agrees_with_sdpa_at_size() -> None:
    tensors, do = problem(4, 16, 4096, 128, dtype="bfloat16", causal=True)
    ours = with_gradients(flash_triton, tensors, do, causal=True)
    theirs = with_gradients(IMPLEMENTATIONS["sdpa_flash"], tensors, do, causal=True)
    for one, other in zip(ours, theirs, strict=True):
        error = ((one.double() - other.double()).norm() / other.double().norm()).item()
        assert error < 1e-2


def test_two_runs_give_the_same_bits() -> None:
    tensors, do = problem(2, 4, 1000, 128, dtype="bfloat16")
    first = with_gradients(flash_triton, tensors, do, causal=True)
    for _ in range(20):
        again = with_gradients(flash_triton, tensors, do, causal=True)
        assert all(map(torch.equal, first, again))


def test_tensors_on_the_cpu_are_refused() -> None:
    q = torch.randn(1, 1, 4, 16)
    with pytest.raises(ValueError, match=r"use q\.cuda"):
        flash_triton(q, q, q)
