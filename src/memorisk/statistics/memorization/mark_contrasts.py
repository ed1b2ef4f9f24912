"""Groups of models that carry a mark against models that do not; what belongs to the image and what to the seed.

Paper 002, sections 3.1 to 3.3 and B.2; METHODS section 2, "Studies". The independent unit is the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.jackknife import JackknifeInterval, jackknife, unavailable

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class MeanLimits:
    """A mean, or a sum and difference of several, with its t limits over models."""

    estimate: float
    """Mean of the first less mean of the second, where there is one; NaN without values."""
    low: float
    """Lower limit; NaN with fewer than two values in a group."""
    high: float
    """Upper limit; NaN with fewer than two values in a group."""
    n: int
    """Number of models of the first group."""
    n_other: int
    """Size of the second group; 0 where there is none."""


@dataclass(frozen=True)
class SeedShare:
    """Shares of the spread of a score that belong to the image and to the training."""

    share: float
    """Intraclass correlation ICC(1): the share of the variance that stays when a model is trained anew; NaN where it
    is undefined."""
    low: float
    """Lower limit of the share, by F."""
    high: float
    """Upper limit of the share, by F."""
    between: float
    """Mean square between images."""
    within: float
    """Mean square between trainings of one image: the variance that the seed alone makes."""
    n_images: int
    """Number of images."""
    n_runs: int
    """Number of trainings of each image."""


def mean_limits(values: ArrayLike, others: ArrayLike | None = None, *, level: float = 0.95) -> MeanLimits:
    """Mean with Student's limits, or a difference of two means with those of `contrast`.

    Args:
        values: Values of the models, [n].
        others: Values whose mean is subtracted, [m].
        level: Coverage of the limits.
    """
    groups = [values] if others is None else [values, others]
    return contrast(groups, (1.0, -1.0)[: len(groups)], level=level)


def contrast(groups: Sequence[ArrayLike], signs: Sequence[float], *, level: float = 0.95) -> MeanLimits:
    """A sum or difference of the means of independent groups, a t quantile for each group's own variance.

    ``half^2 = sum_i t_i^2 a_i^2 s_i^2 / n_i``, t_i on n_i - 1 degrees of freedom. It covers Gaussian groups at least at
    the level, whatever their sizes and variances: given the s_i, coverage is ``G(sum_i w_i t_i^2 s_i^2 / sigma_i^2)``
    with weights w_i that add up to 1 and G, the distribution of chi-squared on one degree of freedom, concave.

    Satterthwaite's degrees of freedom are estimated: with 2 references Welch's limits cover 87 to 89 %, with 3 92 %,
    from 10 on 95 %. These cover 95 to 99 %, and are 2 to 6 % wider where 20 references meet 10 canaries or more
    (``tests/statistics/memorization/test_canary_coverage.py``).

    Args:
        groups: Values of each group, [n_i] each.
        signs: Factor of each mean.
        level: Coverage of the limits.

    Returns:
        Limits; ``n`` is the size of the first group, ``n_other`` of the others together.

    Source:
        Banerjee (1960), linear functions of means of k populations with unequal variances.

    Example:
        >>> limits = contrast([[2.0, 3.0], [0.0, 1.0]], [1.0, -1.0])
        >>> limits.estimate
        2.0
    """
    arrays = [np.asarray(group, dtype=np.float64) for group in groups]
    sizes = (len(arrays[0]), sum(len(array) for array in arrays[1:]))
    nan = float("nan")
    if not all(len(array) for array in arrays):
        return MeanLimits(nan, nan, nan, *sizes)
    estimate = float(sum(sign * array.mean() for sign, array in zip(signs, arrays, strict=True)))
    if min(len(array) for array in arrays) < 2:
        return MeanLimits(estimate, nan, nan, *sizes)
    quantiles = scipy.stats.t.ppf(0.5 + level / 2, [len(array) - 1 for array in arrays])
    parts = [(t * s) ** 2 * x.var(ddof=1) / len(x) for t, s, x in zip(quantiles, signs, arrays, strict=True)]
    half = float(np.sqrt(sum(parts)))
    return MeanLimits(estimate, estimate - half, estimate + half, *sizes)


def excess_over_references(own: ArrayLike, references: ArrayLike) -> MeanLimits:
    """Measure how far canaries lie above references with the same questions, on the mean over canaries.

    ``mean_i (own_i - mean_r references_ri)``. The references' means are shared by all canaries, so that their own
    spread, of ``mean_i references_ri`` over r, is added as that of a second group (`contrast`). The spread of
    ``own_i - mean_r references_ri`` also holds what the few references leave of an image: limits are a little wide.

    Args:
        own: Score of each canary, [n].
        references: Score of every reference in each canary's place, [R, n].

    Returns:
        Limits over ``n`` canaries and ``n_other`` references; no limits with one of either.

    Raises:
        InputError: Shapes do not fit.
    """
    canaries, reference_scores = np.asarray(own, dtype=np.float64), np.asarray(references, dtype=np.float64)
    if canaries.ndim != 1 or reference_scores.shape[1:] != canaries.shape or not reference_scores.size:
        raise InputError(
            f"scores have shapes {canaries.shape} and {reference_scores.shape}; give [n] and [references, n]"
        )
    centred = reference_scores.mean(axis=1) - reference_scores.mean()
    return contrast([canaries - reference_scores.mean(axis=0), centred], (1.0, -1.0))


def positive_mean(values: ArrayLike) -> float:
    """The mean of those above 0, as paper 002 prints it ("average over canaries with M > 0"); NaN where there is none.

    Selection-biased: of pure noise with deviation s it is 0.8 s, so that models without any mark have one, too.

    Args:
        values: Values of the canaries, [n].
    """
    array = np.asarray(values, dtype=np.float64)
    return float(array[array > 0].mean()) if (array > 0).any() else float("nan")


def seed_share(values: ArrayLike, *, level: float = 0.95) -> SeedShare:
    """ICC(1) of images trained on several times: ``(MSB - MSW) / (MSB + (k - 1) MSW)``, limits by F.

    Exact for Gaussian scores. Below 0 where trainings of one image differ more than images do; it is shown as it is.

    Args:
        values: [n images, k runs].
        level: Coverage.

    Returns:
        The share, NaN with fewer than two images or runs.

    Raises:
        InputError: Another shape, or a value that is not finite.

    Source:
        Shrout and Fleiss (1979), ICC(1,1).
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise InputError(f"scores have shape {table.shape}; give finite values, [images, runs]")
    n, k = table.shape
    nan = float("nan")
    if n < 2 or k < 2:
        return SeedShare(nan, nan, nan, nan, nan, n, k)
    means = table.mean(axis=1)
    between = float(k * means.var(ddof=1))
    within = float(((table - means[:, None]) ** 2).sum() / (n * (k - 1)))
    if within == 0:
        return SeedShare(1.0 if between else nan, nan, nan, between, within, n, k)
    f, dfs = between / within, (n - 1, n * (k - 1))
    ends = [f / scipy.stats.f.ppf(0.5 + level / 2, *dfs), f / scipy.stats.f.ppf(0.5 - level / 2, *dfs)]
    share, low, high = ((value - 1) / (value + k - 1) for value in (f, *ends))
    return SeedShare(float(share), float(low), float(high), between, within, n, k)


def pearson(x: ArrayLike, y: ArrayLike, *, level: float = 0.95) -> JackknifeInterval:
    """Pearson's r with the limits of a delete-one jackknife on Fisher's z, which needs no Gaussian scores.

    Args:
        x: First column of scores, [n].
        y: Second column of scores, [n].
        level: Coverage of the limits.

    Raises:
        InputError: Lengths differ, or a value is not finite.

    Example:
        >>> round(pearson([1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0, 4.0, 3.0, 6.0]).estimate, 3)
        0.904
    """
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise InputError(f"a correlation needs two equally long finite columns; got {a.shape} and {b.shape}")
    if len(a) < 4 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return unavailable("fewer than 4 values, or a column is constant", len(a))
    keep = ~np.eye(len(a), dtype=bool)
    deleted = np.array([_r(a[row], b[row]) for row in keep])
    return jackknife(_r(a, b), deleted, np.zeros(len(a), dtype=np.intp), scale="fisher", level=level)


def pearson_p(x: ArrayLike, y: ArrayLike, *, draws: int = 9999, seed: int = 0) -> float:
    """Two-sided p of "no association" by permutation of y: ``(1 + #{|r*| >= |r|}) / (1 + draws)``.

    Args:
        x: First column of scores, [n].
        y: Second column of scores, [n].
        draws: Number of random permutations.
        seed: Seed of the random permutations.

    Returns:
        p; NaN where a column is constant.
    """
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    rng, observed = np.random.default_rng(seed), abs(_r(a, b))
    extreme = sum(abs(_r(a, rng.permutation(b))) >= observed - 1e-12 for _ in range(draws))
    return float((1 + extreme) / (1 + draws))


def _r(a: FloatArray, b: FloatArray) -> float:
    a, b = a - a.mean(), b - b.mean()
    length = np.sqrt((a @ a) * (b @ b))
    return float(np.clip(a @ b / length, -1, 1)) if length > 0 else 0.0
