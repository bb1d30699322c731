"""Which machine line came from which source line, in every stage."""

from __future__ import annotations

import compiler_kernels as kernels
import pytest
import torch

from attnlab_helpers import compiler
from attnlab_helpers.compiler import triton_internals
from attnlab_helpers.compiler.tidying import tidy

needs_triton = pytest.mark.skipif(triton_internals.folder() is None, reason="needs triton")
X = torch.empty(4096, device="meta")


def compiled_for(kernel, target, **constants):
    return compiler.compile_triton(kernel, X, X, 4096, target=target, **constants)


@needs_triton
@pytest.mark.parametrize("target", ["7.5", "9.0", "12.0"])
def test_loads_and_stores_point_at_the_line_that_wrote_them(target) -> None:
    compiled = compiler.compile_triton(kernels.add, X, X, X, 4096, BLOCK=1024, target=target)
    source = compiled.source.splitlines()
    marks = {
        "TTIR": ("tt.load", "tt.store"),
        "TTGIR": ("tt.load", "tt.store"),
        "LLVM IR": ("ld.global", "st.global"),
        "PTX": ("ld.global", "st.global"),
        "SASS": ("LDG", "STG"),
    }
    for stage, (load, store) in marks.items():
        pairs = list(zip(compiled.stages[stage].splitlines(), compiled.lines(stage), strict=True))
        loads = [line for text, line in pairs if load in text]
        stores = [line for text, line in pairs if store in text]
        assert loads and stores, stage
        assert {source[line - 1].strip()[:11] for line in loads} == {"a = tl.load", "b = tl.load"}
        assert all("tl.store" in source[line - 1] for line in stores), stage


@needs_triton
def test_every_line_lies_within_the_source_and_no_debug_information_is_left() -> None:
    compiled = compiled_for(kernels.add_scaled, "8.0", BLOCK=256)
    last = len(compiled.source.splitlines())
    helper = compiled.source.splitlines().index("    return a * SCALE") + 1
    for stage, text in compiled.stages.items():
        lines = compiled.lines(stage)
        assert len(lines) == len(text.splitlines())
        assert all(line is None or 1 <= line <= last for line in lines)
        # The reader's own function keeps its line (below LLVM IR its product is part of an fma).
        assert helper in lines or stage in ("PTX", "SASS"), stage
        assert not any(word in text for word in ("!dbg", "loc(", ".loc", "debug_", "site-packages"))
        assert not text.endswith("\n\n") and "\n\n\n" not in text
    with pytest.raises(KeyError, match="no stage 'AMDGCN'"):
        compiled.lines("AMDGCN")


@needs_triton
def test_what_triton_inlines_counts_for_the_calling_line() -> None:
    compiled = compiled_for(kernels.add_scaled, "9.0", BLOCK=256)
    source = compiled.source.splitlines()
    call = next(n for n, line in enumerate(source, 1) if "tl.max" in line)
    for stage, word in (("SASS", "SHFL"), ("PTX", "shfl.sync"), ("LLVM IR", "shfl.sync")):
        found = {
            line
            for text, line in zip(
                compiled.stages[stage].splitlines(), compiled.lines(stage), strict=True
            )
            if word in text and "declare" not in text
        }
        assert found == {call}, stage


def test_locations_of_mlir_are_followed_to_the_innermost_line_of_the_file() -> None:
    text = """\
#loc = loc("kernel.py":1:1)
#loc3 = loc(unknown)
module {
  %0 = arith.addf %a, %b : f32 loc(#loc5)
  %1 = tt.load %x {note = "loc(1)"} : f32 loc("a(b)"("kernel.py":7:3))
  %2 = tt.load %y : f32 loc(fused[#loc3, "/lib/other.py":3:1, #loc6])
  %3 = tt.nowhere loc(#loc3)
} loc(#loc)
#loc4 = loc("/lib/standard.py":30:2)
#loc5 = loc(callsite(callsite(#loc3 at #loc4) at #loc6))
#loc6 = loc("name"(#loc7))
#loc7 = loc("kernel.py":4:2)
"""
    shown, lines = tidy("TTIR", text, "kernel.py", "k")
    assert lines == (None, 4, 7, 4, None, 1)
    assert shown.splitlines()[0] == "module {" and shown.splitlines()[-1] == "}"
    assert "loc(#" not in shown and "/lib" not in shown


def test_line_numbers_that_llvm_gets_wrong_are_repaired_before_the_assembler_reads_them() -> None:
    ptx = """\
\t.loc\t1 6 7                           // kernel.py:6:7
\t// begin inline asm
\t.loc\t1 6 7                           // kernel.py:6:7
\tmov.u32 %r1, 0x0;
\t.loc\t1 7 7                           // kernel.py:7:7
\t@%p1 ld.global.b32 { %r1 }, [ %rd1 + 0 ];
\t// end inline asm
\t.loc\t2 170 27  // standard.py:170:27 @[ standard.py:9:4 @[ kernel.py:8:2 ] ]
\tadd.f32 %f1, %f2, %f3;
\t.loc\t1 12 5                          // kernel.py:12:5 @[ kernel.py:9:3 ]
\tmul.f32 %f1, %f2, %f3;
\t.file\t1 "kernel.py"
\t.file\t2 "/lib/standard.py"
"""
    text, lines = tidy("PTX", triton_internals.repaired(ptx, "kernel.py"), "kernel.py", "k")
    found = {line.split()[0]: number for line, number in zip(text.splitlines(), lines, strict=True)}
    assert found == {"mov.u32": 6, "@%p1": 6, "add.f32": 8, "mul.f32": 12}


def test_ptx_of_several_kernels_is_cut_to_one_and_its_headers_count_for_the_caller() -> None:
    text = """\
.version 9.0
\t// .globl\tfirst
.visible .entry first(
\t.param .u64 a
)
{
\t.loc 1 2 1
\tret;
}
\t// .globl\tsecond
.visible .entry second(
\t.param .u64 a
)
{
\t.loc\t1 8 5
\tmov.u32 %r1, %tid.x;
\t.loc\t2 70 1, function_name $L__info_string0, inlined_at 1 8 5
\t.loc\t2 71 1, function_name $L__info_string1, inlined_at 2 70 1
\tadd.s32 %r2, %r1, 1;
\t.loc\t2 99 1
\tmul.lo.s32 %r3, %r2, 2;
\tret;
}
\t.file\t1 "kernel.cu"
\t.file\t2 "cuda_fp16.h"
\t.section\t.debug_str
{
}
"""
    for entry, other in (("second", "first"), ("first", "second")):
        shown, lines = tidy("PTX", text, "kernel.cu", entry)
        assert f"{entry}(" in shown and f"{other}(" not in shown
        assert ".loc" not in shown and ".file" not in shown and "debug" not in shown
        found = dict(zip(shown.splitlines(), lines, strict=True))
        if entry == "second":
            assert found["\tmov.u32 %r1, %tid.x;"] == 8 == found["\tadd.s32 %r2, %r1, 1;"]
            assert found["\tmul.lo.s32 %r3, %r2, 2;"] is None
        else:
            assert found["\tret;"] == 2
