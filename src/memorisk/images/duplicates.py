"""Copies among images: equal pixels by hash, nearly equal ones by the correlation of their details, all pairs, exactly.

An image that lies in two splits, two groups or two classes leaks, ties patients together or contradicts itself, so
copies are looked for before anything is trained (METHODS section 1, "Splits"). Near copies: every image is reduced to
32 x 32 greys, its coarse shading (a Gaussian of 2 pixels) is taken away, and the rest is correlated with every other
image's rest, by blocks of matrix
products: no index, no approximation, memory of two blocks. Without the coarse shading two chest X-rays of different
patients, or two trousers, no longer look alike, while a copy keeps its details.

The threshold of 0.95 was chosen on real sets. Nothing reaches it among the 4.1 million pairs of HAM10000's 2,861
images (one a lesion; highest 0.90) and the 499,500 pairs of the NIH subset (highest 0.94, one patient; 0.86 among
different patients); in PneumoniaMNIST's training part exactly the 17 pairs that are equal do; in BUSI 135 pairs do,
and those looked at show the same scan. Of copies of HAM, NIH and BUSI images, 95 % stay above 0.95 after JPEG at
quality 50, halving, blur, or contrast x 1.4. A crop of 2 % or a turn by 2 degrees is not found; quarter turns and
flips are, on request. Below about 30 pixels a side simple shapes come close without being copies (330 of the 4.5
million pairs of 3,000 Fashion-MNIST images).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PIL import Image

from memorisk.runs.progress import Counted
from memorisk.runs.scratch import scratch_array

NEAR = 0.95
SIDE = 32
_SHADING = 2.0  # standard deviation, in pixels of the thumbnail, of what counts as coarse
_ROUNDING = 1e-4
_FLAT = 1e-3  # details smaller than this part of the greys are rounding


@dataclass(frozen=True)
class NearPairs:
    """Pairs of images that are nearly the same.

    Attributes:
        first: [P] row of one, smaller than
        second: [P] the row of the other.
        similarity: [P] correlation of their details, falling.
        found: How many pairs reached the threshold; more than P if the list was cut.
    """

    first: np.ndarray
    second: np.ndarray
    similarity: np.ndarray
    found: int


def equal_sets(hashes: Sequence[str] | np.ndarray) -> list[np.ndarray]:
    """Rows with the same hash, two or more a set, sets by their first row; an empty hash equals nothing."""
    rows_of: dict[str, list[int]] = {}
    for row, value in enumerate(hashes):
        rows_of.setdefault(value, []).append(row)
    return [np.array(rows) for value, rows in rows_of.items() if value and len(rows) > 1]


def linked_groups(hashes: Sequence[str] | np.ndarray, groups: Sequence[str] | np.ndarray) -> list[tuple[str, str]]:
    """Pairs of groups that hold an equal image: what `splits.split_by_group` takes as ``linked``."""
    names = np.asarray(groups, dtype=object)
    pairs = set()
    for rows in equal_sets(hashes):
        first, *others = sorted(set(names[rows].tolist()))
        pairs.update((first, other) for other in others)
    return sorted(pairs)


def thumbnail(image: np.ndarray) -> np.ndarray:
    """An image [h, w, c] as uint8 [32, 32]: luma, antialiased, stretched from its darkest to its brightest pixel.

    Stretching loses nothing, since correlation does not see it, and keeps the greys of dark or 16-bit images apart.
    """
    grey = image[..., 0] if image.shape[2] == 1 else image @ np.array([0.299, 0.587, 0.114])
    small = np.asarray(
        Image.fromarray(grey.astype(np.float32)).resize((SIDE, SIDE), Image.Resampling.BILINEAR), dtype=np.float64
    )
    low, high = small.min(), small.max()
    return np.rint((small - low) * (255 / max(high - low, 1e-9))).astype(np.uint8)


def details(thumbnails: np.ndarray) -> np.ndarray:
    """Thumbnails [n, s, s] less coarse shading, as vectors [n, s * s] of mean 0 and length 1 (0 where none is left)."""
    greys = thumbnails.astype(np.float32)
    blur = _blur(thumbnails.shape[1])
    rest = greys - blur @ greys @ blur.T
    rest = rest.reshape(len(rest), -1)
    rest -= rest.mean(axis=1, keepdims=True)
    length = np.linalg.norm(rest, axis=1, keepdims=True)
    flat = length <= _FLAT * np.maximum(np.linalg.norm(greys.reshape(len(rest), -1), axis=1, keepdims=True), 1.0)
    return np.where(flat, 0.0, rest / np.maximum(length, 1e-9)).astype(np.float32)


def near_pairs(
    thumbnails: np.ndarray,
    *,
    threshold: float = NEAR,
    turned: bool = False,
    block: int = 1024,
    limit: int = 1_000_000,
    progress: Counted | None = None,
) -> NearPairs:
    """All pairs whose details correlate at least ``threshold``.

    n images cost n^2 / 2 products of 257 numbers (`shortened`), and of 1,024 only in rows of a block that may hold such
    a pair; eight times n^2 / 2 of 1,024 with ``turned``. Memory: the thumbnails and shortened details (1 kB an image
    each; many of the latter are on the disk) and three blocks.

    Args:
        thumbnails: [n, 32, 32] uint8 (`thumbnail`), in memory or memory-mapped.
        threshold: Smallest correlation of a pair.
        turned: Also compare with quarter turns and flips; the similarity is the largest over the eight positions.
        block: Rows at a time.
        limit: Longest list; the most similar pairs are kept.
        progress: Called with the rows compared and their number.

    Returns:
        The pairs, most similar first. Images without details (constant ones) are in none.
    """
    n = len(thumbnails)
    kept = _empty()
    found = 0
    short = None if turned else _all_shortened(thumbnails, block)
    for i in range(0, n, block):
        one = details(np.asarray(thumbnails[i : i + block]))
        for j in range(i, n, block):
            some = np.arange(len(one))
            if short is not None:
                some = _may_reach(short[i : i + block] @ short[j : j + block].T, threshold, same=i == j)
                if not len(some):
                    continue
            other = np.asarray(thumbnails[j : j + block])
            similarity = one[some] @ details(other).T  # [some, block]
            for position in _positions(other) if turned else ():
                np.maximum(similarity, one[some] @ details(position).T, out=similarity)
            if i == j:
                similarity[some[:, None] >= np.arange(len(other))] = -1.0
            rows, columns = np.nonzero(similarity >= threshold)
            found += len(rows)
            new = (some[rows] + i, columns + j, np.minimum(similarity[rows, columns], 1.0))
            kept = _best([np.concatenate(both) for both in zip(kept, new, strict=True)], limit)
        if progress:
            progress(min(i + block, n), n)
    return NearPairs(*_best(kept, limit, ordered=True), found=found)


def shortened(vectors: np.ndarray) -> np.ndarray:
    """Details [n, s * s] as vectors [n, (s // 2)^2 + 1] whose products are never smaller.

    The first numbers are the lower half of the cosine transform each way, which turns no product of two images; the
    last is the length r of what is left: x . y <= short(x) . short(y), since what is left of both is at most r(x) r(y).
    """
    side = int(np.sqrt(vectors.shape[1]))
    basis = _cosines(side)
    kept = (basis @ vectors.reshape(-1, side, side) @ basis.T).reshape(len(vectors), -1)
    left = np.einsum("nd,nd->n", vectors, vectors) - np.einsum("nd,nd->n", kept, kept)
    return np.hstack([kept, np.sqrt(np.maximum(left, 0.0))[:, None]])


def _all_shortened(thumbnails: np.ndarray, block: int) -> np.ndarray:
    """[n, d] of all thumbnails."""
    side = thumbnails.shape[1]
    short = scratch_array((len(thumbnails), (side // 2) ** 2 + 1), np.float32)
    for i in range(0, len(thumbnails), block):
        short[i : i + block] = shortened(details(np.asarray(thumbnails[i : i + block])))
    return short


def _may_reach(bounds: np.ndarray, threshold: float, *, same: bool) -> np.ndarray:
    """Rows of a block with a pair whose product may reach the threshold; of one with itself only pairs of two images.

    Products of vectors of length 1 in float32 are wrong by less than `_ROUNDING`.
    """
    if same:
        np.fill_diagonal(bounds, -1.0)
    return np.flatnonzero(bounds.max(axis=1) >= threshold - _ROUNDING)


def _empty() -> list[np.ndarray]:
    return [np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp), np.empty(0, dtype=np.float32)]


def _best(pairs: list[np.ndarray], limit: int, *, ordered: bool = False) -> list[np.ndarray]:
    if len(pairs[0]) <= limit and not ordered:
        return pairs
    order = np.lexsort((pairs[1], pairs[0], -pairs[2]))[:limit]
    return [values[order] for values in pairs]


def _positions(thumbnails: np.ndarray) -> list[np.ndarray]:
    """The other seven of the eight ways to lay a square down."""
    turns = [np.rot90(thumbnails, k, axes=(1, 2)) for k in range(4)]
    return [*turns[1:], *(np.flip(turn, axis=2) for turn in turns)]


@lru_cache(maxsize=4)
def _cosines(side: int) -> np.ndarray:
    """[side // 2, side] the first rows of the orthonormal cosine transform."""
    k, x = np.arange(side // 2)[:, None], np.arange(side)
    rows = np.sqrt(2 / side) * np.cos(np.pi * k * (2 * x + 1) / (2 * side))
    rows[0] /= np.sqrt(2)
    return rows.astype(np.float32)


@lru_cache(maxsize=4)
def _blur(side: int) -> np.ndarray:
    from scipy.ndimage import gaussian_filter1d  # here, since workers import this module and do not blur

    return gaussian_filter1d(np.eye(side), _SHADING * side / SIDE, axis=0, mode="reflect").astype(np.float32)
