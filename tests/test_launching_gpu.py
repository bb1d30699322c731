"""Launches that are asked for again, on a GPU: the bits of a first call, threads and graphs."""

import subprocess
import sys
import threading

import pytest
import torch

from attnlab_helpers.attention.flash_triton import flash_triton
from attnlab_helpers.kernels.launching import forget

pytestmark = pytest.mark.gpu


def results(q, k, v, do, wanted=(True, True, True), **options):
    tensors = [
        tensor.detach().requires_grad_(asked)
        for tensor, asked in zip((q, k, v), wanted, strict=True)
    ]
    out = flash_triton(*tensors, **options)
    return out, *torch.autograd.grad(out, [each for each in tensors if each.requires_grad], do)


OPTIONS = [
    {"causal": True, "scale": 0.1}, {"causal": True, "scale": 0.2},
    {"causal": False, "scale": 0.1}, {"causal": True, "scale": 0.1, "precision": "tf32"},
    {"causal": True, "scale": 0.1, "wanted": (True, False, False)},
    {"causal": True, "scale": 0.1, "wanted": (False, False, True)},
]  # fmt: skip


@pytest.mark.parametrize("head_dim", [40, 64, 128])
@pytest.mark.parametrize("heads", [2, 40])  # for all cards, for Hopper
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_call_again_gives_the_bits_of_a_first_call(head_dim, heads, dtype) -> None:
    def tensors(length=600):
        return torch.randn(4, 2, heads, length, head_dim, device="cuda", dtype=dtype).unbind()

    wide = torch.randn(4, 2, heads, 600, head_dim + 1, device="cuda", dtype=dtype)
    x, y, *_ = tensors()
    calls = [
        tensors(), tensors(), tensors(601), wide[..., 1:].unbind(), wide[..., :-1].unbind(),
        (x, x, x, x), (x, y, x, y),
    ]  # fmt: skip
    all_of_them = [(call, options) for call in calls for options in OPTIONS]
    forget()
    again = [results(*call, **options) for _ in range(2) for call, options in all_of_them]
    for found, (call, options) in zip(again[len(all_of_them) :], all_of_them, strict=True):
        forget()
        assert all(map(torch.equal, found, results(*call, **options)))


def test_on_other_streams_in_graphs_and_in_threads() -> None:
    x = torch.randn(4, 2, 40, 600, 64, device="cuda", dtype=torch.bfloat16)
    first = flash_triton(*x[:3])
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        other = flash_triton(*x[:3])
    stream.synchronize()
    assert torch.equal(first, other)
    graph = torch.cuda.CUDAGraph()
    q = x[0].clone()
    with torch.cuda.graph(graph):
        captured = flash_triton(q, *x[1:3])
    q.copy_(x[3])
    graph.replay()
    assert torch.equal(captured, flash_triton(x[3], *x[1:3]))
    found: dict[int, torch.Tensor] = {}
    inputs = [torch.randn_like(x[:3]) for _ in range(4)]

    def work(number: int) -> None:
        for _ in range(50):
            found[number] = flash_triton(*inputs[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, each in enumerate(inputs):
        assert torch.equal(found[number], flash_triton(*each))


IN_A_GRAPH = """
import torch
from attnlab_helpers.attention.flash_triton import flash_triton

*inputs, do = torch.randn(4, 2, 40, 600, 64, device="cuda", dtype=torch.bfloat16).unbind()
q, k, v = (tensor.clone().requires_grad_() for tensor in inputs)


def step():
    out = flash_triton(q, k, v, causal=True)
    return out, *torch.autograd.grad(out, (q, k, v), do)


with torch.autograd.set_multithreading_enabled(False):
    step()  # compiles everything, in this thread
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    captured = step()  # backward in autograd's thread, which has not used CUDA before
with torch.no_grad():
    q.copy_(torch.randn_like(q))
graph.replay()
print(all(map(torch.equal, captured, step())))
"""


def test_a_thread_whose_first_call_is_captured() -> None:
    done = subprocess.run([sys.executable, "-c", IN_A_GRAPH], capture_output=True, text=True)
    assert done.stdout.strip() == "True", done.stdout + done.stderr[-3000:]
