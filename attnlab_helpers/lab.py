"""Opens JupyterLab on the first notebook: `make lab`, or `python -m attnlab_helpers.lab`."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from attnlab_helpers.missing_gpu import why_no_gpu

FIRST = "00_start_here.ipynb"
# JupyterLab's settings that differ here from its own defaults, in the layout of its folders.
SETTINGS = Path(__file__).resolve().parent / "lab_settings"


def has_display(platform: str, variables: Mapping[str, str]) -> bool:
    """Whether a browser opened here would be seen: not over SSH, nor on Linux without a display.

    platform: as sys.platform; variables: the environment variables.
    """
    if variables.get("SSH_CONNECTION") or variables.get("SSH_TTY"):
        return False
    if platform in ("win32", "darwin"):
        return True
    return bool(variables.get("DISPLAY") or variables.get("WAYLAND_DISPLAY"))


def lab_command(root: Path, *, display: bool, as_root: bool, extra: list[str]) -> list[str]:
    """The command that starts JupyterLab in `root` on the first notebook.

    `extra` are the reader's own options for JupyterLab; they come last and win.
    """
    # Through this Python and not .venv/bin/jupyter, whose first line breaks in a folder with a
    # space in its name and after the folder was moved.
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={root}"]
    command.append(f"--LabApp.default_url=/lab/tree/notebooks/{FIRST}")
    # A lab does not ask the network for updates by itself.
    command.append("--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate")
    if not display:
        command.append("--no-browser")
    if as_root:
        command.append("--allow-root")
    return command + extra


def lab_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment variables for JupyterLab: `variables`, and where our defaults stand.

    They are defaults of this one server: no question about news over the first page, and a list
    of files with room for their names. What the reader has chosen in JupyterLab goes before.
    """
    # No option sets these: `LabApp.news_url=None` stops the news, but the page still asks.
    places = [variables.get("JUPYTER_CONFIG_PATH", ""), str(SETTINGS)]
    return {**variables, "JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, places))}


def trust(notebooks: Path) -> int:
    """Signs the notebooks in a folder, so that JupyterLab runs the scripts in their outputs.

    Without a signature JupyterLab shows the pictures and tables only. Returns how many were
    signed; a home folder that cannot be written to leaves them as they are.
    """
    import nbformat
    from nbformat.sign import NotebookNotary

    signed = 0
    try:
        notary = NotebookNotary()
        for path in sorted(notebooks.glob("*.ipynb")):
            notebook = nbformat.read(path, as_version=4)
            if not notary.check_signature(notebook):
                notary.sign(notebook)
            signed += 1
    except (OSError, nbformat.reader.NotJSONError, nbformat.ValidationError) as error:
        print(
            f"Could not sign the notebooks ({error}). Pictures and tables show all the same; "
            "for the moving timelines choose Trust Notebook in JupyterLab.",
            file=sys.stderr,
        )
    return signed


def serve(command: list[str], variables: dict[str, str]) -> int:
    """Runs JupyterLab until it is stopped; returns the exit status.

    Whoever ends this process by a signal ends JupyterLab with it, and its port is free again.
    """
    with subprocess.Popen(command, env=variables) as running:
        before = signal.signal(signal.SIGTERM, lambda *_: running.terminate())
        try:
            return running.wait()
        except KeyboardInterrupt:
            # Ctrl-C reaches JupyterLab too, which would ask back, and go on without an answer.
            running.terminate()
            return 0
        finally:
            signal.signal(signal.SIGTERM, before)


def main(arguments: list[str] | None = None) -> int:
    """Starts JupyterLab and waits until it is stopped; returns the exit status."""
    extra = sys.argv[1:] if arguments is None else arguments
    root = Path(__file__).resolve().parents[1]
    if importlib.util.find_spec("jupyterlab") is None:
        print(
            "JupyterLab is not installed for this Python. Run `make lab`, or by hand: "
            'python -m pip install -e ".[lab,test]" -c constraints.txt',
            file=sys.stderr,
        )
        return 1
    if not (root / "notebooks" / FIRST).is_file():
        print(
            f"notebooks/{FIRST} is missing. Run `make notebooks` to build it from its source.",
            file=sys.stderr,
        )
        return 1
    trust(root / "notebooks")
    reason = why_no_gpu()
    if reason:
        print(f"{reason} Until then GPU results are replayed from recordings.", flush=True)
    display = has_display(sys.platform, os.environ)
    as_root = hasattr(os, "geteuid") and os.geteuid() == 0
    if not display:
        print(
            "No display here: JupyterLab prints an address below; open it in a browser. From "
            "another machine, first forward its port: ssh -L PORT:localhost:PORT <this machine>",
            flush=True,
        )
    command = lab_command(root, display=display, as_root=as_root, extra=extra)
    return serve(command, lab_environment(os.environ))


if __name__ == "__main__":
    sys.exit(main())
