"""Decisions about pairs at a threshold: shares over identities, and specificity at a sensitivity.

**Decisions.** Decisions about pairs and copies at a threshold, with intervals over identities (METHODS section 4).

A pair is called positive where its score is at least the threshold. Thresholds keep a share of *weight*, so that an
identity with sixty images does not make them alone. Shares of images are means over identities of each one's own
share; intervals are delete-one-identity jackknives on the logit, those of a share of 0 or 1 Clopper-Pearson's over
identities.

**Specificity.** How many pairs of two identities pass where nearly none of one identity may be missed (METHODS
section 4).

``t`` is the largest score with a share of at least 0.99 of the positive pairs, by weight, at or above it;
specificity is the weighted share of negative pairs below ``t``. By default every identity counts one
(``pair_auc``).

A delete-one jackknife gives a wrong interval for a quantile. Instead the threshold has its own limits, order statistics
that n identities allow, and the specificity at a fixed threshold a jackknife over identities; the two are combined
as sums of squares. Below 299 identities (at 99 %) the threshold is the lowest positive, and the program names the
number so: its sensitivity is then known by a lower limit only.

**Weights.** Scores of unequal weight in order: the weight below each, and the quantile that follows.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.calibration import identities_needed
from memorisk.statistics.jackknife import JackknifeInterval, counting_bound, jackknife, unavailable
from memorisk.statistics.pairs.auc import (
    DECIMALS,
    PairDesign,
    check_scores,
    disjoint_negatives,
    missing_pairs_reason,
    pair_design,
)

FloatArray = NDArray[np.float64]
ROUNDING = 1e-9
"""Amount by which a share of weight may be missed for the rounding of its sum."""
CONFIDENCE = 0.95


def weight_below(score: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return different scores, rising, and the share of weight below each, both [V]; [P] weights are above 0.

    Example:
        >>> score, share = weight_below(np.array([2.0, 1.0]), np.array([1.0, 3.0]))
        >>> score.tolist(), share.tolist()
        ([1.0, 2.0], [0.0, 0.75])
    """
    distinct, index = np.unique(score, return_inverse=True)
    mass = np.bincount(index, weight)
    return distinct, (np.cumsum(mass) - mass) / mass.sum()


def lower_weighted_quantile(score: FloatArray, weight: FloatArray, share: float) -> float:
    """Find the largest score with at most this share of the weight below it.

    ``max{t among the scores: sum of weights of scores < t <= share * sum of weights}``

    Args:
        score: Scores, [P], at least one.
        weight: Weights of the scores, [P], above 0.
        share: Share of the weight, 0 (the lowest score) to 1.

    Example:
        >>> lower_weighted_quantile(np.array([1.0, 2.0, 3.0, 4.0]), np.ones(4), 0.5)
        3.0
    """
    distinct, below = weight_below(score, weight)
    return float(distinct[np.flatnonzero(below <= share + ROUNDING)[-1]])


def sensitivity_threshold(score: ArrayLike, weight: ArrayLike | None = None, *, sensitivity: float) -> float:
    """Find the largest threshold that still calls this share of positive pairs positive.

    ``max{t among the scores: sum of weights of scores < t <= (1 - sensitivity) sum of weights}``

    Args:
        score: Scores of positive pairs, [P], larger = more alike.
        weight: Weights of the pairs, [P], above 0; None: all alike.
        sensitivity: Share of positive pairs at or above the threshold, between 0 and 1.

    Returns:
        Threshold, one of the scores; NaN without pairs.

    Raises:
        InputError: Lengths differ, or the share is out of range.

    Example:
        >>> sensitivity_threshold([3.0, 1.0, 2.0, 4.0], sensitivity=0.75)
        2.0
    """
    values, share = _checked(score, weight, sensitivity)
    if not len(values):
        return float("nan")
    return lower_weighted_quantile(values, share, 1 - sensitivity)


def specificity_threshold(score: ArrayLike, weight: ArrayLike | None = None, *, specificity: float) -> float:
    """Find the smallest threshold below which at least this share of negative pairs lies.

    Args:
        score: Scores of negative pairs, [P], larger = more alike.
        weight: Weights of the pairs, [P], above 0; None: all alike.
        specificity: Share of negative pairs below the threshold, between 0 and 1.

    Returns:
        One of the scores, or the next number above all of them; NaN without pairs.

    Raises:
        InputError: Lengths differ, or the share is out of range.

    Example:
        >>> specificity_threshold([3.0, 1.0, 2.0, 4.0], specificity=0.5)
        3.0
    """
    values, share = _checked(score, weight, specificity)
    if not len(values):
        return float("nan")
    distinct, below = weight_below(values, share)
    enough = np.flatnonzero(below >= specificity - ROUNDING)
    return float(distinct[enough[0]]) if len(enough) else float(np.nextafter(distinct[-1], np.inf))


def _checked(score: ArrayLike, weight: ArrayLike | None, level: float) -> tuple[FloatArray, FloatArray]:
    values = np.asarray(score, dtype=np.float64)
    share = np.ones(len(values)) if weight is None else np.asarray(weight, dtype=np.float64)
    if values.ndim != 1 or share.shape != values.shape or not 0 < level < 1:
        raise InputError(f"{values.shape} scores, {share.shape} weights and a share of {level}: a threshold needs one "
                         "weight a score and a share between 0 and 1")  # fmt: skip
    if not np.isfinite(values).all() or not (share > 0).all():
        raise InputError("scores must be finite and weights above 0; leave out pairs that have none")
    return values, share


def identity_share(hit: ArrayLike, group: ArrayLike) -> JackknifeInterval:
    """Compute the share of images that are hit, each identity counting one: ``mean over g of (mean over its images)``.

    Args:
        hit: Whether each image is hit, or a share, [N].
        group: Identity of each image, [N].

    Returns:
        Share with its 95 % interval over the G identities.
    """
    values = _by_identity(hit, group)
    n = len(values)
    if not n:
        return unavailable("no images")
    deleted = (values.sum() - values) / max(n - 1, 1)
    return jackknife(float(values.mean()), deleted, np.zeros(n, dtype=np.intp), scale="logit", pairs=n)


def identity_difference(first: ArrayLike, second: ArrayLike, group: ArrayLike) -> JackknifeInterval:
    """Compute the difference of two detectors' `identity_share` on the same images.

    Args:
        first: Hits of the first detector, [N].
        second: Hits of the second detector, [N].
        group: Identity of each image, [N].
    """
    each = _by_identity(first, group) - _by_identity(second, group)
    n = len(each)
    if not n:
        return unavailable("no images")
    deleted = (each.sum() - each) / max(n - 1, 1)
    if (each == each[0]).all():  # of n identities none differs from the others: so few others may there be
        value, few = float(each[0]), counting_bound(0.0, n)[1]
        how = "no identity differs from the others: Clopper-Pearson"
        return JackknifeInterval(value, value - few * (1 + value), value + few * (1 - value), np.nan, n, 1, how)
    return jackknife(float(each.mean()), deleted, np.zeros(n, dtype=np.intp), scale="difference")


def _by_identity(hit: ArrayLike, group: ArrayLike) -> FloatArray:
    """Average the hits of each identity, [G], in the order of the sorted ids."""
    values, groups = np.asarray(hit, dtype=np.float64), np.asarray(group)
    if values.ndim != 1 or groups.shape != values.shape:
        raise InputError(f"{values.shape} images and {groups.shape} identities do not fit; give one of each")
    _, index, count = np.unique(groups, return_inverse=True, return_counts=True)
    return np.bincount(index, values, minlength=len(count)) / count


@dataclass(frozen=True)
class PairDecisions:
    """Quality of decisions about pairs at a threshold, each figure with its interval over identities."""

    accuracy: JackknifeInterval
    """Share of weight that is decided rightly."""
    f1: JackknifeInterval
    """F1 score ``2 TP / (2 TP + FP + FN)``."""
    precision: JackknifeInterval
    """Precision ``TP / (TP + FP)``."""
    recall: JackknifeInterval
    """Recall ``TP / (TP + FN)``."""


def pair_decisions(
    called: ArrayLike, positive: ArrayLike, first: ArrayLike, second: ArrayLike, weight: ArrayLike | None = None
) -> PairDecisions:
    """Compute accuracy, F1, precision and recall of decisions about pairs.

    Args:
        called: Whether each pair is called positive, [P].
        positive: Whether each pair is positive, [P].
        first: Identity of each pair's first image, [P].
        second: Identity of each pair's second image, [P], that of the first for positive pairs.
        weight: Weight of each pair, [P]; None: all alike, as papers count.

    Returns:
        Figures, each with its delete-one-identity interval: without an identity, all pairs that it is in are gone.

    Raises:
        InputError: Lengths differ, or the pairs are missing.

    Source:
        Paper 004, table 4.
    """
    calls, truth = np.asarray(called, dtype=bool), np.asarray(positive, dtype=bool)
    share = np.ones(len(calls)) if weight is None else np.asarray(weight, dtype=np.float64)
    one, other = np.asarray(first), np.asarray(second)
    if calls.ndim != 1 or not len(calls) or any(a.shape != calls.shape for a in (truth, share, one, other)):
        raise InputError("decisions need as many truths, weights and identities as there are pairs, at least one")
    ids, index = np.unique(np.concatenate([one, other]), return_inverse=True)
    a, b = index[: len(one)], index[len(one) :]
    kinds = np.stack([calls & truth, calls & ~truth, ~calls & truth, ~calls & ~truth]) * share  # [4, P]
    total = kinds.sum(axis=1)
    own = np.stack([np.bincount(a, k, len(ids)) + np.bincount(b, k * (a != b), len(ids)) for k in kinds])
    remaining = np.maximum(total[:, None] - own, 0.0)  # [4, G]
    units = max(len(np.unique(a[truth])), 1)  # identities with a positive pair: behind a recall of 0 or 1

    def interval_of(of: Callable[[FloatArray], FloatArray]) -> JackknifeInterval:
        """Compute a function of the four counts with its interval."""
        value = float(of(total))
        if not np.isfinite(value):
            return unavailable("nothing is called positive", len(ids))
        deleted = of(remaining)
        finite = np.isfinite(deleted)
        return jackknife(value, deleted[finite], np.zeros(int(finite.sum()), dtype=np.intp), scale="logit", pairs=units)

    return PairDecisions(
        accuracy=interval_of(lambda c: _ratio(c[0] + c[3], c.sum(axis=0))),
        f1=interval_of(lambda c: _ratio(2 * c[0], 2 * c[0] + c[1] + c[2])),
        precision=interval_of(lambda c: _ratio(c[0], c[0] + c[1])),
        recall=interval_of(lambda c: _ratio(c[0], c[0] + c[2])),
    )


def _ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """Divide; NaN where the divisor is 0."""
    return np.divide(above, below, out=np.full(np.shape(above), np.nan), where=np.asarray(below) > 0)


@dataclass(frozen=True)
class PairSpecificity:
    """Specificity at a high sensitivity, or at the lowest positive where identities are too few for that."""

    interval: JackknifeInterval
    """Interval of the specificity: at the given sensitivity, or, at the lowest positive, for new pairs at this
    threshold."""
    threshold: float
    """Threshold t; NaN without positive pairs."""
    sensitivity: float
    """Sensitivity that the caller wants."""
    sensitivity_low: float
    """Lower limit of the threshold's true sensitivity, with 95 % confidence (one-sided)."""
    at_lowest: bool
    """Whether the threshold is the lowest positive, for lack of identities."""
    n_identities: int
    """Number of identities with a positive pair."""
    needed: int
    """Number of identities that the sensitivity needs: 299 at 99 %."""

    @property
    def estimate(self) -> float:
        """Estimate; NaN where it is undefined; the interval's ``method`` gives the reason."""
        return self.interval.estimate

    @property
    def name(self) -> str:
        """Name the number, as a table's heading or note."""
        if self.at_lowest:
            return f"specificity at the lowest positive (sensitivity at least {100 * self.sensitivity_low:.3g} %)"
        return f"specificity at {100 * self.sensitivity:g} % sensitivity"


def specificity_at_sensitivity(
    score: ArrayLike,
    positive: ArrayLike,
    first_identity: ArrayLike,
    second_identity: ArrayLike,
    *,
    sensitivity: float = 0.99,
    weights: ArrayLike | None = None,
    level: float = 0.95,
) -> PairSpecificity:
    """Compute the weighted share of negative pairs below the threshold that keeps the sensitivity.

    With a share m of weight missed among n identities, ``sensitivity_low = 1 - Beta_{0.95}(k + 1, n - k)`` with ``k =
    floor(n (1 - sensitivity))``, 0 at the lowest positive: there it is ``0.05^(1/n)``. That is exact for one pair per
    identity, and a lower limit for more of them.

    Args:
        score: Score of each pair, [N], larger = more alike.
        positive: Whether each pair is of one identity, as in `auc.pair_design`.
        first_identity: First identity of each pair, as in `auc.pair_design`.
        second_identity: Second identity of each pair, as in `auc.pair_design`.
        sensitivity: Weighted share of positive pairs at or above the threshold, in (0, 1).
        weights: Weight of each pair, as in `auc.pair_design`.
        level: Confidence level of the interval. Its lower limit needs ``ln((1 - level) / 2) / ln(sensitivity)``
            identities, 368 at
            99 %; with fewer it is 0, since the threshold has no lower limit.

    Returns:
        Estimate; NaN with the reason without positive or without negative pairs.

    Raises:
        InputError: As `pair_auc.pair_auc`, or a sensitivity outside (0, 1).

    Source:
        Paper 004, section 4 and table 2 ("specificity at a fixed sensitivity of 0.99"); METHODS section 4; Zou and
        Donner (2008) for the sum of squares.
    """
    needed = identities_needed(sensitivity, CONFIDENCE)
    design = pair_design(positive, first_identity, second_identity, weights=weights)
    values = check_scores(score, design)
    n = int(design.has_positive.sum())
    at_lowest = n < needed
    if (reason := missing_pairs_reason(design)) is not None:
        none = unavailable(reason, design.n_identities)
        return PairSpecificity(none, math.nan, sensitivity, math.nan, at_lowest, n, needed)
    up, down = values[design.positive], values[~design.positive]
    missed = 0.0 if at_lowest else 1 - sensitivity
    threshold = lower_weighted_quantile(up, design.weight, missed)
    share = _share_below(down, threshold, design, level)
    if not at_lowest:
        tail = (1 - level) / 2
        lowest, highest = (int(k) for k in scipy.stats.binom.ppf((tail, 1 - tail), n, missed))
        # the lowest-th smallest value lies below the quantile, the (highest + 1)-th above, each with 1 - tail
        below = (
            _weight_share(down, lower_weighted_quantile(up, design.weight, (lowest - 1) / n), design) if lowest else 0.0
        )
        above = _weight_share(down, lower_weighted_quantile(up, design.weight, highest / n), design)
        low = share.estimate - math.hypot(share.estimate - below, share.estimate - share.low)
        high = share.estimate + math.hypot(above - share.estimate, share.high - share.estimate)
        method = f"{share.method}; the threshold by order statistics of {n:,} identities"
        share = JackknifeInterval(
            share.estimate, max(low, 0.0) if lowest else 0.0, min(high, 1.0), share.df, share.n_groups, 1, method
        )
    k = math.floor(n * missed + ROUNDING)
    sure = float(1 - scipy.stats.beta.ppf(CONFIDENCE, k + 1, n - k))
    return PairSpecificity(share, threshold, sensitivity, sure, at_lowest, n, needed)


def _weight_share(score: FloatArray, threshold: float, design: PairDesign) -> float:
    """Compute the weighted share of the negative pairs below the threshold."""
    v = design.negative_weight
    return round(float(v[score < threshold].sum() / v.sum()), DECIMALS)


def _share_below(score: FloatArray, threshold: float, design: PairDesign, level: float) -> JackknifeInterval:
    """Compute the share with its delete-one-identity interval, at a threshold taken as given."""
    v, n = design.negative_weight, design.n_identities
    ends = np.concatenate([design.first, design.second])
    hit = np.where(score < threshold, v, 0.0)
    remaining = v.sum() - np.bincount(ends, np.tile(v, 2), n)
    hits_left = hit.sum() - np.bincount(ends, np.tile(hit, 2), n)
    touched = np.bincount(ends, minlength=n) > 0
    alone = np.bincount(ends, minlength=n) == len(score)
    estimate = _weight_share(score, threshold, design)
    if alone.any():
        reason = "an identity is part of every negative pair: the whole range"
        return JackknifeInterval(estimate, 0.0, 1.0, math.nan, n, 1, reason)
    deleted = (hits_left / remaining)[touched].round(DECIMALS)
    units = len(disjoint_negatives(design.first, design.second)) if estimate in (0.0, 1.0) else None
    return jackknife(estimate, deleted, np.zeros(len(deleted), dtype=np.intp), scale="logit", pairs=units, level=level)
