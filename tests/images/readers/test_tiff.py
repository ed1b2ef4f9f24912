"""TIFF: every way of storing grey and colour that tifffile and libtiff write gives back what went in."""

import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image

from memorisk.images.readers.registry import count_frames, read_image
from memorisk.runs.errors import InputError
from tests.images.making import turned_by_definition

RNG = np.random.default_rng(0)
GREY8 = RNG.integers(0, 256, (13, 17), dtype=np.uint8)
GREY16 = RNG.integers(0, 65536, (13, 17), dtype=np.uint16)
RGB8 = RNG.integers(0, 256, (13, 17, 3), dtype=np.uint8)
RGB16 = RNG.integers(0, 65536, (13, 17, 3), dtype=np.uint16)


@pytest.mark.parametrize(
    "options", [{}, {"byteorder": ">"}, {"compression": "zlib"}, {"bigtiff": True}, {"tile": (16, 16)}]
)
@pytest.mark.parametrize("values", [GREY8, GREY16, RGB8, RGB16], ids=["grey8", "grey16", "rgb8", "rgb16"])
def test_values_come_back(tmp_path: Path, values: np.ndarray, options: dict) -> None:
    photometric = "rgb" if values.ndim == 3 else "minisblack"
    tifffile.imwrite(tmp_path / "a.tif", values, photometric=photometric, **options)
    shaped = values if values.ndim == 3 else values[..., None]
    deep = read_image(tmp_path / "a.tif", depth=16)
    shallow = read_image(tmp_path / "a.tif")
    assert deep.dtype == np.uint16
    if values.dtype == np.uint8:
        np.testing.assert_array_equal(shallow, shaped)
        np.testing.assert_array_equal(deep, shaped.astype(int) * 257)
    else:
        np.testing.assert_array_equal(deep, shaped)
        np.testing.assert_array_equal(shallow, np.rint(shaped / 257))


@pytest.mark.parametrize("compression", ["tiff_lzw", "packbits", "tiff_deflate", "raw"])
def test_compressions_of_libtiff(tmp_path: Path, compression: str) -> None:
    for values in (GREY8, GREY16, RGB8):
        Image.fromarray(values).save(tmp_path / "a.tif", compression=compression)
        image = read_image(tmp_path / "a.tif", depth=8 if values.dtype == np.uint8 else 16)
        np.testing.assert_array_equal(image, values if values.ndim == 3 else values[..., None])


@pytest.mark.parametrize(("code", "name"), [(34661, "JBIG"), (34712, "JPEG2000"), (50002, "JPEGXL"), (64999, "64999")])
def test_a_compression_without_a_decoder_is_named(tmp_path: Path, code: int, name: str) -> None:
    tifffile.imwrite(tmp_path / "a.tif", GREY8)
    data = (tmp_path / "a.tif").read_bytes()
    none, other = (struct.pack("<HHIH", 259, 3, 1, value) for value in (1, code))
    (tmp_path / "a.tif").write_bytes(data.replace(none, other))
    with pytest.raises(InputError, match=f"a TIFF of compression {name} that cannot be decoded"):
        read_image(tmp_path / "a.tif")


@pytest.mark.parametrize("compression", ["group4", "tiff_lzw", "raw"])
def test_one_bit(tmp_path: Path, compression: str) -> None:
    bits = GREY8 > 128
    Image.fromarray(bits).save(tmp_path / "a.tif", compression=compression)
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif")[..., 0], bits * 255)


def test_min_is_white_is_inverted(tmp_path: Path) -> None:
    for values, top in ((GREY8, 255), (GREY16, 65535)):
        tifffile.imwrite(tmp_path / "a.tif", values, photometric="miniswhite")
        image = read_image(tmp_path / "a.tif", depth=8 if top == 255 else 16)
        np.testing.assert_array_equal(image[..., 0], top - values)


def test_planes_apart(tmp_path: Path) -> None:
    planes = np.moveaxis(RGB16, -1, 0)
    tifffile.imwrite(tmp_path / "a.tif", planes, photometric="rgb", planarconfig="separate")
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif", depth=16), RGB16)


def test_alpha_is_composited_over_black_unless_it_is_multiplied_in(tmp_path: Path) -> None:
    rgba = RNG.integers(0, 256, (5, 6, 4), dtype=np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", rgba, photometric="rgb", extrasamples=["unassalpha"])
    product = rgba[..., :3].astype(int) * rgba[..., 3:].astype(int)
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif"), (2 * product + 255) // 510)
    tifffile.imwrite(tmp_path / "b.tif", rgba, photometric="rgb", extrasamples=["assocalpha"])
    np.testing.assert_array_equal(read_image(tmp_path / "b.tif"), rgba[..., :3])


def test_palette_becomes_rgb(tmp_path: Path) -> None:
    colours = RNG.integers(0, 256, (256, 3), dtype=np.uint8)
    picture = Image.fromarray(GREY8).convert("P")
    picture.putpalette(colours.tobytes())
    picture.save(tmp_path / "a.tif")
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif"), colours[np.asarray(picture)])


@pytest.mark.parametrize("compression", [None, "tiff_lzw"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_turned(tmp_path: Path, orientation: int, compression: str | None) -> None:
    stored = turned_by_definition(RGB8, orientation)
    if compression is None:
        extra = [(274, "H", 1, orientation, False)]
        tifffile.imwrite(tmp_path / "a.tif", stored, photometric="rgb", extratags=extra)
    else:
        Image.fromarray(stored).save(tmp_path / "a.tif", compression=compression, tiffinfo={274: orientation})
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif"), RGB8)


def test_the_first_page_unless_another_is_asked_for(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "a.tif") as writer:
        for value in (10, 20, 30):
            writer.write(np.full((8, 8), value, np.uint8), photometric="minisblack")
    assert count_frames(tmp_path / "a.tif") == 3
    assert read_image(tmp_path / "a.tif").max() == 10
    assert [int(read_image(tmp_path / "a.tif", frame=i).max()) for i in range(3)] == [10, 20, 30]
    with pytest.raises(InputError, match="pages 0 to 2, not 3"):
        read_image(tmp_path / "a.tif", frame=3)
    pages = [Image.fromarray(np.full((8, 8), v, np.uint8)) for v in (1, 2)]
    pages[0].save(tmp_path / "lzw.tif", save_all=True, append_images=pages[1:], compression="tiff_lzw")
    assert [int(read_image(tmp_path / "lzw.tif", frame=i).max()) for i in range(2)] == [1, 2]


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.uint32, np.float64])
def test_types_without_a_full_range_go_by_percentiles(tmp_path: Path, dtype: type) -> None:
    values = RNG.integers(-900 if np.dtype(dtype).kind != "u" else 0, 3000, (30, 40)).astype(dtype)
    tifffile.imwrite(tmp_path / "a.tif", values)
    low, high = np.percentile(values, 0.5), np.percentile(values, 99.5)
    expected = np.rint(np.clip((values - low) / (high - low), 0, 1) * 255)
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif")[..., 0], expected)
    full = np.rint((values.astype(float) - values.min()) / (float(values.max()) - float(values.min())) * 255)
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif", window="full")[..., 0], full)


def test_what_is_neither_grey_nor_rgb_is_refused(tmp_path: Path) -> None:
    five = RNG.integers(0, 256, (6, 7, 5), dtype=np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", five, photometric="rgb", extrasamples=["unspecified", "unspecified"])
    with pytest.raises(InputError, match="5 channels is neither grey nor RGB"):
        read_image(tmp_path / "a.tif")


def test_a_file_that_promises_thousands_of_channels_is_refused_before_they_are_made(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((5000, 24), np.uint8))
    with tifffile.TiffFile(tmp_path / "a.tif", mode="r+") as file:
        file.pages[0].tags["SamplesPerPixel"].overwrite(9217)  # a gigabyte
    tracemalloc.start()
    with pytest.raises(InputError, match="9217 channels is neither grey nor RGB"):
        read_image(tmp_path / "a.tif")
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


def test_a_bomb_and_a_truncated_file_are_refused(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", GREY8)
    with pytest.raises(InputError, match="more than the 220 allowed"):
        read_image(tmp_path / "a.tif", max_pixels=220)
    data = (tmp_path / "a.tif").read_bytes()
    (tmp_path / "cut.tif").write_bytes(data[:-40])
    with pytest.raises(InputError, match=r"cut\.tif"):
        read_image(tmp_path / "cut.tif")
