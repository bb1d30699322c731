"""What a kernel is given for a tensor (bfloat16 in the interpreter, tf32), and what ran it."""

from __future__ import annotations

import dataclasses
import importlib.metadata

import torch

from .. import machine
from .language import check_can_run, mode

TF32_ENDS = float.fromhex("0x1.ffep127")  # from here on the nearest of tf32 would be infinite


def for_interpreter(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors that a kernel can be given here, in the order of `tensors`.

    Compiled, and for other dtypes, they are the tensors themselves. The interpreter computes with
    NumPy, which has no bfloat16: a product there multiplies bit patterns. So bfloat16 comes back
    as a float32 copy of the same values; every bfloat16 is a float32. Results must be rounded
    back by the caller, and are more precise than a GPU's where that rounds in between. An
    expanded or strided tensor keeps no strides in its copy.
    """
    if mode() != "interpreter":
        return tensors
    return tuple(tensor.float() if tensor.dtype == torch.bfloat16 else tensor for tensor in tensors)


def rounded_to_tf32(tensor: torch.Tensor) -> torch.Tensor:
    """A float32 copy with 10 bits behind the point, to the nearest; infinite ones and NaN stay.

    So do the few numbers that would become infinite: they are finite when they are cut, and a
    hidden value of that size must not become 0 x infinity.

    Tensor cores cut the 13 bits that tf32 has not. All errors then have one direction, and the
    result's is four to five times that of cuBLAS, which evidently rounds (measured on an H200).
    """
    bits = (tensor.view(torch.int32) + 0x1000) & -0x2000
    return torch.where(tensor.abs() < TF32_ENDS, bits.view(torch.float32), tensor)


def provenance(device: str | torch.device = "cuda") -> machine.Provenance:
    """Where the numbers of a kernel come from that ran now: the interpreter, or live on `device`.

    Raises TritonMissing or KernelCannotRun where no kernel can have run.
    """
    check_can_run()
    if mode() == "compiled":
        return machine.provenance(device)
    cpu = machine.provenance("cpu")
    versions = dict(cpu.versions) | {"triton": importlib.metadata.version("triton")}
    return dataclasses.replace(cpu, kind="interpreter", versions=versions)


__all__ = ["for_interpreter", "mode", "provenance", "rounded_to_tf32"]
