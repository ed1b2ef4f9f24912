"""Who could be listed at all: a patient of many images has small p-values only beside held-out patients of as many.

What limits a pass where it does: neither more planted copies nor a better detector finds a copy of a patient whose
smallest possible p-value lies above the cut.
"""

from dataclasses import dataclass

import numpy as np

from memorisk.statistics.nulls import unit_p_values
from memorisk.statistics.proportions import clopper_pearson
from memorisk.statistics.reversed_queries import held_out_needed

_ROUNDING = 1e-12


@dataclass(frozen=True)
class Reach:
    """Training patients who could be listed at the cut of the list that a pass needs, and what would let more of them.

    By numbers of images alone, whatever is measured.
    """

    listable: int
    """Training patients whose smallest possible p-value is at most the cut ``q copied / m``."""
    patients: int
    """m."""
    cut: float
    """Of a list of ``copied`` patients."""
    images: int
    """Images a held-out patient should have so that enough training patients could be listed."""
    there: int
    """Held-out patients who have so many."""
    needed: int
    """Such held-out patients with which that would be so."""
    then: int
    """Training patients who could be listed with them."""

    @property
    def enough(self) -> bool:
        """Whether everybody could be listed."""
        return self.listable == self.patients


def smallest_p(n_images: np.ndarray, held_images: np.ndarray) -> np.ndarray:
    """[U] The smallest p-value that each training patient could have, compared at as many images.

    Args:
        n_images: [U] of each training patient.
        held_images: [n] of each held-out patient.
    """
    sizes, back = np.unique(n_images, return_inverse=True)
    unit, other = np.repeat(np.arange(len(sizes)), sizes), np.repeat(np.arange(len(held_images)), held_images)
    return unit_p_values(np.zeros(len(unit)), unit, np.zeros(len(other)), other).floor[back]


def reach_of(n_images: np.ndarray, held_images: np.ndarray, copied: int, level: float, recall: float) -> Reach:
    """Who could be listed, and the fewest images a held-out patient with which enough of them could.

    Enough are so many that a detector which misses nobody would pass with a planted copy of each training patient
    (lower limit of the share at least ``recall``); all of them where no number suffices.

    Args:
        n_images: [U] of each training patient.
        held_images: [n] of each held-out patient, one or more.
        copied: Copied patients that a pass must be able to list.
        level: Of the list.
        recall: What a pass needs of every kind.
    """
    m, needed = len(n_images), held_out_needed(len(n_images), copied, level)
    cut = level * copied / m
    listable = _at_most(smallest_p(n_images, held_images), cut)
    for images in np.unique(n_images).tolist():
        there = int((held_images >= images).sum())
        more = np.full(max(0, needed - there), images)
        then = _at_most(smallest_p(n_images, np.concatenate([held_images, more])), cut)
        if then > listable and could_pass(then, m, recall):
            return Reach(listable, m, cut, images, there, max(needed, there), then)
    most = int(n_images.max())
    there = int((held_images >= most).sum())
    return Reach(listable, m, cut, most, there, max(needed, there), m)


def could_pass(found: int, patients: int, recall: float) -> bool:
    """Whether a copy of every patient would show the recall, were so many found: ``CP_lower(found, patients)``.

    Args:
        found: Patients whose copy is found.
        patients: All of them.
        recall: What the lower limit must reach.
    """
    return clopper_pearson(found, patients).low >= recall


def _at_most(p: np.ndarray, cut: float) -> int:
    return int((p <= cut * (1 + _ROUNDING)).sum())
