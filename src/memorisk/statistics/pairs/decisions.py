"""Decisions about pairs and copies at a threshold, with intervals over identities (METHODS section 4).

A pair is called positive where its score is at least the threshold. Thresholds keep a share of *weight*, so that an
identity with sixty images does not make them alone. Shares of images are means over identities of each one's own
share; intervals are delete-one-identity jackknives on the logit, those of a share of 0 or 1 Clopper-Pearson's over
identities.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.jackknife import JackknifeInterval, counting_bound, jackknife, unavailable
from memorisk.statistics.pairs.weights import ROUNDING, lower_weighted_quantile, weight_below

FloatArray = NDArray[np.float64]
CONFIDENCE = 0.95


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
