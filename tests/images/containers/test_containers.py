"""Where a file of one image has room for something else, and every such place is refused by name."""

import io
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms

from memorisk.images.containers.surplus import surplus

TEXT = b"DOE JOHN born 1960-01-01 in Springfield, admitted 2024-03-02, case 4711"
PIXELS = np.random.default_rng(0).integers(0, 256, (24, 24), dtype=np.uint8)
NPY = b"{'descr': '|u1', 'fortran_order': False, 'shape': (24, 24), }"


def encoded(kind: str, pixels: np.ndarray = PIXELS, **how) -> bytes:
    """An image as Pillow writes it."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **how)
    return buffer.getvalue()


def chunk(name: bytes, body: bytes) -> bytes:
    """A PNG chunk with its checksum."""
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


PNG = encoded("PNG")
HEADER, DATA, END = PNG[:33], PNG[33:-12], PNG[-12:]
EMPTY_BLOCKS = b"\0\0\0\xff\xff" * 2000
"""Blocks of compressed data that give nothing, and in which bits are free."""


def with_blocks(data: bytes) -> bytes:
    """Compressed data among which such blocks stand."""
    packer = zlib.compressobj()
    return packer.compress(data) + packer.flush(zlib.Z_FULL_FLUSH) + EMPTY_BLOCKS + packer.flush()


def with_chunk(name: bytes, body: bytes) -> bytes:
    """A PNG file with one more chunk."""
    return HEADER + chunk(name, body) + DATA + END


def profile_with_blocks() -> bytes:
    """The profile of Pillow, with more among its compressed data."""
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    return with_chunk(b"iCCP", b"ICC Profile\0\0" + with_blocks(profile))


def npy(header: bytes, data: bytes = PIXELS.tobytes()) -> bytes:
    """An array file of version 1."""
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + data


JPEG = encoded("JPEG")
FLAT = encoded("JPEG", np.full((24, 24), 77, np.uint8))


def segment(marker: int, body: bytes) -> bytes:
    """A JPEG segment."""
    return bytes((0xFF, marker)) + struct.pack(">H", len(body) + 2) + body


def with_segments(*segments: bytes) -> bytes:
    """A JPEG file with more segments behind its first."""
    return JPEG[:20] + b"".join(segments) + JPEG[20:]


def in_table(marker: bytes, number: int, before: int, body: bytes) -> bytes:
    """A JPEG file of one grey with other bytes in one of its tables."""
    place = -1
    for _ in range(number):
        place = FLAT.index(marker, place + 1)
    return FLAT[: place + before] + body + FLAT[place + before + len(body) :]


def codes_of_text() -> bytes:
    """The image of one grey with other symbols for all codes but that of an empty block, the only one it has."""
    place = FLAT.index(b"\xff\xc4", FLAT.index(b"\xff\xc4") + 2) + 21
    symbols, empty = FLAT[place : place + 162], FLAT[place : place + 162].index(0)
    told = bytes(dict.fromkeys(TEXT + bytes(range(1, 256))))
    return FLAT[:place] + told[:empty] + b"\0" + told[empty : len(symbols) - 1] + FLAT[place + len(symbols) :]


def last_bit(value: int) -> bytes:
    """The image of one grey with its last bit, which pads the coded data, as given."""
    return FLAT[:-3] + bytes((FLAT[-3] & ~1 | value,)) + FLAT[-2:]


HELD: dict[str, tuple[bytes, str]] = {
    "white point": (with_chunk(b"cHRM", TEXT[:32]), "unusual values in a chunk about display (cHRM)"),
    "gamma": (with_chunk(b"gAMA", TEXT[:4]), "unusual values in a chunk about display (gAMA)"),
    "resolution": (with_chunk(b"pHYs", TEXT[:9]), "unusual values in a chunk about display (pHYs)"),
    "background": (with_chunk(b"bKGD", TEXT[:2]), "unusual values in a chunk about display (bKGD)"),
    "coding": (with_chunk(b"cICP", TEXT[:4]), "unusual values in a chunk about display (cICP)"),
    "bits": (with_chunk(b"sBIT", TEXT[:1]), "unusual values in a chunk about display (sBIT)"),
    "unknown chunk": (with_chunk(b"doEs", TEXT), "an unknown chunk (doEs)"),
    "empty blocks": (HEADER + chunk(b"IDAT", with_blocks(zlib.decompress(DATA[8:-4]))) + END, "more image data"),
    "blocks in a profile": (profile_with_blocks(), "data among its colour profile"),
    "empty chunks": (HEADER + chunk(b"IDAT", b"") * 3 + DATA + END, "an empty chunk (IDAT)"),
    "bits of no pixel": (encoded("PNG", PIXELS[:, :17] > 128), "rows with bits of no pixel"),
    "JFIF twice": (with_segments(JPEG[2:20] * 2), "a segment that stands twice (FFE0)"),
    "Adobe's": (with_segments(segment(0xEE, b"Adobe" + TEXT[:6] + b"\1")), "application data (APP14)"),
    "restart intervals": (with_segments(*(segment(0xDD, TEXT[k : k + 2]) for k in range(9))), "stands twice (FFDD)"),
    "JPEG resolution": (JPEG[:13] + TEXT[:5] + JPEG[18:], "a resolution of its own (APP0)"),
    "names of components": (JPEG.replace(b"\xff\xc0\0\x0b\x08\0\x18\0\x18\1\1", b"\xff\xc0\0\x0b\x08\0\x18\0\x18\1J")
                            .replace(b"\xff\xda\0\x08\1\1", b"\xff\xda\0\x08\1J"), "a frame header"),
    "steps": (in_table(b"\xff\xdb", 1, 6, TEXT[:63]), "a quantisation table with steps that nothing uses"),
    "codes": (codes_of_text(), "a Huffman table with codes that nothing uses"),
    "last bits": (last_bit(0), "bits of data after its last block"),
    "npy comment": (npy(NPY + b" # " + TEXT + b"\n"), "a header that is not as NumPy writes it"),
    "npy key twice": (npy(b"{'descr': '" + TEXT + b"', " + NPY[1:] + b"\n"), "a header that is not as NumPy writes it"),
    "npy spaces": (npy(NPY.replace(b"24, 24", b"24,   24") + b"\n"), "a header with more room"),
    "npy long end": (npy(NPY + b" " * 200 + b"\n"), "a header with more room"),
    "npy truth values": (npy(NPY.replace(b"|u1", b"|b1") + b"\n"), "a header that is not as NumPy writes it"),
    "npy floats": (npy(NPY.replace(b"|u1", b"<f8") + b"\n", PIXELS.astype("<f8").tobytes()), "numbers of 64 bits"),
}  # fmt: skip


@pytest.mark.parametrize("name", HELD)
def test_a_file_with_room_for_something_else_is_named(tmp_path: Path, name: str) -> None:
    data, what = HELD[name]
    (tmp_path / "file").write_bytes(data)
    assert what in str(surplus(tmp_path / "file"))
    if data.startswith(b"\x93"):
        np.load(tmp_path / "file")
    else:  # an image all the same: a viewer and an audit see nothing of it
        Image.open(tmp_path / "file").load()


DEEP = np.arange(576, dtype=np.uint16).reshape(24, 24) * 113
COLOUR = np.stack([PIXELS, PIXELS.T, 255 - PIXELS], axis=-1)
BLACK = np.zeros((40, 56), np.uint8)
PLAIN: dict[str, Callable[[], bytes]] = {
    **{f"PNG {level}": lambda level=level: encoded("PNG", compress_level=level) for level in (0, 1, 6, 9)},
    **{f"PNG {dpi} dpi": lambda dpi=dpi: encoded("PNG", dpi=(dpi, dpi)) for dpi in (72, 96, 300)},
    "black PNG": lambda: encoded("PNG", BLACK),
    "colour PNG": lambda: encoded("PNG", COLOUR),
    "deep PNG": lambda: encoded("PNG", DEEP),
    "one pixel": lambda: encoded("PNG", BLACK[:1, :1]),
    "PNG with sRGB": lambda: with_chunk(b"sRGB", b"\0"),
    **{f"JPEG {quality}": lambda quality=quality: encoded("JPEG", COLOUR, quality=quality) for quality in (1, 50, 100)},
    **{f"JPEG {k}": lambda k=k: encoded("JPEG", COLOUR, subsampling=k) for k in ("4:4:4", "4:2:2", "4:2:0")},
    "black JPEG": lambda: encoded("JPEG", BLACK),
    "optimised JPEG": lambda: encoded("JPEG", COLOUR, optimize=True),
    "restarted JPEG": lambda: encoded("JPEG", COLOUR, restart_marker_blocks=1),
    "JPEG 300 dpi": lambda: encoded("JPEG", dpi=(300, 300)),
    "npy": lambda: npy(NPY + b" " * 40 + b"\n"),
}


@pytest.mark.parametrize("name", PLAIN)
def test_what_libraries_write_is_plain(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(PLAIN[name]())
    assert surplus(tmp_path / "file") is None


def test_the_end_of_a_jpeg_is_checked_to_its_last_bit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(last_bit(1))
    assert surplus(tmp_path / "file") is None
    (tmp_path / "file").write_bytes(last_bit(0))
    assert surplus(tmp_path / "file", walk=False) is None


@pytest.mark.parametrize(("pixels", "seen"), [(DEEP, 16), (PIXELS, 8)])
def test_bits_that_an_audit_did_not_see_are_surplus(tmp_path: Path, pixels: np.ndarray, seen: int) -> None:
    Image.fromarray(pixels).save(tmp_path / "a.png")
    np.save(tmp_path / "a.npy", pixels)
    for name in ("a.png", "a.npy"):
        assert surplus(tmp_path / name, depth=seen) is None
        assert (surplus(tmp_path / name, depth=8) is None) == (seen == 8)


def test_a_jpeg_of_few_bytes_that_declares_many_blocks_is_refused_at_once(tmp_path: Path) -> None:
    """One bit a code, and an end that reads as ones: four thousand million pixels would be walked through."""
    frame = segment(0xC0, struct.pack(">BHHB", 8, 65_535, 65_535, 1) + b"\1\x11\0")
    codes = b"".join(segment(0xC4, bytes((kind, 2)) + bytes(15) + b"\1\0") for kind in (0, 16))
    tables = segment(0xDB, b"\0" + b"\1" * 64) + codes
    scan = segment(0xDA, b"\1\1\0\0\x3f\0")
    (tmp_path / "file").write_bytes(b"\xff\xd8" + tables + frame + scan + b"\xff\0\xff\xd9")
    begun = time.process_time()
    assert surplus(tmp_path / "file") == "a JPEG that ends too early"
    assert time.process_time() - begun < 1
