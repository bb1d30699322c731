"""Launches that are asked for again: with other tensors of the same form, and with those only."""

import gc
import threading
import weakref
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from attnlab_helpers.attention.flash_triton import flash_triton
from attnlab_helpers.kernels import language
from attnlab_helpers.kernels.launching import Launches, forget, launch, launches_of


@dataclass
class Descriptor:
    base: Any
    rows: int

    def __post_init__(self) -> None:
        assert self.base is not None


class Kernel:
    """As Triton's: kernel[grid](...) looks at everything and returns what it compiled."""

    arg_names = ("a", "b", "number", "out", "SIZE", "FLAG")

    def __init__(self, compiled=True) -> None:
        self.looked, self.launched, self.compiled = 0, [], compiled

    def __getitem__(self, grid):
        def run(*arguments, num_warps, **named):
            self.looked += 1
            self.grid, self.num_warps = grid, num_warps
            rest = [named[name] for name in self.arg_names[len(arguments) :]]
            self.launched.append((*arguments, *rest))
            return Compiled(self) if self.compiled else None

        return run


class Compiled:
    def __init__(self, kernel) -> None:
        self.kernel = kernel

    def __getitem__(self, grid):
        assert grid == (*self.kernel.grid, 1, 1)
        return lambda *arguments: self.kernel.launched.append(arguments)


def ask(kernel, a, b, out, launches=None):
    launches = launches or Launches()

    def choose(a, b, out):
        return [launch(kernel, 7, a, Descriptor(b, 64), 3, out, FLAG=True, SIZE=64, num_warps=4)]

    launches.run((a, b, out), choose)
    return launches


def same(one, other) -> bool:
    return one.data_ptr() == other.data_ptr() and one.shape == other.shape


def test_the_second_call_goes_to_the_compiled_kernel_with_its_own_tensors() -> None:
    kernel = Kernel()
    launches = ask(kernel, *torch.randn(3, 8))
    a, b, out = torch.randn(3, 8)
    ask(kernel, a, b, out, launches)
    assert kernel.looked == 1 and len(kernel.launched) == 2 and kernel.num_warps == 4
    first, second = kernel.launched
    assert first[2] == second[2] == 3 and first[4:] == second[4:] == (64, True)
    assert second[0] is a and second[3] is out
    assert same(second[1].base, b) and second[1].rows == 64
    assert isinstance(second[1], Descriptor)


def test_one_tensor_twice_and_then_two() -> None:
    kernel = Kernel()
    x, out = torch.randn(2, 8)
    launches = ask(kernel, x, x, out)
    a, b = torch.randn(2, 8)
    ask(kernel, a, b, out, launches)
    assert same(kernel.launched[0][0], x) and same(kernel.launched[0][1].base, x)
    assert kernel.launched[1][0] is a and kernel.launched[1][1].base is b


def test_it_keeps_no_memory_of_the_caller() -> None:
    kernel = Kernel()
    tensors = [torch.randn(8) for _ in range(3)]
    kept = ask(kernel, *tensors)
    others = [torch.randn(8) for _ in range(3)]
    ask(kernel, *others, kept)
    gone = [weakref.ref(tensor.untyped_storage()) for tensor in (*tensors, *others)]
    gone += [weakref.ref(tensor) for tensor in (*tensors, *others)]
    kernel.launched.clear()
    del tensors, others
    gc.collect()
    assert not any(each() for each in gone[6:])


def test_in_the_interpreter_every_call_is_the_first() -> None:
    kernel = Kernel(compiled=False)
    launches = ask(kernel, *torch.randn(3, 8))
    ask(kernel, *torch.randn(3, 8), launches)
    assert kernel.looked == 2


def test_a_launch_that_failed_is_not_kept() -> None:
    launches = Launches()

    def choose(*_):
        raise MemoryError

    with pytest.raises(MemoryError):
        launches.run(tuple(torch.randn(3, 8)), choose)
    kernel = Kernel()
    ask(kernel, *torch.randn(3, 8), launches)
    assert kernel.looked == 1


def test_threads_do_not_share_a_descriptor() -> None:
    kernel = Kernel()
    launches = ask(kernel, *torch.randn(3, 8))

    def work() -> None:
        for _ in range(300):
            a, b, out = torch.randn(3, 8)
            ask(kernel, a, b, out, launches)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kernel.launched) == 1201
    for a, b, _, out, *_ in kernel.launched[1:]:  # three rows of one tensor each
        memory = {tensor.untyped_storage().data_ptr() for tensor in (a, b.base, out)}
        assert len(memory) == 1


def forms():
    x = torch.randn(2, 3, 4, 8)
    yield "as it is", (x, x), (0.5, False)
    yield "another scale", (x, x), (0.25, False)
    yield "another option", (x, x), (0.5, True)
    yield "another shape", (x[:, :, :3], x), (0.5, False)
    yield "another order in memory", (x.transpose(0, 1).contiguous().transpose(0, 1), x), (0.5, 0)
    yield "another dtype", (x.double(), x), (0.5, False)
    yield "the other is another", (x, x.half()), (0.5, False)
    flat = torch.randn(x.numel() + 1)
    yield "no multiple of 16 bytes", (flat[1:].view(x.shape), x), (0.5, False)


def test_every_difference_that_a_launch_depends_on_has_launches_of_its_own() -> None:
    forget()
    found = {name: launches_of("f", tensors, *options) for name, tensors, options in forms()}
    assert len({id(each) for each in found.values()}) == len(found)
    for name, tensors, options in forms():  # other numbers, other memory
        assert launches_of("f", tensors, *options) is found[name], name
        assert launches_of("g", tensors, *options) is not found[name], name
    forget()
    name, tensors, options = next(forms())
    assert launches_of("f", tensors, *options) is not found[name]


def results(q, k, v, do, **options):
    tensors = [tensor.detach().requires_grad_() for tensor in (q, k, v)]
    out = flash_triton(*tensors, **options)
    return out, *torch.autograd.grad(out, tensors, do)


@pytest.mark.gpu
@pytest.mark.skipif(language.mode() != "compiled", reason="nothing is kept in the interpreter")
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
    forget()
    again = [results(*call, causal=True, scale=scale) for call in calls for scale in (0.1, 0.2)]
    for found, (call, scale) in zip(
        again, [(call, scale) for call in calls for scale in (0.1, 0.2)], strict=True
    ):
        forget()
        first = results(*call, causal=True, scale=scale)
        assert all(map(torch.equal, found, first))


@pytest.mark.gpu
@pytest.mark.skipif(language.mode() != "compiled", reason="there are no streams on a CPU")
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
