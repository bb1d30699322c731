"""Which configurations `tune.py` tries, by kernel and padded head dim."""

from __future__ import annotations

from collections.abc import Iterable

from attnlab_helpers.kernels.flash_configurations import Configuration, Listed
from attnlab_helpers.kernels.tiles import padded

# block_q, block_k, warps, stages, overlap: by padded head dim. What spills registers badly as
# compiled for 9.0 is left out (NOTES.md).
FORWARD = {
    64: [
        (64, 128, 4, 2, 0), (64, 128, 4, 3, 0), (64, 64, 4, 2, 0), (64, 64, 4, 3, 0),
        (128, 64, 4, 3, 0), (128, 64, 8, 3, 0), (128, 128, 4, 2, 0), (128, 64, 4, 3, 1),
        (64, 64, 4, 3, 1),
    ],
    128: [
        (64, 64, 4, 3, 0), (128, 128, 8, 3, 0), (128, 64, 8, 3, 0), (128, 64, 8, 4, 0),
        (128, 128, 8, 2, 1), (128, 64, 8, 3, 1),
    ],
    256: [(128, 64, 8, 2, 0), (128, 32, 8, 2, 0), (64, 64, 4, 2, 0), (128, 64, 8, 2, 1),
          (128, 32, 8, 2, 1), (64, 64, 4, 2, 1)],
}  # fmt: skip
DKDV = {
    64: [(64, 128, 8, 2, 0), (128, 128, 8, 2, 0), (64, 128, 8, 3, 0), (64, 64, 4, 2, 0),
         (64, 64, 4, 3, 0), (128, 64, 4, 2, 0)],
    128: [(64, 128, 8, 2, 0), (64, 64, 4, 2, 0), (64, 64, 4, 3, 0), (64, 64, 4, 1, 0)],
    256: [(64, 64, 8, 2, 0), (64, 64, 8, 1, 0), (32, 64, 8, 2, 0), (32, 64, 4, 2, 0)],
}  # fmt: skip
DQ = {
    64: [(128, 64, 4, 3, 0), (128, 64, 8, 2, 0), (128, 64, 8, 3, 0), (128, 64, 8, 4, 0),
         (64, 64, 4, 2, 0), (64, 64, 4, 3, 0), (64, 64, 4, 4, 0)],
    128: [(128, 64, 8, 2, 0), (128, 64, 8, 3, 0), (64, 64, 4, 1, 0), (64, 64, 4, 2, 0),
          (64, 64, 4, 3, 0)],
    256: [(64, 32, 4, 2, 0), (128, 32, 8, 2, 0), (64, 64, 4, 2, 0), (64, 64, 8, 2, 0)],
}  # fmt: skip
HOPPER_FORWARD = {
    64: [(128, 128, 4, 3, 1), (128, 128, 4, 2, 1), (128, 64, 4, 4, 1)],
    128: [(128, 128, 4, 2, 1), (128, 64, 4, 4, 1)],
}
HOPPER_DQ = {
    64: [(128, 64, 4, 4, 1), (128, 64, 4, 3, 1)],
    128: [(128, 64, 4, 4, 1), (128, 64, 4, 3, 1)],
}
CANDIDATES: dict[Listed, dict[int, list[tuple[int, ...]]]] = {
    "forward": FORWARD, "dkdv": DKDV, "dq": DQ,
    "forward_hopper": HOPPER_FORWARD, "dq_hopper": HOPPER_DQ,
}  # fmt: skip


def candidates(kernel: Listed, head_dim: int, descriptors: Iterable[bool]) -> list[Configuration]:
    """What is tried: each tile with and, if asked for, without descriptors."""
    return [
        Configuration(block_q, block_k, warps, stages, bool(overlap), with_descriptors)
        for block_q, block_k, warps, stages, overlap in CANDIDATES[kernel].get(padded(head_dim), [])
        for with_descriptors in descriptors
    ]
