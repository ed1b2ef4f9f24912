"""PNG files in one form: the pixels come back, other libraries read them, and any other byte is refused."""

import io

import numpy as np
import pytest
from PIL import Image

from memorisk.images.pixel_form import PixelForm
from memorisk.images.plain_png import decode_png, encode_png

SHAPES = [(1, 1, 1), (5, 3, 3), (24, 24, 1), (1, 65_534, 1), (1, 65_535, 1), (257, 255, 1), (300, 200, 3)]


def pixels(shape: tuple[int, ...], kind: type = np.uint8) -> np.ndarray:
    """Pixels of every value."""
    return np.random.default_rng(0).integers(0, np.iinfo(kind).max, shape, dtype=kind, endpoint=True)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
@pytest.mark.parametrize("shape", SHAPES)
def test_pixels_come_back(shape: tuple[int, ...], kind: type) -> None:
    image = pixels(shape, kind)
    decoded = decode_png(encode_png(image))
    assert decoded is not None
    assert decoded.dtype == image.dtype
    np.testing.assert_array_equal(decoded, image)
    assert PixelForm.of_png(encode_png(image)) == PixelForm(*shape, bits=8 * image.itemsize)


@pytest.mark.parametrize(("shape", "kind"), [*((s, np.uint8) for s in SHAPES), ((24, 20, 1), np.uint16)])
def test_pillow_reads_the_same_pixels(shape: tuple[int, ...], kind: type) -> None:
    image = pixels(shape, kind)
    with Image.open(io.BytesIO(encode_png(image))) as opened:
        assert not opened.info
        np.testing.assert_array_equal(np.asarray(opened).reshape(shape), image)


def test_the_bytes_are_those_of_every_version() -> None:
    """Written out once: signature, header, one stored block, end."""
    image = np.array([[[1], [2]], [[3], [4]]], dtype=np.uint8)
    assert encode_png(image).hex() == (
        "89504e470d0a1a0a" "0000000d49484452" "00000002000000020800000000" "57dd52f8"
        "0000001149444154" "7801" "010600f9ff" "000102000304" "001d000b" "7a383725" "0000000049454e44ae426082"
    )  # fmt: skip


def test_every_changed_byte_is_another_file() -> None:
    data = encode_png(pixels((6, 5, 1)))
    for place in range(len(data)):
        for bit in (1, 128):
            changed = bytearray(data)
            changed[place] ^= bit
            assert decode_png(bytes(changed)) is None
    assert all(decode_png(data[:n]) is None for n in range(len(data)))
    assert decode_png(data + b"\0") is None


@pytest.mark.parametrize("level", [0, 1, 6, 9])
def test_a_file_of_another_writer_is_refused(level: int) -> None:
    written = io.BytesIO()
    Image.fromarray(pixels((24, 24))).save(written, format="PNG", compress_level=level)
    assert decode_png(written.getvalue()) is None


def test_declared_sizes_cost_nothing() -> None:
    data = bytearray(encode_png(pixels((6, 5, 1))))
    data[16:24] = b"\xff" * 8
    assert decode_png(bytes(data)) is None
