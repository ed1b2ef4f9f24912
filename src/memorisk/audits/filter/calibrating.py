"""The threshold of each detector from one random positive pair of each new identity, for each family of copies.

METHODS section 4, "Guarantee". D detectors and F families share the confidence: each threshold is made with
delta / (D F), and a detector rejects from the smallest of its families' thresholds on, so that the miss rate of every
family is kept for all of them at once. Each is the more cautious of two: of the identities as given, and of one random
one of those who look alike (METHODS section 6, "Filter").
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from memorisk.audits.filter.families import Family, PositivePairs, draw_pairs, identities
from memorisk.audits.filter.measuring import Opened
from memorisk.audits.filter.options import ScreeningOptions
from memorisk.audits.filter.sets import FilterSets
from memorisk.images.store import ImageStore
from memorisk.runs.progress import Progress
from memorisk.statistics.pairs.guarantee import MissGuarantee, Readings, both_readings
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
    readings: Readings
    """By these scores."""

    @property
    def guarantee(self) -> MissGuarantee:
        """The more cautious reading's."""
        return self.readings.cautious

    def missed(self, threshold: float) -> Proportion:
        """Pairs below a threshold. An interval for the miss rate where the threshold was not made from these pairs."""
        return clopper_pearson(int((self.score < threshold).sum()), len(self.score))


def counted_guarantees(
    sets: FilterSets, families: Sequence[Family], n_detectors: int, options: ScreeningOptions
) -> list[MissGuarantee]:
    """Whether there are enough identities, family by family, before anything is computed; the thresholds mean nothing.

    Args:
        sets: With the calibration images of new identities, and who of them looks alike.
        families: Kinds of copies.
        n_detectors: How many share the confidence, with the families.
        options: Miss rate and confidence.
    """
    ids = [identities(family, sets.calibration) for family in families]
    shared = n_detectors * len(families)
    return [_readings(np.zeros(len(each)), each, sets, shared, options).cautious for each in ids]


def calibrate(
    opened: Sequence[Opened],
    sets: FilterSets,
    families: Sequence[Family],
    options: ScreeningOptions,
    progress: Progress,
) -> list[Calibrated]:
    """Scores and thresholds of every detector and family; none without calibration images.

    Args:
        opened: The detectors, with what they compare by.
        sets: With the calibration images of new identities, and who of them looks alike.
        families: Kinds of copies.
        options: Miss rate, confidence, seed, device.
        progress: Called with (stage, done, total).

    Raises:
        InputError: Features cannot be had, or the measure does not take some.
    """
    store = sets.calibration
    if store is None:
        return []
    found, shared = [], len(opened) * len(families)
    for family in families:
        pairs = draw_pairs(family, store, options.seed)
        for place, detector in enumerate(opened):
            score = _scores(detector, store, pairs, options, progress)
            group = store.manifest.groups.astype(str)[pairs.first]
            readings = _readings(score, group, sets, shared, options)
            found.append(Calibrated(place, family, group, pairs.strength, score, readings))
    return sorted(found, key=lambda each: each.detector)


def guaranteed_thresholds(found: Sequence[Calibrated], n_detectors: int) -> list[float]:
    """The smallest threshold over families, detector by detector.

    Args:
        found: Of `calibrate`.
        n_detectors: How many.
    """
    return [min(each.guarantee.threshold for each in found if each.detector == d) for d in range(n_detectors)]


def _readings(
    score: np.ndarray, group: np.ndarray, sets: FilterSets, shared: int, options: ScreeningOptions
) -> Readings:
    unit = np.array([sets.alike.unit[name] for name in group], dtype=np.int64)
    return both_readings(
        score,
        unit,
        seed=options.seed,
        miss_rate=options.miss_rate,
        confidence=options.confidence,
        detectors=shared,
    )


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
