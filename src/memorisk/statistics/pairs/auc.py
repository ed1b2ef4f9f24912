"""AUC of a score for pairs of one identity against pairs of two, with intervals over identities (METHODS section 4).

    AUC = sum over (p, q) of w_p w_q [score_p > score_q, ties one half] / (sum w_p  sum w_q),

p positive, q negative pairs. By default every identity counts one: w = 1 / pairs of the identity, of a negative the
identity that it is anchored at. Deleting an identity deletes its positive pairs and every negative it is part of.

Where this page differs from METHODS' "t with G - 1" (``docs/results/guarantee_simulation.md`` has the coverage):

* An identity without a positive pair says little, and few may have one: degrees of freedom are Satterthwaite's over
  identities with and without positive pairs, with the sample's kurtosis (``jackknife.py``).
* Near an AUC of 1 a jackknife covers far less than it says, because the rare identity that the detector does not know
  is not among so few. The limit towards chance therefore counts one such identity more: with n positive identities it
  is at least as far as ``theta -+ t_{n-1} sqrt(v + ((theta - theta_0) / (n + 1))^2)``, theta_0 = 0.5 for an AUC and 0
  for a difference. That identity weighs 1 / n and is forgotten as n grows.
* Negative pairs touch two identities and are deleted twice, so that their noise is counted twice; with few negatives
  the interval is wider than it need be, never narrower.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.jackknife import JackknifeInterval, Scale, jackknife, jackknife_variance, unavailable
from memorisk.statistics.pairs.identity_pairs import pair_weights

FloatArray = NDArray[np.float64]
Rows = NDArray[np.intp]
DECIMALS = 12
"""Number of decimals to which AUCs are rounded."""


@dataclass(frozen=True)
class PairEstimate:
    """A statistic of pairs with its interval over identities."""

    interval: JackknifeInterval
    """Estimate and limits; ``n_groups`` counts all identities."""
    n_identities: int
    """Number of identities in any pair."""
    n_positive_identities: int
    """Number of identities with a positive pair: the units that decide."""
    n_positive: int
    """Number of positive pairs."""
    n_negative: int
    """Number of negative pairs."""

    @property
    def estimate(self) -> float:
        """Estimate; NaN where it is undefined; the interval's ``method`` gives the reason."""
        return self.interval.estimate


@dataclass(frozen=True)
class PairDesign:
    """Identities of each pair, and how much each pair counts; identities are numbers from 0."""

    own: Rows
    """Identity of each positive pair, [P]."""
    first: Rows
    """First identity of each negative pair, [Q]."""
    second: Rows
    """Second identity of each negative pair, [Q], another one."""
    weight: FloatArray
    """Weight of each positive pair, [P]."""
    negative_weight: FloatArray
    """Weight of each negative pair, [Q]."""
    positive: NDArray[np.bool_]
    """Whether each pair, in the order given, is positive, [P + Q]."""
    n_identities: int
    """Number G of identities."""

    @property
    def has_positive(self) -> NDArray[np.bool_]:
        """Return whether each identity has a positive pair, [G]."""
        return np.bincount(self.own, minlength=self.n_identities) > 0

    def estimate(self, interval: JackknifeInterval) -> PairEstimate:
        """Return the interval with the numbers of this design."""
        positives = int(self.has_positive.sum())
        return PairEstimate(interval, self.n_identities, positives, len(self.own), len(self.first))


def pair_design(
    positive: ArrayLike, first_identity: ArrayLike, second_identity: ArrayLike, *, weights: ArrayLike | None = None
) -> PairDesign:
    """Check and number the pairs.

    Args:
        positive: Whether each pair is of one identity, [N].
        first_identity: First identity of each pair, [N], any sortable ids; of a negative pair the identity it is
            anchored at.
        second_identity: Second identity of each pair, [N].
        weights: Weight of each pair, [N], above 0; None: ``1 / pairs of the identity``; ones: every pair alike, as
            papers
            count them.

    Raises:
        InputError: Lengths differ, a positive pair has two identities or a negative one, or a weight is not above 0.
    """
    is_positive = np.asarray(positive, dtype=bool)
    a, b = np.asarray(first_identity), np.asarray(second_identity)
    if is_positive.ndim != 1 or a.shape != is_positive.shape or b.shape != is_positive.shape:
        raise InputError(f"positive {is_positive.shape}, identities {a.shape} and {b.shape} must be one per pair")
    ids, index = np.unique(np.concatenate([a, b]), return_inverse=True)
    one, other = index[: len(a)], index[len(a) :]
    wrong = np.flatnonzero((one == other) != is_positive)
    if len(wrong):
        kind = "positive" if is_positive[wrong[0]] else "negative"
        raise InputError(
            f"pair {wrong[0]} is called {kind} and has the identities {a[wrong[0]]} and {b[wrong[0]]}; positive pairs "
            "are of one identity, negative ones of two"
        )
    own, first = one[is_positive], one[~is_positive]
    if weights is None:
        weight, negative_weight = pair_weights(own), pair_weights(first)
    else:
        weight_of_pair = np.asarray(weights, dtype=np.float64)
        if weight_of_pair.shape != is_positive.shape or not (np.isfinite(weight_of_pair) & (weight_of_pair > 0)).all():
            raise InputError(
                f"weights {weight_of_pair.shape} must be one number above 0 for each of {len(is_positive)} pairs"
            )
        weight, negative_weight = weight_of_pair[is_positive], weight_of_pair[~is_positive]
    return PairDesign(own, first, other[~is_positive], weight, negative_weight, is_positive, len(ids))


def pair_auc(
    score: ArrayLike,
    positive: ArrayLike,
    first_identity: ArrayLike,
    second_identity: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    level: float = 0.95,
) -> PairEstimate:
    """Compute the AUC of a pair score with its interval on the logit scale; the head of this module has the formula.

    At an AUC of 0 or 1 the limits are Clopper-Pearson's on as many positive and negative pairs as share no identity.

    Args:
        score: Score of each pair, [N], larger = more alike.
        positive: Whether each pair is of one identity, as in `pair_design`.
        first_identity: First identity of each pair, as in `pair_design`.
        second_identity: Second identity of each pair, as in `pair_design`.
        weights: Weight of each pair, as in `pair_design`.
        level: Confidence level of the interval.

    Returns:
        Estimate; with fewer than two identities with positive pairs the limits are 0 and 1, without positive or
        negative pairs it is NaN, with the reason.

    Raises:
        InputError: As `pair_design`, or a score is NaN.

    Source:
        Paper 004, section 4 and table 2; METHODS section 4, "Re-identification".
    """
    design = pair_design(positive, first_identity, second_identity, weights=weights)
    values = check_scores(score, design)
    if (reason := missing_pairs_reason(design)) is not None:
        return design.estimate(unavailable(reason, design.n_identities))
    auc, deleted = deleted_pair_auc(values, design)
    return design.estimate(_interval(auc, deleted, design, "logit", 0.5, level))


def pair_auc_difference(
    score_a: ArrayLike,
    score_b: ArrayLike,
    positive: ArrayLike,
    first_identity: ArrayLike,
    second_identity: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    level: float = 0.95,
) -> PairEstimate:
    """Compute the AUC of detector a less that of b on the same pairs; each identity is deleted from both at once.

    Args:
        score_a: Scores of detector a, [N], larger = more alike.
        score_b: Scores of detector b, [N], on any other scale.
        positive: Whether each pair is of one identity, as in `pair_design`.
        first_identity: First identity of each pair, as in `pair_design`.
        second_identity: Second identity of each pair, as in `pair_design`.
        weights: Weight of each pair, as in `pair_design`.
        level: Confidence level of the interval.

    Raises:
        InputError: As `pair_auc`.
    """
    design = pair_design(positive, first_identity, second_identity, weights=weights)
    a, b = check_scores(score_a, design), check_scores(score_b, design)
    if (reason := missing_pairs_reason(design)) is not None:
        return design.estimate(unavailable(reason, design.n_identities))
    (auc_a, deleted_a), (auc_b, deleted_b) = deleted_pair_auc(a, design), deleted_pair_auc(b, design)
    return design.estimate(_interval(auc_a - auc_b, deleted_a - deleted_b, design, "difference", 0.0, level))


def macro_average(intervals: Sequence[JackknifeInterval]) -> JackknifeInterval:
    """Average over data sets that share no identity, each with its own interval.

    ``low = mean - sqrt(sum over sets of (estimate - low)^2) / D``, ``high`` in the same way: each set's own limits,
    lopsided
    as they may be, are carried over. The interval is for these data sets, not for others.

    Args:
        intervals: Interval of each data set, all of one level: AUCs, differences, specificities.

    Returns:
        Mean; NaN with the reason where a data set has no estimate, since a mean over fewer is another number.

    Raises:
        InputError: No data set.

    Source:
        Zou and Donner (2008), limits of a sum from limits of its terms.
    """
    if not intervals:
        raise InputError("a macro average needs at least one data set")
    identities = sum(each.n_groups for each in intervals)
    estimate, low, high = (
        np.array([getattr(each, name) for each in intervals]) for name in ("estimate", "low", "high")
    )
    if not np.isfinite(estimate).all():
        missing = int((~np.isfinite(estimate)).sum())
        return unavailable(f"{missing} of {len(intervals)} data sets have no estimate", identities)
    mean = float(estimate.mean())
    down, up = (float(np.sqrt(np.square(apart).sum())) / len(intervals) for apart in (estimate - low, high - estimate))
    method = f"mean of {len(intervals)} data sets, their own limits combined"
    n_seeds = min(each.n_seeds for each in intervals)
    return JackknifeInterval(mean, mean - down, mean + up, float("nan"), identities, n_seeds, method)


def deleted_pair_auc(score: FloatArray, design: PairDesign) -> tuple[float, FloatArray]:
    """Compute the weighted AUC, and its value without each identity, [G], in O(N log N).

    ``U_(-g) = U - (g's positives) - (negatives that touch g) + (these among each other)``, each a weighted rank.

    Args:
        score: Scores, [N], in the order of the pairs of the design.
        design: Design with at least a positive and a negative pair.

    Returns:
        AUC, and its values; NaN where leaving an identity out empties a side.
    """
    n, own, w, v = design.n_identities, design.own, design.weight, design.negative_weight
    values, rank = np.unique(score, return_inverse=True)
    up, down = rank[design.positive], rank[~design.positive]
    ends = np.concatenate([design.first, design.second])
    below = _weight_below(up, down, v)
    above = w.sum() - _weight_below(down, up, w)
    keys = ends * len(values) + np.tile(down, 2)  # by identity, then by score
    among = _weight_below(own * len(values) + up, keys, np.tile(v, 2), start=own * len(values))
    total = float(np.sum(w * below))
    lost = np.bincount(own, w * (below - among), n) + np.bincount(ends, np.tile(v * above, 2), n)
    remaining = (w.sum() - np.bincount(own, w, n)) * (v.sum() - np.bincount(ends, np.tile(v, 2), n))
    alone = (np.bincount(own, minlength=n) == len(own)) | (np.bincount(ends, minlength=n) == len(design.first))
    deleted = np.divide(total - lost, remaining, out=np.full(n, np.nan), where=~alone)
    # Sums of weights differ by rounding where nothing else does, and a variance made of that would be false precision.
    return round(total / float(w.sum() * v.sum()), DECIMALS), deleted.round(DECIMALS)


def disjoint_negatives(first: Rows, second: Rows) -> Rows:
    """Return rows of negative pairs of which no two share an identity, taken in order: independent units at least."""
    used: set[int] = set()
    disjoint = []
    for row, (a, b) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        if a not in used and b not in used:
            used.update((a, b))
            disjoint.append(row)
    return np.array(disjoint, dtype=np.intp)


def _weight_below(query: Rows, reference: Rows, weight: FloatArray, *, start: Rows | None = None) -> FloatArray:
    """Sum the weight of references below each query, [n], equal ones half; of those from ``start`` on, where given."""
    order = np.argsort(reference, kind="stable")
    ranked, upto = reference[order], np.concatenate([[0.0], np.cumsum(weight[order])])
    below = (upto[np.searchsorted(ranked, query, "left")] + upto[np.searchsorted(ranked, query, "right")]) / 2
    return below if start is None else below - upto[np.searchsorted(ranked, start, "left")]


def _interval(
    estimate: float, deleted: FloatArray, design: PairDesign, scale: Scale, nothing: float, level: float
) -> JackknifeInterval:
    """Compute the jackknife's interval, with its limit towards ``nothing`` moved out.

    The limit counts one more identity that the score fails.
    """
    n = int(design.has_positive.sum())
    if n < 2 or not np.isfinite(deleted).all():
        low = 0.0 if scale == "logit" else -1.0
        reason = "fewer than two identities with positive pairs: the whole range"
        return JackknifeInterval(estimate, low, 1.0, float("nan"), design.n_identities, 1, reason)
    kind = design.has_positive.astype(np.intp)
    units = _disjoint_triples(design) if scale == "logit" and estimate in (0.0, 1.0) else None
    interval = jackknife(estimate, deleted, kind, scale=scale, pairs=units, level=level)
    variance, _ = jackknife_variance(deleted, kind)
    if not variance:
        return interval
    half = float(scipy.stats.t.ppf((1 + level) / 2, n - 1)) * np.sqrt(variance + ((estimate - nothing) / (n + 1)) ** 2)
    method = f"jackknife over identities, t on {scale} scale, one identity more that the score fails"
    if estimate > nothing:
        return replace(interval, low=min(interval.low, max(estimate - half, -1.0)), method=method)
    return replace(interval, high=max(interval.high, min(estimate + half, 1.0)), method=method)


def _disjoint_triples(design: PairDesign) -> int:
    """Count the triples of a positive and a negative pair in which no identity serves twice; 1 at least."""
    free = design.has_positive.copy()
    spare = int(free.sum())
    count = 0
    for row in disjoint_negatives(design.first, design.second):
        ends = [int(end) for end in (design.first[row], design.second[row]) if free[end]]
        if spare - len(ends) <= count:
            continue
        free[ends] = False
        spare -= len(ends)
        count += 1
    return max(min(count, spare), 1)


def check_scores(score: ArrayLike, design: PairDesign) -> FloatArray:
    """Return the scores, [N], one per pair of the design.

    Raises:
        InputError: Another number of scores, or a score is NaN.
    """
    values = np.asarray(score, dtype=np.float64)
    if values.shape != design.positive.shape:
        raise InputError(f"{values.shape} scores and {design.positive.shape} pairs do not fit; give one score per pair")
    if np.isnan(values).any():
        raise InputError(f"{int(np.isnan(values).sum())} of {len(values)} scores are NaN; leave these pairs out")
    return values


def missing_pairs_reason(design: PairDesign) -> str | None:
    """Explain why the AUC does not exist."""
    if not len(design.own):
        return "no identity has two images, so that no positive pair exists"
    return None if len(design.first) else "no negative pair exists"
