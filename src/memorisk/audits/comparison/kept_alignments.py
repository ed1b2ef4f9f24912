"""Alignments of a second look in progress, so that a killed audit resumes where it stopped.

One file of the run folder holds them; the finished audit has none. The file names no person: its keys are hashes over
the pixels of all sets, the rows that are compared and the versions of the libraries, so that an audit of anything else
finds nothing in it.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from memorisk.audits.comparison.sets import Sets
from memorisk.images.copies.alignment import Alignment
from memorisk.runs.checksums import is_intact, remove_recorded
from memorisk.runs.environment import versions
from memorisk.runs.errors import MemoriskError
from memorisk.runs.files import fingerprint, read_json, write_text

ALIGNMENTS = "second-look.json"
"""Name of the file, which exists during the second look."""
SAVED_EVERY = 10.0
"""Seconds between two writes of the file, which bound the work that a kill loses."""
_FORMAT = 4

Laid = list[tuple[int, Alignment]]
"""Rows and their alignments, the most similar first."""


class KeptAlignments:
    """Alignments of images, by the key of the aligned images.

    Args:
        path: Path of the file; None to keep nothing.
        content: Hash of everything that all alignments depend on.
    """

    def __init__(self, path: Path | None = None, content: str = "") -> None:
        self.path, self.content = path, content
        self.known: dict[str, list[Any]] = {}
        self._saved = time.monotonic()

    def __call__(self, identity: Sequence[Any], compute: Callable[[], Laid]) -> Laid:
        """Return the earlier alignments, or compute and keep them.

        Args:
            identity: Rows and settings that identify the images to align; JSON can hold them.
            compute: Function that computes the alignments.
        """
        if self.path is None:
            return compute()
        key = fingerprint(self.content, list(identity), length=32)
        if key in self.known:
            return [(int(row), _read(how)) for row, how in self.known[key]]
        laid = compute()
        self.known[key] = [[row, _written(how)] for row, how in laid]
        if time.monotonic() - self._saved >= SAVED_EVERY:
            self.save()
        return laid

    def save(self) -> None:
        """Write the file; a disk that is full stops no audit here."""
        if self.path is not None and self.known:
            with suppress(OSError, MemoriskError):
                write_text(self.path, json.dumps(self.known), recorded=True)
        self._saved = time.monotonic()


@contextmanager
def kept_alignments(path: Path, sets: Sets) -> Iterator[KeptAlignments]:
    """Keep alignments in a file, also those of an audit that an error or a signal ends; remove it after the last one.

    Args:
        path: Path of the file.
        sets: Sets whose images are aligned.
    """
    stores = (sets.train, sets.synthetic, sets.held)
    pixels = [None if store is None else store.pixel_hashes.tolist() for store in stores]
    alignments = KeptAlignments(path, fingerprint(_FORMAT, versions(), cv2.__version__, pixels, length=32))
    if is_intact(path):
        alignments.known = read_json(path)
    try:
        yield alignments
    except BaseException:
        alignments.save()
        raise
    remove_recorded(path)


def _written(how: Alignment) -> list[Any]:
    """Return the numbers of an alignment as JSON holds them: to the last bit."""
    shapes = list(how.copy_shape), list(how.source_shape)
    return [how.matrix.tolist(), how.overlap, list(how.strengths), how.agreeing, *shapes]


def _read(numbers: list[Any]) -> Alignment:
    """Return the alignment of these numbers."""
    matrix, overlap, strengths, agreeing, copy, source = numbers
    placed = np.array(matrix, dtype=np.float64)
    shapes = tuple(map(int, copy)), tuple(map(int, source))
    return Alignment(placed, float(overlap), tuple(map(float, strengths)), float(agreeing), *shapes)
