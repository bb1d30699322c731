"""The ledger and counts that do not belong to its problem."""

from dataclasses import replace

import pytest
import torch

from attnlab_helpers import AttentionProblem

# At import, before any test can make another library import Triton without its interpreter.
from attnlab_helpers.kernels import language
from attnlab_helpers.traffic import count, count_tiled, formula, ledger

triton, tl = language.triton, language.tl
pytestmark = pytest.mark.skipif(language.mode() != "interpreter", reason="no interpreter here")
PROBLEM = AttentionProblem(1, 2, 48, 16, causal=True)


@triton.jit
def copied(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + places, tl.load(x_ptr + places, mask=places < n), mask=places < n)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"dtype": "float32"}, "dtype='float32', and this is 'bfloat16'"),
        ({"causal": False}, "causal=False, and this is True"),
        ({"q_len": 47}, "do not fit"),
        ({"kv_len": 50}, "do not fit"),
        ({"head_dim": 8}, "do not fit"),
        ({"heads": 3, "kv_heads": 3}, "equal part"),
    ],
)
def test_counts_of_another_problem_are_refused(changed, words) -> None:
    counts = count_tiled(replace(PROBLEM, **changed))
    with pytest.raises(ValueError, match=words):
        ledger("tiled", PROBLEM, counts=counts)


def test_counts_of_another_implementation_and_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="implementation='tiled', and this is 'naive'"):
        ledger("naive", PROBLEM, counts=count_tiled(PROBLEM))
    with pytest.raises(TypeError, match="not a int"):
        ledger("tiled", PROBLEM, counts=5)
    x, out = torch.randn(20), torch.empty(20)
    other = count(lambda: copied[(1,)](x, out, 20, BLOCK=32), {"X": x, "Z": out})
    with pytest.raises(ValueError, match="no Q, K, V, O; its tensors are X, Z"):
        ledger("tiled", PROBLEM, counts=other)


def test_a_readers_own_kernel_is_compared_by_what_it_touched() -> None:
    n = 2 * 48 * 16
    tensors = {name: torch.randn(1, 2, 48, 16) for name in "QKVO"}

    def launch(stored: int) -> None:
        for name in "KV":
            copied[(1,)](tensors[name], torch.empty(n), n, BLOCK=2048)
        copied[(1,)](tensors["Q"], tensors["O"], stored, BLOCK=2048)

    whole = count(lambda: launch(n), tensors, element_bytes=PROBLEM)
    assert "implementation" not in whole.about
    assert ledger("tiled", PROBLEM, counts=whole).frame["counted_bytes"].iloc[0] == 2 * n
    part = count(lambda: launch(n - 1), tensors, element_bytes=PROBLEM)
    with pytest.raises(ValueError, match="3,070 bytes of Q were touched, and it has 3,072"):
        ledger("tiled", PROBLEM, counts=part)
    wide = count(lambda: launch(n), tensors)  # in float32, which the problem is not
    with pytest.raises(ValueError, match=r"6,144 bytes of Q .*element_bytes=problem"):
        ledger("tiled", PROBLEM, counts=wide)


def test_the_tile_of_the_counts_is_the_ledgers_where_none_is_stated() -> None:
    counts = count_tiled(PROBLEM, block_q=16, block_k=32, statistics=True)
    book = ledger("tiled", PROBLEM, counts=counts)
    assert (book.frame["counted_off_percent"] == 0).all()
    assert "a tile of 16 queries, in tiles of 32 keys" in book.provenance
    assert "counted: Triton's interpreter, triton" in book.provenance
    stated = ledger("tiled", PROBLEM, counts=counts, block_q=64)
    assert stated.frame["counted_off_percent"].iloc[1] > 0


def test_the_default_tile_is_counted_as_by_formula() -> None:
    for head_dim, dtype in ((256, "float16"), (128, "float32"), (256, "bfloat16")):
        problem = AttentionProblem(1, 1, 70, head_dim, dtype=dtype, causal=True)
        counts, expected = count_tiled(problem), formula("tiled", problem)
        for one in expected.itertuples():
            assert counts.bytes(one.tensor) == (one.read_bytes, one.written_bytes)
        assert (ledger("tiled", problem, counts=counts).frame["counted_off_percent"] == 0).all()


def test_tiles_that_no_query_sees_are_not_read() -> None:
    problem = AttentionProblem(1, 1, 5, 16, kv_len=100, causal=True, dtype="float32")
    counts = count_tiled(problem, block_q=32, block_k=16)
    assert counts.bytes("K") == (16 * 16 * 4, 0)
    by_formula = formula("tiled", problem, block_q=32, block_k=16).set_index("tensor")
    assert by_formula.loc["K", "read_bytes"] == 16 * 16 * 4
