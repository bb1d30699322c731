"""Why torch does not use the NVIDIA GPU that is in this machine, in a sentence."""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PCI = Path("/sys/bus/pci/devices")
DISPLAY_OR_3D = ("0x0300", "0x0302")  # PCI classes: VGA-compatible controller, 3D controller
NVIDIA = "0x10de"


@dataclass(frozen=True)
class Seen:
    """What there is to see of an NVIDIA GPU.

    card: one is on the PCI bus. torch: the installed version. built_for: the CUDA version that
    torch was built for, as (major, minor), None for a build without CUDA. driver: the highest
    CUDA version that the driver runs, None without a driver. answer: torch's own words when it
    was asked for the GPU.
    """

    card: bool
    torch: str
    built_for: tuple[int, int] | None
    driver: tuple[int, int] | None
    answer: str = ""


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def explain(seen: Seen, variables: Mapping[str, str]) -> str:
    """Why there is no GPU for torch and what to do, or "" where there is no NVIDIA GPU at all.

    variables: the environment variables.
    """
    if not (seen.card or seen.driver):
        return ""
    here = "This machine has an NVIDIA GPU, but"
    hidden = variables.get("CUDA_VISIBLE_DEVICES")
    if seen.built_for is None:
        return (
            f"{here} the installed torch ({seen.torch}) is a build without CUDA. Install a build "
            "with CUDA into this environment (pytorch.org, Get started, names the command), then "
            "restart the kernel."
        )
    if seen.driver is None:
        return (
            f"{here} no NVIDIA driver answers. Install one, or in a container start it with the "
            "GPU passed through (docker run --gpus all), then restart."
        )
    if seen.driver[0] < seen.built_for[0]:
        return (
            f"{here} its driver runs CUDA up to {_text(seen.driver)} and the installed torch "
            f"({seen.torch}) needs {seen.built_for[0]}.0 or newer. Update the driver, or install a "
            f"torch that is built for CUDA {seen.driver[0]}, then restart the kernel."
        )
    if hidden is not None and hidden.strip() in ("", "-1"):
        return (
            f"{here} the variable CUDA_VISIBLE_DEVICES={hidden!r} hides it. Unset it and restart."
        )
    words = " ".join(seen.answer.split())[:200] or "it gave no reason"
    return f"{here} torch cannot use it: {words}"


def _card_on_the_bus(devices: Path = PCI) -> bool:
    for device in devices.glob("*"):
        try:
            vendor = (device / "vendor").read_text().strip()
            kind = (device / "class").read_text().strip()
        except OSError:
            continue
        if vendor == NVIDIA and kind.startswith(DISPLAY_OR_3D):
            return True
    return False


def _driver() -> tuple[int, int] | None:
    """The highest CUDA version of the driver. Makes no CUDA context."""
    name = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"
    number = ctypes.c_int(0)
    try:
        if ctypes.CDLL(name).cuDriverGetVersion(ctypes.byref(number)) or not number.value:
            return None
    except (OSError, AttributeError):
        return None
    return number.value // 1000, number.value % 1000 // 10


def why_no_gpu() -> str:
    """A sentence where there is an NVIDIA GPU that torch cannot use; "" in every other case.

    Without an NVIDIA GPU there is nothing to explain, with a working one neither.
    """
    card, driver, answer = _card_on_the_bus(), _driver(), ""
    if not (card or driver):
        return ""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of an old driver; the sentence says it too
        if torch.cuda.is_available():
            return ""
        if torch.version.cuda:
            try:
                torch.cuda.init()
            except (RuntimeError, AssertionError) as error:
                answer = str(error)
    built_for = None
    if torch.version.cuda:
        major, minor = torch.version.cuda.split(".")[:2]
        built_for = int(major), int(minor)
    return explain(Seen(card, torch.__version__, built_for, driver, answer), os.environ)
