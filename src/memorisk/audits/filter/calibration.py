"""The threshold of each detector, from one random positive pair of each new identity and family of copies.

A family is a kind of copies that the guarantee is about (METHODS section 4, "Guarantee"). ``re-identification``
pairs two different images of one identity. Every family of `memorisk.images.alterations.families` pairs
an image with a copy of it, its strength drawn evenly from the family's. ``flipped`` and ``cropped`` pair it with a
copy that the audit of a synthetic set plants under that name (`memorisk.images.alterations.plants`).

D detectors and F families share the confidence: each threshold is made with delta / (D F), and a detector rejects
from the smallest of its families' thresholds on, so that the miss rate of every family is kept for all of them at
once. Each is the more cautious of two: of the identities as given, and of one random identity among look-alikes
(METHODS section 6, "Filter").
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from memorisk.audits.filter.families import Family
from memorisk.audits.filter.options import ScreeningOptions
from memorisk.audits.filter.screening import ScreeningDetector
from memorisk.audits.filter.sets import FilterSets
from memorisk.audits.pseudonyms import draw_seed
from memorisk.images.alterations.families import ALL_FAMILIES, PLANTED
from memorisk.images.alterations.graded import augmented
from memorisk.images.alterations.planting import plant_copy
from memorisk.images.alterations.plants import find_plant_kind
from memorisk.images.store import ImageStore, store_of_pixels
from memorisk.runs.workload import Progress
from memorisk.statistics.copies.calibration import one_per_group
from memorisk.statistics.intervals.shares import Proportion, clopper_pearson
from memorisk.statistics.pairs.guarantee import MissGuarantee, Readings, both_readings
from memorisk.statistics.pairs.identity_pairs import one_positive_each

_STREAM = 61  # keeps these draws apart from others of the same seed


@dataclass(frozen=True, eq=False)
class PositivePairs:
    """One random positive pair of each identity that has one."""

    family: Family
    first: np.ndarray
    """Rows of the calibration images, [n]."""
    second: np.ndarray
    """Rows of the second images of the pairs, [n], among the calibration images, or among the copies where there are
    any."""
    copies: ImageStore | None
    """Copies of the images, n of them; None for re-identification."""
    strength: np.ndarray
    """Strengths of the copies, [n]; NaN for re-identification and planted kinds."""

    def __len__(self) -> int:
        return len(self.first)


def identities(family: Family, store: ImageStore | None) -> np.ndarray:
    """Return the ids, [n], sorted, of the identities that give a pair of a family.

    Args:
        family: Family of copies.
        store: Calibration images; None without calibration.
    """
    if store is None:
        return np.empty(0, dtype=str)
    ids, counts = np.unique(store.manifest.groups.astype(str), return_counts=True)
    return ids if family.copied else ids[counts > 1]


def draw_pairs(family: Family, store: ImageStore, seed: int) -> PositivePairs:
    """Return one random positive pair of each identity, drawn by the seed and the family alone.

    Args:
        family: Family of copies.
        store: Calibration images.
        seed: Seed from which pairs, sources, strengths and copies are drawn.

    Raises:
        InputError: Images that cannot be augmented.
    """
    stream = 1 + ALL_FAMILIES[family.name].stream if family.copied else 0
    rng = np.random.default_rng([_STREAM, seed, stream])
    groups = store.manifest.groups.astype(str)
    first_seed, second_seed = (int(value) for value in rng.integers(1 << 32, size=2))
    if not family.copied:
        pairs = one_positive_each(groups, seed=first_seed)
        return PositivePairs(family, pairs.first, pairs.second, None, np.full(len(pairs), np.nan))
    rows = one_per_group(groups, seed=first_seed)
    if family.name in PLANTED:
        strength, pixels = np.full(len(rows), np.nan), _planted(family, store, rows, second_seed)
    else:
        strength = np.array(family.strengths)[rng.integers(len(family.strengths), size=len(rows))]
        pixels = np.empty((len(rows), *store.images.shape[1:]), store.images.dtype)
        for value in family.strengths:
            here = strength == value
            if here.any():
                pixels[here] = augmented(store.images, rows[here], family.name, value, seed=second_seed)
    copies = store_of_pixels(pixels, store, "calibration copies")
    return PositivePairs(family, rows, np.arange(len(rows)), copies, strength)


def _planted(family: Family, store: ImageStore, rows: np.ndarray, seed: int) -> np.ndarray:
    """Return copies as the audit plants them, [n, H, W, C]; an unchanged image is its own copy."""
    kind = find_plant_kind(family.name)
    pixels = np.empty((len(rows), *store.images.shape[1:]), store.images.dtype)
    for place, row in enumerate(rows):
        image = np.asarray(store.images[row])
        copy = plant_copy(kind, image, image, np.random.default_rng([_STREAM, seed, int(row)]))
        pixels[place] = image if copy is None else copy.pixels
    return pixels


@dataclass(frozen=True, eq=False)
class CalibratedThreshold:
    """Threshold of one detector for one family."""

    detector: int
    """Place of the detector in the order in which the detectors were given."""
    family: Family
    group: np.ndarray
    """Identities of the pairs, [n]."""
    strength: np.ndarray
    """Strengths of the copies, [n]."""
    score: np.ndarray
    """Scores of the pairs, [n]."""
    readings: Readings
    """Readings of the guarantee by these scores."""

    @property
    def guarantee(self) -> MissGuarantee:
        """Guarantee of the more cautious reading."""
        return self.readings.cautious

    def missed(self, threshold: float) -> Proportion:
        """Count the pairs below a threshold, with an interval that holds where other pairs gave the threshold."""
        return clopper_pearson(int((self.score < threshold).sum()), len(self.score))


def counted_guarantees(
    sets: FilterSets, families: Sequence[Family], shared: int, options: ScreeningOptions
) -> list[MissGuarantee]:
    """Count, family by family, whether there are enough identities, before any score; the thresholds mean nothing.

    Args:
        sets: Sets with the calibration images of new identities and the look-alikes among them.
        families: Kinds of copies.
        shared: Number of thresholds that share the confidence: detectors times families.
        options: Miss rate and confidence.
    """
    ids = [identities(family, sets.calibration) for family in families]
    return [_readings(np.zeros(len(each)), each, sets, shared, options).cautious for each in ids]


def calibrate(
    opened: Sequence[ScreeningDetector],
    sets: FilterSets,
    families: Sequence[Family],
    shared: int,
    options: ScreeningOptions,
    progress: Progress,
) -> list[CalibratedThreshold]:
    """Return the scores and thresholds of every detector and family; none without calibration images.

    Args:
        opened: The detectors, with what they compare by.
        sets: Sets with the calibration images of new identities and the look-alikes among them.
        families: Kinds of copies.
        shared: Number of thresholds that share the confidence: detectors times families.
        options: Miss rate, confidence, seed, device.
        progress: Called with (stage, done, total).

    Raises:
        InputError: Features are not available, or the measure does not take some.
    """
    store = sets.calibration
    if store is None:
        return []
    thresholds = []
    for family in families:
        pairs = draw_pairs(family, store, draw_seed(options, options.seed))
        for place, detector in enumerate(opened):
            score = _scores(detector, store, pairs, progress)
            group = store.manifest.groups.astype(str)[pairs.first]
            readings = _readings(score, group, sets, shared, options)
            thresholds.append(CalibratedThreshold(place, family, group, pairs.strength, score, readings))
    return sorted(thresholds, key=lambda each: each.detector)


def guaranteed_thresholds(thresholds: Sequence[CalibratedThreshold], n_detectors: int) -> list[float]:
    """Return the smallest threshold over families, detector by detector.

    Args:
        thresholds: Thresholds that `calibrate` returns.
        n_detectors: Number of detectors.
    """
    return [min(each.guarantee.threshold for each in thresholds if each.detector == d) for d in range(n_detectors)]


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


def _scores(opened: ScreeningDetector, store: ImageStore, pairs: PositivePairs, progress: Progress) -> np.ndarray:
    """Return the score of each pair, [n].

    A pair that cannot be compared gets the highest score: such an image is rejected, hence not missed.
    """
    if not len(pairs):
        return np.empty(0)
    first = opened.features(store, progress).values
    second = first if pairs.copies is None else opened.features(pairs.copies, progress).values
    one, other = first[pairs.first], second[pairs.second]
    good = opened.usable(one) & opened.usable(other)
    score = np.full(len(pairs), opened.top)
    if good.any():
        score[good] = opened.similarity.scores(one[good], other[good])
        score[~good] = max(opened.top, score[good].max())
    return score
