"""Is a model more sensitive to a mark than to marks like it? Ranks among controls and among reference models.

METHODS section 2, "Corrected". The statistic of model i and pattern j is ``l_ij``, the mean over probes of log KL
(``scores.marks``); ``T_i = l_i,mark - mean over controls c of l_ic``.

* Controls: ``p = (1 + #{c: l_c >= l_mark}) / (1 + C)``, means over the models that share the mark. Its level rests on
  mark and controls being alike to models that saw neither, and a given letter is not: for a fixed mark it may reject
  hardly any harmless model or several times too many (``recipes/mark_level.py``, docs/results/mark_level.md).
* Centred: the same on ``l_j - mean over references of l_rj``, which takes away what every model thinks of a pattern.
* References: ``T`` of the audited models against ``T`` of reference models trained alike without the mark, by
  permutation of who is audited. Exchangeable models make it exact for every mark, whatever its shape; the smallest p
  is 1 / C(S + R, S), so that a single model needs 19 references for 0.05. METHODS does not have this form.

The p that counts is the references' where it can reach the level, else the centred one, else the controls'. The
references' alone holds its level for a given mark, so that it alone has a power (`noticeable_shift`).
"""

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.memorization.mark_contrasts import mean_limits
from memorisk.statistics.verdicts.levels import MARK_LEVEL, POWER

FloatArray = NDArray[np.float64]

MAX_EXACT = 20_000
"""Assignments up to which the permutation test goes through all."""
TOLERANCE = 1e-12
PLANTED_ASSIGNMENTS = 200
"""Assignments of several models into which a shift is planted: the share found is known to about 0.03."""


@dataclass(frozen=True)
class MarkRank:
    """A mark among its controls, and a model among its references."""

    m: float
    """Mean T over the audited models, less that of the references where there are some: the model's answer to the mark
    is exp(m) times (in geometric mean over probes) what it is to a control."""
    low: float
    """Lower limit over models; NaN where one model alone says nothing of others."""
    high: float
    """Upper limit over models; NaN where ``low`` is."""
    interval: str
    """Method of the limits, in words."""
    p: float
    """p-value that counts."""
    smallest_p: float
    """Smallest value that the p could have had."""
    method: str
    """Method of the p: ``"references"``, ``"centred"`` or ``"controls"``."""
    p_controls: float
    """Rank among the controls alone."""
    p_centred: float
    """Rank among the controls less the references' mean; NaN without references."""
    p_references: float
    """Permutation test against the references; NaN without."""
    detectable: float
    """The least m that this method would have called significant at the level; infinite where none. A threshold: a
    model that is as sensitive as this in the mean is found about every other time; `noticeable_shift` is the power."""
    n_controls: int
    """Number of controls."""
    n_models: int
    """Number of audited models that share the mark."""
    n_references: int
    """Number of reference models."""


def rank_mark(
    mark: ArrayLike,
    controls: ArrayLike,
    reference_mark: ArrayLike = (),
    reference_controls: ArrayLike | None = None,
    *,
    level: float = MARK_LEVEL,
    draws: int = 9999,
    seed: int = 0,
) -> MarkRank:
    """Rank a mark among its controls, with references where there are some.

    Args:
        mark: Statistic of the mark under each audited model, [S].
        controls: Statistic of each control under each audited model, [S, C].
        reference_mark: Statistic of the mark under each reference model, [R].
        reference_controls: Statistic of each control under each reference model, [R, C].
        level: Level at which the method is chosen and ``detectable`` stated; the interval has coverage 1 - level.
        draws: Number of random assignments where there are too many for all.
        seed: Seed of the random assignments.

    Raises:
        InputError: Shapes do not fit, a value is not finite, or the controls are missing.
    """
    own, alike = np.asarray(mark, dtype=np.float64), np.asarray(controls, dtype=np.float64)
    references = np.asarray(reference_mark, dtype=np.float64)
    reference_alike = (
        np.empty((0, alike.shape[-1] if alike.ndim else 0)) if reference_controls is None else reference_controls
    )
    reference_alike = np.asarray(reference_alike, dtype=np.float64)
    _check(own, alike, references, reference_alike)
    c, r, s = alike.shape[1], len(references), len(own)
    over = (own.mean(), alike.mean(axis=0))
    p_controls = rank_p(over[0], over[1])
    t, t_references = own - alike.mean(axis=1), references - reference_alike.mean(axis=1)
    p_centred = p_references = float("nan")
    if r:
        p_centred = rank_p(over[0] - references.mean(), over[1] - reference_alike.mean(axis=0))
        p_references = permutation_p(t, t_references, draws=draws, seed=seed)
    smallest = {"controls": 1 / (1 + c), "centred": 1 / (1 + c), "references": smallest_permutation_p(s, r, draws)}
    method = "references" if r and smallest["references"] <= level else "centred" if r else "controls"
    centre = t_references.mean() if r else 0.0
    low, high, words = _interval(t, t_references, level)
    return MarkRank(
        m=float(t.mean() - centre),
        low=low,
        high=high,
        interval=words,
        p={"controls": p_controls, "centred": p_centred, "references": p_references}[method],
        smallest_p=smallest[method],
        method=method,
        p_controls=p_controls,
        p_centred=p_centred,
        p_references=p_references,
        detectable=_detectable(method, over[1], t_references, reference_alike, s, level),
        n_controls=c,
        n_models=s,
        n_references=r,
    )


def rank_p(value: float, others: ArrayLike) -> float:
    """``(1 + #{others >= value}) / (1 + others)``: ties count against the value.

    Example:
        >>> rank_p(2.0, [0.0, 1.0, 3.0])
        0.5
    """
    array = np.asarray(others, dtype=np.float64)
    return float((1 + np.sum(array >= value - TOLERANCE)) / (1 + len(array)))


def permutation_p(audited: ArrayLike, references: ArrayLike, *, draws: int = 9999, seed: int = 0) -> float:
    """One-sided p of "the audited models have a larger mean than the references", by permutation of who is which.

    All ``C(S + R, S)`` assignments where these are at most 20,000, else random ones and the one that is.

    Args:
        audited: Statistics of the audited models, [S].
        references: Statistics of the references, [R].
        draws: Number of random assignments.
        seed: Seed of the random assignments.

    Example:
        >>> permutation_p([2.0, 3.0], [0.0, 1.0, 0.5])
        0.1
    """
    a, b = np.asarray(audited, dtype=np.float64), np.asarray(references, dtype=np.float64)
    both, s = np.concatenate([a, b]), len(a)
    observed = a.mean()
    slack = TOLERANCE * max(1.0, float(np.abs(both).max()))
    if comb(len(both), s) <= MAX_EXACT:
        means = np.array([both[list(chosen)].mean() for chosen in combinations(range(len(both)), s)])
        return float(np.mean(means >= observed - slack))
    rng = np.random.default_rng(seed)
    extreme = sum(rng.permutation(both)[:s].mean() >= observed - slack for _ in range(draws))
    return float((1 + extreme) / (1 + draws))


def smallest_permutation_p(n_audited: int, n_references: int, draws: int = 9999) -> float:
    """The smallest p of `permutation_p`.

    Example:
        >>> smallest_permutation_p(2, 3)
        0.1
    """
    if not n_references:
        return 1.0
    every = comb(n_audited + n_references, n_audited)
    return 1 / every if every <= MAX_EXACT else 1 / (1 + draws)


def references_needed(n_audited: int, level: float, draws: int = 9999) -> int | None:
    """The fewest references with which `permutation_p` can reach a level; None where no number of them can.

    Example:
        >>> references_needed(1, 0.05)
        19
    """
    if smallest_permutation_p(n_audited, MAX_EXACT, draws) > level:
        return None
    return next(r for r in range(1, MAX_EXACT + 1) if smallest_permutation_p(n_audited, r, draws) <= level)


def noticeable_shift(
    audited: ArrayLike, references: ArrayLike, *, level: float = MARK_LEVEL, power: float = POWER, draws: int = 9999,
    seed: int = 0,
) -> float:  # fmt: skip
    """The least shift of all audited models that `permutation_p` finds at the level with the given probability.

    One model: it is found above ``c``, the (k + 1)-th largest of R references, k = floor(level (R + 1)) - 1. A model
    without the mark is one like the references, whence ``P(T >= T_(j)) = (R + 1 - j) / (R + 1)`` for the j-th smallest
    of them, and a shift by ``c - T_(j)`` is found with that probability, over references and models. j is the largest
    with which it is at least ``power``.

    Several: both groups less their means (times sqrt(n / (n - 1)), the spread that this takes away) are taken together,
    as models without the mark. S of them are called audited and shifted; the least shift that the test then finds is
    exact, since an assignment with j of the shifted ones has at least their mean as long as the shift is at most the
    difference of the unshifted means, divided by 1 - j / S. Over 200 such assignments its quantile at ``power``.

    Args:
        audited: Statistics T of the audited models, [S]; of one alone its value says nothing of a spread and is not
            used.
        references: Statistics T of the references, [R].
        level: Level of the test.
        power: Probability with which the test is to find the shift.
        draws: Number of draws of the test.
        seed: Seed of the assignments.

    Returns:
        Shift in nats of mean log KL; infinite where no shift is found so often: too few references for the level, or
        one
        alone, which has no spread.

    Source:
        METHODS section 6, "Feature". Held by ``tests/statistics/memorization/test_mark_rank.py``, which
        plants the shift.
    """
    a, b = np.asarray(audited, dtype=np.float64), np.asarray(references, dtype=np.float64)
    s, r = len(a), len(b)
    if r < 2 or smallest_permutation_p(s, r, draws) > level:
        return float("inf")
    if s == 1:
        ordered = np.sort(b)
        j = int(np.floor((1 - power) * (r + 1) + TOLERANCE))
        return float(ordered[r - int(np.floor(level * (r + 1) + TOLERANCE))] - ordered[j - 1]) if j else float("inf")
    pool = np.concatenate([(x - x.mean()) * np.sqrt(len(x) / (len(x) - 1)) for x in (a, b)])
    rng = np.random.default_rng([seed, 1])
    exact = comb(s + r, s) <= MAX_EXACT
    if exact:
        rows = np.array(list(combinations(range(s + r), s)))
    else:
        rows = np.argsort(rng.random((draws, s + r)), axis=1)[:, :s]
    means = pool[rows].mean(axis=1)
    allowed = int(np.floor(level * (len(rows) + (not exact)) + TOLERANCE)) - (
        not exact
    )  # of all, the audited one among them
    least = []
    for own in rng.permutation(len(rows))[:PLANTED_ASSIGNMENTS]:
        shared = np.isin(rows, rows[own]).sum(axis=1) / s
        with np.errstate(divide="ignore", invalid="ignore"):
            reached = np.where(shared < 1, (means - means[own]) / (1 - shared), np.inf)
        least.append(np.partition(reached, len(rows) - 1 - allowed)[len(rows) - 1 - allowed])
    return float(np.quantile(least, power, method="higher"))


def percentile_among(value: float, others: ArrayLike) -> float:
    """Share of the controls below, ties half: where the mark lies among them in ink or under the references.

    Example:
        >>> percentile_among(2.0, [0.0, 1.0, 2.0, 3.0])
        0.625
    """
    array = np.asarray(others, dtype=np.float64)
    return float(((array < value).sum() + 0.5 * (array == value).sum()) / len(array)) if len(array) else float("nan")


def _interval(t: FloatArray, references: FloatArray, level: float) -> tuple[float, float, str]:
    """Limits of m over models: of several audited ones, of one against the spread of the references, or none."""
    s, r = len(t), len(references)
    if s >= 2 and r != 1:
        limits = mean_limits(t, references, level=1 - level) if r else mean_limits(t, level=1 - level)
        return float(limits.low), float(limits.high), f"t, {s} models and {r} references" if r else f"t, {s} models"
    if s + r >= 3:  # one alone has no spread of its own, and is taken to have that of the others
        many = t if r == 1 else references
        m = t.mean() - references.mean()
        half = many.std(ddof=1) * np.sqrt(1 / s + 1 / r) * scipy.stats.t.ppf(1 - level / 2, len(many) - 1)
        words = (
            f"one reference against the spread of {s} models"
            if r == 1
            else f"one model against the spread of {r} references"
        )
        return float(m - half), float(m + half), f"t, {words}"
    return float("nan"), float("nan"), "none: one model, and no references whose spread would say what chance does"


def _detectable(
    method: str, controls: FloatArray, t_references: FloatArray, reference_alike: FloatArray, s: int, level: float
) -> float:
    """The least m that would have p <= level."""
    if method == "references":
        if s > 1:  # by the normal form of the permutation test: its exact edge depends on the values themselves
            spread = t_references.std(ddof=1) * np.sqrt(1 / s + 1 / len(t_references))
            return float(scipy.stats.norm.ppf(1 - level) * spread)
        allowed = int(np.floor(level * (len(t_references) + 1) + TOLERANCE)) - 1
        return float(np.sort(t_references)[::-1][allowed] - t_references.mean())
    values = controls - (reference_alike.mean(axis=0) if method == "centred" else 0.0)
    allowed = int(np.floor(level * (len(values) + 1) + TOLERANCE)) - 1
    return float("inf") if allowed < 0 else float(np.sort(values)[::-1][allowed] - values.mean())


def _check(own: FloatArray, alike: FloatArray, references: FloatArray, reference_alike: FloatArray) -> None:
    if own.ndim != 1 or alike.ndim != 2 or len(own) != len(alike) or not len(own) or not alike.shape[1]:
        raise InputError(
            f"statistics have shapes {own.shape} and {alike.shape}; give [models] of the mark and [models, controls], "
            "one control at least"
        )
    if references.ndim != 1 or reference_alike.shape != (len(references), alike.shape[1]):
        raise InputError(
            f"the references' statistics have shapes {references.shape} and {reference_alike.shape}; give [references] "
            f"and [references, {alike.shape[1]}]"
        )
    if not all(np.isfinite(array).all() for array in (own, alike, references, reference_alike)):
        raise InputError("a statistic is not finite: log KL needs divergences of at least the floor")
