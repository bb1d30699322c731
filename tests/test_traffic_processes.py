"""Counting in another process: the package's kernel, a notebook's own, and what goes wrong."""

import functools
import sys

import pytest
import torch

from attnlab_helpers import AttentionProblem
from attnlab_helpers.kernels import language
from attnlab_helpers.traffic import CountingUnavailable, count_in_process, formula

pytestmark = pytest.mark.skipif(language.mode() == "missing", reason="Triton is not installed")


def end_the_process() -> None:
    """What a test runs in another process."""
    raise SystemExit(0)


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
import numpy
import torch
from attnlab_helpers.kernels.language import triton, tl
from attnlab_helpers.traffic import count
SIZE = 48
LOW = tl.constexpr(float("-inf"))
NOT = float("nan")
KIND, WIDTH = torch.float32, tl.float32
SETTINGS = {"BLOCK": 16, "others": [float("inf"), (1, None), {"a"}]}
TIMES = numpy.int64(2)
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

@triton.heuristics({"BLOCK": lambda values: 16})
@triton.jit
def capped(x_ptr, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.maximum(tl.load(x_ptr + places, mask=places < n).to(WIDTH), LOW)
    tl.store(x_ptr + places, value, mask=places < n)

@triton.autotune(configs=[triton.Config({"BLOCK": SETTINGS["BLOCK"]})], key=["n"])
@triton.jit
def tuned(x_ptr, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + places, tl.load(x_ptr + places, mask=places < n), mask=places < n)

def all_kinds():
    assert NOT != NOT and SETTINGS["others"] == [float("inf"), (1, None), {"a"}]
    x = torch.ones(16, dtype=KIND) * int(TIMES)
    return count(lambda: [capped[(1,)](x, 16), tuned[(1,)](x, 16)] and None, {"x": x})

nameless = lambda: 3
def with_a_lambda():
    return nameless()

x = torch.ones(3)
def with_a_tensor():
    return x.sum()
"""
    )
    monkeypatch.syspath_prepend(tmp_path)
    import cells

    own = ("mine", "all_kinds", "with_a_tensor", "with_a_lambda", "nameless", "blocks")
    for name in (*own, "halve", "half", "capped", "tuned"):
        function = getattr(cells, name)
        while hasattr(function, "fn"):
            function = function.fn
        monkeypatch.setattr(function, "__module__", "__main__")  # as a notebook's are
    monkeypatch.delitem(sys.modules, "cells")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path)])
    counts = count_in_process(cells.mine, extra=5)
    assert counts.bytes("x") == (53 * 4, 53 * 4)
    # Numbers that have no literal, dtypes, dictionaries; kernels below two kinds of decorators.
    assert count_in_process(cells.all_kinds).bytes("x") == (128, 128)
    with pytest.raises(CountingUnavailable, match=r"nameless = lambda.*with `def`"):
        count_in_process(cells.with_a_lambda)
    with pytest.raises(CountingUnavailable, match=r"uses x, a Tensor.*Make it inside"):
        count_in_process(cells.with_a_tensor)


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(CountingUnavailable, match="must return the Counts"):
        count_in_process(f"{__name__}:return_no_counts", n=3)
    with pytest.raises(TypeError, match="plain values"):
        count_in_process(f"{__name__}:return_no_counts", n=torch.ones(3))
    with pytest.raises(CountingUnavailable, match="end_the_process ended the process"):
        count_in_process(f"{__name__}:end_the_process")


def test_what_no_process_can_be_given_is_refused_before_one_starts() -> None:
    for text in ("nothing", "a:b:c", "a b:c", ""):
        with pytest.raises(ValueError, match="is not 'module:name'"):
            count_in_process(text)
    partial = functools.partial(return_no_counts, 3)
    for function in (partial, "x".join, None, 3):
        with pytest.raises(TypeError, match="write a function with `def`"):
            count_in_process(function)
    with pytest.raises(TypeError, match="a lambda has no name"):
        count_in_process(lambda: return_no_counts(3))
