"""Makes the virtual environment .venv that `make lab` and `make test` run in.

Runs before anything is installed, so it uses the standard library only.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

# pyproject.toml says the same to pip; here it becomes a sentence before anything is made.
OLDEST, NEWEST = (3, 11), (3, 13)
INPUTS = ("pyproject.toml", "constraints.txt")
STAMP = "attnlab-installed"


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


def fingerprint(root: Path, python: str) -> str:
    """Changes when what is to be installed, the Python, or the folder's place changes.

    The place counts because the package is installed as a link to this folder.
    """
    digest = hashlib.sha256(f"{root.resolve()}\n{version_of(python)}\n".encode())
    for name in INPUTS:
        digest.update((root / name).read_bytes())
    return digest.hexdigest()


def _create(environment: Path, python: str) -> None:
    if _ask(python, "import venv, ensurepip") is None:
        version = version_of(python) or OLDEST
        name = f"python{version[0]}.{version[1]}"
        raise NoEnvironment(
            f"{python} cannot make virtual environments: its venv or ensurepip module is missing. "
            f"On Debian and Ubuntu: sudo apt install {name}-venv. Then run the command again."
        )
    print(f"Making a virtual environment in {environment.name} ...", flush=True)
    command = [python, "-m", "venv", "--clear", str(environment)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise NoEnvironment(
            f"{python} could not make {environment.name}:\n{done.stdout}{done.stderr}".rstrip()
        )


def _install(root: Path, environment: Path) -> None:
    print(
        "Installing PyTorch, JupyterLab and the rest. The first time this takes about four "
        "minutes, and longer where PyTorch comes with CUDA (3 GB).",
        flush=True,
    )
    command = [str(python_of(environment)), "-m", "pip", "install"]
    # Errors only; the lines below tell the progress.
    command += ["-qq", "--disable-pip-version-check", "-e", ".[lab,test]", "-c", "constraints.txt"]
    # pip warns a root user about the system's packages; a virtual environment has none of them.
    variables = os.environ | {"PIP_ROOT_USER_ACTION": "ignore"}
    start = time.monotonic()
    with subprocess.Popen(command, cwd=root, env=variables, stdin=subprocess.DEVNULL) as pip:
        while True:
            try:
                status = pip.wait(timeout=30)
                break
            except subprocess.TimeoutExpired:
                print(f"  still installing ({time.monotonic() - start:.0f} s)", flush=True)
    if status:
        raise NoEnvironment(
            "pip could not install everything; its message stands above. Check the network and "
            "the free space on the disk, then run the same command again: it goes on from here."
        )
    print(f"Installed in {time.monotonic() - start:.0f} s.", flush=True)


def ensure(root: Path, asked: str) -> Path:
    """Makes or refreshes root/.venv where needed and returns its Python.

    asked: the Python to make it with, a command or a path. When nothing has changed since the
    last time, this only compares a stamp. Raises NoEnvironment.
    """
    environment = root / ".venv"
    python = python_of(environment)
    stamp = environment / STAMP
    version = version_of(str(python))
    if version is None or not OLDEST <= version <= NEWEST:
        # None there, half made, its Python removed since, or a version that cannot be used.
        _create(environment, find_python(asked))
    elif stamp.is_file() and stamp.read_text() == fingerprint(root, str(python)):
        return python
    if _ask(str(python), "import pip") is None:
        # Some tools make environments without pip; the standard library holds a copy.
        _ask(str(python), "import ensurepip; ensurepip.bootstrap()")
    _install(root, environment)
    stamp.write_text(fingerprint(root, str(python)))
    return python


def main(arguments: list[str] | None = None) -> int:
    """Command: makes .venv in this folder; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m attnlab_helpers.environment")
    parser.add_argument("--python", default=sys.executable, help="the Python to make it with")
    options = parser.parse_args(arguments)
    root = Path(__file__).resolve().parents[1]
    try:
        ensure(root, options.python)
    except NoEnvironment as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. The same command goes on from here.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
