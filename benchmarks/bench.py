"""One problem, every kernel of flash_triton as a call on it, and whether a kernel is right."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from peers import drawn_on_gpu

from attnlab_helpers.attention import reference
from attnlab_helpers.kernels import flash_hopper_launch, flash_launch
from attnlab_helpers.kernels.flash_configurations import HOPPER, Configuration, Listed
from attnlab_helpers.problem import AttentionProblem

# No length of a tile's multiples, and five blocks of 128 queries for 85 heads: some programs of a
# kernel that goes from block to block get four of them.
SMALL = (5, 17, 520)
LAUNCHES = 20
OPTIONS = {"precision": "ieee"}


class Bench:
    """One problem's tensors, and every kernel as a call on them."""

    def __init__(self, problem: AttentionProblem) -> None:
        self.q, self.k, self.v, self.do = drawn_on_gpu(problem)
        self.options = OPTIONS | {"scale": problem.head_dim**-0.5, "causal": problem.causal}
        self.out = torch.empty_like(self.q)
        self.lse = torch.empty(self.q.shape[:3], device="cuda")
        self.dq, self.dk, self.dv = (torch.empty_like(x) for x in (self.q, self.k, self.v))
        self.forward(Configuration(64, 64))
        self.delta, self.shift = flash_launch.statistics(self.out, self.do, self.lse)

    def forward(self, configuration: Configuration) -> tuple[torch.Tensor, ...]:
        tensors = (self.q, self.k, self.v, self.out, self.lse)
        flash_launch.launch_forward(*tensors, configuration, **self.options)
        return self.out, self.lse

    def hopper(self, configuration: Configuration) -> tuple[torch.Tensor, ...]:
        tensors = (self.q, self.k, self.v, self.out, self.lse)
        scale, causal = self.options["scale"], self.options["causal"]
        flash_hopper_launch.launch_hopper(*tensors, configuration, scale=scale, causal=causal)
        return self.out, self.lse

    def dkdv(self, configuration: Configuration) -> tuple[torch.Tensor, ...]:
        tensors = (self.q, self.k, self.v, self.do, self.delta, self.shift, self.dk, self.dv)
        flash_launch.launch_dkdv(*tensors, configuration, **self.options)
        return self.dk, self.dv

    def dq_alone(self, configuration: Configuration) -> tuple[torch.Tensor, ...]:
        tensors = (self.q, self.k, self.v, self.do, self.delta, self.shift, self.dq)
        flash_launch.launch_dq(*tensors, configuration, **self.options)
        return (self.dq,)

    def hopper_dq(self, configuration: Configuration) -> tuple[torch.Tensor, ...]:
        tensors = (self.q, self.k, self.v, self.do, self.delta, self.shift, self.dq)
        scale, causal = self.options["scale"], self.options["causal"]
        flash_hopper_launch.launch_hopper_dq(*tensors, configuration, scale=scale, causal=causal)
        return (self.dq,)

    def call(self, kernel: Listed, configuration: Configuration) -> tuple[torch.Tensor, ...]:
        calls: dict[str, Callable[[Configuration], tuple[torch.Tensor, ...]]] = {
            "forward": self.forward,
            "forward_hopper": self.hopper,
            "dq_hopper": self.hopper_dq,
            "dkdv": self.dkdv,
            "dq": self.dq_alone,
        }
        return calls[kernel](configuration)


def small(head_dim: int, causal: bool) -> AttentionProblem:
    """The problem that candidates are checked on."""
    return AttentionProblem(*SMALL, head_dim, causal=causal)


def fault(kernel: Listed, configuration: Configuration, head_dim: int) -> str | None:
    """Why a candidate is out: an error, a wrong result, or one that changes; None if it is good."""
    for causal in (True, False):
        try:
            bench = Bench(small(head_dim, causal))
            for result in (bench.out, bench.lse, bench.dq, bench.dk, bench.dv):
                result.fill_(math.nan)  # so that what a candidate leaves out shows
            found = [tensor.clone() for tensor in bench.call(kernel, configuration)]
        except Exception as error:  # a tuner goes on with the next candidate, whatever happened
            return f"{type(error).__name__}: {str(error)[:80]}"
        leaves = [x.double().requires_grad_() for x in (bench.q, bench.k, bench.v)]
        out = reference(*leaves, causal=causal)
        dq, dk, dv = torch.autograd.grad(out, leaves, bench.do.double())
        wanted = {
            "forward": [out, lse_of(leaves[0], leaves[1], causal)],
            "dkdv": [dk, dv],
            "dq": [dq],
        }[HOPPER.get(kernel, kernel)]
        for actual, oracle in zip(found, wanted, strict=True):
            error = ((actual.double() - oracle).norm() / oracle.norm()).item()
            if not error < 1e-2:  # NaN as well
                return f"wrong: relative error {error:.2g}"
        for _ in range(LAUNCHES):
            if not all(map(torch.equal, found, bench.call(kernel, configuration))):
                return "changes from launch to launch"
    return None


def lse_of(q: torch.Tensor, k: torch.Tensor, causal: bool) -> torch.Tensor:
    """The statistic in powers of two, (batch, heads, q_len), of tensors of one length."""
    scores = q.detach() @ k.detach().mT * (q.shape[3] ** -0.5 * math.log2(math.e))
    if causal:
        hidden = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, -math.inf)
    return torch.logsumexp(scores * math.log(2), dim=3) / math.log(2)
