"""Numbers of images of the patients of two parts: are they alike?

A patient's distance to a set of images is that of the nearest of his images, and the nearest of
five is nearer than the nearest of one, without any memory. Two parts of patients are exchangeable, as a random split by
patient makes them, only where their numbers of images are. Wilcoxon's rank sum of these numbers checks whether they are
alike: of every order of patients the number of held-out ones with k images is multivariate hypergeometric, whatever the
ties, so that

    p = min(1, 2 min(1 + #{R* <= R}, 1 + #{R* >= R}) / (draws + 1)),   R the rank sum of the held-out patients,

is valid at any number of draws. Where p is at most 1 % every patient of either part counts by one image, drawn by
lot: one image each compares patients whatever the numbers are, at the price of not looking at the others.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.calibration import one_per_group
from memorisk.statistics.verdicts.levels import PREREQUISITE_LEVEL

N_PERMUTATIONS = 9_999


@dataclass(frozen=True, eq=False)
class ImageCounts:
    """Images by which patients of two parts are compared."""

    train: NDArray[np.intp]
    """Sorted rows of the training images that count."""
    held: NDArray[np.intp]
    """Sorted rows of the held-out images that count."""
    mean_train: float
    """Mean number of images of a training patient, over all images."""
    mean_held: float
    """Mean number of images of a held-out patient, over all images."""
    p_value: float
    """Two-sided p-value of numbers of images as different in a random split by patient."""

    @property
    def one_each(self) -> bool:
        """Return whether every patient counts by one image, since the numbers are not alike."""
        return self.p_value <= PREREQUISITE_LEVEL

    @property
    def words(self) -> str:
        """Note that patients count by one image each, and name the way out; empty elsewhere."""
        if not self.one_each:
            return ""
        return (
            f"Training patients have {self.mean_train:.1f} images on average and held-out patients {self.mean_held:.1f}"
            f" (not alike, p {self.p_value:.2g}): a patient with more images is nearer to any set, without being "
            "memorized. So every patient of both parts counts by one image, drawn by lot, and copies of the others do "
            "not count in the comparison of the two parts. Give held-out patients with as many images as training "
            "patients have."
        )


def image_counts(train_group: ArrayLike, held_group: ArrayLike, *, seed: int = 0) -> ImageCounts:
    """Choose all images where the numbers per patient are alike in both parts, else one of each patient.

    Args:
        train_group: Patient of each training image, [N].
        held_group: Patient of each held-out image, [M].
        seed: Seed of the test's draws and of the lot.

    Raises:
        InputError: A part is empty.

    Source:
        Wilcoxon (1945); the permutation distribution conditional on ties, by draws (Davison and Hinkley 1997, 4.3).

    Example:
        >>> counts = image_counts([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4], [5, 6, 7, 8, 9, 10])
        >>> counts.one_each, len(counts.train), len(counts.held), counts.mean_train
        (True, 5, 6, 3.0)
    """
    ours, theirs = np.asarray(train_group), np.asarray(held_group)
    if not len(ours) or not len(theirs):
        raise InputError("a part without images has no patients to compare; give at least one image of each")
    of_train, of_held = (np.unique(groups, return_counts=True)[1] for groups in (ours, theirs))
    p = _rank_sum_p(of_train, of_held, seed)
    rows = np.arange(len(ours)), np.arange(len(theirs))
    if p <= PREREQUISITE_LEVEL:
        rows = np.sort(one_per_group(ours, seed=seed)), np.sort(one_per_group(theirs, seed=seed))
    return ImageCounts(*rows, float(of_train.mean()), float(of_held.mean()), p)


def _rank_sum_p(of_train: NDArray[np.int64], of_held: NDArray[np.int64], seed: int) -> float:
    """Compute the two-sided p of the held-out patients' rank sum, over random orders of all patients."""
    both = np.concatenate([of_train, of_held])
    value, at, number = np.unique(both, return_index=True, return_counts=True)
    if len(value) == 1:
        return 1.0
    twice = np.rint(2 * scipy.stats.rankdata(both)[at]).astype(np.int64)  # mid-ranks, doubled: whole numbers
    observed = int(twice @ (of_held[:, None] == value).sum(0))
    drawn = np.random.default_rng(seed).multivariate_hypergeometric(number, len(of_held), size=N_PERMUTATIONS) @ twice
    least = min(int((drawn <= observed).sum()), int((drawn >= observed).sum()))
    return min(1.0, 2 * (1 + least) / (1 + N_PERMUTATIONS))
