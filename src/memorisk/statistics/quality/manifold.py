"""Precision and recall, density and coverage: how much of one set lies among the images of the other.

**Figures.** Precision and recall take k = 3, density and coverage k = 5.

    precision = share of synthetic images in a ball of any real image        (k = 3)
    recall    = share of real images in a ball of any synthetic image        (k = 3)
    density   = mean number of real balls that hold a synthetic image, / k   (k = 5; 1 where the sets are one)
    coverage  = share of real images with a synthetic image in their ball    (k = 5)

Balls are as below. All four depend on the numbers of images, and on how many images of
one patient are there: neighbours of the same patient make the balls small.

The figures do not change smoothly with an image, so that deleting images one by one makes the variance of precision and
coverage up to four times too large. Their variance, and recall's, comes from random halves of the units of both
sets instead: the figures of two disjoint halves are independent, so that half of their squared difference is the
variance at half the numbers, and half of that the variance at all. Density varies more with k neighbours of more
images than this, and gets the (wide) jackknife that leaves out a group of units at a time.

**Balls.** Images in the balls about others, from which precision, recall, density and coverage are counted.

The ball about an image reaches to its k-th nearest neighbour in its own set, itself not counted, and is closed: an
exact copy of a neighbour is inside. Distances are compared by matrix products in float32, block by block, and every
pair within rounding of a ball's edge again by definition in float64, so that ties are ties.

Intervals need the same counts from parts of both sets. All parts are counted in one pass over the pairs; the
neighbours within a part come from one list, or a second search where the list is too short.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.scores.distances import fit_measure, nearest, rowwise
from memorisk.scores.distances.bounds import gamma
from memorisk.statistics.quality.figures import (
    Codes,
    FloatArray,
    QualityFigure,
    Samples,
    check_samples,
    deleted_contributions,
    figure_interval,
    variance_interval,
)

Mask = NDArray[np.bool_]
_AT_ONCE = 1 << 22  # pairs in a block: 32 MiB
GROUPS = 20
"""Largest number of groups of units that are left out in turn."""
SPLITS = 30
"""Number of random halvings."""
_NO_PARTS = "the sets were not divided, or their parts are too small"


@dataclass(frozen=True, eq=False)
class ImageSubset:
    """Some images of each of two sets."""

    centres: Codes
    """Rows in the set with the balls."""
    others: Codes
    """Rows in the other set."""


@dataclass(frozen=True)
class BallCounts:
    """Counts of each part's images in the balls of the other."""

    others: float
    """Share of the others that any ball holds."""
    balls: float
    """Share of the balls that hold any of the others."""
    pairs: float
    """Mean number of balls that hold one of the others."""


def count_in_balls(centres: FloatArray, others: FloatArray, k: int, parts: Sequence[ImageSubset]) -> list[BallCounts]:
    """Count the images of a set in the balls of another, once for each part of both.

    Args:
        centres: Features of the images with balls that reach to their k-th neighbour, [n, d].
        others: Features of the images that may lie in them, [m, d].
        k: Number of the neighbour that a ball reaches to.
        parts: Rows of both, more than k of the centres in each; balls are those of the part.
    """
    radii = ball_radii(centres, k, [part.centres for part in parts])
    pairs = _Pairs(centres, others)
    everyone, n_held, n_pairs = np.arange(len(centres)), np.zeros(len(parts)), np.zeros(len(parts))
    holding = [np.zeros(len(part.centres), bool) for part in parts]
    step = max(1, _AT_ONCE // len(centres))
    for start in range(0, len(others), step):
        stop = min(start + step, len(others))
        squared = pairs.squared(start, stop)
        for p, part in enumerate(parts):
            rows = part.others[(part.others >= start) & (part.others < stop)]
            if len(rows):
                whole = len(rows) == len(squared) and np.array_equal(part.centres, everyone)
                squares = squared if whole else squared[np.ix_(rows - start, part.centres)]
                inside = pairs.within(squares, rows, part.centres, radii[p])
                n_held[p] += inside.any(axis=1).sum()
                n_pairs[p] += inside.sum()
                holding[p] |= inside.any(axis=0)
    return [
        BallCounts(n_held[p] / len(part.others), float(holding[p].mean()), n_pairs[p] / len(part.others))
        for p, part in enumerate(parts)
    ]


def ball_radii(values: FloatArray, k: int, parts: Sequence[Codes]) -> list[FloatArray]:
    """Compute the distance of every image of a part to its k-th neighbour in that part, itself not counted.

    Args:
        values: Features of the images of all parts, [n, d].
        k: Number of the neighbour.
        parts: Rows of each part, more than k in each.
    """
    n, measure, everyone = len(values), fit_measure("euclidean", values), np.arange(len(values))
    n_neighbours = k if all(len(rows) == n for rows in parts) else min(4 * k + 8, n - 1)
    neighbours = nearest(values, values, measure, n_neighbours, exclude_same=(everyone, everyone), device="cpu")
    radii = []
    for rows in parts:
        member = np.zeros(n, bool)
        member[rows] = True
        counted = np.cumsum(member[neighbours.indices[rows]], axis=1)
        place = np.minimum((counted < k).sum(axis=1), n_neighbours - 1)
        radius = neighbours.distances[rows, place]
        short = np.flatnonzero(counted[:, -1] < k)
        if len(short):
            again = nearest(
                values[rows[short]], values[rows], measure, k, exclude_same=(rows[short], rows), device="cpu"
            )
            radius[short] = again.distances[:, k - 1]
        radii.append(radius)
    return radii


class _Pairs:
    """Squared distances of the images of two sets, by matrix products, and comparisons that are exact at ties."""

    def __init__(self, centres: FloatArray, others: FloatArray) -> None:
        self.centres, self.others = centres, others
        self.measure = fit_measure("euclidean", centres)
        middle = centres.mean(axis=0)
        most = max(float(abs(values - middle).max(initial=0.0)) for values in (centres, others))
        self.scale = 2.0 ** -np.floor(np.log2(most)) if most > 0 else 1.0
        self.x, self.y = (((values - middle) * self.scale).astype(np.float32) for values in (centres, others))
        self.x2, self.y2 = (np.square(values, dtype=np.float64).sum(axis=1) for values in (self.x, self.y))
        # Off by at most gamma(d) (x^2 + y^2) for the product, 4 units for the rounding of both rows, 5 for the sums.
        self.rounding = gamma(centres.shape[1] + 16)

    def squared(self, start: int, stop: int) -> NDArray[np.float32]:
        """Compute squared distances of a block of the others, [b, n], of rows that are scaled."""
        values = self.y[start:stop] @ self.x.T
        values *= np.float32(-2.0)
        values += self.y2[start:stop, None].astype(np.float32)
        values += self.x2.astype(np.float32)
        return values

    def within(self, squared: NDArray[np.float32], rows: Codes, columns: Codes, radius: FloatArray) -> Mask:
        """Return whether others lie in the balls of some centres, [b, c]; pairs at the edge by definition."""
        edge, unsure = np.square(radius * self.scale), self.rounding * self.x2[columns] + 2.0**-100
        low, high = ((edge - unsure).astype(np.float32), (edge + unsure).astype(np.float32))
        own = (self.rounding * (1 + 2.0**-10) * self.y2[rows, None]).astype(np.float32)
        inside = squared + own <= np.nextafter(low, np.float32(-np.inf))
        i, j = np.nonzero(inside != (squared - own <= np.nextafter(high, np.float32(np.inf))))
        if len(i):
            distance = rowwise(self.centres[columns[j]], self.others[rows[i]], self.measure)
            inside[i, j] = distance <= radius[j]
        return inside


@dataclass(frozen=True)
class PrecisionRecall:
    """Improved precision and recall of a set."""

    precision: QualityFigure
    """Share of the synthetic images among the real ones: fidelity."""
    recall: QualityFigure
    """Share of the real images among the synthetic ones: diversity."""
    k: int
    """Number of neighbours k."""


@dataclass(frozen=True)
class DensityCoverage:
    """Density and coverage of a set."""

    density: QualityFigure
    """Mean number of real balls about a synthetic image, over k."""
    coverage: QualityFigure
    """Share of the real images with a synthetic neighbour."""
    k: int
    """Number of neighbours k."""


def precision_recall(
    real: ArrayLike,
    synthetic: ArrayLike,
    real_group: ArrayLike | None = None,
    synthetic_group: ArrayLike | None = None,
    *,
    k: int = 3,
    seed: int = 0,
    level: float = 0.95,
    intervals: bool = True,
) -> PrecisionRecall:
    """Compute improved precision and recall, with intervals over patients and synthetic images.

    Args:
        real: Features of the real images, [n, d], more than k rows.
        synthetic: Features of the synthetic images, [m, d], more than k rows.
        real_group: Patient of each real image, [n]; None: each its own.
        synthetic_group: Patient of each synthetic image, [m]; None: each its own.
        k: Number of neighbours.
        seed: Seed of the parts that make the interval.
        level: Coverage of the intervals.
        intervals: Whether to compute intervals; False gives the figures alone, some ten times as quickly.

    Raises:
        InputError: As `check_samples`, or k below 1.

    Source:
        Kynkaanniemi and others (2019); equal to torch-fidelity's on the same features.

    Example:
        >>> points = [[float(i), 0.0] for i in range(8)]
        >>> figures = precision_recall(points, points, intervals=False)
        >>> figures.precision.estimate, figures.recall.estimate
        (1.0, 1.0)
    """
    samples = _prepare(real, synthetic, real_group, synthetic_group, k, level)
    parts = [_everything(samples), *(_halves(samples, k, seed) if intervals else ())]
    around_real = count_in_balls(samples.real, samples.synthetic, k, parts)
    around_synthetic = count_in_balls(
        samples.synthetic, samples.real, k, [ImageSubset(p.others, p.centres) for p in parts]
    )
    return PrecisionRecall(
        _by_halves(samples, [held.others for held in around_real]),
        _by_halves(samples, [held.others for held in around_synthetic]),
        k,
    )


def density_coverage(
    real: ArrayLike,
    synthetic: ArrayLike,
    real_group: ArrayLike | None = None,
    synthetic_group: ArrayLike | None = None,
    *,
    k: int = 5,
    seed: int = 0,
    level: float = 0.95,
    intervals: bool = True,
) -> DensityCoverage:
    """Compute density and coverage, with intervals over patients and synthetic images.

    Args:
        real: Features of the real images, [n, d], more than k rows.
        synthetic: Features of the synthetic images, [m, d].
        real_group: Patient of each real image, [n]; None: each its own.
        synthetic_group: Patient of each synthetic image, [m]; None: each its own.
        k: Number of neighbours.
        seed: Seed of the parts that make the interval.
        level: Coverage of the intervals.
        intervals: Whether to compute intervals; False gives the figures alone, some ten times as quickly.

    Raises:
        InputError: As `check_samples`, or k below 1.

    Source:
        Naeem and others (2020). Balls are closed here and open in their code, which differs at exact ties only.
    """
    samples = _prepare(real, synthetic, real_group, synthetic_group, k, level)
    halves = _halves(samples, k, seed) if intervals else []
    without_real, without_synthetic = _left_out(samples, k, seed) if intervals else ([], [])
    held = count_in_balls(
        samples.real, samples.synthetic, k, [_everything(samples), *halves, *without_real, *without_synthetic]
    )
    coverage = _by_halves(samples, [one.balls for one in held[: len(halves) + 1]])
    rest = held[len(halves) + 1 :]
    density = _density(samples, held[0], rest[: len(without_real)], rest[len(without_real) :], k)
    return DensityCoverage(density, coverage, k)


def _prepare(
    real: ArrayLike,
    synthetic: ArrayLike,
    real_group: ArrayLike | None,
    synthetic_group: ArrayLike | None,
    k: int,
    level: float,
) -> Samples:
    if k < 1:
        raise InputError(f"k is {k}; give a whole number of neighbours, at least 1")
    return check_samples(real, synthetic, real_group, synthetic_group, level=level, fewest=k + 1)


def _everything(samples: Samples) -> ImageSubset:
    return ImageSubset(np.arange(len(samples.real)), np.arange(len(samples.synthetic)))


def _halves(samples: Samples, k: int, seed: int) -> list[ImageSubset]:
    """Draw random halves of the units of both sets, each followed by the other half; none where a half is too small."""
    if min(samples.units) < 2:
        return []
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(SPLITS):
        real, synthetic = (
            (rng.permutation(n) < n // 2)[unit]
            for n, unit in zip(samples.units, (samples.real_unit, samples.synthetic_unit), strict=True)
        )
        parts += [ImageSubset(*(np.flatnonzero(half) for half in (real, synthetic)))]
        parts += [ImageSubset(*(np.flatnonzero(~half) for half in (real, synthetic)))]
    return parts if _large_enough(parts, k) else []


def _left_out(samples: Samples, k: int, seed: int) -> tuple[list[ImageSubset], list[ImageSubset]]:
    """Everything without each group of units of the real images, and of the synthetic ones; none where that is few."""
    rng, everything = np.random.default_rng(seed), _everything(samples)
    row_sets = []
    for n, unit in zip(samples.units, (samples.real_unit, samples.synthetic_unit), strict=True):
        n_groups = min(GROUPS, n)
        group = rng.permutation(np.arange(n) % n_groups)[unit]
        row_sets.append([np.flatnonzero(group != g) for g in range(n_groups)])
    real = [ImageSubset(rows, everything.others) for rows in row_sets[0]]
    synthetic = [ImageSubset(everything.centres, rows) for rows in row_sets[1]]
    return (real, synthetic) if _large_enough([*real, *synthetic], k) else ([], [])


def _large_enough(parts: list[ImageSubset], k: int) -> bool:
    return all(len(part.centres) > k and len(part.others) > k for part in parts)


def _by_halves(samples: Samples, values: list[float]) -> QualityFigure:
    """Compute the figure from a share of everything, and of each half followed by the other."""
    estimate, first, second = values[0], np.array(values[1::2]), np.array(values[2::2])
    if not len(first):
        return samples.no_interval(estimate, _NO_PARTS)
    variance = float(np.square(first - second).mean()) / 4
    df = 1 / (1 / SPLITS + 1 / max(min(samples.units) - 1, 1))
    return variance_interval(samples, estimate, variance, df, "logit", "random halves of the units")


def _density(
    samples: Samples, held: BallCounts, real: list[BallCounts], synthetic: list[BallCounts], k: int
) -> QualityFigure:
    """Compute the mean number of balls about a synthetic image, over k."""
    estimate = held.pairs / k
    if min(len(real), len(synthetic)) < 2:
        return samples.no_interval(estimate, _NO_PARTS)
    first, second = (deleted_contributions(np.array([one.pairs / k for one in side])) for side in (real, synthetic))
    return figure_interval(samples, estimate, first, second, "log", "jackknife over groups of units")
