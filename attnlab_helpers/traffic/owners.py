"""Which named tensor a byte of memory belongs to: exact for strided views of one storage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

OTHER = "other"  # memory that no named tensor holds


@dataclass(frozen=True, eq=False)
class _Storage:
    start: int
    owners: np.ndarray  # for each byte the number of its tensor, -1 for none


class Owners:
    """Named CPU tensors, and the question whose an address is.

    Tensors may be views of one storage, as q, k and v of one projection are; each byte has one
    owner. Memory is looked at, not copied.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.tensors: list[torch.Tensor] = []
        self._storages: dict[int, _Storage] = {}

    def add(self, name: str, tensor: torch.Tensor) -> None:
        """Name a tensor's memory.

        Raises TypeError for what is no dense CPU tensor, ValueError for a name that is taken and
        for memory that has a name already.
        """
        if not isinstance(name, str):
            raise TypeError(f"a tensor's name must be a text, not {name!r}.")
        if not isinstance(tensor, torch.Tensor):
            kind = type(tensor).__name__
            hint = f": torch.from_numpy({name})" if isinstance(tensor, np.ndarray) else ""
            raise TypeError(
                f"{name} must be a torch tensor, as a kernel takes, not a {kind}{hint}."
            )
        if tensor.device.type != "cpu":
            raise TypeError(
                f"{name} is on {tensor.device}; the interpreter uses tensors on the CPU: "
                f"{name}.cpu()."
            )
        if tensor.layout != torch.strided:
            raise TypeError(
                f"{name} has the layout {tensor.layout}; a kernel takes dense tensors: "
                f"{name}.to_dense()."
            )
        if name in self.names or name == OTHER:
            raise ValueError(f"the name {name!r} is taken: each tensor needs a name of its own.")
        taken = self.owner_of(tensor)
        if taken is not None:
            raise ValueError(f"{name} and {taken} share memory: give it one name.")
        self.names.append(name)
        self.tensors.append(tensor)
        if tensor.numel():
            self._bytes_of(tensor).fill_(len(self.names) - 1)

    def owner_of(self, tensor: torch.Tensor) -> str | None:
        """The name that some of this tensor's memory has already, or None."""
        if not tensor.numel():
            return None
        found = int(self._bytes_of(tensor).max())
        if found < 0:
            found = self._other_storage(tensor.untyped_storage())
        return self.names[found] if found >= 0 else None

    def _other_storage(self, storage: torch.UntypedStorage) -> int:
        """A tensor in another storage over the same memory, as NumPy's views make; -1 for none."""
        start, end = storage.data_ptr(), storage.data_ptr() + storage.nbytes()
        for other in self._storages.values():
            low, high = max(start, other.start), min(end, other.start + len(other.owners))
            if other.start != start and low < high:
                found = int(other.owners[low - other.start : high - other.start].max())
                if found >= 0:
                    return found
        return -1

    def find(self, addresses: np.ndarray) -> np.ndarray:
        """For each address (uint64) the place of its tensor in `names`, -1 for none."""
        found = np.full(addresses.shape, -1, dtype=np.int16)
        for storage in self._storages.values():
            start, end = np.uint64(storage.start), np.uint64(storage.start + len(storage.owners))
            inside = (addresses >= start) & (addresses < end)
            if inside.all():
                return storage.owners[addresses - start]
            found[inside] = storage.owners[addresses[inside] - start]
        return found

    def element_addresses(self, place: int) -> np.ndarray:
        """The first byte of each element of the place-th tensor, in its shape (uint64)."""
        tensor = self.tensors[place]
        addresses = np.full(tuple(tensor.shape), tensor.data_ptr(), dtype=np.int64)
        for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
            steps = np.arange(size, dtype=np.int64) * stride * tensor.element_size()
            shape = [1] * tensor.dim()
            shape[dim] = size
            addresses += steps.reshape(shape)
        return addresses.astype(np.uint64)

    def _bytes_of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The owners of a tensor's bytes, as a view that can be read and filled."""
        storage = tensor.untyped_storage()
        start = storage.data_ptr()
        if start not in self._storages:
            owners = np.full(storage.nbytes(), -1, dtype=np.int16)
            self._storages[start] = _Storage(start, owners)
        one = tensor.element_size()
        # An expanded dimension (stride 0) is the same bytes again: once is enough.
        shape = [
            1 if stride == 0 else size
            for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
        ]
        strides = [stride * one for stride in tensor.stride()]
        owners = torch.from_numpy(self._storages[start].owners)
        return owners.as_strided((*shape, one), (*strides, 1), tensor.storage_offset() * one)
