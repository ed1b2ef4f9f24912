"""Are two images that look alike in a thumbnail the same at the resolution they are stored in?

A thumbnail of 32 x 32 shows where things are, not what tells two scans of one kind apart: vessels, noise, the grain of
a film. Both images are laid on one grid of their stored resolution, what a thumbnail shows is taken away (a Gaussian as
wide as one of its pixels), and the rest is brought to length 1. What follows is robust, for the edges of a field, a
mask or a border that all images share outweigh all details, and the noise of a copy appears where the set is empty:

* each pixel is set against its median and its median absolute deviation over images of the set;
* pixels that vary less than `LEAST_SPREAD` of the median of those that vary at all are left out: text, rulers and
  fields at one place;
* in each image what is beyond `CLIP` times the median size is cut to that.

The correlation of what is left must be larger than that of pairs of different people: of the `NULL` pairs that look
most alike of all that are none, each person in one of them, the 5 % point by rank (the largest where there are fewer
than 19).

`recipes/near_copies.py` measures it on real sets without and under fields, and on made ones. A copy that is turned by
degrees or moved is alike in the thumbnail at best, and not confirmed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from PIL import Image

from memorisk.images.copies.duplicates import SIDE, positions

Read = Callable[[int], np.ndarray]
"""The pixels [h, w, c] of an image, by its row."""

MOST = 256
"""Pixels a side of the grid at most: eight times the thumbnail's, so that 200 images fit in memory."""
NULL = 200
"""Pairs of different people: their largest twentieth is then ten, and reading 400 images takes seconds."""
LEAST_SPREAD = 0.3
"""Of the median spread of pixels that vary: what varies less is left out, as `whitening.FLOOR` has it."""
CLIP = 3.0
"""Times the median size of an image's details: two deviations of a normal distribution."""
_LEVEL = 0.05
_FINER = 1.5  # times the thumbnail's side: below, a Gaussian as wide as its pixel leaves only noise of the resizing
_HELD = 256  # vectors kept in memory


@dataclass(frozen=True, eq=False)
class FineRule:
    """From which correlation of fine details on an alike pair is confirmed."""

    side: int
    """Pixels a side of the grid; 0 where images are stored no finer than a thumbnail."""
    used: np.ndarray
    """[side * side] whether a pixel varies enough over the set to count."""
    median: np.ndarray
    """[p] of the details of images of the set, at the pixels that count."""
    spread: np.ndarray
    """[p] median absolute deviation."""
    threshold: float | None
    """A confirmed pair is above it; None where there is nothing finer."""
    n_pairs: int
    """Pairs of different people it was taken from."""

    @property
    def level(self) -> float:
        """How often a pair of different people who look that much alike is above it."""
        return max(1, int(_LEVEL * (self.n_pairs + 1))) / (self.n_pairs + 1)

    def vectors(self, image: np.ndarray, laid: str) -> np.ndarray:
        """[n, p] of mean 0 and length 1: an image [h, w, c] in each of the ``laid`` positions (`laid_thumbnails`)."""
        square = _on_grid(image, self.side)[None]
        rest = np.concatenate([_fine(each) for each in (square, *laid_thumbnails(square, laid))])[:, self.used]
        rest = (rest - self.median) / self.spread
        most = CLIP * np.median(np.abs(rest), axis=1, keepdims=True)
        rest = np.clip(rest, -most, most)
        rest -= rest.mean(axis=1, keepdims=True)
        return rest / np.maximum(np.linalg.norm(rest, axis=1, keepdims=True), 1e-9)

    def similarity(self, pairs: Sequence[tuple[int, int]], one: Read, other: Read, laid: str) -> np.ndarray:
        """[P] largest correlation of fine details over the positions.

        Args:
            pairs: Row in ``one`` and in ``other``; neighbours should share a row, for images are read again else.
            one: Reads an image.
            other: Reads the other.
            laid: How the other may lie.
        """
        first = lru_cache(maxsize=_HELD)(lambda row: self.vectors(one(row), "upright")[0])
        second = lru_cache(maxsize=_HELD)(lambda row: self.vectors(other(row), laid))
        return np.array([(second(b) @ first(a)).max() for a, b in pairs], dtype=np.float64)


def laid_thumbnails(thumbnails: np.ndarray, laid: str) -> list[np.ndarray]:
    """Squares [n, s, s] in the other positions in which a copy is looked for.

    Args:
        thumbnails: As they are.
        laid: "upright" for no other, "mirrored" left to right, or "turned": quarter turns and flips.
    """
    if laid == "turned":
        return positions(thumbnails)
    return [thumbnails[:, :, ::-1]] if laid == "mirrored" else []


def fine_rule(pairs: Sequence[tuple[int, int]], read: Read, laid: str) -> FineRule:
    """Learn what fine details of different people share, and how alike they are.

    Args:
        pairs: Rows of images of different people that look alike, each person in one pair.
        read: Reads an image.
        laid: How a copy may lie.
    """
    rows = sorted({row for pair in pairs for row in pair})
    images = [read(row) for row in rows]
    side = min(MOST, int(np.median([min(image.shape[:2]) for image in images]))) if images else 0
    nothing = FineRule(0, np.zeros(0, bool), np.zeros(0), np.zeros(0), None, len(pairs))
    if side < _FINER * SIDE:
        return nothing
    rest = _fine(np.stack([_on_grid(image, side) for image in images]))
    median = np.median(rest, axis=0)
    spread = np.median(np.abs(rest - median), axis=0)
    if not spread.any():
        return nothing
    used = spread > LEAST_SPREAD * np.median(spread[spread > 0])
    rule = FineRule(side, used, median[used], spread[used], 0.0, len(pairs))
    known = dict(zip(rows, images, strict=True))
    null = np.sort(rule.similarity(pairs, known.__getitem__, known.__getitem__, laid))[::-1]
    at = max(1, int(_LEVEL * (len(null) + 1)))
    return replace(rule, threshold=max(float(null[at - 1]), 0.0))


def _on_grid(image: np.ndarray, side: int) -> np.ndarray:
    """[side, side] luma."""
    grey = image[..., 0] if image.shape[2] == 1 else image[..., :3] @ np.array([0.299, 0.587, 0.114])
    return np.asarray(Image.fromarray(grey.astype(np.float32)).resize((side, side), Image.Resampling.BILINEAR))


def _fine(squares: np.ndarray) -> np.ndarray:
    """[n, s * s] of length 1: squares [n, s, s] less what a thumbnail shows."""
    from scipy.ndimage import gaussian_filter

    width = squares.shape[1] / SIDE / _FINER
    rest = squares - gaussian_filter(squares, (0.0, width, width), mode="reflect")
    rest = rest.reshape(len(rest), -1)
    return rest / np.maximum(np.linalg.norm(rest, axis=1, keepdims=True), 1e-6)
