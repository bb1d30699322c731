"""The process that Nsight Compute looks at: it warms up, then makes one call between two marks.

Run as ``python -m attnlab_helpers.traffic.subject NAME PROBLEM``, PROBLEM the fields as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch

from ..attention import IMPLEMENTATIONS
from ..problem import AttentionProblem

WARM_UP = 3  # calls that load, choose and compile what the measured one uses


def main(name: str, problem: str) -> int:
    """Make the call `name` on the problem on the GPU; what it needs is made beforehand."""
    stated = AttentionProblem(**json.loads(problem))
    call = stated.bind(_function(name), stated.tensors("cuda"))
    with torch.no_grad():
        for _ in range(WARM_UP):
            call()
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        call()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()
    return 0


def _function(name: str) -> Callable[..., Any]:
    if name != "tiled":
        return IMPLEMENTATIONS[name]
    from ..attention.tiled import tiled_attention  # imports triton

    return tiled_attention


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
