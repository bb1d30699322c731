"""The small model: its task, its photographs, its weights, and that training teaches something."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from attnlab_helpers.vit import (
    ViT,
    ViTConfig,
    attention_weights,
    cat,
    hide_colours,
    recolour,
    small_vit,
    some_shown,
    to_patches,
    train,
)
from attnlab_helpers.vit.colours import SMALL_CONFIG, join_colours, paint, split_colours, target
from attnlab_helpers.vit.photographs import PHOTOGRAPHS, pieces

WEIGHTS = Path(train.__file__).parent / "weights"


def test_brightness_and_colour_come_apart_and_together():
    images = torch.rand(2, 3, 32, 32)
    assert torch.allclose(join_colours(*split_colours(images)), images, atol=1e-6)
    assert split_colours(torch.full((1, 3, 4, 4), 0.3))[1].abs().max() < 1e-7


def test_hidden_patches_are_grey_and_the_others_untouched():
    image, shown = cat()[None], some_shown(196, 0.3)
    hidden = hide_colours(image, shown)
    before, after = to_patches(image)[0], to_patches(hidden)[0]
    assert torch.allclose(after[shown[0]], before[shown[0]], atol=1e-6)
    grey = after[~shown[0]].reshape(-1, 3, 256)
    assert torch.allclose(grey[:, 0], grey[:, 1], atol=1e-6)
    assert torch.allclose(grey[:, 0], before[~shown[0]].reshape(-1, 3, 256).mean(dim=1), atol=1e-6)


def test_errors_shift_whole_patches_that_are_shown():
    image = torch.full((1, 3, 32, 32), 0.5)
    shown = torch.tensor([[True, False, True, True]])
    errors = torch.zeros(1, 4, 2)
    errors[0, 1] = errors[0, 2] = torch.tensor([0.1, -0.2])
    wrong = hide_colours(image, shown, errors)
    assert wrong[0, :, 20, 5].tolist() == pytest.approx([0.6, 0.6, 0.3])
    assert torch.allclose(wrong[0, :, :16], image[0, :, :16])


def test_painting_what_should_be_said_gives_the_picture_back():
    image = cat()[None]
    said = target(image)
    assert said.shape == (1, 196, SMALL_CONFIG.outputs)
    painted = paint(image, said)
    # Colours are kept in cells of 4 x 4 pixels: nearly the same picture, far from a grey one.
    grey = hide_colours(image, torch.zeros(1, 196, dtype=torch.bool))
    assert (painted - image).abs().mean() < 0.25 * (grey - image).abs().mean()
    # And a cell's place is kept: one red cell comes back where it was.
    spot = torch.full((1, 3, 32, 32), 0.5)
    spot[0, 0, 20:24, 8:12] = 0.9
    back = paint(spot, target(spot))
    assert int((back[0, 0] - back[0, 2]).argmax()) // 32 in range(20, 24)
    assert int((back[0, 0] - back[0, 2]).argmax()) % 32 in range(8, 12)


def test_which_patches_show_is_the_same_for_the_same_seed():
    assert torch.equal(some_shown(196, 0.1, batch=3), some_shown(196, 0.1, batch=3))
    assert not torch.equal(some_shown(196, 0.1), some_shown(196, 0.1, seed=1))
    assert some_shown(196, 0.1, batch=3).sum(dim=1).tolist() == [20, 20, 20]
    assert some_shown(196, 0).sum() == 1 and some_shown(196, 1).all()
    with pytest.raises(ValueError, match=r"must be from 0 to 1"):
        some_shown(196, 10)


def test_the_model_recolours_the_cat_that_it_never_saw():
    image, shown = cat(), some_shown(196, 0.1)[0]
    error = {}
    for trained in (True, False):
        painted = recolour(small_vit(trained=trained), image, shown)
        assert painted.shape == image.shape and painted.min() >= 0 and painted.max() <= 1
        error[trained] = float((painted - image).abs().mean())
    # Better than giving every patch the mean of the colours shown.
    mean = target(image[None])[0][shown].mean(dim=0)
    plain = paint(image[None], mean.expand(1, 196, -1))[0]
    assert error[True] < 0.9 * float((plain - image).abs().mean()) < error[False]


@pytest.mark.parametrize(
    ("shown", "error"),
    [
        (torch.ones(10, dtype=torch.bool), ValueError),
        (torch.ones(14, 14, dtype=torch.bool), ValueError),
        (torch.ones(1, 196, dtype=torch.bool), ValueError),
        (torch.ones(196), TypeError),
        ([True] * 196, TypeError),
    ],
)
def test_what_is_shown_is_one_truth_value_a_patch(shown, error):
    model, image = small_vit(), cat()
    for call in (recolour, attention_weights):
        with pytest.raises(error, match="shown"):
            call(model, image, shown)
    if isinstance(shown, torch.Tensor) and shown.shape != (1, 196):
        with pytest.raises(error, match="shown"):
            hide_colours(image[None], shown[None])


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda image: image * 255, ValueError, "Divide by 255"),
        (lambda image: (image * 255).byte(), TypeError, "divide by 255"),
        (lambda image: image * 2 - 1, ValueError, r"clamp\(0, 1\)"),
        (lambda image: image.numpy(), TypeError, "must be a torch tensor"),
        (lambda image: image[None], ValueError, r"image\[0\]"),
    ],
)
def test_the_model_is_given_pictures(change, error, text):
    model, image, shown = small_vit(), change(cat()), some_shown(196, 0.1)[0]
    with pytest.raises(error, match=text):
        attention_weights(model, image)
    with pytest.raises(error, match=text):
        recolour(model, image, shown)


def test_doubles_are_pictures_and_other_models_do_not_recolour():
    model, shown = small_vit(), some_shown(196, 0.1)[0]
    weights = attention_weights(model, cat().double())
    assert torch.equal(weights, attention_weights(model, cat()))
    other = ViT(ViTConfig(depth=1, width=8, heads=2))
    with pytest.raises(ValueError, match="does not guess the colours"):
        recolour(other, cat(), shown)


def test_the_photographs_are_the_ones_we_know_and_the_cat_is_none():
    pytest.importorskip("sklearn")
    for photograph in PHOTOGRAPHS:
        pixels = photograph.pixels()
        assert pixels.shape[0] == 3 and min(pixels.shape[1:]) >= 300
        assert pixels.min() >= 0 and pixels.max() <= 1
        assert photograph.rights and "chelsea" not in photograph.path


def test_another_file_under_the_same_name_is_refused():
    from dataclasses import replace

    with pytest.raises(ValueError, match="another file than the one used here"):
        replace(PHOTOGRAPHS[0], digest="0" * 16).pixels()


def test_pieces_are_pictures_and_repeat_with_the_seed():
    photographs = [torch.rand(3, 120, 200), torch.rand(3, 99, 90)]
    cut = pieces(photographs, 6, 64, torch.Generator().manual_seed(0))
    assert cut.shape == (6, 3, 64, 64) and torch.isfinite(cut).all()
    assert cut.min() >= 0 and cut.max() <= 1 and cut.std() > 0.05
    assert torch.equal(cut, pieces(photographs, 6, 64, torch.Generator().manual_seed(0)))
    assert not torch.equal(cut, pieces(photographs, 6, 64, torch.Generator().manual_seed(1)))


def test_pieces_lie_inside_their_photograph():
    """A photograph whose brightness is its place: a piece's brightness says where it was cut."""
    height, width = 200, 400
    ramp = torch.linspace(0, 1, width).expand(3, height, width)
    cut = pieces([ramp.contiguous()], 16, 32, torch.Generator().manual_seed(0))
    brightness = cut.mean(dim=1)
    widths = brightness.amax(dim=(1, 2)) - brightness.amin(dim=(1, 2))
    # From 96 / 400 of the ramp to 200 / 400, turned a little, with contrast 0.6 to 1.1.
    assert widths.min() > 0.05 and widths.max() < 0.85
    slopes = (brightness[:, :, -1] - brightness[:, :, 0]).mean(dim=1)
    assert (slopes > 0).any() and (slopes < 0).any()  # some are mirrored


def test_puzzles_show_at_least_one_patch():
    shown, errors = train.puzzle(200, 196, torch.Generator().manual_seed(0))
    counts = shown.sum(dim=1)
    assert counts.min() >= 1 and counts.max() > 180 and counts.float().median() < 98
    assert errors.shape == (200, 196, 2) and 0.01 < errors.std() < 0.1


def test_training_lowers_the_loss():
    pytest.importorskip("sklearn")
    state = torch.random.get_rng_state()
    try:
        _, losses = train.train(8, 4, report=lambda line: None)
    finally:
        torch.random.set_rng_state(state)
    assert len(losses) == 8 and losses[-1] < losses[0]


def test_the_learning_rate_rises_and_falls_to_zero():
    rates = [train.rate(step, 100) for step in range(101)]
    assert max(rates) == rates[5] == train.PEAK_RATE and rates[100] < 1e-9
    assert rates[:6] == sorted(rates[:6]) and rates[5:] == sorted(rates[5:], reverse=True)


def test_the_weights_are_the_ones_their_notice_speaks_of():
    notice = (WEIGHTS / "NOTICE").read_text(encoding="utf-8")
    assert hashlib.sha256((WEIGHTS / "small_vit.pt").read_bytes()).hexdigest() in notice
    assert (WEIGHTS / "small_vit.pt").stat().st_size < 2_000_000
    command = "python -m attnlab_helpers.vit.train --replace-shipped"
    facts = notice.split(f"    {command}\n\n")[1].split("\n\nLearned from")[0].splitlines()
    assert notice == train.notice(facts, command)
    for photograph in PHOTOGRAPHS:
        assert f"{photograph.package}/{photograph.path}" in notice
        assert photograph.rights in notice
    assert f"steps {train.STEPS}, batch {train.BATCH}, seed 0" in notice
    said = float(notice.split("held out: ")[1].split()[0])
    assert train.held_out_loss(small_vit()) == pytest.approx(said, abs=0.002)
    assert said < 0.3 * train.held_out_loss(small_vit(trained=False))


@pytest.fixture
def untrained(monkeypatch):
    """Training that takes no time, and hands the command a folder in place of the shipped one."""
    monkeypatch.setattr(train, "train", lambda *asked: (small_vit(trained=False), [1.0]))
    monkeypatch.setattr(train, "held_out_loss", lambda model: 0.5)
    deterministic = torch.are_deterministic_algorithms_enabled()
    filled = torch.utils.deterministic.fill_uninitialized_memory
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    yield
    torch.use_deterministic_algorithms(deterministic)
    torch.utils.deterministic.fill_uninitialized_memory = filled


def refused(capsys, *arguments: object) -> str:
    with pytest.raises(SystemExit) as end:
        train.main([str(one) for one in arguments])
    assert end.value.code == 2
    return " ".join(capsys.readouterr().err.split())


def test_the_shipped_weights_are_not_written_over_unasked(untrained, tmp_path, monkeypatch, capsys):
    package = tmp_path / "package"
    (package / "weights").mkdir(parents=True)
    kept = package / train.WEIGHTS
    kept.write_bytes(b"shipped")
    monkeypatch.setattr(train, "__file__", str(package / "train.py"))
    for arguments in ([], ["--out", kept], ["--out", kept.with_name("other.pt")]):
        said = refused(capsys, *arguments)
        assert "--out PATH" in said and "--replace-shipped" in said
    refused(capsys, "--out", tmp_path / "a.pt", "--replace-shipped")
    assert "is a folder" in refused(capsys, "--out", tmp_path)
    (tmp_path / "NOTICE").write_text("the rights of somebody else")
    assert "is not ours" in refused(capsys, "--out", tmp_path / "a.pt")
    assert kept.read_bytes() == b"shipped" and not (tmp_path / "a.pt").exists()
    assert (tmp_path / "NOTICE").read_text() == "the rights of somebody else"
    train.main(["--replace-shipped", "--device", "cpu"])
    assert kept.read_bytes()[:2] == b"PK"
    assert "vit.train --replace-shipped\n" in kept.with_name("NOTICE").read_text(encoding="utf-8")


def test_out_writes_weights_and_their_notice_and_may_again(untrained, tmp_path):
    path = tmp_path / "mine" / "a.pt"
    for _ in range(2):
        train.main(["--out", str(path), "--steps", "3", "--seed", "7", "--device", "cpu"])
    notice = (path.parent / "NOTICE").read_text(encoding="utf-8")
    assert notice.startswith("a.pt holds") and str(tmp_path) not in notice
    assert "python -m attnlab_helpers.vit.train --steps 3 --seed 7 --out a.pt\n" in notice
    assert hashlib.sha256(path.read_bytes()).hexdigest() in notice


def test_loading_leaves_the_global_generator_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    small_vit(trained=False)
    small_vit()
    assert torch.equal(torch.rand(3), expected)
    first, again, other = (small_vit(trained=False, seed=s).head.weight for s in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)


@pytest.mark.slow
def test_the_command_makes_the_same_bytes_twice(tmp_path):
    pytest.importorskip("sklearn")
    files = []
    for name in ("one", "two"):
        path = tmp_path / name / f"{name}.pt"
        command = [sys.executable, "-m", "attnlab_helpers.vit.train", "--steps", "2"]
        command += ["--batch", "2", "--device", "cpu", "--out", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        assert (
            "held out" in done.stdout and "steps 2, batch 2" in (path.parent / "NOTICE").read_text()
        )
        files.append(path.read_bytes())
    assert files[0] == files[1]
