"""Whose bytes are counted: memory that is freed and given out again, and masked instructions."""

import gc

import pytest
import torch

# At import, before any test can make another library import Triton without its interpreter.
from attnlab_helpers.kernels import language
from attnlab_helpers.traffic import Counts, count

triton, tl = language.triton, language.tl
pytestmark = pytest.mark.skipif(language.mode() != "interpreter", reason="no interpreter here")


@triton.jit
def copied(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + places, tl.load(x_ptr + places, mask=places < n), mask=places < n)


@triton.jit
def square_copied(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    down = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None]
    across = tl.arange(0, BLOCK)[None, :]
    inside = (down < rows) & (across < columns)
    source = x_ptr + down * columns
    target = out_ptr + (down * columns + across)
    tl.store(target, tl.load(source + across, mask=inside), mask=inside)


@triton.jit
def descriptor_copied(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x_ptr, [rows, columns], [columns, 1], [BLOCK, BLOCK])
    target = tl.make_tensor_descriptor(out_ptr, [rows, columns], [columns, 1], [BLOCK, BLOCK])
    first = tl.program_id(0) * BLOCK
    target.store([first, 0], source.load([first, 0]))


@triton.jit
def atomically_added(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + places, tl.load(x_ptr + places, mask=places < n), mask=places < n)


def row(counts: Counts, tensor: str) -> dict:
    return counts.frame.set_index("tensor").loc[tensor].to_dict()


@pytest.mark.parametrize("room", [1 << 24, 1 << 22, 1 << 16])
def test_a_result_does_not_inherit_the_bytes_of_a_tensor_that_died(room) -> None:
    n, x = 100, torch.randn(100)

    def launch() -> torch.Tensor:
        temporary = torch.empty(room)  # large: the allocator gives the same address out again
        copied[(1,)](x, temporary, n, BLOCK=128)
        del temporary
        gc.collect()
        result = torch.empty(room)
        copied[(1,)](x, result, n, BLOCK=128)
        return result

    counts = count(launch, {"X": x})
    assert counts.bytes("O") == (0, 4 * n)
    assert counts.bytes("other") == (0, 4 * n)
    assert row(counts, "other")["distinct_bytes"] == 4 * n


def test_a_chain_of_layers_counts_each_layer_once() -> None:
    x, layers = torch.randn(1000), 30

    def launch() -> torch.Tensor:
        last = x
        for _ in range(layers):
            out = torch.empty(1000)
            copied[(4,)](last, out, 1000, BLOCK=256)
            last = out
        return last

    counts = count(launch, {"X": x})
    assert (counts.bytes("X"), counts.bytes("O")) == ((4000, 0), (0, 4000))
    between = 4000 * (layers - 1)
    assert counts.bytes("other") == (between, between)
    assert row(counts, "other")["distinct_bytes"] == between


def test_descriptors_tensors_are_held_too() -> None:
    from triton.tools.tensor_descriptor import TensorDescriptor

    from attnlab_helpers.traffic import launch_hooks

    x = torch.randn(4, 4)
    found = list(
        launch_hooks._tensors((x, 3, (x[1], "y"), TensorDescriptor(x, [4, 4], [4, 1], [4, 4])))
    )
    assert [one.data_ptr() for one in found] == [x.data_ptr(), x[1].data_ptr(), x.data_ptr()]


@pytest.mark.parametrize("programs", [False, True])
def test_an_instruction_without_lanes_belongs_to_its_pointers_tensor(programs) -> None:
    both = torch.randn(2000)
    a, b, z = both[:1000], both[1000:], torch.empty(1000)
    # Programs 4 to 7 point into b, and all their lanes are switched off.
    launch = lambda: copied[(8,)](a, z, 1000, BLOCK=256)  # noqa: E731
    counts = count(launch, {"A": a, "B": b, "Z": z}, programs=programs)
    assert row(counts, "A")["loads"] == 8 and row(counts, "A")["masked_lanes"] == 8 * 256 - 1000
    assert row(counts, "Z")["stores"] == 8
    untouched = row(counts, "B")
    assert untouched["loads"] == untouched["masked_lanes"] == 0


def test_the_origin_is_followed_through_tiles_and_descriptors() -> None:
    both, out = torch.randn(40, 16), torch.empty(20, 16)
    a, b = both[:20], both[20:]
    for kernel in (square_copied, descriptor_copied):
        counts = count(
            lambda kernel=kernel: kernel[(3,)](a, out, 20, 16, BLOCK=16), {"A": a, "B": b, "Z": out}
        )
        assert counts.bytes("A") == (20 * 16 * 4, 0), kernel
        assert row(counts, "A")["loads"] == row(counts, "Z")["stores"] == 3
        assert row(counts, "B")["loads"] == 0
        assert torch.equal(out, a)


def test_views_of_numpys_memory_are_one_memory() -> None:
    numbers = torch.zeros(200).numpy()
    whole, half = torch.from_numpy(numbers), torch.from_numpy(numbers[100:])
    with pytest.raises(ValueError, match="Y and X share memory"):
        count(lambda: None, {"X": whole, "Y": half})


def test_what_is_printed_adds_atomics_as_bytes_do() -> None:
    x, out = torch.randn(10), torch.zeros(10)
    counts = count(lambda: atomically_added[(1,)](x, out, 10, BLOCK=16), {"X": x, "Z": out})
    assert counts.bytes("Z") == (40, 40)
    assert "120 bytes" in repr(counts)


def test_a_program_or_launch_that_was_not_there_is_refused() -> None:
    x, out = torch.randn(40), torch.empty(40)
    counts = count(lambda: copied[(3,)](x, out, 40, BLOCK=16), {"X": x, "Z": out}, programs=True)
    assert counts.grids == ((3, 1, 1),)
    assert counts.touched("X", (2, 0, 0)).sum() == 8
    for program in ((3, 0, 0), (0, 1, 0), (1,), 1, "0", (0.0, 0, 0), (-1, 0, 0)):
        with pytest.raises(ValueError, match=r"did not run.*\(2, 0, 0\) in launch 0"):
            counts.touched("X", program)
    for launch in (1, -1, "0", None):
        with pytest.raises(ValueError, match="there are 0 to 0"):
            counts.touched("X", launch=launch)
    again = Counts.from_json(counts.to_json())
    assert again.grids == counts.grids and again.touched("X", (0, 0, 0)).sum() == 16
