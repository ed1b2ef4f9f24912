"""Grey of 16 bits with alpha, and bitmaps."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from memorisk.images.readers.registry import read_image
from memorisk.runs.errors import InputError

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 65536, (6, 5), dtype=np.uint16)
ALPHA = np.where(RNG.random((6, 5)) < 0.5, 65535, RNG.integers(0, 65536, (6, 5))).astype(np.uint16)


def png_of(grey: np.ndarray, alpha: np.ndarray, more: bytes = b"") -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    height, width = grey.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in np.stack([grey, alpha], axis=2))
    header = chunk(b"IHDR", struct.pack(">2I5B", width, height, 16, 4, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + more + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def test_grey_and_alpha_of_16_bits_keep_both_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png_of(GREY, np.full_like(GREY, 65535)))
    np.testing.assert_array_equal(read_image(path, depth=16)[..., 0], GREY)
    path.write_bytes(png_of(GREY, ALPHA))
    shown = np.floor(GREY.astype(float) * ALPHA / 65535 + 0.5)
    np.testing.assert_array_equal(read_image(path, depth=16)[..., 0], shown)
    assert np.abs(read_image(path)[..., 0] - shown / 257).max() <= 2  # two bytes are cut, and one is rounded
    path.write_bytes(png_of(GREY, ALPHA)[:60])
    with pytest.raises(InputError):
        read_image(path, depth=16)


@pytest.mark.parametrize("name", ["a.pbm", "a.pnm"])
def test_bitmaps_are_read(tmp_path: Path, name: str) -> None:
    bits = RNG.integers(0, 2, (7, 11), dtype=np.uint8)
    (tmp_path / name).write_bytes(b"P4\n11 7\n" + np.packbits(bits, axis=1).tobytes())
    np.testing.assert_array_equal(read_image(tmp_path / name)[..., 0], 255 * (1 - bits))
    (tmp_path / name).write_text("P1\n11 7\n" + "\n".join(" ".join(map(str, row)) for row in bits))
    np.testing.assert_array_equal(read_image(tmp_path / name)[..., 0], 255 * (1 - bits))
    assert Image.open(tmp_path / name).mode == "1"
