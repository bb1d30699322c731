"""Whether the kernels for Hopper compute what the others compute, asked once where nobody knows.

They are written in Gluon, which Triton calls experimental: a version that they have not run with
might take them and mean something else. So there they compute a small problem first.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable

import torch

from . import flash_hopper_launch, flash_launch
from .flash_configurations import Configuration, HopperKernel

# More blocks of queries than three for each SM, so that every program goes round all its places in
# shared memory, in numbers that divide by nothing; lengths that are no multiples of any tile.
SHAPE, LENGTHS = (7, 23), (300, 450)
SAME = 2e-2  # of a row's norm; rounding to bfloat16 differs by a few thousandths
PLAIN = Configuration(64, 64)


@functools.lru_cache(maxsize=64)
def agrees(
    kernel: HopperKernel,
    configuration: Configuration,
    block_d: int,
    dtype: torch.dtype,
    device: torch.device,
) -> bool:
    """Whether `kernel` and the one for all cards give the same; a warning says where not."""
    try:
        right = all(_same(kernel, configuration, block_d, dtype, device, c) for c in (False, True))
        why = "its numbers differ from those of the kernel for all cards"
    except Exception as error:  # whatever a new Triton raises: there is another kernel
        right, why = False, f"{type(error).__name__}: {str(error).strip()[:200]}"
    if not right:
        warnings.warn(
            f"flash_triton goes on without its kernel for Hopper ({kernel}), and is slower: with "
            f"this version of Triton {why}.",
            RuntimeWarning,
            stacklevel=2,
        )
    return right


def _same(
    kernel: HopperKernel,
    configuration: Configuration,
    block_d: int,
    dtype: torch.dtype,
    device: torch.device,
    causal: bool,
) -> bool:
    generator = torch.Generator(device).manual_seed(0)
    q_len, kv_len = LENGTHS
    q, do, k, v = (
        torch.randn(*SHAPE, length, block_d, generator=generator, device=device).to(dtype)
        for length in (q_len, q_len, kv_len, kv_len)
    )
    options = {"scale": block_d**-0.5, "causal": causal}
    plain = options | {"precision": "ieee"}
    out, lse = torch.empty_like(q), torch.empty(q.shape[:3], device=device)
    flash_launch.launch_forward(q, k, v, out, lse, PLAIN, **plain)
    if kernel == "forward_hopper":
        launch = functools.partial(flash_hopper_launch.launch_hopper, q, k, v)
        return _close(launch, (out, lse), configuration, options)
    delta, shift = flash_launch.statistics(out, do, lse)
    dq = torch.empty_like(q)
    flash_launch.launch_dq(q, k, v, do, delta, shift, dq, PLAIN, **plain)
    launch = functools.partial(flash_hopper_launch.launch_hopper_dq, q, k, v, do, delta, shift)
    return _close(launch, (dq,), configuration, options)


def _close(
    launch: Callable[..., None],
    expected: tuple[torch.Tensor, ...],
    configuration: Configuration,
    options: dict[str, float | bool],
) -> bool:
    found = [torch.full_like(tensor, float("nan")) for tensor in expected]
    launch(*found, configuration, **options)
    return all(map(_equal_rows, found, expected))


def _equal_rows(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Row by row, so that a few wrong ones do not hide among the others."""
    if ours.dim() == 3:  # one number a query
        ours, theirs = ours[..., None], theirs[..., None]
    size = theirs.float().norm(dim=-1)
    error = (ours.float() - theirs.float()).norm(dim=-1)
    return bool((error <= SAME * (size + size.mean()) / 2).all())
