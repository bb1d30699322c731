"""Launches that are asked for again: with other tensors of the same form, and with those only."""

import gc
import os
import re
import subprocess
import sys
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnlab_helpers.kernels import launching
from attnlab_helpers.kernels.launching import Launches, forget, launch, launches_of

pytest.importorskip("triton")


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
    kernel, kept, gone = Kernel(), None, []
    for _ in range(2):  # the first call and one again
        arrays = [np.zeros(8, dtype=np.float32) for _ in range(3)]
        gone += [weakref.ref(array) for array in arrays]
        kept = ask(kernel, *map(torch.from_numpy, arrays), kept)
    assert all(each() is not None for each in gone[3:])
    kernel.launched.clear()
    del arrays
    gc.collect()
    assert not any(each() is not None for each in gone)


def test_in_the_interpreter_every_call_is_the_first() -> None:
    kernel = Kernel(compiled=False)
    launches = ask(kernel, *torch.randn(3, 8))
    ask(kernel, *torch.randn(3, 8), launches)
    assert kernel.looked == 2


def test_with_a_triton_that_nobody_tried_every_call_is_the_first(monkeypatch) -> None:
    monkeypatch.setattr(launching, "triton_version", lambda: launching.TRITON_BELOW)
    kernel = Kernel()
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
    flat = torch.randn(x.numel() + 3)
    yield "no multiple of 16 bytes", (flat[1:-2].view(x.shape), x), (0.5, False)
    yield "a multiple of 8 bytes", (flat[2:-1].view(x.shape), x), (0.5, False)
    yield "the other is no multiple", (x, flat[1:-2].view(x.shape)), (0.5, False)
    wide = torch.randn(2, 3, 4, 16)
    yield "a view", (wide[..., :8], x), (0.5, False)
    yield "columns apart", (wide[..., ::2], x), (0.5, False)


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


def test_asked_again_a_launch_is_the_one_that_triton_would_choose() -> None:
    script = Path(__file__).with_name("launches_without_a_gpu.py")
    paths = [str(script.parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, str(script), "3", "300"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    number, kernels = re.search(r"(\d+) launches of (\d+) kernels", done.stdout).groups()
    assert int(number) > 600 and int(kernels) == 6, done.stdout
