"""A process that probes batches of cells: they come in as lines of JSON, and rows go out.

Run by `probing`, as ``python -m attnlab_helpers.sdpa.worker DEVICE FOLDER``. It says which cell it
begins, so that the one that takes it down is known.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch.profiler import ProfilerActivity, profile

from ..quiet import hold_c_stderr
from .cell import Cell
from .probe import Poisoned, probe
from .room import Room


def main(device: str, folder: str) -> int:
    """Answer each line {"cells": [...]} with {"begin": n} lines and one {"rows": [...]}."""
    room = Room(Path(folder))
    # Libraries may print to standard output; what is said to the parent has a pipe of its own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=answers, flush=True)

    def begin(place: int) -> None:
        if not room.alone:
            room.enter()  # leaves first: a moment in which somebody may get to be alone
        say({"begin": place})

    @contextmanager
    def alone() -> Iterator[None]:
        room.enter(alone=True)
        yield

    # The profiler loads much when it first starts. And what is loaded now stays for good: the
    # many collections, one before each reading of a peak, skip it.
    with hold_c_stderr(), profile(activities=[ProfilerActivity.CPU]):
        pass
    gc.freeze()
    say({"ready": True})
    for line in sys.stdin:
        cells = [Cell.from_json(data) for data in json.loads(line)["cells"]]
        try:
            rows = probe(cells, begin, alone, device)
        except Poisoned as error:
            say({"poisoned": str(error)})
            return 1
        finally:
            room.leave()
        say({"rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
