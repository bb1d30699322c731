"""Watching Triton's interpreter: put back afterwards, checked before, refused readably."""

import numpy as np
import pytest
import torch

# At import, before any test can make another library import Triton without its interpreter.
from attnlab_helpers.kernels import language
from attnlab_helpers.traffic import CountingUnavailable, count, interpreter_hooks
from attnlab_helpers.traffic.owners import Owners

triton, tl = language.triton, language.tl
INTERPRETED = pytest.mark.skipif(language.mode() != "interpreter", reason="no interpreter here")


@triton.jit
def doubled(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + places, tl.load(x_ptr + places, mask=places < n) * 2, mask=places < n)


def launch_copy(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    doubled[(1,)](x, out, len(x), BLOCK=16)
    return out


@INTERPRETED
def test_the_interpreter_is_left_as_it_was_also_after_a_failure() -> None:
    from triton.runtime import interpreter

    before = dict(vars(interpreter.interpreter_builder)), dict(vars(interpreter))
    x = torch.randn(5)

    def fail():
        launch_copy(x)
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        count(fail, {"x": x})
    after = dict(vars(interpreter.interpreter_builder)), dict(vars(interpreter))
    assert after[0].keys() - {"grid_dim", "grid_idx"} == before[0].keys() - {"grid_dim", "grid_idx"}
    assert after[1]["_patch_lang_tensor"] is before[1]["_patch_lang_tensor"]
    assert count(lambda: launch_copy(x), {"x": x}).bytes("x") == (20, 0)


@INTERPRETED
def test_counting_inside_counting_sees_the_same() -> None:
    x, inner = torch.randn(5), []
    outer = count(lambda: inner.append(count(lambda: launch_copy(x), {"x": x})), {"x": x})
    assert outer.bytes("x") == inner[0].bytes("x") == (20, 0)


@INTERPRETED
def test_this_version_of_triton_goes_through_what_is_watched() -> None:
    """If this fails, a release moved the interpreter's loads: see interpreter_hooks.METHODS."""
    version = interpreter_hooks.require_interpreter()
    interpreter_hooks._builder(version)


@INTERPRETED
@pytest.mark.parametrize("name", ["create_masked_load", "create_masked_store", "create_load"])
def test_a_triton_that_moved_its_loads_is_told_readably(name, monkeypatch) -> None:
    from triton.runtime import interpreter

    elsewhere = type("Elsewhere", (interpreter.InterpreterBuilder,), {name: lambda self, a: a})
    monkeypatch.setattr(interpreter, "interpreter_builder", elsewhere())
    with pytest.raises(CountingUnavailable, match=r"3.6 to 3.9; triton .* has moved"):
        count(lambda: None, {})


@INTERPRETED
def test_nothing_launched_is_no_zero() -> None:
    with pytest.raises(CountingUnavailable, match="no Triton kernel"):
        count(lambda: torch.ones(3) * 2, {})


@pytest.mark.parametrize(
    ("mode", "words"),
    [("compiled", "count_in_process"), ("missing", "no build for macOS"), ("no GPU", "TRITON_IN")],
)
def test_without_the_interpreter_the_error_says_what_to_do(mode, words, monkeypatch) -> None:
    monkeypatch.setattr(interpreter_hooks, "triton_mode", lambda has_gpu: mode)
    with pytest.raises(CountingUnavailable, match=words):
        count(lambda: None, {})


def test_tensors_that_cannot_be_told_apart_are_refused() -> None:
    x = torch.randn(4, 4)
    owners = Owners()
    owners.add("x", x)
    owners.add("empty", torch.empty(0))
    with pytest.raises(ValueError, match="y and x share memory"):
        owners.add("y", x[1:])
    with pytest.raises(ValueError, match="taken"):
        owners.add("x", torch.ones(1))
    with pytest.raises(TypeError, match="on meta"):
        owners.add("m", torch.ones(1, device="meta"))
    expanded = torch.randn(3, 1).expand(3, 5)
    owners.add("expanded", expanded)
    place = owners.names.index("expanded")
    addresses = owners.element_addresses(place)
    assert len(np.unique(addresses)) == 3
    assert (owners.find(addresses.ravel()) == place).all()
    assert owners.find(np.array([8], dtype=np.uint64)).tolist() == [-1]
