"""Traffic by formula: held against PyTorch's own operators, sums that are known, and the theory."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from attnlab_helpers import GPT2_MEDIUM, PROFILING_POST, VIT_B16, AttentionProblem
from attnlab_helpers.attention import IMPLEMENTATIONS
from attnlab_helpers.attention.tiled import tiled_attention
from attnlab_helpers.kernels.tiles import default_block
from attnlab_helpers.problem import visible_keys
from attnlab_helpers.traffic import (
    FORMULAS,
    TILES,
    count_tiled,
    formula,
    io_flash,
    io_standard,
    keys_read,
    ledger,
    minimum,
    time_bound,
)

PROBLEMS = [
    AttentionProblem(1, 2, 8, 16, causal=True),
    AttentionProblem(2, 3, 7, 5, kv_len=9, dtype="float32"),
    AttentionProblem(2, 4, 8, 16, kv_heads=2, kv_len=6, causal="lower_right"),
    AttentionProblem(1, 4, 5, 8, kv_heads=1, kv_len=11, causal=True, dtype="float16"),
    AttentionProblem(1, 2, 5, 8, kv_len=11, causal="lower_right", dtype="float64"),
    AttentionProblem(1, 2, 9, 8, causal="lower_right"),
    AttentionProblem(1, 2, 1, 8, kv_len=11, causal="lower_right"),
]


class OperatorBytes(TorchDispatchMode):
    """Bytes that go in and out of every operator that is no view, with CUDA's kernels in mind."""

    def __init__(self) -> None:
        super().__init__()
        self.read = self.written = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func._schema.name
        inputs = [one for one in args if isinstance(one, torch.Tensor) and one.dim()]
        is_view = any(a.data_ptr() == result.data_ptr() for a in inputs if a.numel())
        if (is_view and not func._schema.is_mutable) or not result.dim():
            return result
        whole = _bytes(result)
        self.read += sum(map(_bytes, inputs))
        self.written += whole
        if name == "aten::masked_fill":  # a copy and then a fill, on the GPU
            self.read += whole
            self.written += whole
        if name == "aten::_safe_softmax":  # four kernels on the GPU: see `math_steps`
            scores, rows = result.numel(), result.numel() // max(result.shape[-1], 1)
            self.read += whole + scores + whole + rows
            self.written += scores + rows + whole
        return result


def _bytes(tensor: torch.Tensor) -> int:
    sizes = [n for n, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride]
    return math.prod(sizes) * tensor.element_size()


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key)
@pytest.mark.parametrize("name", ["naive", "in_place", "sdpa_math"])
def test_steps_read_and_write_what_pytorchs_operators_do(name, problem) -> None:
    call = problem.bind(IMPLEMENTATIONS[name], problem.tensors("cpu"))
    with torch.no_grad(), OperatorBytes() as seen:
        call()
    by_formula = formula(name, problem)
    assert by_formula["read_bytes"].sum() == seen.read
    assert by_formula["written_bytes"].sum() == seen.written


def test_the_copy_of_masked_fill_is_the_difference_of_in_place() -> None:
    naive, in_place = (formula(name, PROFILING_POST) for name in ("naive", "in_place"))
    gone = naive[~naive["step"].isin(in_place["step"])]
    assert list(gone["step"]) == ["copy"]
    whole = PROFILING_POST.score_bytes()
    assert list(gone[["read_bytes", "written_bytes"]].iloc[0]) == [whole, whole]
    both = ["read_bytes", "written_bytes"]
    ratio = naive[both].to_numpy().sum() / PROFILING_POST.min_bytes()
    assert ratio > 40  # the score matrix is 16 x Q here, and is touched nine times


@pytest.mark.parametrize("problem", [PROFILING_POST, VIT_B16, GPT2_MEDIUM, *PROBLEMS])
def test_the_minimum_is_the_problems_own_and_nothing_is_below_it(problem) -> None:
    both = ["read_bytes", "written_bytes"]
    least = minimum(problem)
    assert least[both].to_numpy().sum() == problem.min_bytes()
    assert set(least["tensor"]) == {"Q", "K", "V", "O"}
    if problem.causal and problem.q_len != problem.kv_len:
        return  # keys that no query sees need not be read
    for name in FORMULAS:
        assert formula(name, problem)[both].to_numpy().sum() >= problem.min_bytes(), name


@settings(max_examples=60, deadline=None)
@given(
    q_len=st.integers(0, 70),
    kv_len=st.integers(0, 70),
    block_q=st.integers(1, 40),
    block_k=st.integers(1, 40),
    causal=st.sampled_from([False, True, "lower_right"]),
)
def test_keys_are_read_in_tiles_that_some_row_of_the_query_tile_sees(
    q_len, kv_len, block_q, block_k, causal
) -> None:
    problem = AttentionProblem(1, 1, q_len, 4, kv_len=kv_len, causal=causal)
    expected = 0
    for first in range(0, q_len, block_q):
        rows = range(first, min(first + block_q, q_len))
        seen = {key for row in rows for key in range(visible_keys(row, q_len, kv_len, causal))}
        tiles = {key // block_k for key in seen}
        expected += sum(min((tile + 1) * block_k, kv_len) - tile * block_k for tile in tiles)
    assert keys_read(problem, block_q, block_k) == expected


def test_one_tile_for_all_queries_reads_each_key_once() -> None:
    problem = AttentionProblem(2, 6, 100, 48, kv_heads=6, kv_len=130)
    table = formula("tiled", problem, block_q=128, block_k=32)
    both = ["read_bytes", "written_bytes"]
    assert table[both].to_numpy().sum() == problem.min_bytes()
    halved = formula("tiled", problem, block_q=64, block_k=32).set_index("tensor")
    assert halved.loc["K", "read_bytes"] == 2 * table.set_index("tensor").loc["K", "read_bytes"]


def test_query_heads_that_share_keys_each_read_them() -> None:
    shared = AttentionProblem(1, 8, 64, 32, kv_heads=2)
    plain = replace(shared, kv_heads=8)
    assert formula("tiled", shared).equals(formula("tiled", plain))
    assert shared.min_bytes() < plain.min_bytes()


def test_flash_keeps_a_statistic_a_row_and_the_others_do_not() -> None:
    for name in TILES:
        table = formula(name, PROFILING_POST)
        kept = table.loc[table["tensor"] == "statistics", "written_bytes"].sum()
        assert kept == (8 * 16 * 1024 * 4 if name == "sdpa_flash" else 0)
    asked = formula("tiled", PROFILING_POST, statistics=True)
    assert asked["written_bytes"].iloc[-1] == 8 * 16 * 1024 * 4


def test_unknown_names_are_refused_readably() -> None:
    with pytest.raises(ValueError, match="There are: naive"):
        formula("flash", PROFILING_POST)


@pytest.mark.parametrize("size", [0, -1, 1.5, "64", True, 24, 8])
def test_what_is_no_tile_is_refused_as_the_kernel_does(size) -> None:
    small = AttentionProblem(1, 1, 32, 16, dtype="float32")
    calls = (
        lambda: formula("tiled", small, block_q=size),
        lambda: formula("sdpa_flash", small, block_k=size),
        lambda: count_tiled(small, block_q=size),
        lambda: tiled_attention(*small.tensors("cpu"), block_q=size),
    )
    for call in calls:
        with pytest.raises(ValueError, match="must be a power of two from 16 on"):
            call()
    with pytest.raises(ValueError, match="naive works on whole matrices and has no tile"):
        formula("naive", small, block_q=size)


def test_a_tile_that_no_kernel_can_hold_is_refused_with_the_largest() -> None:
    small = AttentionProblem(1, 1, 32, 64, dtype="float32")
    for call in (
        lambda: formula("tiled", small, block_q=2**20),
        lambda: tiled_attention(*small.tensors("cpu"), block_q=2**20),
    ):
        with pytest.raises(ValueError, match="with head_dim 64 take 16384 at most"):
            call()
    with pytest.raises(ValueError, match="block_k=64 at most"):
        formula("tiled", small, block_q=16384, block_k=128)


def test_tiled_takes_the_kernels_own_tile_where_none_is_stated() -> None:
    for head_dim, dtype in ((64, "float32"), (128, "float32"), (256, "float32"), (256, "float16")):
        problem = AttentionProblem(1, 2, 256, head_dim, dtype=dtype)
        rows = default_block(head_dim, getattr(torch, dtype))
        stated = formula("tiled", problem, block_q=rows, block_k=rows)
        assert formula("tiled", problem).equals(stated)
    # 256 numbers of 4 bytes: 16 rows fill 16 KiB, so the keys are read 16 times.
    wide = AttentionProblem(1, 1, 256, 256, dtype="float32")
    keys = formula("tiled", wide).set_index("tensor").loc["K", "read_bytes"]
    assert keys == 256 * 256 * 4 * (256 // 16)


def test_a_tile_that_was_read_at_another_head_dim_has_a_note() -> None:
    wide = replace(PROFILING_POST, head_dim=128)
    assert "read at head dim 64" in formula("sdpa_flash", wide).attrs["note"]
    assert "read at head dim 64" in ledger("sdpa_flash", wide).provenance
    for frame in (
        formula("sdpa_flash", wide, block_q=128, block_k=64),
        formula("sdpa_flash", PROFILING_POST),
        formula("tiled", wide),
        formula("naive", wide),
    ):
        assert not frame.attrs


def test_the_papers_orders_of_growth() -> None:
    long = AttentionProblem(1, 1, 16_384, 64, dtype="float16")
    longer = replace(long, q_len=32_768, kv_len=32_768)
    sram = 100 * 1024
    assert io_standard(long) == 16_384 * 64 + 16_384**2
    assert io_flash(longer, sram) == 4 * io_flash(long, sram)
    assert io_flash(long, 2 * sram) == io_flash(long, sram) / 2
    assert io_flash(long, sram) == 16_384**2 * 64**2 / (sram / 2)
    assert io_standard(replace(long, batch=3)) == 3 * io_standard(long)
    # At M = N d the theorem's range ends: reading each number once is what remains.
    short = replace(long, q_len=128, kv_len=128)
    assert io_flash(short, 1 << 20) == io_flash(short, 128 * 64 * 2) == 128 * 64
    with pytest.raises(ValueError, match="fewer than one row"):
        io_flash(long, 64)
    for wrong in ("100 KiB", float("nan"), float("inf"), -1, True, None):
        with pytest.raises(ValueError, match="sram_bytes must be"):
            io_flash(long, wrong)


def test_a_time_bounds_the_bytes() -> None:
    assert time_bound(1_000, 4.8e12) == pytest.approx(4.8e6)
    with pytest.raises(ValueError, match="not negative"):
        time_bound(-1, 4.8e12)
