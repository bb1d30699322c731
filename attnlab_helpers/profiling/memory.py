"""How much memory a call holds: the measured peak, and a ledger of its steps.

The peak is read from PyTorch's allocator and needs a GPU. The ledger follows every tensor that
PyTorch makes, from its birth to its death; it needs no GPU and, on the "meta" device, not even
the memory.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pandas as pd
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def peak_memory(call: Callable[[], Any], device: str | torch.device) -> int | None:
    """Bytes that `call` holds at its worst moment, above what was held before it.

    Includes its result. The counter is reset and the baseline subtracted, so that what ran
    before changes nothing. None on a CPU, where PyTorch keeps no such count.
    """
    if torch.device(device).type != "cuda":
        return None
    gc.collect()
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    result = call()
    torch.cuda.synchronize(device)
    peak = torch.cuda.max_memory_allocated(device) - before
    del result
    return peak


class _Ledger(TorchDispatchMode):
    """Sees every operator below autograd, with its inputs and outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, Any]] = []
        self.held = 0
        self.peak = 0
        self._own: set[int] = set()  # storages made inside the block and still alive

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        inputs = _tensors((args, kwargs))
        outputs = _tensors(result)
        given = {_storage_id(tensor) for tensor in inputs}
        new = [tensor for tensor in outputs if _storage_id(tensor) not in given | self._own]
        for tensor in new:
            self._follow(tensor)
        self.peak = max(self.peak, self.held)
        is_view = bool(outputs) and not new and not func._schema.is_mutable
        if not is_view:
            self.rows.append(
                {
                    "operator": func._schema.name,
                    "new_bytes": sum(tensor.untyped_storage().nbytes() for tensor in new),
                    "held_bytes": self.held,
                }
            )
        return result

    def _follow(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        self._own.add(key)
        self.held += size

        def gone() -> None:
            self._own.discard(key)
            self.held -= size

        weakref.finalize(storage, gone)


def memory_steps(call: Callable[[], Any]) -> pd.DataFrame:
    """What each operator of `call` allocates, and what is held once it has run.

    Columns: operator; new_bytes (the storage it made; 0 for an in-place operator); held_bytes
    (all storage made inside `call` and still alive, in bytes, when the operator returns). Views
    are left out: they make no storage. The largest `held_bytes` is the peak that an allocator
    without rounding would show. Give `call` tensors on the "meta" device to ask about a size
    that this machine could not hold.
    """
    ledger = _Ledger()
    with ledger:
        result = call()
    del result
    return pd.DataFrame(ledger.rows, columns=["operator", "new_bytes", "held_bytes"])


def saved_for_backward(call: Callable[[], Any]) -> pd.DataFrame:
    """The tensors that `call` keeps for its backward pass, in the order they are saved.

    Columns: shape, dtype, bytes, and `shares` (the row that holds the same storage already, or
    -1). Needs gradients to be on and an input that requires one; empty otherwise.
    """
    rows: list[dict[str, Any]] = []
    seen: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        key = _storage_id(tensor)
        rows.append(
            {
                "shape": tuple(tensor.shape),
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "bytes": tensor.numel() * tensor.element_size(),
                "shares": seen.get(key, -1),
            }
        )
        seen.setdefault(key, len(rows) - 1)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = call()
    del result
    return pd.DataFrame(rows, columns=["shape", "dtype", "bytes", "shares"])


def _tensors(values: Any) -> list[torch.Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]


def _storage_id(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata
