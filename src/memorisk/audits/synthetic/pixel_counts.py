"""Counts of pairs with equal or nearly equal pixels, and statistics of the literature in addition to the audit's."""

import math

import numpy as np
import scipy

from memorisk.audits.comparison.distances import Distances, PixelCopies
from memorisk.audits.comparison.review import Review
from memorisk.audits.comparison.review_files import CONFIRM
from memorisk.audits.comparison.sets import Sets, images_by_part
from memorisk.audits.synthetic.result import CellTest, PixelPairs, Published
from memorisk.statistics.copies.calibration import one_per_group
from memorisk.statistics.copies.copy_tests import authenticity, data_copying, wasserstein
from memorisk.statistics.exchangeability.image_numbers import ImageCounts


def count_pixel_pairs(
    sets: Sets, copies: PixelCopies, review: Review, counted: ImageCounts | None, n_dismissed_patients: int
) -> PixelPairs:
    """Count pairs of all images, and test those that count.

    Args:
        sets: Images with their patients.
        copies: Copies by pixels.
        review: Judgements of pairs by a person.
        counted: Images by which patients are compared; None without held-out images.
        n_dismissed_patients: Number of patients who would be listed, had no pair been dismissed.
    """
    patients, rule = sets.train.manifest.groups.astype(str), copies.rule
    held = np.empty(0, dtype=str) if sets.held is None else sets.held.manifest.groups.astype(str)
    certain = (copies.identical >= 0) & ~copies.in_both
    ours = np.isin(np.arange(len(patients)), copies.near_train.second)
    theirs = np.isin(np.arange(len(held)), copies.near_held.second)
    n, m = len(np.unique(patients)), len(np.unique(held))
    before = ours | np.isin(np.arange(len(patients)), [real for _, real in copies.dismissed_near])
    changed = review.changed

    def random_split_p(train: np.ndarray) -> float | None:
        """Return `near_p` of the patients of some training images, and of the held-out ones; None without any."""
        some = [train, theirs] if counted is None else [_within(train, counted.train), _within(theirs, counted.held)]
        p = near_p(len(np.unique(patients[some[0]])), len(np.unique(held[some[1]])), n, m)
        return None if math.isnan(p) else p

    return PixelPairs(
        n_confirmed_pairs=len(review.pairs(sets, review.confirmed)),
        n_dismissed_pairs=len(copies.dismissed),
        n_dismissed_identical_pairs=len(copies.dismissed_identical),
        n_dismissed_identical_images=len({image for image, _ in copies.dismissed_identical}),
        n_dismissed_near_pairs=len(copies.dismissed_near),
        dismissed_near_p=random_split_p(before) if copies.dismissed_near else None,
        n_dismissed_patients=n_dismissed_patients,
        n_changed_pairs=len(changed),
        n_changed_copies=sum(pair.verdict == CONFIRM for pair in changed),
        n_certain_images=int(certain.sum()),
        n_certain_patients=len(np.unique(patients[copies.identical[certain]])),
        n_shared_images=int(copies.in_both.sum()),
        n_held_images=int((copies.identical_held >= 0).sum()),
        other_copies=_copies_by_part(sets, copies),
        n_near_train_patients=len(np.unique(patients[ours])),
        n_near_held_patients=None if counted is None else len(np.unique(held[theirs])),
        near_rule=None if rule is None else rule.words,
        near_threshold=None if rule is None else rule.chance.similarity,
        near_p=random_split_p(ours),
    )


def _copies_by_part(sets: Sets, copies: PixelCopies) -> dict[str, int]:
    """Count the synthetic images with the pixels of a further part of TRAIN, by the part."""
    rows = copies.identical_other[copies.identical_other >= 0]
    return {} if sets.others is None or not len(rows) else images_by_part(sets.others.manifest.subset(rows))


def _within(chosen: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return which of these rows are chosen, [n]."""
    within = np.zeros(len(chosen), bool)
    within[rows] = chosen[rows]
    return within


def near_p(train: int, held: int, n_train: int, n_held: int) -> float:
    """Return the hypergeometric probability of at least so many training patients with a near copy, by a random split.

    Args:
        train: Number of training patients with a near copy.
        held: Number of held-out patients with a near copy.
        n_train: Number of training patients.
        n_held: Number of held-out patients; 0 gives NaN.
    """
    if not n_held or not train + held:
        return math.nan
    return float(scipy.stats.hypergeom.sf(train - 1, n_train + n_held, train + held, n_train))


def literature_statistics(distances: Distances, held_patients: np.ndarray, seed: int) -> Published | None:
    """Compute the literature's statistics by one detector; None where real images are not compared with each other.

    They mix copies with a narrow spread, and are never used for the verdict.

    Args:
        distances: Distances of the detector.
        held_patients: Patient of each held-out image, [M].
        seed: Seed of the draw of one image from each patient.
    """
    if distances.among_train is None:
        return None
    ours = distances.synthetic, distances.nearest, distances.among_train
    if not len(held_patients):
        return Published(wasserstein=None, c_t=None, authentic=authenticity(*ours))
    new = distances.held_to_train[one_per_group(held_patients, seed=seed)]
    c_t = data_copying(distances.synthetic, new)
    return Published(
        wasserstein=wasserstein(distances.synthetic, new, seed=seed),
        c_t=None if c_t is None else CellTest(c_t=c_t.c_t, p=c_t.p_value),
        authentic=authenticity(*ours, distances.held_to_train, distances.held_to_train_nearest, held_patients),
    )
