"""Limits on what a file may declare, checked before memory is allocated for it.

A declared size is held against ``max_pixels`` and against the bytes that the file really has. Compressed bytes may
expand by `EXPANSION` at most, unless the result is small enough (`FREE_BYTES`, `FREE_PIXELS`) that its size does no
harm.
"""

import gzip
import io
from pathlib import Path

from memorisk.runs.errors import InputError, one_line

EXPANSION = 100
"""Bytes (or pixels) for each stored byte. Lossless compression shrinks scans and photographs 2 to 20 times and lossy
compression up to about 50 times; deflate's own limit, which only constant bytes reach, is 1,032 (zlib's technical
notes). Beyond 100 a file holds next to nothing."""
FREE_BYTES = 1 << 28
"""What any file may unpack to: 256 MiB, a volume of 512 x 512 x 512 voxels of 16 bits. A machine that trains can spare
it several times over, as decoding needs."""
FREE_PIXELS = 1 << 24
"""What any file may declare for a frame: 16 million pixels, at most 1 GiB while they are decoded and mapped (up to four
channels of 64 bits, and a copy)."""


def check_size(path: Path, width: int, height: int, max_pixels: int, *, stored: int | None = None) -> None:
    """Refuse a frame that declares more pixels than allowed, before it is decoded.

    Args:
        path: The file, for the message.
        width: In pixels.
        height: In pixels.
        max_pixels: Largest number of pixels allowed.
        stored: Bytes that hold the frame where they are compressed; None where the reader compares the sizes itself.

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


def check_unpacked(path: Path, what: str, n_bytes: int, stored: int) -> None:
    """Refuse what unpacks to far more bytes than are stored, before it is unpacked.

    Args:
        path: The file, for the message.
        what: The part of it, as in "the array 'labels'".
        n_bytes: Bytes that it declares.
        stored: Bytes that hold it.

    Raises:
        InputError: It unpacks to more than `EXPANSION` times the stored bytes, and to more than `FREE_BYTES`.
    """
    if n_bytes > max(FREE_BYTES, EXPANSION * stored):
        raise InputError(
            f"{one_line(path)}: {what} declares {n_bytes:,} bytes in {stored:,}, more than {EXPANSION} for each "
            "(a decompression bomb?); save it uncompressed if it is right"
        )


def check_count(path: Path, n: int, what: str) -> None:
    """Refuse more images than the file has bytes: each needs at least one.

    Raises:
        InputError: It is so.
    """
    stored = path.stat().st_size
    if n > stored:
        raise InputError(f"{one_line(path)}: declares {n:,} {what}, and the file has {stored:,} bytes")


class GzipStream(gzip.GzipFile):
    """The content of a gzip file, which ends with an error where it grows beyond ``limit``."""

    def __init__(self, path: Path) -> None:
        """Open the file; the limit is what its size allows until a header declares one."""
        super().__init__(path, "rb")
        self._path = path
        self._stored = path.stat().st_size
        self.limit = max(FREE_BYTES, EXPANSION * self._stored)

    def read(self, size: int | None = -1) -> bytes:
        """Up to ``size`` further bytes; all of them if it is negative.

        Raises:
            InputError: They lie beyond the limit.
        """
        place = self.tell()
        if size is None or size < 0:
            found = super().read(self.limit - place + 1)
            self.check(place + len(found))
            return found
        self.check(place + size)
        return super().read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place, from the beginning or from here.

        Raises:
            InputError: It lies beyond the limit.
        """
        here = super().seek(0, io.SEEK_CUR) if whence == io.SEEK_CUR else 0
        self.check(here + offset)
        return super().seek(here + offset)

    def check(self, place: int) -> None:
        """Refuse to go beyond the limit.

        Raises:
            InputError: A place lies there.
        """
        if place > self.limit:
            raise InputError(
                f"{one_line(self._path)}: goes on to byte {place:,} of what gzip packed in {self._stored:,}, beyond "
                f"the {self.limit:,} allowed (a decompression bomb?); give it unpacked if it is right"
            )
