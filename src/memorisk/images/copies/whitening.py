"""What all images of a set share is taken away from each, so that what is left tells one person from another.

All eyes show the same layers, all chest X-rays the same ribs, all scans of a device the same field, border and text:
their details correlate (by 0.95 or more in 1,062,094 of the pairs of 2,861 skin lesions that all lie under one fan,
`recipes/near_copies.py`). The mean of every pixel over the set is taken away, and the rest is turned into principal
components each of which is divided by its spread over the set and a floor: what many images share to a varying degree
(where a layer lies, how wide a field is, which of two views this is) counts no more than what few do. Masked pixels and
borders that never change have no spread and are in no component. METHODS section 6 divides each pixel by its own
spread; this is the same for all directions at once, and it parts copies from chance further
(`recipes/near_copies.py`).

A set of n images gives n / 4 components, at most 256: with as many as images, any two images, copies too, would be at
right angles. Below `LEAST` images nothing is learned.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from memorisk.images.copies.duplicates import details
from memorisk.runs.scratch import scratch_array

COMPONENTS = 256
"""At most; a quarter of the 1,024 numbers of a thumbnail, as many as a search over all pairs can hold in memory."""
LEAST = 32
"""Images from which something can be learned: eight components."""
FLOOR = 0.3
"""Of the median variance of the components, added to each: where all images are black, noise is all the spread there
is, and a copy with other noise would differ by that alone. Of digits with noise of 6 / 255 the threshold finds 52 %
without a floor and all with 0.1 to 1 of the median; on five real sets 0.3 moves thresholds by 0.01 at most."""
_BLOCK = 1024
_NEVER = 1e-6  # components with less than this share of the largest one's variance are rounding


@dataclass(frozen=True, eq=False)
class Whitening:
    """What the images of a set share."""

    mean: np.ndarray
    """[s * s] mean of their details (`duplicates.details`)."""
    basis: np.ndarray | None
    """[s * s, k] principal directions, each divided by the spread along it; None where nothing was learned."""

    def vectors(self, thumbnails: np.ndarray) -> np.ndarray:
        """Thumbnails [n, s, s] as vectors [n, k] of length 1, whose products are similarities; 0 without details.

        Args:
            thumbnails: uint8 (`duplicates.thumbnail`), of this set or of others.
        """
        rest = details(np.asarray(thumbnails))
        if self.basis is None:
            return rest
        flat = ~rest.any(axis=1)
        found = (rest - self.mean) @ self.basis
        found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)
        found[flat] = 0.0
        return found

    def table(self, thumbnails: np.ndarray) -> np.ndarray:
        """[n, k] vectors of many thumbnails, in blocks; a large table lies on the disk."""
        width = thumbnails.shape[1] * thumbnails.shape[2] if self.basis is None else self.basis.shape[1]
        made = scratch_array((len(thumbnails), width), np.float32)
        for i in range(0, len(thumbnails), _BLOCK):
            made[i : i + _BLOCK] = self.vectors(thumbnails[i : i + _BLOCK])
        return made


def fit_whitening(*sets: np.ndarray) -> Whitening:
    """Learn what images share.

    Args:
        sets: [n, s, s] uint8 thumbnails each; images without details take no part.

    Returns:
        What takes it away: details alone where there are fewer than `LEAST` images.
    """
    n, total, square = 0, np.zeros(1), np.zeros((1, 1))
    for block in _blocks(sets):
        rest = details(block)
        rest = rest[rest.any(axis=1)].astype(np.float64)
        n, total, square = n + len(rest), total + rest.sum(axis=0), square + rest.T @ rest
    if n < LEAST:
        return Whitening(np.zeros(1, np.float32), None)
    mean = total / n
    variance, directions = np.linalg.eigh(square / n - np.outer(mean, mean))
    kept = min(COMPONENTS, n // 4, int((variance > _NEVER * variance[-1]).sum()))
    used = variance[-kept:]
    basis = directions[:, -kept:] / np.sqrt(used + FLOOR * np.median(used))
    return Whitening(mean.astype(np.float32), basis.astype(np.float32))


def _blocks(sets: Sequence[np.ndarray]):
    """Thumbnails, some at a time."""
    for thumbnails in sets:
        for i in range(0, len(thumbnails), _BLOCK):
            yield np.asarray(thumbnails[i : i + _BLOCK])
