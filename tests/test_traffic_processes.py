"""Counting in another process: the package's kernel, a notebook's own, and what goes wrong."""

import sys

import pytest
import torch

from attnlab_helpers import AttentionProblem
from attnlab_helpers.kernels import language
from attnlab_helpers.traffic import CountingUnavailable, count_in_process, formula

pytestmark = pytest.mark.skipif(language.mode() == "missing", reason="Triton is not installed")


def return_no_counts(n: int) -> int:
    """What a test runs in another process."""
    return n


def test_counting_works_in_a_process_of_its_own() -> None:
    problem = AttentionProblem(1, 1, 40, 16, causal=True)
    counts = count_in_process(
        "attnlab_helpers.traffic.elsewhere:tiled_counts",
        problem={"batch": 1, "heads": 1, "q_len": 40, "head_dim": 16, "causal": True},
        block_q=32, block_k=16, statistics=False, programs=True,
    )  # fmt: skip
    for one in formula("tiled", problem, block_q=32, block_k=16).itertuples():
        assert counts.bytes(one.tensor) == (one.read_bytes, one.written_bytes)
    assert counts.provenance.kind == "interpreter"


def test_a_notebooks_function_is_carried_with_its_kernels(tmp_path, monkeypatch) -> None:
    (tmp_path / "cells.py").write_text(
        """
import torch
from attnlab_helpers.kernels.language import triton, tl
from attnlab_helpers.traffic import count
SIZE = 48
WIDE: tl.constexpr = tl.constexpr(16)

@triton.jit
def half(x):
    return x / 2

@triton.jit
def halve(x_ptr, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * WIDE + tl.arange(0, BLOCK)
    tl.store(x_ptr + places, half(tl.load(x_ptr + places, mask=places < n)), mask=places < n)

def blocks(n):
    return (triton.cdiv(n, WIDE.value),)

def mine(extra):
    x = torch.ones(SIZE + extra)
    counts = count(lambda: halve[blocks(len(x))](x, len(x), BLOCK=16), {"x": x})
    assert (x == 0.5).all()
    return counts

x = torch.ones(3)
def with_a_tensor():
    return x.sum()
"""
    )
    monkeypatch.syspath_prepend(tmp_path)
    import cells

    for name in ("mine", "with_a_tensor", "halve", "half", "blocks"):
        function = getattr(getattr(cells, name), "fn", getattr(cells, name))
        monkeypatch.setattr(function, "__module__", "__main__")  # as a notebook's are
    monkeypatch.delitem(sys.modules, "cells")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path)])
    counts = count_in_process(cells.mine, extra=5)
    assert counts.bytes("x") == (53 * 4, 53 * 4)
    with pytest.raises(CountingUnavailable, match=r"uses x, a Tensor.*Make it inside"):
        count_in_process(cells.with_a_tensor)


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(CountingUnavailable, match="must return the Counts"):
        count_in_process(f"{__name__}:return_no_counts", n=3)
    with pytest.raises(TypeError, match="plain values"):
        count_in_process(f"{__name__}:return_no_counts", n=torch.ones(3))
