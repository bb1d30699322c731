"""The commands that people type, and the versions that they install."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
TARGETS = (
    "lab",
    "test",
    "test-browser",
    "reports",
    "notebooks",
    "record",
    "figures",
    "offline-kit",
    "format",
)

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(folder, *arguments):
    # Run from inside `make test`, the outer make's settings must not reach this one.
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    for name in ("PYTHON", "PY", "ARGS", "ONLY"):
        variables.pop(name, None)
    return subprocess.run(
        ["make", *arguments], cwd=folder, env=variables, capture_output=True, text=True, timeout=60
    )


@needs_make
def test_make_alone_lists_every_command():
    done = make(ROOT)
    assert done.returncode == 0
    for target in TARGETS:
        assert f"make {target}" in done.stdout


@needs_make
@pytest.mark.parametrize("target", TARGETS)
def test_commands_stay_relative_and_go_through_the_environments_python(target):
    planned = make(ROOT, "-n", target).stdout
    assert '".venv/bin/python" -m' in planned
    assert not re.search(r"\.venv/bin/(?!python\b)", planned)
    assert str(ROOT) not in planned


@needs_make
@pytest.mark.parametrize("target", TARGETS)
def test_an_environment_of_ones_own_takes_the_place_of_venv(target):
    planned = make(ROOT, "-n", target, "PY=python").stdout
    assert '"python" -m' in planned and ".venv" not in planned


@needs_make
def test_one_notebook_can_be_asked_for():
    assert "attnlab_helpers.building 04" in make(ROOT, "-n", "notebooks", "ONLY=04").stdout


@needs_make
def test_a_python_named_on_the_command_line_is_insisted_on():
    assert "--insist" in make(ROOT, "-n", "environment", "PYTHON=python3").stdout
    assert "--insist" not in make(ROOT, "-n", "environment").stdout


@needs_make
def test_a_missing_python_ends_in_one_sentence(tmp_path):
    folder = tmp_path / "my lab"
    folder.mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    done = make(folder, "lab", "PYTHON=no-such-python")
    assert done.returncode != 0
    assert "attnlab needs Python 3.11, 3.12 or 3.13" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_check_of_a_fresh_clone_is_make_test():
    script = ROOT / ".ci" / "run"
    assert "make test" in script.read_text()
    assert os.name == "nt" or os.access(script, os.X_OK)


def pins():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {requirement.name.lower().replace("_", "-"): requirement for requirement in found}


def wanted():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["lab"], *extras["test"]]
    return [Requirement(line) for line in lines]


# A torch that is built for CUDA pins these itself, to versions of its own.
LEFT_TO_TORCH = ("triton", "nvidia", "cuda-bindings", "cuda-pathfinder", "cuda-toolkit")


def test_constraints_pin_versions_exactly_and_leave_some_to_torch():
    for name, requirement in pins().items():
        (one,) = requirement.specifier
        assert one.operator == "==" and "+" not in one.version, name
        assert not name.startswith(LEFT_TO_TORCH)


def test_constraints_pin_every_dependency_within_its_range():
    pinned = pins()
    for requirement in wanted():
        if requirement.name.startswith(LEFT_TO_TORCH):
            continue
        assert requirement.name in pinned, f"{requirement.name} is missing in constraints.txt"
        (one,) = pinned[requirement.name].specifier
        assert requirement.specifier.contains(one.version), requirement.name
