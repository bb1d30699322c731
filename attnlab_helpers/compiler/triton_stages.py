"""Triton kernels: compiled in a process of their own, for any target, without a GPU."""

from __future__ import annotations

import base64
import functools
import inspect
import json
import operator
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import recorded, triton_internals
from .arguments import argument, constant, function_under, shown
from .compiled import Compiled, fresh
from .errors import CompileFailed, CompilerMissing
from .machine_code import machine_stage
from .shipping import Shipment, decorators, plain_function, ship
from .targets import Target, parse_target
from .tidying import tidy
from .triton_refusals import FILE, refusal, stopped

LIMIT_SECONDS = 120
_WORKER = Path(__file__).with_name("worker.py")
# Launch options that a call may name beside the kernel's own constants.
_TUNERS = ("autotune", "heuristics")
_LAUNCH_OPTIONS = ("num_ctas", "maxnreg")
MAX_WARPS = 32  # of a block, which has at most 1024 threads: CUDA C++ Programming Guide
_MISSING = (
    "Triton is not installed. It exists for Linux (pip install triton); there is no build for "
    "macOS and Windows."
)
# Variables that would make the compiler answer for something else than was asked.
_NOT_FOR_THE_CHILD = ("TRITON_INTERPRET", "TRITON_OVERRIDE_ARCH")


def compile_triton(
    kernel: Callable[..., Any],
    *arguments: Any,
    target: object = None,
    num_warps: int = 4,
    num_stages: int = 3,
    **constants: Any,
) -> Compiled:
    """What a Triton kernel becomes for `target`, stage by stage; no GPU and no driver needed.

    The arguments are those of a launch: `kernel[grid](x, y, out, n, BLOCK=1024)` becomes
    `compile_triton(kernel, x, y, out, n, target="9.0", BLOCK=1024)`. kernel: from @triton.jit
    (compiled or interpreted), or a plain function. A tensor may live anywhere ("meta" too: its
    dtype and whether its address is a multiple of 16 bytes are what counts); an int becomes i32
    or i64, with a note if 16 divides it, and a constant if it is 1, as in Triton's own launcher; a
    float becomes fp32; a text is a type: "*bf16", "*fp32:16" (aligned), "i32:16". target: see
    `parse_target`; None is this machine's GPU. The second call for the same kernel takes no time.

    Raises CompileFailed with the reader's line, CompilerMissing where there is no Triton and
    nothing was recorded for this kernel, TypeError for arguments that do not fit, ValueError for
    an unknown target or a kernel whose source cannot be read.
    """
    goal = parse_target(target)
    options = {"num_warps": num_warps, "num_stages": num_stages}
    function = plain_function(kernel)
    own = inspect.signature(function).parameters
    for name in _LAUNCH_OPTIONS:
        if name in constants and name not in own:
            options[name] = constants.pop(name)
    options = {name: _whole(name, value) for name, value in options.items()}
    bound = _bound(function, arguments, constants)
    functions = tuple(value for value in bound.arguments.values() if function_under(value))
    shipment = ship(kernel, functions)
    given = [_given(shipment, name, value) for name, value in bound.arguments.items()]
    request = _request(shipment, function.__name__, given, goal, options)
    if triton_internals.folder() is None:
        found = recorded.find("Triton", function.__name__, str(goal), _key(request), _MISSING)
        return replace(found, **_labelled(request))
    settings = {name: value for name, value in _environment().items() if name.startswith("TRITON")}
    compiled = _compile(json.dumps(request, sort_keys=True), json.dumps(settings, sort_keys=True))
    compiled = recorded.with_machine_code(fresh(compiled))
    recorded.save_if_asked(compiled)
    return compiled


def _whole(name: str, value: Any) -> int:
    """A launch option as a number, checked before Triton stumbles over it."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}={value!r}: a whole number is wanted, as {name}=4.") from None
    if name == "num_warps" and (number < 1 or number & (number - 1)):
        raise ValueError(
            f"num_warps={number}: a block has 1, 2, 4, 8, 16 or 32 warps (a power of two)."
        )
    if number < 0:
        raise ValueError(f"{name}={number}: it cannot be negative.")
    return number


def _missing(error: TypeError) -> str:
    return str(error).rpartition("argument: ")[2].strip("'")


def _bound(
    function: Callable[..., Any], arguments: tuple[Any, ...], constants: dict[str, Any]
) -> inspect.BoundArguments:
    """The arguments by their names. Raises TypeError with the names, and who else gives them."""
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*arguments, **constants)
    except TypeError as error:
        text = f"{function.__name__}: {error}. Its parameters: {', '.join(signature.parameters)}"
        if tuners := [name for name in decorators(function) if name in _TUNERS]:
            text += (
                f". What {' and '.join(f'@triton.{name}' for name in tuners)} would choose when "
                f"the kernel is launched has to be given here by name: {_missing(error)}=..."
            )
        raise TypeError(text) from None
    bound.apply_defaults()
    return bound


def _given(shipment: Shipment, name: str, value: Any) -> dict[str, Any]:
    if "constexpr" in shipment.parameters[name] or function_under(value):
        return constant(value, name)
    return argument(value, name)


def _request(
    shipment: Shipment, kernel: str, given: list[dict[str, Any]], target: Target, options: dict
) -> dict[str, Any]:
    return {
        "file": FILE,
        "source": shipment.source,
        "kernel": kernel,
        "functions": shipment.functions,
        "modules": shipment.modules,
        "references": shipment.references,
        "constants": shipment.constants,
        "aliases": shipment.aliases,
        "plain": shipment.plain,
        "arguments": given,
        "capability": target.number,
        "options": options,
    }


def _environment() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if name not in _NOT_FOR_THE_CHILD}


@functools.lru_cache(maxsize=128)
def _compile(request_text: str, settings: str) -> Compiled:
    """Compile once for each request; settings: Triton's variables, which may change the result."""
    request = json.loads(request_text)
    reply = _ask(request)
    return _compiled(request, reply, parse_target(request["capability"]), _key(request))


def _key(request: dict[str, Any]) -> str:
    # Modules and references are left out: they are unknown where triton is missing.
    fields = ("source", "kernel", "constants", "arguments", "capability", "options")
    return recorded.key({name: request[name] for name in fields} | {"language": "Triton"})


def _labelled(request: dict[str, Any]) -> dict[str, dict[str, str]]:
    """What was chosen for this kernel, and the types of its arguments, for labels."""
    given = request["arguments"]
    settings = {one["name"]: shown(one) for one in given if "constant" in one}
    settings |= {name: str(value) for name, value in request["options"].items()}
    types = {one["name"]: shown(one) for one in given if "type" in one}
    return {"settings": settings, "arguments": types}


def _ask(request: dict[str, Any]) -> dict[str, Any]:
    """What the worker answers; its errors are raised."""
    name = request["kernel"]
    with tempfile.TemporaryDirectory(prefix="attnlab-") as folder:
        # A cache of its own: the usual place may not be writable, and it keeps old line numbers.
        environment = _environment() | {"TRITON_CACHE_DIR": str(Path(folder, "cache"))}
        try:
            # -P: the worker's own folder is no place to import from.
            done = subprocess.run(
                [sys.executable, "-P", str(_WORKER)],
                input=json.dumps(request | {"folder": folder}),
                capture_output=True,
                text=True,
                encoding="utf-8",
                errors="replace",
                timeout=LIMIT_SECONDS,
                env=environment,
            )
        except subprocess.TimeoutExpired:
            raise CompileFailed(
                f"the Triton compiler was not done with {name} after {LIMIT_SECONDS} seconds and "
                "was stopped. Long unrolled loops (tl.static_range) and large blocks do that."
            ) from None
    if done.returncode or not done.stdout.strip():
        raise stopped(request, done.returncode, done.stderr)
    reply = json.loads(done.stdout)
    if "moved" in reply:
        raise CompilerMissing(reply["moved"])
    if "refused" in reply:
        raise refusal(request, reply["refused"], done.stderr)
    return reply


def _compiled(request: dict[str, Any], reply: dict[str, Any], target: Target, key: str) -> Compiled:
    cubin = base64.b64decode(reply["cubin"])
    stages, maps = {}, {}
    for name, text in reply["stages"].items():
        stages[name], maps[name] = tidy(name, text, FILE, reply["entry"])
    machine = machine_stage(cubin, reply["entry"], FILE, stages["PTX"])
    if machine.text is not None:
        stages["SASS"], maps["SASS"] = machine.text, machine.lines
    warps = request["options"]["num_warps"]
    notes = (*machine.notes, *target.too_much(reply["shared"]))
    if warps > MAX_WARPS:
        notes += (
            f"It compiles, and cannot be launched: {warps} warps are {32 * warps:,} threads, and a "
            f"block has at most {32 * MAX_WARPS:,}. Take num_warps={MAX_WARPS} or fewer.",
        )
    return Compiled(
        name=request["kernel"],
        language="Triton",
        target=str(target),
        source=request["source"],
        stages=stages,
        provenance=f"compiled here by triton {reply['version']} for compute capability {target}",
        entry=reply["entry"],
        counts=machine.counts | {"shared_bytes": reply["shared"]},
        line_maps=maps,
        cubin=cubin,
        shared_bytes=reply["shared"],
        num_warps=warps,
        notes=notes,
        key=key,
        **_labelled(request),
    )
