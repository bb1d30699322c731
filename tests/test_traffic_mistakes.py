"""What a reader gets wrong when counting, and the sentence that is said about it."""

import numpy as np
import pytest
import torch

from attnlab_helpers import AttentionProblem

# At import, before any test can make another library import Triton without its interpreter.
from attnlab_helpers.kernels import language
from attnlab_helpers.traffic import count

triton, tl = language.triton, language.tl
pytestmark = pytest.mark.skipif(language.mode() != "interpreter", reason="no interpreter here")


@triton.jit
def copied(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + places, tl.load(x_ptr + places, mask=places < n), mask=places < n)


@triton.jit
def with_numbers_as_mask(x_ptr, n, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    value = tl.load(x_ptr + places, mask=(places < n).to(tl.int32))
    tl.store(x_ptr + places, value, mask=places < n)


@triton.jit
def twice(value):
    return value * 2


@triton.jit
def doubled(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = twice(tl.load(x_ptr + places, mask=places < n))
    tl.store(out_ptr + places, value, mask=places < n)


def pair(n: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(n), torch.empty(n)


def named(x: torch.Tensor, out: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"X": x, "Z": out}


def test_launches_that_cannot_work_say_how_they_do() -> None:
    x, out = pair()
    wrong = {
        r"called without a grid.*copied\[\(programs,\)\]": lambda: copied(x, out, 20, BLOCK=32),
        "the grid of copied is 4": lambda: copied[4](x, out, 20, BLOCK=32),
        "x_ptr of copied is a NumPy array": lambda: copied[(1,)](x.numpy(), out, 20, BLOCK=32),
        "out_ptr of copied is a NumPy array": lambda: copied[(1,)](
            x, n=20, out_ptr=out.numpy(), BLOCK=32
        ),
    }
    for words, launch in wrong.items():
        with pytest.raises(TypeError, match=words):
            count(launch, named(x, out))
    with pytest.raises(Exception, match="the mask of a load is int32; it must be truth values"):
        count(lambda: with_numbers_as_mask[(1,)](x, 20, BLOCK=32), {"X": x})
    # Nothing of this stays: kernels that call kernels work as before, also outside.
    counts = count(lambda: doubled[(1,)](x, out, 20, BLOCK=32), named(x, out))
    assert counts.bytes("X") == (80, 0)
    doubled[(1,)](out, x, 20, BLOCK=32)


def test_an_autotuner_with_a_choice_is_refused_and_one_without_is_counted() -> None:
    def tuned(*blocks: int):
        configs = [triton.Config({"BLOCK": block}) for block in blocks]
        return triton.autotune(configs=configs, key=["n"])(copied)

    x, out = pair()
    with pytest.raises(TypeError, match=r"copied is autotuned over 2 .*Take one config"):
        count(lambda: tuned(16, 32)[(2,)](x, out, 20), named(x, out))
    assert count(lambda: tuned(16)[(2,)](x, out, 20), named(x, out)).bytes("X") == (80, 0)


def test_arguments_of_count_that_are_no_launch_and_no_names() -> None:
    x, out = pair()
    with pytest.raises(TypeError, match=r"launch is None.*count\(lambda"):
        count(copied[(1,)](x, out, 20, BLOCK=32), {"X": x})
    with pytest.raises(TypeError, match="tensors is a list; names with tensors"):
        count(lambda: None, [x])
    with pytest.raises(TypeError, match="name must be a text, not 1"):
        count(lambda: None, {1: x})
    with pytest.raises(TypeError, match=r"not a ndarray: torch.from_numpy\(X\)"):
        count(lambda: None, {"X": x.numpy()})
    with pytest.raises(TypeError, match=r"dense tensors: X\.to_dense"):
        count(lambda: None, {"X": torch.eye(3).to_sparse()})


@pytest.mark.parametrize("size", [0, -3, 1.5, "2", True, None])
def test_an_element_has_a_whole_number_of_bytes(size) -> None:
    x, out = pair()
    launch = lambda: copied[(1,)](x, out, 20, BLOCK=32)  # noqa: E731
    with pytest.raises(ValueError, match=r"element_bytes\['X'\] is .*1 or more"):
        count(launch, named(x, out), element_bytes={"X": size})
    fine = count(launch, named(x, out), element_bytes={"X": np.int64(2), "O": 2})
    assert fine.bytes("X") == (40, 0)


def test_sizes_of_no_tensor_are_not_passed_over() -> None:
    x, out = pair()
    launch = lambda: copied[(1,)](x, out, 20, BLOCK=32)  # noqa: E731
    with pytest.raises(ValueError, match="names 'x', 'Y'; the tensors are: X, Z"):
        count(launch, named(x, out), element_bytes={"x": 2, "Y": 2})
    with pytest.raises(ValueError, match="stands for Q, K, V, O, S, P"):
        count(launch, named(x, out), element_bytes=AttentionProblem(1, 1, 4, 4))
    with pytest.raises(TypeError, match="element_bytes is a int"):
        count(launch, named(x, out), element_bytes=2)
    # A result that a launch names itself can have a size of its own.
    counts = count(lambda: launch() or {"mine": out}, {"X": x}, element_bytes={"mine": 2, "X": 2})
    assert counts.bytes("mine") == (0, 40)
