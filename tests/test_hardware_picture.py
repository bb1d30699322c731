"""The GPU's picture shows one card's numbers, says whose they are, and invents none."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from attnlab_helpers import gpus
from attnlab_helpers.plots import hardware
from attnlab_helpers.units import format_bytes


def written(picture) -> str:
    """All texts that the picture draws."""
    (axes,) = picture.figure().axes
    return "\n".join(text.get_text() for text in axes.texts)


@pytest.mark.parametrize("name", gpus.GPUS)
def test_a_cards_numbers_are_drawn_and_listed(name) -> None:
    card = gpus.find(name)
    picture = hardware(card)
    text = written(picture)
    for number in (
        f"{card.multiprocessors} SMs",
        f"{card.registers_per_sm:,} registers",
        f"{card.max_threads_per_sm:,} threads",
        f"{format_bytes(card.shared_bytes_per_sm)} an SM",
        format_bytes(card.l2_bytes),
        format_bytes(card.memory_bytes),
        card.name,
    ):
        assert number in text, number
        assert number.split()[0] in str(picture)
    assert card.source.split(";")[0] in " ".join(text.split())
    assert card.source in str(picture)
    assert str(card.multiprocessors) in picture.alt


def test_every_sm_is_drawn() -> None:
    count = random.randint(1, 160)
    few, many = (
        len(hardware(replace(gpus.find("H200"), multiprocessors=n)).figure().axes[0].patches)
        for n in (1, count)
    )
    assert many - few == count - 1


def test_nothing_is_drawn_outside_the_picture() -> None:
    for name in gpus.GPUS:
        figure = hardware(name).figure()
        renderer = FigureCanvasAgg(figure).get_renderer()
        for text in figure.axes[0].texts:
            box = text.get_window_extent(renderer)
            assert box.x0 >= 0 and box.y0 >= 0, text.get_text()
            assert box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1, text.get_text()


def test_what_nobody_knows_is_left_out() -> None:
    known = gpus.find("H200")
    card = replace(
        known, name="A card of tomorrow", memory_bandwidth=None, shared_bandwidth=None,
        bf16_flops=None, fp16_flops=None, fp32_flops=None, source="as CUDA reports it",
    )  # fmt: skip
    picture = hardware(card)
    for text in (written(picture), str(picture), picture.alt):
        assert "B/s" not in text and "FLOP" not in text and "None" not in text
    assert "B/s" in written(hardware(known))


def test_without_a_gpu_the_recorded_card_is_drawn_and_the_picture_says_so(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    picture = hardware()
    assert picture.title.endswith("NVIDIA H200")
    assert "No GPU here" in picture.provenance and "data sheet" in picture.provenance


def test_the_readers_own_gpu_comes_first(monkeypatch) -> None:
    told = SimpleNamespace(
        name="NVIDIA Something", major=9, minor=0, multi_processor_count=77,
        shared_memory_per_multiprocessor=100 * 1024, max_threads_per_multi_processor=1536,
        L2_cache_size=2**25, total_memory=2**34,
    )  # fmt: skip
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: told)
    picture = hardware()
    assert "77 SMs" in written(picture)
    assert picture.provenance.startswith("This machine's GPU: as CUDA reports it")


def test_a_name_that_is_not_known_lists_the_known_ones() -> None:
    with pytest.raises(gpus.UnknownGpu, match="H200"):
        hardware("V100")


def test_it_is_small_and_saved(tmp_path) -> None:
    picture = hardware("A100")
    assert picture.save(tmp_path / "gpu.png").stat().st_size < 90_000
    html = picture._repr_mimebundle_()["text/html"]
    assert "<table>" in html and "alt=" in html


def test_what_is_no_card_is_a_sentence() -> None:
    for wrong in (5, ["H200"], b"H200"):
        with pytest.raises(TypeError, match=r"hardware draws a card: .*hardware\('H200'\)"):
            hardware(wrong)


def test_the_levels_of_memory_grow_downwards_and_never_shrink() -> None:
    (axes,) = hardware("H200").figure().axes
    corners = [one.get_xy() for one in axes.patches if type(one).__name__ == "Polygon"]
    heights = [one[:, 1].max() - one[:, 1].min() for one in corners]
    widths = [one[:, 0].max() - one[:, 0].min() for one in corners]
    assert len(corners) == 4 and max(heights) - min(heights) < 1e-6
    assert widths == sorted(widths) and "not to scale" in hardware("H200").alt
