"""Probes many cells in worker processes that may crash or hang: that costs the cell alone."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .cell import Cell

Row = dict[str, Any]
WORKER = (sys.executable, "-m", "attnlab_helpers.sdpa.worker", "cuda")
START_S = 120.0  # a worker loads PyTorch and makes a CUDA context
MOST_RESTARTS = 50


@dataclass
class Work:
    """Batches still to be probed, and what was found; shared by the threads of one `probe_all`."""

    cells: Sequence[Cell]
    batches: deque[list[int]]
    deadline: float
    rows: list[Row] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    restarts: int = 0
    failure: str = ""

    def next_batch(self) -> list[int] | None:
        with self.lock:
            if time.monotonic() > self.deadline or not self.batches:
                return None
            return self.batches.popleft()

    def keep(self, batch: list[int], rows: list[Row]) -> None:
        with self.lock:
            self.rows += [row | {"cell": batch[row["cell"]]} for row in rows]

    def lost(self, batch: list[int], place: int | None, status: str, reason: str) -> None:
        """A worker died: its cell is the result, the rest of the batch is tried again."""
        with self.lock:
            self.restarts += 1
            rest = list(batch)
            if place is None:  # not even begun: the next worker would fare no better
                self.failure, rest = reason, []
                self.batches.clear()
            if place is not None:
                row = {"cell": rest.pop(place), "asked": "auto", "status": status}
                self.rows.append(row | {"reason": reason})
            if rest and self.restarts <= MOST_RESTARTS:
                self.batches.appendleft(rest)


def probe_all(
    cells: Sequence[Cell],
    *,
    seconds: float,
    workers: int = 1,
    batch: int = 24,
    patience: float = 60.0,
    command: Sequence[str] = WORKER,
) -> list[Row]:
    """Probe `cells` in order, for at most about `seconds`; rows as `probe` gives them.

    The row's "cell" is the place in `cells`. workers: processes at the same time; times are
    taken by one alone. patience: seconds for one cell, after which it counts as "hung". A cell
    that takes its process down has one row, with the status "crashed" or "hung". command: what
    to start as a worker (tests put another there).
    """
    places = list(range(len(cells)))
    batches = deque(places[start : start + batch] for start in range(0, len(cells), batch))
    work = Work(cells, batches, time.monotonic() + seconds)
    with tempfile.TemporaryDirectory(prefix="attnlab") as folder:
        threads = [
            threading.Thread(target=_serve, args=(work, [*command, folder], patience))
            for _ in range(max(1, min(workers, len(batches))))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if work.failure:
        raise RuntimeError(f"a worker ended before it began a cell: {work.failure}")
    return sorted(work.rows, key=lambda row: row["cell"])


def _serve(work: Work, command: list[str], patience: float) -> None:
    worker: _Worker | None = None
    try:
        while (batch := work.next_batch()) is not None:
            if worker is None:
                worker = _Worker(command)
            rows, place, status, reason = worker.ask([work.cells[n] for n in batch], patience)
            if rows is not None:
                work.keep(batch, rows)
                continue
            worker.end()
            worker = None
            work.lost(batch, place, status, reason)
    finally:
        if worker is not None:
            worker.end()


class _Worker:
    """One process and the thread that reads its answers."""

    def __init__(self, command: list[str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._is_ready = False

    def _listen(self) -> None:
        for line in self._process.stdout:
            self._answers.put(json.loads(line))
        self._answers.put(None)

    def ask(
        self, cells: list[Cell], patience: float
    ) -> tuple[list[Row] | None, int | None, str, str]:
        """(rows, None, "", "") or (None, the cell that ended it, status, reason)."""
        question = json.dumps({"cells": [cell.to_json() for cell in cells]})
        place: int | None = None
        try:
            self._process.stdin.write(question + "\n")
            self._process.stdin.flush()
            while True:
                answer = self._answers.get(timeout=patience if self._is_ready else START_S)
                self._is_ready = True
                if answer is None:
                    return None, place, "crashed", self._last_words()
                if "poisoned" in answer:
                    return None, place, "crashed", answer["poisoned"]
                if "rows" in answer:
                    return answer["rows"], None, "", ""
                place = answer.get("begin", place)
        except queue.Empty:
            return None, place, "hung", f"no answer within {patience:g} s"
        except OSError:
            return None, place, "crashed", self._last_words()

    def _last_words(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        how = f"signal {-code}" if code < 0 else f"exit status {code}"
        return f"{how}: {lines[-1][:200]}" if lines else how

    def end(self) -> None:
        """Stop the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        self._listener.join()
        self._process.stdout.close()
        with contextlib.suppress(OSError):  # a question that nobody read
            self._process.stdin.close()
        self._errors.close()
