"""The notebooks on a machine without Triton and NVIDIA's compiler, as macOS and Windows have it."""

from pathlib import Path

import pytest
from nbclient import NotebookClient

from attnlab_helpers.building.source import read_source

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
SOURCES = sorted((FOLDER / "source").glob("*.md"))
# What a cell may end in here: a sentence that says what is missing.
SENTENCES = {"TritonMissing", "CountingUnavailable", "CompilerMissing", "CompileFailed"}
HIDE = """
import sys

class Hides:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("triton", "cuda"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hides())
"""


def uses_kernels(path: Path) -> bool:
    text = path.read_text(encoding="utf-8")
    return any(word in text for word in ("attnlab_helpers.kernels", "traffic", "compiler"))


@pytest.mark.slow
@pytest.mark.parametrize("path", list(filter(uses_kernels, SOURCES)), ids=lambda path: path.stem)
def test_t02_cells_that_need_triton_say_so_and_the_others_work(path, tmp_path, monkeypatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(HIDE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    notebook = read_source(path)
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        allow_errors=True,
        timeout=300,
        extra_arguments=["--log-level=40"],
        resources={"metadata": {"path": str(FOLDER)}},
    )
    client.execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    errors = [out for out in outputs if out.output_type == "error"]
    others = [f"{out.ename}: {out.evalue}" for out in errors if out.ename not in SENTENCES]
    assert others == []
    assert len(errors) < len(outputs) / 2
    for error in errors:  # a sentence, not the way through our package
        assert len("\n".join(error.traceback).splitlines()) < 25, error.ename
