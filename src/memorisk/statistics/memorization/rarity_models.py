"""Frequency and memorization across data sets and architectures: mixed models, and the permuted slope.

**Mixed models.** METHODS section 1, "Rarity", has two mixed models.

Ours: ``class mean of M ~ log frequency + data set + architecture``, class nested in data set as random intercept;
rows are classes of cells, the p permutes frequencies over the classes of a data set. The paper's (A.11, "a
principled alternative", named and not fitted there): ``M ~ frequency + (1|class) + (1|seed) + (1|dataset)`` with a
row per image and seed.

In both the unit of the slope is the class: frequency is a property of a class, and neither more images nor more
architectures make more classes. Its interval has t with ``classes - data sets - 1`` degrees of freedom; simulated
coverage 0.89 to 0.97 where classes differ, less where the means of rare classes are mere noise: then read the
interval over classes (``permute_within_datasets``).

**Slope over classes.** The slope of class means on log frequency over data sets and architectures, class by class.

METHODS section 1, "Rarity": the p of our model permutes the frequencies over the classes of each data set, the same
permutation for all its architectures, since five architectures on one data set are one draw of classes and not
five.

Rare classes have few images, so that their means are noisier, and they lie at one end of the frequencies: then
neither permutation nor the usual standard error is exact. Simulated on 43 classes of 4 data sets, 1 to 5,000 images
each, noise growing as ``1 / sqrt(n)``: where classes differ by more than that noise the plain slope rejects 5 to
8 % at 5 %; where they do not differ at all, 20 %. The slope over its standard error, permuted as well, rejects 3
to 7 % and 11 %; the delete-one-class interval covers 0.92 to 0.98 in all of these, where the usual one falls to
0.61. Read these two.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.jackknife import jackknife_variance
from memorisk.statistics.linear_models import MixedFit, fit_mixed, nested
from memorisk.statistics.randomization import (
    EXACT_LIMIT,
    PermutationTest,
    arrangements,
    n_arrangements,
    no_test,
    permutation_test,
)

FloatArray = NDArray[np.float64]

MIN_CLASSES = 5
"""Classes over all data sets from which a delete-one-class interval is given."""


@dataclass(frozen=True)
class SlopePermutation:
    """The slope against permuted frequencies, and over the classes."""

    slope: float
    """Nats of M per unit of ln frequency; NaN where no data set has two frequencies."""
    low: float
    """Delete-one-class jackknife, t; NaN below five classes."""
    high: float
    """Upper limit; NaN below five classes."""
    df: float
    """Degrees of freedom of t."""
    plain: PermutationTest
    """Test of the slope itself."""
    studentised: PermutationTest
    """Test of the slope over its standard error (HC3 over classes): also for classes of unequal noise."""
    n_classes: int
    """The independent units, counted within data sets."""
    n_datasets: int
    """Data sets: the blocks of the permutation."""


@dataclass(frozen=True)
class _Rows:
    """Checked rows: x = ln frequency, y = class mean; class and cell as numbers."""

    x: FloatArray
    y: FloatArray
    unit: NDArray[np.intp]
    dataset: NDArray[np.intp]
    cell: NDArray[np.intp]


def permute_within_datasets(
    frequency: ArrayLike,
    value: ArrayLike,
    label: ArrayLike,
    dataset: ArrayLike,
    architecture: ArrayLike,
    *,
    draws: int = 9999,
    seed: int = 0,
    level: float = 0.95,
) -> SlopePermutation:
    """Slope of class means on log frequency, its permutation p and its interval over classes.

    ``slope = sum (x - mean_cell x)(y - mean_cell y) / sum (x - mean_cell x)^2`` over cells (an architecture on a data
    set) and their classes. It equals the slope of ``rarity_models.class_mean_model`` where every architecture has every
    class of a data set.

    Args:
        frequency: [R] share of the data set's images, above 0; one row per class, data set and architecture.
        value: [R] class means of M.
        label: [R] class names; of the same name in two data sets they are two classes.
        dataset: [R] data set names.
        architecture: [R] names.
        draws: Number of random permutations where not all are visited.
        seed: Seed of the random permutations.
        level: Coverage of the interval.

    Returns:
        Slope, interval and both tests; NaN where no data set has two classes of different frequency.

    Raises:
        InputError: Lengths differ, a value is not finite, a frequency is not above 0, a class comes twice in a cell or
            has two frequencies.

    Source:
        METHODS section 1, "Rarity"; DiCiccio and Romano (2017) for studentised permutations.
    """
    rows = _checked(frequency, value, label, dataset, architecture)
    n_classes, n_datasets = int(rows.unit.max()) + 1, int(rows.dataset.max()) + 1
    x, exact = _permuted(rows, draws, seed)
    observed = _statistics(rows.x[None], rows)
    if not observed[2][0] > 0:
        nan, nothing = float("nan"), no_test()
        return SlopePermutation(nan, nan, nan, nan, nothing, nothing, n_classes, n_datasets)
    slopes, studentised, _ = _statistics(x, rows)
    low, high, df = _over_classes(rows, float(observed[0][0]), level)
    return SlopePermutation(
        slope=float(observed[0][0]),
        low=low,
        high=high,
        df=df,
        plain=permutation_test(float(observed[0][0]), slopes, exact=exact),
        studentised=permutation_test(float(observed[1][0]), studentised, exact=exact),
        n_classes=n_classes,
        n_datasets=n_datasets,
    )


def _permuted(rows: _Rows, draws: int, seed: int) -> tuple[FloatArray, bool]:
    """[P, R] ln frequencies of the rows under each arrangement, and whether these are all."""
    classes = [np.unique(rows.unit[rows.dataset == d], return_index=True) for d in range(int(rows.dataset.max()) + 1)]
    class_values = [rows.x[rows.dataset == d][first] for d, (_, first) in enumerate(classes)]
    exact = prod(n_arrangements(values) for values in class_values) <= EXACT_LIMIT
    if exact:
        orders = [arrangements(values)[0] for values in class_values]
        picked = np.stack([g.ravel() for g in np.meshgrid(*[np.arange(len(o)) for o in orders], indexing="ij")])
        orders = [o[p] for o, p in zip(orders, picked, strict=True)]
    else:
        children = np.random.SeedSequence(seed).spawn(len(class_values))
        orders = [
            arrangements(values, draws, seed=int(child.generate_state(1)[0]), limit=0)[0]
            for values, child in zip(class_values, children, strict=True)
        ]
    by_class = np.empty((len(orders[0]), int(rows.unit.max()) + 1))
    for (names, _), values, order in zip(classes, class_values, orders, strict=True):
        by_class[:, names] = values[order]
    return by_class[:, rows.unit], exact


def _statistics(x: FloatArray, rows: _Rows) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Slope, slope over its HC3 standard error, and sum of squares of x about cell means; [P] each, x is [P, R].

    ``se^2 = sum over classes of (sum over its rows of x e / (1 - h))^2 / Sxx^2``, e the residual and h the class's
    leverage, that of its data set's mean included.
    """
    x, y = _centred(x, rows.cell), _centred(rows.y[None], rows.cell)[0]
    by_class = (rows.unit[:, None] == np.arange(int(rows.unit.max()) + 1)).astype(np.float64)
    size = np.bincount(rows.dataset[np.unique(rows.unit, return_index=True)[1]])
    own_mean = 1 / size[rows.dataset[np.unique(rows.unit, return_index=True)[1]]]
    sxx = np.square(x).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        slope = (x @ y) / sxx
        free = 1 - np.square(x) @ by_class / sxx[:, None] - own_mean
        score = (x * (y - slope[:, None] * x)) @ by_class / np.where(free > 1e-9, free, 1.0)
        error = np.sqrt(np.square(score).sum(axis=1)) / sxx
    floor = np.finfo(np.float64).eps * np.sqrt(max(float(y @ y), np.finfo(np.float64).tiny) / np.maximum(sxx, 1e-300))
    return slope, slope / np.maximum(error, floor), sxx


def _centred(values: FloatArray, cell: NDArray[np.intp]) -> FloatArray:
    """[P, R] less the means of the cells."""
    member = (cell[:, None] == np.arange(int(cell.max()) + 1)).astype(np.float64)
    return values - (values @ member / member.sum(axis=0))[:, cell]


def _over_classes(rows: _Rows, slope: float, level: float) -> tuple[float, float, float]:
    """Limits and degrees of freedom of the delete-one-class jackknife."""
    nan = float("nan")
    n_classes = int(rows.unit.max()) + 1
    if n_classes < MIN_CLASSES:
        return nan, nan, nan
    deleted = []
    for c in range(n_classes):
        keep = rows.unit != c
        cell = np.unique(rows.cell[keep], return_inverse=True)[1]
        x, y = _centred(rows.x[None, keep], cell)[0], _centred(rows.y[None, keep], cell)[0]
        deleted.append(float(x @ y / (x @ x)) if x @ x > 0 else nan)
    variance, df = jackknife_variance(np.array(deleted), np.zeros(n_classes, dtype=np.intp))
    if np.isnan(deleted).any() or not variance > 0:
        return nan, nan, nan
    half = float(scipy.stats.t.ppf((1 + level) / 2, df)) * float(np.sqrt(variance))
    return slope - half, slope + half, df


def _checked(*columns: ArrayLike) -> _Rows:
    frequency, value, label, dataset, architecture = (np.asarray(c) for c in columns)
    f, y = frequency.astype(np.float64), value.astype(np.float64)
    if f.ndim != 1 or not len(f) or any(c.shape != f.shape for c in (y, label, dataset, architecture)):
        raise InputError("frequency, value, label, dataset and architecture need one entry per class of every cell")
    if not np.isfinite(y).all() or not (f > 0).all() or not np.isfinite(f).all():
        raise InputError("class means must be finite and frequencies above 0: leave out classes that were not scored")
    sets, unit, cell = (_codes(*c) for c in ((dataset,), (dataset, label), (dataset, architecture)))
    # Rounding errors must not make two arrangements of one frequency.
    x: FloatArray = np.asarray(np.round(np.log(f), 9), dtype=np.float64)
    first = np.unique(unit, return_index=True)[1]
    if not np.array_equal(x[first][unit], x):
        raise InputError("a class of a data set has two frequencies: its runs are of different images")
    if len(np.unique(_codes(unit, cell))) < len(f):
        raise InputError("a class comes twice on one architecture and data set: give one row for each")
    return _Rows(x, y, unit, sets, cell)


def _codes(*columns: NDArray) -> NDArray[np.intp]:
    """[R] numbers 0, 1, ... of the combinations of the columns."""
    coded = np.stack([np.unique(c.astype(str), return_inverse=True)[1] for c in columns], axis=1)
    return np.unique(coded, axis=0, return_inverse=True)[1].ravel()


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
