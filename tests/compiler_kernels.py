"""Kernels that the compiler's tests compile: vector additions, a product, one that spills."""

from __future__ import annotations

from attnlab_helpers.kernels.language import tl, triton

SCALE = tl.constexpr(3.0)
BIAS: tl.constexpr = 5


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    """Adds two vectors."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    a = tl.load(x + i, mask=inside)
    b = tl.load(y + i, mask=inside)
    tl.store(out + i, a + b, mask=inside)


@triton.jit
def scaled(a):
    return a * SCALE


@triton.jit(do_not_specialize=["n"])
def add_scaled(
    x,
    out,
    n,
    BLOCK: tl.constexpr = 64,
    DTYPE: tl.constexpr = tl.float32,
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    largest = tl.max(tl.load(x + i), 0)
    tl.store(out + i, (scaled(tl.load(x + i)) + largest + n).to(DTYPE), mask=i < tl.cdiv(n, 2))


@triton.jit
def apply(x, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, FUNCTION(tl.load(x + i)))


@triton.jit
def matmul(a, b, c, k_size, stride, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m = tl.program_id(0) * M + tl.arange(0, M)
    n = tl.program_id(1) * N + tl.arange(0, N)
    k = tl.arange(0, K)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k_size, K):
        left = tl.load(a + m[:, None] * stride + (start + k)[None, :])
        right = tl.load(b + (start + k)[:, None] * stride + n[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + m[:, None] * stride + n[None, :], total.to(tl.float16))


@triton.jit
def wrong_third_line(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, colour="red"))


@triton.jit
def wrong_inside(a):
    return a + nowhere_defined  # noqa: F821


@triton.jit
def calls_wrong(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, wrong_inside(i))


def plain_python(a):
    return a + 1


@triton.jit
def calls_plain(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, plain_python(i))


def from_factory(offset):
    """A kernel made inside a function, with a value of that function's."""
    shift = tl.constexpr(offset)

    @triton.jit
    def shifted(x, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i) + shift)

    return shifted


CUDA_ADD = """\
__device__ float sum(float a, float b) {
    return a + b;
}
__global__ void add(const float* x, const float* y, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = sum(x[i], y[i]);
    }
}
"""
CUDA_WIDE = """\
__global__ void add(const float4* x, const float4* y, float4* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float4 a = x[i], b = y[i];
        out[i] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    }
}
"""
