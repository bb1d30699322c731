"""Recordings: saved and found whole, refused when code changed, and what ships is fit to read."""

import gzip
import json

import pytest

from attnlab_helpers import recordings
from attnlab_helpers.machine import Provenance
from attnlab_helpers.recordings import NoRecording, Recording


def recording(**changes) -> Recording:
    values = {
        "name": "naive",
        "problem": "attn-b1",
        "direction": "forward",
        "label": "(1, 1, 1, 1)",
        "fingerprint": "abc",
        "seed": 0,
        "provenance": Provenance("live", "NVIDIA H200", "2026-11-30", {"torch": "2.11.0"}),
        "numbers": {"digest": "00", "peak_memory": 12, "time": None},
        "trace": b'{"traceEvents": []}',
    }
    return Recording(**values | changes)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(recordings, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setenv("ATTNLAB_RECORDINGS", str(tmp_path / "own folder"))
    return tmp_path / "own folder"


def test_what_is_saved_is_found(folder) -> None:
    recordings.save(recording(), folder)
    found = recordings.find("naive", "attn-b1", "forward", fingerprints=["abc"])
    assert found == recording()
    assert recordings.listing().loc[0, "GPU"] == "NVIDIA H200"


def test_the_same_recording_gives_the_same_bytes(folder, tmp_path) -> None:
    first, second = (
        recordings.save(recording(), folder),
        recordings.save(recording(), tmp_path / "b"),
    )
    for a, b in zip(sorted(first.parent.iterdir()), sorted(second.parent.iterdir()), strict=True):
        assert a.read_bytes() == b.read_bytes()


def test_a_readers_own_recording_wins_over_a_shipped_one_of_the_same_day(folder, tmp_path) -> None:
    recordings.save(recording(seed=1), tmp_path / "shipped")
    recordings.save(recording(seed=2), folder)
    assert recordings.find("naive", "attn-b1", "forward", fingerprints=None).seed == 2


def test_nothing_recorded_lists_what_was(folder) -> None:
    recordings.save(recording(label="(8, 16, 1024, 64) bfloat16"), folder)
    with pytest.raises(NoRecording, match=r"(?s)needs a GPU.*naive: \(8, 16, 1024, 64\) bfloat16"):
        recordings.find("naive", "other", "forward", fingerprints=None)


def test_changed_code_gets_no_old_numbers(folder) -> None:
    recordings.save(recording(), folder)
    with pytest.raises(NoRecording, match="its code has changed"):
        recordings.find("naive", "attn-b1", "forward", fingerprints=["xyz"])


def test_the_newest_of_several_gpus_unless_one_is_named(folder) -> None:
    recordings.save(recording(), folder)
    other = Provenance("live", "NVIDIA A100", "2026-12-24", {})
    recordings.save(recording(provenance=other), folder)
    find = recordings.find
    assert find("naive", "attn-b1", "forward", fingerprints=None).provenance == other
    h200 = find("naive", "attn-b1", "forward", fingerprints=None, gpu="h200")
    assert h200.provenance.device == "NVIDIA H200"
    with pytest.raises(NoRecording, match="on V100"):
        find("naive", "attn-b1", "forward", fingerprints=None, gpu="V100")


@pytest.mark.parametrize("damage", ["text", "format", "trace", "no trace"])
def test_a_broken_recording_is_named(folder, damage) -> None:
    path = recordings.save(recording(), folder)
    trace = path.with_name(f"{path.stem}.trace.json.gz")
    if damage == "text":
        path.write_text("{")
    elif damage == "format":
        path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    elif damage == "trace":
        trace.write_bytes(gzip.compress(b"x" * 1000)[:-9])
    else:
        trace.unlink()
    with pytest.raises(NoRecording, match="cannot be read"):
        recordings.find("naive", "attn-b1", "forward", fingerprints=None)
