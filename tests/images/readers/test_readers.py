"""The one door for reading an image: content decides, greys and colours are the file's, broken files are refused."""

import io
import os
import struct
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from memorisk.images.readers.greys import over_black, percentile_range, stretch, to_depth, to_greys
from memorisk.images.readers.registry import BUILTIN_DIGITS, FORMATS, count_frames, file_format, read_image, sniff
from memorisk.runs.errors import InputError
from tests.images.making import packed, png_bytes, read_or_message, turned_by_definition, write


def _grey_png(values: np.ndarray, bits: int, **more: bytes) -> bytes:
    return png_bytes([packed(row, bits) for row in values], values.shape[1], bits, 0, **more)


def _saved(path: Path, image: np.ndarray | Image.Image, kind: str, **options: object) -> Path:
    picture = image if isinstance(image, Image.Image) else Image.fromarray(image)
    picture.save(path, kind, **options)
    return path


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_png_grey_of_few_bits_fills_the_range(tmp_path: Path, bits: int) -> None:
    values = np.random.default_rng(bits).integers(0, 1 << bits, (5, 7))
    image = read_image(write(tmp_path / "a.png", _grey_png(values, bits)))
    assert image.shape == (5, 7, 1)
    assert image.dtype == np.uint8
    np.testing.assert_array_equal(image[..., 0], values * 255 // ((1 << bits) - 1))


def test_png_grey_of_16_bits_is_kept_at_depth_16_and_rounded_at_depth_8(tmp_path: Path) -> None:
    values = np.arange(65536).reshape(256, 256)
    path = write(tmp_path / "a.png", _grey_png(values, 16))
    deep, shallow = read_image(path, depth=16), read_image(path, depth=8)
    assert deep.dtype == np.uint16
    assert shallow.dtype == np.uint8
    np.testing.assert_array_equal(deep[..., 0], values)
    np.testing.assert_array_equal(shallow[..., 0], np.rint(values / 257))


def test_percentiles_of_a_16_bit_png(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(1000, 4000, (40, 50))
    path = write(tmp_path / "a.png", _grey_png(values, 16))
    low, high = np.percentile(values, 0.5), np.percentile(values, 99.5)
    expected = np.rint(np.clip((values - low) / (high - low), 0, 1) * 255)
    np.testing.assert_array_equal(read_image(path, window="percentile")[..., 0], expected)


def test_png_palette_becomes_rgb(tmp_path: Path) -> None:
    palette = np.random.default_rng(1).integers(0, 256, (4, 3), dtype=np.uint8)
    indices = np.random.default_rng(2).integers(0, 4, (3, 6))
    data = png_bytes([packed(row, 2) for row in indices], 6, 2, 3, palette=palette.tobytes())
    np.testing.assert_array_equal(read_image(write(tmp_path / "a.png", data)), palette[indices])


def _alpha_by_hand(values: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Composite over black, rounded half up, in exact integers."""
    product = values.astype(int) * alpha.astype(int)[..., None]
    return (2 * product + 255) // 510


@pytest.mark.parametrize(("colour_type", "channels"), [(4, 1), (6, 3)])
def test_png_alpha_is_composited_over_black(tmp_path: Path, colour_type: int, channels: int) -> None:
    values = np.random.default_rng(3).integers(0, 256, (6, 5, channels + 1), dtype=np.uint8)
    values[0, :, -1] = 255
    data = png_bytes([row.tobytes() for row in values], 5, 8, colour_type)
    image = read_image(write(tmp_path / "a.png", data))
    np.testing.assert_array_equal(image, _alpha_by_hand(values[..., :channels], values[..., channels]))
    np.testing.assert_array_equal(image[0], values[0, :, :channels])


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
def test_a_transparent_grey_of_a_png_is_black(tmp_path: Path, bits: int) -> None:
    values = np.random.default_rng(bits).integers(0, 1 << bits, (4, 9))
    transparent = int(values[0, 0]) or 1
    path = write(tmp_path / "a.png", _grey_png(values, bits, transparent=struct.pack(">H", transparent)))
    image = read_image(path, depth=16 if bits == 16 else 8)[..., 0]
    scale = {1: 255, 2: 85, 4: 17, 8: 1, 16: 1}[bits]
    np.testing.assert_array_equal(image, np.where(values == transparent, 0, values * scale))


def test_a_transparent_palette_entry_is_black(tmp_path: Path) -> None:
    palette = bytes([10, 20, 30, 200, 100, 50])
    data = png_bytes([packed(np.array([0, 1, 1, 0]), 1)], 4, 1, 3, palette=palette, transparent=bytes([0, 255]))
    image = read_image(write(tmp_path / "a.png", data))
    np.testing.assert_array_equal(image[0], [[0, 0, 0], [200, 100, 50], [200, 100, 50], [0, 0, 0]])


def test_8_bits_at_depth_16_reach_both_ends(tmp_path: Path) -> None:
    image = read_image(write(tmp_path / "a.png", _grey_png(np.array([[0, 1, 255]]), 8)), depth=16)
    assert image[0, :, 0].tolist() == [0, 257, 65535]


def test_formats_of_pillow_that_keep_every_pixel(tmp_path: Path) -> None:
    colour = np.random.default_rng(4).integers(0, 256, (9, 11, 3), dtype=np.uint8)
    grey = colour[..., 0]
    for name, kind, options in [
        ("bmp", "BMP", {}),
        ("webp", "WEBP", {"lossless": True}),
        ("ppm", "PPM", {}),
        ("jp2", "JPEG2000", {"irreversible": False}),
    ]:
        np.testing.assert_array_equal(read_image(_saved(tmp_path / f"a.{name}", colour, kind, **options)), colour)
    for name, kind in [("bmp", "BMP"), ("pgm", "PPM"), ("jp2", "JPEG2000"), ("gif", "GIF")]:
        image = read_image(_saved(tmp_path / f"g.{name}", grey, kind))
        np.testing.assert_array_equal(image[..., 0], grey, err_msg=name)
    deep = np.random.default_rng(5).integers(0, 65536, (4, 5), dtype=np.uint16)
    pgm = b"P5\n5 4\n65535\n" + deep.astype(">u2").tobytes()
    np.testing.assert_array_equal(read_image(write(tmp_path / "d.pgm", pgm), depth=16)[..., 0], deep)


def test_frames_of_an_animation(tmp_path: Path) -> None:
    frames = [Image.fromarray(np.full((4, 4), v, dtype=np.uint8)) for v in (0, 100, 200)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    path = tmp_path / "a.gif"
    assert count_frames(path) == 3
    assert read_image(path).max() == 0
    assert [int(read_image(path, frame=i)[0, 0, 0]) for i in range(3)] == [0, 100, 200]
    with pytest.raises(InputError, match="frames 0 to 2, not 3"):
        read_image(path, frame=3)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_turned(tmp_path: Path, orientation: int) -> None:
    upright = np.random.default_rng(6).integers(0, 256, (4, 7, 3), dtype=np.uint8)
    picture = Image.fromarray(turned_by_definition(upright, orientation))
    exif = picture.getexif()
    exif[0x0112] = orientation
    for name, kind in [("a.png", "PNG"), ("a.webp", "WEBP")]:
        options = {"lossless": True} if kind == "WEBP" else {}
        image = read_image(_saved(tmp_path / name, picture, kind, exif=exif.tobytes(), **options))
        np.testing.assert_array_equal(image, upright, err_msg=kind)
    jpeg = read_image(_saved(tmp_path / "a.jpg", picture, "JPEG", exif=exif.tobytes(), quality=100, subsampling=0))
    assert jpeg.shape == upright.shape


def test_a_broken_exif_block_does_not_hide_the_pixels(tmp_path: Path) -> None:
    grey = np.random.default_rng(7).integers(0, 256, (8, 8), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(grey).save(buffer, "PNG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff\xff\xff")
    np.testing.assert_array_equal(read_image(write(tmp_path / "a.png", buffer.getvalue()))[..., 0], grey)


def test_content_decides_and_not_the_name(tmp_path: Path) -> None:
    grey = np.arange(64, dtype=np.uint8).reshape(8, 8)
    for name in ("lie.jpg", "lie.dcm", "lie.nii.gz", "no suffix", "lie.txt", "lie.npz"):
        path = write(tmp_path / name, _grey_png(grey, 8))
        np.testing.assert_array_equal(read_image(path)[..., 0], grey, err_msg=name)


def test_names_may_hold_anything(tmp_path: Path) -> None:
    grey = np.arange(16, dtype=np.uint8).reshape(4, 4)
    for name in (
        "<img src=x onerror=alert(1)>.png",
        "new\nline.png",
        "\"quoted' .png",
        "\u202egnp.x\u2066.png",
        "🩻.png",
    ):
        path = write(tmp_path / name, _grey_png(grey, 8))
        np.testing.assert_array_equal(read_image(path)[..., 0], grey)
        broken = write(tmp_path / name, b"not an image")
        with pytest.raises(InputError) as error:
            read_image(broken)
        assert str(error.value).isprintable()


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "empty"),
        (b"hello", "not an image of a known kind"),
        (b"\x89PNG\r\n\x1a\n", "cannot be read|broken PNG"),
        (b"\xff\xd8\xff", "broken JPEG|cannot be read"),
        (b"II*\0\xff\xff\xff\xff", "cannot be read|without a page"),
        (b"GIF89a", "broken GIF|cannot be read"),
        (b"\x93NUMPY", "cannot be read"),
        (b"PK\x03\x04", "npz"),
        (b"PK\x05\x06".ljust(22, b"\0"), "known kind"),
        (b"version https://git-lfs.github.com/spec/v1\n", "pointer of Git LFS.* git lfs pull"),
        (b"a.png".ljust(257, b"\0") + b"ustar\0" + b"00", "a tar archive; unpack it"),
        (b"\x89HDF\r\n\x1a\n", "cannot be read"),
        (b"BM" + b"\0" * 12 + b"\x28\0\0\0", "cannot be read|broken BMP|declares"),
    ],
)
def test_broken_files_are_refused_in_one_line(tmp_path: Path, data: bytes, what: str) -> None:
    with pytest.raises(InputError, match=what) as error:
        read_image(write(tmp_path / "a.png", data))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("keyword", ["tEXt", "zTXt", "iTXt", "iCCP"])
def test_texts_and_profiles_that_pillow_refuses_hide_no_pixel(tmp_path: Path, keyword: str) -> None:
    grey = np.random.default_rng(0).integers(0, 256, (6, 8), dtype=np.uint8)
    info = PngImagePlugin.PngInfo()
    many = "x" * (PngImagePlugin.MAX_TEXT_CHUNK + 1)
    if keyword == "iTXt":
        info.add_itxt("a", many, zip=True)
    elif keyword != "iCCP":
        info.add_text("a", many, zip=keyword == "zTXt")
    profile = {"icc_profile": many.encode()} if keyword == "iCCP" else {}
    path = _saved(tmp_path / "a.png", grey, "PNG", pnginfo=info, **profile)
    np.testing.assert_array_equal(read_image(path)[..., 0], grey)


def test_an_archive_of_images_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.png", b"")
    with pytest.raises(InputError, match="an archive without arrays; unpack the images"):
        read_image(tmp_path / "a.zip")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    for path, what in [
        (tmp_path / "absent.png", "the file does not exist"),
        (tmp_path, "is not a file"),
        (tmp_path / "pipe.png", "is not a file"),
        (Path("nul\0.png"), "null"),
    ]:
        with pytest.raises(InputError, match=what):
            read_image(path)


def test_a_decompression_bomb_is_refused_before_decoding(tmp_path: Path) -> None:
    bomb = png_bytes([], 50_000, 8, 0, height=50_000)
    with pytest.raises(InputError, match=r"50,000 x 50,000 pixels, more than the 100,000,000 allowed"):
        read_image(write(tmp_path / "bomb.png", bomb))
    small = write(tmp_path / "small.png", _grey_png(np.zeros((10, 10), int), 8))
    assert read_image(small, max_pixels=100).shape == (10, 10, 1)
    with pytest.raises(InputError, match="more than the 99 allowed"):
        read_image(small, max_pixels=99)


def test_the_limit_can_be_raised_above_that_of_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    path = write(tmp_path / "a.png", _grey_png(np.zeros((10, 10), int), 8))
    assert read_image(path, max_pixels=100).shape == (10, 10, 1)


def test_built_in_digits_are_read_through_the_same_door() -> None:
    assert read_image(BUILTIN_DIGITS, frame=0).shape == (8, 8, 1)
    assert read_image(BUILTIN_DIGITS, frame=0, depth=16).dtype == np.uint16
    with pytest.raises(InputError, match="frames 0 to 1796"):
        read_image(BUILTIN_DIGITS, frame=1797)


def test_real_files_whose_suffix_lies_or_that_are_broken(shared_data: Path) -> None:
    refused = []
    for path in sorted((shared_data / "imagededup_pairs" / "tests").rglob("*")):
        if path.is_file():
            try:
                image = read_image(path)
                assert image.dtype == np.uint8
                assert image.shape[2] in (1, 3)
                assert image.std() > 5
            except InputError:
                refused.append(path.name)
    assert refused == ["ukbench09268_corrupt.jpg", "ukbench09268_corrupt.jpg"]
    names = {file_format(p).name for p in (shared_data / "imagededup_pairs").rglob("ukbench09380*")}  # type: ignore[union-attr]
    assert names == {"JPEG"}
    grey = read_image(shared_data / "imagededup_pairs" / "tests" / "data" / "ukbench00120_gray.jpg")
    assert grey.shape[2] == 1


def test_real_chest_x_rays_are_grey_in_rgb_and_rgba(shared_data: Path) -> None:
    paths = sorted((shared_data / "nih_cxr14_64" / "NIH1000").rglob("*.png"))
    modes = {}
    for path in paths:
        with Image.open(path) as picture:
            modes.setdefault(picture.mode, path)
    assert set(modes) == {"RGB", "RGBA"}
    for path in modes.values():
        image = read_image(path)
        assert image.shape == (64, 64, 3)
        assert (image == image[..., :1]).all()


def test_the_names_of_formats_are_different_and_none_matches_text() -> None:
    assert len({f.name for f in FORMATS}) == len(FORMATS)
    for text in (b"image_id,dx\n", b"BM,patient,label,dx,age,sex\n", b"P5,a,b\n", b"{}", b"%PDF-1.7", b"\0" * 400):
        assert sniff(text) is None, text


@given(st.binary(max_size=400))
def test_sniffing_never_fails(head: bytes) -> None:
    found = sniff(head)
    assert found is None or found in FORMATS


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_flipped_bytes_give_pixels_or_one_line(tmp_path: Path, data: st.DataObject) -> None:
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (12, 12, 3), dtype=np.uint8))
    kind = data.draw(st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "JPEG2000", "PPM"]))
    buffer = io.BytesIO()
    picture.save(buffer, kind)
    content = bytearray(buffer.getvalue())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=6)):
        content[place] = data.draw(st.integers(0, 255))
    path = write(tmp_path / "x", bytes(content[: data.draw(st.integers(1, len(content)))]))
    image, message = read_or_message(path, max_pixels=100_000)
    assert message.isprintable()
    assert image is None or (image.dtype == np.uint8 and image.shape[2] in (1, 3))


def test_depths_agree_with_their_definition() -> None:
    every = np.arange(65536, dtype=np.uint16)
    np.testing.assert_array_equal(to_depth(every, 8), np.rint(every / 257))
    small = np.arange(256, dtype=np.uint8)
    np.testing.assert_array_equal(to_depth(to_depth(small, 16), 8), small)
    assert to_depth(every, 16) is every


def test_stretch_and_show_of_constant_and_strange_values() -> None:
    assert stretch(np.full((2, 2), 7.0), 7, 7, 8).max() == 0
    assert stretch(np.array([-1.0, 0.0, 0.5, 1.0, 2.0]), 0, 1, 16).tolist() == [0, 0, 32768, 65535, 65535]
    assert percentile_range(np.array([np.nan, np.inf])) == (0.0, 0.0)
    mostly_flat = np.r_[np.zeros(999), 5.0]
    assert percentile_range(mostly_flat) == (0.0, 5.0)
    assert to_greys(np.array([[0.0, 10.0]]), "full", 8).tolist() == [[0, 255]]
    large = np.random.default_rng(0).random((3000, 700))  # mapped in several blocks
    np.testing.assert_array_equal(stretch(large, 0, 1, 16), np.rint(large * 65535))


@given(st.integers(0, 255), st.integers(0, 255))
def test_over_black_rounds_half_up(value: int, alpha: int) -> None:
    image = over_black(np.full((1, 1, 1), value, np.uint8), np.full((1, 1), alpha, np.uint8))
    assert image[0, 0, 0] == (2 * value * alpha + 255) // 510


def _small_files(folder: Path) -> dict[str, bytes]:
    """A whole file of each kind that is not Pillow's."""
    nibabel, making = pytest.importorskip("nibabel"), pytest.importorskip("tests.images.dicom_making")
    values = np.arange(64, dtype=np.int16).reshape(4, 4, 4)
    nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), folder / "a.nii")
    nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), folder / "a.nii.gz")
    making.save(making.dicom(values[0], WindowCenter=3, WindowWidth=9, PatientID="x"), folder / "a.dcm")
    np.save(folder / "a.npy", values.astype(np.float32))
    np.savez_compressed(folder / "a.npz", images=values)
    with h5py.File(folder / "a.h5", "w") as file:
        file["images"] = values
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_flipped_bytes_of_medical_files_and_arrays_too(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp() / "flipped"
    if not folder.exists():
        folder.mkdir()
        _small_files(folder)
    name = data.draw(st.sampled_from(["a.dcm", "a.nii", "a.nii.gz", "a.npy", "a.npz", "a.h5"]))
    content = bytearray((folder / name).read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
        content[place] = data.draw(st.integers(0, 255))
    path = write(folder.parent / f"x-{name}", bytes(content))
    image, message = read_or_message(path, frame=1 if name != "a.dcm" else None, max_pixels=100_000)
    assert message.isprintable()
    assert image is None or (image.dtype == np.uint8 and image.shape[2] in (1, 3))
