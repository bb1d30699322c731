"""attnlab_helpers: runs attention's kernels, profiles them and draws their timelines.

    from attnlab_helpers import PROFILING_POST, compare, run
    run("naive", PROFILING_POST).timeline()

A result flows one way: problem -> attention -> profiling -> study -> plots -> notebook -> report.
"""

from .machine import this_machine
from .problem import GPT2_MEDIUM, PROFILING_POST, VIT_B16, AttentionProblem, TensorProblem
from .recordings import NoRecording
from .study import compare, measure, run

__all__ = [
    "GPT2_MEDIUM",
    "PROFILING_POST",
    "VIT_B16",
    "AttentionProblem",
    "NoRecording",
    "TensorProblem",
    "compare",
    "measure",
    "run",
    "this_machine",
]
