"""A picture as a list of patches: cut by reshaping, cut by a convolution, put together again."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .whole import whole, whole_number


def patch_grid(height: int, width: int, patch: int) -> tuple[int, int]:
    """Rows and columns of patches of `patch` x `patch` pixels; ValueError unless both divide."""
    asked = {"height": height, "width": width, "patch": patch}
    sizes = {name: whole(value) for name, value in asked.items()}
    for name, size in sizes.items():
        if size is None or size < 1:
            raise ValueError(
                f"{name} must be a whole number of pixels of 1 or more, not {asked[name]!r}."
            )
    height, width, patch = sizes.values()
    for name, side in (("height", height), ("width", width)):
        if side % patch:
            below, above = side // patch * patch, (side // patch + 1) * patch
            choices = f"{below} or {above}" if below else f"{above}"
            raise ValueError(
                f"a picture of {height} x {width} pixels cannot be cut into patches of {patch} x "
                f"{patch}: its {name}, {side}, is no multiple of {patch}. Resize it to {choices}."
            )
    return height // patch, width // patch


def to_patches(images: torch.Tensor, patch: int = 16) -> torch.Tensor:
    """Cut pictures (..., channels, height, width) into (..., patches, channels * patch * patch).

    Only `reshape` and a change of the order of axes: no number is computed. Patches run row by
    row from the top left; within one, channel by channel and in each row by row. ValueError
    when the patches do not divide the picture.
    """
    if not isinstance(images, torch.Tensor):
        raise TypeError(f"images must be a torch tensor, not {type(images).__name__}.")
    if images.dim() < 3:
        raise ValueError(
            f"images has shape {tuple(images.shape)}, but to_patches takes (channels, height, "
            "width) or (batch, channels, height, width)."
        )
    patch_grid(*images.shape[-2:], patch)
    patch = int(patch)
    *batch, channels, height, width = images.shape
    rows, columns = patch_grid(height, width, patch)
    cut = images.reshape(*batch, channels, rows, patch, columns, patch)
    # (..., channel, row, y, column, x) -> (..., row, column, channel, y, x)
    order = (-4, -2, -5, -3, -1)
    ahead = tuple(range(len(batch)))
    cut = cut.permute(*ahead, *(cut.dim() + axis for axis in order))
    return cut.reshape(*batch, rows * columns, channels * patch * patch)


def to_patches_by_convolution(images: torch.Tensor, patch: int = 16) -> torch.Tensor:
    """The same patches, by a convolution that steps a whole patch at a time.

    images (batch, channels, height, width) -> (batch, patches, channels * patch * patch). Each
    of the kernel's outputs picks out one number of the patch: its weights are a one among zeros.
    """
    _check_batch(images)
    channels, height, width = images.shape[-3:]
    patch_grid(height, width, patch)
    patch = int(patch)
    numbers = channels * patch * patch
    pick = torch.eye(numbers, dtype=images.dtype, device=images.device)
    cut = F.conv2d(images, pick.reshape(numbers, channels, patch, patch), stride=patch)
    return cut.flatten(2).transpose(1, 2)


def from_patches(
    patches: torch.Tensor, height: int, width: int, patch: int = 16, channels: int = 3
) -> torch.Tensor:
    """Undo `to_patches`: (..., patches, channels * patch^2) -> (..., channels, height, width)."""
    rows, columns = patch_grid(height, width, patch)
    *batch, count, numbers = patches.shape if patches.dim() >= 2 else (0, 0)
    if (count, numbers) != (rows * columns, channels * patch * patch):
        raise ValueError(
            f"patches has shape {tuple(patches.shape)}; a picture of {channels} x {height} x "
            f"{width} in patches of {patch} needs (..., {rows * columns}, "
            f"{channels * patch * patch})."
        )
    tiles = patches.reshape(*batch, rows, columns, channels, patch, patch)
    order = (-3, -5, -2, -4, -1)  # (..., channel, row, y, column, x)
    ahead = tuple(range(len(batch)))
    tiles = tiles.permute(*ahead, *(tiles.dim() + axis for axis in order))
    return tiles.reshape(*batch, channels, height, width)


class PatchEmbedding(nn.Module):
    """The learned projection of patches: `width` numbers for the channels * patch^2 of each.

    The same weights can be read in two ways, and give the same result: as a matrix that every
    patch is multiplied with (`as_product`), and as a convolution with a stride of one patch
    (`as_convolution`). `forward` is the product.
    """

    def __init__(self, patch: int = 16, channels: int = 3, width: int = 768) -> None:
        super().__init__()
        patch, channels, width = (
            whole_number(name, value)
            for name, value in (("patch", patch), ("channels", channels), ("width", width))
        )
        self.patch, self.channels, self.width = patch, channels, width
        self.projection = nn.Linear(channels * patch * patch, width)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """images (batch, channels, height, width) -> tokens (batch, patches, width)."""
        return self.as_product(images)

    def as_product(self, images: torch.Tensor) -> torch.Tensor:
        """Cut by reshaping, then one matrix product: (batch, patches, width)."""
        _check_batch(images, self.channels)
        return self.projection(to_patches(images, self.patch))

    def as_convolution(self, images: torch.Tensor) -> torch.Tensor:
        """One convolution, no cutting: (batch, patches, width)."""
        _check_batch(images, self.channels)
        patch_grid(images.shape[-2], images.shape[-1], self.patch)
        kernel = self.projection.weight.reshape(self.width, self.channels, self.patch, self.patch)
        projected = F.conv2d(images, kernel, self.projection.bias, stride=self.patch)
        return projected.flatten(2).transpose(1, 2)


def _check_batch(images: torch.Tensor, channels: int | None = None) -> None:
    """Raise unless images is a floating-point tensor (batch, channels, height, width)."""
    if not isinstance(images, torch.Tensor):
        raise TypeError(f"images must be a torch tensor, not {type(images).__name__}.")
    if images.dim() != 4 or channels not in (None, images.shape[1]):
        advice = " Add the missing batch dimension: images[None]." if images.dim() == 3 else ""
        raise ValueError(
            f"images has shape {tuple(images.shape)}, but (batch, {channels or 'channels'}, "
            f"height, width) is needed.{advice}"
        )
    if not images.is_floating_point():
        raise TypeError(
            f"images has dtype {images.dtype}, but floating point is needed: images / 255 for "
            "8-bit pixels."
        )
