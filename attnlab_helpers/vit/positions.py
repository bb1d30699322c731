"""Where a patch lies, added to what it holds: position embeddings by formula."""

from __future__ import annotations

import torch

from .whole import whole, whole_number


def sine_positions(
    rows: int, columns: int, width: int, *, longest: float = 10_000.0
) -> torch.Tensor:
    """Sines and cosines of a patch's column and row: float32 (rows * columns, width).

    With w = width / 4 frequencies f_i = longest^(-i / w), i = 0 .. w-1, patch (row, column) gets

        sin(column f_i), cos(column f_i), sin(row f_i), cos(row f_i)

    one group of w numbers after the other. It is the one-dimensional formula of "Attention is
    all you need" (arXiv 1706.03762, section 3.5) applied to both coordinates, half of the width
    each. Nothing is learned, and neighbours get similar vectors from the start.

    Raises ValueError unless width is a positive multiple of 4.
    """
    rows, columns = whole_number("rows", rows), whole_number("columns", columns)
    if whole(width) is None or width < 4 or width % 4:
        raise ValueError(
            f"width={width} is no positive multiple of 4: a sine and a cosine for each of the "
            "two coordinates are needed."
        )
    width = int(width)
    frequencies = longest ** (-torch.arange(width // 4, dtype=torch.float64) / (width // 4))
    column = torch.arange(columns, dtype=torch.float64)[:, None] * frequencies
    row = torch.arange(rows, dtype=torch.float64)[:, None] * frequencies
    across = torch.cat([column.sin(), column.cos()], dim=1)[None].expand(rows, -1, -1)
    down = torch.cat([row.sin(), row.cos()], dim=1)[:, None].expand(-1, columns, -1)
    return torch.cat([across, down], dim=2).reshape(rows * columns, width).float()
