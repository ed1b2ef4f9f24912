"""Units of several images and their sign flips: the machinery under `nulls`, with no statistics of its own.

Values are added seed by seed in one fixed order with elementwise operations only. A matrix product would be shorter,
but its kernels add in an order that depends on where a column lies, so that the same signed gaps could give two
different sums.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

BLOCK = 2**20
"""Flipped values held at a time (8 MiB per array of them)."""

MIN_RANDOM_FLIPS, MAX_RANDOM_FLIPS = 1000, 2**16
"""Random flips, the identity included, however many or few images there are."""


@dataclass(frozen=True)
class Units:
    """Images of one class, ordered so that each unit's images are adjacent and units of one size are adjacent."""

    ids: NDArray
    """`[U]` sorted unit ids."""
    sizes: IntArray
    """`[U]` images per unit."""
    scored: NDArray[np.bool_]
    """`[U, S]` seeds in which the unit was scored."""
    gap: FloatArray
    """`[S, I]` signed gaps, 0 where not scored."""
    unit_of: IntArray
    """`[I]` position in `ids` of each image's unit; sorted by (size, position)."""

    @property
    def n_seeds(self) -> int:
        """Seeds, scored or not."""
        return len(self.gap)

    def restrict(self, pattern: NDArray[np.bool_]) -> "Units":
        """The same units in the seeds of the pattern only."""
        return Units(self.ids, self.sizes, self.scored[:, pattern], self.gap[pattern], self.unit_of)

    def take(self, members: IntArray, pattern: NDArray[np.bool_]) -> "Units":
        """The given units (sorted positions) in the seeds of the pattern."""
        position = np.full(len(self.ids), -1)
        position[members] = np.arange(len(members))
        images = position[self.unit_of] >= 0
        return Units(
            self.ids[members],
            self.sizes[members],
            self.scored[np.ix_(members, pattern)],
            self.gap[np.ix_(pattern, images)],
            position[self.unit_of[images]],
        )

    def maxima(self, values: FloatArray) -> FloatArray:
        """Maximum over each unit's images: `[flips, I]` to `[flips, U]`."""
        order = np.lexsort((np.arange(len(self.ids)), self.sizes))  # units as their images are laid out
        starts = np.cumsum(self.sizes[order]) - self.sizes[order]
        out = np.empty((len(values), len(self.ids)))
        if len(order):
            out[:, order] = np.maximum.reduceat(values, starts, axis=1)
        return out

    def sorted_by_size(self, values: FloatArray) -> Iterator[tuple[int, FloatArray]]:
        """For each size k: the values of its units, `[flips, units, k]`, ascending over a unit's images."""
        start = 0
        for k, n in zip(*np.unique(self.sizes, return_counts=True), strict=True):
            block = values[:, start : start + n * k].reshape(len(values), n, k)
            yield int(k), np.sort(block, axis=-1) if k > 1 else block
            start += n * k


def make_units(
    name: str, gap: ArrayLike, unit: ArrayLike, *, sign: ArrayLike | None = None, n_seeds: int | None = None
) -> Units:
    """Checked units with their signed gaps.

    Args:
        name: What the images are, for messages.
        gap: `[S, I]` loss gaps.
        unit: `[I]` unit ids.
        sign: `[S, I]` in {-1, 0, +1}; None for test images, which neither twin saw: all +1.
        n_seeds: Seeds expected, None to accept any.

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
    """How many flips, and whether they are all of them.

    Args:
        n_seeds: Seeds S' to flip.
        n_images: Images of the class, canaries and tests, whose flipped values are computed.
        max_draws: Budget of flipped values.
        seed: Must be a non-negative integer, as NumPy's generators ask.

    Raises:
        InputError: The budget is below one value, or the seed is negative.
    """
    if max_draws < 1 or seed < 0:
        raise InputError(f"max_draws is {max_draws} and seed is {seed}; give at least 1 and at least 0")
    if n_seeds < 62 and 2**n_seeds * n_images <= max_draws:
        return 2**n_seeds, True
    return min(max(max_draws // n_images, MIN_RANDOM_FLIPS), MAX_RANDOM_FLIPS), False


def flip_blocks(n_seeds: int, flips: int, exact: bool, seed: int, *, width: int) -> Iterator[FloatArray]:
    """Blocks `[block, S]` of signs, the identity first; `width` values per flip decide how many fit in `BLOCK`."""
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
    """Sums over seeds of flipped gaps: signs `[flips, S]`, gaps `[S, I]`, out `[flips, I]`; in seed order."""
    total = np.zeros((len(signs), gap.shape[1]))
    for column, gap_s in zip(signs.T, gap, strict=True):
        total += column[:, None] * gap_s
    return total


def typical_error(gap: FloatArray) -> float:
    """What is added to the standard error of a studentized gap, `0.15 + median over images of sqrt(mean D^2 / S)`.

    Without it an image whose few seeds happen to agree would rank above one with a large gap. The median is the
    standard error of unseen images, so that the offset grows with the noise of trainings; it does not change with
    flips. 0.15 nats keep it from vanishing where most images are learned without effort.

    Chosen by simulation among eight (`recipes/verdict_truth.py --offsets`): over four kinds of noise at three scales,
    16 models find one patient at 2 nats with probability 0.53 (the median alone 0.51, the mean 0.43). 0.15 alone does
    as well on average, but loses most where all images are noisy alike.

    Args:
        gap: `[S, J]` loss gaps of unseen images, in nats.

    Source:
        METHODS section 6, "Ranking"; the form is that of Tusher, Tibshirani and Chu (2001).
    """
    if not gap.size:
        return 0.15
    return 0.15 + float(np.median(np.sqrt(np.mean(gap**2, axis=0) / len(gap))))


def studentized(total: FloatArray, gap: FloatArray, offset: float) -> FloatArray:
    """Mean over seeds over its standard error and the offset, of flipped sums.

    `t = m / (sqrt((q - m^2) / (S - 1)) + offset)` with `m = total / S` and `q = mean over s of D_s^2`, which no flip
    changes. With one seed the error is 0.

    Args:
        total: `[flips, I]` sums over seeds of flipped gaps.
        gap: `[S, I]` the gaps.
        offset: `typical_error`, in nats.

    Returns:
        `[flips, I]`.
    """
    n_seeds = len(gap)
    squares = np.zeros(gap.shape[1])
    for row in gap:
        squares += row * row
    mean = total / n_seeds
    spread = np.maximum(squares / n_seeds - mean * mean, 0.0)
    return mean / (np.sqrt(spread / max(n_seeds - 1, 1)) + offset)
