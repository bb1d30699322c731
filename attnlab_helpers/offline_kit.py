"""What a Linux machine without a network needs: the lab's files and every wheel, in one folder.

`make offline-kit`, or `python -m attnlab_helpers.offline_kit`. On the other machine the same two
commands work: environment.py finds the wheels and asks no network.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

from attnlab_helpers.environment import KIT, WHEELS, patiently

# What a copy of the lab consists of.
PARTS = ("README.md", "Makefile", "pyproject.toml", "constraints.txt", "environment.yml")
PARTS += ("conftest.py", "attnlab_helpers", "notebooks", "figures", "benchmarks", "tests")
NOT_COPIED = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints", "*.egg-info")
EXTRAS = ("lab", "test")
# A torch built for CUDA brings a Triton of its own, so a machine that has the one has the other.
COMES_WITH = {"torch": ("torch", "triton")}
OLDEST_GLIBC = 17

README = """\
attnlab, for a machine without a network
========================================

For Linux on {machine}, Python {python}{without}.
Copy this whole folder to the machine. There, in the folder:

    make lab
    make test

Without make:

    python{python} attnlab_helpers/environment.py --python python{python}
    .venv/bin/python -m attnlab_helpers.lab

The first command installs from wheels/ and asks no network. It needs {space:.0f} GB of disk beside
this folder. {has}README.md tells the rest.
"""


class KitFailed(Exception):
    """The kit could not be made; the text says why and what to do."""


def target(python: str, machine: str) -> dict[str, str]:
    """The environment markers (PEP 508) of the machine that the kit is for."""
    return {
        "python_version": python,
        "python_full_version": f"{python}.9",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
        "os_name": "posix",
    }


def wanted(pyproject: Path, markers: dict[str, str], without: frozenset[str]) -> list[str]:
    """What the lab asks for there, a requirement each, and what pip needs to build the package."""
    from packaging.requirements import Requirement

    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    lines = list(project["build-system"]["requires"]) + project["project"]["dependencies"]
    for extra in EXTRAS:
        lines += project["project"]["optional-dependencies"][extra]
    kept = []
    for requirement in map(Requirement, lines):
        if requirement.name in without:
            continue
        if requirement.marker is None or requirement.marker.evaluate(markers):
            requirement.marker = None
            kept.append(str(requirement))
    return kept


def _wheels(folder: Path) -> dict[str, tuple[str, list[str]]]:
    """The wheels in a folder: name -> (version, what it requires)."""
    from packaging.utils import canonicalize_name

    found = {}
    for path in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(path) as wheel:
            # Some wheels hold other packages, with metadata further down.
            ends = ".dist-info/METADATA"
            (entry,) = [n for n in wheel.namelist() if n.endswith(ends) and n.count("/") == 1]
            metadata = Parser().parsestr(wheel.read(entry).decode("utf-8"))
        requires = metadata.get_all("Requires-Dist") or []
        found[canonicalize_name(metadata["Name"])] = (metadata["Version"], requires)
    return found


def missing(
    folder: Path, lines: list[str], markers: dict[str, str], without: frozenset[str]
) -> list[str]:
    """Requirements that the wheels in `folder` do not meet on the machine with these markers.

    pip chooses dependencies by the machine and the Python that it runs on; this asks for the
    other one's. lines: what is wanted; without: names that the machine has.
    """
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    there = _wheels(folder)
    lacking: list[str] = []
    asked: set[tuple[str, str]] = set()
    queue = [Requirement(line) for line in lines]

    def follow(requires: list[str], extra: str) -> Iterator[Requirement]:
        for requirement in map(Requirement, requires):
            if requirement.marker is None or requirement.marker.evaluate(
                markers | {"extra": extra}
            ):
                yield requirement

    while queue:
        requirement = queue.pop()
        name = canonicalize_name(requirement.name)
        if name in without:
            continue
        version, requires = there.get(name, ("", []))
        if not version or not requirement.specifier.contains(version, prereleases=True):
            requirement.marker = None
            lacking.append(str(requirement))
            continue
        for extra in ("", *requirement.extras):
            if (name, extra) not in asked:
                asked.add((name, extra))
                queue += follow(requires, extra)
    return sorted(set(lacking))


def download(
    root: Path,
    folder: Path,
    lines: list[str],
    python: str,
    machine: str,
    glibc: int,
    pip: list[str],
) -> None:
    """Fetches wheels for the requirements in `lines`, with pip. glibc: the 34 of 2.34."""
    command = [sys.executable, "-m", "pip", "download", "-qq", "--disable-pip-version-check"]
    command += ["--only-binary=:all:", "--dest", str(folder), "-c", str(root / "constraints.txt")]
    command += ["--implementation", "cp", "--python-version", python]
    for abi in (f"cp{python.replace('.', '')}", "abi3", "none"):
        command += ["--abi", abi]
    for minor in range(glibc, OLDEST_GLIBC - 1, -1):
        command += ["--platform", f"manylinux_2_{minor}_{machine}"]
    command += ["--platform", f"manylinux2014_{machine}", "--platform", f"linux_{machine}"]
    if patiently([*command, *pip, *lines], "fetching"):
        raise KitFailed(
            "pip could not fetch everything; its message stands above. Check the network, the "
            "free space and the options, then run the command again: what it has it keeps."
        )


def make_kit(
    root: Path, kit: Path, python: str, machine: str, glibc: int, named: list[str], pip: list[str]
) -> None:
    """Writes the kit. named: packages that the other machine has; pip: options for pip.

    Raises KitFailed.
    """
    without = frozenset(part for name in named for part in COMES_WITH.get(name, (name,)))
    markers = target(python, machine)
    wheels = kit / WHEELS
    wheels.mkdir(parents=True, exist_ok=True)
    print(f"Fetching wheels for Linux on {machine}, Python {python} ...", flush=True)
    lines = wanted(root / "pyproject.toml", markers, without)
    still = lines
    for _ in range(5):
        download(root, wheels, still, python, machine, glibc, pip)
        still = missing(wheels, lines, markers, without)
        if not still:
            break
        print(f"  and {len(still)} more that this machine would not need", flush=True)
    else:
        raise KitFailed(f"These have no wheel that fits: {', '.join(still)}.")
    for path in wheels.glob("*.whl"):  # pip fetches what others depend on, too
        if path.name.split("-")[0].lower().replace("_", "-") in without:
            path.unlink()
    print("Copying the lab's files ...", flush=True)
    for part in PARTS:
        if (root / part).is_dir():
            shutil.rmtree(kit / part, ignore_errors=True)
            shutil.copytree(root / part, kit / part, ignore=NOT_COPIED)
        elif (root / part).is_file():
            shutil.copy2(root / part, kit / part)
    about = {"python": python, "machine": machine, "without": sorted(without)}
    (wheels / KIT).write_text(json.dumps(about) + "\n", encoding="utf-8")
    size = sum(path.stat().st_size for path in wheels.glob("*.whl"))
    text = README.format(
        machine=machine,
        python=python,
        without=f", without {' and '.join(sorted(without))}" if without else "",
        has="That Python must have " + " and ".join(sorted(without)) + ". " if without else "",
        space=max(3 * size / 1e9, 1),
    )
    (kit / "README.txt").write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Command: makes the kit; returns the exit status. Unknown options go to pip."""
    here = ".".join(map(str, sys.version_info[:2]))
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), "x86_64")
    parser = argparse.ArgumentParser(
        prog="python -m attnlab_helpers.offline_kit",
        epilog="Other options go to pip, --index-url for a build of torch for another CUDA.",
    )
    parser.add_argument("--folder", type=Path, default=Path("build/offline-kit"))
    parser.add_argument("--python", default=here, choices=["3.11", "3.12", "3.13"])
    parser.add_argument("--machine", default=machine, choices=["x86_64", "aarch64"])
    parser.add_argument("--glibc", default="2.28", help="the oldest C library (ldd --version)")
    parser.add_argument("--without", action="append", default=[], help="what is there already")
    options, pip = parser.parse_known_args(arguments)
    root = Path(__file__).resolve().parents[1]
    try:
        glibc = int(options.glibc.removeprefix("2."))
        make_kit(root, options.folder, options.python, options.machine, glibc, options.without, pip)
    except (KitFailed, OSError, ValueError) as error:
        print(f"No kit was made: {error}", file=sys.stderr)
        return 1
    size = sum(path.stat().st_size for path in options.folder.rglob("*") if path.is_file())
    print(f"The kit is in {options.folder} ({size / 1e9:.1f} GB). Its README.txt tells the rest.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
