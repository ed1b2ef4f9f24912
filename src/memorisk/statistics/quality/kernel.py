"""Kernel distance (KID): the unbiased squared maximum mean discrepancy with the cubic kernel, of all pairs.

    k(x, y) = (x'y / d + 1)^3
    KID = mean_{i != j} k(x_i, x_j) + mean_{i != j} k(y_i, y_j) - 2 mean_{i, j} k(x_i, y_j)

The published figure averages this over random subsets (100 of 1,000 images); that is an average of the same
quantity with more noise. The deviation over subsets that is printed with it is not an interval: the subsets overlap,
so that it does not shrink with the number of images as it should. `kernel_distance` takes all pairs and leaves out
one unit at a time, exactly; `subset_kernel_distance` is the published form, draw for draw torch-fidelity's.

Unbiased for independent images: about 0 where the two distributions are one, and negative half of the time then.
With several images per patient, pairs of one patient are among the pairs, as in every published KID.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from memorisk.runs.errors import InputError
from memorisk.statistics.quality.figures import (
    Codes,
    FloatArray,
    QualityFigure,
    Samples,
    check_samples,
    deleted_contributions,
    figure_interval,
    unit_sums,
)

_AT_ONCE = 1 << 23


@dataclass(frozen=True)
class SubsetDistance:
    """KID in its published form."""

    mean: float
    """Mean of KID over subsets."""
    deviation: float
    """Standard deviation over subsets; not a standard error."""
    subsets: int
    """Number of subsets."""
    size: int
    """Number of images of each side in a subset."""


def kernel_distance(
    real: ArrayLike,
    synthetic: ArrayLike,
    real_group: ArrayLike | None = None,
    synthetic_group: ArrayLike | None = None,
    *,
    level: float = 0.95,
) -> QualityFigure:
    """Compute KID of all pairs, with an interval over patients and synthetic images.

    Args:
        real: Features of the real images, [n, d], at least two rows.
        synthetic: Features of the synthetic images, [m, d].
        real_group: Patient of each real image, [n]; None: each its own.
        synthetic_group: Patient of each synthetic image, [m]; None: each its own.
        level: Coverage of the interval.

    Returns:
        Figure; KID may be negative. Memory is that of a block of pairs.

    Raises:
        InputError: As `check_samples`.

    Source:
        Binkowski and others (2018); the delete-one jackknife of a U-statistic, Arvesen (1969).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> distance = kernel_distance(rng.normal(size=(200, 4)), rng.normal(1, 1, size=(100, 4)))
        >>> round(distance.estimate, 2), distance.low > 0
        (8.66, True)
    """
    samples = check_samples(real, synthetic, real_group, synthetic_group, level=level)
    x, y = samples.real, samples.synthetic
    all_x, all_y = _Side.of(x, samples.real_unit), _Side.of(y, samples.synthetic_unit)
    cross_x, cross_y = _cross_sums(x, y)
    cross = float(cross_x.sum())
    estimate = all_x.mean + all_y.mean - 2 * cross / (len(x) * len(y))
    if min(samples.units) < 2:
        return samples.no_interval(estimate, "one set has a single independent unit")
    deleted = [
        _without(side, other, cross, unit_sums(sums, unit), np.bincount(unit))
        for side, other, unit, sums in (
            (all_x, all_y, samples.real_unit, cross_x),
            (all_y, all_x, samples.synthetic_unit, cross_y),
        )
    ]
    return _figure(samples, estimate, deleted)


def _figure(samples: Samples, estimate: float, deleted: list[FloatArray]) -> QualityFigure:
    if not all(np.isfinite(part).all() for part in deleted):
        return samples.no_interval(estimate, "one unit holds nearly all images of a set")
    real, synthetic = (deleted_contributions(part) for part in deleted)
    return figure_interval(samples, estimate, real, synthetic, "asinh", "jackknife over units")


def subset_kernel_distance(
    real: ArrayLike, synthetic: ArrayLike, *, subsets: int = 100, size: int = 1000, seed: int = 2020
) -> SubsetDistance:
    """Average KID over random subsets: the published form.

    Args:
        real: Features of the real images, [n, d].
        synthetic: Features of the synthetic images, [m, d].
        subsets: Number of subsets.
        size: Number of images of each side in a subset, at most n and m.
        seed: Seed of the draw; torch-fidelity's own is 2020.

    Returns:
        Distance that ``kid_features_to_metric(synthetic, real)`` of torch-fidelity gives for these features: it draws
        the
        synthetic images of each subset first.

    Raises:
        InputError: As `check_samples`; or a subset that is larger than a set.
    """
    samples = check_samples(real, synthetic)
    x, y = samples.real, samples.synthetic
    if not 2 <= size <= min(len(x), len(y)) or subsets < 1:
        raise InputError(
            f"{subsets:,} subsets of {size:,} cannot be drawn from {len(x):,} real and {len(y):,} synthetic images"
        )
    rng = np.random.RandomState(seed)  # torch-fidelity's draws
    distances = np.empty(subsets)
    for i in range(subsets):
        some = y[rng.choice(len(y), size, replace=False)]
        others = x[rng.choice(len(x), size, replace=False)]
        units = np.arange(size)
        within = _Side.of(some, units).mean + _Side.of(others, units).mean
        distances[i] = within - 2 * float(_cross_sums(some, others)[0].sum()) / size**2
    return SubsetDistance(float(distances.mean()), float(distances.std()), subsets, size)


def kernel(x: FloatArray, y: FloatArray) -> FloatArray:
    """Compute ``(x'y / d + 1)^3``, [n, m], in place and by two products: a power takes ten times as long."""
    base = x @ y.T
    base /= x.shape[1]
    base += 1
    cube = base * base
    cube *= base
    return cube


@dataclass(frozen=True, eq=False)
class _Side:
    """Sums of the kernel over ordered pairs of different images of one set."""

    n: int
    total: float
    """Sum over all pairs."""
    rows: FloatArray
    """Sums over pairs whose first image is of a unit, [G]."""
    within: FloatArray
    """Sums over pairs with both images of a unit, [G]."""

    @classmethod
    def of(cls, values: FloatArray, unit: Codes) -> "_Side":
        """Compute the kernel sums of a set, a block of pairs at a time."""
        sums = _cross_sums(values, values)[0] - _diagonal(values)
        return cls(len(values), float(sums.sum()), unit_sums(sums, unit), _within(values, unit))

    @property
    def mean(self) -> float:
        """Return the mean of the kernel over pairs."""
        return self.total / (self.n * (self.n - 1))


def _without(side: _Side, other: _Side, cross: float, crossing: FloatArray, images: Codes) -> FloatArray:
    """Compute KID without each unit of one side, [G]; infinite where a single image is left."""
    n_left = side.n - images
    total = side.total - 2 * side.rows + side.within
    with np.errstate(divide="ignore", invalid="ignore"):
        return total / (n_left * (n_left - 1)) + other.mean - 2 * (cross - crossing) / (n_left * other.n)


def _diagonal(values: FloatArray) -> FloatArray:
    """Compute k(x, x) of each image, [n]."""
    return (np.einsum("ij,ij->i", values, values) / values.shape[1] + 1) ** 3


def _within(values: FloatArray, unit: Codes) -> FloatArray:
    """Sum the kernel over pairs of different images of each unit, [G]."""
    sums, diagonal = np.zeros(int(unit.max()) + 1), _diagonal(values)
    order = np.argsort(unit, kind="stable")
    ends = np.cumsum(np.bincount(unit))
    for g, end in enumerate(ends):
        rows = order[(ends[g - 1] if g else 0) : end]
        if len(rows) > 1:
            sums[g] = _cross_sums(values[rows], values[rows])[0].sum() - diagonal[rows].sum()
    return sums


def _cross_sums(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sum ``k(x_i, y_j)`` over the other side, [n] and [m]."""
    by_x, by_y = np.empty(len(x)), np.zeros(len(y))
    step = max(1, _AT_ONCE // len(y))
    for start in range(0, len(x), step):
        block = kernel(x[start : start + step], y)
        by_x[start : start + step] = block.sum(axis=1)
        by_y += block.sum(axis=0)
    return by_x, by_y
