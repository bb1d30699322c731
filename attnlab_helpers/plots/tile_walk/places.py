"""Where tokens lie: row by row in the photograph, or in a grid of plain squares."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ...vit.pixels import check_picture

Box = tuple[int, int, int, int]  # x, y, width, height, in tokens


@dataclass(frozen=True, eq=False)
class Places:
    """The grid that the tokens lie in, row by row from the top left.

    image: the photograph (3, H, W) whose patches they are, or None.
    """

    rows: int
    columns: int
    tokens: int
    image: torch.Tensor | None

    def boxes(self, tokens: range) -> list[Box]:
        """The rectangles that these tokens fill: three at most."""
        boxes: list[Box] = []
        place, stop = tokens.start, min(tokens.stop, self.tokens)
        while place < stop:
            row, column = divmod(place, self.columns)
            if column:
                width, height = min(self.columns - column, stop - place), 1
            else:
                height = (stop - place) // self.columns
                width, height = (self.columns, height) if height else (stop - place, 1)
            boxes.append((column, row, width, height))
            place += width * height
        return boxes


def places(tokens: int, image: torch.Tensor | None) -> Places:
    """The grid for so many tokens; ValueError where they cannot be the picture's patches."""
    if image is None:
        columns = math.ceil(math.sqrt(tokens))
        return Places(math.ceil(tokens / columns), columns, tokens, None)
    check_picture(image)
    height, width = image.shape[-2:]
    patch = math.isqrt(height * width // tokens)
    if not patch or height % patch or width % patch or height * width != patch**2 * tokens:
        raise ValueError(
            f"a picture of {height} x {width} pixels cannot be cut into {tokens} square patches, "
            "one for each key. Leave out a class token, or the picture (image=None)."
        )
    return Places(height // patch, width // patch, tokens, image)
