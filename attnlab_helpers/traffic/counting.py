"""Counting bytes: run kernels in Triton's interpreter and look at every load and store."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from ..machine import Provenance, versions
from ..problem import AttentionProblem
from .counts import Counts, Touch
from .interpreter_hooks import CountingUnavailable, Event, watching
from .owners import OTHER, Owners

NUMBERS = [
    "loaded_bytes",
    "stored_bytes",
    "atomic_bytes",
    "masked_lanes",
    "loads",
    "stores",
    "atomics",
]
_COLUMN = {"load": "loaded_bytes", "store": "stored_bytes", "atomic": "atomic_bytes"}
_INSTRUCTION = {"load": "loads", "store": "stores", "atomic": "atomics"}


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
    named tensor is counted as "other"; a copy that `launch` makes for itself is such a case.

    Lanes that a mask switches off move nothing and do not count. A lane counts as many bytes as
    the kernel moves, or as `element_bytes` says for its tensor. The interpreter computes bf16
    through float32: hand in float32 tensors and the real size, {"Q": 2, ...}, or the problem,
    which stands for its element size for Q, K, V, O, S and P. programs: keep which program
    touched what (see `Counts.touched`; for small problems).

    These are the bytes that the kernel asks for. Caches may answer on a GPU.

    Raises CountingUnavailable where kernels are compiled or Triton has moved its insides or
    nothing was launched, TypeError and ValueError for tensors that cannot be told apart, and
    what `launch` raises.
    """
    if isinstance(element_bytes, AttentionProblem):
        element_bytes = dict.fromkeys("QKVOSP", element_bytes.element_bytes)
    owners = Owners()
    for name, tensor in tensors.items():
        owners.add(name, tensor)
    tally = _Tally(owners, dict(element_bytes or {}), programs)
    with watching(tally.take):
        result = launch()
    if tally.launches == 0:
        raise CountingUnavailable(
            "no Triton kernel loaded or stored anything in the interpreter, so there is nothing "
            "to count. `launch` must launch the kernel itself: kernel[grid](...)."
        )
    for name, tensor in _results(result, outputs):
        if name not in owners.names and owners.owner_of(tensor) is None:
            owners.add(name, tensor)
    tally.settle()
    del result
    return tally.counts()


class _Tally:
    """Adds up events. Those at addresses that have no name yet wait for the result's names."""

    def __init__(self, owners: Owners, sizes: dict[str, int], programs: bool) -> None:
        self.owners, self.sizes, self.keeps_programs = owners, sizes, programs
        self.launches = 0
        self._waiting: list[Event] = []
        self._sums: dict[Touch, dict[str, int]] = defaultdict(lambda: dict.fromkeys(NUMBERS, 0))
        # The addresses of each tensor that were touched: each once, so a set of them is enough.
        self._seen: dict[str, list[np.ndarray]] = defaultdict(list)
        self._touches: dict[Touch, list[np.ndarray]] = defaultdict(list)
        self._item_bytes: dict[str, int] = {}

    def take(self, event: Event) -> None:
        """Count one event."""
        self.launches = event.launch + 1
        self._add(event, wait=True)

    def settle(self) -> None:
        """Count what waited for a name; what has none now is "other"."""
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            self._add(event, wait=False)

    def _add(self, event: Event, wait: bool) -> None:
        places = self.owners.find(event.addresses)
        # Lanes that a mask switched off often point outside; they go with their instruction.
        taking_part = places[event.mask]
        deciding = taking_part if len(taking_part) else places[places >= 0]
        first = int(deciding[0]) if len(deciding) else -1
        for place in np.unique(taking_part) if len(taking_part) else [first]:
            if place < 0 and wait:
                lanes = event.mask & (places < 0)
                masked = ~event.mask if first < 0 else np.zeros_like(event.mask)
                kept = lanes | masked
                self._waiting.append(
                    Event(
                        event.kind,
                        event.launch,
                        event.program,
                        event.addresses[kept],
                        event.mask[kept],
                        event.item_bytes,
                    )
                )
                continue
            lanes = event.addresses[event.mask & (places == place)]
            masked = int((~event.mask).sum()) if place == first else 0
            self._sum(event, OTHER if place < 0 else self.owners.names[place], lanes, masked)

    def _sum(self, event: Event, name: str, lanes: np.ndarray, masked: int) -> None:
        program = event.program if self.keeps_programs else (0, 0, 0)
        launch = event.launch if self.keeps_programs else 0
        sums = self._sums[name, launch, program]
        one = self.sizes.get(name, event.item_bytes)
        sums[_COLUMN[event.kind]] += len(lanes) * one
        sums[_INSTRUCTION[event.kind]] += 1
        sums["masked_lanes"] += masked
        self._item_bytes[name] = one
        self._seen[name].append(lanes)
        if len(self._seen[name]) > 64:  # so that memory follows the tensor, not the traffic
            self._seen[name] = [np.unique(np.concatenate(self._seen[name]))]
        if self.keeps_programs and name != OTHER:
            self._touches[name, launch, program].append(lanes)

    def counts(self) -> Counts:
        """The sums as tables."""
        names = [*self.owners.names, *([OTHER] if OTHER in self._seen else [])]
        per_program = pd.DataFrame(
            [
                {"launch": launch, "x": x, "y": y, "z": z, "tensor": name, **sums}
                for (name, launch, (x, y, z)), sums in self._sums.items()
            ],
            columns=["launch", "x", "y", "z", "tensor", *NUMBERS],
        )
        frame = per_program.groupby("tensor")[NUMBERS].sum().reindex(names, fill_value=0)
        distinct = [self._distinct(name) * self._item_bytes.get(name, 0) for name in names]
        frame.insert(3, "distinct_bytes", distinct)
        found = {name: text for name, text in versions().items() if name in {"python", "triton"}}
        today = datetime.date.today().isoformat()
        return Counts(
            frame.rename_axis("tensor").reset_index(),
            self.launches,
            Provenance("interpreter", "CPU", today, found),
            per_program if self.keeps_programs else None,
            {
                name: tuple(tensor.shape)
                for name, tensor in zip(self.owners.names, self.owners.tensors, strict=True)
            },
            self._elements(),
        )

    def _distinct(self, name: str) -> int:
        seen = self._seen.get(name, [])
        return len(np.unique(np.concatenate(seen))) if seen else 0

    def _elements(self) -> dict[Touch, np.ndarray]:
        """Touched addresses as places in the flattened tensor."""
        grids = {
            name: self.owners.element_addresses(place).reshape(-1)
            for place, name in enumerate(self.owners.names)
        }
        return {
            key: np.flatnonzero(np.isin(grids[key[0]], np.concatenate(lanes)))
            for key, lanes in self._touches.items()
        }


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
