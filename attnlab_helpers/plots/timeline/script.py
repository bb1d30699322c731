"""The timeline's script: which files it is made of, in the order in which they need each other."""

from pathlib import Path

from attnlab_helpers.plots.script import squeezed

FILES = ("numbers.js", "leaders.js", "scene.js", "drawing.js", "look.js", "live.js")


def script() -> str:
    """The JavaScript that turns the page's figures live; asks for nothing but what the page has."""
    return squeezed(Path(__file__).parent, FILES)
