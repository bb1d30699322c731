"""Several versions of one kernel can be told apart, in the table and on the viewer's buttons."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import compiler_kernels as kernels
import pytest
import torch

from attnlab_helpers import compiler
from attnlab_helpers.compiler import triton_internals
from attnlab_helpers.compiler.labels import distinct
from attnlab_helpers.plots import stages

needs_triton = pytest.mark.skipif(triton_internals.folder() is None, reason="needs triton")
X = torch.empty(4097, device="meta")


def version(name="add", target="9.0", arguments=(), **settings):
    return SimpleNamespace(
        name=name, language="Triton", target=target, settings=settings, arguments=dict(arguments)
    )


def test_what_differs_is_said_and_nothing_else() -> None:
    pairs = list(itertools.product((64, 128), (4, 8)))
    kernels_ = [version(BLOCK=str(block), num_warps=str(warps), n="1") for block, warps in pairs]
    expected = [f"add, BLOCK={block}, num_warps={warps}" for block, warps in pairs]
    assert distinct(["add"] * 4, kernels_) == expected
    assert distinct(["a", "b"], [version(B="1"), version("other", B="2")]) == ["a", "b"]
    # Two targets with two blocks are two differences, even if one would tell them apart.
    two = [version(target="8.0", B="1"), version(target="9.0", B="2")]
    assert distinct(["8.0", "9.0"], two) == ["8.0, B=1", "9.0, B=2"]
    plain = [version(), version(options="-DN=4"), version()]
    assert distinct(["k"] * 3, plain) == ["k", "k, -DN=4", "k (2)"]
    types = [version(arguments={"x": kind, "y": "*fp32"}) for kind in ("*fp32", "*fp32:16")]
    assert distinct(["k"] * 2, types) == ["k, x=*fp32", "k, x=*fp32:16"]
    assert len(set(distinct(["k", "k (2)", "k"], [version(str(n)) for n in range(3)]))) == 3


@needs_triton
def test_blocks_warps_and_alignment_are_in_the_labels_of_table_and_viewer() -> None:
    def compiled(x=X, block=64, warps=4):
        return compiler.compile_triton(
            kernels.add, x, X, X, 4096, BLOCK=block, num_warps=warps, target="9.0"
        )

    few = compiled(), compiled(block=128), compiled(warps=8)
    expected = ["BLOCK=64, num_warps=4", "BLOCK=128, num_warps=4", "BLOCK=64, num_warps=8"]
    assert list(compiler.summary(*few).columns) == [f"add for 9.0, {text}" for text in expected]
    shown = stages(*few)
    assert shown.labels == [f"9.0, {text}" for text in expected]
    assert list(shown.table.columns[1:]) == shown.labels and "BLOCK=128" in str(shown)
    views = stages(compiled(), compiled(X[1:]))
    assert views.labels == ["9.0, x=*fp32:16", "9.0, x=*fp32"]
    named = stages(*few, labels=["narrow", "wide", "many"])
    assert named.labels == ["narrow", "wide", "many"]
    table = compiler.summary(*few, labels=["narrow", "wide", "many"])
    assert list(table.columns) == named.labels


@needs_triton
def test_labels_and_kernels_that_do_not_fit_are_sentences() -> None:
    one = compiler.compile_triton(kernels.add, X, X, X, 4096, BLOCK=64, target="9.0")
    for call in (compiler.summary, stages):
        for labels in (["a"], ["a", "a"], ["a", "b", "c"]):
            with pytest.raises(ValueError, match="2 kernels need as many labels, all different"):
                call(one, one, labels=labels)
        with pytest.raises(TypeError, match="a list of texts"):
            call(one, labels="a")
        with pytest.raises(TypeError, match=r"one by one: \w+\(\*kernels\)"):
            call([one, one])
        with pytest.raises(TypeError, match="a str"):
            call("x")
