"""FlashAttention's kernel for Hopper: the order of its work, what is compiled, and its results."""

import functools
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from test_flash_triton import ALIGNMENTS, assert_right, error_ratios, problem

from attnlab_helpers.attention import flash_autograd, reference
from attnlab_helpers.attention.flash_triton import flash_triton
from attnlab_helpers.kernels import flash_hopper_check, flash_hopper_launch, language
from attnlab_helpers.kernels.card import Card
from attnlab_helpers.kernels.flash_configurations import HOPPER, Configuration, listed
from attnlab_helpers.kernels.flash_hopper_launch import (
    TRITON_BELOW,
    TRITON_FROM,
    launch_hopper,
    launch_hopper_dq,
    suits,
)
from attnlab_helpers.kernels.flash_launch import launch_forward, statistics
from attnlab_helpers.kernels.launching import forget

ROOM = 227 * 1024  # CUDA C++ Programming Guide, technical specifications by capability
LENGTHS = [1, 17, 97, 113, 127, 128, 129, 203, 1023, 1024, 1025, 2048]
triton = pytest.importorskip("triton")
VERSION = tuple(int(part) for part in triton.__version__.split(".")[:2])
can_compile = pytest.mark.skipif(
    not TRITON_FROM <= VERSION < TRITON_BELOW, reason="Gluon of another Triton"
)


@can_compile
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("block_d", [64, 128])
@pytest.mark.parametrize("kernel", HOPPER)
def test_compiled_for_hopper_it_fits_and_multiplies_in_groups(kernel, block_d, causal) -> None:
    row = listed(kernel, block_d=block_d, length=1, capability=(9, 0))
    row = row or configuration(kernel, block_d)
    sizes = [str(int(x)) for x in (row.block_k, block_d, row.num_stages, causal)]
    sizes.insert(0, {"forward_hopper": "flash_hopper", "dq_hopper": "flash_hopper_dq"}[kernel])
    environment = {name: x for name, x in os.environ.items() if name != "TRITON_INTERPRET"}
    script = Path(__file__).with_name("hopper_stages.py")
    done = subprocess.run(
        [sys.executable, str(script), *sizes], env=environment, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[0])
    assert found["shared"] <= ROOM
    assert found["products"] > 0 and found["atomics"] == 0 and not found["local"]
    # The loading warp gives registers away, so that the others can take more.
    assert {("dec", 24), ("inc", 240)} <= {tuple(pair) for pair in found["registers"]}


@can_compile
@settings(max_examples=300, deadline=None)
@given(st.integers(1, 9), st.integers(1, 20), st.integers(1, 20), st.integers(1, 30), st.booleans())
def test_every_block_of_every_head_is_attended_once(blocks, heads, at_once, programs, causal):
    """The kernel's own functions, with Python's numbers in place of Gluon's."""
    module = sys.modules.get("hopper_in_python") or in_python()
    at_once, all_blocks = min(heads, at_once), blocks * heads
    programs = min(programs, -(-all_blocks // (2 if causal else 1)))
    sizes = (all_blocks, blocks, at_once, heads, heads, 1, 128 * blocks, 128 * blocks, 0)
    found, tiles = [], []
    for program in range(programs):
        module.gl.program_id = lambda axis, program=program: program
        module.gl.num_programs = lambda axis: programs
        mine = [
            module.place(turn, sizes, causal)[:2]
            for turn in range(module.blocks_of_program(sizes, causal))
        ]
        assert mine, "a program without work would wait for tiles that nobody fetches"
        found += mine
        tiles.append(sum(block + 1 for block, _ in mine))
    assert sorted(found) == [(block, head) for block in range(blocks) for head in range(heads)]
    if causal and all_blocks % (2 * programs) == 0 and blocks % 2 == 0:
        assert len(set(tiles)) == 1, "all programs have equally many tiles of keys"


def in_python() -> SimpleNamespace:
    """`place` and `blocks_of_program` as plain functions."""
    source = (
        Path(flash_hopper_launch.__file__).with_name("flash_hopper_blocks.py").read_text("utf-8")
    )
    numbers = SimpleNamespace(
        minimum=min, maximum=max, where=lambda c, a, b: a if c else b, constexpr=int
    )
    names: dict = {"gl": numbers, "gluon": SimpleNamespace(jit=lambda function: function)}
    for name in ("blocks_of_program", "place"):
        start = source.index(f"@gluon.jit\ndef {name}(")
        exec(source[start : source.index("\n\n\n", start)], names)
    module = SimpleNamespace(**names)
    sys.modules["hopper_in_python"] = module  # type: ignore[assignment]
    return module


def test_it_is_not_taken_where_it_cannot_run(monkeypatch) -> None:
    q = torch.zeros(1, 1, 256, 64, dtype=torch.bfloat16)
    assert not suits(q, q, q, q)
    if language.mode() != "compiled":
        monkeypatch.setattr(flash_autograd, "launch_hopper", None)  # would be called
        q = torch.randn(64, 4, 130, 64, dtype=torch.bfloat16)
        if language.mode() == "interpreter":
            flash_triton(q[:1, :1], q[:1, :1], q[:1, :1])


@pytest.fixture
def on_the_cpu(monkeypatch):
    """Launches that compute plainly; the one for Hopper as `change` wants it."""

    def forward(q, k, v, out, lse, configuration, *, scale, causal, precision="ieee", change=None):
        scores = (q.double() @ k.double().mT) * scale * math.log2(math.e)
        if causal:
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores.masked_fill_(hidden, -math.inf)
        lse.copy_(torch.logsumexp(scores * math.log(2), -1) / math.log(2))
        found = torch.softmax(scores * math.log(2), -1) @ v.double()
        out.copy_(found if change is None else change(found, causal))

    def dq(q, k, v, do, delta, shift, dq, configuration, *, scale, causal, **_):
        dq.copy_(q * scale)

    module = flash_hopper_check
    monkeypatch.setattr(module, "SHAPE", (1, 2))
    monkeypatch.setattr(module.flash_launch, "launch_forward", forward)
    monkeypatch.setattr(module.flash_launch, "statistics", lambda out, do, lse: (lse, lse))
    monkeypatch.setattr(module.flash_launch, "launch_dq", dq)
    monkeypatch.setattr(module.flash_hopper_launch, "launch_hopper_dq", dq)
    module.agrees.cache_clear()

    def agrees(change, kernel="forward_hopper"):
        launch = functools.partial(forward, change=change)
        monkeypatch.setattr(module.flash_hopper_launch, "launch_hopper", launch)
        cpu = torch.device("cpu")
        return module.agrees(kernel, configuration(kernel, 64), 64, torch.bfloat16, cpu)

    yield agrees
    module.agrees.cache_clear()


def test_with_an_untried_triton_it_is_compared_first(on_the_cpu) -> None:
    assert on_the_cpu(None)
    assert on_the_cpu(None, "dq_hopper")


def test_which_kernel_is_taken(monkeypatch) -> None:
    """Two blocks for each of 10 SMs where they are causal, one where not; and who may run."""
    module = flash_hopper_launch
    monkeypatch.setattr(module, "suits", lambda *_: True)
    card = Card(module.CAPABILITY, sms=10, l2_bytes=0, shared_bytes=ROOM)
    monkeypatch.setattr(module, "card_of", lambda _: card)
    monkeypatch.setattr(module, "triton_version", lambda: module.TRITON_TESTED[0])

    def taken(q_len, heads, causal, head_dim=128):
        q = torch.empty(1, heads, q_len, head_dim, device="meta")
        return module.configuration_for("forward_hopper", causal, q, q) is not None

    assert taken(129, 5, False) and not taken(129, 4, False)  # 129 queries are two blocks
    assert taken(129, 10, "lower_right") and not taken(129, 9, True)
    assert not taken(129, 50, False, head_dim=256)  # no line in the table
    monkeypatch.setattr(module, "triton_version", lambda: (3, 9))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    for answer in (True, False):
        monkeypatch.setattr(flash_hopper_check, "agrees", lambda *_, answer=answer: answer)
        assert taken(129, 50, False) is answer
    monkeypatch.setattr(flash_hopper_check, "agrees", None)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert not taken(129, 50, False)


def late_row(found, causal):
    found[:, :, 290:] *= 1.1 if causal else 1.0
    return found


def broken(found, causal):
    raise RuntimeError("no such operation")


@pytest.mark.parametrize("change", [late_row, lambda found, _: found * math.nan, broken])
def test_what_differs_or_fails_there_is_not_taken_and_told(on_the_cpu, change) -> None:
    with pytest.warns(RuntimeWarning, match="goes on without its kernel for Hopper"):
        assert not on_the_cpu(change)


# On a GPU of the Hopper family from here on.


def configuration(kernel, head_dim):
    if kernel == "dq_hopper":
        return Configuration(128, 64, num_stages=4)
    return Configuration(128, 128, num_stages=3 if head_dim <= 64 else 2)


@pytest.fixture
def hopper(monkeypatch) -> Iterator[list[str]]:
    """flash_triton takes this kernel wherever it suits, few blocks or not; what it took."""
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs a GPU of compute capability 9.0")
    taken = []

    def always(kernel, causal, *tensors):
        if not suits(*tensors):
            return None
        taken.append(kernel)
        return configuration(kernel, tensors[0].shape[3])

    monkeypatch.setattr(flash_autograd, "configuration_for", always)
    forget()
    yield taken
    forget()


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("head_dim", [40, 64, 72, 80, 96, 128])
def test_the_grid(hopper, head_dim, dtype, causal, record_property) -> None:
    found = {}
    for length in LENGTHS:
        tensors, do = problem(1, 2, length, head_dim, dtype=dtype, seed=length)
        found[length] = max(error_ratios(tensors, do, causal=causal))
    assert sorted(set(hopper)) == ["dq_hopper", "forward_hopper"]
    assert len(hopper) == 2 * len(LENGTHS)
    record_property("worst", max(found.values()))
    assert all(ratio <= 1 for ratio in found.values()), found


@pytest.mark.gpu
@pytest.mark.parametrize("causal", ALIGNMENTS)
@pytest.mark.parametrize("head_dim", [64, 80, 128])
@pytest.mark.parametrize(
    ("q_len", "kv_len"), [(1, 4096), (300, 77), (77, 300), (1024, 2048), (2048, 130)]
)
def test_unequal_lengths_and_grouped_heads(hopper, q_len, kv_len, head_dim, causal) -> None:
    tensors, do = problem(2, 6, q_len, head_dim, kv_len=kv_len, kv_heads=2, dtype="bfloat16")
    assert_right(tensors, do, causal=causal)
    assert hopper


@pytest.mark.gpu
@pytest.mark.parametrize("causal", ALIGNMENTS)
@pytest.mark.parametrize("shape", [(64, 9, 200), (3, 70, 640), (1, 1000, 130), (2, 16, 4000)])
def test_many_blocks_for_each_program(hopper, shape, causal) -> None:
    """More blocks than SMs, in numbers that divide by nothing."""
    tensors, do = problem(*shape, 64, kv_len=shape[2] + 57, dtype="bfloat16")
    assert_right(tensors, do, causal=causal)
    assert hopper


@pytest.mark.gpu
def test_views_with_strides_of_their_own(hopper) -> None:
    tensors, do = problem(2, 4, 515, 64, dtype="bfloat16")
    packed = torch.stack([tensor.transpose(1, 2) for tensor in tensors], 2)  # (b, n, 3, h, d)
    views = [packed[:, :, i].transpose(1, 2) for i in range(3)]
    assert not any(view.is_contiguous() for view in views)
    assert_right(views, do, causal=True)
    assert hopper
    wide = torch.randn(2, 4, 515, 120, dtype=torch.bfloat16, device="cuda")
    assert_right([wide[..., i : i + 40] for i in (0, 40, 80)], do[..., :40], causal=False)
    assert hopper.count("forward_hopper") == 2 and "dq_hopper" in hopper


@pytest.mark.gpu
def test_large_logits_negative_scale_and_nan(hopper) -> None:
    tensors, do = problem(1, 2, 300, 128, dtype="float16")
    large = [tensors[0] * 30, *tensors[1:]]
    assert_right(large, do, causal=True)
    assert_right(tensors, do, causal=True, scale=-0.3)
    q = tensors[0].clone()
    q[0, 1, 7] = float("nan")
    out = flash_triton(q, *tensors[1:], causal=True)
    wrong = out.isnan().any(-1)
    assert wrong[0, 1, 7] and wrong.sum() == 1
    assert hopper


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", [64, 128])
def test_statistics_are_those_of_the_other_kernel(hopper, head_dim) -> None:
    (q, k, v), _ = problem(2, 4, 700, head_dim, kv_len=900, dtype="bfloat16")
    options = {"scale": 0.1, "causal": "lower_right"}
    found = [(torch.empty_like(q), torch.empty(q.shape[:3], device="cuda")) for _ in range(2)]
    launch_hopper(q, k, v, *found[0], configuration("forward_hopper", head_dim), **options)
    launch_forward(q, k, v, *found[1], Configuration(64, 64), precision="ieee", **options)
    torch.testing.assert_close(found[0][1], found[1][1], rtol=1e-5, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_200_launches_give_finite_and_equal_results(hopper, head_dim, causal) -> None:
    (q, k, v), _ = problem(4, 16, 1000, head_dim, dtype="bfloat16")
    out, lse, dq = torch.empty_like(q), torch.empty(q.shape[:3], device="cuda"), q.clone()
    do, options = torch.randn_like(q), {"scale": 0.1, "causal": causal}
    forward, backward = (configuration(kernel, head_dim) for kernel in HOPPER)

    def launch() -> list[torch.Tensor]:
        for result in (out, lse, dq):
            result.fill_(float("nan"))
        launch_hopper(q, k, v, out, lse, forward, **options)
        delta, shift = statistics(out, do, lse)
        launch_hopper_dq(q, k, v, do, delta, shift, dq, backward, **options)
        return [out.clone(), lse.clone(), dq.clone()]

    first = launch()
    assert all(torch.isfinite(tensor).all() for tensor in first)
    for _ in range(199):
        assert all(map(torch.equal, first, launch()))


@pytest.mark.gpu
def test_at_size_it_is_what_flash_triton_takes(monkeypatch) -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs a GPU of compute capability 9.0")
    (q, k, v), _ = problem(4, 16, 1024, 128, dtype="bfloat16")
    found = flash_hopper_launch.configuration_for("forward_hopper", True, q, k, v, q)
    assert found is not None
    out = flash_triton(q, k, v, causal=True)
    oracle = reference(q, k, v, causal=True)
    assert ((out.double() - oracle).norm() / oracle.norm()).item() < 4e-3
