"""Mixed models of frequency and memorization over data sets and architectures.

Ours: ``class mean of M ~ log frequency + data set + architecture``, class nested in data set as random intercept;
rows are classes of cells, the p permutes frequencies over the classes of a data set. The paper's (A.11, "a
principled alternative", named and not fitted there): ``M ~ frequency + (1|class) + (1|seed) + (1|dataset)`` with a
row per image and seed.

In both the unit of the slope is the class: frequency is a property of a class, and neither more images nor more
architectures make more classes. Its interval has t with ``classes - data sets - 1`` degrees of freedom; simulated
coverage 0.89 to 0.97 where classes differ, less where the means of rare classes are mere noise: then read the
interval over classes (``permute_within_datasets``).
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.memorization.slope_permutation import SlopePermutation, permute_within_datasets
from memorisk.statistics.mixed_models import MixedFit, fit_mixed, nested

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class FrequencySlope:
    """Slope of M over class frequency."""

    slope: float
    """Nats per unit of log frequency (ours), or per unit of frequency, 0 to 1 (the paper's). Negative: rare classes are
    memorized more. NaN where it is undefined."""
    standard_error: float
    """Standard error of the slope, at the fitted variances."""
    low: float
    """Lower limit of the slope."""
    high: float
    """Upper limit of the slope."""
    df: float
    """Degrees of freedom of t."""
    p_t: float
    """Two-sided p-value, from t."""
    permutation: SlopePermutation | None
    """Frequencies permuted over the classes of each data set, and the interval over classes; None for the paper's."""
    variances: dict[str, float]
    """Variance components by factor, and "residual"."""
    n_rows: int
    """Number of rows of the model."""
    n_classes: int
    """The independent units of the slope: classes, counted within data sets."""
    n_datasets: int
    """Number of data sets."""
    why: str
    """Reason why the slope is missing, or what was left out of the model; empty otherwise."""


def class_mean_model(
    mean_m: ArrayLike,
    frequency: ArrayLike,
    label: ArrayLike,
    dataset: ArrayLike,
    architecture: ArrayLike,
    *,
    draws: int = 9999,
    seed: int = 0,
    level: float = 0.95,
) -> FrequencySlope:
    """Our model: seed-averaged class means on log frequency, data set and architecture fixed, class random.

    The random intercept of a class is left out where there is one architecture only (a row is a class), and data set
    or architecture where there is one of them; then the model is the regression that remains.

    Args:
        mean_m: [R] seed-averaged class means of M, a row per class, data set and architecture.
        frequency: [R] share of the data set's images, above 0.
        label: [R] classes.
        dataset: [R] data sets.
        architecture: [R] architectures.
        draws: Number of draws of the permutation test.
        seed: Seed of the permutation test.
        level: Coverage of the interval.

    Returns:
        The slope. Fewer than two classes more than data sets: none, with the reason.

    Raises:
        InputError: As ``frequency_slope.permute_within_datasets``.

    Source:
        METHODS section 1, "Rarity".
    """
    test = permute_within_datasets(frequency, mean_m, label, dataset, architecture, draws=draws, seed=seed)
    y, sets = np.asarray(mean_m, dtype=np.float64), np.asarray(dataset)
    units = nested(label, dataset)
    n_classes, n_datasets = int(units.max()) + 1, len(np.unique(sets))
    if n_classes - n_datasets - 1 < 1 or np.isnan(test.slope):
        why = f"{n_classes} classes in {n_datasets} data sets leave no degree of freedom for a slope"
        return _no_slope(why, len(y), n_classes, n_datasets, test)
    log_f = np.log(np.asarray(frequency, dtype=np.float64))
    x = _independent(np.column_stack([np.ones(len(y)), log_f, _dummies(dataset), _dummies(architecture)]))
    repeated = n_classes < len(y)
    fit = fit_mixed(y, x, {"class": units} if repeated else {}, _names(x.shape[1]))
    why = "" if repeated else "one architecture: a class is one row, and its variance is the residual"
    return _slope(fit, n_classes, n_datasets, level, test, why)


def paper_model(
    m: ArrayLike,
    frequency: ArrayLike,
    label: ArrayLike,
    seed_of: ArrayLike,
    dataset: ArrayLike,
    *,
    level: float = 0.95,
) -> FrequencySlope:
    """The paper's model, ``M ~ frequency + (1|class) + (1|seed) + (1|dataset)``, class within data set.

    Its residuals are taken as independent although an image has a row for every seed and architecture; since the slope
    varies between classes only, that moves little between residual and class variance, not the slope's unit.

    Args:
        m: [R] M of an image in a seed, a row each; rows of one architecture or of several.
        frequency: Frequency of the image's class, [R].
        label: Class of the image, [R].
        seed_of: Seed of the row, [R].
        dataset: Data set of the row, [R].
        level: Coverage of the interval.

    Returns:
        The slope per unit of frequency; factors of one level are left out and named in ``why``.

    Raises:
        InputError: Lengths differ or values are not finite.

    Source:
        Paper 000, A.11.
    """
    y, f = np.asarray(m, dtype=np.float64), np.asarray(frequency, dtype=np.float64)
    if y.ndim != 1 or not len(y) or any(np.shape(c) != y.shape for c in (f, label, seed_of, dataset)):
        raise InputError("m, frequency, label, seed_of and dataset need one entry per image and seed")
    units = nested(label, dataset)
    n_classes, n_datasets = int(units.max()) + 1, len(np.unique(np.asarray(dataset)))
    if n_classes - n_datasets - 1 < 1 or np.ptp(f) == 0 or n_classes == len(y):
        why = f"{n_classes} classes in {n_datasets} data sets with {len(y)} rows leave no degree of freedom for a slope"
        return _no_slope(why, len(y), n_classes, n_datasets, None)
    factors = {"class": units, "seed": np.asarray(seed_of), "dataset": np.asarray(dataset)}
    single = [name for name, levels in factors.items() if len(np.unique(levels)) < 2]
    crossed = {name: levels for name, levels in factors.items() if name not in single}
    fit = fit_mixed(y, np.column_stack([np.ones(len(y)), f]), crossed, _names(2))
    why = f"left out, one level each: {', '.join(single)}" if single else ""
    return _slope(fit, n_classes, n_datasets, level, None, why)


def _slope(
    fit: MixedFit, n_classes: int, n_datasets: int, level: float, test: SlopePermutation | None, why: str
) -> FrequencySlope:
    slope, error = fit.coefficient("frequency")
    df = n_classes - n_datasets - 1
    half = float(scipy.stats.t.ppf((1 + level) / 2, df)) * error
    p = float(2 * scipy.stats.t.sf(abs(slope) / error, df)) if error > 0 else float("nan")
    variances = fit.variances | {"residual": fit.residual}
    return FrequencySlope(
        slope, error, slope - half, slope + half, float(df), p, test, variances, fit.n_rows, n_classes, n_datasets, why
    )


def _no_slope(why: str, n_rows: int, n_classes: int, n_datasets: int, test: SlopePermutation | None) -> FrequencySlope:
    nan = float("nan")
    return FrequencySlope(nan, nan, nan, nan, nan, nan, test, {}, n_rows, n_classes, n_datasets, why)


def _dummies(levels: ArrayLike) -> FloatArray:
    """[R, levels - 1] indicators of all but the first level."""
    names, codes = np.unique(np.asarray(levels).astype(str), return_inverse=True)
    return (codes[:, None] == np.arange(1, len(names))).astype(np.float64)


def _independent(x: FloatArray) -> FloatArray:
    """Select the columns that do not combine earlier ones: an architecture may be met on one data set only."""
    independent = [0]
    for i in range(1, x.shape[1]):
        if np.linalg.matrix_rank(x[:, [*independent, i]]) > len(independent):
            independent.append(i)
    return x[:, independent]


def _names(p: int) -> list[str]:
    return ["intercept", "frequency", *(f"level{i}" for i in range(2, p))]
