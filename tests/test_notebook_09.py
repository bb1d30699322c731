"""Notebook 09's own code: its formulas against autograd and differences, its kernels, its steps."""

import importlib.util
import inspect
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from attnlab_helpers import AttentionProblem
from attnlab_helpers.attention import IMPLEMENTATIONS, reference
from attnlab_helpers.building import check
from attnlab_helpers.building.source import read_source
from attnlab_helpers.compiler import compile_triton
from attnlab_helpers.kernels import flash_backward, flash_dq, language
from attnlab_helpers.problem import visible_keys
from attnlab_helpers.traffic.backward import backward_formula, queries_read
from attnlab_helpers.vit import SMALL_CONFIG
from attnlab_helpers.vit import few_steps as module_of_steps
from attnlab_helpers.vit.few_steps import few_steps
from attnlab_helpers.vit.photographs import PHOTOGRAPHS

SOURCE = Path(__file__).parents[1] / "notebooks" / "source" / "09_flash_attention_backward.md"
CAN_RUN = pytest.mark.skipif(
    language.mode() not in ("compiled", "interpreter"), reason="no kernel can run here"
)
INTERPRETED = pytest.mark.skipif(language.mode() != "interpreter", reason="counts need it")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
UNIT_ROUNDOFF = {"float32": 2**-24, "float16": 2**-11, "bfloat16": 2**-8}
OF_THE_NOTEBOOK = (
    *("attend", "by_nudging", "gradients_by_tiles", "load_tile", "delta_kernel", "weights_again"),
    *("dkdv_kernel", "dq_kernel", "three_kernels", "by_hand", "count_backward", "one_length"),
    *("by_name", "octaves", "one_large_step"),
)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    """The notebook's definitions as a module: Triton wants its kernels in a file."""
    code = []
    for _, cell in check.code_cells(read_source(SOURCE)):
        defined = re.findall(r"^def (\w+)", cell.source, re.MULTILINE)
        if "setup" in check.tags(cell) or set(defined) & set(OF_THE_NOTEBOOK):
            # Of a cell that also runs something, the definitions alone.
            code.append(re.split(r"^(?=generator = )", cell.source, flags=re.MULTILINE)[0])
    path = tmp_path_factory.mktemp("notebook") / "code_of_notebook_09.py"
    path.write_text("\n\n".join(code), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[path.stem]


MISTAKES = {
    1: [
        "def softmax_backward(p, dp):\n    return None",
        "def softmax_backward(p, dp):\n    return p * (dp - dp.mean(-1, keepdim=True))",
        "def softmax_backward(p, dp):\n    return p * (dp - (p * dp).sum(-1))",
        "def softmax_backward(p, dp):\n    return p * (dp - (p * dp).sum(0, keepdim=True))",
        "def softmax_backward(p, dp):\n    return dp - dp.mean(-1, keepdim=True)",
        "def softmax_backward(p, dp):\n    return torch.softmax(dp, -1)",
    ],
    2: [
        # Without the statistic; with one in the tensors' precision; with P; without O.
        "def kept_bytes(h, n, d, e):\n    return 4 * h * n * d * e",
        "def kept_bytes(h, n, d, e):\n    return h * n * (4 * d + 1) * e",
        "def kept_bytes(h, n, d, e):\n    return h * n * (3 * d + n) * e",
        "def kept_bytes(h, n, d, e):\n    return h * n * (3 * d * e + 4)",
        "def kept_bytes(h, n, d, e):\n    return 'many'",
        "def kept_bytes(h, n):\n    return 0",
    ],
    3: [
        # Right for tiles of one height only, among others.
        "def first_query(first_key, block_q):\n    return first_key",
        "def first_query(first_key, block_q):\n    return -(-first_key // block_q) * block_q",
        "def first_query(first_key, block_q):\n    return first_key // block_q",
        "def first_query(first_key, block_q):\n    return max(0, first_key - block_q)",
        "def first_query(first_key, block_q):\n    return None",
    ],
    4: [
        "def scale_gradient(q, k, ds, scale):\n    return scale * (ds * (q @ k.T)).sum()",
        "def scale_gradient(q, k, ds, scale):\n    return ds.sum()",
        "def scale_gradient(q, k, ds, scale):\n    return ds * (q @ k.T)",
        "def scale_gradient(q, k, ds, scale):\n    return (ds @ (q @ k.T)).sum()",
        "def scale_gradient(q, k, ds, scale):\n    return 'one'",
    ],
    5: [
        "def delta_with_lse(o, do, dlse):\n    return (do * o).sum(-1) + dlse",
        "def delta_with_lse(o, do, dlse):\n    return dlse - (do * o).sum(-1)",
        "def delta_with_lse(o, do, dlse):\n    return (do * o).sum(-1) * dlse",
        "def delta_with_lse(o, do, dlse):\n    return do * o - dlse[:, None]",
        "def delta_with_lse(o, do, dlse):\n    return None",
    ],
}


@pytest.mark.parametrize("number", MISTAKES)
def test_an_exercise_is_not_yet_right_until_it_is_solved(notebook, number) -> None:
    _, _, section = SOURCE.read_text(encoding="utf-8").partition(f"### {number}. ")
    start, checking = re.findall(
        r":tags: \[(?:exercise|check).*?\]\n\n(.*?)\n```", section, re.DOTALL
    )[:2]
    solution = re.search(r"A solution</summary>\n\n```python\n(.*?)\n```", section, re.DOTALL)[1]
    names = dict(vars(notebook))
    assert f"def check_{number}(answer):" in checking

    def told(answer: str) -> str:
        told_by_print: list[str] = []
        exec(f"{answer}\n{checking}", names | {"print": told_by_print.append})
        return told_by_print[0]

    for wrong in (start, *MISTAKES[number]):
        assert told(wrong).startswith("not yet: "), wrong
        assert "\n" not in told(wrong)
    assert told(solution).startswith("right")


def drawn(n, d, count=4):
    return torch.randn(count, n, d, dtype=torch.float64)


def by_autograd(attend, tensors, do):
    leaves = [one.detach().clone().requires_grad_() for one in tensors]
    return torch.autograd.grad(attend(*leaves), leaves, do)


def test_the_formula_is_the_gradient_by_autograd_and_by_differences(notebook) -> None:
    q, k, v, do = drawn(7, 5)
    found = notebook.gradients(q, k, v, notebook.attend(q, k, v)[1], do)
    right = by_autograd(lambda *x: notebook.attend(*x)[0], (q, k, v), do)
    for x, ours, theirs in zip((q, k, v), found, right, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-13)
        before = x.clone()
        nudged = notebook.by_nudging(lambda: (notebook.attend(q, k, v)[0] * do).sum(), x, 1e-5)
        torch.testing.assert_close(ours, nudged, rtol=1e-7, atol=1e-8)
        assert torch.equal(x, before), "nudging must leave the entry as it was"


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 40),
    d=st.integers(1, 12),
    block_q=st.integers(1, 48),
    block_k=st.integers(1, 48),
)
def test_tiles_of_any_size_give_the_same_gradient(notebook, n, d, block_q, block_k) -> None:
    q, k, v, do = drawn(n, d)
    o, p = notebook.attend(q, k, v)
    lse = torch.logsumexp(d**-0.5 * q @ k.T, dim=-1)
    found = notebook.gradients_by_tiles(q, k, v, o, lse, do, block_q, block_k)
    for ours, right in zip(found, notebook.gradients(q, k, v, p, do), strict=True):
        torch.testing.assert_close(ours, right, rtol=1e-9, atol=1e-11)


def gradients(attention, q, k, v, do, **options):
    leaves = [one.detach().clone().requires_grad_() for one in (q, k, v)]
    out = attention(*leaves, **options)
    return [one.double() for one in torch.autograd.grad(out, leaves, do.to(out.dtype))]


def assert_gradients_right(attention, problem, **options) -> None:
    """Error at most twice naive's, plus rounding the result once."""
    q, k, v = problem.tensors(DEVICE, seed=3)
    do = problem.tensors(DEVICE, seed=4)[0]
    options |= {"causal": problem.causal}
    right = gradients(reference, q, k, v, do.double(), **options)
    naive = gradients(IMPLEMENTATIONS["naive"], q, k, v, do, **options)
    for ours, plain, wanted in zip(
        gradients(attention, q, k, v, do, **options), naive, right, strict=True
    ):
        assert torch.isfinite(ours).all()
        error, allowed = ((one - wanted).abs().max().item() for one in (ours, plain))
        floor = UNIT_ROUNDOFF[problem.dtype] * wanted.abs().max().item()
        assert error <= 2 * allowed + floor, f"error {error:.3g}, naive {allowed:.3g}"


@CAN_RUN
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("n", "d"), [(2, 16), (63, 32), (64, 16), (65, 64), (150, 32)])
def test_the_three_kernels(notebook, n, d, dtype, causal) -> None:
    problem = AttentionProblem(2, 2, n, d, dtype=dtype, causal=causal)
    assert_gradients_right(notebook.by_hand, problem)


@CAN_RUN
@pytest.mark.parametrize("block", [16, 32, 128])
@pytest.mark.parametrize("causal", [False, True])
def test_the_tile_changes_nothing_but_rounding(notebook, block, causal) -> None:
    q, k, v = AttentionProblem(1, 3, 130, 16, dtype="float32").tensors(DEVICE)
    do = torch.randn_like(q)
    o, lse = notebook.tiled_attention(q, k, v, causal=causal, return_lse=True)
    found = notebook.three_kernels(q, k, v, o, lse, do, scale=0.25, causal=causal, block=block)
    right = gradients(reference, q, k, v, do.double(), causal=causal, scale=0.25)
    for ours, wanted in zip(found, right, strict=True):
        torch.testing.assert_close(ours.double(), wanted, rtol=1e-5, atol=1e-5)


@CAN_RUN
def test_a_scale_large_scores_and_strided_tensors(notebook) -> None:
    problem = AttentionProblem(1, 2, 70, 16, dtype="float32", causal=True)
    assert_gradients_right(notebook.by_hand, problem, scale=0.7)
    assert_gradients_right(notebook.by_hand, problem, scale=20.0)
    wide = torch.randn(1, 70, 3, 2, 16, device=DEVICE)
    q, k, v = wide.permute(2, 0, 3, 1, 4)  # as a vision transformer hands them over
    do = torch.randn(1, 2, 16, 70, device=DEVICE).mT
    for ours, wanted in zip(
        gradients(notebook.by_hand, q, k, v, do),
        gradients(reference, q, k, v, do.double()),
        strict=True,
    ):
        torch.testing.assert_close(ours, wanted, rtol=1e-5, atol=1e-5)


@CAN_RUN
def test_one_token_alone(notebook) -> None:
    # Its weight is 1 whatever its score, so dq and dk are zero: two equal numbers, dp and delta,
    # are subtracted, and what is left is the rounding of those.
    q, k, v = AttentionProblem(1, 2, 1, 16, dtype="float32").tensors(DEVICE)
    do = torch.randn_like(q)
    dq, dk, dv = gradients(notebook.by_hand, q, k, v, do)
    assert torch.equal(dv, do.double())
    rounding = 16 * 2**-24 * (do.abs() * v.abs()).sum(-1).max()
    assert dq.abs().max() <= rounding * k.abs().max() and dk.abs().max() <= rounding * q.abs().max()


@CAN_RUN
def test_no_gradient_comes_from_the_future(notebook) -> None:
    q, k, v = AttentionProblem(1, 1, 100, 16, dtype="float32").tensors(DEVICE)
    do = torch.randn_like(q)
    do[:, :, 40:] = 0  # only the first 40 outputs count
    dq, dk, dv = gradients(notebook.by_hand, q, k, v, do, causal=True)
    for one in (dq, dk, dv):
        assert (one[:, :, 40:] == 0).all() and (one[:, :, 1:40] != 0).any()


@pytest.mark.skipif(language.mode() == "missing", reason="triton is not installed here")
@pytest.mark.parametrize(("target", "instruction"), [("8.0", "mma.sync"), ("9.0", "wgmma")])
def test_the_kernels_compile_and_use_tensor_cores(notebook, target, instruction) -> None:
    x = torch.empty(4, 1024, 64, dtype=torch.bfloat16, device="meta")
    row = torch.empty(4, 1024, device="meta")
    tile = {"D": 64, "BLOCK": 64, "target": target}
    compile_triton(notebook.delta_kernel, x, x, row, 1000, **tile)
    walks = ((notebook.dkdv_kernel, (x, x), 4), (notebook.dq_kernel, (x,), 3))
    for kernel, written, products in walks:
        arguments = (x, x, x, x, row, row, *written, 1000, 0.125)
        for causal in (True, False):
            compiled = compile_triton(kernel, *arguments, CAUSAL=causal, **tile)
            assert compiled.stages["TTIR"].count("tt.dot ") == products
            assert compiled.counts[instruction] >= products


@INTERPRETED
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", [64, 100, 192])
def test_the_formula_of_bytes_is_what_the_kernels_ask_for(notebook, n, causal) -> None:
    counts = notebook.count_backward(n=n, d=16, causal=causal, block=32)
    problem = AttentionProblem(1, 1, n, 16, causal=causal)
    frame = backward_formula("three_kernels", problem, block_q=32, block_k=32)
    for name, rows in frame.groupby("tensor"):
        said = (int(rows["read_bytes"].sum()), int(rows["written_bytes"].sum()))
        assert counts.bytes("other" if name == "delta" else name) == said, name
    assert counts.launches == 3


class Backward(TorchDispatchMode):
    """Bytes into and out of every operator of a backward pass, views left out."""

    def __init__(self) -> None:
        super().__init__()
        self.moved = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        inputs = [one for one in args if isinstance(one, torch.Tensor) and one.dim()]
        if any(one.data_ptr() == result.data_ptr() for one in inputs):
            return result
        size = result.numel() * result.element_size()
        # masked_fill is a copy and then a fill, on the GPU.
        extra = 2 * size if func._schema.name == "aten::masked_fill" else 0
        self.moved += size + extra + sum(one.numel() * one.element_size() for one in inputs)
        return result


@pytest.mark.parametrize("causal", [False, True])
def test_naives_backward_formula_is_what_autograd_does(causal) -> None:
    problem = AttentionProblem(2, 3, 24, 8, causal=causal)
    leaves = [one.requires_grad_() for one in problem.tensors("cpu")]
    out = IMPLEMENTATIONS["naive"](*leaves, causal=causal)
    do = torch.randn_like(out)
    with Backward() as seen:
        torch.autograd.grad(out, leaves, do)
    frame = backward_formula("naive", problem)
    assert seen.moved == int((frame["read_bytes"] + frame["written_bytes"]).sum())


@pytest.mark.parametrize("causal", [False, True])
def test_queries_are_read_in_whole_tiles_from_the_first_that_sees_a_key(causal) -> None:
    for block_q, block_k in ((16, 16), (16, 64), (64, 16)):
        problem = AttentionProblem(1, 1, 150, 16, causal=causal)
        expected = 0
        for first_key in range(0, 150, block_k):
            for first in range(0, 150, block_q):
                rows = range(first, min(first + block_q, 150))
                if any(visible_keys(row, 150, 150, causal) > first_key for row in rows):
                    expected += len(rows)
        assert queries_read(problem, block_q, block_k) == expected


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("mine", AttentionProblem(1, 1, 8, 16)), "There are: naive"),
        (("naive", AttentionProblem(1, 1, 8, 16, kv_len=9)), "equal lengths"),
        (("three_kernels", AttentionProblem(1, 2, 8, 16, kv_heads=1)), "as many heads"),
    ],
)
def test_what_the_backward_formula_does_not_cover_is_refused(arguments, word) -> None:
    with pytest.raises(ValueError, match=word):
        backward_formula(*arguments)
    with pytest.raises(ValueError, match="power of two"):
        backward_formula("three_kernels", AttentionProblem(1, 1, 8, 16), block_q=24)


def test_the_packages_kernels_do_the_seven_products_that_the_notebook_counts() -> None:
    dkdv = inspect.getsource(flash_backward.visit_queries.fn)
    dq = inspect.getsource(flash_dq.add_keys.fn)
    assert (dkdv.count("tl.dot("), dq.count("tl.dot(")) == (4, 3)


def test_few_steps_start_alike_and_learn_alike() -> None:
    config = replace(SMALL_CONFIG, image=64, depth=1)
    before = torch.random.get_rng_state()
    naive, fused, again, other = (
        few_steps(name, steps=3, batch=2, config=config, seed=seed)
        for name, seed in (("naive", 0), ("sdpa_auto", 0), ("naive", 0), ("naive", 1))
    )
    assert torch.equal(torch.random.get_rng_state(), before)
    losses = [[row["loss"] for row in rows] for rows in (naive, fused, again, other)]
    assert losses[0] == losses[2] and losses[0] != losses[3]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert [row["step"] for row in naive] == [1, 2, 3]
    assert all(row["time_ns"] > 0 and row["peak_bytes"] is None for row in naive)


def test_few_steps_go_downhill(monkeypatch) -> None:
    config = replace(SMALL_CONFIG, image=32, depth=1)
    # The same puzzles each step, so that the losses can be compared with one another.
    same = module_of_steps.puzzle(4, 4, torch.Generator().manual_seed(0))
    images = module_of_steps.pieces(
        [PHOTOGRAPHS[0].pixels()], 4, 32, torch.Generator().manual_seed(0)
    )
    monkeypatch.setattr(module_of_steps, "puzzle", lambda *_: same)
    monkeypatch.setattr(module_of_steps, "pieces", lambda *_: images)
    losses = [row["loss"] for row in few_steps("sdpa_auto", steps=25, batch=4, config=config)]
    assert losses[-1] < 0.8 * losses[0]


def test_a_wrong_attention_is_seen_in_the_losses() -> None:
    config = replace(SMALL_CONFIG, image=64, depth=1)

    def without_scale(q, k, v, *, mask=None):
        return IMPLEMENTATIONS["naive"](q, k, v, scale=5.0)

    right, wrong = (
        [row["loss"] for row in few_steps(one, steps=3, batch=2, config=config)]
        for one in ("naive", without_scale)
    )
    assert right != pytest.approx(wrong, rel=1e-4)


def test_what_is_measured_on_a_gpu_runs_on_a_cpu(notebook) -> None:
    problem = AttentionProblem(1, 1, 32, 16)
    row = notebook.one_length(IMPLEMENTATIONS["naive"], problem, device="cpu")
    assert row["forward_ns"] > 0 and row["backward_ns"] > 0 and row["peak_bytes"] is None
    ends, means = notebook.octaves([float(n) for n in range(64)])
    assert ends == [1, 2, 4, 8, 16, 32, 64] and means[:3] == [0.0, 1.0, 2.5] and means[-1] == 47.5
