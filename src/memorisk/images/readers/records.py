"""Images in records of one length, without a header: the binary versions of CIFAR-10, CIFAR-100 and STL-10.

A record of CIFAR has one label byte (CIFAR-100: two, coarse and fine), then the 32 x 32 reds, greens and blues, row by
row; one of STL-10 has no label, and the 96 x 96 values of each colour column by column. Such a file has no first bytes
of its own; the row's ``member`` says what it is (``formats.NAMED``), and its ``frame`` which record is meant.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memorisk.images.decoding.formats import CIFAR10_RECORDS, CIFAR100_RECORDS, STL10_RECORDS, Reading
from memorisk.images.decoding.greys import to_depth
from memorisk.images.readers.bounds import check_size
from memorisk.runs.errors import InputError, one_line


@dataclass(frozen=True)
class Record:
    """What a record of a data set is."""

    name: str
    """Of the data set."""
    side: int
    """In pixels."""
    labels: int
    """Bytes before the pixels."""
    by_column: bool
    """Whether a colour's values go down the columns."""
    archive: str
    """What the files come in."""

    @property
    def n_bytes(self) -> int:
        """Of a record."""
        return self.labels + 3 * self.side * self.side


RECORDS = {
    CIFAR10_RECORDS: Record("CIFAR-10", 32, 1, False, "cifar-10-binary.tar.gz"),
    CIFAR100_RECORDS: Record("CIFAR-100", 32, 2, False, "cifar-100-binary.tar.gz"),
    STL10_RECORDS: Record("STL-10", 96, 0, True, "stl10_binary.tar.gz"),
}
SIDE = RECORDS[CIFAR10_RECORDS].side
RECORD_BYTES = RECORDS[CIFAR10_RECORDS].n_bytes


def read(path: Path, how: Reading) -> np.ndarray:
    """One image, ``[h, w, 3]`` uint8 or uint16.

    Raises:
        InputError: The file is no whole number of records, or has no such record.
    """
    kind = how.member or CIFAR10_RECORDS
    record = RECORDS[kind]
    n = count_frames(path, kind)
    if how.frame is None or not 0 <= how.frame < n:
        raise InputError(f"{one_line(path)}: has images 0 to {n - 1}, not {how.frame}")
    check_size(path, record.side, record.side, how.max_pixels)
    with path.open("rb") as file:
        file.seek(how.frame * record.n_bytes + record.labels)
        values = np.frombuffer(file.read(record.n_bytes - record.labels), dtype=np.uint8)
    image = np.moveaxis(values.reshape(3, record.side, record.side), 0, -1)
    image = image.swapaxes(0, 1) if record.by_column else image
    return to_depth(np.ascontiguousarray(image), how.depth)


def count_frames(path: Path, kind: str = CIFAR10_RECORDS) -> int:
    """Number of records.

    Raises:
        InputError: The file's length is no multiple of a record's, or zero.
    """
    size, record = path.stat().st_size, RECORDS[kind]
    if not size or size % record.n_bytes:
        labels = {0: "", 1: "a label and ", 2: "two labels and "}[record.labels]
        raise InputError(
            f"{one_line(path)}: has {size:,} bytes, no multiple of the {record.n_bytes:,} of a record of {record.name} "
            f"({labels}3 x {record.side} x {record.side} values); it is cut off or another file, unpack "
            f"{record.archive} anew"
        )
    return size // record.n_bytes


def record_labels(path: Path, kind: str = CIFAR10_RECORDS, place: int = 0) -> np.ndarray:
    """A label of each record, uint8 [n]; ``place`` is its byte.

    Raises:
        InputError: As :func:`count_frames`.
    """
    n = count_frames(path, kind)
    records = np.memmap(path, dtype=np.uint8, mode="r", shape=(n, RECORDS[kind].n_bytes))
    return np.array(records[:, place])
