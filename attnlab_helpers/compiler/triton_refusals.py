"""What Triton said against a kernel, as an error with the reader's own line."""

from __future__ import annotations

import re
import signal
from typing import Any

from .errors import CompileFailed, Complaint, refused
from .targets import TARGETS, parse_target

FILE = "kernel.py"
_DIAGNOSTIC = re.compile(rf"{re.escape(FILE)}\"?:(\d+):(\d+)\)?: error: (.+)")
_NOISE = re.compile(r"UserWarning|FutureWarning|warn_once|^nvdisasm warning")


def refusal(request: dict[str, Any], said: dict[str, Any], stderr: str) -> CompileFailed:
    """The error for what Triton said, with the reader's line."""
    text = _explained(said["text"], request["plain"])
    complaints = [Complaint(text, said["line"], said["column"])]
    assembler = [line for line in stderr.splitlines() if re.match(r"ptxas\S* ", line)]
    if assembler:
        # The call's own text is a command line with temporary files in it.
        texts = [re.sub(r"/\S+\.ptx, line", "PTX, line", line) for line in assembler]
        complaints = [Complaint("\n".join(dict.fromkeys(texts[:6])))]
    elif said["line"] is None:
        # Failures below Triton's own front end come with lines on standard error.
        found = [
            Complaint(text, int(line), int(column))
            for line, column, text in dict.fromkeys(_DIAGNOSTIC.findall(stderr))
        ]
        complaints = found[:5] or complaints
        last = tail(stderr)
        if not found and last:
            complaints.append(Complaint(last))
    return refused("the Triton compiler", request["kernel"], request["source"], complaints)


def stopped(request: dict[str, Any], code: int, stderr: str) -> CompileFailed:
    """The error for a compiler that did not come to an answer."""
    how = f"with exit code {code}"
    if code < 0:
        how = f"by {signal.Signals(-code).name}"
    target = parse_target(request["capability"])
    why = "the kernel may use what this target does not have"
    if str(target) not in TARGETS:
        why = "this Triton may not know the target (to read code, take a near one of TARGETS)"
    last = tail(stderr) or "(nothing)"
    return CompileFailed(
        f"the Triton compiler itself was ended {how} while compiling {request['kernel']} for "
        f"compute capability {target} ({target.generation}); {why}. It said last:\n\n"
        f"{last}"
    )


def tail(text: str) -> str:
    """The end of what a compiler wrote, without its noise."""
    lines = [line for line in text.splitlines() if line.strip() and not _NOISE.search(line)]
    return "\n".join(line[:300] for line in lines[-6:])


def _explained(text: str, kinds: dict[str, str]) -> str:
    """Triton's words where they say it, else ours. kinds: what names outside the kernel are."""
    missing = re.fullmatch(r"(\w+) is not defined", text)
    if missing and missing[1] in kinds:
        return f"{missing[1]} is {kinds[missing[1]]}"
    again = re.fullmatch(rf"{re.escape(FILE.removesuffix('.py'))}\.(\w+?)__\S*", text)
    if again:  # the name of a function that is not written out to its end
        return (
            f"{again[1]} calls itself with arguments of the same types, so that writing it out "
            "would never end: Triton has no recursion. Use a loop, for ... in range(...)."
        )
    return text
