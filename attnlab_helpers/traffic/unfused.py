"""The formula for attention in separate steps: each step reads its inputs, writes its output.

A tensor counts once a step, whole: what a kernel reads twice is taken to come from a cache the
second time, and a causal mask saves nothing, since every score is computed and then overwritten.
Numbers of a few bytes (scale, fill value, workspace) are left out. What the operators are was
read off the recorded kernels and off PyTorch's own decomposition, and is tested against the
latter.
"""

from __future__ import annotations

from ..problem import AttentionProblem
from .access import Access, Sizes, has_dead_rows

BOOL = 1  # bytes of a truth value


def naive_steps(problem: AttentionProblem, *, in_place: bool = False) -> list[Access]:
    """`attention/naive.py`, or `in_place.py`, step by step.

    With S = batch x heads x q_len x kv_len x bytes: product (reads Q, K; writes S), scale
    (reads and writes S), copy (masked_fill clones S; not in place), fill (reads S and the mask
    of q_len x kv_len bytes, writes S; every element, masked or not), softmax (reads S, writes
    P), product (reads P, V; writes O). Fewer heads in K and V: both are repeated first. Rows
    that see no key: P is copied and filled once more.
    """
    one, size = problem.element_bytes, Sizes.of(problem)
    scores, keys = size.scores * one, size.repeated * one
    steps = []
    if problem.heads != problem.kv_heads:
        for name in ("K", "V"):
            steps.append(Access(f"repeat {name}", "copy", name, size.keys * one, keys))
    steps += [
        Access("scores", "matmul", "Q", read_bytes=size.queries * one),
        Access("scores", "matmul", "K", read_bytes=keys),
        Access("scores", "matmul", "S", written_bytes=scores),
        Access("scale", "elementwise", "S", scores, scores),
    ]
    if problem.causal:
        if not in_place:
            steps.append(Access("copy", "copy", "S", scores, scores))
        steps += [
            Access("mask", "mask", "S", scores, scores),
            Access("mask", "mask", "mask", read_bytes=size.triangle * BOOL),
        ]
    steps += [
        Access("softmax", "softmax", "S", read_bytes=scores),
        Access("softmax", "softmax", "P", written_bytes=scores),
    ]
    if has_dead_rows(problem):
        steps += cleared("P", scores, problem)
    return [
        *steps,
        Access("output", "matmul", "P", read_bytes=scores),
        Access("output", "matmul", "V", read_bytes=keys),
        Access("output", "matmul", "O", written_bytes=size.queries * one),
    ]


def math_steps(problem: AttentionProblem) -> list[Access]:
    """SDPA's math backend: in float32 when the dtype has 16 bits, each step a kernel.

    It converts Q, K, V; scales Q and K instead of S; builds the causal mask as a float bias
    inside the call and adds it in place; and after softmax looks for rows of minus infinities
    (a table of truth values, a reduction, a choice). P is also rounded to the dtype as a second
    result, which nobody reads. Seen in the recording of `sdpa_math` on an H200, torch 2.11.
    """
    one, size = problem.element_bytes, Sizes.of(problem)
    wide = max(one, 4)
    steps = []
    bias = wide  # bytes of one number of the mask that is added to S
    # As `attention.sdpa.translate` decides: unequal lower-right is a mask made beforehand.
    prepared = problem.causal == "lower_right" and problem.q_len != problem.kv_len
    masked = bool(problem.causal) and not (prepared and problem.q_len == 1)
    if masked and prepared:
        bias = one
        steps.append(_bias_step(size, bias))
    tensors = {"Q": size.queries, "K": size.keys, "V": size.keys}
    if wide != one:
        for name, numbers in tensors.items():
            steps.append(Access(f"convert {name}", "copy", name, numbers * one, numbers * wide))
    steps.append(Access("scale Q", "elementwise", "Q", size.queries * wide, size.queries * wide))
    if masked and not prepared:
        triangle = size.triangle * BOOL
        steps += [
            Access("ones", "fill", "mask", written_bytes=triangle),
            Access("triangle", "mask", "mask", triangle, triangle),
            _bias_step(size, bias),
        ]
    keys, scores = size.repeated * wide, size.scores * wide
    if problem.heads != problem.kv_heads:
        for name in ("K", "V"):
            steps.append(Access(f"repeat {name}", "copy", name, size.keys * wide, keys))
    steps += [
        Access("scale K", "elementwise", "K", keys, keys),
        Access("scores", "matmul", "Q", read_bytes=size.queries * wide),
        Access("scores", "matmul", "K", read_bytes=keys),
        Access("scores", "matmul", "S", written_bytes=scores),
    ]
    if masked:
        steps += [
            Access("mask", "elementwise", "S", scores, scores),
            Access("mask", "elementwise", "mask", read_bytes=size.triangle * bias),
        ]
    steps += [
        Access("softmax", "softmax", "S", read_bytes=scores),
        Access("softmax", "softmax", "P", written_bytes=scores),
        Access("where is -inf", "elementwise", "S", read_bytes=scores),
        Access("where is -inf", "elementwise", "mask", written_bytes=size.scores * BOOL),
        Access("rows of -inf", "reduce", "mask", size.scores * BOOL, size.rows * BOOL),
        Access("clear those rows", "mask", "P", scores, scores),
        Access("clear those rows", "mask", "mask", read_bytes=size.rows * BOOL),
    ]
    if wide != one:
        steps.append(Access("round P", "copy", "P", scores, size.scores * one))
    steps += [
        Access("output", "matmul", "P", read_bytes=scores),
        Access("output", "matmul", "V", read_bytes=keys),
        Access("output", "matmul", "O", written_bytes=size.queries * wide),
    ]
    if wide != one:
        steps.append(Access("round O", "copy", "O", size.queries * wide, size.queries * one))
    if has_dead_rows(problem):
        steps += cleared("O", size.queries * one, problem)
    return steps


def _bias_step(size: Sizes, bias: int) -> Access:
    return Access("mask to numbers", "mask", "mask", size.triangle * BOOL, size.triangle * bias)


def cleared(tensor: str, whole: int, problem: AttentionProblem) -> list[Access]:
    return [
        Access("copy for dead rows", "copy", tensor, whole, whole),
        Access("dead rows", "mask", tensor, whole, whole),
        Access("dead rows", "mask", "mask", read_bytes=problem.q_len * BOOL),
    ]
