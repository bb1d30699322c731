"""Where a compiler is missing: recorded stages are shown, and never those of another kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import compiler_kernels as kernels
import pytest
import torch

from attnlab_helpers import compiler
from attnlab_helpers.compiler import nvrtc, recorded, triton_internals

X = torch.empty(4096, device="meta")
needs_triton = pytest.mark.skipif(triton_internals.folder() is None, reason="needs triton")
ROOT = Path(__file__).parent.parent


def compile_add(**options):
    return compiler.compile_triton(
        kernels.add, X, X, X, 4096, **({"BLOCK": 1024, "target": "9.0"} | options)
    )


@needs_triton
def test_what_was_saved_comes_back_the_same_where_triton_is_missing(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv(recorded.VARIABLE, str(tmp_path))
    here = compile_add()
    assert [path.name for path in tmp_path.iterdir()] == [f"add-{here.key}.json.gz"]
    before = next(tmp_path.iterdir()).read_bytes()

    monkeypatch.setattr(recorded, "FOLDER", tmp_path)
    monkeypatch.setattr(triton_internals, "folder", lambda: None)
    there = compile_add()
    assert next(tmp_path.iterdir()).read_bytes() == before  # a recording is not recorded again
    assert there.provenance.startswith("recorded: compiled by triton ") and there.cubin is None
    assert "no machine code" in there.notes[-1]
    for name in ("name", "language", "target", "source", "stages", "counts", "entry", "num_warps"):
        assert getattr(there, name) == getattr(here, name)
    assert all(there.lines(stage) == here.lines(stage) for stage in here.stages)
    assert compiler.summary(here, there).iloc[:-1].T.drop_duplicates().shape[0] == 1

    assert there.settings == here.settings and there.arguments == here.arguments
    for other in ({"BLOCK": 512}, {"num_warps": 8}):
        with pytest.raises(
            compiler.CompilerMissing, match=r"add for 9\.0 was recorded, but another"
        ):
            compile_add(**other)
    with pytest.raises(compiler.CompilerMissing, match=r"8\.0 was not recorded.*are: add for 9\.0"):
        compile_add(target="8.0")


def test_what_was_never_recorded_is_said(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(recorded, "FOLDER", tmp_path)
    monkeypatch.setattr(triton_internals, "folder", lambda: None)
    with pytest.raises(compiler.CompilerMissing, match="No Triton kernel was recorded") as caught:
        compile_add()
    assert isinstance(caught.value, ImportError)
    assert caught.value._render_traceback_() == [f"CompilerMissing: {caught.value}"]


def test_cuda_falls_back_to_its_recording_where_nvrtc_is_missing(monkeypatch, tmp_path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    monkeypatch.setenv(recorded.VARIABLE, str(tmp_path))
    here = compiler.compile_cuda(kernels.CUDA_ADD, "8.0")
    monkeypatch.setattr(recorded, "FOLDER", tmp_path)

    def missing():
        raise ImportError("No module named 'cuda'")

    monkeypatch.setattr(nvrtc, "version", missing)
    there = compiler.compile_cuda(kernels.CUDA_ADD, "8.0")
    assert "spilled_bytes" not in there.counts
    assert there.stages == here.stages and there.counts == here.counts
    with pytest.raises(compiler.CompilerMissing, match=r"pip install cuda-bindings[\s\S]*add for"):
        compiler.compile_cuda(kernels.CUDA_WIDE, "8.0")


WITHOUT_TRITON = """
import importlib.abc, json, sys
from pathlib import Path
class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("triton", "cuda"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
sys.path.insert(0, "tests")
from attnlab_helpers import compiler
from attnlab_helpers.compiler import recorded
recorded.FOLDER = Path(sys.argv[1])
import compiler_kernels as kernels, torch
x = torch.empty(4096)
found = compiler.compile_triton(kernels.add_scaled, x, x, 4096, target="9.0")
try:
    compiler.compile_cuda(kernels.CUDA_ADD, "9.0")
except compiler.CompilerMissing as error:
    print(json.dumps([found.provenance, found.counts["instructions"], str(error)]))
"""


@needs_triton
def test_a_process_without_the_packages_finds_the_same_recording(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(recorded.VARIABLE, str(tmp_path))
    here = compiler.compile_triton(kernels.add_scaled, X, X, 4096, target="9.0")
    environment = {k: v for k, v in os.environ.items() if k != recorded.VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TRITON, str(tmp_path)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    provenance, instructions, error = json.loads(done.stdout)
    assert provenance.startswith("recorded: compiled by triton")
    assert instructions == here.counts["instructions"]
    assert "cuda-bindings" in error and "No CUDA C++ kernel was recorded" in error


def test_every_shipped_recording_can_be_read() -> None:
    for path in recorded.FOLDER.glob("*.json.gz"):
        compiled = recorded._read(path)
        last = len(compiled.source.splitlines())
        for stage, text in compiled.stages.items():
            lines = compiled.lines(stage)
            assert len(lines) == len(text.splitlines())
            assert all(line is None or 1 <= line <= last for line in lines)
        assert compiled.key in path.name and compiled.provenance.startswith("recorded: ")


@needs_triton
def test_without_a_disassembler_the_ptx_is_counted_and_a_note_says_so(monkeypatch) -> None:
    monkeypatch.setattr(triton_internals, "tool", lambda name: None)
    monkeypatch.setattr(compiler.machine_code.shutil, "which", lambda name: None)
    compiled = compile_add(num_stages=5)
    assert list(compiled.stages)[-1] == "PTX" and "no nvdisasm here" in compiled.notes[0]
    assert compiled.counts["global_loads"] == {128: 4} and "registers" not in compiled.counts
    table = compiler.summary(compiled)
    assert table.loc["registers a thread"].item() == "unknown"
    assert table.loc["counted in"].item() == "PTX"
    # No count can be taken for one of machine code, whatever rows are picked.
    known = {"counted in", "provenance", "shared memory bytes"}
    texts = table.iloc[:, 0].drop(list(known))
    assert all(text.endswith(" (PTX)") or text == "unknown" for text in texts)
    assert table.loc["global loads"].item() == "128 bit: 4 (PTX)"


def test_without_a_disassembler_a_recording_of_the_very_kernel_is_shown(
    monkeypatch, tmp_path
) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    source = kernels.CUDA_ADD + "// one that nobody compiled yet"
    here = compiler.compile_cuda(source, "9.0")
    if "SASS" not in here.stages:
        pytest.skip("needs nvdisasm")
    compiler.save_recorded(here, tmp_path)
    monkeypatch.setattr(recorded, "FOLDER", tmp_path)
    monkeypatch.setattr(triton_internals, "tool", lambda name: None)
    monkeypatch.setattr(compiler.machine_code.shutil, "which", lambda name: None)
    compiler.cuda_stages._compile.cache_clear()
    there = compiler.compile_cuda(source, "9.0")
    compiler.cuda_stages._compile.cache_clear()
    assert there.stages == here.stages and there.counts == here.counts
    assert there.cubin.startswith(b"\x7fELF")  # it can be launched all the same
    assert there.provenance.startswith("recorded: ") and "compiled here by NVRTC" in there.notes[-1]
    assert not any("no machine code" in note for note in there.notes)


def test_an_old_recording_is_counted_again_and_its_local_memory_called_so(tmp_path) -> None:
    kernel = compiler.Compiled(
        name="k", language="Triton", target="9.0", source="x", provenance="compiled here by hand",
        stages={"PTX": "ret;\n", "SASS": "          LD.E R1, [R2.64]\n          EXIT\n"},
        entry="k", line_maps={"PTX": (1,), "SASS": (1, None)}, key="abc",
        counts={"global_loads": {"32": 1}, "registers": 9, "spilled_bytes": 8, "shared_bytes": 4},
    )  # fmt: skip
    counts = recorded._read(compiler.save_recorded(kernel, tmp_path)).counts
    assert counts["generic_loads"] == 1 and counts["global_loads"] == {}
    assert (counts["registers"], counts["local_bytes"], counts["shared_bytes"]) == (9, 8, 4)
    assert set(counts) == set(compiler.KEYS)
