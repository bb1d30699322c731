"""FlashAttention as an autograd function: what is kept, what is computed again, by which kernel.

Forward keeps q, k, v, the result and one number a query (lse). Backward computes the weights again
from them, tile by tile.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import FunctionCtx

from ..kernels.card import card_of
from ..kernels.flash_configurations import (
    INTERPRETER,
    Configuration,
    Kernel,
    configurations,
)
from ..kernels.flash_hopper_launch import configuration_for, launch_hopper, launch_hopper_dq
from ..kernels.flash_launch import (
    empty_statistics,
    fits_descriptor,
    launch_delta,
    launch_dkdv,
    launch_dq,
    launch_forward,
    offset_of,
)
from ..kernels.language import mode, where_it_runs
from ..kernels.launching import Launch, launches_of
from ..kernels.precision import for_interpreter, rounded_to_tf32
from ..options import Causal
from .arguments import UnsupportedProblem


class FlashAttention(torch.autograd.Function):
    """(result, lse in powers of two) of checked tensors; see `flash_triton`."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        scale: float,
        causal: Causal,
        precision: str,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        options = {"scale": scale, "causal": causal, "precision": precision}
        out, lse = _forward(q, k, v, options)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.options = options
        ctx.mark_non_differentiable(lse)
        ctx.set_materialize_grads(False)  # lse's would be zeros, made and filled for nobody
        return out, lse

    @staticmethod
    def backward(ctx: Any, do: torch.Tensor | None, _: None) -> tuple[torch.Tensor | None, ...]:
        if torch.is_grad_enabled():
            # PyTorch's once_differentiable complains only where do has a gradient of its own, and
            # a penalty on the gradient would be dropped without a word.
            raise UnsupportedProblem(
                "flash_triton has no second derivative, and create_graph=True asks for one. "
                "naive has it."
            )
        if do is None:  # nothing depends on the result
            return (None,) * 6
        wanted = ctx.needs_input_grad[:3]
        return (*_backward(*ctx.saved_tensors, do, ctx.options, wanted), None, None, None)


def _forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, options: dict[str, Any]
) -> tuple[torch.Tensor, torch.Tensor]:
    if q.numel() == 0 or k.numel() == 0:
        return torch.zeros_like(q), _lse_of_equal_scores(q, k, options["causal"])
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    queries, keys, values = _for_kernels(options, q, k, v)
    out = torch.empty(q.shape, dtype=queries.dtype, device=q.device)
    tensors = (queries, keys, values, out, lse)
    with where_it_runs(q):
        kept = launches_of("flash forward", tensors, *options.values())
        kept.run(tensors, functools.partial(_launch_forward, options=options))
    return out.to(q.dtype), lse


def _launch_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    *,
    options: dict[str, Any],
) -> list[Launch]:
    scale, causal, precision = options.values()
    if found := configuration_for("forward_hopper", causal, q, k, v, out):
        return [launch_hopper(q, k, v, out, lse, found, scale=scale, causal=causal)]

    def launch(configuration: Configuration) -> Launch:
        return launch_forward(q, k, v, out, lse, configuration, **options)

    return [_first_that_fits("forward", q, k.shape[2], precision, launch)]


def _backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    options: dict[str, Any],
    wanted: tuple[bool, ...],
) -> tuple[torch.Tensor | None, ...]:
    if q.numel() == 0 or k.numel() == 0:
        return tuple(
            torch.zeros_like(tensor) if asked else None
            for tensor, asked in zip((q, k, v), wanted, strict=True)
        )
    if not fits_descriptor(do) and all(map(fits_descriptor, (q, k, v))):
        do = do.contiguous()  # one copy is cheaper than address by address in every kernel
    dtype = q.dtype
    q, k, v, do = _for_kernels(options, q, k, v, do)
    (out,) = for_interpreter(out)
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    tensors = (q, k, v, out, do, lse, *empty_statistics(out), dq, dk, dv)
    with where_it_runs(q):
        kept = launches_of("flash backward", tensors, *options.values(), *wanted)
        kept.run(tensors, functools.partial(_launch_backward, options=options, wanted=wanted))
    return tuple(
        tensor.to(dtype) if asked else None
        for tensor, asked in zip((dq, dk, dv), wanted, strict=True)
    )


def _launch_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    do: torch.Tensor,
    lse: torch.Tensor,
    delta: torch.Tensor,
    shift: torch.Tensor,
    dq: torch.Tensor,
    dk: torch.Tensor,
    dv: torch.Tensor,
    *,
    options: dict[str, Any],
    wanted: tuple[bool, ...],
) -> list[Launch]:
    """delta first; then dk and dv, which come from one kernel, and dq, as far as wanted."""
    scale, causal, precision = options.values()
    read = (q, k, v, do, delta, shift)

    def dkdv(configuration: Configuration) -> Launch:
        return launch_dkdv(*read, dk, dv, configuration, **options)

    def other_dq(configuration: Configuration) -> Launch:
        return launch_dq(*read, dq, configuration, **options)

    launched = [launch_delta(out, do, lse, delta, shift)]
    if wanted[1] or wanted[2]:
        launched.append(_first_that_fits("dkdv", q, q.shape[2], precision, dkdv))
    if wanted[0] and (found := configuration_for("dq_hopper", causal, q, k, v, do, dq)):
        launched.append(launch_hopper_dq(*read, dq, found, scale=scale, causal=causal))
    elif wanted[0]:
        launched.append(_first_that_fits("dq", q, k.shape[2], precision, other_dq))
    return launched


def _first_that_fits(
    kernel: Kernel,
    q: torch.Tensor,
    length: int,
    precision: str,
    launch: Callable[[Configuration], Launch],
) -> Launch:
    """Launch with the best configuration that the card has room for.

    length: how many keys (forward, dq) or queries (dkdv) a program walks over.
    """
    if mode() != "compiled":
        return launch(INTERPRETER)
    card = card_of(q)
    for configuration in configurations(
        kernel,
        head_dim=q.shape[3],
        length=length,
        precision="half" if q.dtype != torch.float32 else precision,
        capability=card.capability,
        shared_bytes=card.shared_bytes,
    ):
        try:
            return launch(configuration)
        except Exception as error:
            # Triton's own class, which is not imported here. It comes before anything is launched.
            if type(error).__name__ != "OutOfResources":
                raise
            last = error
    raise UnsupportedProblem(
        f"flash_triton cannot compute this: no tile of head_dim {q.shape[3]} and {q.dtype} fits "
        f"this GPU ({last}). sdpa_auto can."
    ) from last


def _lse_of_equal_scores(q: torch.Tensor, k: torch.Tensor, causal: Causal) -> torch.Tensor:
    """Without keys, or without columns, every score is zero: the logarithm of how many are seen."""
    q_len, kv_len = q.shape[2], k.shape[2]
    seen = torch.full((q_len,), kv_len, device=q.device)
    if causal:
        offset = offset_of(q_len, kv_len, causal)
        seen = (torch.arange(q_len, device=q.device) + 1 + offset).clamp(0, kv_len)
    return seen.float().log2().expand(q.shape[:3]).contiguous()


def _for_kernels(options: dict[str, Any], *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    # PyTorch keeps the sign of `z.conj().imag` in a flag: kernels want it in the numbers.
    plain = for_interpreter(*(tensor.resolve_neg() for tensor in tensors))
    return tuple(map(rounded_to_tf32, plain)) if options["precision"] == "tf32" else plain
