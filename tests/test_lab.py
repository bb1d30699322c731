"""Starting JupyterLab: the command, the browser or the address, and signed notebooks."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from attnlab_helpers import lab

PACKAGE = Path(lab.__file__).parent
ADDRESS = re.compile(r"http://(?:localhost|127\.0\.0\.1):(\d+)/lab/tree/notebooks/\S+token=\w+")


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, False),
        ("linux", {"DISPLAY": ":0"}, True),
        ("linux", {"WAYLAND_DISPLAY": "wayland-0"}, True),
        ("linux", {"DISPLAY": "localhost:10.0", "SSH_CONNECTION": "a b"}, False),
        ("darwin", {}, True),
        ("darwin", {"SSH_TTY": "tty"}, False),
        ("win32", {}, True),
    ],
)
def test_a_browser_is_opened_only_where_it_is_seen(platform, variables, expected):
    assert lab.has_display(platform, variables) is expected


def test_the_command_uses_this_python_and_lets_the_reader_have_the_last_word(tmp_path):
    command = lab.lab_command(tmp_path, display=False, as_root=True, extra=["--port=9000"])
    assert command[:3] == [sys.executable, "-m", "jupyterlab"]
    assert {"--no-browser", "--allow-root"} <= set(command)
    assert command[-1] == "--port=9000"
    plain = lab.lab_command(tmp_path, display=True, as_root=False, extra=[])
    assert "--no-browser" not in plain and "--allow-root" not in plain
    assert any("/lab/tree/notebooks/00_start_here.ipynb" in option for option in plain)


def test_the_reader_s_own_settings_folders_go_before_ours():
    ours = str(lab.SETTINGS)
    plain = lab.lab_environment({"HOME": "/home/reader"})
    assert plain == {"HOME": "/home/reader", "JUPYTER_CONFIG_PATH": ours}
    theirs = {"JUPYTER_CONFIG_PATH": os.pathsep.join(["/a b", "/c"])}
    told = lab.lab_environment(theirs)["JUPYTER_CONFIG_PATH"]
    assert told.split(os.pathsep) == ["/a b", "/c", ours]


def demo(folder):
    folder.mkdir(parents=True)
    output = new_output("display_data", {"text/html": "<script>1</script>"})
    cell = new_code_cell("show()", outputs=[output], execution_count=1)
    nbformat.write(new_notebook(cells=[cell]), folder / "00_start_here.ipynb")


def test_notebooks_are_signed(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    from nbformat.sign import NotebookNotary

    demo(tmp_path / "notebooks")
    path = tmp_path / "notebooks" / "00_start_here.ipynb"
    assert not NotebookNotary().check_signature(nbformat.read(path, as_version=4))
    assert lab.trust(tmp_path / "notebooks") == 1
    assert NotebookNotary().check_signature(nbformat.read(path, as_version=4))


def test_a_broken_notebook_does_not_keep_the_lab_from_starting(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "a.ipynb").write_text("{")
    lab.trust(tmp_path)
    assert "Could not sign" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="stops the server with a POSIX signal")
def test_the_lab_starts_in_a_folder_with_a_space_and_on_a_taken_port(tmp_path):
    root = tmp_path / "my lab"
    demo(root / "notebooks")
    shutil.copytree(PACKAGE, root / "attnlab_helpers", ignore=shutil.ignore_patterns("__pycache__"))
    variables = {
        name: value
        for name, value in os.environ.items()
        if name not in ("DISPLAY", "WAYLAND_DISPLAY", "PYTHONPATH")
    }
    variables["JUPYTER_DATA_DIR"] = str(tmp_path / "data")
    variables["JUPYTER_RUNTIME_DIR"] = str(tmp_path / "runtime")
    variables["JUPYTERLAB_SETTINGS_DIR"] = str(tmp_path / "settings")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        log = tmp_path / "log"
        with log.open("w") as sink:
            server = subprocess.Popen(
                [sys.executable, "-m", "attnlab_helpers.lab", f"--port={port}"],
                cwd=root,
                env=variables,
                stdout=sink,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            deadline = time.monotonic() + 90
            while not (found := ADDRESS.search(log.read_text())):
                assert server.poll() is None and time.monotonic() < deadline, log.read_text()
                time.sleep(0.2)
            assert "No display here" in log.read_text()
            assert int(found[1]) != port
            with urllib.request.urlopen(found[0], timeout=30) as page:
                assert b"JupyterLab" in page.read()
            token = found[0].split("token=")[1]
            contents = f"http://127.0.0.1:{found[1]}/api/contents/notebooks/00_start_here.ipynb"
            with urllib.request.urlopen(f"{contents}?token={token}", timeout=30) as answer:
                # What JupyterLab asks before it runs a script in an output.
                assert b'"trusted": true' in answer.read()
            settings = f"http://127.0.0.1:{found[1]}/lab/api/settings"
            for plugin, name, value in (
                ("@jupyterlab/apputils-extension:notification", "fetchNews", "false"),
                ("@jupyterlab/filebrowser-extension:browser", "showLastModifiedColumn", False),
            ):
                address = f"{settings}/{plugin}?token={token}"
                with urllib.request.urlopen(address, timeout=30) as answer:
                    told = json.load(answer)
                assert told["schema"]["properties"][name]["default"] == value
                # Ours is a default only: nothing was written into the reader's settings.
                assert told["settings"] == {}
            assert not (tmp_path / "settings").exists()
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(timeout=30)


@pytest.mark.skipif(os.name == "nt", reason="there are no POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_whoever_ends_the_lab_ends_the_server_with_it(number, tmp_path) -> None:
    child = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    code = f"""
import os, sys
from attnlab_helpers import lab
sys.exit(lab.serve([sys.executable, "-c", {child!r}], dict(os.environ)))
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as server:
        process = int(server.stdout.readline())
        server.send_signal(number)  # to it alone, and not to its group
        server.wait(timeout=20)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
