"""The implementations under study, by name, and the oracle that judges them."""

from __future__ import annotations

from .arguments import UnsupportedProblem
from .flash_triton import FLASH_TRITON
from .hub_flash import HUB_FLASH
from .implementation import Implementation
from .in_place import IN_PLACE
from .naive import NAIVE
from .reference import reference
from .sdpa import SDPA_AUTO, SDPA_CUDNN, SDPA_EFFICIENT, SDPA_FLASH, SDPA_MATH

IMPLEMENTATIONS: dict[str, Implementation] = {
    implementation.name: implementation
    for implementation in (
        NAIVE,
        IN_PLACE,
        SDPA_MATH,
        SDPA_FLASH,
        SDPA_EFFICIENT,
        SDPA_CUDNN,
        SDPA_AUTO,
        HUB_FLASH,
        FLASH_TRITON,
    )
}

__all__ = ["IMPLEMENTATIONS", "Implementation", "UnsupportedProblem", "reference"]
