"""Making .venv: which Python is taken, when pip runs, and the sentences when it cannot."""

import os
import shlex
import stat
import sys
from pathlib import Path

import pytest

from attnlab_helpers import environment

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-in Pythons are shell scripts")

# A Python that makes its virtual environments out of itself, and whose pip only writes down that
# it was called. Everything else is answered by the Python that runs the tests.
STAND_IN = r"""#!/bin/sh
if [ "$2" = venv ]; then
    for last; do :; done
    rm -rf "$last"
    mkdir -p "$last/bin"
    cp "$0" "$last/bin/python"
elif [ "$2" = pip ]; then
    echo "$@" >> {log}
    exit $(cat {status})
else
    exec {python} "$@"
fi
"""


def script(path, text):
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture
def place(tmp_path):
    """A checkout in a folder with a space, a stand-in Python, and pip's log."""
    root = tmp_path / "my lab"
    root.mkdir()
    for name in environment.INPUTS:
        (root / name).write_text(name)
    log, status = tmp_path / "log", tmp_path / "status"
    log.touch()
    status.write_text("0")
    names = {"log": log, "status": status, "python": sys.executable}
    text = STAND_IN.format(**{key: shlex.quote(str(value)) for key, value in names.items()})
    return root, script(tmp_path / "standin", text), log, status


def calls(log: Path) -> int:
    return len(log.read_text().splitlines())


def test_installs_once_and_again_when_the_dependencies_change(place):
    root, python, log, _ = place
    made = environment.ensure(root, python)
    assert made == root / ".venv" / "bin" / "python"
    assert "-e .[lab,test] -c constraints.txt" in log.read_text()
    environment.ensure(root, python)
    assert calls(log) == 1
    (root / "constraints.txt").write_text("torch==9.9")
    environment.ensure(root, python)
    assert calls(log) == 2
    environment.ensure(root, python)
    assert calls(log) == 2


def test_a_moved_folder_is_installed_again(place):
    root, python, log, _ = place
    environment.ensure(root, python)
    moved = root.with_name("moved lab")
    root.rename(moved)
    environment.ensure(moved, python)
    assert calls(log) == 2


def test_a_failed_installation_is_tried_again(place):
    root, python, log, status = place
    status.write_text("1")
    with pytest.raises(environment.NoEnvironment, match="pip could not install"):
        environment.ensure(root, python)
    status.write_text("0")
    environment.ensure(root, python)
    assert calls(log) == 2


def test_an_environment_whose_python_is_gone_is_made_anew(place):
    root, python, log, _ = place
    environment.ensure(root, python)
    broken = root / ".venv" / "bin" / "python"
    broken.unlink()
    broken.symlink_to("/nowhere/python3.11")
    environment.ensure(root, python)
    assert calls(log) == 2
    assert environment.version_of(str(broken)) is not None


def old_python(folder, name="oldpython"):
    return script(folder / name, "#!/bin/sh\necho 3 9\n")


def test_an_old_python_gives_way_to_a_fitting_one_on_the_path(tmp_path, monkeypatch):
    old_python(tmp_path)
    script(tmp_path / "python3.12", "#!/bin/sh\necho 3 12\n")
    # Version managers leave commands on the PATH that only say they are not installed.
    script(tmp_path / "python3.13", "#!/bin/sh\necho not installed >&2\nexit 127\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert environment.find_python("oldpython") == "python3.12"


def test_no_fitting_python_is_one_sentence(tmp_path, monkeypatch, capsys):
    old = old_python(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(
        environment, "ensure", lambda root, asked, insist: environment.find_python(asked)
    )
    assert environment.main(["--python", old]) == 1
    message = capsys.readouterr().err
    assert "is Python 3.9" in message and "3.11, 3.12 or 3.13" in message
    assert "Traceback" not in message
    assert environment.main(["--python", "no-such-python"]) == 1
    assert "no-such-python does not run" in capsys.readouterr().err


def test_a_python_that_was_named_is_taken_or_refused_and_no_other(place, tmp_path):
    root, python, log, _ = place
    environment.ensure(root, python, insist=True)
    for wrong, words in ((old_python(tmp_path), "is Python 3.9"), ("no-python", "does not run")):
        with pytest.raises(environment.NoEnvironment, match=words):
            environment.ensure(root, wrong, insist=True)
        environment.ensure(root, wrong)  # not named: what is there will do
    other = script(tmp_path / "another", "#!/bin/sh\necho 3 13\n")
    with pytest.raises(environment.NoEnvironment, match=r"Remove \.venv"):
        environment.ensure(root, other, insist=True)
    environment.ensure(root, other)
    assert calls(log) == 1


def test_a_missing_venv_module_names_the_package_to_install(tmp_path):
    root = tmp_path / "lab"
    root.mkdir()
    for name in environment.INPUTS:
        (root / name).write_text(name)
    bare = script(
        tmp_path / "bare",
        '#!/bin/sh\ncase "$2" in *version_info*) echo 3 11;; *) exit 1;; esac\n',
    )
    with pytest.raises(environment.NoEnvironment, match=r"sudo apt install python3\.11-venv"):
        environment.ensure(root, bare)
    assert not (root / ".venv").exists()
