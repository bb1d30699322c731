"""FlashAttention's configurations: what the table says, what fits a card, that each is right."""

import importlib.resources
import json

import pytest
import torch
from test_flash_triton import ALIGNMENTS, CAN_RUN, DEVICE, problem

from attnlab_helpers.attention import flash_autograd, reference
from attnlab_helpers.attention.arguments import UnsupportedProblem
from attnlab_helpers.kernels import language
from attnlab_helpers.kernels.card import Card
from attnlab_helpers.kernels.flash_configurations import (
    FILE,
    HOPPER,
    KERNELS,
    LONG_FROM,
    Configuration,
    configurations,
    listed,
)
from attnlab_helpers.kernels.flash_hopper_launch import BLOCK_Q, BLOCKS_D, CAPABILITY
from attnlab_helpers.kernels.flash_launch import (
    LOG2_E,
    fits_descriptor,
    launch_dkdv,
    launch_dq,
    launch_forward,
    statistics,
)
from attnlab_helpers.kernels.tiles import padded

KIB = 1024
# Shared memory that one block may use: CUDA C++ Programming Guide, table of limits by capability.
CARDS = {(7, 5): 64, (8, 0): 163, (8, 6): 99, (8, 9): 99, (9, 0): 227, (10, 0): 227, (12, 0): 99}


def table():
    package = importlib.resources.files("attnlab_helpers.kernels")
    return json.loads(package.joinpath(FILE).read_text(encoding="utf-8"))


def test_the_table_is_well_formed_and_fits_its_cards() -> None:
    for name, card in table().items():
        capability = tuple(map(int, name.split(".")))
        kernels = [kernel for kernel in (*KERNELS, *HOPPER) if kernel in card]
        assert card.keys() == {"timed", *kernels} and set(KERNELS) <= set(kernels)
        rows = {f"{kernel} {block_d}" for kernel in kernels for block_d in card[kernel]}
        assert card["timed"].keys() <= rows
        for kernel in kernels:
            rows = [
                (block_d, is_long, row)
                for block_d, lengths in card[kernel].items()
                for is_long, row in lengths.items()
            ]
            for block_d, is_long, row in rows:
                length = {"short": LONG_FROM - 1, "long": LONG_FROM}[is_long]
                found = listed(kernel, block_d=int(block_d), length=length, capability=capability)
                assert found == Configuration(**row)
                for size in (found.block_q, found.block_k):
                    assert size >= 16 and size & (size - 1) == 0
                assert found.num_warps in (1, 2, 4, 8, 16) and found.num_stages >= 1
                # Statistics of the backward pass are rounded up to whole blocks of 128 queries.
                assert kernel == "forward" or found.block_q <= 128
                assert kernel in ("forward", *HOPPER) or not found.overlap
                if kernel in HOPPER:
                    assert capability == CAPABILITY and int(block_d) in BLOCKS_D
                    assert (found.block_q, found.num_warps) == (BLOCK_Q, 4)


@pytest.mark.parametrize("head_dim", [1, 16, 40, 64, 80, 128, 192, 256])
@pytest.mark.parametrize("capability", CARDS)
@pytest.mark.parametrize("length", [0, 100_000])
def test_every_card_gets_tiles_that_fit_it_and_smaller_ones_after_them(
    length, capability, head_dim
) -> None:
    room = CARDS[capability] * KIB
    for kernel in KERNELS:
        for precision, element_bytes in (("half", 2), ("tf32", 4), ("ieee", 4)):
            found = configurations(
                kernel,
                head_dim=head_dim,
                length=length,
                precision=precision,
                capability=capability,
                shared_bytes=room,
            )
            block_d = padded(head_dim)
            known = listed(kernel, block_d=block_d, length=length, capability=capability)
            if precision == "half" and known:
                assert found[0] == known
                found = found[1:]
            needs = [one.shared_bytes(kernel, padded(head_dim), element_bytes) for one in found]
            assert all(need <= room for need in needs[:-1])  # the last is the last hope
            assert found[-1].block_q == found[-1].block_k == 16
            assert not any(one.descriptors for one in found if capability < (9, 0))


def test_a_card_that_runs_out_of_memory_gets_the_next_smaller_tiles(monkeypatch) -> None:
    class OutOfResources(Exception):  # Triton's, told by its name
        pass

    card = Card((8, 6), sms=1, l2_bytes=0, shared_bytes=99 * KIB)

    tried = []

    def launch(configuration: Configuration) -> None:
        tried.append(configuration)
        if len(tried) < enough:
            raise OutOfResources("shared memory, Required: 1, Hardware limit: 0")

    monkeypatch.setattr(flash_autograd, "mode", lambda: "compiled")
    monkeypatch.setattr(flash_autograd, "card_of", lambda tensor: card)
    q = torch.empty(1, 1, 1, 64, dtype=torch.float16)
    enough = 3
    flash_autograd._first_that_fits("forward", q, 1, "ieee", launch)
    assert len(tried) == len(set(tried)) == 3
    enough = 10**6
    with pytest.raises(UnsupportedProblem, match=r"fits this GPU.*sdpa_auto can"):
        flash_autograd._first_that_fits("forward", q, 1, "ieee", launch)


def test_only_an_out_of_resources_error_goes_on_to_the_next(monkeypatch) -> None:
    card = Card((9, 0), sms=1, l2_bytes=0, shared_bytes=227 * KIB)

    def launch(configuration: Configuration) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(flash_autograd, "mode", lambda: "compiled")
    monkeypatch.setattr(flash_autograd, "card_of", lambda tensor: card)
    with pytest.raises(ZeroDivisionError):
        flash_autograd._first_that_fits("dq", torch.empty(1, 1, 1, 16), 1, "ieee", launch)


NAN = float("nan")


@CAN_RUN
@pytest.mark.parametrize("causal", ALIGNMENTS)
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("blocks", [(32, 64), (128, 32), (32, 128)])
def test_the_tiles_change_nothing_but_rounding(blocks, overlap, causal) -> None:
    (q, k, v), do = problem(1, 2, 75, 16, kv_len=140, kv_heads=1, dtype="float32")
    leaves = [tensor.requires_grad_() for tensor in (q, k, v)]
    expected = reference(*leaves, causal=causal)
    gradients = torch.autograd.grad(expected, leaves, do.double())
    configuration = Configuration(*blocks, overlap=overlap)
    options = {"scale": 0.25, "causal": causal, "precision": "ieee"}
    q, k, v = (tensor.detach() for tensor in leaves)
    # Poison: every number must be written.
    out, lse = torch.full_like(q, NAN), torch.full(q.shape[:3], NAN)
    lse = lse.to(DEVICE)
    launch_forward(q, k, v, out, lse, configuration, **options)
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=4e-6)
    delta, shift = statistics(out, do, lse)
    assert torch.allclose(delta[:, :75], (out * do).sum(-1).view(2, 75), atol=1e-5)
    assert (shift[:, 75:] == float("inf")).all()
    dq, dk, dv = (torch.full_like(tensor, NAN) for tensor in (q, k, v))
    launch_dkdv(q, k, v, do, delta, shift, dk, dv, configuration, **options)
    launch_dq(q, k, v, do, delta, shift, dq, configuration, **options)
    for actual, oracle in zip((dq, dk, dv), gradients, strict=True):
        torch.testing.assert_close(actual, oracle.float(), rtol=0, atol=1e-5)


@CAN_RUN
def test_lse_of_the_kernel_is_in_powers_of_two() -> None:
    (q, k, v), _ = problem(1, 1, 20, 16, dtype="float32")
    out, lse = torch.empty_like(q), torch.empty(q.shape[:3], device=DEVICE)
    configuration = Configuration(16, 16)
    launch_forward(q, k, v, out, lse, configuration, scale=0.3, causal=False, precision="ieee")
    expected = (0.3 * q.double() @ k.double().mT).logsumexp(-1) * LOG2_E
    torch.testing.assert_close(lse.double(), expected, rtol=0, atol=3e-6)


def test_only_tensors_that_the_copy_engine_takes_are_given_to_it(monkeypatch) -> None:
    from attnlab_helpers.kernels import flash_launch

    class OnCuda(torch.Tensor):
        is_cuda = True

    monkeypatch.setattr(flash_launch, "mode", lambda: "compiled")
    x = torch.empty(2, 3, 40, 64, dtype=torch.float16).as_subclass(OnCuda)
    assert fits_descriptor(x)
    assert fits_descriptor(x.transpose(1, 2).contiguous().transpose(1, 2))
    assert fits_descriptor(x[:, :, ::2, 8:])
    assert fits_descriptor(x[..., :24].contiguous())
    assert fits_descriptor(x[:1, :, :, :].as_strided((1, 3, 40, 64), (1, 2560, 64, 1)))
    assert not fits_descriptor(x[..., 1:])  # starts between two multiples of 16 bytes
    assert not fits_descriptor(x[..., ::2])
    assert not fits_descriptor(x.mT)
    assert not fits_descriptor(x[:, :1].expand(2, 3, 40, 64))
    assert not fits_descriptor(x[..., :59].contiguous())  # rows of 118 bytes
    if language.mode() != "compiled":
        monkeypatch.undo()
        assert not fits_descriptor(x)
