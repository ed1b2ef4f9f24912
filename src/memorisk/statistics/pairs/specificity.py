"""Specificity: how many pairs of two identities pass where nearly none of one may be missed (METHODS section 4).

``t`` is the largest score with a share of at least 0.99 of the positive pairs, by weight, at or above it;
specificity is the weighted share of negative pairs below ``t``. By default every identity counts one
(``pair_auc``).

A delete-one jackknife gives a wrong interval for a quantile. Instead the threshold has its own limits, order statistics
that n identities allow, and the specificity at a fixed threshold a jackknife over identities; the two are combined
as sums of squares. Below 299 identities (at 99 %) the threshold is the lowest positive, and the program names the
number so: its sensitivity is then known by a lower limit only.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.statistics.copies.calibration import identities_needed
from memorisk.statistics.jackknife import JackknifeInterval, jackknife, unavailable
from memorisk.statistics.pairs.auc import (
    DECIMALS,
    PairDesign,
    check_scores,
    disjoint_negatives,
    missing_pairs_reason,
    pair_design,
)
from memorisk.statistics.pairs.decisions import CONFIDENCE
from memorisk.statistics.pairs.weights import ROUNDING, lower_weighted_quantile

FloatArray = NDArray[np.float64]


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
