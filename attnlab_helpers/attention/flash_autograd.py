"""FlashAttention as an autograd function: what is kept, what is computed again, by which kernel.

Forward keeps q, k, v, the result and one number a query (lse). Backward computes the weights again
from them, tile by tile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import FunctionCtx, once_differentiable

from ..kernels import flash_hopper_launch, flash_launch
from ..kernels.card import card_of
from ..kernels.flash_configurations import (
    INTERPRETER,
    Configuration,
    HopperKernel,
    Kernel,
    configurations,
)
from ..kernels.language import mode, where_it_runs
from ..kernels.precision import for_interpreter
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
    @once_differentiable
    def backward(ctx: Any, do: torch.Tensor | None, _: None) -> tuple[torch.Tensor | None, ...]:
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
    queries, keys, values = for_interpreter(*map(_plain, (q, k, v)))
    out = torch.empty(q.shape, dtype=queries.dtype, device=q.device)

    def launch(configuration: Configuration) -> None:
        flash_launch.launch_forward(queries, keys, values, out, lse, configuration, **options)

    with where_it_runs(q):
        tensors = (queries, keys, values, out)
        if found := _for_hopper("forward_hopper", options, *tensors):
            flash_hopper_launch.launch_hopper(
                *tensors, lse, found, scale=options["scale"], causal=options["causal"]
            )
        else:
            _first_that_fits("forward", q, k.shape[2], options["precision"], launch)
    return out.to(q.dtype), lse


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
    if all(map(flash_launch.fits_descriptor, (q, k, v))) and not flash_launch.fits_descriptor(do):
        do = do.contiguous()  # one copy is cheaper than address by address in every kernel
    dtype = q.dtype
    q, k, v, out, do = for_interpreter(*map(_plain, (q, k, v, out, do)))
    want_q, want_kv = wanted[0], wanted[1] or wanted[2]
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    with where_it_runs(q):
        delta, shift = flash_launch.launch_delta(out, do, lse)

        def launch_dkdv(configuration: Configuration) -> None:
            flash_launch.launch_dkdv(q, k, v, do, delta, shift, dk, dv, configuration, **options)

        def launch_dq(configuration: Configuration) -> None:
            flash_launch.launch_dq(q, k, v, do, delta, shift, dq, configuration, **options)

        if want_kv:
            _first_that_fits("dkdv", q, q.shape[2], options["precision"], launch_dkdv)
        if want_q and (found := _for_hopper("dq_hopper", options, q, k, v, do, dq)):
            flash_hopper_launch.launch_hopper_dq(
                q, k, v, do, delta, shift, dq, found,
                scale=options["scale"], causal=options["causal"],
            )  # fmt: skip
        elif want_q:
            _first_that_fits("dq", q, k.shape[2], options["precision"], launch_dq)
    wanted_ones = (dq if want_q else None, dk if wanted[1] else None, dv if wanted[2] else None)
    return tuple(None if tensor is None else tensor.to(dtype) for tensor in wanted_ones)


def _first_that_fits(
    kernel: Kernel,
    q: torch.Tensor,
    length: int,
    precision: str,
    launch: Callable[[Configuration], None],
) -> None:
    """Launch with the best configuration that the card has room for.

    length: how many keys (forward, dq) or queries (dkdv) a program walks over.
    """
    if mode() != "compiled":
        launch(INTERPRETER)
        return
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
            launch(configuration)
            return
        except Exception as error:
            # Triton's own class, which is not imported here. It comes before anything is launched.
            if type(error).__name__ != "OutOfResources":
                raise
            last = error
    raise UnsupportedProblem(
        f"flash_triton cannot compute this: no tile of head_dim {q.shape[3]} and {q.dtype} fits "
        f"this GPU ({last}). sdpa_auto can."
    ) from last


def _for_hopper(
    kernel: HopperKernel, options: dict[str, Any], *tensors: torch.Tensor
) -> Configuration | None:
    return flash_hopper_launch.configuration_for(kernel, options["causal"], *tensors)


def _lse_of_equal_scores(q: torch.Tensor, k: torch.Tensor, causal: Causal) -> torch.Tensor:
    """Without keys, or without columns, every score is zero: the logarithm of how many are seen."""
    q_len, kv_len = q.shape[2], k.shape[2]
    seen = torch.full((q_len,), kv_len, device=q.device)
    if causal:
        offset = flash_launch.offset_of(q_len, kv_len, causal)
        seen = (torch.arange(q_len, device=q.device) + 1 + offset).clamp(0, kv_len)
    return seen.float().log2().expand(q.shape[:3]).contiguous()


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with its sign in its numbers; PyTorch keeps that of `z.conj().imag` in a flag."""
    return tensor.resolve_neg()
