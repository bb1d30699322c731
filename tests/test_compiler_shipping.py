"""What a Triton kernel may use from around it, and what is said of the rest."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest
import torch

from attnlab_helpers import compiler
from attnlab_helpers.compiler import triton_internals
from attnlab_helpers.kernels.language import tl, triton

pytestmark = pytest.mark.skipif(triton_internals.folder() is None, reason="needs triton")
X = torch.empty(4096, device="meta")
mine = ModuleType("mine")  # stands for a file of the reader's own
mine.inner = ModuleType("mine.inner")


@triton.jit
def tripled(a):
    return a * 3.0


@triton.jit
def endless(a):
    return endless(a)


mine.inner.tripled, mine.SHIFT, mine.tl, mine.plain = tripled, tl.constexpr(7.0), tl, abs


class Settings:
    SHIFT = tl.constexpr(7.0)


@triton.jit
def uses_module(x, BLOCK: tl.constexpr):
    i = mine.tl.arange(0, BLOCK)
    tl.store(x + i, mine.inner.tripled(tl.load(x + i)) + mine.SHIFT)


@triton.jit
def uses_class(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) + Settings.SHIFT)


@triton.jit
def uses_numpy(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, np.exp(tl.load(x + i)))


@triton.jit
def uses_endless(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, endless(tl.load(x + i)))


@triton.heuristics({"EVEN": lambda given: True})
@triton.jit
def tuned(x, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) if EVEN else i)


def compile_(kernel, *arguments, **options):
    given = {"BLOCK": 64, "target": "9.0"} | options
    return compiler.compile_triton(kernel, *(arguments or (X,)), **given)


def test_functions_and_constants_of_the_readers_own_module_come_along() -> None:
    compiled = compile_(uses_module)
    assert "3.000000e+00" in compiled.stages["TTIR"] and "7.000000e+00" in compiled.stages["TTIR"]
    assert "def tripled" in compiled.source
    before = mine.SHIFT
    try:
        mine.SHIFT = tl.constexpr(11.0)
        assert "1.100000e+01" in compile_(uses_module).stages["TTIR"]
    finally:
        mine.SHIFT = before


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (uses_class, r"Settings is a class, which a kernel cannot use.*VALUE = tl\.constexpr"),
        (uses_numpy, "np is a module without anything in it that a kernel can use"),
        (uses_endless, "endless calls itself .*Triton has no recursion"),
    ],
)
def test_what_a_kernel_cannot_use_is_named(kernel, text) -> None:
    with pytest.raises(compiler.CompileFailed, match=text) as caught:
        compile_(kernel)
    assert caught.value.line and "(nothing)" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"num_warps": 3}, ValueError, "power of two"),
        ({"num_warps": 0}, ValueError, "power of two"),
        ({"num_warps": "4"}, TypeError, "num_warps='4': a whole number is wanted"),
        ({"num_warps": 4.0}, TypeError, "a whole number is wanted"),
        ({"num_stages": -1}, ValueError, "cannot be negative"),
        ({"maxnreg": "many"}, TypeError, "maxnreg='many'"),
    ],
)
def test_options_are_checked_before_triton_stumbles(options, error, text) -> None:
    with pytest.raises(error, match=text):
        compile_(uses_module, **options)


def test_more_warps_than_a_block_may_have_are_noted() -> None:
    (note,) = compile_(uses_module, num_warps=64).notes
    assert "cannot be launched" in note and "2,048 threads" in note
    assert compile_(uses_module, num_warps=32).notes == ()


def test_a_kernel_with_its_grid_and_a_lambda_are_refused_with_what_to_do() -> None:
    if not type(uses_module).__module__.startswith("attnlab_helpers"):  # a stand-in ignores it
        with pytest.raises(TypeError, match=r"without \[grid\]"):
            compile_(uses_module[(4,)])
    with pytest.raises(ValueError, match="a lambda is no kernel"):
        compile_(lambda x, BLOCK: x)
    with pytest.raises(TypeError) as caught:
        compile_("__global__ void long_text() {}" * 100)
    assert len(str(caught.value)) < 250 and "compile_cuda" in str(caught.value)


def test_what_a_heuristic_would_choose_has_to_be_given() -> None:
    with pytest.raises(TypeError, match=r"@triton\.heuristics would choose.*by name: EVEN=\.\.\."):
        compile_(tuned)
    assert compile_(tuned, EVEN=True).counts["instructions"] > 0


@pytest.mark.parametrize("value", [np.int64(64), np.int8(64), np.uint32(64)])
def test_numpys_numbers_are_constants(value) -> None:
    assert compile_(uses_module, BLOCK=value).key == compile_(uses_module).key
    assert compile_(tuned, EVEN=np.bool_(True)).key == compile_(tuned, EVEN=True).key


def test_a_number_beyond_64_bits_is_refused() -> None:
    edge = compiler.arguments.argument
    assert edge(2**64 - 1, "n")["type"] == "u64" and edge(-(2**63), "n")["type"] == "i64"
    for number in (2**64, -(2**63) - 1, 2**70):
        with pytest.raises(ValueError, match=f"n is {number}, which has no room in 64 bits"):
            edge(number, "n")


def test_a_target_that_this_triton_does_not_know_is_said(monkeypatch, tmp_path) -> None:
    aborting = tmp_path / "worker.py"
    aborting.write_text(
        "import sys\nprint('LLVM ERROR: no sm_121', file=sys.stderr)\nsys.exit(1)\n"
    )
    monkeypatch.setattr(compiler.triton_stages, "_WORKER", aborting)
    with pytest.raises(compiler.CompileFailed, match=r"may not know the target[\s\S]*LLVM ERROR"):
        compile_(uses_module, target="12.1", num_stages=2)
    assert "mine" not in sys.modules
