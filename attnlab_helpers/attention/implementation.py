"""What every implementation under study has in common: a name, a call, and a prepared call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ..problem import Causal
from .arguments import Arguments, check


@dataclass(frozen=True)
class Implementation:
    """One way to compute attention, callable as ``f(q, k, v, *, causal, scale, mask)``.

    q (batch, heads, q_len, head_dim), k and v (batch, kv_heads, kv_len, head_dim); the result
    has q's shape and dtype. causal: False, True or "upper_left" (as PyTorch), "lower_right".
    mask: boolean with True = take part, or an additive float bias. Rows that may see no key
    are zero. Raises TypeError or ValueError for arguments that fit no attention, and
    `UnsupportedProblem` for what this implementation cannot do, before any launch.
    """

    name: str
    summary: str
    compute: Callable[[Arguments], torch.Tensor]

    def __call__(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        *,
        causal: Causal = False,
        scale: float | None = None,
        mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        return self.compute(check(q, k, v, causal=causal, scale=scale, mask=mask))

    def prepare(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        *,
        causal: Causal = False,
        scale: float | None = None,
        mask: torch.Tensor | None = None,
    ) -> Callable[[], torch.Tensor]:
        """Check the arguments and build the masks now; return the call that computes.

        A model builds its mask once and uses it in every layer, so a measurement leaves the
        building out.
        """
        arguments = check(q, k, v, causal=causal, scale=scale, mask=mask)
        return lambda: self.compute(arguments)

    def __repr__(self) -> str:
        return f"<attention {self.name}: {self.summary}>"
