"""make record: what the notebooks keep lands in its folder, and a failure leaves the old ones."""

import os
import textwrap

import pytest

from attnlab_helpers.building.execute import CellFailed
from attnlab_helpers.record import main, record, unfinished

SOURCE = """
    ---
    jupytext:
      text_representation: {extension: .md, format_name: myst}
    kernelspec: {display_name: Python 3, language: python, name: python3}
    ---

    # Demo

    ```{code-cell} ipython3
    import os
    from attnlab_helpers import recordings
    from attnlab_helpers.machine import Provenance

    assert os.environ["ATTNLAB_SOURCE"] == "live"
    made = recordings.Recording(
        "demo", "problem", "forward", "", "mark", 0,
        Provenance("live", "Some GPU", "2026-12-01"), {}, b"{}",
    )
    recordings.save(made, recordings.recording_folder())
    FAIL
    ```
"""


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.delenv("ATTNLAB_RECORD", raising=False)
    monkeypatch.setenv("ATTNLAB_SOURCE", "recorded")
    folder = tmp_path / "notebooks" / "source"
    folder.mkdir(parents=True)

    def write(last_line: str):
        path = folder / "00_demo.md"
        path.write_text(textwrap.dedent(SOURCE).lstrip().replace("FAIL", last_line))
        return path

    return write


def test_what_notebooks_record_replaces_the_old_and_no_variable_is_left_set(source, tmp_path):
    old = tmp_path / "data" / "some-gpu"
    old.mkdir(parents=True)
    (old / "old.json").write_text("{}")
    files = record([source("")], tmp_path / "data", keep_others=False)
    names = ["demo--problem--forward.json", "demo--problem--forward.trace.json.gz"]
    assert [path.name for path in files] == names
    assert os.environ["ATTNLAB_SOURCE"] == "recorded" and "ATTNLAB_RECORD" not in os.environ
    (old / "other.json").write_text("{}")
    kept = record([source("")], tmp_path / "data", keep_others=True)
    assert [path.name for path in kept] == [*names, "other.json"]


def test_a_notebook_that_fails_leaves_the_old_recordings(source, tmp_path):
    old = tmp_path / "data" / "some-gpu"
    old.mkdir(parents=True)
    (old / "old.json").write_text("{}")
    with pytest.raises(CellFailed, match="mine"):
        record([source("raise KeyError('mine')")], tmp_path / "data", keep_others=False)
    assert [path.name for path in old.iterdir()] == ["old.json"]
    # GPU time is dear: what was measured before the failure is not lost.
    kept = unfinished(tmp_path / "data") / "some-gpu"
    assert (kept / "demo--problem--forward.json").is_file()
    assert os.environ["ATTNLAB_SOURCE"] == "recorded"


def test_without_a_gpu_it_says_so(capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main([]) == 1 and "needs a CUDA GPU" in capsys.readouterr().err
