"""The house: results flow one way, files stay small, and nothing names a machine."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "attnlab_helpers"
# From left to right; a module may import from its own place or from further left.
ORDER = (
    {"quiet", "units", "environment", "options", "triton_support", "missing_gpu"},
    {"machine", "gpus"},
    {"problem"},
    {"kernels"},
    {"attention", "vit"},
    {"profiling"},
    {"recordings", "fingerprint"},
    {"compiler"},
    {"measuring", "result", "comparison", "study", "sdpa", "traffic"},
    {"plots"},
    {"__init__"},
    {"building", "record", "figures"},
    {"report_template", "reports", "lab", "offline_kit"},
)
# Pictures stand to the right of results, but a result may be asked to draw itself: these load
# `plots` inside a method, when it is called.
MAY_DRAW = {"result.py", "comparison.py", "accounts.py"}


def place(module: str) -> int:
    for position, names in enumerate(ORDER):
        if module in names:
            return position
    raise AssertionError(f"{module} has no place in the house: add it to ORDER")


def imported_parts(path: Path) -> list[tuple[str, bool]]:
    """Parts of the package that a file imports, and whether it does so when it is loaded."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
    }
    for_types = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    here = path.relative_to(PACKAGE).parent.parts
    found = []
    for node in ast.walk(tree):
        names = []
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            names = [parts[1:] or ["__init__"] for parts in names if parts[0] == "attnlab_helpers"]
        elif isinstance(node, ast.ImportFrom):
            parts = (node.module or "").split(".") if node.module else []
            if node.level:
                parts = [*here[: len(here) - node.level + 1], *parts]
            elif parts[:1] == ["attnlab_helpers"]:
                parts = parts[1:]
            else:
                continue
            names = [parts] if parts else [[alias.name] for alias in node.names]
        found += [(parts[0], id(node) not in inside) for parts in names]
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.name)
def test_results_flow_one_way(path) -> None:
    part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for imported, when_loaded in imported_parts(path):
        if imported == "plots" and path.name in MAY_DRAW and not when_loaded:
            continue
        assert place(imported) <= place(part), f"{path.name} imports {imported}, to its right"


def test_a_file_fits_in_a_readers_head() -> None:
    long = {
        path.name: lines
        for path in PACKAGE.rglob("*.py")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > 300
    }
    assert not long


def test_every_file_says_in_its_first_line_which_idea_it_holds() -> None:
    for path in [*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        assert text.startswith('"""') and len(text.splitlines()[0]) > 20, path.name


def test_nothing_names_a_machine() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    pattern = re.compile(r"(/home/[a-z]+/|/root/|/Users/[A-Za-z]+/)")
    for name in listed.stdout.decode().splitlines():
        path = ROOT / name
        if path == Path(__file__) or not path.is_file() or path.suffix in {".png", ".gz"}:
            continue
        found = pattern.search(path.read_text(encoding="utf-8", errors="ignore"))
        assert not found, f"{name} holds {found.group()}"
