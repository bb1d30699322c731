"""The process in which `count_in_process` counts: a task comes in as JSON, the counts go out.

Run as ``python -m attnlab_helpers.traffic.counting_child`` with TRITON_INTERPRET=1 set.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

from .counts import Counts


def main() -> int:
    """Answer one task; what goes wrong is the last line on standard error."""
    # A kernel may print: what is said to the parent has a pipe of its own.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    task = json.load(sys.stdin)
    try:
        module, name = task["function"].split(":")
        counts = getattr(importlib.import_module(module), name)(**task["settings"])
        if not isinstance(counts, Counts):
            raise TypeError(f"{name} must return the Counts that `count` gave, not {counts!r}.")
    except SystemExit:
        print(f"{task['function']} ended the process; it must return Counts.", file=sys.stderr)
        return 1
    except Exception as error:
        print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    json.dump(counts.to_json(), answer)
    answer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
