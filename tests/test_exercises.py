"""The exercises of the notebooks: the start is not yet right, the solution is, mistakes are not.

Each notebook's set-up cells run in a kernel, and then its exercises. Solutions are taken from the
text, folded away as a reader finds them. WRONG holds mistakes that a reader could make.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from exercise_mistakes import WRONG

from attnlab_helpers.building import check
from attnlab_helpers.building.execute import kernel_for
from attnlab_helpers.building.source import read_source

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
SOURCES = sorted((FOLDER / "source").glob("[0-9]*.md"))
EACH = pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
HINT = re.compile(r"<details><summary>Hint</summary>\n\n.+?\n\n</details>", re.DOTALL)
SOLUTION = re.compile(
    r"<details><summary>A solution</summary>.*?```python\n(.+?)\n```.*?</details>", re.DOTALL
)
FEWEST, MOST = 3, 5


@dataclass
class Exercise:
    """One exercise: its number, the cells that start and check it, and the text below them."""

    number: int
    start: str
    check: str
    text: str

    @property
    def solution(self):
        return SOLUTION.search(self.text)[1]


def exercises(notebook):
    """The exercises of a notebook's section `Try it`, in order."""
    starts = [n for n, cell in enumerate(notebook.cells) if "\n## Try it" in "\n" + cell.source]
    assert len(starts) == 1, "one section `## Try it` is wanted"
    found = []
    for cell in notebook.cells[starts[0] :]:
        if cell.cell_type == "markdown":
            # A cell may end one exercise and begin the next.
            for part in re.split(r"^(?=### )", cell.source, flags=re.MULTILINE):
                heading = re.match(r"### (?:(\d+)\. |Further)", part)
                if heading:
                    found.append(Exercise(int(heading[1] or 0), "", "", ""))
                if found:
                    found[-1].text += part + "\n\n"
        elif "check" in check.tags(cell):
            found[-1].check = cell.source
        else:  # what to change; before it perhaps what it works with, such as a class
            found[-1].start += cell.source + "\n\n\n"
    return [one for one in found if one.number]


class Reader:
    """A session in which somebody works through exercises."""

    def __init__(self, session, notebook):
        self.session = session
        for index, cell in enumerate(notebook.cells):
            if "setup" in check.tags(cell):
                session.run_cell(cell, index)

    def told(self, exercise, answer):
        """What the check prints when the exercise's cell holds `answer`."""
        from nbformat.v4 import new_code_cell

        self.session.run_code(exercise.start)
        self.session.run_code(answer)
        cell = new_code_cell(exercise.check)
        self.session.run_cell(cell, 0)
        streams = [one for one in cell.outputs if one.output_type == "stream"]
        assert {one.name for one in streams} == {"stdout"}, streams
        return "".join(one.text for one in streams).strip()


@EACH
def test_there_are_three_to_five_with_a_hint_a_check_and_a_solution(path):
    notebook = read_source(path)
    found = exercises(notebook)
    fewest = 2 if path.stem.startswith("00") else FEWEST
    elsewhere = 1 if path.stem.startswith("06") else 0  # 06 has its first one in section 5
    assert fewest <= len(found) + elsewhere <= MOST
    first = 1 + elsewhere
    assert [one.number for one in found] == list(range(first, first + len(found)))
    for one in found:
        assert one.start and one.check, f"exercise {one.number} lacks its cell or its check"
        assert len(HINT.findall(one.text)) == 1, f"exercise {one.number} lacks a hint"
        assert len(SOLUTION.findall(one.text)) == 1, f"exercise {one.number} lacks a solution"
        assert f"def check_{one.number}(" in one.check
        assert "# <-" in one.start, f"exercise {one.number} does not mark what to change"


@EACH
def test_every_exercise_has_mistakes_to_try(path):
    """Here, or in the tests of the notebook itself."""
    number = path.stem[:2]
    if number not in WRONG:
        own = Path(__file__).with_name(f"test_notebook_{number}.py")
        assert own.is_file() and "check_" in own.read_text(), f"no mistakes for notebook {number}"
        return
    assert set(WRONG[number]) == {one.number for one in exercises(read_source(path))}


@pytest.mark.slow
@pytest.mark.parametrize("number", sorted(WRONG))
def test_the_start_is_not_yet_right_the_solution_is_and_mistakes_are_not(number):
    if number == "06":
        pytest.importorskip("triton")
    (path,) = [path for path in SOURCES if path.stem.startswith(number)]
    notebook = read_source(path)
    with kernel_for(notebook, FOLDER, path.stem) as session:
        reader = Reader(session, notebook)
        for exercise in exercises(notebook):
            name = f"{path.stem}, exercise {exercise.number}"
            told = reader.told(exercise, "")
            assert told.startswith("not yet: "), f"{name}, untouched: {told}"
            for mistake in WRONG[number][exercise.number]:
                told = reader.told(exercise, mistake)
                assert told.startswith("not yet: "), f"{name}: {told}\n{mistake}"
                assert "\n" not in told, f"{name}: more than a sentence\n{told}"
            told = reader.told(exercise, exercise.solution)
            assert told.startswith("right"), f"{name}, the solution: {told}"


@pytest.mark.slow
def test_the_wide_addition_of_notebook_06_is_recognised():
    """Its exercise stands in section 5, and its solution opens section 6."""
    pytest.importorskip("cuda.bindings.nvrtc")
    (path,) = [path for path in SOURCES if path.stem.startswith("06")]
    notebook = read_source(path)
    code = [cell.source for _, cell in check.code_cells(notebook)]
    (checking,) = [source for source in code if "def check_vectorised" in source]
    (solution,) = [source for source in code if source.startswith("CUDA_ADD_WIDE = ")]
    solution = solution.split("wide = compile_cuda")[0]
    narrow_store = "CUDA_ADD_WIDE.replace('*reinterpret_cast<float4 *>(z + i) = c;', "
    narrow_store += "'z[i] = c.x; z[i + 1] = c.y; z[i + 2] = c.z; z[i + 3] = c.w;')"
    with kernel_for(notebook, FOLDER, path.stem) as session:
        reader = Reader(session, notebook)
        exercise = Exercise(1, "YOUR_ADD = CUDA_ADD", checking, "")
        assert reader.told(exercise, "").startswith("not yet: ")
        wide = f"{solution}\nYOUR_ADD = CUDA_ADD_WIDE"
        assert reader.told(exercise, wide).startswith(("128 bits wide", "right"))
        half = f"{solution}\nYOUR_ADD = {narrow_store}"
        assert reader.told(exercise, half).startswith("not yet: ")
