"""Image files made by hand, so that what they must read as is known without a library."""

import struct
import zlib
from pathlib import Path

import numpy as np

from memorisk.images.readers.registry import read_image
from memorisk.runs.errors import InputError


def png_bytes(
    rows: list[bytes],
    width: int,
    bits: int,
    colour_type: int,
    *,
    palette: bytes = b"",
    transparent: bytes = b"",
    height: int | None = None,
) -> bytes:
    """A PNG from unfiltered rows (PNG specification, sections 5 and 11)."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    size = struct.pack(">IIBBBBB", width, len(rows) if height is None else height, bits, colour_type, 0, 0, 0)
    parts = [b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", size)]
    if palette:
        parts.append(chunk(b"PLTE", palette))
    if transparent:
        parts.append(chunk(b"tRNS", transparent))
    raw = b"".join(b"\0" + row for row in rows)
    return b"".join([*parts, chunk(b"IDAT", zlib.compress(raw)), chunk(b"IEND", b"")])


def packed(values: np.ndarray, bits: int) -> bytes:
    """Values of one row at 1, 2, 4, 8 or 16 bits each, most significant first."""
    if bits == 16:
        return values.astype(">u2").tobytes()
    text = "".join(f"{int(v):0{bits}b}" for v in values)
    text += "0" * (-len(text) % 8)
    return bytes(int(text[i : i + 8], 2) for i in range(0, len(text), 8))


def turned_by_definition(upright: np.ndarray, orientation: int) -> np.ndarray:
    """The stored array that an orientation of TIFF tag 274 describes, pixel by pixel from the tag's definition.

    Orientation says where the stored row 0 and column 0 lie in the upright image, as in 6: row 0 is the right side,
    column 0 is the top.
    """
    row_side, column_side = {
        1: ("top", "left"),
        2: ("top", "right"),
        3: ("bottom", "right"),
        4: ("bottom", "left"),
        5: ("left", "top"),
        6: ("right", "top"),
        7: ("right", "bottom"),
        8: ("left", "bottom"),
    }[orientation]
    height, width = upright.shape[:2]
    swapped = row_side in ("left", "right")
    stored = np.zeros((width, height, *upright.shape[2:]) if swapped else upright.shape, upright.dtype)
    place = {
        "top": lambda i: i,
        "bottom": lambda i: height - 1 - i,
        "left": lambda i: i,
        "right": lambda i: width - 1 - i,
    }
    for r in range(stored.shape[0]):
        for c in range(stored.shape[1]):
            along_row, along_column = place[row_side](r), place[column_side](c)
            y, x = (along_column, along_row) if swapped else (along_row, along_column)
            stored[r, c] = upright[y, x]
    return stored


def write(path: Path, data: bytes) -> Path:
    """Write bytes and give the path back."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def read_or_message(path: Path, **options: object) -> tuple[np.ndarray | None, str]:
    """An image, or the one line that refuses it; any other exception passes through and fails the test."""
    try:
        return read_image(path, **options), ""  # type: ignore[arg-type]
    except InputError as error:
        return None, str(error)
