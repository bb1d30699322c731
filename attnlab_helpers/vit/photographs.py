"""The photographs that our small model learned from: names, licences, and the pieces cut from them.

All ship inside the wheels of scikit-image, scikit-learn and matplotlib; nothing is downloaded.
The cat is not among them: it is what the trained model is looked at with.
"""

from __future__ import annotations

import hashlib
import io
import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from .colours import join_colours, split_colours
from .images import packaged_picture


@dataclass(frozen=True)
class Photograph:
    """A picture inside an installed package. digest: the first 16 hex digits of its SHA-256."""

    package: str
    path: str
    digest: str
    title: str
    rights: str

    def pixels(self) -> torch.Tensor:
        """float32 (3, height, width), 0 to 1. ValueError when the file is not the one we know."""
        data = packaged_picture(self.package, self.path)
        found = hashlib.sha256(data).hexdigest()[:16]
        if found != self.digest:
            raise ValueError(
                f"{self.path} in {self.package} is another file than the one used here (SHA-256 "
                f"{found}..., not {self.digest}...): install the version that constraints.txt "
                "names."
            )
        with Image.open(io.BytesIO(data)) as picture:
            pixels = np.asarray(picture.convert("RGB")).astype(np.float32) / 255
        return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


PHOTOGRAPHS = (
    Photograph(
        "skimage",
        "data/astronaut.png",
        "88431cd9653ccd53",
        "Eileen Collins",
        "NASA, public domain, flic.kr/p/r9qvLn",
    ),
    Photograph(
        "skimage", "data/coffee.png", "cc02f8ca188b167c", "A cup of coffee", "Rachel Michetti, CC0"
    ),
    Photograph(
        "skimage",
        "data/rocket.jpg",
        "c2dd0de7c538df8d",
        "Launch of Falcon 9",
        "SpaceX, public domain",
    ),
    Photograph(
        "skimage",
        "data/retina.jpg",
        "38a07f36f27f095e",
        "A retina",
        "Mikael Häggström, CC0, commons.wikimedia.org",
    ),
    Photograph(
        "skimage",
        "data/hubble_deep_field.jpg",
        "3a19c5dd8a927a93",
        "Hubble deep field",
        "NASA, public domain",
    ),
    Photograph(
        "skimage", "data/camera.png", "b0793d2adda0fa6a", "A photographer", "Lav Varshney, CC0"
    ),
    Photograph("skimage", "data/grass.png", "b6b6022426b38936", "Grass", "Linolafett, CC0"),
    Photograph("skimage", "data/gravel.png", "c48615b451bf1e60", "Gravel", "CC0Textures, CC0"),
    Photograph("skimage", "data/brick.png", "7966caf324f6ba84", "Bricks", "CC0Textures, CC0"),
    Photograph(
        "sklearn",
        "datasets/images/china.jpg",
        "8378025ad2519d64",
        "A temple in China",
        "danielbuechele, CC BY 2.0, flickr photo 6061409035",
    ),
    Photograph(
        "sklearn",
        "datasets/images/flower.jpg",
        "a77f6ec41e353afd",
        "A flower",
        "vultilion, CC BY 2.0, flickr photo 6056698931",
    ),
    Photograph(
        "matplotlib",
        "mpl-data/sample_data/grace_hopper.jpg",
        "a8ca6d734765703b",
        "Grace Hopper",
        "US Navy, a work of the US government, public domain",
    ),
)


def pieces(
    photographs: list[torch.Tensor], batch: int, size: int, generator: torch.Generator
) -> torch.Tensor:
    """Random pieces of the photographs, (batch, 3, size, size), on the photographs' device.

    Each is a square of 96 pixels up to the whole shorter side, turned by up to 15 degrees,
    mirrored half of the time, with other brightness and contrast and with the colours turned
    round the wheel by any angle: what colour a thing has in the photograph says nothing, only
    which parts share one. A slow drift of colour over the piece makes near patches better
    witnesses than far ones. Random numbers come from `generator` (on the CPU), so that every
    device sees the same pieces.
    """
    device = photographs[0].device
    # In order of photograph, so that those of one lie together; the order means nothing.
    chosen = torch.randint(len(photographs), (batch,), generator=generator).sort().values
    draws = torch.rand(batch, 10, generator=generator)
    normal = torch.randn(batch, 22, generator=generator)
    sizes = torch.tensor([photograph.shape[1:] for photograph in photographs])[chosen]
    windows = _windows(draws, sizes).to(device)
    counts = chosen.bincount(minlength=len(photographs)).tolist()
    cut = []
    for photograph, window in zip(photographs, windows.split(counts), strict=True):
        if len(window):
            grid = F.affine_grid(window, [len(window), 3, size, size], align_corners=False)
            source = photograph[None].expand(len(window), -1, -1, -1)
            cut.append(F.grid_sample(source, grid, padding_mode="reflection", align_corners=False))
    return _recolour(torch.cat(cut), draws.to(device), normal.to(device))


def _windows(draws: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """The affine maps of `F.affine_grid`, (n, 2, 3), from uniform draws and (height, width)."""
    height, width = sizes.float().unbind(dim=1)
    shorter = torch.minimum(height, width)
    smallest = shorter.clamp(max=96.0)
    side = smallest * (shorter / smallest) ** draws[:, 0]
    angle = (2 * draws[:, 1] - 1) * math.radians(15)
    mirror = torch.where(draws[:, 2] < 0.5, -1.0, 1.0)
    # The centre may lie anywhere where the square, not turned, stays inside.
    x = (2 * draws[:, 3] - 1) * (width - side) / width
    y = (2 * draws[:, 4] - 1) * (height - side) / height
    across, down = side / width, side / height
    cos, sin = angle.cos(), angle.sin()
    first = torch.stack([mirror * cos * across, -sin * across, x], dim=1)
    second = torch.stack([mirror * sin * down, cos * down, y], dim=1)
    return torch.stack([first, second], dim=1)


def _recolour(images: torch.Tensor, draws: torch.Tensor, normal: torch.Tensor) -> torch.Tensor:
    """Other brightness and contrast; colours turned, stretched, tinted by brightness and place."""
    brightness, colours = split_colours(images.clamp(0, 1))

    def column(values: torch.Tensor) -> torch.Tensor:
        return values[:, None, None, None]

    brightness = brightness ** column(torch.exp((draws[:, 5] - 0.5) * 0.9))
    brightness = (brightness - 0.5) * column(0.6 + 0.5 * draws[:, 6]) + 0.5
    turn, stretch = draws[:, 7] * 2 * math.pi, 0.5 + 1.2 * draws[:, 8]
    cos, sin = column(stretch * turn.cos()), column(stretch * turn.sin())
    first, second = colours.split(1, dim=1)
    turned = torch.cat([cos * first - sin * second, sin * first + cos * second], dim=1)
    tint = (
        normal[:, 0:2, None, None] * 0.12 * (brightness - 0.5) + normal[:, 2:4, None, None] * 0.04
    )
    drift = F.interpolate(
        normal[:, 4:22].reshape(-1, 2, 3, 3), images.shape[-2:], mode="bicubic", align_corners=True
    )
    tint = tint + column(0.12 * draws[:, 9]) * drift
    return join_colours(brightness, turned + tint).clamp(0, 1)
