"""Images in records of one length, without a header: the binary version of CIFAR-10.

A record has 3,073 bytes: the label, then the 32 x 32 reds, greens and blues, row by row. Such a file has no first bytes
of its own; the row's ``member`` says what it is (``formats.CIFAR10_RECORDS``), and its ``frame`` which record is meant.
"""

from pathlib import Path

import numpy as np

from memorisk.images.formats import Reading
from memorisk.images.greys import to_depth
from memorisk.images.readers_raster import check_size
from memorisk.runs.errors import InputError, one_line

SIDE = 32
RECORD_BYTES = 1 + 3 * SIDE * SIDE


def read(path: Path, how: Reading) -> np.ndarray:
    """One image, ``[32, 32, 3]`` uint8 or uint16.

    Raises:
        InputError: The file is no whole number of records, or has no such record.
    """
    n = count_frames(path)
    if how.frame is None or not 0 <= how.frame < n:
        raise InputError(f"{one_line(path)}: has images 0 to {n - 1}, not {how.frame}")
    check_size(path, SIDE, SIDE, how.max_pixels)
    with path.open("rb") as file:
        file.seek(how.frame * RECORD_BYTES + 1)
        values = np.frombuffer(file.read(RECORD_BYTES - 1), dtype=np.uint8)
    image = np.moveaxis(values.reshape(3, SIDE, SIDE), 0, -1)
    return to_depth(np.ascontiguousarray(image), how.depth)


def count_frames(path: Path) -> int:
    """Number of records.

    Raises:
        InputError: The file's length is no multiple of a record's, or zero.
    """
    size = path.stat().st_size
    if not size or size % RECORD_BYTES:
        raise InputError(
            f"{one_line(path)}: has {size:,} bytes, no multiple of the {RECORD_BYTES:,} of a record of CIFAR-10 (a "
            "label and 3 x 32 x 32 values); it is cut off or another file, unpack cifar-10-binary.tar.gz anew"
        )
    return size // RECORD_BYTES


def record_labels(path: Path) -> np.ndarray:
    """The label of each record, uint8 [n].

    Raises:
        InputError: As :func:`count_frames`.
    """
    records = np.memmap(path, dtype=np.uint8, mode="r", shape=(count_frames(path), RECORD_BYTES))
    return np.array(records[:, 0])
