"""Details that distinguish images of different people: whitened details of thumbnails, and fine details as stored.

All eyes show the same layers, all chest X-rays the same ribs, all scans of a device the same field, border and
text: their details correlate (by 0.95 or more in 1,062,094 of the pairs of 2,861 skin lesions that all lie under
one fan, `recipes/near_copies.py`). `fit_whitening` subtracts the mean of every pixel over the set, and turns the
rest into principal components. Each is divided by its spread over the set and a floor: what many images
share to a varying degree (where a layer lies, how wide a field is, which of two views this is) counts no more than
what few share. Masked pixels and borders that never change have no spread and are in no component. METHODS section 6
divides each pixel by its own spread; the whitening does the same for all directions at once, and it separates copies
from chance further (`recipes/near_copies.py`). A set of n images gives n / 4 components, at most 256: with as many
components as images, any two images, copies too, would be at right angles. Below `MIN_IMAGES` images the module learns
nothing.

A thumbnail of 32 x 32 shows where things are, but not what distinguishes two scans of one kind: vessels, noise, the
grain of a film. `FineRule` lays both images on one grid of their stored resolution, subtracts what a thumbnail shows (a
Gaussian as wide as one of its pixels), and brings the rest to length 1. The next steps are robust, because the edges of
a field, a mask or a border that all images share outweigh all details, and the noise of a copy appears where the set
field, a mask or a border that all images share outweigh all details, and the noise of a copy appears where the set
is empty:

* Each pixel is centred on its median and divided by its median absolute deviation over images of the set.
* Pixels that vary less than `MIN_SPREAD` of the median of those that vary at all are left out: text, rulers and
  fields at one place.
* In each image, a value beyond `CLIP` times the median size is cut to that.

The correlation of the rest must be larger than that of pairs of different people. The threshold is the 5 % point by
rank among the `NULL_PAIRS` pairs of different people that look most similar, each person in one of them (the
largest where there are fewer than 19). `recipes/near_copies.py` measures it on real sets without and under fields, and
on synthetic ones. A copy that is turned by degrees or moved is at best similar in the thumbnail, and not confirmed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from PIL import Image

from memorisk.images.copies.duplicates import SIDE, details, positions
from memorisk.images.volumes import middle_slice
from memorisk.runs.arrays import scratch_array

COMPONENTS = 256
"""Largest number of components: a quarter of the 1,024 numbers of a thumbnail, which a search over all pairs can hold
in memory."""
MIN_IMAGES = 32
"""Number of images from which something can be learned: they give eight components."""
FLOOR = 0.3
"""Share of the median variance of the components that is added to each. Where all images are black, noise is all the
spread there is, and a copy with other noise would differ by that alone. Of digits with noise of 6 / 255 the threshold
finds 52 % without a floor and all with 0.1 to 1 of the median; on five real sets 0.3 moves thresholds by 0.01 at
most."""
_BLOCK = 1024
_MIN_VARIANCE_SHARE = 1e-6  # components with less than this share of the largest one's variance are rounding
MAX_GRID_SIDE = 256
"""Largest number of pixels a side of the grid: eight times the thumbnail's, so that 200 images fit in memory."""
NULL_PAIRS = 200
"""Number of pairs of different people: their largest twentieth is then ten, and reading 400 images takes seconds."""
MIN_SPREAD = 0.3
"""Share of the median spread of the pixels that vary; pixels that vary less are left out, as with `FLOOR`."""
CLIP = 3.0
"""Multiple of the median size of an image's details: two deviations of a normal distribution."""
_LEVEL = 0.05
_GRID_FACTOR = (
    1.5  # times the thumbnail's side: below, a Gaussian as wide as its pixel leaves only noise of the resizing
)
_CACHED_VECTORS = 256  # vectors kept in memory


@dataclass(frozen=True, eq=False)
class Whitening:
    """Whitening transform, fitted to what the images of a set share."""

    mean: np.ndarray
    """Mean of the details of the images (`duplicates.details`), [s * s]."""
    basis: np.ndarray | None
    """Principal directions, each divided by the spread along it, [s * s, k]; None where nothing was learned."""

    def vectors(self, thumbnails: np.ndarray) -> np.ndarray:
        """Return the unit vectors [n, k] of thumbnails [n, s, s]; their products are similarities; 0 without details.

        Args:
            thumbnails: Thumbnails, uint8 (`duplicates.thumbnail`), of this set or of others.
        """
        rest = details(np.asarray(thumbnails))
        if self.basis is None:
            return rest
        flat = ~rest.any(axis=1)
        vectors = (rest - self.mean) @ self.basis
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        vectors[flat] = 0.0
        return vectors

    def table(self, thumbnails: np.ndarray) -> np.ndarray:
        """Return the vectors [n, k] of many thumbnails, computed in blocks; a large table lies on the disk."""
        width = thumbnails.shape[1] * thumbnails.shape[2] if self.basis is None else self.basis.shape[1]
        vectors = scratch_array((len(thumbnails), width), np.float32)
        for i in range(0, len(thumbnails), _BLOCK):
            vectors[i : i + _BLOCK] = self.vectors(thumbnails[i : i + _BLOCK])
        return vectors


def fit_whitening(*sets: np.ndarray) -> Whitening:
    """Fit the whitening to what the images share.

    Args:
        sets: Thumbnails of each set, [n, s, s] uint8; images without details take no part.

    Returns:
        Whitening transform; it returns the plain details where there are fewer than `MIN_IMAGES` images.
    """
    n, total, square = 0, np.zeros(1), np.zeros((1, 1))
    for block in _blocks(sets):
        rest = details(block)
        rest = rest[rest.any(axis=1)].astype(np.float64)
        n, total, square = n + len(rest), total + rest.sum(axis=0), square + rest.T @ rest
    if n < MIN_IMAGES:
        return Whitening(np.zeros(1, np.float32), None)
    mean = total / n
    variance, directions = np.linalg.eigh(square / n - np.outer(mean, mean))
    n_components = min(COMPONENTS, n // 4, int((variance > _MIN_VARIANCE_SHARE * variance[-1]).sum()))
    used = variance[-n_components:]
    basis = directions[:, -n_components:] / np.sqrt(used + FLOOR * np.median(used))
    return Whitening(mean.astype(np.float32), basis.astype(np.float32))


def _blocks(sets: Sequence[np.ndarray]):
    """Yield blocks of thumbnails."""
    for thumbnails in sets:
        for i in range(0, len(thumbnails), _BLOCK):
            yield np.asarray(thumbnails[i : i + _BLOCK])


PixelReader = Callable[[int], np.ndarray]
"""Function that reads the pixels [h, w, c] of an image by its row."""


@dataclass(frozen=True, eq=False)
class FineRule:
    """Rule by which a similar pair is confirmed: the least correlation of fine details."""

    side: int
    """Side of the grid in pixels; 0 where images are stored no finer than a thumbnail."""
    used: np.ndarray
    """Whether a pixel varies enough over the set to count, [side * side]."""
    median: np.ndarray
    """Median of the details of images of the set, at the pixels that count, [p]."""
    spread: np.ndarray
    """Median absolute deviation of the details, at the pixels that count, [p]."""
    threshold: float | None
    """Correlation above which a pair is confirmed; None where images are stored no finer than a thumbnail."""
    n_pairs: int
    """Number of pairs of different people from which the threshold was taken."""

    @property
    def level(self) -> float:
        """Return how often a pair of equally similar-looking different people exceeds the threshold."""
        return max(1, int(_LEVEL * (self.n_pairs + 1))) / (self.n_pairs + 1)

    def vectors(self, image: np.ndarray, laid: str) -> np.ndarray:
        """Return vectors [n, p] of mean 0 and length 1: an image [h, w, c] in each of the ``laid`` positions.

        `other_positions` lists the positions after the upright one.
        """
        square = _on_grid(image, self.side)[None]
        rest = np.concatenate([_fine(each) for each in (square, *other_positions(square, laid))])[:, self.used]
        rest = (rest - self.median) / self.spread
        most = CLIP * np.median(np.abs(rest), axis=1, keepdims=True)
        rest = np.clip(rest, -most, most)
        rest -= rest.mean(axis=1, keepdims=True)
        return rest / np.maximum(np.linalg.norm(rest, axis=1, keepdims=True), 1e-9)

    def similarity(
        self, pairs: Sequence[tuple[int, int]], one: PixelReader, other: PixelReader, laid: str
    ) -> np.ndarray:
        """Return the largest correlation [P] of fine details over the positions.

        Args:
            pairs: Row in ``one`` and in ``other``; neighbours should share a row, because images are read again else.
            one: Reader of the first images.
            other: Reader of the other images.
            laid: Name of the positions in which the other image may lie (`other_positions`).
        """
        first = lru_cache(maxsize=_CACHED_VECTORS)(lambda row: self.vectors(one(row), "upright")[0])
        second = lru_cache(maxsize=_CACHED_VECTORS)(lambda row: self.vectors(other(row), laid))
        return np.array([(second(b) @ first(a)).max() for a, b in pairs], dtype=np.float64)


def other_positions(thumbnails: np.ndarray, laid: str) -> list[np.ndarray]:
    """Return squares [n, s, s] in the other positions in which a copy is searched for.

    Args:
        thumbnails: Squares as they are, [n, s, s].
        laid: Name of the positions: "upright" for no other, "mirrored" left to right, or "turned" for quarter turns
            and flips.
    """
    if laid == "turned":
        return positions(thumbnails)
    return [thumbnails[:, :, ::-1]] if laid == "mirrored" else []


def fine_rule(pairs: Sequence[tuple[int, int]], read: PixelReader, laid: str) -> FineRule:
    """Learn what fine details of different people share, and how similar they are.

    Args:
        pairs: Rows of images of different people that look similar, each person in one pair.
        read: Reader of an image by its row.
        laid: Name of the positions in which a copy may lie (`other_positions`).
    """
    rows = sorted({row for pair in pairs for row in pair})
    images = [read(row) for row in rows]
    side = min(MAX_GRID_SIDE, int(np.median([min(image.shape[:2]) for image in images]))) if images else 0
    nothing = FineRule(0, np.zeros(0, bool), np.zeros(0), np.zeros(0), None, len(pairs))
    if side < _GRID_FACTOR * SIDE:
        return nothing
    rest = _fine(np.stack([_on_grid(image, side) for image in images]))
    median = np.median(rest, axis=0)
    spread = np.median(np.abs(rest - median), axis=0)
    if not spread.any():
        return nothing
    used = spread > MIN_SPREAD * np.median(spread[spread > 0])
    rule = FineRule(side, used, median[used], spread[used], 0.0, len(pairs))
    image_of = dict(zip(rows, images, strict=True))
    null = np.sort(rule.similarity(pairs, image_of.__getitem__, image_of.__getitem__, laid))[::-1]
    at = max(1, int(_LEVEL * (len(null) + 1)))
    return replace(rule, threshold=max(float(null[at - 1]), 0.0))


def _on_grid(image: np.ndarray, side: int) -> np.ndarray:
    """Return the luma of an image, or of the middle slice of a volume, resized to [side, side]."""
    image = middle_slice(image)
    grey = image[..., 0] if image.shape[2] == 1 else image[..., :3] @ np.array([0.299, 0.587, 0.114])
    return np.asarray(Image.fromarray(grey.astype(np.float32)).resize((side, side), Image.Resampling.BILINEAR))


def _fine(squares: np.ndarray) -> np.ndarray:
    """Return vectors [n, s * s] of length 1: squares [n, s, s] less what a thumbnail shows."""
    from scipy.ndimage import gaussian_filter

    width = squares.shape[1] / SIDE / _GRID_FACTOR
    rest = squares - gaussian_filter(squares, (0.0, width, width), mode="reflect")
    rest = rest.reshape(len(rest), -1)
    return rest / np.maximum(np.linalg.norm(rest, axis=1, keepdims=True), 1e-6)
