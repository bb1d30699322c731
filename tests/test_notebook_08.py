"""Notebook 08 as the reader has it: each step's kernel, what is counted, and the exercises."""

import ast
import re
from pathlib import Path

import pytest

from attnlab_helpers.building import check
from attnlab_helpers.building.execute import kernel_for
from attnlab_helpers.building.source import read_source
from attnlab_helpers.kernels import language

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
NAME = "08_flash_attention_forward"
STEPS = ("step_1", "step_2", "step_3", "step_4")
# What the tests ask of the notebook's own functions, in the notebook's own process.
JUDGE = """
def judge(call, dtype, causal, n, d, kv_len=None):
    problem = AttentionProblem(2, 3, n, d, kv_len=kv_len, dtype=dtype)
    q, k, v = problem.tensors(DEVICE, seed=n)
    right = reference(q, k, v, causal=causal)
    plain = IMPLEMENTATIONS["naive"](q, k, v, causal=causal)
    allowed = (plain.double() - right).abs().max().item()
    floor = {"float16": 2**-11, "float32": 2**-24}[dtype] * right.abs().max().item()
    found = call(q, k, v, causal=causal)
    assert found.shape == q.shape and found.dtype == q.dtype
    error = (found.double() - right).abs().max().item()
    assert error <= 2 * allowed + floor, (dtype, causal, n, d, error, allowed)
"""
pytestmark = pytest.mark.skipif(
    language.mode() not in ("compiled", "interpreter"), reason="no kernel can run here"
)


@pytest.fixture(scope="module")
def source():
    return read_source(FOLDER / "source" / f"{NAME}.md")


def definitions(code: str) -> str:
    """A cell's functions, constants and answers, without what it computes and shows."""
    kept = [
        node
        for node in ast.parse(code).body
        if isinstance(node, ast.FunctionDef)
        or (isinstance(node, ast.Assign) and re.match(r"[A-Z]+ |answer_", ast.unparse(node)))
    ]
    return "\n\n".join(map(ast.unparse, kept))


@pytest.fixture(scope="module")
def notebook(source):
    """A process in which the set-up, every definition and the exercises' start have run."""
    with kernel_for(source, FOLDER, NAME) as session:
        for index, cell in enumerate(source.cells):
            if "setup" in check.tags(cell):
                session.run_cell(cell, index)
            elif cell.cell_type == "code":
                session.run_code(definitions(cell.source))
        session.run_code(JUDGE)
        yield session


def exercises(source):
    """(number, the check's source, the solution's code) of each exercise."""
    found = []
    text = "\n".join(cell.source for cell in source.cells if cell.cell_type == "markdown")
    solutions = re.findall(r"A solution</summary>\s*```python\n(.*?)```", text, re.DOTALL)
    checks = [cell.source for cell in source.cells if "check" in check.tags(cell)]
    for solution, tested in zip(solutions, checks, strict=True):
        found.append((re.search(r"def check_(\d)", tested)[1], tested, solution))
    return found


@pytest.mark.parametrize("step", STEPS)
def test_each_step_is_attention(notebook, step) -> None:
    notebook.run_code(
        f"for causal in (False, True):\n"
        f"    for n, d in ((1, 16), (17, 64), (64, 32), (127, 64), (200, 16)):\n"
        f"        judge({step}, 'float16', causal, n, d)\n"
    )


def test_the_last_kernel_in_float32_and_with_other_keys(notebook) -> None:
    notebook.run_code("""
def small(q, k, v, causal):
    return attend(q, k, v, causal, tile=(32, 16))

for n, kv_len in ((65, None), (3, 90), (100, 7)):
    judge(small, "float32", False, n, 32, kv_len)
judge(small, "float32", True, 65, 64)
""")


def test_a_configuration_changes_no_result(notebook) -> None:
    notebook.run_code("""
for block_q, block_k, warps, stages in configurations():
    more = {"tile": (block_q, block_k), "warps": warps, "stages": stages}
    judge(lambda q, k, v, causal: attend(q, k, v, causal, **more), "float16", True, 150, 64)
""")


def test_the_statistic_is_the_log_sum_exp(notebook) -> None:
    notebook.run_code("""
q, k, v = AttentionProblem(1, 2, 70, 16, dtype="float16", causal=True).tensors(DEVICE)
scores = q.double() @ k.double().mT / 4
future = torch.ones(70, 70, dtype=torch.bool, device=DEVICE).triu(1)
for causal in (False, True):
    right = (scores.masked_fill(future, -math.inf) if causal else scores).logsumexp(-1)
    found = attend(q, k, v, causal, return_lse=True)[1]
    torch.testing.assert_close(found.double(), right, rtol=1e-5, atol=1e-5)
""")


def test_tiles_are_counted_as_they_are_visited(notebook) -> None:
    notebook.run_code("""
for n, block_q, block_k in ((100, 16, 32), (64, 64, 16), (65, 32, 32), (5, 16, 16)):
    one = torch.zeros(n, 1)
    walk = list(online_softmax.tiled_attention_steps(
        one, one, one, causal=True, block_q=block_q, block_k=block_k
    ))
    visited = sum(step.state != "skipped" for step in walk)
    assert sum(tiles_a_program(n, block_q, block_k, True)) == visited
    assert sum(tiles_a_program(n, block_q, block_k, False)) == len(walk)
""")


def test_folding_the_scale_leaves_one_instruction_of_three(notebook) -> None:
    notebook.run_code("""
before = inner_loop(compiled(first_kernel, SKIP=True))
after = inner_loop(compiled(flash_kernel, PRECISION="ieee"))

def number(loop, start):
    return sum(name.startswith(start) for name in loop)

for loop in (before, after):
    assert 32 <= number(loop, "ex2") < 64 and number(loop, "wgmma.mma") == 8
assert number(before, "mul.f32") - number(after, "mul.f32") >= 64
assert number(before, "sub.f32") - number(after, "sub.f32") >= 32
assert number(after, "fma.rn.f32") - number(before, "fma.rn.f32") >= 32
""")


def test_the_imitation_is_attention_and_its_rounding_is_what_it_says(notebook) -> None:
    notebook.run_code("""
q, k, v = problem_in("ieee")
for count, found in enumerate(running_results(q[0, 0], k[0, 0], v[0, 0], ROUND["ieee"]), 1):
    right = reference(q, k[:, :, : 64 * count], v[:, :, : 64 * count])[0, 0]
    assert relative_error(found, right) < 1e-6
x = 10 * torch.randn(1000)
step = 2.0 ** (torch.floor(torch.log2(x.abs())) - 10)
cut = ROUND["tf32"](x)
assert ((cut / step).frac() == 0).all() and (cut.abs() <= x.abs()).all()
assert ((x - cut).abs() < step).all()
""")


def test_what_naive_holds_is_counted_right(notebook) -> None:
    notebook.run_code("""
matrix = 16 * 4096**2 * 2
assert 2 * matrix <= naive_peak(4096) < 2.1 * matrix
out, lse = torch.empty(1, 16, 4096, 64, dtype=torch.bfloat16), torch.empty(1, 16, 4096)
assert fused_peak(4096) == out.nbytes + lse.nbytes
""")


@pytest.mark.parametrize("number", ["1", "2", "3", "4"])
def test_exercises_tell_right_from_not_yet(notebook, source, number) -> None:
    found = {one: (tested, solution) for one, tested, solution in exercises(source)}
    tested, solution = found[number]
    name = re.search(r"print\(check_\d\((\w+)\)\)", tested)[1]
    notebook.run_code(f"{tested}\nassert check_{number}({name}).startswith('not yet')")
    for wrong in WRONG[number]:
        notebook.run_code(f"{wrong}\nassert check_{number}(wrong).startswith('not yet')")
    kept = f"kept = {name}\n"
    notebook.run_code(f"{kept}{solution}\nassert check_{number}({name}) == 'right'\n{name} = kept")


def changed(kernel_line: str, other: str) -> str:
    """Code that makes `wrong`: the reader's window kernel with one line replaced."""
    return f"""
import inspect, linecache
text = inspect.getsource(window_kernel.fn)
assert {kernel_line!r} in text
text = text.replace({kernel_line!r}, {other!r}).replace("window_kernel", "wrong")
linecache.cache["wrong.py"] = (len(text), None, text.splitlines(True), "wrong.py")
exec(compile(text, "wrong.py", "exec"))
"""


VISIBLE = "visible = keys[None, :] <= queries[:, None]"
AGO = "(keys[None, :] {} queries[:, None] - WINDOW)"
WRONG = {
    "1": [
        "wrong = lambda n, block_q, block_k: (n // block_q) * (n // block_q + 1) // 2",
        "wrong = lambda n, block_q, block_k: (-(-n // block_q)) * (-(-n // block_k))",
        "wrong = lambda n, block_q: 1",
        "wrong = None",
    ],
    "2": [
        "wrong = lambda query, keys, lse, scale: torch.exp(keys @ query * scale)",
        "wrong = lambda query, keys, lse, scale: torch.exp(keys @ query - lse)",
        "wrong = lambda query, keys, lse, scale: (keys @ query * scale).exp() / lse.exp()",
        "wrong = lambda query, keys, lse, scale: None",
    ],
    "3": [
        # Only a mask: rows whose first tiles are hidden become NaN.
        changed(VISIBLE, f"{VISIBLE} & {AGO.format('>')}"),
        changed("acc / l[:, None]", "acc"),
        "wrong = None",
    ],
    "4": [
        "wrong = (2**15, 2**24)",
        "wrong = (2**16, 2**25)",
        "wrong = 2**15",
        "wrong = ('long', 'longer')",
    ],
}
