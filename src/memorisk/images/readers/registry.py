"""Readers of one image, chosen by the file's content and never by its name.

``read_image`` is the one door: every reader behind it gives ``[h, w, c]``, c = 1 (grey) or 3 (RGB), uint8 or
uint16, and refuses what it cannot read with one line. The formats and the modules that read them are in
``formats``.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.images.decoding.formats import BUILTIN_DIGITS, NAMED, Format, Reading, file_head, sniff
from memorisk.images.decoding.greys import to_depth
from memorisk.images.options import MAX_PIXELS, Window
from memorisk.images.readers.bounds import check_count
from memorisk.runs.errors import InputError, one_line


def read_image(
    path: str | Path,
    *,
    member: str | None = None,
    frame: int | None = None,
    depth: int = 8,
    window: Window = "declared",
    max_pixels: int = MAX_PIXELS,
) -> np.ndarray:
    """Read one image.

    Args:
        path: The file, or the name of built-in images.
        member: Array in an npz or HDF5 file, plane of a NIfTI volume (axial if not given), or what a file without
            first bytes of its own is (``formats.NAMED``).
        frame: Index in a stack; None for the reader's own rule (middle of DICOM and NIfTI, first page of TIFF and GIF).
        depth: 8 or 16 bits. 8-bit sources at depth 16 are multiplied by 257.
        window: Which greys of a deep source are shown: the declared window, percentiles, or the full range
            (``greys`` and the readers say exactly what).
        max_pixels: Largest number of pixels a frame may declare; refused before anything is decoded.

    Returns:
        ``[h, w, c]`` with c in {1, 3}, uint8 (depth 8) or uint16 (depth 16).

    Raises:
        InputError: The file is absent, empty, of no known kind, broken, without pixels or too large.
        MissingExtraError: Its format needs a library of the extra ``medical``.
    """
    if str(path) == BUILTIN_DIGITS:
        from memorisk.images.digits import read_digit  # brings scikit-learn and pandas, which no other image needs

        return to_depth(read_digit(frame), depth)
    file = Path(path)
    how = Reading(member=member or None, frame=frame, depth=depth, window=window, max_pixels=max_pixels)
    reader: Any = import_module(_known_format(file, how.member).module)
    with decoding(file):
        return reader.read(file, how)


def count_frames(path: str | Path) -> int:
    """Number of frames, pages or (for NIfTI, in its axial plane) slices of a file; 1 for a single image.

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
    """Around the calls of decoders: what they warn of is not repeated, what they raise becomes one line.

    Raises:
        InputError: Anything was raised; to the user it is an unreadable image.
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
        text = str(error).replace(str(file), file.name)  # before it is cut, so that no part of the place is left
        reason = one_line(text or type(error).__name__, 160)
        raise InputError(f"{one_line(file)}: cannot be read ({reason})") from error


def _known_format(file: Path, member: str | None = None) -> Format:
    """The format of a file: the one that its row names, else by its first bytes.

    Raises:
        InputError: It is absent, no file, empty, or of no known kind.
    """
    try:
        head = file_head(file)
    except (OSError, ValueError) as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else one_line(error, 120)
        raise InputError(f"{one_line(file)}: {reason}") from None
    if not head:
        raise InputError(f"{one_line(file)}: the file is empty")
    found = NAMED.get(member or "") or sniff(head)
    if found is None:
        raise InputError(f"{one_line(file)}: not an image of a known kind (its first bytes are {head[:8].hex(' ')})")
    return found
