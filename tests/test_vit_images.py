"""Pictures as tensors: the cat, every kind of file a reader may have, and what is no picture."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from attnlab_helpers.vit import NotAnImage, cat, images, load_image


def saved(tmp_path, picture: Image.Image, name: str = "picture.png", **options):
    path = tmp_path / name
    picture.save(path, **options)
    return path


def corners(image: torch.Tensor) -> list[list[float]]:
    """Colours of the four corners, row by row, rounded."""
    return [[round(float(v), 1) for v in image[:, y, x]] for y in (0, -1) for x in (0, -1)]


def test_the_cat_is_a_photograph_of_the_size_asked_for():
    photograph = cat()
    assert photograph.shape == (3, 224, 224) and photograph.dtype == torch.float32
    assert 0 <= photograph.min() < 0.1 and 0.8 < photograph.max() <= 1
    assert photograph.std(dim=(1, 2)).min() > 0.1
    assert cat(size=(32, 64)).shape == (3, 32, 64)
    # Ginger: red above green above blue on average.
    red, green, blue = photograph.mean(dim=(1, 2))
    assert red > green > blue


def test_the_picture_is_cut_around_its_centre_and_not_squeezed(tmp_path):
    wide = Image.new("RGB", (90, 30), "red")
    wide.paste("blue", (30, 0, 60, 30))
    image = load_image(saved(tmp_path, wide), 30)
    assert corners(image) == [[0, 0, 1]] * 4


MODES = ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I", "I;16", "F"]


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_gives_three_channels_between_0_and_1(tmp_path, mode):
    picture = Image.new("L", (20, 20), 0)
    picture.paste(255, (10, 0, 20, 20))
    if mode == "I;16":
        picture = Image.fromarray(np.asarray(picture).astype(np.uint16) * 257)
    elif mode == "F":
        picture = Image.fromarray(np.asarray(picture).astype(np.float32) / 255)
    elif mode == "I":
        picture = Image.fromarray(np.asarray(picture).astype(np.int32) * 257)
    else:
        picture = picture.convert(mode)
    image = load_image(saved(tmp_path, picture, "picture.tif"), 20)
    assert image.shape == (3, 20, 20)
    assert image[:, :, 2].max() < 0.02 and image[:, :, 17].min() > 0.98


def test_sixteen_bits_are_used_in_full(tmp_path):
    ramp = np.tile(np.linspace(0, 65_535, 64).astype(np.uint16), (64, 1))
    image = load_image(saved(tmp_path, Image.fromarray(ramp)), 64)
    assert len(image[0].unique()) == 64  # in 8 bits the first two would be one
    assert torch.equal(image[0], image[2])
    assert image[0, 0, 31].item() == pytest.approx(31 / 63, abs=2e-5)


def test_what_is_transparent_becomes_white(tmp_path):
    picture = Image.new("RGBA", (8, 8), (255, 0, 0, 0))
    picture.paste((0, 0, 255, 255), (0, 0, 4, 8))
    assert corners(load_image(saved(tmp_path, picture), 8)) == [[0, 0, 1], [1, 1, 1]] * 2
    palette = Image.new("P", (8, 8), 0)
    palette.putpalette([9, 9, 9, 0, 255, 0])
    palette.paste(1, (4, 0, 8, 8))
    path = saved(tmp_path, palette, "p.png", transparency=0)
    assert corners(load_image(path, 8)) == [[1, 1, 1], [0, 1, 0]] * 2


def test_a_picture_taken_sideways_is_turned(tmp_path):
    picture = Image.new("RGB", (40, 40), "black")
    picture.paste("white", (0, 0, 20, 40))  # the left half
    exif = Image.Exif()
    exif[0x0112] = 6  # "turn a quarter clockwise": the left half becomes the upper one
    image = load_image(saved(tmp_path, picture, exif=exif), 40)
    assert image[:, 2].mean() > 0.98 and image[:, -3].mean() < 0.02


@pytest.mark.parametrize("size", [(1, 1), (1, 400), (3, 2), (3000, 20)])
def test_tiny_and_narrow_pictures(tmp_path, size):
    image = load_image(saved(tmp_path, Image.new("RGB", size, (0, 128, 255))), 32)
    assert image.shape == (3, 32, 32)
    assert torch.allclose(image.mean(dim=(1, 2)), torch.tensor([0, 128 / 255, 1]), atol=0.01)


def test_a_large_jpeg_is_read(tmp_path):
    picture = Image.radial_gradient("L").resize((4000, 3000)).convert("RGB")
    image = load_image(saved(tmp_path, picture, "big.jpg"), 64)
    assert image.shape == (3, 64, 64) and image[0, 32, 32] < 0.1 < image[0, 0, 32]


def test_too_many_pixels_are_refused_before_they_are_unpacked(tmp_path, monkeypatch):
    path = saved(tmp_path, Image.new("1", (400, 300)))
    monkeypatch.setattr(images, "MAX_PIXELS", 100_000)
    with pytest.raises(NotAnImage, match=r"picture.png has 120,000 pixels; up to 100,000"):
        load_image(path)
    monkeypatch.setattr(images, "MAX_PIXELS", 120_000)
    assert load_image(path).shape == (3, 224, 224)
    # Pillow's own limit says the same.
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1_000)
    with pytest.raises(NotAnImage, match=r"has too many pixels; up to .* small file can unpack"):
        load_image(path)


@pytest.mark.parametrize("content", [b"", b"hello, I am a text", b"\x89PNG\r\n\x1a\nno", b"{}"])
def test_what_is_no_picture_is_said_to_be_none(tmp_path, content):
    path = tmp_path / "notes.png"
    path.write_bytes(content)
    with pytest.raises(NotAnImage, match=r"notes\.png .*(holds no picture|damaged)"):
        load_image(path)


@pytest.mark.parametrize("ending", ["png", "jpg", "gif", "tif", "bmp", "webp"])
def test_a_file_cut_off_is_said_to_be_damaged(tmp_path, ending):
    whole = io.BytesIO()
    cut_from = Image.effect_noise((200, 200), 90).convert("RGB")
    cut_from.save(whole, format={"jpg": "jpeg", "tif": "tiff"}.get(ending, ending))
    path = tmp_path / f"cut.{ending}"
    path.write_bytes(whole.getvalue()[: len(whole.getvalue()) // 2])
    with pytest.raises(NotAnImage, match=rf"cut\.{ending}"):
        load_image(path)


def test_numbers_that_are_not_finite_are_refused(tmp_path):
    pixels = np.ones((4, 4), dtype=np.float32)
    pixels[1, 1] = np.nan
    with pytest.raises(NotAnImage, match="not finite"):
        load_image(saved(tmp_path, Image.fromarray(pixels), "nan.tif"))
    stretched = load_image(
        saved(tmp_path, Image.fromarray(np.array([[-5.0, 15.0]], dtype=np.float32)), "f.tif"),
        (1, 2),
    )
    assert stretched[0].tolist() == [[0.0, 1.0]]


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*cat\.jpeg"):
        load_image(tmp_path / "cat.jpeg")
    with pytest.raises(NotAnImage, match="is a folder"):
        load_image(tmp_path)


@pytest.mark.parametrize("size", [0, -1, 1.5, True, (3,), (1, 2, 3), 100_000, "224"])
def test_sizes_that_are_none(size):
    with pytest.raises(ValueError, match="must be a whole number of pixels"):
        cat(size)


@pytest.mark.parametrize(
    "size", [[32, 48], (np.int64(32), np.uint8(48)), np.array([32, 48]).tolist()]
)
def test_lists_and_numpys_numbers_are_sizes(size):
    assert cat(size).shape == (3, 32, 48)
    assert cat(np.int32(32)).shape == (3, 32, 32)


@pytest.mark.parametrize("path", [None, 3, b"cat.png", Image.new("L", (2, 2))])
def test_what_is_no_path_is_said(path):
    with pytest.raises(TypeError, match="path must be the path of a picture file, not"):
        load_image(path)


def test_the_home_folder_may_be_written_short(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    saved(tmp_path, Image.new("RGB", (8, 8), "red"))
    assert corners(load_image("~/picture.png", 8)) == [[1, 0, 0]] * 4


def test_large_integers_and_twelve_bits_are_read_as_the_text_says(tmp_path):
    constant = Image.fromarray(np.full((4, 4), 300_000, dtype=np.int32))
    assert load_image(saved(tmp_path, constant, "c.tif"), 4).max() == 0
    twelve = Image.fromarray(np.full((4, 4), 4095, dtype=np.uint16))
    assert load_image(saved(tmp_path, twelve), 4).max().item() == pytest.approx(1 / 16, abs=1e-3)


def test_a_package_that_is_missing_is_named():
    with pytest.raises(ModuleNotFoundError, match="pip install nobody_has_this"):
        images.packaged_picture("nobody_has_this", "data/cat.png")
    with pytest.raises(FileNotFoundError, match=r"version of scikit-image does not ship"):
        images.packaged_picture("skimage", "data/no_such_cat.png")
