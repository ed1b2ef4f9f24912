"""Limits on the sizes that image files declare, checked before memory is allocated.

A declared size is compared with ``max_pixels`` and with the bytes that the file really has: each byte may yield
`memorisk.runs.size_limits.EXPANSION` pixels at most unless the image is small (`FREE_PIXELS`).
"""

from pathlib import Path

from memorisk.runs.errors import InputError, one_line
from memorisk.runs.size_limits import EXPANSION

FREE_PIXELS = 1 << 24
"""Number of pixels that any file may declare for a frame: 16 million, at most 1 GiB while they are decoded and mapped
(up to four channels of 64 bits, and a copy)."""

SLICES = 10
"""Number of frames of the largest allowed size that a volume may hold."""


def check_size(path: Path, width: int, height: int, max_pixels: int, *, stored: int | None = None) -> None:
    """Refuse a frame that declares more pixels than allowed, before it is decoded.

    Args:
        path: Path of the file, for the message.
        width: Width in pixels.
        height: Height in pixels.
        max_pixels: Largest number of pixels allowed.
        stored: Number of bytes that hold the frame compressed; None where the reader compares the sizes itself.

    Raises:
        InputError: width x height is above max_pixels or beyond any compression of the stored bytes, or one is 0.
    """
    if width < 1 or height < 1:
        raise InputError(f"{one_line(path)}: declares {width} x {height} pixels")
    if width * height > max_pixels:
        raise InputError(
            f"{one_line(path)}: declares {width:,} x {height:,} pixels, more than the {max_pixels:,} allowed "
            "(a decompression bomb?); raise max_pixels if it is right"
        )
    if stored is not None and width * height > max(FREE_PIXELS, EXPANSION * stored):
        raise InputError(
            f"{one_line(path)}: declares {width:,} x {height:,} pixels in {stored:,} bytes, more than {EXPANSION} for "
            "each byte (a decompression bomb?); save it with less compression if it is right"
        )


def check_count(path: Path, n: int, what: str) -> None:
    """Refuse more images than the file has bytes: each needs at least one.

    Raises:
        InputError: The file declares more images than it has bytes.
    """
    stored = path.stat().st_size
    if n > stored:
        raise InputError(f"{one_line(path)}: declares {n:,} {what}, and the file has {stored:,} bytes")
