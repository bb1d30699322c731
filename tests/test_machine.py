"""What the machine can do, said truly: T4, no GPU, Triton set too late, a refused profiler."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from attnlab_helpers import machine
from attnlab_helpers.machine import Provenance

NO_TRITON = pytest.mark.skipif(
    machine.importlib.util.find_spec("triton") is None, reason="triton is not installed here"
)


def python(code: str, **environment: str) -> str:
    kept = {name: text for name, text in os.environ.items() if name != "TRITON_INTERPRET"}
    answer = subprocess.run(
        [sys.executable, "-c", code], env=kept | environment, capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip()


def fake_gpu(monkeypatch, name: str, capability: tuple[int, int]) -> machine.Machine:
    properties = SimpleNamespace(
        name=name,
        major=capability[0],
        minor=capability[1],
        total_memory=16 * 2**30,
        multi_processor_count=40,
        L2_cache_size=4 * 2**20,
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda *_: True)
    monkeypatch.setattr(machine, "_profiler_state", lambda has_gpu: "CPU and GPU")
    monkeypatch.setattr(machine, "versions", lambda: {"torch": "2.11.0"})
    return machine.this_machine()


def test_a_t4_has_no_bf16_tensor_cores_whatever_torch_says(monkeypatch) -> None:
    t4 = fake_gpu(monkeypatch, "Tesla T4", (7, 5))
    assert torch.cuda.is_bf16_supported() and not t4.bf16_tensor_cores
    assert "emulates" in t4.table().to_string()


def test_an_ampere_card_has_them(monkeypatch) -> None:
    a100 = fake_gpu(monkeypatch, "NVIDIA A100-SXM4-80GB", (8, 0))
    assert a100.bf16_tensor_cores and a100.device == "cuda"
    assert "8.0" in a100.table().to_string()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_machine_without_a_gpu_says_that_results_are_replayed() -> None:
    here = machine.this_machine()
    assert here.device == "cpu" and not here.bf16_tensor_cores
    assert "replayed from recordings" in here.table().to_string()
    assert here.profiler.startswith("CPU only")


@pytest.mark.gpu
def test_this_gpu_is_described() -> None:
    here = machine.this_machine()
    assert here.gpu == torch.cuda.get_device_name()
    assert here.profiler == "CPU and GPU"
    assert "driver" in here.versions and "cudnn" in here.versions


@NO_TRITON
def test_triton_interpreter_is_read_at_import_and_a_late_variable_is_noticed() -> None:
    ask = "from attnlab_helpers.machine import triton_mode; print(triton_mode(False))"
    late = f"import os, triton; os.environ['TRITON_INTERPRET'] = '1'; {ask}"
    assert python(ask) == "no GPU"
    assert python(ask, TRITON_INTERPRET="1") == "interpreter"
    assert python(f"import triton; {ask}", TRITON_INTERPRET="1") == "interpreter"
    assert python(late) == "set too late"
    assert "restart the kernel" in machine.TRITON_MODES["set too late"]


def test_triton_missing_is_a_mode_of_its_own(monkeypatch) -> None:
    monkeypatch.setattr(machine.importlib.util, "find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "triton.language", raising=False)
    assert machine.triton_mode(True) == "missing"


def test_importing_costs_no_cuda_context_no_triton_no_matplotlib() -> None:
    code = """
import sys
import attnlab_helpers, attnlab_helpers.study, attnlab_helpers.profiling, attnlab_helpers.attention
import torch
heavy = ("triton", "matplotlib", "IPython")
print(torch.cuda.is_initialized(), [name for name in heavy if name in sys.modules])
"""
    assert python(code) == "False []"


def test_p17_a_refused_profiler_names_its_cause() -> None:
    text = machine.why_no_gpu_activity(["WARNING CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (35)"])
    assert "NVreg_RestrictProfilingToAdminUsers" in text
    assert "CUPTI answered" in machine.why_no_gpu_activity(["cuptiSubscribe failed"])
    assert "another profiler" in machine.why_no_gpu_activity([])


def test_provenance_says_where_a_number_comes_from() -> None:
    live = Provenance("live", "NVIDIA H200", "2026-12-03", {"torch": "2.11.0"})
    assert str(live) == "live on NVIDIA H200, torch 2.11.0"
    assert str(live.as_recorded()) == "recorded on NVIDIA H200, torch 2.11.0, 2026-12-03"
    assert str(Provenance("interpreter", "CPU", "2026-12-03")) == "interpreter (no timing)"
    assert Provenance.from_json(live.to_json()) == live
    assert str(machine.provenance("cpu")).startswith("live on CPU, torch ")


@pytest.mark.parametrize(("number", "text"), [(91900, "9.19.0"), (8907, "8.9.7"), (90100, "9.1.0")])
def test_cudnn_versions(number, text) -> None:
    assert machine.cudnn_text(number) == text
