"""What the kernels ask about a GPU, asked once: every call of a kernel wants to know it."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Card:
    """capability: compute capability. sms: streaming multiprocessors. l2_bytes: the L2 cache.

    shared_bytes: the most shared memory that one program may use.
    """

    capability: tuple[int, int]
    sms: int
    l2_bytes: int
    shared_bytes: int


def card_of(tensor: torch.Tensor) -> Card:
    """The card that holds a CUDA tensor."""
    return _card(tensor.get_device())


@functools.lru_cache(maxsize=64)
def _card(index: int) -> Card:
    found = torch.cuda.get_device_properties(index)
    return Card(
        (found.major, found.minor),
        found.multi_processor_count,
        found.L2_cache_size,
        found.shared_memory_per_block_optin,
    )
