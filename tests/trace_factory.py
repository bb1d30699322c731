"""Synthetic traces for tests: Kineto events written one by one, read like any file."""

import json
from dataclasses import dataclass, field

from attnlab_helpers.profiling import Trace, parse_trace

GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NTN"
GEMM_2 = "nvjet_sm90_tst_128x64_64x8_2x1_v_bz_NNT"
MULTIPLY = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::AUnaryFunctor<c10::BFloat16, "
    "c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> >, "
    "std::array<char*, 2ul> >(int, at::native::AUnaryFunctor<c10::BFloat16, c10::BFloat16, "
    "c10::BFloat16, at::native::binary_internal::MulFunctor<float> >, std::array<char*, 2ul>)"
)
MASK = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<"
    "at::native::(anonymous namespace)::masked_fill_kernel(at::TensorIterator&, c10::Scalar const&)"
    "::{lambda()#1}::operator()() const::{lambda()#12}::operator()() const::"
    "{lambda(c10::BFloat16, bool)#1}>(at::TensorIteratorBase&, ...)::{lambda(int)#1}>(int, ...)"
)
SOFTMAX = (
    "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10, "
    "false, false>(c10::BFloat16*, c10::BFloat16 const*, int, int, int, bool const*, int, bool)"
)
COPY = "Memcpy DtoD (Device -> Device)"
MEMSET = "Memset (Device)"
GELU = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::GeluCUDAKernelImpl("
    "at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}::operator()() const::"
    "{lambda()#4}::operator()() const::{lambda(c10::BFloat16)#1}, std::array<char*, 2ul> >"
    "(int, ...)"
)


@dataclass
class TraceBuilder:
    """Collects complete events; times in microseconds, as Kineto writes them."""

    source: str = "synthetic.json"
    base: float = 1_718_000_000_000.0
    events: list[dict] = field(default_factory=list)
    correlations: int = 0

    def event(self, category, name, start, duration, pid=1, tid=1, **args):
        self.events.append(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": pid,
                "tid": tid,
                "ts": round(self.base + start, 3),
                "dur": round(duration, 3),
                "args": args,
            }
        )
        return self

    def operator(self, name, start, duration, tid=1):
        return self.event("cpu_op", name, start, duration, tid=tid)

    def launch(self, start, duration=4.0, name="cudaLaunchKernel", tid=1):
        """A runtime call; the number it returns links GPU activities to it."""
        self.correlations += 1
        category = "cuda_driver" if name.startswith("cu") and name[2].isupper() else "cuda_runtime"
        self.event(category, name, start, duration, tid=tid, correlation=self.correlations)
        return self.correlations

    def gpu(self, name, start, duration, correlation=0, stream=7, device=0, **args):
        if name.startswith("Memcpy"):
            category, details = "gpu_memcpy", {"bytes": 268_435_456}
        elif name.startswith("Memset"):
            category, details = "gpu_memset", {"bytes": 4_096}
        else:
            category = "kernel"
            details = {
                "grid": [64, 8, 1],
                "block": [128, 1, 1],
                "registers per thread": 168,
                "shared memory": 196_608,
                "est. achieved occupancy %": 13,
            }
        details |= {"device": device, "stream": stream, "correlation": correlation} | args
        return self.event(category, name, start, duration, pid=device, tid=stream, **details)

    def json(self) -> bytes:
        return json.dumps({"schemaVersion": 1, "traceEvents": self.events}).encode()

    def trace(self) -> Trace:
        return parse_trace(self.json(), self.source)


@dataclass
class Call:
    """Lays out one call: operators follow one another on the CPU, activities queue on a stream."""

    builder: TraceBuilder
    cpu: float = 0.0
    gpu_free: float = 0.0
    latency: float = 6.0

    def operator(self, path, kernels=(), overhead=7.0, launch_name="cudaLaunchKernel"):
        """Nested operators (outermost first); the innermost launches ``(name, microseconds)``."""
        start, depth = self.cpu, len(path)
        lead = 2.0
        clock = start + lead * depth
        for name, duration in kernels:
            api = {"Memc": "cudaMemcpyAsync", "Mems": "cudaMemsetAsync"}.get(name[:4], launch_name)
            correlation = self.builder.launch(clock, 4.0, api)
            begin = max(clock + 4.0 + self.latency, self.gpu_free)
            self.builder.gpu(name, begin, duration, correlation)
            self.gpu_free = begin + duration + 0.9
            clock += 5.5
        end = clock + overhead
        for level, name in enumerate(path):
            inset = lead * level
            self.builder.operator(name, start + inset, end - start - 1.5 * inset)
        self.cpu = end + 3.0
        return self


def naive_attention(in_place: bool = False) -> TraceBuilder:
    """Five steps at the profiling post's setting, shaped like a Hopper GPU's trace."""
    builder = TraceBuilder("in_place.json.gz" if in_place else "naive.json.gz")
    call = Call(builder)
    call.operator(
        ["aten::matmul", "aten::bmm"],
        [(MEMSET, 0.7), (GEMM, 96.3)],
        overhead=11,
        launch_name="cuLaunchKernelEx",
    )
    call.operator(["aten::mul"], [(MULTIPLY, 131.4)])
    if in_place:
        call.operator(["aten::masked_fill_"], [(MASK, 262.0)])
    else:
        copy = ["aten::masked_fill", "aten::clone", "aten::copy_"]
        call.operator(copy, [(COPY, 128.9)], overhead=3)
        call.operator(["aten::masked_fill_"], [(MASK, 262.0)])
    call.operator(["aten::softmax", "aten::_softmax"], [(SOFTMAX, 158.2)])
    call.operator(
        ["aten::matmul", "aten::bmm"],
        [(GEMM_2, 121.7)],
        overhead=11,
        launch_name="cuLaunchKernelEx",
    )
    return builder


def mlp() -> TraceBuilder:
    """A small MLP whose launches take longer than its kernels: the GPU waits."""
    builder = TraceBuilder("mlp.json")
    call = Call(builder)
    for _ in range(3):
        call.operator(["aten::linear", "aten::addmm"], [(GEMM, 5.1)], overhead=22)
        call.operator(["aten::gelu"], [(GELU, 2.3)], overhead=12)
        call.operator(["aten::mul"], [(MULTIPLY, 1.8)], overhead=9)
    builder.launch(call.cpu, 14.0, "cudaDeviceSynchronize")
    return builder


def many(events: int) -> TraceBuilder:
    """A long trace: about ``events`` events, a fifth of them GPU activities on two streams."""
    builder = TraceBuilder("many.json")
    call = Call(builder)
    kinds = ((GEMM, 9.0), (MULTIPLY, 3.0), (SOFTMAX, 4.0), (MASK, 5.0), (COPY, 2.0))
    step = 0
    while len(builder.events) < events:
        name, duration = kinds[(step * 7 + step // 11) % len(kinds)]
        call.operator(["aten::block", "aten::inner", "aten::leaf"], [(name, duration)], overhead=4)
        if step % 500 == 499:
            call.cpu += 900.0
            call.gpu_free += 700.0
        step += 1
    return builder
