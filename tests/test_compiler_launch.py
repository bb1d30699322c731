"""Launching a CUDA C++ kernel on tensors: right sums, and every mistake caught before CUDA."""

from __future__ import annotations

import dataclasses

import compiler_kernels as kernels
import numpy as np
import pytest
import torch

from attnlab_helpers import compiler

pytest.importorskip("cuda.bindings.nvrtc")


@pytest.mark.parametrize(
    ("grid", "block", "error", "text"),
    [
        (0, 256, ValueError, "grid=0 is out of range"),
        (1, 0, ValueError, "block=0 is out of range"),
        (1, 1025, ValueError, "block=1025 is out of range"),
        (1, (64, 32), ValueError, "2048 threads"),
        ((1, 65_536), 32, ValueError, "out of range"),
        ((1, 1, 1, 1), 32, TypeError, "one to three"),
        (1.5, 32, TypeError, "one to three"),
        (1, "32", TypeError, "one to three"),
    ],
)
def test_a_wrong_grid_or_block_is_refused(grid, block, error, text) -> None:
    compiled = compiler.compile_cuda(kernels.CUDA_ADD, "9.0")
    with pytest.raises(error, match=text.replace("(", r"\(")):
        compiler.launch(compiled, grid, block)


def test_without_a_gpu_a_launch_is_one_sentence() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(RuntimeError, match="add was compiled, but there is no GPU here"):
        compiler.launch(compiler.compile_cuda(kernels.CUDA_ADD, "9.0"), 1, 32)


def test_too_much_shared_memory_and_the_wrong_language_are_refused() -> None:
    compiled = compiler.compile_cuda(kernels.CUDA_ADD, "9.0")
    with pytest.raises(ValueError, match="at most 49152"):
        compiler.launch(compiled, 1, 32, shared_bytes=49_153)
    with pytest.raises(ValueError, match=r"kernel\[grid\]"):
        compiler.launch(dataclasses.replace(compiled, language="Triton"), 1, 32)


@pytest.mark.gpu
@pytest.mark.parametrize("n", [1, 255, 256, 257, 100_003])
def test_vectors_of_odd_length_are_added_and_nothing_else_is_written(n) -> None:
    x, y = torch.randn(2, n, device="cuda").unbind()
    out = torch.full((n + 64,), 7.0, device="cuda")
    compiled = compiler.compile_cuda(kernels.CUDA_ADD)
    compiler.launch(compiled, -(-n // 256), 256, x, y, out, n)
    assert torch.equal(out[:n], x + y) and (out[n:] == 7).all()


@pytest.mark.gpu
def test_a_launch_runs_on_torchs_current_stream_and_scalars_go_as_they_are() -> None:
    source = (
        "__global__ void fill(float* x, float value, long long n, bool twice, double more) {\n"
        "  long long i = blockIdx.x * (long long) blockDim.x + threadIdx.x;\n"
        "  if (i < n) x[i] = value * (twice ? 2 : 1) + more; }\n"
    )
    compiled = compiler.compile_cuda(source)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.zeros(1000, device="cuda")
        torch.cuda._sleep(50_000_000)  # were the launch on another stream, it would come too soon
        x.add_(1)
        arguments = (x, 1.5, np.int64(1000), True, np.float64(0.25))
        compiler.launch(compiled, (4, 1), (256, 1, 1), *arguments)
        y = x.clone()
    stream.synchronize()
    assert (y == 3.25).all()


@pytest.mark.gpu
def test_dynamic_shared_memory_is_given() -> None:
    source = (
        "__global__ void turn(float* x) { extern __shared__ float kept[];\n"
        "  kept[threadIdx.x] = x[threadIdx.x]; __syncthreads();\n"
        "  x[threadIdx.x] = kept[blockDim.x - 1 - threadIdx.x]; }\n"
    )
    x = torch.arange(512.0, device="cuda")
    compiler.launch(compiler.compile_cuda(source), 1, 512, x, shared_bytes=2048)
    assert torch.equal(x, torch.arange(511.0, -1.0, -1.0, device="cuda"))


@pytest.mark.gpu
def test_wrong_arguments_are_caught_before_they_reach_the_gpu() -> None:
    compiled = compiler.compile_cuda(kernels.CUDA_ADD)
    x = torch.zeros(8, device="cuda")
    with pytest.raises(ValueError, match=r"argument 1 is a tensor on cpu"):
        compiler.launch(compiled, 1, 32, x, x.cpu(), x, 8)
    with pytest.raises(ValueError, match="no int32"):
        compiler.launch(compiled, 1, 32, x, x, x, 2**31)
    with pytest.raises(TypeError, match="argument 3 is a list"):
        compiler.launch(compiled, 1, 32, x, x, x, [8])
    with pytest.raises(ValueError, match="read from a recording"):
        compiler.launch(dataclasses.replace(compiled, cubin=None), 1, 32, x, x, x, 8)
    other = next(name for name in compiler.TARGETS if name != compiled.target)
    with pytest.raises(ValueError, match=f"compiled for {other}, and this GPU is"):
        compiler.launch(compiler.compile_cuda(kernels.CUDA_ADD, other), 1, 32, x, x, x, 8)
