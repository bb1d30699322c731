"""Targets: every way to write one, and what is said about one that nobody knows."""

from __future__ import annotations

import pytest
import torch

from attnlab_helpers.compiler import TARGETS, nvrtc, parse_target


@pytest.mark.parametrize("target", list(TARGETS.values()), ids=str)
def test_every_way_to_write_a_target_means_the_same(target) -> None:
    major, minor = target.capability
    number, cards = f"{major}{minor}", target.card.split(", ")
    ways = [
        f"{major}.{minor}", major + minor / 10, (major, minor), f"sm_{number}", f"sm_{number}a",
        f"SM_{number}", f"sm{number}", number, int(number), target, *cards, cards[0].lower(),
        f"NVIDIA {cards[-1]}",
    ]  # fmt: skip
    assert {parse_target(way) for way in ways} == {target}
    if minor == 0:
        assert parse_target(major) == target == parse_target(str(major))


@pytest.mark.parametrize(
    "way",
    [
        "7.0",
        70,
        "sm_20",
        "Hopper",
        "",
        (9,),
        [9, 0],
        9.5,
        True,
        8.649,
        9.04,
        float("nan"),
        float("inf"),
        "RTX",
        b"9.0",
        "7",
        1000,
    ],
)
def test_an_unknown_target_lists_the_known_ones(way) -> None:
    with pytest.raises(ValueError, match=r"9\.0 +Hopper \(H100, H200\)"):
        parse_target(way)


@pytest.mark.parametrize(("way", "name"), [("8.7", "sm_87"), (110, "sm_110a"), (12.1, "sm_121a")])
def test_a_target_without_a_row_is_taken_and_named_generically(way, name, monkeypatch) -> None:
    monkeypatch.setattr(nvrtc, "supported", lambda: (75, 131))
    target = parse_target(way)
    assert target.architecture == name and target.too_much(10**9) == ()
    assert parse_target("13.1").architecture == "sm_131a"  # this NVRTC knows it
    monkeypatch.setattr(nvrtc, "supported", lambda: (75,))
    with pytest.raises(ValueError, match=r"no target that is known"):
        parse_target("13.1")


def on_a_gpu(monkeypatch, name, capability) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: name)


def test_a_gpu_outside_the_table_is_this_gpu_and_one_that_is_too_old_is_named(monkeypatch) -> None:
    on_a_gpu(monkeypatch, "NVIDIA Tomorrow", (14, 2))
    target = parse_target(None)
    assert (str(target), target.card, target.architecture) == ("14.2", "NVIDIA Tomorrow", "sm_142a")
    on_a_gpu(monkeypatch, "Tesla V100", (7, 0))
    with pytest.raises(
        ValueError, match=r"Tesla V100\) has compute capability 7\.0.*target='8\.0'"
    ):
        parse_target(None)
    on_a_gpu(monkeypatch, "NVIDIA H200", (9, 0))
    assert parse_target(None) is TARGETS["9.0"]


def test_only_generations_with_special_instructions_have_a_variant() -> None:
    names = {str(target): target.architecture for target in TARGETS.values()}
    assert names["8.9"] == "sm_89" and names["9.0"] == "sm_90a" and names["12.0"] == "sm_120a"


def test_no_target_means_this_gpu() -> None:
    if torch.cuda.is_available():
        assert parse_target(None).capability == torch.cuda.get_device_capability()
    else:
        with pytest.raises(ValueError, match=r"no GPU here[\s\S]*target='9\.0'"):
            parse_target(None)


def test_too_much_shared_memory_is_said_with_both_numbers() -> None:
    ada = parse_target("8.9")
    assert ada.too_much(ada.max_shared_bytes) == ()
    (note,) = ada.too_much(131_072)
    assert "cannot be launched" in note and "131,072" in note and "101,376" in note
