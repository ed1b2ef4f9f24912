"""Multiple testing: step-up lists of p-values, families of classes, and one error for repeated evaluations.

**Lists.** Many p-values of one class: which groups may be listed, and the shortest list there could be.

METHODS section 1, "Null and p-value": Benjamini-Hochberg within class at level q, Benjamini-Yekutieli on request.
p-values here are ratios with a known denominator, so `p <= q k / m` is met with equality in practice; the
comparison allows for the rounding of that product (a few parts in 1e12), which decides nothing else.

**Families.** Lists in many classes at once: which classes may list groups, and at what level within them.

METHODS section 1 requires Benjamini-Hochberg within class at level q. With C classes and nothing memorized that
lists some group in up to ``1 - (1 - q)^C`` of audits: 9 of 20 placebo audits of the ten-class digits at q = 0.05
(``docs/validity.md``), where the verdict fails on any flagged patient and so may fail at most q of harmless models.
Pooling the classes' p-values instead would take the rare classes' lists away. Here the classes are families
(Benjamini and Bogomolov 2014): each class's Simes p-value is the smallest level at which it would list a group;
Benjamini-Hochberg over classes selects R of C; within a selected class the level is q R / C. With nothing memorized
any group is listed with probability at most q; else the false share of a list, averaged over the listed classes, is
expected to be at most q.

**Stopping rule.** A training is evaluated many times with one error for all evaluations: when may memorization stop
it?

Every evaluation tests whether training patients are nearer to the drawn images than held-out ones are, with the same
real images, so that evaluations depend on each other. Evaluation k may err with probability a_k. By Bonferroni's
inequality, which holds under any dependence, a training whose images know neither part is stopped with probability

    P(any evaluation stops) <= a_1 + a_2 + ... <= error.

With K planned evaluations ``a_k = error / K`` and nothing is left after them; where their number is not known
``a_k = error / (k (k + 1))``, whose sum over all k is the error.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError, unknown_name
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


@dataclass(frozen=True)
class FamilyLists:
    """Lists of all classes.

    Attributes:
        rejections: Listed groups of each class.
        class_p: Smallest level at which each class alone would list a group, [C]; NaN without p-values.
        selected: Whether each class may list, [C].
        level: Level within each class, [C]: q R / C, with R at least 1 for those not selected.
        smallest_list: Shortest list possible at that level, per class; None without p-values.
    """

    rejections: list[Rejections]
    class_p: NDArray[np.float64]
    selected: NDArray[np.bool_]
    level: NDArray[np.float64]
    smallest_list: list[int | None]


def family_lists(
    p_values: Sequence[ArrayLike], floors: Sequence[ArrayLike], q: float, correction: str = "bh"
) -> FamilyLists:
    """List groups in C classes with level q over all of them.

    Args:
        p_values: p-values of the groups, per class, NaN where a group has none.
        floors: Smallest p-value that each group could have had, per class.
        q: Level over the whole audit.
        correction: "bh", the two-level procedure above; "by", the same with Benjamini-Yekutieli at both levels;
            "bh-within", METHODS' form: each class at level q by itself.

    Returns:
        Lists, class p-values and the shortest possible lists of all classes.

    Raises:
        InputError: An unknown correction, or values outside [0, 1].

    Source:
        Benjamini and Bogomolov, JRSS B 76 (2014), section 3; Simes 1986.
    """
    if correction not in CORRECTIONS:
        raise unknown_name("correction", correction, CORRECTIONS)
    step_up = benjamini_yekutieli if correction == "by" else benjamini_hochberg
    arrays = [np.asarray(p, dtype=np.float64) for p in p_values]
    class_p = np.array([np.nanmin(step_up(p, q).adjusted) if np.isfinite(p).any() else np.nan for p in arrays])
    if correction == "bh-within":
        selected, level = np.isfinite(class_p), np.full(len(arrays), q)
    else:
        selected = step_up(class_p, q).rejected
        n_classes = max(int(np.isfinite(class_p).sum()), 1)
        level = np.full(len(arrays), q * max(int(selected.sum()), 1) / n_classes)
    lists = [
        step_up(p if chosen else np.full(len(p), np.nan), float(at))
        for p, chosen, at in zip(arrays, selected, level, strict=True)
    ]
    shortest = [
        smallest_list_of(f, float(at)) if np.isfinite(np.asarray(f, dtype=np.float64)).any() else None
        for f, at in zip(floors, level, strict=True)
    ]
    return FamilyLists(lists, class_p, selected, level, shortest)


@dataclass(frozen=True)
class ErrorSpending:
    """Probability of a false stop, shared over looks.

    Example:
        >>> ErrorSpending(0.05, 10).of_look(3), ErrorSpending(0.05, 10).of_look(11)
        (0.005, 0.0)
        >>> round(sum(ErrorSpending(0.05).of_look(k) for k in range(1, 100_000)), 4)
        0.05
    """

    error: float = 0.05
    """Probability of an error in any look."""
    planned: int | None = None
    """Number K of planned looks; None where it is not known."""

    def __post_init__(self) -> None:
        if not 0 < self.error < 0.5:
            raise InputError(f"error is {self.error}; give a probability between 0 and 0.5, such as 0.05")
        if self.planned is not None and self.planned < 1:
            raise InputError(f"looks is {self.planned}; it must be a whole number of at least 1")

    def of_look(self, number: int) -> float:
        """Return a_k, the error that look k may make, k from 1.

        Raises:
            InputError: The number of the look is below 1.
        """
        if number < 1:
            raise InputError(f"look {number} is none; they are counted from 1")
        if self.planned is None:
            return self.error / (number * (number + 1))
        return self.error / self.planned if number <= self.planned else 0.0


def held_out_for_limit(nominal: float, error: float) -> int:
    """Compute how many held-out patients give `memorized_share` a lower limit above 0 that fails with this probability.

    The smallest of n held-out distances lies below the nominal quantile with probability ``1 - (1 - nominal)^n``, and
    half of the error is left to that: ``n >= ln(error / 2) / ln(1 - nominal)``.

    Args:
        nominal: Share of new patients that count as near.
        error: Error rate of the lower limit.

    Raises:
        InputError: A rate outside (0, 1).

    Example:
        >>> held_out_for_limit(0.05, 0.05), held_out_for_limit(0.05, 0.05 / 20)
        (72, 131)
    """
    if not (0 < nominal < 1 and 0 < error < 1):
        raise InputError(f"nominal {nominal} and error {error} must lie between 0 and 1")
    return math.ceil(math.log(error / 2) / math.log1p(-nominal))


def should_stop(exceeded: list[bool], patience: int = 1) -> bool:
    """Return whether the last ``patience`` looks all exceeded what their errors allow.

    Example:
        >>> should_stop([False, True, True], patience=2)
        True
    """
    return len(exceeded) >= patience and all(exceeded[-patience:])
