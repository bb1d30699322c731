"""CUDA C++ through NVRTC without a GPU: widths, names, lines, errors, and what NVRTC cannot do."""

from __future__ import annotations

import importlib.util
import urllib.parse

import compiler_kernels as kernels
import pytest

from attnlab_helpers import compiler
from attnlab_helpers.compiler import cuda_names, nvrtc

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
    inner = compiler.compile_cuda(source, "8.0", name="inner::one")
    assert inner.entry == one.entry and inner.stages == one.stages
    assert scale.name == "scale<3>" and "scale" in scale.entry and "two" not in scale.stages["PTX"]
    with pytest.raises(ValueError, match="several kernels; say which with name=: one, two"):
        compiler.compile_cuda(source, "8.0")
    with pytest.raises(ValueError, match="no kernel 'three'; it has one, two"):
        compiler.compile_cuda(source, "8.0", name="three")
    with pytest.raises(ValueError, match=r"scale is a template.*name='scale<4>'"):
        compiler.compile_cuda(source, "8.0", name="scale")
    for wrong in ("scale<N>", "scale<4", "outer::one"):
        with pytest.raises(ValueError, match=r"names no kernel of the source[\s\S]*scale<4>"):
            compiler.compile_cuda(source, "8.0", name=wrong)
    with pytest.raises(ValueError, match="no __global__ function"):
        compiler.compile_cuda("__device__ int x;", "8.0")


def test_options_reach_the_compiler() -> None:
    source = "__global__ void f(float* x) { x[0] = VALUE * __expf(x[1]) / x[2]; }\n"
    plain = compiler.compile_cuda(source, "9.0", options=["-DVALUE=2.0f"])
    fast = compiler.compile_cuda(source, "9.0", options=["-DVALUE=2.0f", "--use_fast_math"])
    assert fast.counts["instructions"] < plain.counts["instructions"]
    one = compiler.compile_cuda(source, "9.0", options="-DVALUE=2.0f")  # a text is one option
    assert one.stages == plain.stages and one.key == plain.key


GENERIC = """
__global__ void pick(float* x, int* n, int inside) {
    __shared__ float kept[256];
    __shared__ int found;
    kept[threadIdx.x] = x[threadIdx.x];
    atomicAdd(&found, n[0]);
    __syncthreads();
    volatile float* from = inside ? kept : x;
    x[threadIdx.x] = from[threadIdx.x ^ 1] + found;
    atomicAdd(inside ? &found : n, 1);
}
"""
RECURSIVE = """
__device__ __noinline__ int fib(int a) { return a < 2 ? a : fib(a - 1) + fib(a - 2); }
__global__ void call(int* x) { x[0] = fib(x[0]); }
"""


@pytest.mark.parametrize("target", ["7.5", "9.0", "10.0"])
def test_what_may_be_any_memory_counts_as_none_of_them(target) -> None:
    counts = compiler.compile_cuda(GENERIC, target).counts
    assert counts["global_loads"] == {32: 2}  # x and n; from[...] may lie in shared memory
    assert counts["generic_loads"] == 1 == counts["shared_atomics"] == counts["generic_atomics"]
    assert counts["global_atomics"] == 0


def test_a_recursive_kernel_keeps_its_registers_and_says_what_nobody_knows() -> None:
    compiled = compiler.compile_cuda(RECURSIVE, "9.0")
    if "SASS" not in compiled.stages:
        pytest.skip("needs cuobjdump")
    assert compiled.counts["registers"] > 0 and "local_bytes" not in compiled.counts
    assert "call themselves" in compiled.notes[0]
    assert compiler.summary(compiled).loc["local memory, bytes a thread"].item() == "unknown"


@pytest.mark.parametrize("target", ["8.7", "11.0", "12.1"])
def test_targets_without_a_row_are_compiled_where_nvrtc_knows_them(target) -> None:
    if int(float(target) * 10) not in nvrtc.supported():
        pytest.skip("this NVRTC does not know it")
    compiled = compiler.compile_cuda(kernels.CUDA_ADD, target)
    assert compiled.target == target and compiled.counts["global_loads"] == {32: 2}


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"source": None}, TypeError, "not NoneType"),
        ({"source": 5}, TypeError, "not int"),
        ({"source": b"x"}, TypeError, r"bytes.*source\.decode\(\)"),
        ({"source": "int\n\0"}, ValueError, "line 2 of the source holds a NUL"),
        ({"name": 5}, TypeError, "name=5: the name of a kernel"),
        ({"options": [3]}, TypeError, "options: 3 is no text"),
        ({"options": 3}, TypeError, "options: 3 is no text"),
        ({"options": "--gpu-architecture=sm_80"}, ValueError, "said by target="),
        ({"options": "--bogus"}, compiler.CompileFailed, "unrecognized option --bogus"),
        ({"source": "#include <cstdio>\n"}, compiler.CompileFailed, r"no C\+\+ standard library"),
        ({"source": "#include <cuda/none>\n"}, compiler.CompileFailed, "CUDA's headers come with"),
    ],
)  # fmt: skip
def test_what_cannot_be_compiled_is_a_sentence(arguments, error, text) -> None:
    with pytest.raises(error, match=text):
        compiler.compile_cuda(**{"source": kernels.CUDA_ADD, "target": "9.0"} | arguments)


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
    assert cuda_names.name_in(source) == name


@pytest.mark.parametrize(
    ("entry", "name"),
    [("_Z3addPKfS0_Pfi", "add"), ("other", "other"), ("_ZN5inner3oneEPf", "one"),
     ("_Z5scaleILi4EEvPf", "scale")],
)  # fmt: skip
def test_names_of_the_machine_code_are_read(entry, name) -> None:
    assert cuda_names.plain_name(entry) == name


def test_an_empty_log_is_not_written_into_pythons_own_objects() -> None:
    # A text that no other test compiles, so that the compiler runs; it has nothing to complain of.
    source = 'extern "C" __global__ void quiet_kernel(float *x) { x[threadIdx.x] = 7.0f; }'
    before = [bytes.fromhex(f"{n:02x}") for n in range(256)]
    compiler.compile_cuda(source, "9.0")
    assert [bytes.fromhex(f"{n:02x}")[0] for n in range(256)] == list(range(256))
    assert [one[0] for one in before] == list(range(256))
    assert urllib.parse.unquote("a%20b") == "a b"
