"""Adding up what was seen: each load and store goes to the tensor that its lanes address."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from ..machine import Provenance, versions
from .counts import Counts, Program, Touch
from .interpreter_hooks import Event
from .launch_hooks import Launch
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


class Tally:
    """Adds up events. Those at addresses that have no name yet wait for the result's names.

    sizes: name -> bytes of an element, where the kernel's own do not count.
    """

    def __init__(self, owners: Owners, sizes: Mapping[str, int], programs: bool) -> None:
        self.owners, self.sizes, self.keeps_programs = owners, sizes, programs
        self.grids: list[Program] = []
        # What a kernel got lives until the end: memory that was freed and given out again would
        # bring its old traffic to the new tensor.
        self._held: dict[int, torch.Tensor] = {}
        self._events = 0
        self._waiting: list[Event] = []
        self._sums: dict[Touch, dict[str, int]] = defaultdict(lambda: dict.fromkeys(NUMBERS, 0))
        # The addresses of each tensor that were touched: each once, so a set of them is enough.
        self._seen: dict[str, list[np.ndarray]] = defaultdict(list)
        self._touches: dict[Touch, list[np.ndarray]] = defaultdict(list)
        self._item_bytes: dict[str, int] = {}

    @property
    def saw_nothing(self) -> bool:
        return not self._events

    def launch(self, launch: Launch) -> None:
        """Note a launch, and keep its tensors."""
        self.grids.append(launch.grid)
        for tensor in launch.tensors:
            self._held.setdefault(tensor.untyped_storage().data_ptr(), tensor)

    def take(self, event: Event) -> None:
        """Count one event."""
        self._events += 1
        self._add(event, wait=True)

    def settle(self) -> None:
        """Count what waited for a name; what has none now is "other"."""
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            self._add(event, wait=False)
        self._held.clear()

    def _add(self, event: Event, wait: bool) -> None:
        places = self.owners.find(event.addresses)
        taking_part = places[event.mask]
        first = self._first(event, places, taking_part)
        for place in np.unique(taking_part) if len(taking_part) else [first]:
            if place < 0 and wait:
                lanes = event.mask & (places < 0)
                # Lanes that are switched off go with their instruction, wherever they point.
                masked = ~event.mask if first < 0 else np.zeros_like(event.mask)
                kept = lanes | masked
                addresses, mask = event.addresses[kept], event.mask[kept]
                self._waiting.append(replace(event, addresses=addresses, mask=mask))
                continue
            lanes = event.addresses[event.mask & (places == place)]
            masked = int((~event.mask).sum()) if place == first else 0
            self._sum(event, OTHER if place < 0 else self.owners.names[place], lanes, masked)

    def _first(self, event: Event, places: np.ndarray, taking_part: np.ndarray) -> int:
        """The place of the tensor that the instruction belongs to, -1 for none."""
        if len(taking_part):
            return int(taking_part[0])
        if event.base is not None:  # no lane takes part: their addresses say nothing
            return int(self.owners.find(np.array([event.base], dtype=np.uint64))[0])
        known = places[places >= 0]
        return int(known[0]) if len(known) else -1

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

    def counts(self, about: Mapping[str, Any]) -> Counts:
        """The sums as tables. about: see `Counts`."""
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
            len(self.grids),
            Provenance("interpreter", "CPU", today, found),
            per_program if self.keeps_programs else None,
            {
                name: tuple(tensor.shape)
                for name, tensor in zip(self.owners.names, self.owners.tensors, strict=True)
            },
            self._elements(),
            tuple(self.grids),
            dict(about),
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
