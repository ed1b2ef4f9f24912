"""PNG files in one form: the bytes of a file follow from its pixels alone, so the file holds nothing else.

PNG (ISO/IEC 15948) leaves chunks, filters and compression to the writer, and each of these choices has room for
something else. This form leaves no choice: one header, one chunk of image data, one end; rows without a filter; and a
zlib stream (RFC 1950) of stored blocks (RFC 1951, section 3.2.4) of 65,535 bytes. Compressed data would be smaller and
would differ between versions of zlib. A file has one byte more than its pixels for each row, and at least 69 bytes in
addition; archives compress it.
"""

import zlib
from collections.abc import Iterator
from struct import pack

import numpy as np

from memorisk.images.pixel_form import PNG_SIGNATURE, PixelForm

_ZLIB_HEADER = b"\x78\x01"
_LARGEST_BLOCK = 65_535
_BLOCK_HEADER = 5
_BEFORE_DATA = len(PNG_SIGNATURE) + 12 + 13 + 8 + len(_ZLIB_HEADER)  # header chunk, length and name of the next one
_AFTER_DATA = 4 + 4 + 12  # checksums of the stream and of its chunk, and the last chunk
_COLOUR_TYPES = {1: 0, 3: 2}
"""Colour type of a file by its number of channels: grey and RGB."""


def encode_png(image: np.ndarray) -> bytes:
    """Encode an image to the only bytes that its pixels have.

    Args:
        image: Pixels [H, W, C], uint8 or uint16, with C 1 or 3.
    """
    height, width, channels = image.shape
    bits = 8 * image.dtype.itemsize
    samples = np.ascontiguousarray(image, dtype=image.dtype.newbyteorder(">"))
    rows = np.zeros((height, 1 + width * channels * bits // 8), dtype=np.uint8)  # each begins with filter type 0
    rows[:, 1:] = samples.reshape(height, -1).view(np.uint8)
    header = pack(">2I5B", width, height, bits, _COLOUR_TYPES[channels], 0, 0, 0)
    chunks = {b"IHDR": header, b"IDAT": _stored(rows.tobytes()), b"IEND": b""}
    return PNG_SIGNATURE + b"".join(_chunk(name, body) for name, body in chunks.items())


def decode_png(data: bytes) -> np.ndarray | None:
    """Decode a file of `encode_png`.

    Args:
        data: Bytes of the file.

    Returns:
        Pixels [H, W, C]; None for a file with any other bytes.
    """
    form = PixelForm.of_png(data)
    if form is None or form.channels not in _COLOUR_TYPES or form.bits not in (8, 16):
        return None
    row = 1 + form.width * form.channels * form.bits // 8
    n_bytes = form.height * row
    n_blocks = -(-n_bytes // _LARGEST_BLOCK)
    if not n_bytes or len(data) != _BEFORE_DATA + n_bytes + n_blocks * _BLOCK_HEADER + _AFTER_DATA:
        return None
    rows = np.frombuffer(b"".join(_blocks(data, n_blocks)), np.uint8)[:n_bytes].reshape(form.height, row)
    kind = np.dtype(f"u{form.bits // 8}")
    samples = np.ascontiguousarray(rows[:, 1:]).view(kind.newbyteorder(">")).astype(kind)
    image = samples.reshape(form.height, form.width, form.channels)
    return image if encode_png(image) == data else None


def _blocks(data: bytes, n: int) -> Iterator[bytes]:
    """Yield the contents of the blocks of a file; bytes after the image data may follow in the last one."""
    for number in range(n):
        start = _BEFORE_DATA + number * (_BLOCK_HEADER + _LARGEST_BLOCK) + _BLOCK_HEADER
        yield data[start : start + _LARGEST_BLOCK]


def _stored(data: bytes) -> bytes:
    """Return a zlib stream that holds data uncompressed."""
    pieces = [data[place : place + _LARGEST_BLOCK] for place in range(0, len(data), _LARGEST_BLOCK)]
    blocks = [
        pack("<B2H", number == len(pieces), len(piece), _LARGEST_BLOCK - len(piece)) + piece
        for number, piece in enumerate(pieces, 1)
    ]
    return _ZLIB_HEADER + b"".join(blocks) + pack(">I", zlib.adler32(data))


def _chunk(name: bytes, body: bytes) -> bytes:
    """Return a chunk with its length and its checksum."""
    return pack(">I", len(body)) + name + body + pack(">I", zlib.crc32(body, zlib.crc32(name)))
