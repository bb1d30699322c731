"""What all implementations under study have in common: a name, a call, and a prepared call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..options import Causal
from .arguments import check


@dataclass(frozen=True)
class Implementation:
    """One way to compute attention, callable as ``f(q, k, v, *, causal, scale, mask)``.

    q (batch, heads, q_len, head_dim), k and v (batch, kv_heads, kv_len, head_dim); the result
    has q's shape and dtype. causal: False, True or "upper_left" (as PyTorch), "lower_right".
    mask: boolean with True = take part, or an additive float bias. Rows that may see no key
    are zero. Raises TypeError or ValueError for arguments that fit no attention, and
    `UnsupportedProblem` for what this implementation cannot do, before any launch.

    compute: takes what `check` returns. check: the arguments above, checked and made ready; one
    that hides keys in its own way, or cannot do everything, brings its own.
    """

    name: str
    summary: str
    compute: Callable[[Any], torch.Tensor]
    check: Callable[..., Any] = check

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
        return self.compute(self.check(q, k, v, causal=causal, scale=scale, mask=mask))

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
        arguments = self.check(q, k, v, causal=causal, scale=scale, mask=mask)
        return lambda: self.compute(arguments)

    def __repr__(self) -> str:
        return f"<attention {self.name}: {self.summary}>"
