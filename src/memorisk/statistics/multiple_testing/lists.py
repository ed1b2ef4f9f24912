"""Step-up lists of many p-values of one class: which groups may be listed, and the shortest list there could be.

METHODS section 1, "Null and p-value": Benjamini-Hochberg within class at level q, Benjamini-Yekutieli on request.
p-values here are ratios with a known denominator, so `p <= q k / m` is met with equality in practice; the
comparison allows for the rounding of that product (a few parts in 1e12), which decides nothing else.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.verdicts.levels import VERDICT_LEVEL

FloatArray = NDArray[np.float64]


_ROUNDING = 1e-12
CORRECTIONS = ("bh", "by", "bh-within")


@dataclass(frozen=True)
class Rejections:
    """Hypotheses that a step-up procedure rejects at level q."""

    rejected: NDArray[np.bool_]
    """Whether each is rejected, `[m]`; False where the p-value is NaN."""
    adjusted: FloatArray
    """Smallest q at which each would be rejected, `[m]`; NaN where the p-value is NaN."""
    q: float
    """Level of the procedure."""
    m: int
    """Number of p-values that took part: NaN ones do not count."""

    @property
    def n_rejected(self) -> int:
        """Length of the list."""
        return int(self.rejected.sum())


def benjamini_hochberg(p: ArrayLike, q: float = VERDICT_LEVEL) -> Rejections:
    """Benjamini-Hochberg step-up: reject the k smallest, `k = max{k : p_(k) <= q k / m}`.

    Args:
        p: p-values of one class, `[m]`; NaN (not scored) is left out and not counted in m.
        q: Level in (0, 1).

    Returns:
        Rejections and adjusted p-values in the given order.

    Raises:
        InputError: A p-value outside [0, 1] or q outside (0, 1).

    Source:
        Benjamini and Hochberg (1995); METHODS section 1.

    Example:
        >>> benjamini_hochberg([0.01, 0.02, 0.5], q=0.05).rejected.tolist()
        [True, True, False]
    """
    return _step_up(p, q, dependent=False)


def benjamini_yekutieli(p: ArrayLike, q: float = VERDICT_LEVEL) -> Rejections:
    """Benjamini-Yekutieli step-up: Benjamini-Hochberg at `q / (1 + 1/2 + ... + 1/m)`, valid under any dependence.

    Args:
        p: p-values, `[m]`; NaN as in `benjamini_hochberg`.
        q: Level in (0, 1).

    Returns:
        Rejections and adjusted p-values in the given order.

    Raises:
        InputError: As `benjamini_hochberg`.

    Source:
        Benjamini and Yekutieli (2001), theorem 1.3.

    Example:
        >>> benjamini_yekutieli([0.01, 0.02, 0.5], q=0.05).rejected.tolist()
        [False, False, False]
    """
    return _step_up(p, q, dependent=True)


def smallest_list(m: int, q: float, n_test: int, n_flips: int) -> int:
    """Compute the shortest list that Benjamini-Hochberg could return, `ceil(m / (q (n_test + 1) n_flips))`.

    The smallest attainable p-value is `1 / ((n_test + 1) n_flips)`, and k groups are listed only if the k-th is at
    most `q k / m`.

    Args:
        m: Number of groups of the class with a p-value.
        q: Level of the list.
        n_test: Number of test groups of the class.
        n_flips: Number of flips of each p-value: 2^S, the random ones with the identity, or 1 in the `paper` design.

    Returns:
        Length of the list, at least 1. Above m, no list is possible: the class "cannot be tested", which is not "0
        memorized".

    Raises:
        InputError: q outside (0, 1), or a negative count.

    Example:
        >>> smallest_list(40, 0.1, 9, 16), smallest_list(40, 0.1, 0, 4)
        (3, 100)
    """
    _check_level(q)
    if m < 0 or n_test < 0 or n_flips < 1:
        raise InputError(f"m {m}, n_test {n_test} and n_flips {n_flips} must be counts (n_flips at least 1)")
    ratio = m / (q * (n_test + 1) * n_flips)
    return max(1, math.ceil(ratio * (1 - _ROUNDING)))


def smallest_list_of(floors: ArrayLike, q: float = VERDICT_LEVEL) -> int:
    """Compute `smallest_list` when groups differ in their smallest attainable p-value (missing seeds, sizes).

    It is `min{k : #{floors <= q k / m} >= k}`, with m the number of floors that are not NaN; m + 1 if no k fulfils it.

    Args:
        floors: Smallest attainable p-values, `[m]` (`UnitPValues.floor`).
        q: Level of the list.

    Returns:
        Length of the list; above m the class cannot be tested.

    Raises:
        InputError: As `benjamini_hochberg`.

    Example:
        >>> smallest_list_of([0.001, 0.002, 0.5], q=0.1)
        1
    """
    _check_level(q)
    floor = np.sort(_p_values(floors))
    floor = floor[~np.isnan(floor)]
    m = len(floor)
    k = np.arange(1, m + 1)
    possible = np.searchsorted(floor, q * k / max(m, 1) * (1 + _ROUNDING), side="right") >= k
    return int(k[possible][0]) if possible.any() else m + 1


def holm(p: ArrayLike) -> FloatArray:
    """Compute Holm-adjusted p-values ``max over i <= j of (m - i + 1) p_(i)``: valid under any dependence.

    Args:
        p: p-values, [m]; NaN ones are left out and stay NaN.

    Raises:
        InputError: A p-value outside [0, 1].

    Source:
        Holm (1979).

    Example:
        >>> holm([0.01, 0.02, 0.5]).round(3).tolist()
        [0.03, 0.04, 0.5]
    """
    values = np.asarray(p, dtype=np.float64)
    present = np.flatnonzero(~np.isnan(values)) if values.ndim == 1 else np.empty(0, dtype=np.intp)
    if values.ndim != 1 or not ((values[present] >= 0) & (values[present] <= 1)).all():
        raise InputError("p-values must be one list of numbers from 0 to 1")
    order = present[np.argsort(values[present], kind="stable")]
    adjusted = np.full(len(values), np.nan)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(values[order] * (len(order) - np.arange(len(order)))))
    return adjusted


def _step_up(p: ArrayLike, q: float, *, dependent: bool) -> Rejections:
    """Compute adjusted p-values `min over j >= i of p_(j) m / j`, times the harmonic sum when dependent."""
    _check_level(q)
    values = _p_values(p)
    adjusted = np.full(len(values), np.nan)
    present = np.flatnonzero(~np.isnan(values))
    m = len(present)
    if m:
        order = present[np.argsort(values[present], kind="stable")]
        k = np.arange(1, m + 1)
        factor = m * (np.sum(1 / k) if dependent else 1.0)
        adjusted[order] = np.minimum(1.0, np.minimum.accumulate((values[order] * factor / k)[::-1])[::-1])
    return Rejections(rejected=adjusted <= q * (1 + _ROUNDING), adjusted=adjusted, q=q, m=m)


def _check_level(q: float) -> None:
    """Refuse a level outside (0, 1)."""
    if not 0 < q < 1:
        raise InputError(f"the list's level q is {q}; give a share between 0 and 1, such as 0.1")


def _p_values(p: ArrayLike) -> FloatArray:
    """Check p-values and return them as float64."""
    values = np.asarray(p, dtype=np.float64)
    if values.ndim != 1 or (values < 0).any() or (values > 1).any():
        raise InputError("p-values must be one list of numbers from 0 to 1 (NaN where there is none)")
    return values
