"""Whom does a detector know? METHODS section 5: it was trained on neither real part, or on both alike.

A detector that was trained on training images and not on held-out ones sees the former otherwise, and the ranks of
section 5 say nothing. Its folder has hashes of the images and patients that it was trained and chosen on
(`models.detectors.detectors`), which are compared with both parts here. Of other encoders nothing is known but their
weights.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from memorisk.audits.synthetic.sets import Sets
from memorisk.images.store import ImageStore
from memorisk.models.detectors.detectors import Detector
from memorisk.models.detectors.lcmem import LatentDetector
from memorisk.runs.errors import InputError
from memorisk.training.detectors.pair_detectors import PairDetector

ALIKE_LEVEL = 0.05
"""Shares of known patients that differ by Fisher's exact test at this level are not alike."""
FEW = 0.05
"""Nor is more than this share of one part, and nobody of the other."""
UNSEEN = "Whom the detector knows cannot be seen: its images were stored otherwise, and patients are not given."


@dataclass(frozen=True)
class Known:
    """Patients of one part that a detector was trained or chosen on."""

    patients: int
    """Of so many an image was seen, or another image of theirs."""
    of: int
    """All of them."""

    @property
    def share(self) -> float:
        """Of the part."""
        return self.patients / self.of


def known_patients(detector: Detector | LatentDetector, store: ImageStore) -> Known | None:
    """How many patients of a part a detector knows: by pixels where they are stored alike, and by patient.

    Where patients are not given, on either side, their place is taken by names of files, which occur anywhere: then
    pixels alone are compared.

    Args:
        detector: With its hashes.
        store: A part.

    Returns:
        The count; None where there is nothing to compare by.
    """
    seen = detector.seen_parts(store)
    known = seen.part != ""
    if not (detector.config.groups_given and store.manifest.groups_given):
        if not seen.pixels_compared:
            return None
        known = np.isin(store.pixel_hashes.astype(str), detector.seen["pixel_hash"].tolist())
    groups = store.manifest.groups.astype(str)
    return Known(len(np.unique(groups[known])), len(np.unique(groups)))


def alike(train: Known, held: Known) -> bool:
    """Whether a detector knows both parts alike: neither, all of both, or shares that chance explains.

    Args:
        train: Training patients.
        held: Held-out patients.
    """
    if min(train.patients, held.patients) == 0 and max(train.share, held.share) > FEW:
        return False
    counts = [[part.patients, part.of - part.patients] for part in (train, held)]
    return float(np.asarray(stats.fisher_exact(counts))[1]) > ALIKE_LEVEL


def detector_notes(asked: PairDetector, sets: Sets) -> tuple[str, ...]:
    """What must be said of whom a detector knows; nothing where the features are no detector's.

    Args:
        asked: What compares images.
        sets: The images.

    Raises:
        InputError: It knows training patients and not held-out ones, or the other way round.
    """
    if asked.detector is None:
        return ()
    train = known_patients(asked.detector, sets.train)
    held = None if sets.held is None else known_patients(asked.detector, sets.held)
    if train is None or (sets.held is not None and held is None):
        return (UNSEEN,)
    told = f"The detector was trained or chosen on {train.patients:,} of {train.of:,} training patients"
    if held is None:
        return (f"{told}.",)
    both = f"{told} and {held.patients:,} of {held.of:,} held-out ones"
    if not alike(train, held):
        raise InputError(
            f"{asked.source.shown}: {both[0].lower()}{both[1:]}; p-values need a detector that knows neither, or both "
            "alike. Train one on other images, or on both parts; or leave held_out out, for distances alone"
        )
    return (f"{both}.",)
