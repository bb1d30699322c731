"""AttentionProblem: shapes, seeds, FLOPs, bytes and refusals."""

import math

import numpy as np
import pytest
import torch

from attnlab_helpers.problem import PROFILING_POST, VIT_B16, AttentionProblem, TensorProblem


def test_tensors_have_the_shapes_and_dtype_asked_for() -> None:
    problem = AttentionProblem(2, 6, 5, 8, kv_len=9, kv_heads=3, dtype="float16")
    q, k, v = problem.tensors("cpu")
    assert q.shape == (2, 6, 5, 8)
    assert k.shape == v.shape == (2, 3, 9, 8)
    assert q.dtype == k.dtype == v.dtype == torch.float16


def test_a_seed_repeats_and_leaves_the_global_generator_alone() -> None:
    problem = AttentionProblem(1, 2, 7, 8, dtype="float32")
    state = torch.get_rng_state()
    first, again, other = (
        problem.tensors("cpu", 3),
        problem.tensors("cpu", 3),
        problem.tensors("cpu", 4),
    )
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])
    assert not torch.equal(first[0], first[1])
    assert torch.equal(torch.get_rng_state(), state)


def test_flops_follow_the_papers_and_causal_is_half() -> None:
    full = AttentionProblem(2, 3, 128, 64)
    causal = AttentionProblem(2, 3, 128, 64, causal=True)
    assert full.flops() == 4 * 128 * 128 * 64 * 2 * 3
    assert causal.flops() == full.flops() / 2
    assert full.flops("backward") == 2.5 * full.flops()
    assert full.flops("training") == 3.5 * full.flops()


@pytest.mark.parametrize(
    ("q_len", "kv_len", "causal", "pairs"),
    [
        (1, 16, True, 1),
        (1, 16, "lower_right", 16),
        (3, 5, "lower_right", 3 + 4 + 5),
        (5, 3, True, 1 + 2 + 3 + 3 + 3),
    ],
)
def test_unequal_lengths_count_the_pairs_that_are_seen(q_len, kv_len, causal, pairs) -> None:
    assert AttentionProblem(1, 1, q_len, 8, kv_len=kv_len, causal=causal).visible_pairs() == pairs


def test_bytes_of_the_profiling_post() -> None:
    # 8 x 16 x 1024 x 64 bf16 numbers are 16 MiB; one score matrix of all heads is 256 MiB.
    assert PROFILING_POST.min_bytes() == 4 * 16 * 2**20
    assert PROFILING_POST.score_bytes() == 256 * 2**20
    assert VIT_B16.q_len == 197


def test_upper_left_is_another_name_for_true() -> None:
    assert AttentionProblem(1, 1, 4, 8, causal="upper_left") == AttentionProblem(
        1, 1, 4, 8, causal=True
    )


def test_numpys_bool_is_a_bool() -> None:
    problem = AttentionProblem(1, 1, 4, 8, causal=np.True_)
    assert problem.causal is True and problem == AttentionProblem(1, 1, 4, 8, causal=True)


def test_keys_are_different_for_different_problems() -> None:
    problems = [
        AttentionProblem(1, 2, 4, 8),
        AttentionProblem(1, 2, 4, 8, causal=True),
        AttentionProblem(1, 2, 4, 8, causal="lower_right"),
        AttentionProblem(1, 2, 4, 8, kv_len=5),
        AttentionProblem(1, 2, 4, 8, kv_heads=1),
        AttentionProblem(1, 2, 4, 8, scale=0.5),
        AttentionProblem(1, 2, 4, 8, scale=-0.5),
        AttentionProblem(1, 2, 4, 8, dtype="float32"),
    ]
    assert len({problem.key for problem in problems}) == len(problems)
    assert len({problem.label for problem in problems}) == len(problems)


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((1, 3, 4, 8), {"kv_heads": 2}, "kv_heads must divide"),
        ((1, 33, 4, 8), {"kv_heads": 2}, "kv_heads must divide"),
        ((1, 3, 4, 8), {"kv_heads": 0}, "kv_heads must divide"),
        ((-1, 3, 4, 8), {}, "batch must be a whole number"),
        ((1, 3, 4.0, 8), {}, "q_len must be a whole number"),
        ((1, 3, 4, 8), {"dtype": "int8"}, "is not one of bfloat16"),
        ((1, 3, 4, 8), {"causal": "left"}, "is not one of False"),
        ((1, 3, 4, 8), {"scale": math.inf}, "finite"),
        ((1, 3, 4, 8), {"scale": "a"}, "finite"),
        ((1, 3, 4, 8), {"scale": True}, "finite"),
        ((1, 3, 4, 8), {"causal": 1}, "is not one of"),
        ((1, 3, 4, 8), {"causal": 0}, "is not one of"),
        ((1, 3, 4, 8), {"causal": None}, "is not one of"),
    ],
)
def test_what_describes_no_attention_is_refused(arguments, options, words) -> None:
    with pytest.raises(ValueError, match=words):
        AttentionProblem(*arguments, **options)


def test_a_direction_that_does_not_exist_is_refused() -> None:
    for method in (VIT_B16.flops, VIT_B16.min_bytes):
        with pytest.raises(ValueError, match="sideways"):
            method("sideways")


def test_tensor_problem() -> None:
    problem = TensorProblem((2, 3), (3,), dtype="float32")
    a, b = problem.tensors("cpu")
    assert a.shape == (2, 3) and b.shape == (3,)
    assert problem.bind(torch.add, (a, b))().shape == (2, 3)
    with pytest.raises(ValueError, match="tuple of whole numbers"):
        TensorProblem([2, 3])
