"""Triton on any machine: compiled, interpreted, missing or imported too early, and said so."""

import importlib
import os
import subprocess
import sys
import textwrap

import pytest
import torch

# At import, before any test can make another library import Triton without its interpreter.
from attnlab_helpers.kernels import errors, language, precision
from attnlab_helpers.kernels.stand_ins import Language, StandInKernel, Triton, constexpr
from attnlab_helpers.triton_support import triton_mode

triton, tl = language.triton, language.tl
CAN_RUN = pytest.mark.skipif(
    language.mode() not in ("compiled", "interpreter"), reason="no kernel can run here"
)
INTERPRETED = pytest.mark.skipif(language.mode() != "interpreter", reason="no interpreter here")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HIDDEN = """
import sys
class Hides:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "triton":
            raise ModuleNotFoundError("No module named 'triton'", name="triton")
sys.meta_path.insert(0, Hides())
"""
KERNEL = """
from attnlab_helpers.kernels.language import triton, tl, mode
BLOCK = tl.constexpr(64)
@triton.jit
def helper(x, factor: tl.constexpr = 2):
    return x * factor
@triton.jit(do_not_specialize=["n"])
def kernel(x_ptr, n, kind: tl.dtype = tl.float32, B: tl.constexpr = 16):
    'Words about it.'
    tl.store(x_ptr, helper(tl.load(x_ptr)))
"""


def python(code: str, **environment: str) -> str:
    kept = {name: text for name, text in os.environ.items() if name != "TRITON_INTERPRET"}
    kept |= {"CUDA_VISIBLE_DEVICES": ""} | environment
    answer = subprocess.run([sys.executable, "-c", code], env=kept, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip()


def in_file(tmp_path, monkeypatch, text: str, name: str):
    """A module made of a file, as Triton wants its kernels."""
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module(name)


def test_importing_the_package_neither_imports_triton_nor_sets_its_variable() -> None:
    code = """
import os, sys
import attnlab_helpers, attnlab_helpers.kernels, attnlab_helpers.attention
print("triton" in sys.modules, "TRITON_INTERPRET" in os.environ)
from attnlab_helpers.kernels import triton, tl, mode
print(mode(), os.environ["TRITON_INTERPRET"], triton.__name__, tl.__name__)
"""
    if triton_mode(False) == "missing":
        pytest.skip("triton is not installed here")
    assert python(code).splitlines() == [
        "False False",
        "interpreter 1 triton triton.language",
    ]


def test_t02_without_triton_kernels_define_and_launching_says_what_is_missing(tmp_path) -> None:
    (tmp_path / "kernels_of_a_reader.py").write_text(KERNEL)
    code = f"""{HIDDEN}
import os
sys.path.insert(0, {str(tmp_path)!r})
from kernels_of_a_reader import *
import attnlab_helpers.attention.tiled as tiled
import torch
from attnlab_helpers.kernels.errors import TritonMissing
print(mode(), "TRITON_INTERPRET" in os.environ)
print(kernel.fn.__name__, kernel.__name__, kernel.__doc__)
print(BLOCK.value, triton.cdiv(130, 64), triton.next_power_of_2(40), triton.next_power_of_2(64))
from attnlab_helpers.kernels.precision import provenance
q = torch.zeros(1, 1, 2, 4)
for launch in (lambda: kernel[(1,)](q, 3), lambda: kernel[lambda meta: (1,)](q, n=3), provenance,
               lambda: tiled.tiled_attention(q, q, q), lambda: triton.testing.do_bench(print)):
    try:
        launch()
    except TritonMissing as error:
        assert isinstance(error, ImportError)
        print(error._render_traceback_() == [f"TritonMissing: {{error}}"], str(error)[:6])
"""
    assert python(code).splitlines() == [
        "missing False",
        "kernel kernel Words about it.",
        "64 3 64 64",
        *["True Triton"] * 5,
    ]


def test_what_is_missing_is_said_for_this_system(monkeypatch) -> None:
    for system, said in (("Darwin", "no build for macOS"), ("Linux", "pip install triton")):
        monkeypatch.setattr(errors.platform, "system", lambda system=system: system)
        assert said in str(errors.missing()) and "needs no Triton works" in str(errors.missing())
    assert "GLIBC" in str(errors.missing("GLIBC_2.99 not found"))


@INTERPRETED
def test_imported_too_early_or_turned_off_kernels_define_and_launching_says_so(tmp_path) -> None:
    (tmp_path / "kernels_of_a_reader.py").write_text(KERNEL)
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from kernels_of_a_reader import *
import os, torch
from attnlab_helpers.kernels.errors import KernelCannotRun
try:
    kernel[(1,)](torch.zeros(1), 1)
except KernelCannotRun as error:
    print(mode(), os.environ.get("TRITON_INTERPRET"), kernel.fn.__name__, triton.cdiv(5, 4), error)
"""
    early = python(f"import triton\n{code}")
    assert early.startswith("set too late None kernel 2") and "Restart the kernel" in early
    turned_off = python(code, TRITON_INTERPRET="0")
    assert turned_off.startswith("no GPU 0 kernel 2") and "Unset it" in turned_off


def test_any_name_of_a_stand_in_is_good_for_annotations_and_no_question_of_python() -> None:
    fake = Triton(errors.missing)
    assert isinstance(fake.language, Language) and "tl.math.exp" in repr(fake.language.math.exp)
    assert not hasattr(fake.language, "__wrapped__") and not hasattr(fake.language, "_anything")
    with pytest.raises(ImportError):
        fake.language.zeros([2], fake.language.float32)
    assert fake.language.constexpr(3) == 3 and constexpr(constexpr(4)).value == 4
    assert list(range(constexpr(2))) == [0, 1]


def test_decorators_of_a_stand_in_keep_the_kernel() -> None:
    fake = Triton(errors.missing)

    @fake.autotune(configs=[fake.Config({"B": 16}, num_warps=4)], key=["n"])
    @fake.heuristics({"even": lambda arguments: True})
    @fake.jit
    def kernel(x):
        return x

    assert isinstance(kernel, StandInKernel) and kernel.fn(3) == 3
    with pytest.raises(ImportError):
        kernel.warmup(3, grid=(1,))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 16, 17, 129])
def test_stand_ins_count_as_triton_does(n) -> None:
    fake = Triton(errors.missing)
    if language.mode() == "missing":
        pytest.skip("triton is not installed here")
    assert fake.next_power_of_2(n) == triton.next_power_of_2(n)
    assert fake.cdiv(n, 16) == triton.cdiv(n, 16) == -(-n // 16)


@CAN_RUN
def test_t05_t06_t07_loops_tails_and_scalars_work_with_the_installed_numpy(
    tmp_path, monkeypatch
) -> None:
    sums = in_file(
        tmp_path,
        monkeypatch,
        """
        from attnlab_helpers.kernels.language import triton, tl

        @triton.jit
        def total(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
            result = 0.0
            for first in range(0, n, BLOCK):
                places = first + tl.arange(0, BLOCK)
                result += tl.sum(tl.load(x_ptr + places, mask=places < n, other=0.0))
            tl.store(out_ptr, result)
        """,
        "kernel_of_sums",
    )
    for length in (1, 16, 17, 100):
        x, out = torch.randn(length, device=DEVICE), torch.zeros(1, device=DEVICE)
        sums.total[(1,)](x, out, length, BLOCK=32)
        torch.testing.assert_close(out[0], x.sum())


def scaler():
    @triton.jit
    def scaled(x_ptr, factor, BLOCK: tl.constexpr):
        places = tl.arange(0, BLOCK)
        tl.store(x_ptr + places, tl.load(x_ptr + places) * factor)

    return scaled


@CAN_RUN
def test_t18_a_kernel_made_in_a_function_runs() -> None:
    x = torch.arange(16.0, device=DEVICE)
    scaler()[(1,)](x, 3.0, BLOCK=16)
    assert torch.equal(x, torch.arange(16.0, device=DEVICE) * 3)


@CAN_RUN
def test_t03_bfloat16_comes_out_right(tmp_path, monkeypatch) -> None:
    products = in_file(
        tmp_path,
        monkeypatch,
        """
        from attnlab_helpers.kernels.language import triton, tl

        @triton.jit
        def product(x_ptr, y_ptr, out_ptr, B: tl.constexpr):
            places = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
            result = tl.dot(tl.load(x_ptr + places), tl.load(y_ptr + places))
            tl.store(out_ptr + places, result)
        """,
        "kernel_of_products",
    )
    x, y = (torch.randint(-2, 3, (16, 16), device=DEVICE).bfloat16() for _ in range(2))
    out = torch.zeros(16, 16, device=DEVICE)
    products.product[(1,)](*precision.for_interpreter(x, y), out, B=16)
    assert torch.equal(out, x.float() @ y.float())


def test_only_bfloat16_and_only_in_the_interpreter_is_copied(monkeypatch) -> None:
    tensors = (torch.randn(3), torch.randn(3).half(), torch.randn(3).bfloat16())
    monkeypatch.setattr(precision, "mode", lambda: "compiled")
    assert all(a is b for a, b in zip(precision.for_interpreter(*tensors), tensors, strict=True))
    monkeypatch.setattr(precision, "mode", lambda: "interpreter")
    single, half, brain = precision.for_interpreter(*tensors)
    assert single is tensors[0] and half is tensors[1]
    assert brain.dtype == torch.float32 and torch.equal(brain, tensors[2].float())


@CAN_RUN
def test_where_a_kernels_numbers_come_from() -> None:
    said = precision.provenance()
    if language.mode() == "interpreter":
        assert str(said) == "interpreter (no timing)" and "triton" in said.versions
    else:
        assert said.kind == "live" and said.device == torch.cuda.get_device_name()


def test_t15_t16_a_home_that_cannot_be_written_gets_a_cache_elsewhere(
    tmp_path, monkeypatch
) -> None:
    for name in ("TRITON_CACHE_DIR", "TRITON_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert language.cache_folder() is None
    # A link to nowhere, as a cache on a file system that is gone; and no folder at all.
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / ".triton").symlink_to(tmp_path / "gone" / "further")
    (tmp_path / "file").write_text("")
    for home in ("link", "file"):
        monkeypatch.setenv("HOME", str(tmp_path / home))
        elsewhere = language.cache_folder()
        assert elsewhere is not None and tmp_path not in elsewhere.parents
        assert language._writable(elsewhere)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "mine"))
    assert language.cache_folder() is None
