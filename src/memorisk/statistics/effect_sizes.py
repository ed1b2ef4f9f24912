"""Effect sizes of a change of M: standardised differences with intervals over groups, and percentages.

Paper 000, A.3, A.11 and tables 3 and 6; METHODS section 1, "Rarity" and "Distinctiveness, intervened on". The paper
takes before and after as independent samples of images (Cohen's d, pooled s.d.); they are the same images, so the
module also gives the paired form. Neither is a test.

Intervals come from a delete-one-group jackknife on the scale ``asinh(d / c)``, on which the variance of a
standardised difference hardly depends on its size (``var d = (1 + d^2 / c^2) k / n``: c^2 = 2 paired, 8
independent).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.jackknife import jackknife_variance

FloatArray = NDArray[np.float64]

MIN_EFFECT_GROUPS = 5
"""Number of groups from which an interval is given. Coverage at 5 to 50 groups and d of 0 to 1.5: 0.94 to 0.97 from
normal values, 0.90 to 0.99 paired and 0.89 to 0.98 independent from exponential ones."""


@dataclass(frozen=True)
class EffectSize:
    """Standardised difference, second less first."""

    estimate: float
    """Standardised difference; NaN where it is undefined."""
    low: float
    """Lower limit; NaN without an interval."""
    high: float
    """Upper limit; NaN without an interval."""
    df: float
    """Degrees of freedom of t."""
    mean_difference: float
    """Difference of the means, not standardised, in the units of the values (nats)."""
    n_first: int
    """Number of images in the first sample."""
    n_second: int
    """Number of images in the second sample."""
    n_groups: int
    """Number of independent units of the interval."""
    method: str
    """Method of the interval, or the reason why it is missing."""


def cohens_d(
    first: ArrayLike,
    second: ArrayLike,
    group_first: ArrayLike | None = None,
    group_second: ArrayLike | None = None,
    level: float = 0.95,
) -> EffectSize:
    """Compute Cohen's d of two samples of images taken as independent: the paper's column.

    ``d = (mean second - mean first) / s``, ``s^2 = ((n1 - 1) s1^2 + (n2 - 1) s2^2) / (n1 + n2 - 2)``.

    Args:
        first: Seed-averaged M of each image of the first sample, say before, [n1].
        second: Seed-averaged M of each image of the second sample, say after, [n2].
        group_first: Patients of the first sample, [n1]; every image is its own if not given.
        group_second: Patients of the second sample, [n2]; a patient in both samples is one unit and deleted from both.
        level: Coverage of the interval.

    Returns:
        Value d with its interval over groups; no estimate below two images each or without spread.

    Raises:
        InputError: NaN, shapes that do not fit, or groups of one sample only.

    Source:
        Paper 000, A.11 "Cohen's d"; Cohen (1988).

    Example:
        >>> effect = cohens_d([0.0, 1.0, 2.0, 3.0], [2.0, 3.0, 4.0, 5.0])
        >>> round(effect.estimate, 3)
        1.549
    """
    x, y = _column(first), _column(second)
    if (group_first is None) != (group_second is None):
        raise InputError("give the groups of both samples or of neither")
    if group_first is None or group_second is None:
        unit = np.arange(len(x) + len(y))
    else:
        unit = np.concatenate([_groups(group_first, len(x)), _groups(group_second, len(y))])
    values, is_second = np.concatenate([x, y]), np.repeat([False, True], [len(x), len(y)])
    index = np.unique(unit, return_inverse=True)[1]
    kind = np.sign(np.bincount(index, weights=is_second) / np.bincount(index) - 0.5).astype(np.intp)

    def statistic(keep: NDArray[np.bool_]) -> float:
        """Compute Cohen's d of the values that are kept."""
        a, b = values[keep & ~is_second], values[keep & is_second]
        if len(a) < 2 or len(b) < 2:
            return float("nan")
        pooled = ((len(a) - 1) * a.var(ddof=1) + (len(b) - 1) * b.var(ddof=1)) / (len(a) + len(b) - 2)
        return float((b.mean() - a.mean()) / np.sqrt(pooled)) if pooled > 0 else float("nan")

    change = float(y.mean() - x.mean()) if len(x) and len(y) else float("nan")
    return _with_interval(statistic, index, kind, 8.0, level, change, len(x), len(y))


def paired_dz(before: ArrayLike, after: ArrayLike, group: ArrayLike | None = None, level: float = 0.95) -> EffectSize:
    """Compute the paired d_z of the same images before and after, Hedges-corrected.

    ``d_z = J mean(after - before) / sd(after - before)``, ``J = 1 - 3 / (4 df - 1)`` with df = groups - 1: images of
    one patient are not as many draws.

    Args:
        before: Seed-averaged M of each image, [n].
        after: Seed-averaged M of the same images in the same order, [n].
        group: Patients of the images, [n]; every image is its own if not given.
        level: Coverage of the interval.

    Returns:
        Value d_z with its interval over groups; no estimate below two groups or without spread.

    Raises:
        InputError: NaN, or shapes that do not fit.

    Source:
        METHODS section 1, "Rarity"; Hedges (1981), equation 6e.

    Example:
        >>> round(paired_dz([0.0, 1.0, 2.0], [1.0, 3.0, 3.0]).estimate, 3)
        1.32
    """
    x, y = _column(before), _column(after)
    if x.shape != y.shape:
        raise InputError(f"before has {len(x)} images and after {len(y)}; give the same ones in the same order")
    index = np.unique(np.arange(len(x)) if group is None else _groups(group, len(x)), return_inverse=True)[1]
    difference = y - x
    df = int(index.max(initial=-1))
    correction = 1 - 3 / (4 * df - 1) if df >= 1 else float("nan")

    def statistic(keep: NDArray[np.bool_]) -> float:
        """Compute d_z of the pairs that are kept."""
        d = difference[keep]
        spread = d.std(ddof=1) if len(d) > 1 else 0.0
        return float(correction * d.mean() / spread) if spread > 0 else float("nan")

    kind = np.zeros(df + 1, dtype=np.intp)
    change = float(difference.mean()) if len(x) else float("nan")
    return _with_interval(statistic, index, kind, 2.0, level, change, len(x), len(y))


def percent_change(before: float, after: float) -> float:
    """Compute the paper's percentage, ``100 (after - before) / |before|``; NaN from a baseline of 0.

    Where M is near or crosses zero the percentage is not a meaningful ratio (table 6 notes it for DRUSEN and erosion).

    Source:
        Paper 000, table 6; METHODS section 1, "Distinctiveness, intervened on".

    Example:
        >>> percent_change(0.5, 0.25)
        -50.0
    """
    return 100 * (after - before) / abs(before) if before != 0 else float("nan")


def _with_interval(
    statistic: Callable[[NDArray[np.bool_]], float],
    index: NDArray[np.intp],
    kind: NDArray[np.intp],
    square: float,
    level: float,
    change: float,
    n_first: int,
    n_second: int,
) -> EffectSize:
    """Estimate, and jackknife over groups on the scale asinh(d / c), c^2 = ``square``."""
    n_groups = int(index.max(initial=-1)) + 1
    nan = float("nan")
    d = statistic(np.ones(len(index), dtype=bool))
    if np.isnan(d):
        why = "not measurable: needs at least two images and some spread"
        return EffectSize(nan, nan, nan, nan, change, n_first, n_second, n_groups, why)
    deleted = (
        np.array([statistic(index != g) for g in range(n_groups)]) if n_groups >= MIN_EFFECT_GROUPS else np.empty(0)
    )
    scale = np.sqrt(square)
    transformed = np.arcsinh(deleted / scale)
    variance, df = jackknife_variance(transformed, kind) if len(deleted) else (0.0, 1.0)
    if not variance > 0 or np.isnan(variance):
        why = (
            f"no interval: needs at least {MIN_EFFECT_GROUPS} groups, none of which carries all of a sample or of its "
            "spread"
        )
        return EffectSize(d, nan, nan, nan, change, n_first, n_second, n_groups, why)
    half = float(scipy.stats.t.ppf((1 + level) / 2, df)) * np.sqrt(variance)
    centre = np.arcsinh(d / scale)
    low, high = float(scale * np.sinh(centre - half)), float(scale * np.sinh(centre + half))
    return EffectSize(d, low, high, df, change, n_first, n_second, n_groups, "jackknife over groups, t on asinh scale")


def _column(values: ArrayLike) -> FloatArray:
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or not np.isfinite(x).all():
        raise InputError("an effect size needs one finite value per image: leave unscored images out")
    return x


def _groups(ids: ArrayLike, n: int) -> NDArray:
    names = np.asarray(ids)
    if names.shape != (n,):
        raise InputError(f"{names.shape} group ids for {n} images; give one per image")
    return names.astype(str)
