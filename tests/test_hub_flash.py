"""FlashAttention through the library `kernels`: loaded from a folder, translated, refused."""

import subprocess
import sys
import textwrap
import types

import pytest
import torch

from attnlab_helpers.attention import IMPLEMENTATIONS, UnsupportedProblem, hub_flash, reference
from attnlab_helpers.attention.hub_flash import FOLDER_VARIABLE, KernelUnavailable
from attnlab_helpers.problem import AttentionProblem

# A kernel package in the library's own form, with attention as flash-attn defines it: layout
# (batch, length, heads, head_dim), causal lower-right, rows without keys zero.
KERNEL = """
import torch

def flash_attn_func(q, k, v, softmax_scale=None, causal=False):
    groups = q.shape[2] // k.shape[2]
    q, k, v = (one.transpose(1, 2).float() for one in (q, k, v))
    k, v = (one.repeat_interleave(groups, dim=1) for one in (k, v))
    scores = q @ k.mT * softmax_scale
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        scores = scores.masked_fill(~seen, float("-inf"))
    out = (scores.softmax(-1).nan_to_num(0.0) @ v).to(torch.bfloat16)
    return out.transpose(1, 2)
"""
METADATA = """{
  "id": "tiny_attention_cpu_1", "name": "tiny-attention", "version": 1,
  "license": "Apache-2.0", "python-depends": [], "backend": {"type": "cpu"}
}"""


@pytest.fixture
def package(tmp_path):
    """A folder as `kernels` wants it: build/<variant>/ with a module and its metadata."""
    variant = tmp_path / "tiny" / "build" / "torch-cpu"
    variant.mkdir(parents=True)
    (variant / "__init__.py").write_text(textwrap.dedent(KERNEL), encoding="utf-8")
    (variant / "metadata.json").write_text(METADATA, encoding="utf-8")
    return tmp_path / "tiny"


@pytest.fixture(params=["the real library", "a stand-in"])
def library(request, monkeypatch):
    """The real library where it is installed; a stand-in with the same two functions anywhere."""
    hub_flash.load.cache_clear()
    if request.param == "the real library":
        pytest.importorskip("kernels", reason="the optional package kernels is not installed")
    else:
        stand_in = types.ModuleType("kernels")

        def get_local_kernel(folder):
            path = folder / "build" / "torch-cpu" / "__init__.py"
            if not path.is_file():
                raise FileNotFoundError(f"Cannot find a build variant in {folder}")
            module = types.ModuleType("tiny")
            exec(path.read_text(encoding="utf-8"), module.__dict__)
            return module

        def get_kernel(repository, version):
            raise AssertionError("no test may ask the hub")

        stand_in.get_local_kernel, stand_in.get_kernel = get_local_kernel, get_kernel
        monkeypatch.setitem(sys.modules, "kernels", stand_in)
    yield
    hub_flash.load.cache_clear()


@pytest.fixture
def flash(library, package, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(package))
    return IMPLEMENTATIONS["hub_flash"]


@pytest.mark.parametrize("kv_len", [16, 24, 9])
@pytest.mark.parametrize("causal", [False, True, "lower_right"])
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_layout_and_alignment_are_translated(flash, kv_len, causal, kv_heads) -> None:
    problem = AttentionProblem(2, 4, 16, 8, kv_len=kv_len, kv_heads=kv_heads)
    q, k, v = problem.tensors("cpu")
    if causal is True and kv_len < 16:
        with pytest.raises(UnsupportedProblem, match="lower-right, not upper-left"):
            flash(q, k, v, causal=causal)
        return
    actual = flash(q, k, v, causal=causal)
    expected = reference(q, k, v, causal=causal)
    assert actual.shape == q.shape and actual.dtype == q.dtype
    assert (actual.double() - expected).abs().max() < 2**-7 * expected.abs().max()


def test_a_scale_is_handed_on_and_the_call_can_be_prepared(flash) -> None:
    q, k, v = AttentionProblem(1, 2, 8, 16).tensors("cpu")
    prepared = flash.prepare(q, k, v, scale=0.5)
    expected = reference(q, k, v, scale=0.5)
    assert (prepared().double() - expected).abs().max() < 2**-7 * expected.abs().max()


@pytest.mark.parametrize(
    ("problem", "options", "words"),
    [
        (AttentionProblem(1, 2, 8, 16, dtype="float32"), {}, "float16 and bfloat16"),
        (AttentionProblem(1, 2, 8, 512), {}, "1 to 256"),
        (AttentionProblem(1, 2, 0, 16), {}, "no length 0"),
        (AttentionProblem(1, 2, 8, 16), {"mask": torch.ones(8, 8, dtype=torch.bool)}, "no mask"),
    ],
)
def test_what_flash_attn_cannot_do_is_refused(flash, problem, options, words) -> None:
    with pytest.raises(UnsupportedProblem, match=words):
        flash(*problem.tensors("cpu"), **options)


def test_the_hubs_kernel_is_for_cuda_and_newer_cards(library, monkeypatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    q, k, v = AttentionProblem(1, 2, 8, 16).tensors("cpu")
    with pytest.raises(UnsupportedProblem, match="CUDA only, not on cpu"):
        IMPLEMENTATIONS["hub_flash"](q, k, v)
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: (7, 5))
    on_a_t4 = types.SimpleNamespace(device=torch.device("cuda"))
    with pytest.raises(UnsupportedProblem, match=r"8.0 \(Ampere\).*this card has 7.5"):
        hub_flash._check_card(on_a_t4)


def test_offline_the_advice_is_to_name_a_folder(library, monkeypatch) -> None:
    def offline(repository, version):
        raise ConnectionError(f"cannot reach the hub for {repository}, version {version}")

    monkeypatch.setattr(sys.modules["kernels"], "get_kernel", offline)
    with pytest.raises(KernelUnavailable, match=f"(?s)cannot be loaded: .*{FOLDER_VARIABLE}"):
        hub_flash.load(None)


def test_a_folder_that_holds_no_kernel_is_named(library, tmp_path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(KernelUnavailable, match="the folder empty cannot be loaded"):
        hub_flash.load(empty)


def test_a_kernel_without_the_function_is_named(library, package) -> None:
    module = package / "build" / "torch-cpu" / "__init__.py"
    module.write_text("other = 1\n", encoding="utf-8")
    with pytest.raises(KernelUnavailable, match="no function flash_attn_func"):
        hub_flash.load(package)


def test_without_the_library_the_error_says_what_to_install(monkeypatch) -> None:
    hub_flash.load.cache_clear()
    monkeypatch.setitem(sys.modules, "kernels", None)  # as if it were not installed
    with pytest.raises(KernelUnavailable, match=r"not installed.*pip install .kernels>="):
        hub_flash.load(None)


def test_registering_it_imports_nothing() -> None:
    code = (
        "import sys, attnlab_helpers.attention as a; assert 'hub_flash' in a.IMPLEMENTATIONS;"
        "assert 'kernels' not in sys.modules and 'huggingface_hub' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
