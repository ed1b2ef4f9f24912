"""Limits on the size to which compressed and repeating files may grow, checked before memory is allocated.

The size that a file declares is compared with its real bytes. Compressed bytes may expand by `EXPANSION` at most,
unless the result is small enough (`FREE_BYTES`) that its size does no harm.
"""

import gzip
import io
import math
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from memorisk.runs.errors import InputError, one_line

EXPANSION = 100
"""Largest number of bytes (or pixels) per stored byte. Lossless compression shrinks scans and photographs 2 to 20
times, lossy compression up to about 50 times; deflate's own limit, which only constant bytes reach, is 1,032 (zlib's
technical notes). Beyond 100 a file holds next to nothing."""
FREE_BYTES = 1 << 28
"""Number of bytes to which any file may unpack: 256 MiB, a volume of 512 x 512 x 512 voxels of 16 bits. A machine that
trains can spare it several times over, as decoding needs."""
MAX_COLUMNS = 1 << 15
"""Largest number of columns of a table: 32,768. A table of logits has one per class, and ImageNet-21k has 21,841."""


def check_unpacked(path: Path, what: str, n_bytes: int, stored: int) -> None:
    """Refuse a part of a file that unpacks to far more bytes than are stored, before it is unpacked.

    Args:
        path: Path of the file, for the message.
        what: Name of the part, as in "the array 'labels'".
        n_bytes: Number of bytes that it declares.
        stored: Number of bytes that hold it.

    Raises:
        InputError: The part unpacks to more than `EXPANSION` times the stored bytes, and to more than `FREE_BYTES`.
    """
    if n_bytes > max(FREE_BYTES, EXPANSION * stored):
        raise InputError(
            f"{one_line(path)}: {what} declares {n_bytes:,} bytes in {stored:,}, more than {EXPANSION} for each "
            "(a decompression bomb?); save it uncompressed if it is right"
        )


def check_archive(path: str | Path) -> None:
    """Refuse a zip archive (npz, PyTorch) whose members unpack to far more than their stored size.

    Members are stored or deflated, as NumPy and PyTorch write them: other methods unpack without a bound.

    Raises:
        InputError: The members unpack to more, or are packed by another method.
        zipfile.BadZipFile: The file is not a zip archive.
    """
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in members):
        raise InputError(f"{one_line(path)}: is compressed by another method than deflate; save it by numpy.savez")
    declared = sum(member.file_size for member in members)
    check_unpacked(Path(path), "the archive", declared, Path(path).stat().st_size)


def check_arrays(path: str | Path) -> None:
    """Refuse an npz as `check_archive` does, and one whose arrays declare more values than their members hold.

    Raises:
        InputError: The archive is such a one.
        ValueError: A member's header is invalid; also `zipfile.BadZipFile`, `SyntaxError` and `tokenize.TokenError`.
    """
    check_archive(path)
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.filename.endswith(".npy"):
                continue
            with archive.open(member) as stream:
                version = np.lib.format.read_magic(stream)
                of_version = np.lib.format.read_array_header_1_0, np.lib.format.read_array_header_2_0
                shape, _, dtype = of_version[version != (1, 0)](stream)
                if math.prod(shape) * dtype.itemsize > member.file_size - stream.tell() and not dtype.hasobject:
                    raise InputError(
                        f"{one_line(path)}: {one_line(member.filename, 60)!r} declares shape {shape}, more than the "
                        "file holds"
                    )


def check_table(path: Path, n_rows: int, n_columns: int, stored: int) -> None:
    """Refuse a table of more columns than any has, or of far more cells than its bytes can describe.

    Args:
        path: Path of the file, for the message.
        n_rows: Number of rows that it declares or has lines for.
        n_columns: Number of its columns.
        stored: Number of bytes that hold it.

    Raises:
        InputError: The table is such a one.
    """
    if n_columns > MAX_COLUMNS:
        raise InputError(
            f"{one_line(path)}: has {n_columns:,} columns, more than the {MAX_COLUMNS:,} of any table of images or "
            "losses; is it turned by 90 degrees, or of another separator?"
        )
    check_unpacked(path, f"the table of {n_rows:,} x {n_columns:,} cells", 8 * n_rows * n_columns, stored)


class GzipStream(gzip.GzipFile):
    """Content of a gzip file, which ends with an error where it grows beyond ``limit``."""

    def __init__(self, path: Path) -> None:
        """Open the file; its size sets the limit until a header declares one."""
        super().__init__(path, "rb")
        self._path = path
        self._stored = path.stat().st_size
        self.limit = max(FREE_BYTES, EXPANSION * self._stored)

    def read(self, size: int | None = -1) -> bytes:
        """Read up to ``size`` further bytes; all of them if it is negative.

        Raises:
            InputError: The bytes lie beyond the limit.
        """
        return self._checked(super().read, size)

    def read1(self, size: int = -1) -> bytes:
        """Read bytes as `read` does, but with a single read of the file.

        Raises:
            InputError: The bytes lie beyond the limit.
        """
        return self._checked(super().read1, size)

    def _checked(self, read: Callable[[int], bytes], size: int | None) -> bytes:
        """Read and check the size; one byte beyond the limit is enough to detect it."""
        place = self.tell()
        allowance = self.limit - place + 1
        data = read(allowance if size is None or size < 0 else min(size, allowance))
        self.check(place + len(data))
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a place, counted from the beginning or from here.

        Raises:
            InputError: The place lies beyond the limit.
        """
        here = super().seek(0, io.SEEK_CUR) if whence == io.SEEK_CUR else 0
        self.check(here + offset)
        return super().seek(here + offset)

    def check(self, place: int) -> None:
        """Refuse to read beyond the limit.

        Raises:
            InputError: The place lies beyond it.
        """
        if place > self.limit:
            raise InputError(
                f"{one_line(self._path)}: reaches byte {place:,} of what gzip packed in {self._stored:,}, beyond "
                f"the {self.limit:,} allowed (a decompression bomb?); give it unpacked if it is right"
            )
