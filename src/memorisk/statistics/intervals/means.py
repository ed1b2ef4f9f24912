"""Intervals of means, medians and trimmed means over groups and seeds, and of differences between runs.

METHODS section 1, "Class summary". The table is G group means x S seeds. There are two questions.

*These patients* (`these_groups_interval`): what would the mean over the very groups of the table be in other
trainings? Seeds are the only sample; the interval is Student's t over the seeds' means. This is what a class's mean
says of the people whose images were trained on. It covers 94 to 96 % whatever the gaps look like, from 12 groups on
(`tests/statistics/test_intervals.py`).

*Future patients, too* (`two_way_interval`): groups are a sample, and both are replicates. Where a few patients
carry the mean no interval over groups covers it, since a sample without them looks like a class that has none:
where one patient in ten is remembered (12, 25, 50, 100, 400 groups) this one covers 59, 74, 82, 89, 94 %, with
lognormal gaps 75, 78, 82, 87, 93 %, and giving it only where the sample looks little skewed is worse. Means of a
class do not use it. The variance of the mean is METHODS' `v = (MS_G + MS_S - MS_E) / (GS)`, not below
`max(MS_G, MS_S) / (GS)`.

Deviations, each shown by simulation (`recipes/interval_coverage.py`; its tables are in `docs/results`):

* One t quantile per mean square in place of Satterthwaite's degrees of freedom (Howe 1974; modified large sample):
  `half^2 = (t_1^2 MS_1 + t_2^2 max(MS_2 - MS_E, 0)) / (GS)`, MS_1 the larger of MS_G and MS_S. Where seeds matter
  as much as groups, Satterthwaite's interval with 3 seeds covers 92 to 94 %, because its degrees of freedom are
  estimated from a mean square on two; this one covers 94 to 97 % at G = 10, 50, 1,000, 3 to 8 seeds, light and
  heavy tails. `df` is the one whose t quantile gives this length.
* Median: the delete-one jackknife over groups is inconsistent and covers 90 to 98 %. Order statistics over groups
  (sign-test limits, interpolated: Hettmansperger and Sheather 1986) are combined with the jackknife over seeds,
  each side by its own length: 94 to 98 %.
* Trimmed mean: the jackknife over groups holds the trimmed count fixed (the Winsorised variance, Tukey and
  McLaughlin 1963; G - 2k - 1 degrees of freedom); deleting a group at G = 10 would change the count from 1 to 0. 94
  to 97 %.
* In both, the share of the jackknife over seeds that the groups already contain, `MS_E / MS_S`, is not counted
  twice.

Limits of this. Strongly right-skewed group means (exponential) at G = 10 are covered 92 % with 8 seeds, and what is
missed lies above: 4 % instead of 2.5 % at G = 10, 3.6 % at 20, 2.7 % at 50. Tables without any group effect are
covered 93 to 98 %.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from memorisk.runs.errors import InputError, unknown_name
from memorisk.statistics.analysis_of_variance import FloatArray, MeanSquares, fill_missing, is_connected, mean_squares
from memorisk.statistics.intervals.shares import clopper_pearson

MIN_SEEDS = 3
"""Fewer seeds say nothing about other trainings: the interval is then over groups only."""

TRIMMED_SHARE = 0.1
"""Share of groups cut from each end of the trimmed mean."""

_SHARE_OF_DIRECTION = 0.8
"""Share of the error of a paired difference of shares that its direction takes; their number takes the rest."""

STATISTICS = ("median", "trimmed_mean")


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval and the independent units it rests on."""

    estimate: float
    """The statistic; NaN without any scored group."""
    low: float
    """Lower limit; NaN when there are too few groups for any interval."""
    high: float
    """Upper limit; NaN as `low`."""
    df: float
    """Degrees of freedom of the t quantile that gives the interval's length; NaN where no t is used."""
    n_groups: int
    """Groups (patients) with at least one scored seed."""
    n_seeds: int
    """Seeds with at least one scored group."""
    level: float
    """Nominal coverage of the interval."""
    conditional: bool
    """True when the interval speaks of these trainings only, not of others by the same recipe."""
    method: str
    """Method in words for a report."""


@dataclass(frozen=True)
class Limits:
    """Estimates and limits of many tables at once, each field of their leading shape."""

    estimate: FloatArray
    low: FloatArray
    high: FloatArray
    df: FloatArray


def two_way_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Interval for the mean over groups and seeds of a table of group means.

    Args:
        values: `[G, S]`, NaN where a seed did not score a group (filled by Yates' method; error degrees of freedom
            reduced). Rows and columns without any value are left out.
        level: Coverage.

    Returns:
        Estimate (the least-squares mean where cells are missing) and limits. Under 3 seeds, or where missing cells
        leave no degrees of freedom for the error, over groups only.

    Raises:
        InputError: Not a table, an infinite value, or a level outside (0, 1).

    Example:
        >>> table = [[1.0, 1.2, 0.9], [2.0, 2.1, 2.2], [0.4, 0.7, 0.5], [1.1, 1.3, 1.5]]
        >>> interval = two_way_interval(table)
        >>> round(interval.estimate, 3), interval.n_groups, interval.n_seeds
        (1.242, 4, 3)
    """
    table, n_missing = _table(values, level)
    n_groups = len(table)
    if n_groups < 2:
        return _too_few(table, level, "one group: no interval" if n_groups else "no scored group")
    if not _seeds_count(table, n_missing):
        return _interval(_groups_only(table, level), table, level, True, "t over groups")
    limits = two_way_limits(table, level, n_missing=n_missing)
    return _interval(limits, table, level, False, "two-way over groups and seeds, one t quantile per mean square")


def these_groups_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Interval for the mean over these groups in other trainings: `m +- t_{S-1} sd(m_s) / sqrt(S)`.

    m_s is the mean over groups in seed s. The groups are taken as they are (the people who were trained on), so that
    their number and the shape of their gaps do not matter.

    Args:
        values: `[G, S]`, NaN as in `two_way_interval`.
        level: Coverage.

    Returns:
        Estimate and limits; without limits where there are not two seeds, or where missing cells do not connect them.

    Raises:
        InputError: As `two_way_interval`.

    Example:
        >>> interval = these_groups_interval([[1.0, 1.2, 0.9], [2.0, 2.1, 2.2], [0.4, 0.7, 0.5], [1.1, 1.3, 1.5]])
        >>> round(interval.estimate, 3), round(interval.low, 3), round(interval.high, 3)
        (1.242, 0.983, 1.5)
    """
    table, _ = _table(values, level)
    n_groups, n_seeds = table.shape
    if not n_groups:
        return _too_few(table, level, "no scored group")
    if n_seeds < 2:
        return _too_few(table, level, "one training: no interval")
    means = table.mean(0)
    half = _t(n_seeds - 1, level) * means.std(ddof=1) / np.sqrt(n_seeds)
    limits = Limits(*(np.asarray(x) for x in (means.mean(), means.mean() - half, means.mean() + half, n_seeds - 1.0)))
    return _interval(limits, table, level, n_seeds < MIN_SEEDS, "t over trainings, these groups")


def two_way_limits(values: FloatArray, level: float = 0.95, *, n_missing: int = 0) -> Limits:
    """The formula of `two_way_interval` for many complete tables at once.

    `half^2 = (t_1^2 MS_1 + t_2^2 max(MS_2 - MS_E, 0)) / (GS)` with MS_1 the larger of MS_G and MS_S.

    Args:
        values: `[..., G, S]` without NaN, G at least 2, S at least 2.
        level: Coverage.
        n_missing: Cells of each table that were filled.

    Returns:
        Limits of the leading shape.
    """
    ms = mean_squares(values, n_missing)
    n_cells = values.shape[-2] * values.shape[-1]
    t_groups, t_seeds = _t(ms.df_groups, level), _t(ms.df_seeds, level)
    groups_lead = ms.groups >= ms.seeds
    lead, other = np.maximum(ms.groups, ms.seeds), np.maximum(np.minimum(ms.groups, ms.seeds) - ms.error, 0.0)
    t_lead, t_other = np.where(groups_lead, t_groups, t_seeds), np.where(groups_lead, t_seeds, t_groups)
    half = np.sqrt((t_lead**2 * lead + t_other**2 * other) / n_cells)
    standard_error = np.sqrt((lead + other) / n_cells)
    # A table without any spread has an interval of length 0 and the groups' degrees of freedom.
    quantile = np.divide(half, standard_error, out=np.full(half.shape, t_groups), where=standard_error > 0)
    df = scipy.special.stdtridf(0.5 + level / 2, quantile)
    return Limits(ms.mean, ms.mean - half, ms.mean + half, np.clip(df, 1.0, None))


def jackknife_interval(values: ArrayLike, statistic: str, level: float = 0.95) -> Interval:
    """Interval for the median or the 10 % trimmed mean over groups of the seed-averaged table.

    Each side: `half^2 = half_groups^2 + t_{S-1}^2 v_seeds max(1 - MS_E / MS_S, 0)`, with half_groups the distance to
    the limit over groups and v_seeds the jackknife over seeds (module docstring).

    Args:
        values: `[G, S]`, NaN as in `two_way_interval`.
        statistic: `"median"` or `"trimmed_mean"`.
        level: Coverage.

    Returns:
        Estimate and limits. The median needs enough groups for its order statistics (6 at 95 %), else the limits are
        NaN.

    Raises:
        InputError: As `two_way_interval`, or an unknown statistic.
    """
    if statistic not in STATISTICS:
        raise unknown_name("statistic", statistic, STATISTICS)
    table, n_missing = _table(values, level)
    n_groups = len(table)
    fewest = _fewest_groups(level) if statistic == "median" else 2
    if n_groups < fewest:
        return _too_few(table, level, f"fewer than {fewest} groups: no interval", statistic)
    by_seeds = _seeds_count(table, n_missing)
    limits = jackknife_limits(table, statistic, level, n_missing=n_missing, by_seeds=by_seeds)
    over = "order statistics" if statistic == "median" else "Winsorised variance"
    method = f"{over} over groups" + (", jackknife over seeds" if by_seeds else "")
    return _interval(limits, table, level, not by_seeds, method)


def jackknife_limits(
    values: FloatArray, statistic: str, level: float = 0.95, *, n_missing: int = 0, by_seeds: bool = True
) -> Limits:
    """The formula of `jackknife_interval` for many complete tables `[..., G, S]` at once.

    Args:
        values: `[..., G, S]` without NaN.
        statistic: `"median"` or `"trimmed_mean"`.
        level: Coverage.
        n_missing: Cells of each table that were filled.
        by_seeds: False leaves the seeds out.

    Returns:
        Limits of the leading shape; `df` is NaN (two quantiles, or none, are at work).
    """
    over_groups = _median_over_groups if statistic == "median" else _trimmed_over_groups
    estimate, low, high = over_groups(values.mean(-1), level)
    if by_seeds:
        n_seeds = values.shape[-1]
        total = values.sum(-1)
        without = [over_groups((total - values[..., s]) / (n_seeds - 1), level)[0] for s in range(n_seeds)]
        seeds = np.stack(without, -1).var(-1) * (n_seeds - 1)
        extra = _t(n_seeds - 1, level) ** 2 * seeds * _share_beyond_error(mean_squares(values, n_missing))
        low = estimate - np.sqrt((estimate - low) ** 2 + extra)
        high = estimate + np.sqrt((high - estimate) ** 2 + extra)
    return Limits(estimate, low, high, np.full(estimate.shape, np.nan))


def difference_interval(after: ArrayLike, before: ArrayLike, level: float = 0.95) -> Interval:
    """Interval for the mean difference of two tables of the same groups, for comparing runs.

    With equal numbers of seeds, `two_way_interval` of the differences (seeds paired in order). Otherwise groups are
    paired and seeds are not: `half^2 = t_{G-1}^2 var(d) / G + sum over both of t_{S-1}^2 max(MS_S - MS_E, 0) / (GS)`,
    with d the differences of the groups' means over seeds.

    Args:
        after: `[G, S_after]`, NaN as in `two_way_interval`; a group that either run never scored is left out.
        before: `[G, S_before]`, the same groups in the same order.
        level: Coverage.

    Returns:
        Estimate `after - before` and limits; `n_seeds` is the smaller of the two.

    Raises:
        InputError: The tables have different groups, or as `two_way_interval`.

    Example:
        >>> interval = difference_interval([[1.0, 1.2], [2.0, 2.1]], [[0.5, 0.6], [1.1, 1.5]])
        >>> round(interval.estimate, 3)
        0.65
    """
    a, b = np.asarray(after, dtype=np.float64), np.asarray(before, dtype=np.float64)
    if a.ndim != 2 or b.ndim != 2 or len(a) != len(b):
        raise InputError(f"tables {a.shape} and {b.shape} do not compare; give the same groups in the same order")
    both = ~(np.isnan(a).all(1) | np.isnan(b).all(1))
    a, b = a[both], b[both]
    if a.shape == b.shape:
        return two_way_interval(a - b, level)
    (a, missing_a), (b, missing_b) = _table(a, level), _table(b, level)
    fewest = a if a.shape[1] < b.shape[1] else b
    if len(a) < 2:
        return _too_few(fewest, level, "one group: no interval" if len(a) else "no scored group")
    d = a.mean(1) - b.mean(1)
    half = _t(len(d) - 1, level) ** 2 * d.var(ddof=1) / len(d)
    by_seeds = [_seeds_count(a, missing_a), _seeds_count(b, missing_b)]
    for counts, table, missing in zip(by_seeds, (a, b), (missing_a, missing_b), strict=True):
        if counts:
            ms = mean_squares(table, missing)
            half += _t(ms.df_seeds, level) ** 2 * max(float(ms.seeds - ms.error), 0.0) / table.size
    half = float(np.sqrt(half))
    limits = Limits(*(np.asarray(x) for x in (d.mean(), d.mean() - half, d.mean() + half, np.nan)))
    method = "groups paired, seeds unpaired, one t quantile per mean square"
    return _interval(limits, fewest, level, not all(by_seeds), method)


def paired_share_difference(after: ArrayLike, before: ArrayLike, level: float = 0.95) -> Interval:
    """Exact interval for the difference of two shares of the same units, for comparing runs.

    Of n units, b have the property in `after` alone and c in `before` alone; the difference is `(b - c) / n`, or
    `d (2 t - 1)` with d the probability that the two disagree and t that a disagreement is one of `after`. Given the
    number of disagreements b + c, b is binomial (McNemar's test). t has Clopper and Pearson's interval at four fifths
    of the error, d at the remaining fifth, and the limits are the extremes over both: coverage is at least `level`
    whatever d is. The interval leaves out 0 exactly where McNemar's exact test rejects at four fifths of the error.

    Args:
        after: Whether each unit has the property, `[G]`.
        before: The same of the same units in the same order, `[G]`.
        level: Coverage.

    Returns:
        Estimate `after - before` and limits; of these trainings, since the units are those of one pair of runs.

    Raises:
        InputError: Shapes differ, or level is outside (0, 1).

    Source:
        McNemar (1947); Clopper and Pearson (1934).

    Example:
        >>> interval = paired_share_difference([True] * 10 + [False] * 90, [False] * 100)
        >>> round(interval.estimate, 3), round(interval.low, 3), round(interval.high, 3)
        (0.1, 0.013, 0.202)
    """
    a, b = np.asarray(after, dtype=bool), np.asarray(before, dtype=bool)
    if a.ndim != 1 or a.shape != b.shape:
        raise InputError(f"shares of {a.shape} and {b.shape} units do not compare; give the same units in one order")
    n, more, fewer = len(a), int((a & ~b).sum()), int((b & ~a).sum())
    towards = clopper_pearson(more, more + fewer, 1 - _SHARE_OF_DIRECTION * (1 - level))
    differ = clopper_pearson(more + fewer, n, 1 - (1 - _SHARE_OF_DIRECTION) * (1 - level))
    least, most = 2 * towards.low - 1, 2 * towards.high - 1
    low = least * (differ.low if least > 0 else differ.high)
    high = most * (differ.high if most > 0 else differ.low)
    estimate = (more - fewer) / n if n else math.nan
    return Interval(estimate, low, high, math.nan, n, 1, level, True, "exact over the units that differ")


def prediction_error(values: FloatArray) -> tuple[float, float]:
    """Return the standard error of one more model about the mean of S pairs of models, and its degrees of freedom.

    Models of a pair start with the same weights and share an order of images, so that their values vary together; pairs
    are the independent units. One more model varies by ``B + W``, the mean by ``B / S``, with B the variance of the
    pairs' means and W a quarter of the mean squared difference within pairs. Degrees of freedom are Satterthwaite's.

    Args:
        values: Value of the first model, then of the second model of each pair, `[2, S]`.

    Example:
        >>> prediction_error(np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]))
        (1.1547005383792515, 2.0)
    """
    n_pairs = values.shape[1]
    within = float(np.square(values[0] - values[1]).mean()) / 4
    between = float(values.mean(axis=0).var(ddof=1)) if n_pairs > 1 else within  # of one pair: as if independent
    parts = np.array([between * (1 + 1 / n_pairs), within])
    each = np.square(parts) / (max(n_pairs - 1, 1), n_pairs)
    freedom = float(np.square(parts.sum()) / each.sum()) if each.sum() else float(n_pairs)
    return float(np.sqrt(parts.sum())), freedom


def _median_over_groups(x: FloatArray, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Median of `[..., G]` with interpolated sign-test limits (Hettmansperger and Sheather 1986)."""
    n = x.shape[-1]
    ranked = np.sort(x, -1)
    k = max(int(scipy.stats.binom.ppf((1 - level) / 2, n, 0.5)), 1)  # the k-th and (n+1-k)-th cover at least `level`
    wide, narrow = 1 - 2 * scipy.stats.binom.cdf(k - 1, n, 0.5), 1 - 2 * scipy.stats.binom.cdf(k, n, 0.5)
    toward = np.clip((wide - level) / (wide - narrow), 0.0, 1.0)
    weight = (n - k) * toward / (k + (n - 2 * k) * toward)
    low = (1 - weight) * ranked[..., k - 1] + weight * ranked[..., k]
    high = (1 - weight) * ranked[..., n - k] + weight * ranked[..., n - k - 1]
    return np.median(x, -1), low, high


def _trimmed_over_groups(x: FloatArray, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Trimmed mean of `[..., G]` with the t limits of its Winsorised variance."""
    n = x.shape[-1]
    k = int(TRIMMED_SHARE * n)
    ranked = np.sort(x, -1)
    trimmed = ranked[..., k : n - k]
    estimate = trimmed.mean(-1)
    winsorised = np.clip(ranked, trimmed[..., :1], trimmed[..., -1:])
    half = _t(n - 2 * k - 1, level) * np.sqrt(winsorised.var(-1, ddof=1) / n) / (1 - 2 * k / n)
    return estimate, estimate - half, estimate + half


def _share_beyond_error(ms: MeanSquares) -> FloatArray:
    """Share of the spread over seeds that the groups do not already contain, `max(1 - MS_E / MS_S, 0)`."""
    ratio = np.divide(ms.error, ms.seeds, out=np.ones_like(ms.seeds), where=ms.seeds > 0)
    return np.maximum(1 - ratio, 0.0)


def _groups_only(table: FloatArray, level: float) -> Limits:
    """T interval over the groups' means over seeds."""
    row = table.mean(1)
    half = _t(len(row) - 1, level) * row.std(ddof=1) / np.sqrt(len(row))
    return Limits(*(np.asarray(x) for x in (row.mean(), row.mean() - half, row.mean() + half, len(row) - 1.0)))


def _t(df: int, level: float) -> float:
    """Two-sided t quantile."""
    return float(scipy.special.stdtrit(df, 0.5 + level / 2))


def _fewest_groups(level: float) -> int:
    """Groups from which the whole range covers the median at this level, `2^(1 - G) <= 1 - level`."""
    return int(np.ceil(1 - np.log2(1 - level) - 1e-12))


def _table(values: ArrayLike, level: float) -> tuple[FloatArray, int]:
    """The checked table without empty rows and columns, missing cells filled, and how many these were.

    Where no seed links two sets of groups the table shrinks to the groups' own means: one column, no word on seeds.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or np.isinf(table).any():
        raise InputError(f"an interval needs a finite table [groups, seeds] and got shape {table.shape}")
    if not 0 < level < 1:
        raise InputError(f"level is {level}; give a coverage between 0 and 1, such as 0.95")
    present = ~np.isnan(table)
    table = table[present.any(1)][:, present.any(0)]
    if table.size and not is_connected(~np.isnan(table)):
        return np.nanmean(table, axis=1, keepdims=True), 0
    return fill_missing(table), int(np.isnan(table).sum())


def _seeds_count(table: FloatArray, n_missing: int) -> bool:
    """Return whether the table says anything about other trainings."""
    return table.shape[1] >= MIN_SEEDS and (table.shape[0] - 1) * (table.shape[1] - 1) > n_missing


def _interval(limits: Limits, table: FloatArray, level: float, conditional: bool, method: str) -> Interval:
    """One interval out of arrays of shape ()."""
    n_groups, n_seeds = table.shape
    e, low, high, df = (float(x) for x in (limits.estimate, limits.low, limits.high, limits.df))
    return Interval(e, low, high, df, n_groups, n_seeds, level, conditional, method)


def _too_few(table: FloatArray, level: float, why: str, statistic: str = "mean") -> Interval:
    """An estimate without limits."""
    nan = float("nan")
    row = table.mean(1) if table.size else np.array([])
    pick = np.median if statistic == "median" else np.mean
    estimate = float(pick(row)) if row.size else nan
    n_groups, n_seeds = table.shape
    return Interval(estimate, nan, nan, nan, n_groups, n_seeds, level, n_seeds < MIN_SEEDS, why)
