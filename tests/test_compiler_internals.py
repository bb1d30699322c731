"""What is used of Triton's inside is where it was; a release that moves it fails here, readably."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attnlab_helpers.compiler import arguments, triton_internals

pytestmark = pytest.mark.skipif(triton_internals.folder() is None, reason="needs triton")
# In a process of its own: here Triton may have been imported for its interpreter.
CHECK = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("triton_internals", sys.argv[1])
internals = importlib.util.module_from_spec(spec)
spec.loader.exec_module(internals)
internals.check()
from triton._C.libtriton import native_specialize_impl
from triton.backends.nvidia.compiler import CUDABackend
values = json.loads(sys.argv[2])
print(json.dumps([native_specialize_impl(CUDABackend, v, False, True, True) for v in values]))
"""


def test_triton_has_what_the_compiler_lens_uses() -> None:
    values = [True, False, 1, 2, 16, 17, -16, 2**31 - 1, 2**31, -(2**31), 2**63, 2**40, 1.5]
    done = subprocess.run(
        [sys.executable, "-c", CHECK, triton_internals.__file__, json.dumps(values)],
        env={name: text for name, text in os.environ.items() if name != "TRITON_INTERPRET"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"triton moved something: {done.stderr}"
    # What Triton's own launcher makes of these values is what `arguments` makes of them.
    for value, (kind, extra) in zip(values, json.loads(done.stdout), strict=True):
        ours = arguments.argument(value, "n")
        if kind == "constexpr":
            assert ours["one"] and extra == 1
        else:
            assert ours["type"] == kind and not ours["one"]
            assert ours["divisible"] == (extra == "D"), value


def test_a_part_that_moved_is_named_with_the_file_to_look_at(monkeypatch) -> None:
    import triton.compiler

    monkeypatch.delattr(triton.compiler, "ASTSource")
    with pytest.raises(triton_internals.Moved, match=r"moved triton\.compiler\.ASTSource: look at"):
        triton_internals.check()


def test_the_programs_of_the_wheel_are_found() -> None:
    for name in ("nvdisasm", "cuobjdump"):
        assert isinstance(triton_internals.tool(name), Path)
    assert triton_internals.tool("nothing-like-this") is None
