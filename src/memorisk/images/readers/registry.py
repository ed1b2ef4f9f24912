"""Kinds of image files by their first bytes, and `read_image`, which reads them.

Every reader returns ``[h, w, c]``, c = 1 (grey) or 3 (RGB), uint8 or uint16, and refuses with one line what it cannot
read. A file's content decides its reader, never its name. A new format needs one :class:`Format` in ``FORMATS`` and
one module with ``read(path, how)`` and ``count_frames(path)``; where the first bytes do not identify it, the
:class:`Format` belongs in ``MEMBER_FORMATS``.
"""

import struct
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np

from memorisk.images.options import MAX_PIXELS, Window
from memorisk.images.readers.greys import to_depth
from memorisk.images.readers.limits import check_count
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import FETCH_LFS, LFS_POINTER, refuse_special
from memorisk.runs.user_code.plugins import Registry

Kind = Literal["raster", "dicom", "nifti", "arrays"]
BUILTIN_DIGITS = "builtin:digits"  # the path of the images that come with the package
# members of rows in files without first bytes of their own
CIFAR10_RECORDS, CIFAR100_RECORDS, STL10_RECORDS = "records:cifar10", "records:cifar100", "records:stl10"
SVHN_MATRIX = "matrix:svhn"
HEAD_BYTES = 352  # a NIfTI-1 header with its extension flag is the longest head that is examined
_TAR = b"ustar"
_VALUE_TYPES = frozenset(
    b"AE AS AT CS DA DS DT FL FD IS LO LT OB OD OF OL OW PN SH SL SQ SS ST TM UC UI UL UN UR US UT".split()
)
_RASTER = "memorisk.images.readers.raster"
_ARRAYS = "memorisk.images.readers.arrays"
_RECORDS = "memorisk.images.readers.records"
SHARDS = "memorisk.images.readers.shards"
PARQUET = "Parquet"


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options of reading one image; the fields are those of :func:`memorisk.images.readers.registry.read_image`."""

    member: str | None = None
    frame: int | None = None
    depth: int = 8
    window: Window = "declared"
    max_pixels: int = MAX_PIXELS
    opaque: bool = False


@dataclass(frozen=True)
class Format:
    """Kind of file: its name, its contents, a test of its first bytes and the module that reads it."""

    name: str
    kind: Kind
    matches: Callable[[bytes], bool]
    module: str


def _begins(*magic: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(magic)


def _is_webp(head: bytes) -> bool:
    return head[:4] == b"RIFF" and head[8:12] == b"WEBP"


def _is_bmp(head: bytes) -> bool:
    """Return whether a file is BMP: ``BM`` may begin any text, so the size of the second header must exist."""
    return (
        head[:2] == b"BM"
        and len(head) >= 18
        and struct.unpack("<I", head[14:18])[0] in (12, 16, 40, 52, 56, 64, 108, 124)
    )


def _is_pnm(head: bytes) -> bool:
    return len(head) > 3 and head[:2] in (b"P1", b"P2", b"P3", b"P4", b"P5", b"P6") and head[2:3] in b" \t\r\n"


def _is_nifti(head: bytes) -> bool:
    """Return whether a file is NIfTI-1 or -2 in one file (magic ``n+1``, ``n+2``)."""
    return head[344:348] == b"n+1\0" or head[4:8] == b"n+2\0"


def _is_idx(head: bytes) -> bool:
    """Return whether a file has the form of MNIST: two zeros, a number type, the number of dimensions."""
    return len(head) > 4 and head[:2] == b"\0\0" and head[2] in (8, 9, 11, 12, 13, 14) and 1 <= head[3] <= 4


def _is_arrow_stream(head: bytes) -> bool:
    """Return whether a file begins with a continuation mark and the length of the first message, a schema."""
    return head[:4] == b"\xff" * 4 and 0 < int.from_bytes(head[4:8], "little") < 1 << 26 and not head[4] % 8


def _is_dicom(head: bytes) -> bool:
    """Return whether ``DICM`` follows the preamble or, without one, a plausible element of group 2 or 8 comes first."""
    if head[128:132] == b"DICM":
        return True
    if len(head) < 12 or head[:2] not in (b"\x02\0", b"\x08\0", b"\0\x08"):
        return False
    if head[4:6] in _VALUE_TYPES:
        return True
    little = head[:2] != b"\0\x08"
    element = int.from_bytes(head[2:4], "little" if little else "big")
    length = int.from_bytes(head[4:8], "little" if little else "big")
    return little and element in (0x0000, 0x0001, 0x0005, 0x0008, 0x0012, 0x0016, 0x0018) and length <= 64


def _gzipped(matches: Callable[[bytes], bool]) -> Callable[[bytes], bool]:
    return lambda head: head[:2] == b"\x1f\x8b" and matches(_inflated_head(head))


def _inflated_head(head: bytes) -> bytes:
    """Return the first bytes of a gzip file's content; empty where the file is not gzip."""
    try:
        return zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
    except zlib.error:
        return b""


FORMATS = (
    # DICOM first: its preamble may hold the first bytes of a TIFF, for readers of both
    Format("DICOM", "dicom", _is_dicom, "memorisk.images.readers.dicom"),
    Format("PNG", "raster", _begins(b"\x89PNG\r\n\x1a\n"), _RASTER),
    Format("JPEG", "raster", _begins(b"\xff\xd8\xff"), _RASTER),
    Format("TIFF", "raster", _begins(b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), "memorisk.images.readers.tiff"),
    Format("GIF", "raster", _begins(b"GIF87a", b"GIF89a"), _RASTER),
    Format("WEBP", "raster", _is_webp, _RASTER),
    Format("BMP", "raster", _is_bmp, _RASTER),
    Format("JPEG2000", "raster", _begins(b"\0\0\0\x0cjP  \r\n\x87\n", b"\xff\x4f\xff\x51"), _RASTER),
    Format("PPM", "raster", _is_pnm, _RASTER),
    Format("NIfTI", "nifti", _is_nifti, "memorisk.images.readers.nifti"),
    Format("NIfTI, gzipped", "nifti", _gzipped(_is_nifti), "memorisk.images.readers.nifti"),
    Format("npy", "arrays", _begins(b"\x93NUMPY"), _ARRAYS),
    Format("npz", "arrays", _begins(b"PK\x03\x04"), _ARRAYS),
    Format("HDF5", "arrays", _begins(b"\x89HDF\r\n\x1a\n"), _ARRAYS),
    Format("idx", "arrays", _is_idx, _ARRAYS),
    Format("idx, gzipped", "arrays", _gzipped(_is_idx), _ARRAYS),
    Format(PARQUET, "arrays", _begins(b"PAR1"), SHARDS),
    Format("Arrow", "arrays", _begins(b"ARROW1\0\0"), SHARDS),
    Format("Arrow stream", "arrays", _is_arrow_stream, SHARDS),
)
_MORE = Registry("memorisk.readers", {own.name: own for own in FORMATS}, Format)
"""Registry of all of these, and of those that other packages bring."""

MEMBER_FORMATS = {
    CIFAR10_RECORDS: Format("CIFAR-10 records", "arrays", lambda head: False, _RECORDS),
    CIFAR100_RECORDS: Format("CIFAR-100 records", "arrays", lambda head: False, _RECORDS),
    STL10_RECORDS: Format("STL-10 records", "arrays", lambda head: False, _RECORDS),
    SVHN_MATRIX: Format("SVHN matrix", "arrays", lambda head: False, _RECORDS),
}
"""Formats without first bytes of their own, by the ``member`` with which a source names them."""


def sniff(head: bytes) -> Format | None:
    """Return the format whose first bytes these are, or None."""
    file_type = next((f for f in FORMATS if f.matches(head)), None)
    return file_type or next((f for f in _MORE.more.values() if f.matches(head)), None)


def file_head(path: str | Path) -> bytes:
    """Read the first bytes of a file; for gzip enough of them to recognise the content.

    Raises:
        InputError: The path is a folder, a device or a pipe, whose bytes might never come or never end.
        OSError: The file is absent, or cannot be opened.
    """
    refuse_special(path)
    with Path(path).open("rb") as file:
        head = file.read(HEAD_BYTES)
        return head + file.read(4096) if head[:2] == b"\x1f\x8b" else head


def file_format(path: str | Path) -> Format | None:
    """Return the format of a file by its content, or None; a file that cannot be opened has none."""
    try:
        return sniff(file_head(path))
    except (InputError, OSError, ValueError):
        return None


def read_image(
    path: str | Path,
    *,
    member: str | None = None,
    frame: int | None = None,
    depth: int = 8,
    window: Window = "declared",
    max_pixels: int = MAX_PIXELS,
    opaque: bool = False,
) -> np.ndarray:
    """Read one image.

    Args:
        path: Path of the file, or the name of built-in images.
        member: Array in an npz or HDF5 file, plane of a NIfTI volume (axial if not given), a whole volume
            (`memorisk.images.volumes`), or kind of a file without first bytes of its own (``MEMBER_FORMATS``).
        frame: Index in a stack; None for the reader's own rule (middle of DICOM and NIfTI, first page of TIFF and GIF).
        depth: Number of bits, 8 or 16. 8-bit sources at depth 16 are multiplied by 257.
        window: Range of greys that is shown of a deep source: the declared window, percentiles, or the full range
            (``greys`` and the readers define them exactly).
        max_pixels: Largest number of pixels a frame may declare; refused before anything is decoded.
        opaque: Whether transparency is left out, as by a loader that converts images to RGB; else it is black.

    Returns:
        Pixels ``[h, w, c]`` with c in {1, 3}, or voxels ``[h, w, d]`` of a volume, uint8 (depth 8) or uint16 (depth
        16).

    Raises:
        InputError: The file is absent, empty, of no known kind, broken, without pixels or too large.
        MissingExtraError: Its format needs a library of the extra ``medical``.
    """
    if str(path) == BUILTIN_DIGITS:
        from memorisk.images.readers.digits import read_digit  # brings scikit-learn, which no other image needs

        return to_depth(read_digit(frame), depth)
    file = Path(path)
    how = ReadOptions(
        member=member or None, frame=frame, depth=depth, window=window, max_pixels=max_pixels, opaque=opaque
    )
    reader: Any = import_module(_known_format(file, how.member).module)
    with decoding(file):
        return reader.read(file, how)


def count_frames(path: str | Path) -> int:
    """Return the number of frames, pages or (NIfTI, axial plane) slices of a file; 1 for a single image.

    Raises:
        InputError: The file cannot be read that far.
    """
    file = Path(path)
    reader: Any = import_module(_known_format(file).module)
    with decoding(file):
        n = reader.count_frames(file)
        check_count(file, n, "frames")
        return n


@contextmanager
def decoding(file: Path) -> Iterator[None]:
    """Wrap calls of decoders: their warnings are not repeated, and their exceptions become one line.

    Raises:
        InputError: A decoder raised an exception; to the user the image is unreadable.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # libraries warn of every oddity of a file that they can read
            yield
    except InputError:
        raise
    except MemoryError:
        raise InputError(f"{one_line(file)}: there is not enough memory to read it") from None
    except Exception as error:  # decoders raise anything on broken files
        text = str(error).replace(str(file), file.name)  # before it is cut, so that no part of the path is left
        reason = one_line(text or type(error).__name__, 160)
        raise InputError(f"{one_line(file)}: cannot be read ({reason})") from error


def _known_format(file: Path, member: str | None = None) -> Format:
    """Return the format of a file: the one that its row names, else by its first bytes.

    Raises:
        InputError: The file is absent, not a file, empty, or of an unknown kind.
    """
    try:
        head = file_head(file)
    except (OSError, ValueError) as error:
        reason = "the file does not exist" if isinstance(error, FileNotFoundError) else one_line(error, 120)
        raise InputError(f"{one_line(file)}: {reason}") from None
    if not head:
        raise InputError(f"{one_line(file)}: the file is empty")
    file_type = MEMBER_FORMATS.get(member or "") or sniff(head)
    if file_type is None:
        raise InputError(f"{one_line(file)}: {unknown_kind(head)}")
    return file_type


def unknown_kind(head: bytes) -> str:
    """Return why a file of these first bytes is not read, with the remedy where its kind is clear."""
    if head.startswith(LFS_POINTER):
        return FETCH_LFS
    if _TAR in (head[257:262], _inflated_head(head)[257:262]):
        return "a tar archive; unpack it and give its folder"
    return f"not an image of a known kind (its first bytes are {head[:8].hex(' ')})"
