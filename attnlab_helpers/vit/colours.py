"""The task of our small model: guess the colours of patches from the few that are shown.

The model sees the brightness of every patch, but colours of some patches only, and those a
little wrong. To say the true colour of a patch it has to find the ones that look alike and ask
them: what a patch looks like makes a good query and a good key, its colour a good value.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .model import ViTConfig
from .patches import patch_grid
from .whole import whole_number

# Colours are predicted for cells of 4 x 4 pixels: two numbers each, sixteen cells a patch.
CELL = 4
# Predictions are in units of this, so that they are about one in size.
UNIT = 0.1

SMALL_CONFIG = ViTConfig(
    image=224,
    patch=16,
    width=128,
    depth=6,
    heads=4,
    mlp_ratio=2.0,
    outputs=2 * (16 // CELL) ** 2,
    readout="patches",
    class_token=False,
    marks=True,
)


def split_colours(images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Brightness (batch, 1, H, W) and colour (batch, 2, H, W) of pictures (batch, 3, H, W).

    Brightness is the mean of red, green and blue; colour is red minus brightness and blue minus
    brightness. Grey has colour (0, 0).
    """
    brightness = images.mean(dim=1, keepdim=True)
    return brightness, images[:, 0::2] - brightness


def join_colours(brightness: torch.Tensor, colours: torch.Tensor) -> torch.Tensor:
    """Undo `split_colours`. Values may leave 0 to 1 if the colours do not fit the brightness."""
    red, blue = (brightness + colours).split(1, dim=1)
    return torch.cat([red, 3 * brightness - red - blue, blue], dim=1)


def hide_colours(
    images: torch.Tensor,
    shown: torch.Tensor,
    errors: torch.Tensor | None = None,
    patch: int = 16,
) -> torch.Tensor:
    """Pictures whose colours are gone where `shown` is False; brightness stays.

    images (batch, 3, H, W), shown boolean (batch, patches). errors (batch, patches, 2), or
    None: added to the colours of whole patches that are shown. TypeError or ValueError for what
    does not fit.
    """
    if images.dim() != 4 or images.shape[1] != 3:
        raise ValueError(f"images has shape {tuple(images.shape)}, not (batch, 3, height, width).")
    rows, columns = patch_grid(images.shape[-2], images.shape[-1], patch)
    check_shown(shown, (len(images), rows * columns))
    brightness, colours = split_colours(images)
    if errors is not None:
        tiles = errors.transpose(1, 2).reshape(len(images), 2, rows, columns)
        colours = colours + _enlarge(tiles, patch)
    mask = shown.reshape(-1, 1, rows, columns).to(images.dtype)
    return join_colours(brightness, colours * _enlarge(mask, patch))


def check_shown(shown: torch.Tensor, shape: tuple[int, ...]) -> None:
    """Raise unless `shown` is a boolean tensor of this shape: True = the patch shows its colour."""
    if not isinstance(shown, torch.Tensor) or shown.dtype != torch.bool:
        kind = shown.dtype if isinstance(shown, torch.Tensor) else type(shown).__name__
        raise TypeError(f"shown must be a boolean tensor (True = the colour is given), not {kind}.")
    if tuple(shown.shape) != shape:
        raise ValueError(
            f"shown has shape {tuple(shown.shape)}, but one truth value a patch is needed: {shape}."
        )


def target(images: torch.Tensor, patch: int = 16) -> torch.Tensor:
    """What the model shall say, each cell's mean colour in UNIT: (batch, patches, cells * 2)."""
    rows, columns = patch_grid(images.shape[-2], images.shape[-1], patch)
    side = patch // CELL
    cells = F.avg_pool2d(split_colours(images)[1], CELL) / UNIT
    cells = cells.reshape(len(images), 2, rows, side, columns, side).permute(0, 2, 4, 3, 5, 1)
    return cells.reshape(len(images), rows * columns, side * side * 2)


def paint(images: torch.Tensor, said: torch.Tensor, patch: int = 16) -> torch.Tensor:
    """Pictures with their own brightness and the colours that the model said, values 0 to 1.

    images (batch, 3, H, W), said (batch, patches, cells * 2) in UNIT.
    """
    height, width = images.shape[-2:]
    rows, columns = patch_grid(height, width, patch)
    side = patch // CELL
    cells = said.reshape(len(images), rows, columns, side, side, 2).permute(0, 5, 1, 3, 2, 4)
    cells = cells.reshape(len(images), 2, rows * side, columns * side) * UNIT
    smooth = F.interpolate(cells, (height, width), mode="bilinear", align_corners=False)
    return join_colours(split_colours(images)[0], smooth).clamp(0, 1)


def some_shown(patches: int, fraction: float, *, batch: int = 1, seed: int = 0) -> torch.Tensor:
    """Which patches show their colour: boolean (batch, patches), the same for the same seed.

    At least one; `fraction` of them, rounded. ValueError for a fraction outside 0 to 1.
    """
    patches, batch = whole_number("patches", patches), whole_number("batch", batch)
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction={fraction!r} must be from 0 to 1.")
    generator = torch.Generator().manual_seed(seed)
    count = max(1, round(fraction * patches))
    order = torch.rand(batch, patches, generator=generator).argsort(dim=1)
    return torch.zeros(batch, patches, dtype=torch.bool).scatter(1, order[:, :count], True)


def _enlarge(tiles: torch.Tensor, patch: int) -> torch.Tensor:
    return tiles.repeat_interleave(patch, dim=-2).repeat_interleave(patch, dim=-1)
