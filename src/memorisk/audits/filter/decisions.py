"""Decisions on synthetic images: which are kept and why not, which patients they expose, and what filtering costs.

Every image of the set has an answer. A rejected image points at a training patient by the very pixels of a training
image, or by a score.

METHODS section 4: the cost is stated per synthetic image against the whole training set. It is images by class,
diversity before and after, and the share of real images that would be rejected. Real images of the calibration are
copies of no patient, and show which share is rejected without being a copy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from memorisk.audits.filter.result import ExposedPatients
from memorisk.audits.filter.screening import Matches, Screening, reaching
from memorisk.audits.filter.sets import FilterSets
from memorisk.audits.filter.wording import NOT_FILTERED, PIXELS, SCORE, UNREADABLE
from memorisk.statistics.copies.calibration import one_per_group
from memorisk.statistics.intervals.shares import Proportion, clopper_pearson
from memorisk.statistics.quality.retrieval_score import RetrievalScore, irs_of


@dataclass(frozen=True, eq=False)
class Decision:
    """An answer for every synthetic image."""

    place: np.ndarray
    """Row of each image among those that could be read, [N]; -1 for the others."""
    reason: np.ndarray
    """Reason of the rejection, [N], one of `REASONS`; empty for kept images."""

    @property
    def kept(self) -> np.ndarray:
        """Return which images are kept, [N] of bool."""
        return self.reason == ""

    def of_readable(self, n: int) -> np.ndarray:
        """Return whether each image that could be read is kept, [S]."""
        readable = np.zeros(n, dtype=bool)
        readable[self.place[self.kept]] = True
        return readable


def decide_kept(sets: FilterSets, screened: Screening | None) -> Decision:
    """Keep or reject.

    Args:
        sets: The images.
        screened: Scores of the images; None without a threshold, where nothing is kept.
    """
    row = {image: i for i, image in enumerate(sets.synthetic.manifest.images)}
    place = np.array([row.get(image, -1) for image in sets.candidates.images], dtype=np.int64)
    reason = np.full(len(place), UNREADABLE, dtype=object)
    read = place >= 0
    reason[read] = NOT_FILTERED if screened is None else screened.reason[place[read]]
    return Decision(place, reason)


def exposed_patients(screened: Screening | None, patients: np.ndarray) -> ExposedPatients:
    """Find the training patients nearest to rejected images, and whether pixels or a score expose them.

    Args:
        screened: Scores of the images; None without a threshold.
        patients: Patients of the training images, [N].
    """
    if screened is None:
        return ExposedPatients()
    nearest = screened.nearest
    pointed = np.unique(patients[nearest[np.isin(screened.reason, (SCORE, PIXELS))]])
    identical = np.unique(patients[screened.identical[screened.identical >= 0]])
    singled = np.setdiff1d(patients[nearest[screened.singled_out]], identical)
    return ExposedPatients(
        n_exposed_patients=len(identical) + len(singled),
        n_identical_patients=len(identical),
        n_by_score_patients=len(np.setdiff1d(pointed, identical)),
        n_singled_patients=len(singled),
    )


_STREAM = 67  # keeps these draws apart from others of the same seed


@dataclass(frozen=True)
class Diversity:
    """IRS of some images by one detector: how much of the training set they reach as nearest neighbours."""

    detector: int
    """Place of the detector in the order in which the detectors were given."""
    images: str
    """"before", "kept" or "held-out real"."""
    score: RetrievalScore
    """IRS of all these images."""
    equal: RetrievalScore
    """IRS of a random part as large as the smallest of these sets, since IRS grows with the number of images."""


def real_share(
    matches: Sequence[Matches], thresholds: Sequence[float], sets: FilterSets, seed: int
) -> tuple[Proportion | None, np.ndarray]:
    """Share of new patients whose real image would be rejected, one random image each.

    Args:
        matches: Matches of the calibration images, by detector.
        thresholds: Threshold of each detector.
        sets: Sets that give the patients.
        seed: Seed from which the image of each patient is drawn.

    Returns:
        Share with its interval over patients, None without calibration images; and whether each real image would be
        rejected, [M].
    """
    if sets.calibration is None:
        return None, np.empty(0, dtype=bool)
    rejected = np.array(np.any(reaching(matches, thresholds), axis=0))
    each = rejected[_one_row_per_patient(sets, seed)]
    return clopper_pearson(int(each.sum()), len(each)), rejected


def synthetic_share(screened: Screening, chosen: np.ndarray | None = None) -> Proportion:
    """Share of synthetic images that reach a threshold, with its interval over images.

    Args:
        screened: Scores of all images.
        chosen: Rows of the images that are counted, [n]; None for all.
    """
    rejected = np.any(screened.reaches(screened.synthetic), axis=0)
    rejected = rejected if chosen is None else rejected[chosen]
    return clopper_pearson(int(rejected.sum()), len(rejected))


def diversity(screened: Screening, chosen: Mapping[str, np.ndarray], sets: FilterSets, seed: int) -> list[Diversity]:
    """Compute the IRS of selections of images, and of real images of new patients, one each, by every detector.

    Args:
        screened: Scores of all images.
        chosen: Rows of the synthetic images, by the name of each selection.
        sets: Sets that give the training images and the patients.
        seed: Seed from which images are drawn.
    """
    diversities = []
    for place, matches in enumerate(screened.synthetic):
        rows = {what: matches.row[some] for what, some in chosen.items()}
        if sets.calibration is not None:
            rows["held-out real"] = screened.real[place].row[_one_row_per_patient(sets, seed)]
        rows = {what: some[some >= 0] for what, some in rows.items() if (some >= 0).any()}
        fewest = min(map(len, rows.values()), default=0)
        for what, some in rows.items():
            drawn = np.random.default_rng([_STREAM, seed, place]).permutation(len(some))[:fewest]
            scores = (irs_of(r, len(sets.train.images)) for r in (some, some[drawn]))
            diversities.append(Diversity(place, what, *scores))
    return diversities


def _one_row_per_patient(sets: FilterSets, seed: int) -> np.ndarray:
    """Return the row of one random calibration image of each patient, [G]."""
    assert sets.calibration is not None
    drawn = int(np.random.default_rng([_STREAM, seed]).integers(1 << 32))
    return one_per_group(sets.calibration.manifest.groups.astype(str), seed=drawn)
