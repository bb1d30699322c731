"""The dispatch atlas: saved and read, asked for a cell or the nearest, compared and drawn."""

import gzip
import json
from pathlib import Path

import pandas as pd
import pytest
import torch

from attnlab_helpers import NoRecording, sdpa
from attnlab_helpers.machine import Provenance
from attnlab_helpers.plots import atlas_map
from attnlab_helpers.problem import PROFILING_POST, AttentionProblem
from attnlab_helpers.sdpa import atlas as atlas_module
from attnlab_helpers.sdpa import record_atlas
from attnlab_helpers.sdpa.atlas import FOUND, QUESTION, build, load_atlas, read_atlas, save
from attnlab_helpers.sdpa.cell import Cell
from attnlab_helpers.study import NoGpu

HERE = Provenance("live", "NVIDIA Test", "2026-11-30", {"torch": "2.11.0"})
ORDER = ("cudnn", "flash", "efficient", "math")
NARROW, WIDE = AttentionProblem(2, 4, 64, 64), AttentionProblem(2, 4, 64, 256)
OFF_EIGHT, LONGER = AttentionProblem(2, 4, 64, 60), AttentionProblem(2, 4, 512, 64)


def rows_of(number: int, ran: str, times: dict[str, float]) -> list[dict]:
    """Rows as a probe gives them: `auto` ran `ran`; a backend without a time refused."""
    rows = []
    for asked in ("auto", "cudnn", "flash", "efficient", "math"):
        time = times.get(ran if asked == "auto" else asked)
        row = {"cell": number, "asked": asked, "status": "ran" if time else "refused"}
        row |= {"reason": "" if time else f"{asked} does not like it"}
        if time:
            row |= {"ran": ran if asked == "auto" else asked, "median_ns": time, "low_ns": time}
            row |= {"high_ns": time, "error": 1e-3, "allowed": 2e-3, "activities": 1}
            row |= {"kernel": "some kernel", "peak_memory_bytes": 1024.0}
        rows.append(row)
    return rows


@pytest.fixture
def atlas():
    cells = [Cell(NARROW), Cell(WIDE), Cell(NARROW, "bias"), Cell(OFF_EIGHT), Cell(LONGER)]
    rows = rows_of(0, "cudnn", {"cudnn": 100.0, "flash": 50.0, "math": 900.0})
    rows += rows_of(1, "flash", {"flash": 70.0, "math": 900.0})
    rows += [{"cell": 2, "asked": "auto", "status": "crashed", "reason": "signal 11"}]
    rows += rows_of(3, "math", {"math": 900.0})
    rows += rows_of(4, "cudnn", {"cudnn": 400.0, "math": 9000.0})
    return build(cells, rows, HERE, ORDER)


@pytest.fixture
def shipped(atlas, tmp_path, monkeypatch):
    """The atlas above in place of those that ship with the package."""
    monkeypatch.setattr(atlas_module, "SHIPPED", tmp_path)
    load_atlas.cache_clear()
    yield save(atlas, tmp_path)
    load_atlas.cache_clear()


def test_an_atlas_survives_its_file(atlas, tmp_path) -> None:
    path = save(atlas, tmp_path)
    assert path.parent.name == "nvidia-test" and path.name == "torch-2.11.0.json.gz"
    read = read_atlas(path)
    pd.testing.assert_frame_equal(read.frame, atlas.frame, check_dtype=False)
    assert read.priority == ORDER
    assert str(read.provenance) == "recorded on NVIDIA Test, torch 2.11.0, 2026-11-30"
    assert path.read_bytes() == save(atlas, tmp_path).read_bytes()


def test_what_is_broken_is_named(tmp_path) -> None:
    path = tmp_path / "torch-1.json.gz"
    for content in (b"", b"no gzip", gzip.compress(b"{}"), gzip.compress(b'{"format": 99}')):
        path.write_bytes(content)
        with pytest.raises(NoRecording, match=r"torch-1.json.gz cannot be read"):
            read_atlas(path)


def test_a_cell_has_the_choice_the_fastest_and_the_reasons(atlas) -> None:
    cells = atlas.cells
    first = cells.loc[0]
    assert (first["ran"], first["fastest"], first["slowdown"]) == ("cudnn", "flash", 2.0)
    assert first["why_not_efficient"] == "efficient does not like it"
    assert first["why_not_flash"] == "" and bool(first["agrees"])
    crashed = cells.loc[2]
    assert crashed["status"] == "crashed" and crashed["reason"] == "signal 11"
    assert pd.isna(crashed["ran"]) and not crashed["agrees"]


def test_the_same_cell_is_exact_and_its_question_can_be_asked_again(atlas) -> None:
    for number in atlas.cells.index:
        assert atlas.nearest(atlas.cell(number)) == (number, True)


def test_the_nearest_cell_lies_on_the_same_side_of_pytorchs_rules(atlas) -> None:
    near = {
        68: 60,  # no multiple of 8 either, although 64 is nearer
        56: 64,
        72: 64,
        200: 256,
    }
    for head_dim, expected in near.items():
        number, exact = atlas.nearest(Cell(AttentionProblem(8, 16, 128, head_dim)))
        assert not exact and atlas.cells.loc[number, "head_dim"] == expected, head_dim
    number, _ = atlas.nearest(Cell(AttentionProblem(2, 4, 700, 64)))
    assert atlas.cells.loc[number, "q_len"] == 512


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (Cell(AttentionProblem(2, 4, 64, 64, dtype="float32")), "dtype 'float32'"),
        (Cell(NARROW, direction="training"), "direction 'training'"),
        (Cell(AttentionProblem(2, 4, 64, 64, kv_heads=2)), "grouped True"),
        (Cell(AttentionProblem(2, 4, 1, 64, kv_len=64)), "lengths 'decode'"),
        (Cell(NARROW, "boolean"), "mask 'boolean'"),
        (Cell(NARROW, layout="strided"), "layout 'strided'"),
        (Cell(AttentionProblem(2, 4, 64, 129)), "multiple of 8 or 4"),
        (Cell(AttentionProblem(2, 4, 64, 300)), "multiple of 8 or 4"),
        (Cell(AttentionProblem(2, 4, 0, 64)), "is empty"),
        (Cell(AttentionProblem(2, 4, 64, 0)), "is empty"),
    ],
)
def test_another_question_is_not_answered_with_this_one(atlas, cell, words) -> None:
    with pytest.raises(NoRecording, match=words):
        atlas.nearest(cell)


def test_kinds_of_masks_and_lengths_are_what_pytorch_sees() -> None:
    decode = AttentionProblem(1, 2, 1, 64, kv_len=99, causal="lower_right")
    assert (Cell(decode).kind_of_mask, Cell(decode).kind_of_lengths) == ("none", "decode")
    unequal = AttentionProblem(1, 2, 5, 64, kv_len=99, causal="lower_right")
    assert (Cell(unequal).kind_of_mask, Cell(unequal).kind_of_lengths) == ("boolean", "unequal")
    equal = AttentionProblem(1, 2, 99, 64, causal="lower_right")
    assert Cell(equal).kind_of_mask == "causal"
    assert Cell(PROFILING_POST, "bias").kind_of_mask == "bias"
    long = AttentionProblem(1, 2, 70_000, 64, kv_len=128)
    assert Cell(long).kind_of_lengths == "long queries"


@pytest.mark.parametrize("name", ["mask", "layout", "direction"])
def test_a_cell_of_no_kind_is_refused(name) -> None:
    with pytest.raises(ValueError, match=f"{name}='odd' is not one of"):
        Cell(NARROW, **{name: "odd"})


def test_choose_says_whether_the_answer_is_for_this_very_problem(shipped) -> None:
    exact = sdpa.choose(NARROW, source="recorded")
    assert (exact.backend, exact.time_ns, exact.exact) == ("cudnn", 100.0, True)
    assert "nearest" not in str(exact) and "recorded on NVIDIA Test" in str(exact)
    near = sdpa.choose(AttentionProblem(7, 4, 64, 64), source="recorded")
    assert not near.exact and "not in the atlas, the nearest cell: (2, 4, 64, 64)" in str(near)
    crashed = sdpa.choose(NARROW, mask="bias", source="recorded")
    assert crashed.backend == "crashed" and crashed.time_ns is None and crashed.why == ""


def test_why_walks_down_pytorchs_order(shipped) -> None:
    why = sdpa.choose(WIDE, source="recorded").why
    assert why == (
        "cudnn cannot: cudnn does not like it. flash is the first in PyTorch's order that can."
    )


def test_reasons_name_each_backend_once_in_pytorchs_order(shipped) -> None:
    found = sdpa.reasons(WIDE, source="recorded")
    assert list(found["backend"]) == list(ORDER)
    assert list(found["answer"]) == ["cannot", "runs", "cannot", "could"]
    assert found["reason"][0] == "cudnn does not like it"
    assert found["reason"][3] == "flash comes first in PyTorch's order"
    assert set(found["answered_for"]) == {Cell(WIDE).label}
    near = sdpa.reasons(AttentionProblem(7, 4, 64, 256), source="recorded")
    assert near["answered_for"][0] == f"nearest: {Cell(WIDE).label}"


def test_without_an_atlas_the_error_says_how_to_make_one(tmp_path, monkeypatch, shipped) -> None:
    for gpu in ("NVIDIA Test", "nvidia-test", "test"):
        assert sdpa.load_atlas(gpu).provenance.device == "NVIDIA Test"
    with pytest.raises(NoRecording, match=r"no atlas of A100.*nvidia-test.*record_atlas"):
        load_atlas("A100")
    with pytest.raises(ValueError, match="is not one of"):
        sdpa.choose(NARROW, source="somewhere")


def test_recording_needs_a_gpu_and_says_so(capsys, monkeypatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert record_atlas.main(["--seconds", "1"]) == 1
    assert "needs a CUDA GPU" in capsys.readouterr().err


def test_two_atlases_are_compared_cell_by_cell(atlas) -> None:
    cells = [Cell(NARROW), Cell(WIDE), Cell(NARROW, "bias"), Cell(OFF_EIGHT)]
    rows = rows_of(0, "flash", {"cudnn": 100.0, "flash": 50.0, "math": 900.0})
    rows += rows_of(1, "flash", {"flash": 71.0, "math": 900.0})
    rows += rows_of(2, "efficient", {"efficient": 80.0, "math": 900.0})
    rows += rows_of(3, "math", {"math": 1900.0})
    later = build(cells, rows, HERE, ORDER)
    found = sdpa.changes(atlas, later).set_index(["head_dim", "mask"])
    assert found["what"].to_dict() == {
        (64, "none"): "backend",
        (64, "bias"): "status",
        (60, "none"): "time",
    }
    assert found.loc[(64, "none"), ["before", "after"]].tolist() == ["cudnn", "flash"]
    assert found.loc[(64, "bias"), "before"] == "crashed"
    assert found.loc[(60, "none"), "ratio"] == pytest.approx(1900 / 900)
    assert sdpa.changes(atlas, atlas).empty


def test_the_map_says_in_words_and_numbers_what_it_shows(atlas, tmp_path) -> None:
    picture = atlas_map(atlas)
    assert "math in 1" in picture.alt and "NVIDIA Test" in picture.provenance
    row = picture.table.query("heads == 'plain' and dtype == 'bfloat16' and mask == 'none'").iloc[0]
    assert (row["d 60"], row["d 256"]) == ("math", "flash")
    bias = picture.table.query("heads == 'plain' and dtype == 'bfloat16' and mask == 'bias'")
    assert bias["d 64"].iloc[0] == "crashed"
    assert picture.save(tmp_path / "map.png").stat().st_size > 5_000
    with pytest.raises(ValueError, match="no cell with lengths 'decode'"):
        atlas_map(atlas, lengths="decode")


# The atlas that ships with the package.


@pytest.fixture(scope="module")
def recorded():
    load_atlas.cache_clear()
    return load_atlas("H200")


def test_the_shipped_atlas_is_small_and_whole(recorded) -> None:
    sizes = [path.stat().st_size for path in Path(atlas_module.SHIPPED).glob("*/*.json.gz")]
    assert sizes and max(sizes) < 300_000
    assert recorded.provenance.kind == "recorded" and recorded.provenance.versions["cudnn"]
    assert list(recorded.frame.columns) == ["cell", *QUESTION, *FOUND]
    assert len(recorded.cells) >= 600
    refused = recorded.frame["status"] == "refused"
    assert (recorded.frame.loc[refused, "reason"].str.len() > 10).all()
    assert not recorded.frame["reason"].str.contains("Triggered|function check|names no").any()
    json.dumps(recorded.frame["reason"].tolist()).encode("ascii")


def test_the_shipped_atlas_holds_no_pinned_backend_that_ran_another(recorded) -> None:
    pinned = recorded.frame[(recorded.frame["asked"] != "auto") & recorded.frame["ran"].notna()]
    assert (pinned["asked"] == pinned["ran"]).all()


def test_the_shipped_atlas_shows_the_known_falls(recorded) -> None:
    cells = recorded.cells
    grouped = cells["heads"] != cells["kv_heads"]
    wide = cells[grouped & (cells["dtype"] == "float32")]
    assert len(wide) > 50 and (wide["ran"] == "math").all()  # S04
    large = cells[grouped & (cells["head_dim"] > 256)]
    assert len(large) > 5 and (large["ran"] == "math").all()  # S06
    assert (cells.loc[cells["head_dim"] == 36, "why_not_efficient"] != "").sum() > 10  # S01


def test_the_first_backend_of_the_order_that_can_is_the_one_that_ran(recorded) -> None:
    """S19, for every cell: the choice follows from the order and the reasons alone."""
    for _, row in recorded.cells.iterrows():
        can = [name for name in recorded.priority if row.get(f"why_not_{name}", "") == ""]
        assert row["ran"] == can[0]


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_asking_live_without_a_gpu_says_what_else_can_be_done() -> None:
    for ask in (sdpa.choose, sdpa.reasons):
        with pytest.raises(NoGpu, match="source='recorded'"):
            ask(AttentionProblem(1, 1, 8, 8), source="live")


def test_a_factor_that_calls_everything_changed_is_refused(atlas) -> None:
    for factor in (0, 0.5, 1.0, float("nan")):
        with pytest.raises(ValueError, match="factor must be above 1"):
            sdpa.changes(atlas, atlas, factor=factor)
