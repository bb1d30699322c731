"""README's Python examples run as they are printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from attnlab_helpers.kernels import mode

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
KERNELS = pytest.mark.skipif(mode() == "missing", reason="Triton is not here")


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 4


@pytest.mark.slow
@KERNELS
@pytest.mark.parametrize("number", range(4))
def test_an_example_runs(number, tmp_path) -> None:
    code = EXAMPLES[number]
    if "trace.json.gz" in code:  # the reader's own
        with torch.profiler.profile() as profile:
            torch.ones(3) + 1
        profile.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    if "traffic.count" in code and torch.cuda.is_available():
        pytest.skip("counts in the interpreter, which a GPU machine does not have")
    script = tmp_path / "example.py"
    script.write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    if "print(" in code:
        assert done.stdout.strip()
