"""A few launches of every kernel of flash_triton, for NVIDIA's compute-sanitizer to watch.

    compute-sanitizer --tool memcheck  python benchmarks/sanitize.py
    compute-sanitizer --tool racecheck python benchmarks/sanitize.py

Set PYTORCH_NO_CUDA_MEMORY_CACHING=1, so that memory behind a tensor belongs to nobody.
"""

from __future__ import annotations

import sys

import torch

from attnlab_helpers.kernels import flash_hopper_launch, flash_launch
from attnlab_helpers.kernels.flash_configurations import Configuration, listed
from attnlab_helpers.kernels.tiles import padded
from attnlab_helpers.problem import AttentionProblem

PROBLEMS = (
    AttentionProblem(1, 2, 130, 64, causal=True),
    AttentionProblem(1, 2, 77, 128, kv_len=150, kv_heads=1, causal="lower_right"),
    AttentionProblem(2, 1, 60, 80, kv_len=33),
    AttentionProblem(1, 1, 65, 59, causal=True),  # rows that no descriptor takes
    AttentionProblem(9, 32, 140, 64, causal=True),  # several blocks for a program on Hopper
)


def launch_all(problem: AttentionProblem) -> None:
    """Forward with and without overlap, for Hopper where it is one, and the backward kernels."""
    q, k, v = problem.tensors("cuda")
    do = torch.randn_like(q)
    options = {
        "scale": problem.head_dim**-0.5,
        "causal": problem.causal,
        "precision": "ieee",
    }
    block_d, capability = padded(problem.head_dim), torch.cuda.get_device_capability()
    small = Configuration(64, 64, num_warps=4, num_stages=1)
    out, lse = torch.empty_like(q), torch.empty(q.shape[:3], device="cuda")
    overlapped = Configuration(64, 64, num_warps=4, overlap=True, descriptors=capability >= (9, 0))
    for configuration in (
        overlapped,
        listed("forward", block_d=block_d, length=problem.kv_len, capability=capability) or small,
    ):
        flash_launch.launch_forward(q, k, v, out, lse, configuration, **options)
    if flash_hopper_launch.suits(q, k, v, out):
        flash_hopper_launch.launch_hopper(
            q, k, v, out, lse, Configuration(128, 128, num_stages=2),
            scale=options["scale"], causal=problem.causal,
        )  # fmt: skip
    delta, shift = flash_launch.statistics(out, do, lse)
    dq, dk, dv = (torch.empty_like(tensor) for tensor in (q, k, v))
    tensors = (q, k, v, do, delta, shift)
    configuration = (
        listed("dkdv", block_d=block_d, length=problem.q_len, capability=capability) or small
    )
    flash_launch.launch_dkdv(*tensors, dk, dv, configuration, **options)
    configuration = (
        listed("dq", block_d=block_d, length=problem.kv_len, capability=capability) or small
    )
    flash_launch.launch_dq(*tensors, dq, configuration, **options)
    if flash_hopper_launch.suits(q, k, v, do, dq):
        flash_hopper_launch.launch_hopper_dq(
            *tensors, dq, Configuration(128, 64, num_stages=4),
            scale=options["scale"], causal=problem.causal,
        )  # fmt: skip
    torch.cuda.synchronize()
    finite = all(torch.isfinite(tensor).all() for tensor in (out, dq, dk, dv))
    print(f"{problem.label}: {'finite' if finite else 'NOT FINITE'}", flush=True)


def main() -> int:
    """2 without a GPU."""
    if not torch.cuda.is_available():
        print("compute-sanitizer watches a GPU, and there is none.")
        return 2
    for problem in PROBLEMS:
        launch_all(problem)
    return 0


if __name__ == "__main__":
    sys.exit(main())
