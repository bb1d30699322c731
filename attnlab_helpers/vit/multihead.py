"""Multi-head attention: one product for all queries, keys and values, then head by head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ..attention import IMPLEMENTATIONS
from ..attention.arguments import check
from .whole import whole_number

Attention = str | Callable[..., torch.Tensor]


class MultiHeadAttention(nn.Module):
    """Self-attention of `heads` heads over tokens (batch, N, width).

    width: D, a multiple of heads; each head works with head_dim = D / heads numbers a token.
    attention: what computes the heads: a name from `attention.IMPLEMENTATIONS` or any callable
    f(q, k, v, *, causal, scale, mask) on (batch, heads, N, head_dim). It may be set later, too.

    Raises ValueError for a width that heads does not divide, or a name nobody knows.
    """

    def __init__(
        self, width: int, heads: int, *, bias: bool = True, attention: Attention = "naive"
    ) -> None:
        super().__init__()
        width, heads = whole_number("width", width), whole_number("heads", heads)
        if width % heads:
            raise ValueError(f"width {width} cannot be shared out over {heads} heads evenly.")
        self.width, self.heads, self.head_dim = width, heads, width // heads
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.output = nn.Linear(width, width, bias=bias)
        self.attention = attention
        self._attend()  # a wrong name is an error here, not in the first call

    def forward(self, x: torch.Tensor, *, mask: torch.Tensor | None = None) -> torch.Tensor:
        """x (batch, N, width) -> (batch, N, width).

        mask: boolean, True = take part, or a float bias that is added to the scores;
        broadcastable to (batch, heads, N, N).
        """
        q, k, v = self.project(x)
        return self.output(self.join(self._attend()(q, k, v, mask=mask)))

    def with_weights(
        self, x: torch.Tensor, *, mask: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The same result, and the attention weights (batch, heads, N, N) that made it.

        weights[b, h, i, j] says how much token i takes from token j; a row sums to one, and is
        zero where the mask lets a token see none. The matrix is computed in the open here,
        whatever `attention` is set to, because fused kernels never hold it.
        """
        q, k, v = self.project(x)
        call = check(q, k, v, mask=mask)
        scores = q @ k.transpose(-2, -1) * call.scale
        if call.bias is not None:
            scores = scores + call.bias
        if call.hidden is not None:
            scores = scores.masked_fill(call.hidden, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        if call.dead_rows is not None:
            weights = weights.masked_fill(call.dead_rows, 0.0)
        return self.output(self.join(weights @ v)), weights

    def project(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys, values of all heads, (batch, heads, N, head_dim) each, by one product."""
        if not isinstance(x, torch.Tensor) or x.dim() != 3 or x.shape[-1] != self.width:
            given = tuple(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
            raise ValueError(f"x must be a tensor (batch, N, {self.width}), not {given}.")
        batch, tokens, _ = x.shape
        split = self.qkv(x).reshape(batch, tokens, 3, self.heads, self.head_dim)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        return q, k, v

    def join(self, heads: torch.Tensor) -> torch.Tensor:
        """The heads' results side by side: (batch, heads, N, head_dim) -> (batch, N, width)."""
        return heads.transpose(1, 2).flatten(2)

    def _attend(self) -> Callable[..., torch.Tensor]:
        if callable(self.attention):
            return self.attention
        if self.attention not in IMPLEMENTATIONS:
            known = ", ".join(IMPLEMENTATIONS)
            raise ValueError(
                f"no implementation is called {self.attention!r}. There are: {known}; or pass a "
                "callable f(q, k, v, *, causal, scale, mask)."
            )
        return IMPLEMENTATIONS[self.attention]

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention, **options: Any) -> MultiHeadAttention:
        """Ours with the weights of PyTorch's module copied over.

        It gives what `module(x, x, x)` gives for x (batch, N, width), that is with
        batch_first=True and without dropout. PyTorch's boolean mask means the opposite: see
        `torch_mask`. ValueError for what ours does not have: other widths for keys and values,
        a learned extra key, an extra zero key.
        """
        extras = {
            "kdim or vdim": module.in_proj_weight is None,
            "add_bias_kv=True": module.bias_k is not None,
            "add_zero_attn=True": module.add_zero_attn,
        }
        found = [name for name, present in extras.items() if present]
        if found:
            raise ValueError(f"plain self-attention has no {', no '.join(found)}.")
        bias = module.in_proj_bias is not None
        ours = cls(module.embed_dim, module.num_heads, bias=bias, **options)
        ours.to(module.in_proj_weight)
        with torch.no_grad():
            ours.qkv.weight.copy_(module.in_proj_weight)
            ours.output.weight.copy_(module.out_proj.weight)
            if bias:
                ours.qkv.bias.copy_(module.in_proj_bias)
                ours.output.bias.copy_(module.out_proj.bias)
        return ours


def torch_mask(mask: torch.Tensor) -> torch.Tensor:
    """Our boolean mask (True = take part) as `nn.MultiheadAttention` wants it (True = hidden).

    Its own inverse. `F.scaled_dot_product_attention` and `attention.IMPLEMENTATIONS` need no
    translation: there True means "take part". A float mask means the same everywhere, it is
    added to the scores; TypeError for it, so that nobody negates one.
    """
    if not isinstance(mask, torch.Tensor):
        raise TypeError(f"mask must be a torch tensor, not {type(mask).__name__}.")
    if mask.dtype != torch.bool:
        raise TypeError(
            f"only boolean masks are read in opposite ways; this one is {mask.dtype}. A float "
            "mask is added to the scores everywhere: pass it as it is."
        )
    return ~mask
