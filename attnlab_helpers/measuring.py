"""One live measurement: the call is run, weighed, profiled and timed, in that order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import torch

from .problem import Problem
from .profiling import capture, peak_memory, time_call

CALLS = 5  # captured; the pictures show the one of median CPU time


def measure_live(
    function: Callable[..., Any], problem: Problem, device: str, direction: str, seed: int
) -> tuple[dict[str, Any] | None, str]:
    # Returns instead of raising: an exception would keep this frame, and with it the tensors,
    # alive for as long as the notebook remembers its last error.
    try:
        tensors = problem.tensors(device, seed)
        if direction == "training":
            call = _training_call(function, problem, tensors)
            context = torch.enable_grad()
        elif direction == "forward":
            call = problem.bind(function, tensors)
            context = torch.no_grad()
        else:
            raise ValueError(f"direction={direction!r} is not one of 'forward', 'training'.")
        with context:
            output = call()
            live = {
                "output": output.detach() if torch.is_tensor(output) else None,
                "digest": _digest(output),
                "peak_memory": peak_memory(call, device),
                "trace": capture(call, calls=CALLS),
                "time": time_call(call, device),
            }
        return live, ""
    except torch.OutOfMemoryError as error:
        return None, str(error).split(" See documentation")[0]
    except RuntimeError as error:
        if "not enough memory" not in str(error):
            raise
        return None, "there is not enough memory for it."  # PyTorch's CPU allocator


def _training_call(
    function: Callable[..., Any], problem: Problem, tensors: tuple[torch.Tensor, ...]
) -> Callable[[], Any]:
    leaves = tuple(tensor.requires_grad_() for tensor in tensors)
    forward = problem.bind(function, leaves)
    # Random, and made once: a gradient of ones hides mistakes, and making it is not the call.
    generator = torch.Generator().manual_seed(1)
    result = forward()
    if not torch.is_tensor(result):
        raise TypeError(
            "direction='training' needs a function that returns one tensor, not "
            f"{type(result).__name__}."
        )
    shape = result.shape
    gradient = torch.randn(shape, generator=generator).to(leaves[0].dtype).to(leaves[0].device)

    def call() -> Any:
        output = forward()
        torch.autograd.grad(output, leaves, gradient)
        return output

    return call


def _digest(output: Any) -> str | None:
    if not torch.is_tensor(output):
        return None
    if output.layout is not torch.strided:
        return None
    plain = output.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return hashlib.sha256(plain.tobytes()).hexdigest()[:16]
