"""Executes a notebook's cells in a fresh kernel; a failing cell becomes a message one can read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from attnlab_helpers.building.tracebacks import ANSI

CELL_TIMEOUT_S = 900


class CellFailed(Exception):
    """A cell raised, ran too long, or took its kernel down. The text says where and what."""


def _message(name: str, number: int, cell: NotebookNode, error: str) -> str:
    text = "\n".join(f"    {line}" for line in cell.source.splitlines())
    return f"{name}: cell {number} failed.\n\n{text}\n\n{ANSI.sub('', error).strip()}\n"


def _error_text(cell: NotebookNode, fallback: str) -> str:
    """The cell's own traceback as IPython shows it, else what nbclient says."""
    for output in cell.get("outputs", []):
        if output.output_type == "error":
            return "\n".join(output.traceback) or f"{output.ename}: {output.evalue}"
    return fallback


class Session:
    """One kernel in which the cells of one notebook are run, in any order and more than once."""

    def __init__(self, client: NotebookClient, name: str) -> None:
        self._client = client
        self._name = name

    def run_cell(self, cell: NotebookNode, index: int) -> None:
        """Runs one code cell and keeps its outputs in it; other cells are passed over.

        index: the cell's place in the notebook, from 0. Raises CellFailed, except for an error
        in a cell tagged `raises-exception`.
        """
        if cell.cell_type != "code":
            return
        try:
            self._client.execute_cell(cell, index)
        except CellExecutionError as error:
            text = _error_text(cell, str(error))
        except CellTimeoutError:
            text = f"It ran for more than {CELL_TIMEOUT_S} s and was stopped."
        except DeadKernelError:
            text = "The kernel died in this cell (out of memory, or a crash in compiled code)."
        else:
            return
        raise CellFailed(_message(self._name, index + 1, cell, text)) from None

    def run_code(self, code: str) -> None:
        """Runs code that is no cell of the notebook. Raises CellFailed."""
        from nbformat.v4 import new_code_cell

        self.run_cell(new_code_cell(code), 0)


@contextmanager
def kernel_for(
    notebook: NotebookNode,
    folder: str | Path,
    name: str,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Session]:
    """A fresh kernel that works in `folder`, for `notebook`; `name` appears in error messages.

    variables: environment variables of the kernel, beside those of this process.
    """
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=CELL_TIMEOUT_S,
        record_timing=False,
        # Model ids are random, and a page without the state shows an error in a widget's place.
        store_widget_state=False,
        # Kernels warn on the terminal about how they talk to us; errors are still shown.
        extra_arguments=["--log-level=40"],
        resources={"metadata": {"path": str(folder)}},
    )
    # The debugger's warning about frozen modules goes to the terminal and says nothing to us.
    environment = os.environ | {"PYDEVD_DISABLE_FILE_VALIDATION": "1"} | dict(variables or {})
    with client.setup_kernel(env=environment):
        yield Session(client, name)


def execute(
    notebook: NotebookNode,
    folder: str | Path,
    name: str,
    variables: Mapping[str, str] | None = None,
) -> None:
    """Runs every code cell in order in one fresh kernel; outputs are kept in `notebook`.

    Errors are accepted in cells tagged `raises-exception` only; elsewhere CellFailed is raised.
    """
    with kernel_for(notebook, folder, name, variables) as session:
        for index, cell in enumerate(notebook.cells):
            session.run_cell(cell, index)
