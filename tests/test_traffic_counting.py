"""Counting bytes in Triton's interpreter: exact, for tensors, tiles and processes of all kinds."""

import json

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnlab_helpers import AttentionProblem

# At import, before any test can make another library import Triton without its interpreter.
from attnlab_helpers.kernels import language
from attnlab_helpers.traffic import (
    Counts,
    count,
    count_tiled,
    formula,
    ledger,
)

triton, tl = language.triton, language.tl
INTERPRETED = pytest.mark.skipif(language.mode() != "interpreter", reason="no interpreter here")


@triton.jit
def scaled_copy(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places * stride, mask=places < n, other=0.0)
    tl.store(out_ptr + places, x * 2, mask=places < n)


@triton.jit
def histogram(x_ptr, bins_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x_ptr + places, mask=places < n, other=0)
    tl.atomic_add(bins_ptr + values % BINS, 1, mask=places < n)


@triton.jit
def copy_with_descriptors(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x_ptr, [rows, columns], [columns, 1], [BLOCK, BLOCK])
    target = tl.make_tensor_descriptor(out_ptr, [rows, columns], [columns, 1], [BLOCK, BLOCK])
    first = tl.program_id(0) * BLOCK
    target.store([first, 0], source.load([first, 0]))


@triton.jit
def sum_up_to(x_ptr, out_ptr, n_ptr):
    total = 0.0
    for place in range(0, tl.load(n_ptr)):
        total += tl.load(x_ptr + place)
    tl.store(out_ptr, total)


def launch_copy(x: torch.Tensor, block: int = 32) -> torch.Tensor:
    out = torch.empty(len(x))
    scaled_copy[(triton.cdiv(len(x), block),)](x, out, len(x), x.stride(0), BLOCK=block)
    return out


def row(counts: Counts, tensor: str) -> dict:
    return counts.frame.set_index("tensor").loc[tensor].to_dict()


@INTERPRETED
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(n=st.integers(1, 150), block=st.sampled_from([16, 64]), step=st.integers(1, 3))
def test_lanes_that_a_mask_switches_off_move_nothing(n, block, step) -> None:
    x = torch.randn(n * step)[::step]
    results = []
    counts = count(lambda: results.append(launch_copy(x, block)) or results[0], {"x": x})
    assert torch.equal(results[0], 2 * x)
    blocks = -(-n // block)
    read, written = row(counts, "x"), row(counts, "O")
    assert (read["loaded_bytes"], read["stored_bytes"]) == (4 * n, 0)
    assert (written["loaded_bytes"], written["stored_bytes"]) == (0, 4 * n)
    assert read["distinct_bytes"] == written["distinct_bytes"] == 4 * n
    assert read["masked_lanes"] == written["masked_lanes"] == blocks * block - n
    assert (read["loads"], written["stores"]) == (blocks, blocks)
    assert "other" not in set(counts.frame["tensor"])
    assert counts.bytes("x") == (4 * n, 0)


@INTERPRETED
def test_views_of_one_storage_are_told_apart_and_the_rest_is_other() -> None:
    packed = torch.randn(20, 3)  # as q, k, v come out of one projection
    named = {"a": packed[:, 0], "b": packed[:, 1]}
    counts = count(lambda: [launch_copy(packed[:, n]) for n in (0, 1, 2, 1)], named, outputs=[])
    assert row(counts, "a")["loaded_bytes"] == 80
    assert row(counts, "b")["loaded_bytes"] == 160
    assert row(counts, "b")["distinct_bytes"] == 80
    assert row(counts, "other")["loaded_bytes"] == 80  # the third column
    assert counts.launches == 4
    stored = counts.frame.set_index("tensor")["stored_bytes"]
    assert list(stored[[f"result {n}" for n in range(4)]]) == [80] * 4


@INTERPRETED
def test_what_a_launch_makes_for_itself_is_other() -> None:
    x = torch.randn(50)
    counts = count(lambda: launch_copy(x.clone()), {"x": x})
    assert row(counts, "x")["loaded_bytes"] == 0
    assert row(counts, "other")["loaded_bytes"] == row(counts, "O")["stored_bytes"] == 200


@INTERPRETED
def test_real_sizes_stand_in_for_the_interpreters() -> None:
    x = torch.randn(50)
    counts = count(lambda: launch_copy(x), {"Q": x}, element_bytes={"Q": 2})
    assert counts.bytes("Q") == (100, 0)
    assert counts.bytes("O") == (0, 200)
    problem = AttentionProblem(1, 1, 1, 1, dtype="bfloat16")
    counts = count(lambda: launch_copy(x), {"Q": x}, element_bytes=problem)
    assert counts.bytes("Q") == (100, 0) and counts.bytes("O") == (0, 100)


@INTERPRETED
def test_atomics_and_descriptors_are_counted_once() -> None:
    values = torch.randint(0, 1000, (100,), dtype=torch.int32)
    bins = torch.zeros(8, dtype=torch.int32)
    counts = count(
        lambda: histogram[(4,)](values, bins, 100, BINS=8, BLOCK=32), {"x": values, "bins": bins}
    )
    assert bins.tolist() == np.bincount(values.numpy() % 8, minlength=8).tolist()
    found = row(counts, "bins")
    assert (found["atomic_bytes"], found["atomics"], found["masked_lanes"]) == (400, 4, 28)
    assert found["loaded_bytes"] == found["stored_bytes"] == 0
    assert counts.bytes("bins") == (400, 400)

    x = torch.randn(20, 12)
    out = torch.empty_like(x)
    counts = count(
        lambda: copy_with_descriptors[(2,)](x, out, 20, 12, BLOCK=16), {"x": x, "out": out}
    )
    assert torch.equal(x, out)
    assert counts.bytes("x") == (20 * 12 * 4, 0)
    assert counts.bytes("out") == (0, 20 * 12 * 4)


@INTERPRETED
def test_block_pointers_are_counted_where_triton_still_has_them() -> None:
    @triton.jit
    def copy_with_block_pointers(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
        first = tl.program_id(0) * BLOCK
        source = tl.make_block_ptr(
            x_ptr, (rows, columns), (columns, 1), (first, 0), (BLOCK, BLOCK), (1, 0)
        )
        target = tl.make_block_ptr(
            out_ptr, (rows, columns), (columns, 1), (first, 0), (BLOCK, BLOCK), (1, 0)
        )
        tl.store(target, tl.load(source, boundary_check=(0, 1)), boundary_check=(0, 1))

    x = torch.randn(20, 12)
    out = torch.empty_like(x)
    try:
        counts = count(
            lambda: copy_with_block_pointers[(2,)](x, out, 20, 12, BLOCK=16), {"x": x, "out": out}
        )
    except Exception as error:  # Triton wraps its own
        assert "Block pointers have been removed" in str(error)
        return
    assert counts.bytes("x") == counts.bytes("out")[::-1] == (20 * 12 * 4, 0)


@INTERPRETED
@pytest.mark.filterwarnings("error:Conversion of an array:DeprecationWarning")
def test_a_loop_may_end_at_a_number_that_the_kernel_read() -> None:
    x, out, n = torch.randn(9), torch.empty(1), torch.tensor([5])
    counts = count(lambda: sum_up_to[(1,)](x, out, n), {"x": x, "n": n})
    assert counts.bytes("x") == (5 * 4, 0) and counts.bytes("n") == (8, 0)


TILED = [
    (AttentionProblem(1, 2, 70, 64, causal=True), 32, 16),
    (AttentionProblem(1, 1, 65, 40, dtype="float16"), 16, 64),
    (AttentionProblem(2, 4, 33, 16, kv_heads=2, kv_len=50, causal=True, dtype="float32"), 32, 16),
    (AttentionProblem(1, 2, 40, 24, kv_len=17, causal="lower_right"), 16, 16),
    (AttentionProblem(1, 3, 17, 96, kv_len=64, kv_heads=1, causal="lower_right"), 16, 32),
    (AttentionProblem(1, 1, 1, 8, kv_len=3), 16, 16),
]


@INTERPRETED
@pytest.mark.parametrize(("problem", "block_q", "block_k"), TILED)
def test_tiled_attention_moves_what_the_formula_says(problem, block_q, block_k) -> None:
    tiles = {"block_q": block_q, "block_k": block_k, "statistics": True}
    counts = count_tiled(problem, **tiles)
    expected = formula("tiled", problem, **tiles)
    assert set(counts.frame["tensor"]) == set(expected["tensor"])
    for one in expected.itertuples():
        assert counts.bytes(one.tensor) == (one.read_bytes, one.written_bytes), one.tensor
    book = ledger("tiled", problem, counts=counts, **tiles)
    assert (book.frame["counted_off_percent"] == 0).all()
    assert book.frame["formula_bytes"].iloc[-1] == book.frame["counted_bytes"].iloc[-1]
    assert "triton" in book.provenance
    with pytest.raises(ValueError, match="another problem"):
        ledger("tiled", AttentionProblem(7, 1, 2, 3), counts=counts)


@INTERPRETED
def test_one_head_stands_for_many_and_says_so() -> None:
    one = AttentionProblem(1, 1, 40, 16, causal=True)
    many = AttentionProblem(3, 4, 40, 16, causal=True)
    book = ledger("tiled", many, counts=count_tiled(one))
    assert (book.frame["counted_off_percent"] == 0).all()
    assert "one of 12 equal parts" in book.provenance
    with pytest.raises(ValueError, match="equal part"):
        ledger("tiled", many, counts=count_tiled(AttentionProblem(1, 5, 40, 16, causal=True)))


@INTERPRETED
def test_which_program_touched_which_tile() -> None:
    problem = AttentionProblem(1, 1, 48, 16, causal=True, dtype="float32")
    counts = count_tiled(problem, block_q=16, block_k=16, programs=True)
    for program in range(3):
        touched = counts.touched("K", (program, 0, 0))[0, 0].all(axis=-1)
        assert touched.tolist() == [key < 16 * (program + 1) for key in range(48)]
        own = counts.touched("O", (program, 0, 0))[0, 0].any(axis=-1)
        assert np.flatnonzero(own).tolist() == list(range(16 * program, 16 * (program + 1)))
    assert counts.touched("K").all()
    per_tensor = counts.programs.groupby("tensor")["loaded_bytes"].sum()
    assert per_tensor["K"] == counts.bytes("K")[0]
    again = Counts.from_json(json.loads(json.dumps(counts.to_json())))
    assert again.frame.equals(counts.frame) and again.programs.equals(counts.programs)
    assert (again.touched("K", (1, 0, 0)) == counts.touched("K", (1, 0, 0))).all()
    with pytest.raises(KeyError, match="Q, K, V, O"):
        counts.touched("X")
    with pytest.raises(ValueError, match="programs=True"):
        count_tiled(problem).touched("K")
