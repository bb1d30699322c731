"""Targets: every way to write one, and what is said about one that nobody knows."""

from __future__ import annotations

import pytest
import torch

from attnlab_helpers.compiler import TARGETS, parse_target


@pytest.mark.parametrize("target", list(TARGETS.values()), ids=str)
def test_every_way_to_write_a_target_means_the_same(target) -> None:
    major, minor = target.capability
    ways = [
        f"{major}.{minor}", major + minor / 10, (major, minor), f"sm_{major}{minor}",
        f"sm_{major}{minor}a", f"SM_{major}{minor}", major * 10 + minor, target,
    ]  # fmt: skip
    assert {parse_target(way) for way in ways} == {target}


@pytest.mark.parametrize("way", ["7.0", 70, "sm_20", "Hopper", "", (9,), [9, 0], 9.5, True])
def test_an_unknown_target_lists_the_known_ones(way) -> None:
    with pytest.raises(ValueError, match=r"9\.0 +Hopper \(H100, H200\)"):
        parse_target(way)


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
