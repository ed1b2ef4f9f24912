"""Copies among images: equal pixels by hash, and exactly the most similar ones of all pairs of a set.

An image that lies in two splits, two groups or two classes leaks, ties patients together or contradicts itself, so
copies are searched for before anything is trained (METHODS section 1, "Splits"). Every image is reduced to 32 x 32
greys and its coarse shading (a Gaussian of 2 pixels) is subtracted. What the images of a set share is subtracted,
too (`details`), and the rests of two images are correlated, by blocks of matrix products: without an index, without an
approximation, with memory of a few blocks. This module does not fix the similarity from which two images are copies:
`near_copies` learns it from the set.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PIL import Image

from memorisk.images.volumes import middle_slice
from memorisk.runs.workload import CountProgress

SIDE = 32
LUMA = (0.299, 0.587, 0.114)
"""Shares of red, green and blue in the grey of an image (ITU-R BT.601)."""
_SHADING = 2.0  # standard deviation, in pixels of the thumbnail, of what counts as coarse
_FLAT = 1e-3  # details smaller than this part of the greys are rounding


@dataclass(frozen=True)
class NearPairs:
    """Pairs of images that are nearly the same, as four columns.

    Attributes:
        first: Row of one image of each pair, [P]; smaller than ``second``.
        second: Row of the other image of each pair, [P].
        similarity: Correlation of the details of each pair, [P], falling.
        n_pairs: Number of pairs that reached the threshold; more than P if the list was cut.
    """

    first: np.ndarray
    second: np.ndarray
    similarity: np.ndarray
    n_pairs: int


def equal_sets(hashes: Sequence[str] | np.ndarray) -> list[np.ndarray]:
    """Return sets of two or more rows with the same hash, ordered by their first row; an empty hash equals nothing."""
    rows_of: dict[str, list[int]] = {}
    for row, value in enumerate(hashes):
        rows_of.setdefault(value, []).append(row)
    return [np.array(rows) for value, rows in rows_of.items() if value and len(rows) > 1]


def linked_groups(hashes: Sequence[str] | np.ndarray, groups: Sequence[str] | np.ndarray) -> list[tuple[str, str]]:
    """Return pairs of groups that hold an equal image, which `splits.split_by_group` takes as ``linked``."""
    names = np.asarray(groups, dtype=object)
    pairs = set()
    for rows in equal_sets(hashes):
        first, *others = sorted(set(names[rows].tolist()))
        pairs.update((first, other) for other in others)
    return sorted(pairs)


def thumbnail(image: np.ndarray) -> np.ndarray:
    """Reduce an image [h, w, c] to uint8 [32, 32]: luma, antialiased, stretched from darkest to brightest pixel.

    A volume is reduced to its middle axial slice.

    Stretching loses nothing, since correlation ignores it, and keeps the greys of dark or 16-bit images apart.
    """
    image = middle_slice(image)
    grey = image[..., 0] if image.shape[2] == 1 else image @ np.array(LUMA)
    small = np.asarray(
        Image.fromarray(grey.astype(np.float32)).resize((SIDE, SIDE), Image.Resampling.BILINEAR), dtype=np.float64
    )
    low, high = small.min(), small.max()
    return np.rint((small - low) * (255 / max(high - low, 1e-9))).astype(np.uint8)


def details(thumbnails: np.ndarray) -> np.ndarray:
    """Return thumbnails [n, s, s] less coarse shading, as vectors [n, s * s] of mean 0 and length 1 (0 if flat)."""
    greys = thumbnails.astype(np.float32)
    blur = _blur(thumbnails.shape[1])
    rest = greys - blur @ greys @ blur.T
    rest = rest.reshape(len(rest), -1)
    rest -= rest.mean(axis=1, keepdims=True)
    length = np.linalg.norm(rest, axis=1, keepdims=True)
    flat = length <= _FLAT * np.maximum(np.linalg.norm(greys.reshape(len(rest), -1), axis=1, keepdims=True), 1.0)
    return np.where(flat, 0.0, rest / np.maximum(length, 1e-9)).astype(np.float32)


def near_pairs(
    vectors: np.ndarray,
    *,
    threshold: float,
    laid: Sequence[np.ndarray] = (),
    block: int = 1024,
    limit: int = 1_000_000,
    progress: CountProgress | None = None,
) -> NearPairs:
    """Return all pairs with a similarity of at least ``threshold``.

    n images cost n^2 / 2 products of vectors, once and for each table of ``laid``. Memory: three blocks.

    Args:
        vectors: Vectors [n, k] of length 1 or 0 (`details.Whitening.table`), in memory or memory-mapped.
        threshold: Smallest similarity of a pair.
        laid: Vectors [n, k] of the images turned or flipped (`positions`); the similarity is the largest over them.
        block: Number of rows that are compared at a time.
        limit: Longest list; the most similar pairs are kept.
        progress: Function called with the number of rows compared and the number of all.

    Returns:
        Pairs, most similar first. Images without details (constant ones) are in none of them.
    """
    best, n_pairs = _empty(), 0
    for i, j, similarity in _blocks(vectors, laid, block, progress):
        rows, columns = np.nonzero(similarity >= threshold)
        n_pairs += len(rows)
        new = (rows + i, columns + j, np.minimum(similarity[rows, columns], 1.0))
        best = _best([np.concatenate(both) for both in zip(best, new, strict=True)], limit)
    return NearPairs(*_best(best, limit, ordered=True), n_pairs=n_pairs)


def closest_between_groups(
    vectors: np.ndarray,
    groups: np.ndarray,
    count: int,
    *,
    laid: Sequence[np.ndarray] = (),
    block: int = 1024,
    progress: CountProgress | None = None,
) -> NearPairs:
    """Return the most similar pairs of images of different groups.

    While pairs are collected, the least similarity that can still enter the list rises, so that few are kept.

    Args:
        vectors: Vectors [n, k], as for `near_pairs`.
        groups: Group of each image, [n].
        count: Length of the longest list.
        laid: Vectors of the images turned or flipped, as for `near_pairs`.
        block: Number of rows that are compared at a time.
        progress: Function called with the number of rows compared and the number of all.

    Returns:
        The ``count`` most similar pairs, most similar first; all pairs where there are fewer.
    """
    who = np.unique(groups, return_inverse=True)[1]
    closest, least = _empty(), 0.0  # half of all pairs and the copies lie above 0
    for i, j, similarity in _blocks(vectors, laid, block, progress):
        similarity[who[i : i + len(similarity), None] == who[j : j + similarity.shape[1]]] = -1.0
        rows, columns = np.nonzero(similarity > least)
        new = (rows + i, columns + j, np.minimum(similarity[rows, columns], 1.0))
        closest = [np.concatenate(both) for both in zip(closest, new, strict=True)]
        if len(closest[0]) > 2 * count:
            top = np.argpartition(-closest[2], count - 1)[:count]
            closest = [values[top] for values in closest]
            least = float(closest[2].min())
    pairs = _best(closest, count, ordered=True)
    return NearPairs(*pairs, n_pairs=len(pairs[0]))


def _blocks(
    vectors: np.ndarray, laid: Sequence[np.ndarray], block: int, progress: CountProgress | None
) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield first row, first column and similarities of blocks of pairs, each pair once; -1 marks an entry to skip."""
    n = len(vectors)
    for i in range(0, n, block):
        one = np.asarray(vectors[i : i + block])
        for j in range(i, n, block):
            similarity = one @ np.asarray(vectors[j : j + block]).T  # [rows, columns]
            for table in laid:
                np.maximum(similarity, one @ np.asarray(table[j : j + block]).T, out=similarity)
            if i == j:
                similarity[np.tril_indices(len(one))] = -1.0
            yield i, j, similarity
        if progress:
            progress(min(i + block, n), n)


def _empty() -> list[np.ndarray]:
    return [np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp), np.empty(0, dtype=np.float32)]


def _best(pairs: list[np.ndarray], limit: int, *, ordered: bool = False) -> list[np.ndarray]:
    if len(pairs[0]) <= limit and not ordered:
        return pairs
    order = np.lexsort((pairs[1], pairs[0], -pairs[2]))[:limit]
    return [values[order] for values in pairs]


def positions(thumbnails: np.ndarray) -> list[np.ndarray]:
    """Return squares [n, s, s] in the other seven of their eight orientations."""
    turns = [np.rot90(thumbnails, k, axes=(1, 2)) for k in range(4)]
    return [*turns[1:], *(np.flip(turn, axis=2) for turn in turns)]


@lru_cache(maxsize=4)
def _blur(side: int) -> np.ndarray:
    from scipy.ndimage import gaussian_filter1d  # here, since workers import this module and do not blur

    return gaussian_filter1d(np.eye(side), _SHADING * side / SIDE, axis=0, mode="reflect").astype(np.float32)
