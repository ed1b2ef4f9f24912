"""Counts of pairs with equal or nearly equal pixels, and statistics of the literature in addition to the audit's."""

import math
from dataclasses import dataclass

import numpy as np
import scipy

from memorisk.audits.comparison.distances import Distances, PixelCopies
from memorisk.audits.comparison.review import Review
from memorisk.audits.comparison.sets import Sets
from memorisk.statistics.copies.calibration import one_per_group
from memorisk.statistics.copies.copy_tests import (
    Authenticity,
    DataCopying,
    WassersteinTest,
    authenticity,
    data_copying,
    wasserstein,
)
from memorisk.statistics.exchangeability import ImageCounts


@dataclass(frozen=True)
class PixelCounts:
    """Counts of copies that pixels or a person show, by patient, for training and for held-out images."""

    certain: int
    """Number of synthetic images with the pixels of a training image that no held-out image shares."""
    certain_patients: int
    """Number of training patients whose images these are."""
    confirmed: list[tuple[int, int]]
    """Pairs that a person confirmed as copies: rows of the synthetic and the training image."""
    dismissed: list[tuple[int, int]]
    """Pairs that a person dismissed, which count nowhere else."""
    dismissed_identical: frozenset[tuple[int, int]]
    """Dismissed pairs with the pixels of a training image that no held-out image shares."""
    dismissed_near: int
    """Number of other dismissed pairs that are nearly identical."""
    dismissed_near_p: float
    """``near_p`` if the patients of these were counted, too; NaN where nothing nearly identical was dismissed."""
    in_both: int
    """Number of synthetic images with pixels that training and held-out images share."""
    held: int
    """Number of synthetic images with a held-out image's pixels and no training image's: the null of ``certain``."""
    near_train: int
    """Number of training patients with a nearly identical synthetic image."""
    near_held: int
    """Number of held-out patients with a nearly identical synthetic image."""
    near_p: float
    """Probability that at least so many of these patients are training ones, of a random split, by the images that
    count (`ReversedQueries.counted`); NaN without any."""


@dataclass(frozen=True)
class LiteratureStatistics:
    """Statistics of the literature, which mix copies with a narrow spread; never used for the verdict."""

    wasserstein: WassersteinTest | None
    """Test of distances to the training images: synthetic against held-out ones, one image for each patient."""
    c_t: DataCopying | None
    """C_T of one cell."""
    authentic: Authenticity
    """Share of synthetic images farther from their training image than that from its next."""


def count_pixel_pairs(
    sets: Sets, copies: PixelCopies, patients: np.ndarray, held: np.ndarray, review: Review,
    counted: ImageCounts | None,
) -> PixelCounts:  # fmt: skip
    """Count pairs of all images, and test those that count."""
    certain = (copies.identical >= 0) & ~copies.in_both
    ours = np.isin(np.arange(len(patients)), copies.near_train.second)
    theirs = np.isin(np.arange(len(held)), copies.near_held.second)
    n, m = len(np.unique(patients)), len(np.unique(held))
    before = ours | np.isin(np.arange(len(patients)), [real for _, real in copies.dismissed_near])

    def random_split_p(train: np.ndarray) -> float:
        """Return `near_p` of the patients of some training images, and of the held-out ones."""
        some = [train, theirs] if counted is None else [_within(train, counted.train), _within(theirs, counted.held)]
        return near_p(len(np.unique(patients[some[0]])), len(np.unique(held[some[1]])), n, m)

    return PixelCounts(
        certain=int(certain.sum()),
        certain_patients=len(np.unique(patients[copies.identical[certain]])),
        confirmed=review.pairs(sets, review.confirmed),
        dismissed=review.pairs(sets, review.dismissed),
        dismissed_identical=copies.dismissed_identical,
        dismissed_near=len(copies.dismissed_near),
        dismissed_near_p=random_split_p(before) if copies.dismissed_near else math.nan,
        in_both=int(copies.in_both.sum()),
        held=int((copies.identical_held >= 0).sum()),
        near_train=len(np.unique(patients[ours])),
        near_held=len(np.unique(held[theirs])),
        near_p=random_split_p(ours),
    )


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


def literature_statistics(distances: Distances, held_patients: np.ndarray, seed: int) -> LiteratureStatistics | None:
    """Compute the literature's statistics by one detector; None where real images are not compared with each other.

    Args:
        distances: Distances of the detector.
        held_patients: Patient of each held-out image, [M].
        seed: Seed of the draw of one image from each patient.
    """
    if distances.among_train is None:
        return None
    if not len(held_patients):
        alone = authenticity(distances.synthetic, distances.nearest, distances.among_train)
        return LiteratureStatistics(None, None, alone)
    one_each = one_per_group(held_patients, seed=seed)
    new = distances.held_to_train[one_each]
    return LiteratureStatistics(
        wasserstein=wasserstein(distances.synthetic, new, seed=seed),
        c_t=data_copying(distances.synthetic, new),
        authentic=authenticity(
            distances.synthetic,
            distances.nearest,
            distances.among_train,
            distances.held_to_train,
            distances.held_to_train_nearest,
            held_patients,
        ),
    )
