"""The most similar image of another set, for every image of two sets, by the details of thumbnails.

As `duplicates.near_pairs`, which compares the images of one set; here a training set and a synthetic one stand side by
side, as they are and mirrored left to right, which generators learn from augmented images. Blocks of matrix products,
no approximation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from memorisk.images.duplicates import SIDE, details, thumbnail
from memorisk.runs.progress import Counted
from memorisk.runs.scratch import scratch_array


@dataclass(frozen=True)
class BestMatches:
    """For each image of one set, its most similar image of the other."""

    row: np.ndarray
    """[n] row in the other set, the first of equals; -1 where that is empty."""
    similarity: np.ndarray
    """[n] correlation of details, the larger of the image as it is and mirrored; 0 where an image has no details."""
    mirrored: np.ndarray
    """[n] whether it was larger mirrored."""


def thumbnails(images: np.ndarray | Sequence[np.ndarray], *, progress: Counted | None = None) -> np.ndarray:
    """[n, 32, 32] uint8 of images [n, H, W, C] (`duplicates.thumbnail`), read one by one; many are on the disk."""
    made = scratch_array((len(images), SIDE, SIDE), np.uint8)
    for row in range(len(images)):
        made[row] = thumbnail(np.asarray(images[row]))
        if progress is not None and (row + 1) % 256 == 0:
            progress(row + 1, len(images))
    return made


def best_matches(
    first: np.ndarray, second: np.ndarray, *, block: int = 1024, progress: Counted | None = None
) -> tuple[BestMatches, BestMatches]:
    """The most similar image of the other set, both ways, in one pass over all pairs.

    Args:
        first: [n, 32, 32] thumbnails.
        second: [m, 32, 32].
        block: Rows at a time.
        progress: Called with the rows of the first set that are done and their number.

    Returns:
        For the first set among the second, and for the second among the first. Memory: thumbnails and three blocks.
    """
    ours, theirs = _nothing(len(first)), _nothing(len(second))
    for i in range(0, len(first), block):
        one = details(first[i : i + block])
        flipped = details(first[i : i + block, :, ::-1])
        for j in range(0, len(second), block):
            other = details(second[j : j + block]).T
            plain, turned = one @ other, flipped @ other
            mirrored = turned > plain
            similarity = np.minimum(np.where(mirrored, turned, plain), 1.0)
            _take(ours, slice(i, i + block), j, similarity, mirrored)
            _take(theirs, slice(j, j + block), i, similarity.T, mirrored.T)
        if progress is not None:
            progress(min(i + block, len(first)), len(first))
    return ours, theirs


def _nothing(n: int) -> BestMatches:
    return BestMatches(np.full(n, -1, dtype=np.intp), np.full(n, -1.0, dtype=np.float32), np.zeros(n, dtype=bool))


def _take(best: BestMatches, rows: slice, start: int, similarity: np.ndarray, mirrored: np.ndarray) -> None:
    """Keep what a block [n, m] has that is better than before."""
    column = similarity.argmax(axis=1)
    at = np.arange(len(column))
    found = similarity[at, column]
    better = found > best.similarity[rows]
    best.row[rows] = np.where(better, column + start, best.row[rows])
    best.mirrored[rows] = np.where(better, mirrored[at, column], best.mirrored[rows])
    best.similarity[rows] = np.where(better, found, best.similarity[rows])
