"""CUDA C++ through NVRTC without a GPU: widths, names, lines, errors, and what NVRTC cannot do."""

from __future__ import annotations

import importlib.util

import compiler_kernels as kernels
import pytest

from attnlab_helpers import compiler
from attnlab_helpers.compiler import cuda_stages, nvrtc

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("cuda") is None, reason="needs cuda-bindings and nvidia-cuda-nvrtc"
)


@pytest.mark.parametrize("target", list(compiler.TARGETS))
def test_one_float_is_32_bits_and_a_float4_is_128_on_every_target(target) -> None:
    narrow = compiler.compile_cuda(kernels.CUDA_ADD, target)
    wide = compiler.compile_cuda(kernels.CUDA_WIDE, target)
    assert narrow.counts["global_loads"] == {32: 2} and wide.counts["global_loads"] == {128: 2}
    assert narrow.counts["global_stores"] == {32: 1} and wide.counts["global_stores"] == {128: 1}
    if "SASS" in narrow.stages:
        assert narrow.counts["predicated_exits"] == 1  # the bounds check
        assert narrow.counts["registers"] > 0
    assert narrow.name == "add" and narrow.entry == "_Z3addPKfS0_Pfi"
    assert narrow.shared_bytes == 0 and narrow.language == "CUDA C++"
    assert (
        narrow.provenance
        == f"compiled here by NVRTC {nvrtc.version()} for compute capability {target}"
    )


def test_lines_point_into_the_readers_text_in_both_stages() -> None:
    compiled = compiler.compile_cuda(kernels.CUDA_ADD, "9.0")
    for stage, load, arithmetic in (("PTX", "ld.global", "add.f32"), ("SASS", "LDG", "FADD")):
        pairs = list(zip(compiled.stages[stage].splitlines(), compiled.lines(stage), strict=True))
        assert {line for text, line in pairs if load in text} == {7}
        assert {line for text, line in pairs if arithmetic in text} == {2}  # the reader's own sum
        assert all(line is None or 1 <= line <= 9 for _, line in pairs)


def test_an_error_in_the_third_line_is_shown_with_it() -> None:
    source = "__global__ void f(float* x) {\n  int i = 0;\n  x[i] = y;\n}\n"
    with pytest.raises(compiler.CompileFailed) as caught:
        compiler.compile_cuda(source, "9.0")
    text = str(caught.value)
    assert caught.value.line == 3 and "line 3 of kernel.cu" in text
    assert "   3 |   x[i] = y;\n                ^" in text and 'identifier "y" is undefined' in text


def test_one_of_several_kernels_is_chosen_by_name() -> None:
    source = (
        "template <int N> __global__ void scale(float* x) { x[threadIdx.x] *= N; }\n"
        "namespace inner { __global__ void one(float* x) { x[0] = 1; } }\n"
        '#include <cuda_fp16.h>\nextern "C" __global__ void two(__half* x, int n) {\n'
        "  __shared__ __half kept[256];\n  kept[threadIdx.x] = x[n]; __syncthreads();\n"
        "  x[0] = kept[threadIdx.x ^ 1]; x[1] = __float2half(__half2float(x[2])); }\n"
    )
    one = compiler.compile_cuda(source, "8.0", name="one")
    assert one.counts["global_stores"] == {32: 1} and "two" not in one.stages["PTX"]
    for target in ("8.0", "9.0"):  # from 9.0 on the cubin counts the system's 1 KB in
        two = compiler.compile_cuda(source, target, name="two")
        assert two.shared_bytes == 512 == two.counts["shared_bytes"]
        assert two.counts["shared_loads"] == 1 == two.counts["barriers"]
        assert all(line is None or line <= 7 for line in two.lines("SASS"))
    scale = compiler.compile_cuda(source, "9.0", name="scale<3>")
    assert scale.name == "scale<3>" and "scale" in scale.entry and "two" not in scale.stages["PTX"]
    with pytest.raises(ValueError, match="several kernels; say which with name=: one, two"):
        compiler.compile_cuda(source, "8.0")
    with pytest.raises(ValueError, match="no kernel 'three'; it has one, two"):
        compiler.compile_cuda(source, "8.0", name="three")
    with pytest.raises(ValueError, match="no __global__ function"):
        compiler.compile_cuda("__device__ int x;", "8.0")


def test_options_reach_the_compiler() -> None:
    source = "__global__ void f(float* x) { x[0] = VALUE * __expf(x[1]) / x[2]; }\n"
    plain = compiler.compile_cuda(source, "9.0", options=["-DVALUE=2.0f"])
    fast = compiler.compile_cuda(source, "9.0", options=["-DVALUE=2.0f", "--use_fast_math"])
    assert fast.counts["instructions"] < plain.counts["instructions"]


def test_a_target_that_this_nvrtc_does_not_know_is_a_sentence(monkeypatch) -> None:
    monkeypatch.setattr(nvrtc, "supported", lambda: (75, 80))
    with pytest.raises(compiler.CompilerMissing, match=r"cannot compile for 12\.0 .*7\.5, 8\.0"):
        compiler.compile_cuda("__global__ void g(int* x) {}", "12.0")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("__global__ void __launch_bounds__(256, 2) add(float* x)", "add"),
        ('extern "C" __global__ void k2(int n)', "k2"),
        ("template<int N>\n__global__\nvoid third (int n)", "third"),
    ],
)
def test_the_name_is_found_without_a_compiler(source, name) -> None:
    assert cuda_stages._name_in(source) == name


@pytest.mark.parametrize(
    ("entry", "name"),
    [("_Z3addPKfS0_Pfi", "add"), ("other", "other"), ("_ZN5inner3oneEPf", "one"),
     ("_Z5scaleILi4EEvPf", "scale")],
)  # fmt: skip
def test_names_of_the_machine_code_are_read(entry, name) -> None:
    assert cuda_stages.plain_name(entry) == name
