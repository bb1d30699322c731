"""The table of cards is plausible, cards are found by name, and a reader's own card is read."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
import torch

from attnlab_helpers import gpus
from attnlab_helpers.gpus import (
    GPUS,
    UnknownGpu,
    find,
    from_properties,
    numbers_for,
    this_gpu,
)


@pytest.mark.parametrize("card", GPUS.values(), ids=GPUS)
def test_a_card_is_plausible(card) -> None:
    assert card.source
    assert card.max_threads_per_sm % gpus.WARP_THREADS == 0
    assert card.registers_per_sm >= 32 * card.max_threads_per_sm
    # Nearer memory is smaller, and faster.
    shared = card.shared_bytes_per_sm * card.multiprocessors
    assert card.register_bytes_per_sm >= card.shared_bytes_per_sm
    assert card.l2_bytes < card.memory_bytes and shared < card.memory_bytes
    if card.shared_bandwidth is not None:
        assert 4 * card.memory_bandwidth < card.shared_bandwidth
    # A card with bf16 tensor cores has compute capability 8.0, and the same speed for fp16.
    assert (card.bf16_flops is not None) == (card.capability >= (8, 0))
    assert card.bf16_flops in (None, card.fp16_flops)
    assert card.fp32_flops < card.fp16_flops
    # An SM's two flops a lane and clock: between 64 and 128 lanes, between 1 and 3 GHz.
    assert 128e9 < card.fp32_flops / card.multiprocessors < 768e9
    assert 100 < card.balance("float16") < 400
    assert card.balance(torch.float32) < 100


def test_newer_cards_move_more() -> None:
    names = ["T4", "A100", "H100", "H200", "B200"]
    speeds = [find(name).memory_bandwidth for name in names]
    assert speeds == sorted(speeds)
    # Shared memory is 128 bytes a clock: the clock that the figure implies is a real one.
    for card in GPUS.values():
        if card.shared_bandwidth:
            assert 1.3e9 < card.shared_bandwidth / 128 / card.multiprocessors < 2.6e9


def test_a_card_is_found_by_any_of_its_names() -> None:
    for common, card in GPUS.items():
        assert find(common) is card
        assert find(card.name.upper()) is card
    assert find("a100").multiprocessors == 108
    assert find("4090").capability == (8, 9)
    with pytest.raises(UnknownGpu, match=r"several.*H100 SXM"):
        find("100")
    with pytest.raises(UnknownGpu, match="there are T4, A100"):
        find("V100")
    with pytest.raises(UnknownGpu):
        find(" ")
    with pytest.raises(LookupError):
        find("no such card")


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA L4", "NVIDIA GeForce RTX 3090", "NVIDIA A100-PCIE-40GB", "NVIDIA A100-SXM4-40GB",
        "NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA H200 NVL", "Tesla V100-SXM2-16GB",
        "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA H100", "NVIDIA", "CPU", "",
    ],
)  # fmt: skip
def test_any_name_gives_numbers_and_no_other_cards(name) -> None:
    card = numbers_for(name)
    assert card.name == name and "not in the table" in card.source
    assert card.memory_bandwidth is card.bf16_flops is card.multiprocessors is None
    assert card.register_bytes_per_sm is card.max_warps_per_sm is card.balance("float16") is None


def test_numbers_for_a_card_of_the_table_are_the_tables() -> None:
    for common, card in GPUS.items():
        assert numbers_for(card.name) is numbers_for(common) is card
    assert numbers_for("a100") is find("A100")
    with pytest.raises(TypeError, match="must be a card's name"):
        numbers_for(None)
    with pytest.raises(UnknownGpu, match="numbers_for"):
        find("L4")


def test_numbers_for_this_machines_card_come_from_cuda(monkeypatch) -> None:
    own = from_properties(properties("NVIDIA H200", 60, memory_clock_rate=1, memory_bus_width=8))
    monkeypatch.setattr(gpus, "this_gpu", lambda: own)
    assert numbers_for("NVIDIA H200") is own
    assert numbers_for("NVIDIA H100 80GB HBM3") is find("H100")


def test_no_peak_for_a_dtype_nobody_listed() -> None:
    with pytest.raises(ValueError, match="ask for one of bfloat16, float16, float32"):
        find("H200").flops("int8")
    assert find("T4").flops("bfloat16") is None
    assert find("T4").balance(torch.bfloat16) is None


def properties(name: str, multiprocessors: int, **more) -> SimpleNamespace:
    draw = random.Random(len(name))
    return SimpleNamespace(
        name=name, major=9, minor=0, multi_processor_count=multiprocessors,
        regs_per_multiprocessor=65_536, shared_memory_per_multiprocessor=233_472,
        max_threads_per_multi_processor=2048, L2_cache_size=draw.randrange(2**20, 2**26),
        total_memory=draw.randrange(2**30, 2**37), **more,
    )  # fmt: skip


def test_a_known_card_takes_its_sizes_from_cuda_and_its_speeds_from_the_table() -> None:
    told = properties("NVIDIA H200", 132)
    card = from_properties(told)
    assert (card.l2_bytes, card.memory_bytes) == (told.L2_cache_size, told.total_memory)
    assert card.bf16_flops == find("H200").bf16_flops
    assert "CUDA" in card.source and "data sheet" in card.source


def test_what_cuda_told_of_an_h200_agrees_with_the_table() -> None:
    # Read with torch 2.11.0 on an NVIDIA H200.
    told = SimpleNamespace(
        name="NVIDIA H200",
        major=9, minor=0, multi_processor_count=132, regs_per_multiprocessor=65_536,
        shared_memory_per_multiprocessor=233_472, max_threads_per_multi_processor=2048,
        L2_cache_size=62_914_560, total_memory=150_109_880_320, memory_clock_rate=3_201_000,
        memory_bus_width=6016,
    )  # fmt: skip
    card = from_properties(told)
    agrees(card, find("H200"))
    told.name = "NVIDIA H200 by another name"
    unnamed = from_properties(told)
    assert unnamed.memory_bandwidth == pytest.approx(card.memory_bandwidth, rel=0.01)


def agrees(card, known) -> None:
    for field in (
        "capability", "multiprocessors", "registers_per_sm", "shared_bytes_per_sm",
        "max_threads_per_sm", "memory_bandwidth", "bf16_flops",
    ):  # fmt: skip
        assert getattr(card, field) == getattr(known, field), field
    assert card.l2_bytes == pytest.approx(known.l2_bytes, rel=0.03)
    assert card.memory_bytes == pytest.approx(known.memory_bytes, rel=0.08)


@pytest.mark.parametrize("name, count", [("NVIDIA H200 MIG 1g.18gb", 16), ("NVIDIA H200", 60)])
def test_a_slice_of_a_card_or_an_unknown_one_gets_no_invented_peak(name, count) -> None:
    card = from_properties(properties(name, count))
    assert card.bf16_flops is card.fp32_flops is card.memory_bandwidth is None
    assert card.balance("float16") is None
    clocked = from_properties(
        properties(name, count, memory_clock_rate=10_501_000, memory_bus_width=384)
    )
    assert clocked.memory_bandwidth == pytest.approx(find("4090").memory_bandwidth, rel=1e-3)
    assert "memory clock" in clocked.source


def test_without_a_gpu_there_is_no_this_gpu(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert this_gpu() is None


@pytest.mark.gpu
def test_this_gpu_agrees_with_the_table() -> None:
    card = this_gpu()
    known = [one for one in GPUS.values() if one.name == card.name]
    if not known:
        pytest.skip(f"{card.name} is not in the table")
    agrees(card, known[0])
