"""A photograph as a tensor: the cat from scikit-image's wheel, or a picture of the reader's own."""

from __future__ import annotations

import importlib.resources
import io
import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError

from .whole import whole

# A small file can unpack to a picture that fills the memory. Pillow refuses above twice its own
# limit; this is that number, said in our own words and before a byte is unpacked.
MAX_PIXELS = 178_956_970
MAX_SIDE = 8_192
SIXTEEN_BIT = 65_535


class NotAnImage(ValueError):
    """A file holds no picture that can be used; the text says why and what can be done."""


def cat(size: int | Sequence[int] = 224) -> torch.Tensor:
    """The photograph of Chelsea the cat, centre square: float32 (3, size, size), values 0 to 1.

    Taken by Stefan van der Walt, CC0; it lies inside scikit-image's wheel as `data.chelsea`
    (300 x 451 pixels), so nothing is downloaded. `size` as in `load_image`.
    """
    return read_image(packaged_picture("skimage", "data/chelsea.png"), "chelsea.png", size)


def load_image(path: str | Path, size: int | Sequence[int] = 224) -> torch.Tensor:
    """A picture file as float32 (3, height, width), values 0 (black) to 1 (white).

    size: side of a square in pixels, or (height, width). The picture is turned as its camera
    noted, cut to that shape around its centre and resized. Grey becomes three equal channels,
    what is transparent becomes white, 16 bits a channel are used in full, of an animation the
    first frame. Numbers outside 0 to 1 in a floating-point picture, and above 65,535 in one of
    32-bit integers, are stretched to that range (and become 0 if they are all the same). Nothing
    says how many of 16 bits a camera used: 12 bits in such a file come out dark, 1/16 at most.

    Raises TypeError for what is no path, FileNotFoundError, and NotAnImage for a file that holds
    no picture, a damaged one, or one of more than 178,956,970 pixels.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be the path of a picture file, not {type(path).__name__}.")
    path = Path(path).expanduser()
    if path.is_dir():
        raise NotAnImage(f"{path} is a folder. Give the path of one picture in it.")
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}. Relative paths start at {Path.cwd()}.")
    if not path.is_file():
        raise NotAnImage(f"{path} is no ordinary file. Give the path of a picture.")
    return read_image(path.read_bytes(), path.name, size)


def packaged_picture(package: str, inside: str) -> bytes:
    """The bytes of a picture that ships inside an installed package; nothing is downloaded."""
    names = {"skimage": "scikit-image", "sklearn": "scikit-learn"}
    name = names.get(package, package)
    try:
        return importlib.resources.files(package).joinpath(inside).read_bytes()
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"{inside} ships with {name}, which is not installed: pip install {name}"
        ) from None
    except FileNotFoundError:
        raise FileNotFoundError(
            f"this version of {name} does not ship {inside}: install the version that "
            "constraints.txt names."
        ) from None


def read_image(data: bytes, name: str, size: int | Sequence[int]) -> torch.Tensor:
    """As `load_image`, from the file's bytes; `name` is what error messages call it."""
    height, width = _check_size(size)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data)) as picture:
                _check_pixels(picture, name)
                # A JPEG can be decoded at a fraction of its size, in a fraction of the memory.
                picture.draft(None, (4 * width, 4 * height))
                return _to_tensor(ImageOps.exif_transpose(picture), name, (width, height))
    except NotAnImage:
        raise
    except UnidentifiedImageError:
        what = "is empty" if not data else f"begins with {data[:8]!r}"
        raise NotAnImage(
            f"{name} holds no picture that can be read here (it {what}). PNG, JPEG, WebP, GIF, "
            "TIFF and BMP can be read: save the picture as one of them."
        ) from None
    except Image.DecompressionBombError:
        # Pillow refuses before it says how many pixels there are.
        raise NotAnImage(_too_many_pixels(name, "too many")) from None
    except (OSError, SyntaxError, ValueError, EOFError) as problem:
        raise NotAnImage(
            f"{name} is damaged or cut off: {problem}. Open it in a picture viewer and save it "
            "again."
        ) from None


def _check_size(size: int | Sequence[int]) -> tuple[int, int]:
    both = tuple(map(whole, size if isinstance(size, tuple | list) else (size, size)))
    if len(both) != 2 or None in both or not all(1 <= side <= MAX_SIDE for side in both):
        raise ValueError(
            f"size={size!r} must be a whole number of pixels from 1 to {MAX_SIDE:,}, "
            "or two of them: (height, width)."
        )
    return both


def _check_pixels(picture: Image.Image, name: str) -> None:
    pixels = picture.width * picture.height
    if pixels > MAX_PIXELS:
        raise NotAnImage(_too_many_pixels(name, f"{pixels:,}"))


def _too_many_pixels(name: str, count: str) -> str:
    return (
        f"{name} has {count} pixels; up to {MAX_PIXELS:,} are read here, because a small file can "
        "unpack to more than the memory holds. Make the picture smaller first."
    )


def _to_tensor(picture: Image.Image, name: str, size: tuple[int, int]) -> torch.Tensor:
    if picture.mode == "F" or picture.mode.startswith("I"):
        grey = np.asarray(picture).astype(np.float32)
        picture = Image.fromarray(_to_unit(grey, picture.mode, name))
        fitted = np.asarray(ImageOps.fit(picture, size, Image.Resampling.BICUBIC))
        pixels = np.repeat(fitted[:, :, None], 3, axis=2)
    else:
        fitted = ImageOps.fit(_to_rgb(picture), size, Image.Resampling.BICUBIC)
        pixels = np.asarray(fitted).astype(np.float32) / 255
    # Bicubic weights are partly negative, so they can step over the ends of the range.
    return torch.from_numpy(pixels.transpose(2, 0, 1).clip(0, 1).copy())


def _to_unit(grey: np.ndarray, mode: str, name: str) -> np.ndarray:
    if not np.isfinite(grey).all():
        raise NotAnImage(f"{name} holds numbers that are not finite (NaN or infinity).")
    low, high = float(grey.min()), float(grey.max())
    if mode.startswith("I") and low >= 0 and high <= SIXTEEN_BIT:
        return grey / SIXTEEN_BIT
    if low >= 0 and high <= 1:
        return grey
    return (grey - low) / (high - low) if high > low else np.zeros_like(grey)


def _to_rgb(picture: Image.Image) -> Image.Image:
    transparent = "A" in picture.getbands() or "a" in picture.getbands()
    if not transparent and "transparency" not in picture.info:
        return picture.convert("RGB")
    layers = picture.convert("RGBA")
    paper = Image.new("RGBA", layers.size, "white")
    return Image.alpha_composite(paper, layers).convert("RGB")
