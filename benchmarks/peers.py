"""Who is measured: each contestant as a function of q, k, v for one problem, made once."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from attnlab_helpers.attention import IMPLEMENTATIONS, UnsupportedProblem
from attnlab_helpers.problem import AttentionProblem

OURS = "flash_triton"
NAMES = (
    OURS,
    "sdpa_flash",
    "sdpa_cudnn",
    "sdpa_efficient",
    "sdpa_math",
    "naive",
    "flex",
)
# These make score matrices, several of them at once in training.
QUADRATIC = ("sdpa_math", "naive")
COPIES_OF_THE_SCORES = 8


def drawn_on_gpu(problem: AttentionProblem, seed: int = 0) -> tuple[torch.Tensor, ...]:
    """q, k, v and a gradient of the result, standard normal.

    `AttentionProblem.tensors` draws on the CPU, which takes seconds for 32k tokens.
    """
    generator = torch.Generator("cuda").manual_seed(seed)
    q = (problem.batch, problem.heads, problem.q_len, problem.head_dim)
    kv = (problem.batch, problem.kv_heads, problem.kv_len, problem.head_dim)
    dtype = getattr(torch, problem.dtype)
    return tuple(
        torch.randn(shape, generator=generator, device="cuda", dtype=dtype)
        for shape in (q, kv, kv, q)
    )


def contestant(name: str, problem: AttentionProblem) -> Callable[..., torch.Tensor]:
    """f(q, k, v) for this problem; UnsupportedProblem where it would not fit the GPU's memory.

    A mask that can be made once is made here and not measured.
    """
    if name in QUADRATIC:
        _, total = torch.cuda.mem_get_info()
        # sdpa_math computes in float32, twice the size of bfloat16.
        if COPIES_OF_THE_SCORES * 2 * problem.score_bytes() > total:
            raise UnsupportedProblem("its score matrices do not fit the GPU's memory.")
    if name == "flex":
        return _flex(problem)
    return functools.partial(IMPLEMENTATIONS[name], causal=problem.causal, scale=problem.scale)


def _flex(problem: AttentionProblem) -> Callable[..., torch.Tensor]:
    """PyTorch's flex_attention as its own documentation asks for it: compiled, with a block mask.

    It is compiled for each shape anew (dynamic=False), which gives its fastest kernels. What was
    compiled before is forgotten: after eight shapes torch.compile gives up and runs it eagerly.
    """
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = None
    if problem.causal:
        mask = create_block_mask(
            lambda b, h, query, key: query >= key,
            None,
            None,
            problem.q_len,
            problem.kv_len,
            device="cuda",
        )
    torch.compiler.reset()
    compiled = torch.compile(flex_attention, dynamic=False)
    return functools.partial(compiled, block_mask=mask, scale=problem.scale)
