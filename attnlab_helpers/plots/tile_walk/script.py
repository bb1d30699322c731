"""The walk's script: which files it is made of, in the order in which they need each other."""

from __future__ import annotations

from pathlib import Path

from ..script import squeezed

FILES = ("look.js", "scene.js", "bars.js", "live.js")


def script() -> str:
    """The JavaScript that turns the page's walks live; asks for nothing but what the page has."""
    return squeezed(Path(__file__).parent, FILES)
