"""Who is known to a detector or a generator? People it was trained on may not calibrate or be held out.

METHODS section 5: a detector was trained on neither real part, or on both alike. A detector that was trained on
training images and not on held-out ones sees the former otherwise, and the ranks of section 5 say nothing. Its
folder has hashes of the images and patients that it was trained and chosen on (`models.provenance`). These
are compared with both parts here. Of other encoders nothing is known but their weights.

People that a generator was trained or chosen on are refused as well. The report notes what is not known of it.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from memorisk.audits.comparison.sets import Sets
from memorisk.images.store import ImageStore
from memorisk.models.copy_detectors import Detector
from memorisk.models.generators.generators import Generator
from memorisk.models.lcmem import LatentDetector
from memorisk.runs.errors import InputError, listed, one_line, plural
from memorisk.training.detectors.pair_detectors import PairDetector

ALIKE_LEVEL = 0.05
"""Shares of known patients that differ by Fisher's exact test at this level are not alike."""
FEW_KNOWN_SHARE = 0.05
"""Share of one part above which known patients are too many where no patient of the other part is known."""
UNKNOWN_TRAINING = (
    "Whom the detector knows cannot be seen: its images were stored otherwise, and patients are not given."
)


@dataclass(frozen=True)
class KnownPatients:
    """Patients of one part that a detector was trained or chosen on."""

    patients: int
    """Number of patients with an image that the detector was trained or chosen on, by pixels or by patient."""
    of: int
    """Number of all patients of the part."""

    @property
    def share(self) -> float:
        """Return the share of the part."""
        return self.patients / self.of


def known_images(detector: Detector | LatentDetector, store: ImageStore) -> np.ndarray | None:
    """Find the images of people that a detector was trained or chosen on: by pixels where stored alike, and by patient.

    Where patients are not given, on either side, their place is taken by names of files, which occur anywhere: then
    pixels alone are compared.

    Args:
        detector: Detector with its hashes.
        store: Images of one part.

    Returns:
        Whether each image is of a known person, [N]; None where there is nothing to compare by.
    """
    overlap = detector.seen_parts(store)
    if detector.config.groups_given and store.manifest.groups_given:
        return np.asarray(overlap.part != "", dtype=bool)
    if not overlap.pixels_compared:
        return None
    is_known = np.isin(store.pixel_hashes.astype(str), detector.seen["pixel_hash"].tolist())
    if detector.earlier is not None:
        is_known |= detector.earlier.parts(store).part != ""
    return is_known


def known_patients(detector: Detector | LatentDetector, store: ImageStore) -> KnownPatients | None:
    """Count the patients of a part that a detector knows; None where there is nothing to compare by.

    Args:
        detector: Detector with its hashes.
        store: Images of one part.
    """
    is_known = known_images(detector, store)
    if is_known is None:
        return None
    groups = store.manifest.groups.astype(str)
    return KnownPatients(len(np.unique(groups[is_known])), len(np.unique(groups)))


def knows_both_alike(train: KnownPatients, held: KnownPatients) -> bool:
    """Return whether a detector knows both parts alike: neither, all of both, or shares that chance explains.

    Args:
        train: Training patients that the detector knows.
        held: Held-out patients that the detector knows.
    """
    if min(train.patients, held.patients) == 0 and max(train.share, held.share) > FEW_KNOWN_SHARE:
        return False
    counts = [[part.patients, part.of - part.patients] for part in (train, held)]
    return float(np.asarray(scipy.stats.fisher_exact(counts))[1]) > ALIKE_LEVEL


def detector_notes(model: PairDetector, sets: Sets) -> tuple[str, ...]:
    """Note the people that a detector knows; nothing where the features come from another model.

    Args:
        model: Detector or other encoder that compares images.
        sets: The images of the audit.

    Raises:
        InputError: The detector knows training patients and not held-out ones, or the other way round.
    """
    if model.detector is None:
        return ()
    train = known_patients(model.detector, sets.train)
    held = None if sets.held is None else known_patients(model.detector, sets.held)
    if train is None or (sets.held is not None and held is None):
        return (UNKNOWN_TRAINING,)
    sentence = f"The detector was trained or chosen on {train.patients:,} of {train.of:,} training patients"
    if held is None:
        return (f"{sentence}.",)
    both = f"{sentence} and {held.patients:,} of {held.of:,} held-out ones"
    if not knows_both_alike(train, held):
        raise InputError(
            f"{model.source.shown}: {both[0].lower()}{both[1:]}; p-values need a detector that knows neither, or both "
            "alike. Train one on other images, or on both parts; or leave held_out out, for distances alone"
        )
    return (f"{both}.",)


def refuse_known(generator: Generator, store: ImageStore, what: str) -> str:
    """Refuse people that a generator was trained or chosen on; return the part that is still taken on trust, or "".

    Args:
        generator: Generator to check.
        store: Images that must be new to it.
        what: Name of the images, as "the held-out images".

    Raises:
        InputError: The generator was trained or chosen on some of them.
    """
    name, overlap = one_line(generator.config.name, 60), generator.seen_parts(store)
    patients = [] if overlap is None else sorted(set(store.manifest.groups[overlap.part != ""].tolist()))
    if patients:
        raise InputError(
            f"{name} was trained or chosen on {plural(len(patients), 'patient', 'patients')} of {what}: give images of "
            "people whom it has never seen"
        )
    if overlap is None or overlap.missing is None:
        return f"Whom {name} was trained on is not known: that it saw none of {what} is your word."
    return ""


def trained_on_more(generator: Generator, train: ImageStore, what: str = "TRAIN") -> str:
    """Note that a generator was trained on more than these images, now or before; "" where it was not.

    Args:
        generator: Generator to check.
        train: Training images that are compared.
        what: Name of the images.
    """
    overlap = generator.seen_parts(train)
    if overlap is None or (overlap.missing is not None and not overlap.missing):
        return ""
    name = one_line(generator.config.name, 60)
    if overlap.missing is None:
        return f"Whether {name} was trained on more than {what} cannot be seen: images were stored at another size"
    images = plural(len(overlap.missing), "image", "images")
    return f"{name} was trained on {images} that {what} does not hold: copies of those are not found"


def unknown_weights(generator: Generator, store: ImageStore) -> str:
    """Note that a generator began with weights of unknown origin; "" where it did not.

    Args:
        generator: Generator to check.
        store: Any store of images.
    """
    parts = generator.seen_parts(store)
    if parts is None or not parts.unknown:
        return ""
    name = one_line(generator.config.name, 60)
    return (
        f"{name} began with weights {listed(parts.unknown)}, and what those were trained on is not known here: whether "
        "their images are repeated is not looked for."
    )
