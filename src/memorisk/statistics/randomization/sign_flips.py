"""Sign flips of units of several images, which `memorization.sign_flips` uses; no statistics of their own.

Values are added seed by seed in one fixed order with elementwise operations only. A matrix product would be
shorter, but its kernels add in an order that depends on where a column lies, so that the same signed gaps could
give two different sums.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

BLOCK = 2**20
"""Number of flipped values held at a time (8 MiB per array of them)."""

MIN_RANDOM_FLIPS, MAX_RANDOM_FLIPS = 1000, 2**16
"""Limits of the number of random flips, the identity included, however many or few images there are."""


@dataclass(frozen=True)
class ImagesElsewhere:
    """Images that the units of one class have in other classes, which flip with the unit."""

    sums: FloatArray
    """Sums over these images of the signed gaps without scale, `[S, U]`; 0 for units of one class."""
    sizes: IntArray
    """Number of these images, `[U]`."""

    def take(self, members: IntArray, pattern: NDArray[np.bool_] | IntArray) -> "ImagesElsewhere":
        """Take those of the given units, in these seeds."""
        return ImagesElsewhere(self.sums[np.ix_(pattern, members)], self.sizes[members])


@dataclass(frozen=True)
class Units:
    """Images of one class, ordered so that each unit's images are adjacent and units of one size are adjacent."""

    ids: NDArray
    """Ids of the units, `[U]`, sorted."""
    sizes: IntArray
    """Number of images per unit, `[U]`."""
    scored: NDArray[np.bool_]
    """Whether the unit was scored in each seed, `[U, S]`."""
    gap: FloatArray
    """Signed gaps, `[S, I]`, 0 where not scored."""
    unit_of: IntArray
    """Position in `ids` of each image's unit, `[I]`; sorted by (size, position)."""
    elsewhere: ImagesElsewhere | None = None
    """Images in other classes; None where each unit is of one class."""

    @property
    def of_one_class(self) -> "Units":
        """Return the units without their images in other classes."""
        return self if self.elsewhere is None else replace(self, elsewhere=None)

    @property
    def has_elsewhere(self) -> NDArray[np.bool_]:
        """Return whether each unit has images in other classes, `[U]`."""
        return np.zeros(len(self.ids), bool) if self.elsewhere is None else self.elsewhere.sizes > 0

    @property
    def n_seeds(self) -> int:
        """Return the number of seeds, scored or not."""
        return len(self.gap)

    def take(self, members: IntArray, pattern: NDArray[np.bool_] | IntArray) -> "Units":
        """Take the given units (sorted positions) in these seeds, by mask or by position."""
        position = np.full(len(self.ids), -1)
        position[members] = np.arange(len(members))
        images = position[self.unit_of] >= 0
        return Units(
            self.ids[members],
            self.sizes[members],
            self.scored[np.ix_(members, pattern)],
            self.gap[np.ix_(pattern, images)],
            position[self.unit_of[images]],
            None if self.elsewhere is None else self.elsewhere.take(members, pattern),
        )

    def maxima(self, values: FloatArray) -> FloatArray:
        """Return the maximum over each unit's images: `[flips, I]` to `[flips, U]`."""
        order = np.lexsort((np.arange(len(self.ids)), self.sizes))  # units as their images are laid out
        starts = np.cumsum(self.sizes[order]) - self.sizes[order]
        out = np.empty((len(values), len(self.ids)))
        if len(order):
            out[:, order] = np.maximum.reduceat(values, starts, axis=1)
        return out

    def sorted_by_size(self, values: FloatArray) -> Iterator[tuple[int, FloatArray]]:
        """Yield each size k with the values of its units, `[flips, units, k]`, ascending over a unit's images."""
        start = 0
        for k, n in zip(*np.unique(self.sizes, return_counts=True), strict=True):
            block = values[:, start : start + n * k].reshape(len(values), n, k)
            yield int(k), np.sort(block, axis=-1) if k > 1 else block
            start += n * k


def make_units(
    name: str, gap: ArrayLike, unit: ArrayLike, *, sign: ArrayLike | None = None, n_seeds: int | None = None
) -> Units:
    """Check units and compute their signed gaps.

    Args:
        name: Name of the images, for messages.
        gap: Loss gaps of the images, `[S, I]`.
        unit: Unit ids of the images, `[I]`.
        sign: Signs in {-1, 0, +1}, `[S, I]`; None for test images, which neither twin saw: all +1.
        n_seeds: Number of seeds expected, None to accept any.

    Raises:
        InputError: Shapes do not fit, a sign is out of range or differs within a unit, or a scored gap is not finite.
    """
    d = np.asarray(gap, dtype=np.float64)
    s = np.ones_like(d) if sign is None else np.asarray(sign, dtype=np.float64)
    ids, unit_of, sizes = np.unique(np.asarray(unit), return_inverse=True, return_counts=True)
    if d.ndim != 2 or s.shape != d.shape or unit_of.shape != d.shape[1:] or n_seeds not in (None, len(d)):
        want = "seeds" if n_seeds is None else f"{n_seeds} seeds"
        raise InputError(
            f"{name} gaps {d.shape}, signs {s.shape} and unit ids {unit_of.shape} do not fit; "
            f"give [{want}, images] twice and one id per image"
        )
    if not np.isin(s, (-1, 0, 1)).all():
        raise InputError(f"{name} signs must be +1 (A trained on it), -1 (B did) or 0 (both or neither)")
    if not np.isfinite(d[s != 0]).all():
        raise InputError(
            f"the loss gap of a {name} image is not finite; find the model whose loss became NaN or infinite"
        )
    order = np.lexsort((unit_of, sizes[unit_of]))
    first = np.zeros(len(ids), dtype=np.intp)
    first[unit_of[::-1]] = np.arange(len(unit_of))[::-1]
    differs = (s != s[:, first[unit_of]]).any(0)
    if differs.any():
        raise InputError(
            f"unit {str(ids[unit_of[np.flatnonzero(differs)[0]]])!r} has images on both sides of one seed's split; "
            "a group must fall into one half as a whole"
        )
    signed = np.multiply(s, d, out=np.zeros(d.shape), where=s != 0)
    return Units(
        ids=ids, sizes=sizes.astype(np.int64), scored=(s[:, first] != 0).T, gap=signed[:, order], unit_of=unit_of[order]
    )


def plan_flips(n_seeds: int, n_images: int, max_draws: int, seed: int) -> tuple[int, bool]:
    """Choose the number of flips, and return whether they are all there are.

    Args:
        n_seeds: Number of seeds S' to flip.
        n_images: Number of images of the class, canaries and tests, whose flipped values are computed.
        max_draws: Budget of flipped values.
        seed: Seed of the flips, a non-negative integer, as NumPy's generators need.

    Raises:
        InputError: The budget is below one value, or the seed is negative.
    """
    if max_draws < 1 or seed < 0:
        raise InputError(f"max_draws is {max_draws} and seed is {seed}; give at least 1 and at least 0")
    if n_seeds < 62 and 2**n_seeds * n_images <= max_draws:
        return 2**n_seeds, True
    return min(max(max_draws // n_images, MIN_RANDOM_FLIPS), MAX_RANDOM_FLIPS), False


def flip_blocks(n_seeds: int, flips: int, exact: bool, seed: int, *, width: int) -> Iterator[FloatArray]:
    """Yield blocks `[block, S]` of signs, the identity first; `width` values per flip decide a block's size."""
    step = max(1, BLOCK // max(width, 1))
    rng = np.random.default_rng(seed)
    for start in range(0, flips, step):
        index = np.arange(start, min(start + step, flips))
        if exact:
            bits = (index[:, None] >> np.arange(n_seeds)) & 1
        else:
            bits = rng.integers(0, 2, size=(len(index), n_seeds))
            bits[index == 0] = 0
        yield np.where(bits, -1.0, 1.0)


def flipped_sums(signs: FloatArray, gap: FloatArray) -> FloatArray:
    """Sum flipped gaps over seeds: signs `[flips, S]`, gaps `[S, I]`, out `[flips, I]`; in seed order."""
    total = np.zeros((len(signs), gap.shape[1]))
    for column, gap_s in zip(signs.T, gap, strict=True):
        total += column[:, None] * gap_s
    return total
