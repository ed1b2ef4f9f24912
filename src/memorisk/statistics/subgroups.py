"""Contrasts of subgroups of patients: does memorization differ between the levels of a column such as sex or site?

A level is compared with all other patients *of the same class*, so that a rare finding which is common in one level is
not taken for a property of the level. With classes c, n_in and n_out patients inside and outside the level, and means
m_in and m_out of the patients' values,

    D = sum_c w_c (m_in,c - m_out,c),    w_c = h_c / sum h,    h_c = n_in,c n_out,c / (n_in,c + n_out,c),

the least-squares effect of the level given the class. Its standard error takes the two sides' own variances, each
pooled over classes, since one level may have noisier images than another. Two nulls are computed for D over its
standard error, and p is the larger of theirs:

* permutations of the levels over the patients within their class, exact where a level has the same distribution as the
  rest, however skewed (a few patients are remembered, most are not); patients need not be independent of one another;
* Student's t with Welch's degrees of freedom, for levels that differ in noise. With three times the noise in one
  level, permutations alone reject 3 to 4 % at 2.5 %, also with D studentized (Chung and Romano, Annals of Statistics
  41, 2013).

The interval is the wider, on each side, of Welch's and of D less the quantiles of permutations times its standard
error: the level's values are shifted by D, so that both sides agree in their mean, and permuted (a studentized
permutation interval). Where a twentieth of all patients are remembered by 3 nats, a level of 34 often holds none or one
of them, and Welch's interval alone covers 81 %, of a level of 12 patients 49 %; the wider one 98 %. A few patients of
the level alone who may not have been drawn stay unseen: no interval knows of them.

A yes or no of each patient (`share_contrasts`: was the patient copied?) has another test. Under the null a class gives
both sides one share, which says all about the distribution, so that permutations need no Welch; and D is linear in the
number of patients of the level who have the property, D = (A - E[A]) / sum_c h_c. A has the distribution of a sum of
hypergeometric numbers, so that p is exact without draws: Fisher's test in one class, the exact test of Mantel and
Haenszel in several. Where 2 % have the property, Welch's interval of a level of 50 covers 68 % instead of 95 %, and its
standard error is 0 where one side has none. Newcombe's interval is taken, of shares weighted over classes.

Source: METHODS section 8; Mantel and Haenszel (1959); Newcombe, Statistics in Medicine 17 (1998), method 10; Knolle and
others, "Disparate privacy risks from medical AI" (Nature, 2026) compare levels without classes, null and power.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import nan

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.intervals.means import Interval
from memorisk.statistics.multiple_testing.lists import holm
from memorisk.statistics.verdicts.levels import POWER, SUBGROUP_LEVEL

FloatArray = NDArray[np.float64]

DRAWS = 4999
"""Number of permutations: the smallest p, 1 in 5,000, is below the level over 250 subgroups."""
_INTERVAL_DRAWS = 39, 999
"""Smallest and largest number of permutations for an interval: 2.5 % are beyond the first of 39."""
_BLOCK = 200
"""Number of permutations computed at once."""
_STREAM = 47
_QUANTILES = 40
"""Number of equally probable counts of the others over which power is averaged."""


@dataclass(frozen=True, kw_only=True)
class SubgroupContrast:
    """A level against the other patients of the same classes; a subclass knows what its test could have noticed."""

    level: str
    n_patients: int
    """Number of patients of the level."""
    n_compared: int
    """Number of those in classes that have patients of other levels, too."""
    n_others: int
    """Number of patients of other levels in these classes."""
    difference: Interval
    """Mean of the level less that of the others, within class; NaN where nothing could be compared."""
    p: float
    """One-sided p that the level is not higher than the others, the larger of two; NaN where nothing was compared."""
    adjusted: float = nan
    """The same by Holm over all levels that `adjusted_contrasts` was called with."""
    noticeable: float = nan
    """Difference that is found with probability `POWER` at the level of all these tests together."""

    @property
    def is_higher(self) -> bool:
        """Return whether the level is surely higher than the others."""
        return self.adjusted <= SUBGROUP_LEVEL

    def noticeable_among(self, n_tests: int) -> float:
        """Compute the difference that is found with probability `POWER` where Holm divides the level by so many tests.

        Args:
            n_tests: Number of tests.
        """
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class MeanContrast(SubgroupContrast):
    """A level against the others by a number of each patient."""

    standard_error: float

    def noticeable_among(self, n_tests: int) -> float:
        """Compute it by `noticeable_difference`."""
        return noticeable_difference(self.standard_error, self.difference.df, n_tests)


@dataclass(frozen=True, kw_only=True)
class ShareContrast(SubgroupContrast):
    """A level against the others by a yes or no of each patient."""

    sides: tuple[float, float]
    """Numbers of patients of the level and of others in one class whose shares would be known as surely."""
    others_share: float
    """Share of the others who have the property, weighted over classes as the difference is."""

    def noticeable_among(self, n_tests: int) -> float:
        """Compute it by `noticeable_share`, as in one class; NaN where also a level of which all have it is missed."""
        if not self.n_compared or not n_tests:
            return nan
        n_level, n_others = (max(1, round(n)) for n in self.sides)
        return noticeable_share(n_level, n_others, self.others_share, n_tests) - self.others_share


def subgroup_contrasts(
    values: ArrayLike, level: ArrayLike, stratum: ArrayLike, *, draws: int = DRAWS, seed: int = 0
) -> list[MeanContrast]:
    """Compare each level with the others within strata.

    Args:
        values: Value of each patient, such as the mean gap in nats, [n].
        level: Level of each patient, [n]; patients with an empty one are in no comparison.
        stratum: Stratum of each patient, such as the class, [n].
        draws: Number of permutations, in addition to the identity.
        seed: Seed of the permutations.

    Returns:
        One contrast per level, in the order of their names.

    Raises:
        InputError: Shapes differ, a value is not finite, or draws is below 1.

    Example:
        >>> women, men = subgroup_contrasts([3, 4, 5, 4, 1, 2, 0, 1], list("wwwwmmmm"), ["a"] * 8)[::-1]
        >>> women.difference.estimate, men.difference.estimate, women.p < 0.05 < men.p
        (3.0, -3.0, True)
    """
    y, names, code, strata = _compared(values, level, stratum)
    if draws < 1:
        raise InputError(f"draws is {draws}; at least one permutation is needed")
    cells = _Cells.of(code, strata, len(names))
    table = _Sides.of(cells, y[:, None])
    counts = np.ones(len(names))  # of draws at least as large, the identity among them
    rng = np.random.default_rng([_STREAM, seed])
    for first in range(0, draws, _BLOCK):
        permuted = _permuted(y, strata, min(_BLOCK, draws - first), rng)
        # Equal arrangements differ in their last bits, by the order of sums.
        counts += (_Sides.of(cells, permuted).studentized >= table.studentized - 1e-9).sum(axis=1)
    contrasts = []
    for i, name in enumerate(names):
        difference, error, df = (float(x[i, 0]) for x in (table.difference, table.error, table.df))
        possible = cells.n_in[i].sum() > 0 and np.isfinite(difference)
        low = high = nan
        if possible and error > 0:
            half = error * float(scipy.special.stdtrit(df, 0.975))
            aligned = y - difference * (code == i)
            limits = difference - error * _null_quantiles(aligned, code == i, strata, draws, seed)
            low, high = min(difference - half, limits[0]), max(difference + half, limits[1])
        tail = float(scipy.special.stdtr(df, -difference / error)) if possible and error > 0 else nan
        contrasts.append(
            MeanContrast(
                level=str(name),
                n_patients=int((code == i).sum()),
                n_compared=int(cells.n_in[i].sum()),
                n_others=int(cells.n_out[i].sum()),
                difference=Interval(
                    estimate=difference,
                    low=low,
                    high=high,
                    df=df,
                    n_groups=int(cells.n_in[i].sum() + cells.n_out[i].sum()),
                    n_seeds=1,
                    level=0.95,
                    conditional=True,
                    method="the wider of Welch's t and of permutations, within strata",
                ),
                p=max(tail, float(counts[i] / (draws + 1))) if possible and error > 0 else nan,
                standard_error=error if possible else nan,
            )
        )
    return contrasts


def share_contrasts(positive: ArrayLike, level: ArrayLike, stratum: ArrayLike) -> list[ShareContrast]:
    """Compare the share of patients who have a property in each level with that of the others within strata.

    Args:
        positive: Whether each patient has the property, [n].
        level: Level of each patient, [n]; patients with an empty one are in no comparison.
        stratum: Stratum of each patient, such as the class, [n].

    Returns:
        One contrast per level, in the order of their names; p is exact.

    Raises:
        InputError: Shapes differ, or a value is neither 0 nor 1.

    Example:
        >>> women, men = share_contrasts([1, 1, 1, 0, 0, 0, 0, 0], list("wwwwmmmm"), ["a"] * 8)[::-1]
        >>> women.difference.estimate, round(women.p, 4), men.p
        (0.75, 0.0714, 1.0)
    """
    y, names, code, strata = _compared(positive, level, stratum)
    if not np.isin(y, (0.0, 1.0)).all():
        raise InputError("a value is neither 0 nor 1; subgroup_contrasts compares other numbers")
    cells = _Cells.of(code, strata, len(names))
    n_in, n_out = cells.n_in.astype(np.int64), cells.n_out.astype(np.int64)
    a = np.where(n_in > 0, (cells.member @ y).reshape(n_in.shape), 0).round().astype(np.int64)
    b = np.where(n_in > 0, (cells.total @ y)[None], 0).round().astype(np.int64) - a
    return [
        _share_contrast(str(name), int((code == i).sum()), *(of[i][n_in[i] > 0] for of in (a, n_in, b, n_out)))
        for i, name in enumerate(names)
    ]


def _share_contrast(
    name: str,
    n_patients: int,
    a: NDArray[np.int64],
    n_in: NDArray[np.int64],
    b: NDArray[np.int64],
    n_out: NDArray[np.int64],
) -> ShareContrast:
    """Compare a of n_in patients of a level with b of n_out others, each by stratum."""
    h = n_in * n_out / (n_in + n_out)
    estimate = low = high = p = share = nan
    sides = (0.0, 0.0)
    if len(h):
        w = h / h.sum()
        sides = 1 / float((w**2 / n_in).sum()), 1 / float((w**2 / n_out).sum())
        own, share = float(w @ (a / n_in)), float(w @ (b / n_out))
        own_limits, limits = _wilson(own, sides[0]), _wilson(share, sides[1])
        estimate = own - share
        low = estimate - float(np.hypot(own - own_limits[0], limits[1] - share))
        high = estimate + float(np.hypot(own_limits[1] - own, share - limits[0]))
        p = _tail_of_sum(a, n_in, a + b, n_in + n_out)
    return ShareContrast(
        level=name,
        n_patients=n_patients,
        n_compared=int(n_in.sum()),
        n_others=int(n_out.sum()),
        difference=Interval(
            estimate=estimate,
            low=low,
            high=high,
            df=nan,
            n_groups=int(n_in.sum() + n_out.sum()),
            n_seeds=1,
            level=0.95,
            conditional=True,
            method="Newcombe's, of shares weighted over strata",
        ),
        p=p,
        sides=sides,
        others_share=share,
    )


def _wilson(share: float, n: float) -> tuple[float, float]:
    """Return Wilson's 95 % limits of a share of n patients; n need not be whole."""
    z2 = float(scipy.special.ndtri(0.975)) ** 2
    middle, half = share + z2 / (2 * n), float(np.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n**2))))
    return max(0.0, (middle - half) / (1 + z2 / n)), min(1.0, (middle + half) / (1 + z2 / n))


def _tail_of_sum(
    a: NDArray[np.int64], drawn: NDArray[np.int64], marked: NDArray[np.int64], of: NDArray[np.int64]
) -> float:
    """Return P(sum >= sum a) of independent hypergeometric numbers: marked ones among those drawn of each stratum."""
    mass = np.ones(1)
    for one, k, n in zip(drawn, marked, of, strict=True):
        mass = np.convolve(mass, scipy.stats.hypergeom.pmf(np.arange(k + 1), n, k, one))
    return float(min(1.0, mass[a.sum() :].sum()))


def adjusted_contrasts(columns: Sequence[Sequence[SubgroupContrast]]) -> list[list[SubgroupContrast]]:
    """Adjust the p-values of all levels of all columns together by Holm, and compute what each could have noticed.

    Args:
        columns: Contrasts of each column.

    Returns:
        The same, with ``adjusted`` and ``noticeable``.

    Example:
        >>> contrasts = subgroup_contrasts([3, 4, 5, 4, 1, 2, 0, 1], list("wwwwmmmm"), ["a"] * 8)
        >>> [round(c.adjusted / c.p, 1) for c in adjusted_contrasts([contrasts])[0]]
        [1.0, 2.0]
    """
    every = [contrast for column in columns for contrast in column]
    tested = [i for i, contrast in enumerate(every) if np.isfinite(contrast.p)]
    adjusted = np.full(len(every), nan)
    adjusted[tested] = holm([every[i].p for i in tested])
    filled = iter(
        replace(
            contrast,
            adjusted=float(p),
            noticeable=contrast.noticeable_among(len(tested)),
        )
        for contrast, p in zip(every, adjusted, strict=True)
    )
    return [[next(filled) for _ in column] for column in columns]


def noticeable_difference(standard_error: float, df: float, n_tests: int, power: float = POWER) -> float:
    """Compute the difference that a one-sided test finds with some probability, where Holm divides the level.

    ``(t_{1 - a / n} + t_power) x standard error``, Student's quantiles with the degrees of freedom of the error.

    Args:
        standard_error: Standard error of the contrast.
        df: Degrees of freedom.
        n_tests: Number of tests among which the level is divided.
        power: Probability of finding the difference.

    Example:
        >>> round(noticeable_difference(0.1, 100, 1), 2)
        0.25
    """
    if not np.isfinite(standard_error) or not n_tests:
        return nan
    first, second = scipy.special.stdtrit(df, [1 - SUBGROUP_LEVEL / n_tests, power])
    return float((first + second) * standard_error)


def noticeable_share(n_level: int, n_others: int, others_share: float, n_tests: int, power: float = POWER) -> float:
    """Compute the smallest share of a level that Fisher's exact test finds higher with some probability.

    Args:
        n_level: Number of patients of the level.
        n_others: Number of the others.
        others_share: Share of the others who have the property, in the long run.
        n_tests: Number of tests among which Holm divides the level.
        power: Probability of finding the share.

    Returns:
        The share; NaN where also a level of which all have the property is called higher less often.

    Example:
        >>> round(noticeable_share(100, 100, 0.0, 2), 3)
        0.078
    """
    counts = scipy.stats.binom.ppf((np.arange(_QUANTILES) + 0.5) / _QUANTILES, n_others, others_share).astype(int)
    others, times = np.unique(counts, return_counts=True)
    fewest = [_fewest_called(n_level, n_others, int(y), SUBGROUP_LEVEL / max(n_tests, 1)) for y in others]
    possible = np.array([x <= n_level for x in fewest])
    x, often = np.array(fewest)[possible], times[possible] / _QUANTILES

    def called(share: float) -> float:
        """Return how often a level of this share is called higher."""
        return float(often @ scipy.special.betainc(x, n_level - x + 1, share))

    if often.sum() < power:
        return nan
    return float(scipy.optimize.brentq(lambda share: called(share) - power, 0.0, 1.0, xtol=1e-9))


def _fewest_called(n_level: int, n_others: int, n_others_positive: int, level: float) -> int:
    """Return the fewest patients of a level with the property at which p is at most the level; one more than all."""
    return bisect_left(
        range(n_level + 1),
        True,
        key=lambda x: (
            float(scipy.stats.hypergeom.sf(x - 1, n_level + n_others, x + n_others_positive, n_level)) <= level
        ),
    )


def _compared(
    values: ArrayLike, level: ArrayLike, stratum: ArrayLike
) -> tuple[FloatArray, NDArray[np.str_], NDArray[np.intp], NDArray[np.intp]]:
    """Return the values of patients with a level, the names of the levels, and the numbers of level and stratum."""
    y, levels, strata = np.asarray(values, dtype=np.float64), np.asarray(level).astype(str), np.asarray(stratum)
    if y.ndim != 1 or not y.shape == levels.shape == strata.shape:
        raise InputError(
            f"values, level and stratum have shapes {y.shape}, {levels.shape}, {strata.shape}; give one per patient"
        )
    if not np.isfinite(y).all():
        raise InputError("a value is not finite; leave out patients who were not scored")
    named = levels != ""
    names, code = np.unique(levels[named], return_inverse=True)
    return y[named], names, code, np.unique(strata[named].astype(str), return_inverse=True)[1]


@dataclass(frozen=True)
class _Cells:
    """Patients by level and stratum; strata in which a level has both sides count for it."""

    member: "scipy.sparse.csr_array"
    """Indicator of each level and stratum, [L C, n]."""
    total: "scipy.sparse.csr_array"
    """Indicator of each stratum, [C, n]."""
    n_in: FloatArray
    """Number of patients of the level, [L, C]; 0 in strata that do not count."""
    n_out: FloatArray
    """Number of other patients, [L, C]; 0 in strata that do not count."""

    @classmethod
    def of(cls, code: NDArray[np.intp], strata: NDArray[np.intp], n_levels: int) -> "_Cells":
        """Count the patients of each level in each stratum."""
        n, n_strata = len(code), int(strata.max(initial=-1)) + 1
        rows, ones = np.arange(n), np.ones(n)
        member = scipy.sparse.csr_array((ones, (code * n_strata + strata, rows)), shape=(n_levels * n_strata, n))
        total = scipy.sparse.csr_array((ones, (strata, rows)), shape=(n_strata, n))
        inside = np.asarray(member.sum(axis=1)).reshape(n_levels, n_strata)
        outside = np.asarray(total.sum(axis=1))[None] - inside
        both = (inside > 0) & (outside > 0)
        return cls(member, total, np.where(both, inside, 0.0), np.where(both, outside, 0.0))


@dataclass(frozen=True)
class _Sides:
    """Contrast of every level, for P columns of values, each [L, P]."""

    difference: FloatArray
    error: FloatArray
    df: FloatArray

    @property
    def studentized(self) -> FloatArray:
        """Difference over its standard error; minus infinity without one."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.error > 0, self.difference / self.error, -np.inf)

    @classmethod
    def of(cls, cells: _Cells, y: FloatArray) -> "_Sides":
        """Compute the contrasts of values [n, P]."""
        n_levels, n_strata = cells.n_in.shape
        # A common shift of a stratum changes no contrast; without it the squares below lose no digits.
        centre = (cells.total @ y) / np.asarray(cells.total.sum(axis=1))[:, None]
        y = y - cells.total.T @ centre
        shape = (n_levels, n_strata, y.shape[1])
        sums, squares = ((cells.member @ of).reshape(shape) for of in (y, y * y))
        rest_sums, rest_squares = (cells.total @ y)[None] - sums, (cells.total @ (y * y))[None] - squares
        difference, variance, spread = np.zeros((3, n_levels, y.shape[1]))
        weight = cells.n_in * cells.n_out / np.maximum(cells.n_in + cells.n_out, 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = weight / weight.sum(axis=1, keepdims=True)
            for n, part, square, sign in (
                (cells.n_in, sums, squares, 1.0),
                (cells.n_out, rest_sums, rest_squares, -1.0),
            ):
                counts = n > 0
                mean = np.where(counts[..., None], part / n[..., None], 0.0)
                within = np.where(counts[..., None], square - part * mean, 0.0).sum(axis=1)
                df = (n - counts).sum(axis=1)[:, None]
                of_side = np.where(counts, weight**2 / n, 0.0).sum(axis=1)[:, None]
                side = np.maximum(within, 0.0) / df * of_side
                difference += sign * (np.nan_to_num(weight)[..., None] * mean).sum(axis=1)
                variance, spread = variance + side, spread + side**2 / df
            df = variance**2 / spread
        possible = np.isfinite(variance) & (cells.n_in.sum(axis=1) > 0)[:, None]
        error = np.where(possible, np.sqrt(np.where(possible, variance, 0.0)), nan)
        return cls(np.where(cells.n_in.sum(axis=1)[:, None] > 0, difference, nan), error, df)


def _null_quantiles(
    aligned: FloatArray, inside: NDArray[np.bool_], strata: NDArray[np.intp], draws: int, seed: int
) -> FloatArray:
    """Return the upper and the lower 2.5 % quantile of D over its standard error, of permuted values.

    Args:
        aligned: Value of each patient, of the level's patients less D, [n].
        inside: Whether the patient is of the level, [n].
        strata: Stratum of each patient, [n].
        draws: Number of permutations of the test, of which the interval takes at most `_INTERVAL_DRAWS`.
        seed: Seed of the permutations.
    """
    cells, rng = _Cells.of(inside.astype(np.intp), strata, 2), np.random.default_rng([_STREAM, seed, 1])
    fewest, most = _INTERVAL_DRAWS
    n = min(max(draws, fewest), most)
    permuted = (_permuted(aligned, strata, min(_BLOCK, n - first), rng) for first in range(0, n, _BLOCK))
    studentized = np.concatenate([_Sides.of(cells, values).studentized[1] for values in permuted])
    null = np.sort(studentized[np.isfinite(studentized)])
    if not len(null):
        return np.zeros(2)
    tail = max(1, int(0.025 * (len(null) + 1)))
    return null[[-tail, tail - 1]]


def _permuted(y: FloatArray, strata: NDArray[np.intp], draws: int, rng: np.random.Generator) -> FloatArray:
    """Permute values within strata, in every column anew, [n, draws]."""
    permuted = np.repeat(y[:, None], draws, axis=1)
    for one in range(int(strata.max(initial=-1)) + 1):
        rows = strata == one
        permuted[rows] = rng.permuted(permuted[rows], axis=0)
    return permuted
