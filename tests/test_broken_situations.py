"""What goes wrong on a reader's machine ends in a sentence: the disk, the GPU, the driver.

Other files hold the rest: no Python that fits (test_environment.py, test_makefile.py), a taken
port (test_lab.py), no Triton (test_without_triton.py), an unsigned notebook (test_lab_browser.py).
"""

import os
import shlex
import shutil
import sys
from types import SimpleNamespace

import pytest
import torch

from attnlab_helpers import environment, lab, missing_gpu
from attnlab_helpers.missing_gpu import Seen, explain

posix = pytest.mark.skipif(os.name == "nt", reason="the stand-in Pythons are shell scripts")


def space(monkeypatch, free):
    usage = SimpleNamespace(total=10**12, used=0, free=free)
    monkeypatch.setattr(environment.shutil, "disk_usage", lambda place: usage)


def checkout(tmp_path):
    root = tmp_path / "my lab"
    root.mkdir()
    for name in environment.INPUTS:
        shutil.copy(environment.Path(__file__).parents[1] / name, root)
    return root


# --- the disk -----------------------------------------------------------------------------------


def test_no_room_for_the_environment_is_said_before_anything_is_made(tmp_path, monkeypatch):
    root = checkout(tmp_path)
    space(monkeypatch, 1_200_000_000)
    with pytest.raises(environment.NoEnvironment, match=r"has 1\.2 GB left .* about 3 GB"):
        environment.ensure(root, sys.executable)
    assert not (root / ".venv").exists()


@posix
def test_a_disk_that_fills_while_pip_works_is_named_as_the_cause(tmp_path, monkeypatch):
    python = tmp_path / "python"
    # Makes its environments out of itself; as their pip it fails.
    python.write_text(
        f"""#!/bin/sh
if [ "$2" = venv ]; then for last; do :; done; mkdir -p "$last/bin"; cp "$0" "$last/bin/python"
elif [ "$2" = pip ]; then exit 1
else exec {shlex.quote(sys.executable)} "$@"; fi
"""
    )
    python.chmod(0o755)
    root = checkout(tmp_path)
    with pytest.raises(environment.NoEnvironment, match="Check the network and the free space"):
        environment.ensure(root, str(python))
    space(monkeypatch, 1_000_000)
    with pytest.raises(environment.NoEnvironment, match=r"disk that holds .*my lab is full"):
        environment.ensure(root, str(python))


# --- the GPU ------------------------------------------------------------------------------------

CUDA_13 = Seen(card=True, torch="2.13.0+cu130", built_for=(13, 0), driver=(13, 1))


def seen(**changes):
    return Seen(**(vars(CUDA_13) | changes))


@pytest.mark.parametrize(
    ("what", "variables", "words"),
    [
        (seen(torch="2.13.0+cpu", built_for=None), {}, ["(2.13.0+cpu) is a build without CUDA"]),
        (seen(built_for=None, driver=None), {}, ["build without CUDA"]),
        (seen(driver=None), {}, ["no NVIDIA driver answers", "--gpus all"]),
        (
            seen(driver=(12, 8)),
            {},
            ["CUDA up to 12.8", "needs 13.0", "Update the driver", "CUDA 12"],
        ),
        (seen(), {"CUDA_VISIBLE_DEVICES": ""}, ["CUDA_VISIBLE_DEVICES='' hides it"]),
        (seen(), {"CUDA_VISIBLE_DEVICES": "-1"}, ["hides it"]),
        (seen(answer="CUDA error:\n  out of luck"), {}, ["cannot use it: CUDA error: out of luck"]),
        (seen(), {"CUDA_VISIBLE_DEVICES": "0"}, ["it gave no reason"]),
        (seen(card=False, built_for=None), {}, ["build without CUDA"]),  # WSL shows no PCI bus
    ],
)
def test_each_cause_has_its_sentence(what, variables, words):
    sentence = explain(what, variables)
    assert sentence.startswith("This machine has an NVIDIA GPU, but ")
    assert "\n" not in sentence and all(word in sentence for word in words)


def test_a_machine_without_a_card_has_nothing_to_explain():
    assert explain(Seen(False, "2.13.0+cpu", None, None), {}) == ""
    assert explain(Seen(False, "2.13.0+cu130", (13, 0), None), {}) == ""


def test_an_older_minor_version_of_the_driver_is_no_fault():
    """CUDA's minor versions are compatible: 13.0 runs what 13.2 built."""
    assert "Update the driver" not in explain(seen(built_for=(13, 2), driver=(13, 0)), {})


def test_cards_are_read_off_the_bus(tmp_path):
    for name, vendor, kind in (
        ("0000:00:02.0", "0x8086", "0x030000"),
        ("0000:01:00.1", "0x10de", "0x040300"),  # the sound of a graphics card
    ):
        device = tmp_path / name
        device.mkdir()
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "class").write_text(f"{kind}\n")
    (tmp_path / "no files").mkdir()
    assert not missing_gpu._card_on_the_bus(tmp_path)
    (tmp_path / "0000:00:02.0" / "vendor").write_text("0x10de\n")
    assert missing_gpu._card_on_the_bus(tmp_path)
    assert not missing_gpu._card_on_the_bus(tmp_path / "nowhere")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU that works")
def test_the_lab_says_it_before_it_starts(monkeypatch, capsys):
    monkeypatch.setattr(missing_gpu, "_card_on_the_bus", lambda: True)
    monkeypatch.setattr(missing_gpu, "_driver", lambda: (12, 4))
    monkeypatch.setattr(torch.version, "cuda", None)
    started = []
    monkeypatch.setattr(lab, "trust", lambda folder: 0)
    monkeypatch.setattr(lab, "serve", lambda command, variables: started.append(command) or 0)
    assert lab.main([]) == 0 and len(started) == 1
    printed = capsys.readouterr().out
    assert "build without CUDA" in printed and "replayed from recordings" in printed


@pytest.mark.gpu
def test_a_gpu_that_works_has_nothing_to_explain():
    assert missing_gpu.why_no_gpu() == ""
    assert missing_gpu._driver() is not None
