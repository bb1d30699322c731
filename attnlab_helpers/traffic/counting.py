"""Counting bytes: run kernels in Triton's interpreter and look at every load and store."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

from ..problem import AttentionProblem
from .counts import Counts
from .interpreter_hooks import CountingUnavailable, watching
from .owners import OTHER, Owners
from .tally import Tally

OF_A_PROBLEM = "QKVOSP"  # tensors that hold numbers of a problem's dtype


def count(
    launch: Callable[[], Any],
    tensors: Mapping[str, torch.Tensor],
    *,
    outputs: Sequence[str] = ("O", "statistics"),
    element_bytes: Mapping[str, int] | AttentionProblem | None = None,
    programs: bool = False,
) -> Counts:
    """Run `launch` in Triton's interpreter and count the bytes of each tensor.

    launch: launches any Triton kernels, yours too. tensors: name -> CPU tensor that the kernels
    get (views of one storage may have names of their own). Tensors that `launch` returns are
    named, too: by `outputs` in their order, or by their keys in a dict. What belongs to no
    named tensor is counted as "other"; a copy that `launch` makes for itself is such a case. All
    that a kernel is given stays in memory until the end.

    Lanes that a mask switches off move nothing and do not count. A lane counts as many bytes as
    the kernel moves, or as `element_bytes` says for its tensor. The interpreter computes bf16
    through float32: hand in float32 tensors and the real size, {"Q": 2, ...}, or the problem,
    which stands for its element size for Q, K, V, O, S and P. programs: keep which program
    touched what (see `Counts.touched`; for small problems).

    These are the bytes that the kernel asks for. Caches may answer on a GPU.

    An instruction whose lanes are all switched off counts as one of the tensor that its pointer
    was made from.

    Raises CountingUnavailable where kernels are compiled or Triton has moved its insides or
    nothing was launched; TypeError and ValueError for tensors that cannot be told apart, for
    element sizes below 1 or of no tensor, and for launches that cannot work (no grid, a NumPy
    array, an autotuner with a choice); and what `launch` raises.
    """
    if not callable(launch):
        raise TypeError(
            f"launch is {_what(launch)}; a function that launches the kernel is needed: "
            "count(lambda: kernel[grid](...), {...})."
        )
    if not isinstance(tensors, Mapping):
        raise TypeError(
            f'tensors is {_what(tensors)}; names with tensors are needed: {{"X": x, "Z": z}}.'
        )
    sizes = _sizes(element_bytes)
    owners = Owners()
    for name, tensor in tensors.items():
        owners.add(name, tensor)
    tally = Tally(owners, sizes, programs)
    with watching(tally.take, tally.launch):
        result = launch()
    if tally.saw_nothing:
        raise CountingUnavailable(
            "no Triton kernel loaded or stored anything in the interpreter, so there is nothing "
            "to count. `launch` must launch the kernel itself: kernel[grid](...)."
        )
    for name, tensor in _results(result, outputs):
        if name not in owners.names and owners.owner_of(tensor) is None:
            owners.add(name, tensor)
    _check_names(element_bytes, sizes, owners.names, outputs)
    tally.settle()
    del result
    problem = element_bytes if isinstance(element_bytes, AttentionProblem) else None
    return tally.counts({} if problem is None else {"problem": asdict(problem)})


def _what(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _sizes(element_bytes: Mapping[str, int] | AttentionProblem | None) -> dict[str, int]:
    if isinstance(element_bytes, AttentionProblem):
        return dict.fromkeys(OF_A_PROBLEM, element_bytes.element_bytes)
    if not isinstance(element_bytes, Mapping | None):
        raise TypeError(
            f"element_bytes is {_what(element_bytes)}; a problem or names with bytes are needed: "
            '{"Q": 2}.'
        )
    sizes = {}
    for name, size in (element_bytes or {}).items():
        try:
            sizes[name] = 0 if isinstance(size, bool) else operator.index(size)
        except TypeError:
            sizes[name] = 0
        if sizes[name] < 1:
            raise ValueError(
                f"element_bytes[{name!r}] is {size!r}; an element has a whole number of bytes, "
                "1 or more."
            )
    return sizes


def _check_names(
    given: object, sizes: Mapping[str, int], names: Sequence[str], outputs: Sequence[str]
) -> None:
    """ValueError for sizes that no tensor is stated in: they would be passed over in silence."""
    listed = ", ".join(names) or "none"
    if isinstance(given, AttentionProblem):
        if not set(sizes) & set(names):
            raise ValueError(
                f"element_bytes is a problem, which stands for {', '.join(OF_A_PROBLEM)}, and the "
                f'tensors are called {listed}. Say their bytes by name: {{"{names[0]}": 2}}.'
                if names
                else "element_bytes is a problem, and no tensor has a name."
            )
        return
    unknown = [repr(name) for name in sizes if name not in {*names, *outputs, OTHER}]
    if unknown:
        raise ValueError(f"element_bytes names {', '.join(unknown)}; the tensors are: {listed}.")


def _results(result: Any, outputs: Sequence[str]) -> list[tuple[str, torch.Tensor]]:
    """What `launch` returned, with names."""
    if isinstance(result, Mapping):
        named = list(result.items())
    else:
        values = list(result) if isinstance(result, tuple | list) else [result]
        names = [*outputs, *(f"result {place}" for place in range(len(outputs), len(values)))]
        named = list(zip(names, values, strict=False))
    return [
        (str(name), value)
        for name, value in named
        if isinstance(value, torch.Tensor) and value.device.type == "cpu"
    ]
