"""A GPU shared by several processes: many may work on it, or one alone may take times."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO


class Room:
    """A place in a room whose two lock files lie in `folder`, which all processes share.

    The door is held while one waits to come in, so that whoever wants to be alone does not
    wait for ever behind a stream of others. The system frees the locks of a process that dies.
    """

    def __init__(self, folder: Path) -> None:
        self._door = folder / "door"
        self._room = folder / "room"
        self._place: IO[str] | None = None
        self.alone = False

    def enter(self, *, alone: bool = False) -> None:
        """Leave, then wait until one may come in: beside others, or alone."""
        self.leave()
        place = self._room.open("a")
        with self._door.open("a") as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            fcntl.flock(place, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        self._place, self.alone = place, alone

    def leave(self) -> None:
        """Let others in; does nothing for somebody who is not inside."""
        if self._place is not None:
            self._place.close()  # and with the file its lock
        self._place, self.alone = None, False
