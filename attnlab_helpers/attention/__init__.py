"""The implementations under study, by name, and the oracle that judges them."""

from __future__ import annotations

from .arguments import UnsupportedProblem
from .implementation import Implementation
from .in_place import IN_PLACE
from .naive import NAIVE
from .reference import reference

IMPLEMENTATIONS: dict[str, Implementation] = {
    implementation.name: implementation for implementation in (NAIVE, IN_PLACE)
}

__all__ = ["IMPLEMENTATIONS", "Implementation", "UnsupportedProblem", "reference"]
