"""Makes the virtual environment .venv that `make lab` and `make test` run in.

From the network, or from the wheels/ that an offline kit (offline_kit.py) puts beside the
package. Runs before anything is installed, so it uses the standard library only.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# pyproject.toml says the same to pip; here it becomes a sentence before anything is made.
OLDEST, NEWEST = (3, 11), (3, 13)
INPUTS = ("pyproject.toml", "constraints.txt")
STAMP = "attnlab-installed"
# Wheels brought along for a machine without a network, and what they were chosen for:
# {"python": "3.12", "without": ["torch", "triton"]}.
WHEELS = "wheels"
KIT = "kit.json"
# Free space in bytes without which an installation is not begun (a torch without CUDA, installed,
# takes 3 GB), and below which a failure of pip is put down to the disk.
NEEDED_SPACE = 3_000_000_000
FULL_DISK = 200_000_000


class NoEnvironment(Exception):
    """The environment cannot be made; the text says what is missing and how to get it."""


def python_of(environment: Path) -> Path:
    """The Python inside a virtual environment (its place differs on Windows)."""
    if os.name == "nt":
        return environment / "Scripts" / "python.exe"
    return environment / "bin" / "python"


def _ask(python: str, code: str) -> str | None:
    """What `python` prints for `code`, or None when it does not start or fails."""
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def version_of(python: str) -> tuple[int, int] | None:
    """(major, minor) of the interpreter `python`, or None when it does not run."""
    answer = _ask(python, "import sys; print(sys.version_info[0], sys.version_info[1])")
    if answer is None:
        return None
    major, minor = answer.split()
    return int(major), int(minor)


def find_python(asked: str) -> str:
    """`asked` when its version fits, else a fitting python3.13 ... python3.11 on the PATH.

    Raises NoEnvironment when there is none.
    """
    newest_first = [f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)]
    for candidate in [asked, *newest_first]:
        version = version_of(candidate)
        if version is not None and OLDEST <= version <= NEWEST:
            return candidate
    version = version_of(asked)
    found = f"{asked} is Python {version[0]}.{version[1]}" if version else f"{asked} does not run"
    raise NoEnvironment(
        f"attnlab needs Python 3.11, 3.12 or 3.13; {found} and no other was found. Install one "
        "(python.org, your package manager or conda) and run: make lab PYTHON=python3.12"
    )


def exactly(asked: str) -> str:
    """`asked`, which the reader has named and no other will do. Raises NoEnvironment."""
    version = version_of(asked)
    if version is not None and OLDEST <= version <= NEWEST:
        return asked
    found = f"is Python {version[0]}.{version[1]}" if version else "does not run"
    raise NoEnvironment(
        f"attnlab needs Python 3.11, 3.12 or 3.13, and {asked} {found}. Name another one, or none: "
        "then the command looks for one itself."
    )


def read_kit(root: Path) -> dict | None:
    """What the wheels in root/wheels were chosen for, or None where there are none."""
    try:
        return json.loads((root / WHEELS / KIT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _python_for(kit: dict, asked: str) -> str:
    """A Python of the version that a kit's wheels are for. Raises NoEnvironment."""
    wanted = kit["python"]
    for candidate in (asked, f"python{wanted}"):
        version = version_of(candidate)
        if version is not None and wanted == f"{version[0]}.{version[1]}":
            break
    else:
        raise NoEnvironment(
            f"The wheels of this offline kit are for Python {wanted}, which was not found here. "
            "Run the command again with PYTHON=... behind it if it is installed, or make the "
            f'kit again for the Python of this machine: make offline-kit ARGS="--python 3.x"'
        )
    for name in kit["without"]:
        # A virtual environment lends nothing to another one; only what it was made from does.
        if _ask(candidate, f"import sys, {name}; sys.exit(sys.prefix != sys.base_prefix)") is None:
            raise NoEnvironment(
                f"This offline kit was made without {name}, because this machine was to have it, "
                f"but {candidate} cannot import {name} or is a virtual environment itself. Name "
                "the Python that has it, PYTHON=/path/to/python, or make the kit again without "
                "the option."
            )
    return candidate


def _check_space(root: Path) -> None:
    free = shutil.disk_usage(root).free
    if free < NEEDED_SPACE:
        raise NoEnvironment(
            f"The disk has {free / 1e9:.1f} GB left and the environment takes about "
            f"{NEEDED_SPACE / 1e9:.0f} GB (8 GB where PyTorch comes with CUDA). Free some space, "
            "or move this folder to a larger disk; then run the command again."
        )


def fingerprint(root: Path, python: str) -> str:
    """Changes when what is to be installed, the Python, or the folder's place changes.

    The place counts because the package is installed as a link to this folder.
    """
    digest = hashlib.sha256(f"{root.resolve()}\n{version_of(python)}\n".encode())
    for name in INPUTS:
        digest.update((root / name).read_bytes())
    return digest.hexdigest()


def _create(environment: Path, python: str, *, system_packages: bool) -> None:
    if _ask(python, "import venv, ensurepip") is None:
        version = version_of(python) or OLDEST
        name = f"python{version[0]}.{version[1]}"
        raise NoEnvironment(
            f"{python} cannot make virtual environments: its venv or ensurepip module is missing. "
            f"On Debian and Ubuntu: sudo apt install {name}-venv. Then run the command again."
        )
    version = ".".join(map(str, version_of(python) or ()))
    print(f"Making a virtual environment in {environment.name}, Python {version} ...", flush=True)
    options = ["--clear", *(["--system-site-packages"] if system_packages else [])]
    command = [python, "-m", "venv", *options, str(environment)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise NoEnvironment(
            f"{python} could not make {environment.name}:\n{done.stdout}{done.stderr}".rstrip()
        )


def patiently(command: list[str], doing: str, **options: Any) -> int:
    """Runs a command that may take minutes, with a sign of life each half minute; its status.

    doing: what is said to go on. options: subprocess.Popen's.
    """
    start = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, **options) as running:
        while True:
            try:
                return running.wait(timeout=30)
            except subprocess.TimeoutExpired:
                print(f"  still {doing} ({time.monotonic() - start:.0f} s)", flush=True)


def _install(root: Path, environment: Path, kit: dict | None) -> None:
    source = (
        f"from {WHEELS}/, without a network"
        if kit
        else "The first time this takes about four minutes, and longer where PyTorch comes with "
        "CUDA (3 GB)"
    )
    print(
        f"Installing PyTorch, JupyterLab and the rest. {source[0].upper()}{source[1:]}.", flush=True
    )
    command = [str(python_of(environment)), "-m", "pip", "install"]
    # Errors only; the lines below tell the progress.
    command += ["-qq", "--disable-pip-version-check", "-e", ".[lab,test]"]
    # pip warns a root user about the system's packages; a virtual environment has none of them.
    variables = os.environ | {"PIP_ROOT_USER_ACTION": "ignore"}
    if kit:
        # As variables they also reach the pip that builds the package. The wheels are one version
        # each, and a torch that the machine had before has its own: so no constraints.
        variables |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": (root / WHEELS).as_uri()}
    else:
        command += ["-c", "constraints.txt"]
    start = time.monotonic()
    status = patiently(command, "installing", cwd=root, env=variables)
    if status:
        # pip unpacks in the folder for temporary files, which is a small disk on some machines.
        full = [
            str(place)
            for place in (root, Path(tempfile.gettempdir()))
            if shutil.disk_usage(place).free < FULL_DISK
        ]
        cause = (
            f"The disk that holds {full[0]} is full. Free some space (or set TMPDIR to a folder on "
            "a larger disk)"
            if full
            else "Check the network and the free space on the disk"
        )
        raise NoEnvironment(
            f"pip could not install everything; its message stands above. {cause}, then run the "
            "same command again: it goes on from here."
        )
    print(f"Installed in {time.monotonic() - start:.0f} s.", flush=True)


def ensure(root: Path, asked: str, *, insist: bool = False) -> Path:
    """Makes or refreshes root/.venv where needed and returns its Python.

    asked: the Python to make it with, a command or a path; insist: no other one, also where an
    environment is there already. When nothing has changed since the last time, this only compares
    a stamp. Raises NoEnvironment.
    """
    environment = root / ".venv"
    python = python_of(environment)
    stamp = environment / STAMP
    version = version_of(str(python))
    kit = read_kit(root)
    if insist and version_of(exactly(asked)) != version is not None:
        raise NoEnvironment(
            f"The environment here, {environment.name}, has Python {version[0]}.{version[1]}, and "
            f"{asked} was asked for. Remove {environment.name} and run the command again."
        )
    if version is None or not OLDEST <= version <= NEWEST:
        # None there, half made, its Python removed since, or a version that cannot be used.
        base = _python_for(kit, asked) if kit else find_python(asked)
        _check_space(root)
        _create(environment, base, system_packages=bool(kit and kit["without"]))
    elif stamp.is_file() and stamp.read_text() == fingerprint(root, str(python)):
        return python
    if _ask(str(python), "import pip") is None:
        # Some tools make environments without pip; the standard library holds a copy.
        _ask(str(python), "import ensurepip; ensurepip.bootstrap()")
    _install(root, environment, kit)
    stamp.write_text(fingerprint(root, str(python)))
    return python


def main(arguments: list[str] | None = None) -> int:
    """Command: makes .venv in this folder; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m attnlab_helpers.environment")
    parser.add_argument("--python", default=sys.executable, help="the Python to make it with")
    parser.add_argument("--insist", action="store_true", help="this Python and no other")
    options = parser.parse_args(arguments)
    root = Path(__file__).resolve().parents[1]
    try:
        ensure(root, options.python, insist=options.insist)
    except NoEnvironment as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. The same command goes on from here.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
