"""Attention in float32 whose sums go one product after the other, as they do within a kernel.

With a single query PyTorch on a GPU adds in the form of a tree, and is up to five times more exact
than a sum in order. (Measured on an H200, torch 2.11: one query, 200 keys, head_dim 128: 7.6e-8
against 3.5e-7.) The kernels miss twice naive's error there, and PyTorch's own fused kernel for
float32 misses it, too. What they keep is twice the error of this formula.
"""

import torch


def plain_in_order(q, k, v, scale=None) -> torch.Tensor:
    """softmax(scale * q k^T) v; q (batch, heads, q_len, d), as many key heads or a divisor."""
    groups = q.shape[1] // k.shape[1]
    k, v = (tensor.repeat_interleave(groups, dim=1) for tensor in (k, v))
    scores = product(q, k.mT) * (q.shape[-1] ** -0.5 if scale is None else scale)
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    ones = torch.ones(*powers.shape[:-2], powers.shape[-1], 1, device=q.device)
    return product(powers, v) / product(powers, ones)


def product(a, b) -> torch.Tensor:
    """a @ b by fused multiply-adds in float32: each rounds the sum so far once."""
    total = torch.zeros(*a.shape[:-1], b.shape[-1], device=a.device)
    for column in range(a.shape[-1]):
        one = a[..., column, None].double() * b[..., column, None, :].double()
        total = (total.double() + one).float()
    return total
