"""The offline kit: what goes into it, that nothing is missing, and that it installs from itself."""

import json
import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from attnlab_helpers import environment, offline_kit

ROOT = Path(__file__).resolve().parents[1]
LINUX = offline_kit.target("3.12", "x86_64")
posix = pytest.mark.skipif(os.name == "nt", reason="the stand-in Pythons are shell scripts")


def wheel(folder, name, version, *requires, extra=""):
    folder.mkdir(exist_ok=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {line}" for line in requires]
    path = folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        stem = path.name.split("-py3")[0]
        archive.writestr(f"{stem}.dist-info/METADATA", "\n".join(lines) + "\n\nText: x >= 1\n")
        if extra:
            archive.writestr(f"{stem}/_vendor/other-1.dist-info/METADATA", extra)
    return path


def lacking(folder, *lines, markers=LINUX, without=()):
    return offline_kit.missing(folder, list(lines), markers, frozenset(without))


# --- what is in it ------------------------------------------------------------------------------


def test_it_asks_for_what_the_lab_needs_and_for_what_builds_the_package():
    lines = offline_kit.wanted(ROOT / "pyproject.toml", LINUX, frozenset())
    names = {Requirement(line).name for line in lines}
    assert {"torch", "triton", "jupyterlab", "pytest", "setuptools", "nvidia-cuda-nvrtc"} <= names
    assert not {"timm", "kernels"} & names and not any(";" in line for line in lines)
    mac = LINUX | {"sys_platform": "darwin"}
    assert "triton>=3.6" not in offline_kit.wanted(ROOT / "pyproject.toml", mac, frozenset())
    torchless = offline_kit.wanted(ROOT / "pyproject.toml", LINUX, frozenset({"torch", "triton"}))
    assert not any(line.startswith(("torch>", "triton")) for line in torchless)


def test_what_another_machine_needs_is_missed_although_this_one_does_not(tmp_path):
    wheel(
        tmp_path,
        "top",
        "1.0",
        "below (>=2)",
        'only-there ; sys_platform == "linux" and platform_machine == "x86_64"',
        'newer>=1 ; python_version >= "3.12"',
        'never ; sys_platform == "win32"',
        'behind ; extra == "more"',
        extra="Name: other\nVersion: 1\nRequires-Dist: nonsense\n",
    )
    wheel(tmp_path, "below", "1.9")
    assert lacking(tmp_path, "top") == ["below>=2", "newer>=1", "only-there"]
    assert lacking(tmp_path, "top", without=["below", "newer"]) == ["only-there"]
    arm = offline_kit.target("3.11", "aarch64")
    assert lacking(tmp_path, "top", markers=arm) == ["below>=2"]
    assert "behind" in lacking(tmp_path, "top[more]")


def test_circles_end_and_names_are_compared_as_pip_does(tmp_path):
    wheel(tmp_path, "One.Thing", "1", "other_thing")
    wheel(tmp_path, "other-thing", "2rc1", "one-thing[x]")
    assert lacking(tmp_path, "one_thing") == []


def test_the_copy_holds_everything_that_is_tracked():
    try:
        listed = subprocess.run(
            ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs a git checkout")
    tops = {line.split("/")[0] for line in listed.stdout.splitlines()}
    hidden = {name for name in tops if name.startswith(".")}
    assert tops - hidden == set(offline_kit.PARTS)


def test_the_kit_is_made_with_the_options_and_says_the_two_commands(tmp_path, monkeypatch, capsys):
    commands = []

    def fetch(command, doing):
        commands.append(command)
        folder = Path(command[command.index("--dest") + 1])
        for line in command:
            name = line.split(">")[0]
            if ">" in line and not line.startswith("-"):
                # The first wheel asks for one more, which the second round has to bring.
                more = ["late>=1"] if name == "numpy" else []
                wheel(folder, name, "99", *more)
        return 0

    monkeypatch.setattr(offline_kit, "patiently", fetch)
    monkeypatch.setattr(offline_kit, "wanted", lambda *_: ["numpy>=2", "triton>=3"])
    kit = tmp_path / "kit"
    options = ["--folder", str(kit), "--python", "3.13", "--glibc", "2.31", "--without", "torch"]
    assert offline_kit.main([*options, "--index-url", "there"]) == 0
    first, second = commands
    assert first[-4:] == ["--index-url", "there", "numpy>=2", "triton>=3"]
    assert second[-1] == "late>=1"
    assert "manylinux_2_31_x86_64" in first and "manylinux_2_32_x86_64" not in first
    assert first[first.index("--python-version") + 1] == "3.13" and "cp313" in first
    assert not list((kit / "wheels").glob("triton*"))  # it comes with the machine's torch
    about = json.loads((kit / "wheels" / "kit.json").read_text())
    assert about["python"] == "3.13" and about["without"] == ["torch", "triton"]
    text = (kit / "README.txt").read_text()
    assert "    make lab\n    make test\n" in text and "must have torch and triton" in text
    assert (kit / "notebooks" / "00_start_here.ipynb").is_file()
    assert not (kit / ".venv").exists() and not list(kit.rglob("__pycache__"))
    assert "Its README.txt" in capsys.readouterr().out


def test_a_failure_of_pip_is_a_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(offline_kit, "patiently", lambda *_: 1)
    assert offline_kit.main(["--folder", str(tmp_path / "kit")]) == 1
    assert "No kit was made: pip could not fetch" in capsys.readouterr().err


# --- the other machine --------------------------------------------------------------------------


@pytest.fixture
def unpacked(tmp_path):
    """A kit's folder for this Python, a stand-in Python, and the log of its pip and venv."""
    root = tmp_path / "my kit"
    (root / "wheels").mkdir(parents=True)
    for name in environment.INPUTS:
        (root / name).write_text(name)
    log = tmp_path / "log"
    python = tmp_path / "standin"
    # Not a virtual environment's: those have no packages to lend.
    outside = getattr(sys, "_base_executable", sys.executable)
    python.write_text(
        f"""#!/bin/sh
if [ "$2" = venv ]; then
    echo "$@" >> {shlex.quote(str(log))}
    for last; do :; done; mkdir -p "$last/bin"; cp "$0" "$last/bin/python"
elif [ "$2" = pip ]; then
    echo "$@ index=$PIP_NO_INDEX links=$PIP_FIND_LINKS" >> {shlex.quote(str(log))}
else exec {shlex.quote(outside)} "$@"; fi
"""
    )
    python.chmod(0o755)

    this = f"{sys.version_info.major}.{sys.version_info.minor}"

    def about(python_version=this, without=()):
        text = json.dumps({"python": python_version, "without": list(without)})
        (root / "wheels" / "kit.json").write_text(text)

    about()
    return root, str(python), log, about


@posix
def test_it_installs_from_its_wheels_and_asks_no_index(unpacked, capsys):
    root, python, log, _ = unpacked
    environment.ensure(root, python)
    made, installed = log.read_text().splitlines()
    assert "--system-site-packages" not in made
    assert "-e .[lab,test] index=1" in installed and "constraints" not in installed
    assert installed.endswith(f"links={(root / 'wheels').as_uri()}")
    assert " " not in installed.partition("links=")[2]  # pip takes a space for a second place
    assert "without a network" in capsys.readouterr().out


@posix
def test_a_machine_with_a_torch_of_its_own_lends_it(unpacked):
    root, python, log, about = unpacked
    about(without=["json"])
    environment.ensure(root, python)
    assert "--system-site-packages" in log.read_text().splitlines()[0]


@posix
def test_a_torch_that_is_not_there_is_a_sentence(unpacked):
    root, python, _, about = unpacked
    about(without=["no_such_torch"])
    with pytest.raises(environment.NoEnvironment, match="cannot import no_such_torch"):
        environment.ensure(root, python)
    assert not (root / ".venv").exists()


@posix
def test_another_python_than_the_wheels_are_for_is_a_sentence(unpacked, monkeypatch):
    root, python, _, about = unpacked
    about(python_version="3.99")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(environment.NoEnvironment, match=r"are for Python 3\.99"):
        environment.ensure(root, python)
