"""Precision and recall take k = 3, density and coverage k = 5: images of one set among those of the other.

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
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from memorisk.runs.errors import InputError
from memorisk.statistics.quality.balls import BallCounts, ImageSubset, count_in_balls
from memorisk.statistics.quality.figures import (
    QualityFigure,
    Samples,
    check_samples,
    deleted_contributions,
    figure_interval,
    variance_interval,
)

GROUPS = 20
"""Largest number of groups of units that are left out in turn."""
SPLITS = 30
"""Number of random halvings."""
_NO_PARTS = "the sets were not divided, or their parts are too small"


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
