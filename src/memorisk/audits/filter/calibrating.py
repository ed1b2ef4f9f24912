"""The threshold of each detector from one random positive pair of each new identity, for each family of copies.

METHODS section 4, "Guarantee". D detectors and F families share the confidence: each threshold is made with
delta / (D F), and a detector rejects from the smallest of its families' thresholds on, so that the miss rate of every
family is kept for all of them at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from memorisk.audits.filter.families import Family, PositivePairs, draw_pairs, identities
from memorisk.audits.filter.measuring import Opened
from memorisk.audits.filter.options import ScreeningOptions
from memorisk.images.store import ImageStore
from memorisk.runs.progress import Progress
from memorisk.statistics.guarantee import MissGuarantee, miss_guarantee
from memorisk.statistics.proportions import Proportion, clopper_pearson


@dataclass(frozen=True, eq=False)
class Calibrated:
    """One detector and one family."""

    detector: int
    """Which, as they were given."""
    family: Family
    group: np.ndarray
    """[n] identities."""
    strength: np.ndarray
    """[n] of the copies."""
    score: np.ndarray
    """[n] of the pairs."""
    guarantee: MissGuarantee
    """By these scores."""

    def missed(self, threshold: float) -> Proportion:
        """Pairs below a threshold. An interval for the miss rate where the threshold was not made from these pairs."""
        return clopper_pearson(int((self.score < threshold).sum()), len(self.score))


def counted_guarantees(
    store: ImageStore | None, families: Sequence[Family], n_detectors: int, options: ScreeningOptions
) -> list[MissGuarantee]:
    """Whether there are enough identities, family by family, before anything is computed; the thresholds mean nothing.

    Args:
        store: Calibration images of new identities; None for none.
        families: Kinds of copies.
        n_detectors: How many share the confidence, with the families.
        options: Miss rate and confidence.
    """
    return [_guarantee(np.zeros(identities(f, store)), n_detectors * len(families), options) for f in families]


def calibrate(
    opened: Sequence[Opened],
    store: ImageStore,
    families: Sequence[Family],
    options: ScreeningOptions,
    progress: Progress,
) -> list[Calibrated]:
    """Scores and thresholds of every detector and family.

    Args:
        opened: The detectors, with what they compare by.
        store: Calibration images of new identities.
        families: Kinds of copies.
        options: Miss rate, confidence, seed, device.
        progress: Called with (stage, done, total).

    Raises:
        InputError: Features cannot be had, or the measure does not take some.
    """
    found, shared = [], len(opened) * len(families)
    for family in families:
        pairs = draw_pairs(family, store, options.seed)
        for place, detector in enumerate(opened):
            score = _scores(detector, store, pairs, options, progress)
            group = store.manifest.groups.astype(str)[pairs.first]
            guarantee = _guarantee(score, shared, options)
            found.append(Calibrated(place, family, group, pairs.strength, score, guarantee))
    return sorted(found, key=lambda each: each.detector)


def guaranteed_thresholds(found: Sequence[Calibrated], n_detectors: int) -> list[float]:
    """The smallest threshold over families, detector by detector.

    Args:
        found: Of `calibrate`.
        n_detectors: How many.
    """
    return [min(each.guarantee.threshold for each in found if each.detector == d) for d in range(n_detectors)]


def _guarantee(score: np.ndarray, shared: int, options: ScreeningOptions) -> MissGuarantee:
    return miss_guarantee(score, miss_rate=options.miss_rate, confidence=options.confidence, detectors=shared)


def _scores(
    opened: Opened, store: ImageStore, pairs: PositivePairs, options: ScreeningOptions, progress: Progress
) -> np.ndarray:
    """[n] of each pair. One that cannot be compared gets the highest: such an image is rejected, hence not missed."""
    if not len(pairs):
        return np.empty(0)
    first = opened.features(store, options, progress).values
    second = first if pairs.copies is None else opened.features(pairs.copies, options, progress).values
    left, right = first[pairs.first], second[pairs.second]
    good = opened.usable(left) & opened.usable(right)
    score = np.full(len(pairs), opened.top)
    if good.any():
        score[good] = opened.similarity.scores(left[good], right[good])
        score[~good] = max(opened.top, score[good].max())
    return score
