"""How many pairs of two identities pass where nearly none of one identity may be missed (METHODS section 4).

``t`` is the largest score with a share of at least 0.99 of the positive pairs, by weight, at or above it; specificity
is the weighted share of negative pairs below ``t``. By default every identity counts one (``pair_auc``).

A delete-one jackknife is no interval for a quantile. Instead the threshold has its own limits, order statistics that n
identities allow, and the specificity at a fixed threshold a jackknife over identities; the two are combined as sums of
squares. Below 299 identities (at 99 %) the threshold is the lowest positive, and the number is called that: what it
says of sensitivity is a lower limit.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from memorisk.statistics.copies.calibration import identities_needed
from memorisk.statistics.jackknife import JackknifeInterval, jackknife, unavailable
from memorisk.statistics.memorization.weighted_order import ROUNDING, largest_missing
from memorisk.statistics.pairs.auc import DECIMALS, PairDesign, check_scores, disjoint_negatives, lacking, pair_design

FloatArray = NDArray[np.float64]
CONFIDENCE = 0.95


@dataclass(frozen=True)
class PairSpecificity:
    """Specificity at a high sensitivity, or at the lowest positive where identities are too few for that."""

    interval: JackknifeInterval
    """Of the specificity: at the asked sensitivity, or, at the lowest positive, of new pairs at this very threshold."""
    threshold: float
    """t; NaN without positive pairs."""
    sensitivity: float
    """The one asked for."""
    sensitivity_low: float
    """The threshold's true sensitivity is at least this, with 95 % confidence (one-sided)."""
    at_lowest: bool
    """Whether the threshold is the lowest positive, for lack of identities."""
    n_identities: int
    """Identities with a positive pair."""
    needed: int
    """How many the asked sensitivity needs: 299 at 99 %."""

    @property
    def estimate(self) -> float:
        """NaN where it cannot be had; the interval's ``method`` says why."""
        return self.interval.estimate

    @property
    def name(self) -> str:
        """What the number is, as a table's heading or note."""
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
    """Weighted share of negative pairs below the threshold that keeps the sensitivity.

    With a share m of weight missed among n identities, ``sensitivity_low = 1 - Beta_{0.95}(k + 1, n - k)`` with ``k =
    floor(n (1 - sensitivity))``, 0 at the lowest positive: there it is ``0.05^(1/n)``. That is exact for one pair per
    identity, and a lower limit for more of them.

    Args:
        score: [N], larger = more alike.
        positive: As `pair_auc.pair_design`.
        first_identity: As `pair_auc.pair_design`.
        second_identity: As `pair_auc.pair_design`.
        sensitivity: Weighted share of positive pairs at or above the threshold, in (0, 1).
        weights: As `pair_auc.pair_design`.
        level: Of the interval. Its lower limit needs ``ln((1 - level) / 2) / ln(sensitivity)`` identities, 368 at
            99 %; with fewer it is 0, since the threshold has no lower limit.

    Returns:
        The estimate; NaN with the reason where there are no positive or no negative pairs.

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
    if (reason := lacking(design)) is not None:
        none = unavailable(reason, design.n_identities)
        return PairSpecificity(none, math.nan, sensitivity, math.nan, at_lowest, n, needed)
    up, down = values[design.positive], values[~design.positive]
    missed = 0.0 if at_lowest else 1 - sensitivity
    threshold = largest_missing(up, design.weight, missed)
    found = _share_below(down, threshold, design, level)
    if not at_lowest:
        tail = (1 - level) / 2
        lowest, highest = (int(k) for k in stats.binom.ppf((tail, 1 - tail), n, missed))
        # the lowest-th smallest value lies below the quantile, the (highest + 1)-th above, each with 1 - tail
        below = _weight_share(down, largest_missing(up, design.weight, (lowest - 1) / n), design) if lowest else 0.0
        above = _weight_share(down, largest_missing(up, design.weight, highest / n), design)
        low = found.estimate - math.hypot(found.estimate - below, found.estimate - found.low)
        high = found.estimate + math.hypot(above - found.estimate, found.high - found.estimate)
        method = f"{found.method}; the threshold by order statistics of {n:,} identities"
        found = JackknifeInterval(
            found.estimate, max(low, 0.0) if lowest else 0.0, min(high, 1.0), found.df, found.n_groups, 1, method
        )
    k = math.floor(n * missed + ROUNDING)
    sure = float(1 - stats.beta.ppf(CONFIDENCE, k + 1, n - k))
    return PairSpecificity(found, threshold, sensitivity, sure, at_lowest, n, needed)


def _weight_share(score: FloatArray, threshold: float, design: PairDesign) -> float:
    """Weighted share of the negative pairs below the threshold."""
    v = design.negative_weight
    return round(float(v[score < threshold].sum() / v.sum()), DECIMALS)


def _share_below(score: FloatArray, threshold: float, design: PairDesign, level: float) -> JackknifeInterval:
    """The share with its delete-one-identity interval, at a threshold taken as given."""
    v, n = design.negative_weight, design.n_identities
    ends = np.concatenate([design.first, design.second])
    hit = np.where(score < threshold, v, 0.0)
    left = v.sum() - np.bincount(ends, np.tile(v, 2), n)
    kept = hit.sum() - np.bincount(ends, np.tile(hit, 2), n)
    touched = np.bincount(ends, minlength=n) > 0
    alone = np.bincount(ends, minlength=n) == len(score)
    estimate = _weight_share(score, threshold, design)
    if alone.any():
        reason = "an identity is part of every negative pair: the whole range"
        return JackknifeInterval(estimate, 0.0, 1.0, math.nan, n, 1, reason)
    deleted = (kept / left)[touched].round(DECIMALS)
    units = len(disjoint_negatives(design.first, design.second)) if estimate in (0.0, 1.0) else None
    return jackknife(estimate, deleted, np.zeros(len(deleted), dtype=np.intp), scale="logit", pairs=units, level=level)
