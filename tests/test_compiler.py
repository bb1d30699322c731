"""Compiling Triton kernels without a GPU: targets, arguments, names from around, errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import compiler_kernels as kernels
import pytest
import torch

from attnlab_helpers import compiler
from attnlab_helpers.compiler import triton_internals
from attnlab_helpers.kernels.language import tl, triton

pytestmark = pytest.mark.skipif(triton_internals.folder() is None, reason="needs triton")
ALIGNED = torch.empty(4096, device="meta")
VIEW = torch.empty(4097, device="meta")[1:]
HALVES = torch.empty(512, 512, device="meta", dtype=torch.float16)


def compile_add(x=ALIGNED, target="9.0", **options):
    return compiler.compile_triton(kernels.add, x, x, x, 4096, BLOCK=1024, target=target, **options)


def compile_matmul(target):
    return compiler.compile_triton(
        kernels.matmul, HALVES, HALVES, HALVES, 512, 512, M=64, N=64, K=32, target=target
    )


@pytest.mark.parametrize("target", ["8.0", "9.0", "10.0"])
def test_aligned_tensors_are_loaded_128_bits_at_a_time_and_views_are_not(target) -> None:
    aligned, view = compile_add(target=target), compile_add(VIEW, target)
    assert list(aligned.stages) == ["TTIR", "TTGIR", "LLVM IR", "PTX", "SASS"]
    assert aligned.counts["global_loads"] == {128: 4}
    assert aligned.counts["global_stores"] == {128: 2}
    assert set(view.counts["global_loads"]) == {32}
    assert aligned.counts["predicated_memory"] >= 5  # the bounds check
    assert aligned.counts["registers"] > 0 and aligned.counts["local_bytes"] == 0
    assert aligned.target == target and f"compute capability {target}" in aligned.provenance
    assert aligned.cubin.startswith(b"\x7fELF") and aligned.entry == "add"


def test_an_unknown_length_is_checked_element_by_element() -> None:
    odd = compiler.compile_triton(kernels.add, *[ALIGNED] * 3, 4095, BLOCK=1024, target="9.0")
    assert set(odd.counts["global_loads"]) == {32}


@pytest.mark.parametrize(
    ("target", "kind"), [("8.0", "mma.sync"), ("9.0", "wgmma"), ("10.0", "tcgen05.mma")]
)
def test_each_generation_has_its_own_tensor_core_instruction(target, kind) -> None:
    counts = compile_matmul(target).counts
    assert counts[kind] > 0
    assert all(not counts[other] for other in {"mma.sync", "wgmma", "tcgen05.mma"} - {kind})
    if target == "8.0":  # with num_stages=3 the next tiles are fetched ahead
        assert counts["cp.async"] > 0 and counts["shared_bytes"] > 0


def test_a_kernel_with_too_few_registers_spills() -> None:
    blocks = {"M": 64, "N": 64, "K": 16}
    spilling = compiler.compile_triton(
        kernels.matmul, HALVES, HALVES, HALVES, 512, 512, target="8.0", maxnreg=32, **blocks
    )
    assert 0 < spilling.counts["registers"] <= 32
    assert spilling.counts["local_bytes"] > 0 and spilling.counts["local_stores"] > 0


def test_functions_constants_and_options_come_along() -> None:
    compiled = compiler.compile_triton(kernels.add_scaled, ALIGNED, ALIGNED, 16, target="8.0")
    assert "def add_scaled" in compiled.source and "def scaled" in compiled.source
    assert compiled.source.splitlines()[0] == '@triton.jit(do_not_specialize=["n"])'
    assert "3.000000e+00" in compiled.stages["TTIR"]
    # do_not_specialize: nothing is said of n, neither that 16 divides it nor that it is 1.
    assert "%n: i32 {" not in compiled.stages["TTIR"]
    one = compiler.compile_triton(kernels.add_scaled, ALIGNED, ALIGNED, 1, target="8.0")
    assert "%n: i32" in one.stages["TTIR"]


def test_a_function_can_be_a_constant_and_a_kernel_can_come_from_a_factory() -> None:
    applied = compiler.compile_triton(
        kernels.apply, ALIGNED, FUNCTION=kernels.scaled, BLOCK=64, target="9.0"
    )
    assert "3.000000e+00" in applied.stages["TTIR"]
    texts = {
        compiler.compile_triton(
            kernels.from_factory(offset), ALIGNED, BLOCK=64, target="9.0"
        ).stages["TTIR"]
        for offset in (7.0, 11.0)
    }
    assert len(texts) == 2 and any("7.000000e+00" in text for text in texts)


def test_texts_name_types_and_the_value_one_becomes_a_constant() -> None:
    def signature(*arguments):
        compiled = compiler.compile_triton(kernels.add, *arguments, BLOCK=64, target="8.0")
        return next(line for line in compiled.stages["TTIR"].splitlines() if "@add" in line)

    line = signature("*bf16:16", "*bf16", "*bf16", "i64:16")
    assert "%x: !tt.ptr<bf16> {tt.divisibility" in line
    assert "%y: !tt.ptr<bf16>," in line and "%n: i64 {tt.divisibility" in line
    assert "%n" not in signature(ALIGNED, ALIGNED, ALIGNED, 1)
    assert "%n: i64" in signature(ALIGNED, ALIGNED, ALIGNED, 2**31 + 1)


def test_the_same_kernel_is_compiled_once_and_other_options_are_compiled_anew(monkeypatch) -> None:
    first, wide = compile_add(), compile_add(num_warps=8)
    assert wide.num_warps == 8
    monkeypatch.setattr(compiler.triton_stages, "_ask", lambda request: pytest.fail("again"))
    assert compile_add().cubin is first.cubin and compile_add(num_warps=8).cubin is wide.cubin


def test_who_changes_a_result_changes_no_later_one() -> None:
    first = compile_add()
    before = dict(first.counts), dict(first.stages), first.counts["global_loads"][128]
    first.counts["instructions"] = -1
    first.counts["global_loads"][128] = -1
    first.stages["SASS"] = ""
    first.line_maps.clear()
    again = compile_add()
    assert (again.counts["instructions"], again.stages) == (before[0]["instructions"], before[1])
    assert again.counts["global_loads"][128] == before[2] > 0 and again.lines("SASS")
    assert len({first, again}) == 2  # hashable: each is itself


@pytest.mark.parametrize(
    ("kernel", "line", "text"),
    [
        (kernels.wrong_third_line, 4, 'tl.store(x + i, tl.load(x + i, colour="red"))'),
        (kernels.calls_wrong, 9, "return a + nowhere_defined"),
        (kernels.calls_plain, 4, "tl.store(x + i, plain_python(i))"),
    ],
)
def test_an_error_shows_the_readers_line(kernel, line, text) -> None:
    with pytest.raises(compiler.CompileFailed) as caught:
        compiler.compile_triton(kernel, ALIGNED, BLOCK=64, target="9.0")
    shown = str(caught.value).splitlines()
    assert caught.value.line == line
    place = next(n for n, one in enumerate(shown) if text in one)
    assert shown[place].startswith(f"{line:>4} | ") and "^" in shown[place + 1]
    assert caught.value._render_traceback_()[0].startswith("CompileFailed: the Triton compiler")
    if kernel is kernels.calls_plain:
        assert "under @triton.jit" in shown[-1]
    else:
        assert ("colour" if kernel is kernels.wrong_third_line else "not defined") in shown[-1]


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="BLOCK"):
        compiler.compile_triton(kernels.add, *[ALIGNED] * 3, 5, target="9.0")
    with pytest.raises(TypeError, match=r"y is a list"):
        compiler.compile_triton(kernels.add, ALIGNED, [1], ALIGNED, 5, BLOCK=64, target="9.0")
    with pytest.raises(TypeError, match="no type"):
        compiler.compile_triton(kernels.add, "*fp33", "", "", 5, BLOCK=64, target="9.0")
    with pytest.raises(TypeError, match="no kernel"):
        compiler.compile_triton("add", ALIGNED, target="9.0")
    with pytest.raises(ValueError, match=r"8\.9 .*RTX 4090"):
        compile_add(target="7.0")


def test_a_kernel_from_exec_has_no_source_to_compile() -> None:
    names = {"triton": triton, "tl": tl}
    exec("def stored(x, B: tl.constexpr):\n    tl.store(x, B)\n", names)
    with pytest.raises(ValueError, match=r"stored cannot be read.*exec"):
        compiler.compile_triton(names["stored"], ALIGNED, B=1, target="9.0")


NOTEBOOK = """
import linecache, os, json, sys
import torch
cell = '''import triton
import triton.language as tl

@triton.jit
def double(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, 2 * tl.load(x + i))
'''
name = "<ipython-input-7>"  # as IPython registers a cell
linecache.cache[name] = (len(cell), None, cell.splitlines(True), name)
scope = {"__name__": "__main__"}
exec(compile(cell, name, "exec"), scope)
from attnlab_helpers import compiler
compiled = compiler.compile_triton(scope["double"], torch.empty(64), BLOCK=64, target="9.0")
print(json.dumps([type(scope["double"]).__name__, compiled.counts["global_loads"],
                  compiled.source, os.environ["TRITON_INTERPRET"]]))
"""


def test_a_cell_of_a_notebook_compiles_while_the_interpreter_is_on() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    kind, loads, source, variable = json.loads(done.stdout)
    assert kind == "InterpretedFunction" and variable == "1"
    assert sum(loads.values()) > 0 and source.startswith("@triton.jit\ndef double")
    assert not done.stderr  # nothing of the compilers' noise


def test_the_limit_is_said_when_the_compiler_does_not_end(monkeypatch) -> None:
    monkeypatch.setattr(compiler.triton_stages, "LIMIT_SECONDS", 0.01)
    with pytest.raises(compiler.CompileFailed, match="was not done with add"):
        compile_add(num_warps=2)


def test_a_compiler_that_ends_itself_is_reported(monkeypatch, tmp_path) -> None:
    aborting = tmp_path / "worker.py"
    aborting.write_text("import os, sys\nprint('LLVM ERROR: no', file=sys.stderr)\nos.abort()\n")
    monkeypatch.setattr(compiler.triton_stages, "_WORKER", aborting)
    with pytest.raises(compiler.CompileFailed, match=r"SIGABRT[\s\S]*LLVM ERROR: no"):
        compile_add(num_warps=1)


def test_t15_compiling_needs_no_home_that_can_be_written(monkeypatch, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "file" / "cache"))
    # A block that no other test asks for, so that nothing is remembered.
    compiled = compiler.compile_triton(
        kernels.add, ALIGNED, ALIGNED, ALIGNED, 4096, BLOCK=2048, target="9.0"
    )
    assert compiled.counts["instructions"] > 0
