"""The images that a copy detector is trained and chosen on: refused, left out, or limited, and what is said of it."""

import numpy as np

from memorisk.images.store import ImageStore
from memorisk.runs.errors import InputError, one_line, several
from memorisk.training.detectors.contrastive.augmentations import blank_rows, operations_without_effect
from memorisk.training.detectors.contrastive.options import DetectorOptions

MOST_VALIDATED = 2000
_SAMPLE = 32
_NAMED = 3


def refuse_rows(rows: np.ndarray, validation: np.ndarray, groups: np.ndarray, n: int) -> None:
    """Refuse parts that are too small, not there, or share a patient.

    Args:
        rows: To train on.
        validation: To choose the epoch.
        groups: [N] whose each image is.
        n: Images.

    Raises:
        InputError: They are.
    """
    if len(groups) != n:
        raise InputError(f"there are {len(groups)} groups for {n} images")
    for name, chosen in (("training", rows), ("validation", validation)):
        if chosen.ndim != 1 or len(np.unique(chosen)) < max(2, len(chosen)):
            raise InputError(f"the {name} part has {len(chosen)} images; needed are at least 2 different ones")
        if chosen.min() < 0 or chosen.max() >= n:
            raise InputError(f"{name} rows run from {chosen.min()} to {chosen.max()}; there are {n} images")
        if len(np.unique(groups[chosen].astype(str))) < 2:
            raise InputError(f"all images of the {name} part are of one patient: there is nobody to tell apart")
    shared = np.intersect1d(groups[rows].astype(str), groups[validation].astype(str))
    if len(shared):
        raise InputError(
            f"{several(len(shared), 'patient is', 'patients are')} in the training and the validation part, such as "
            f"{one_line(shared[0], 60)}: split by patient"
        )


def usable_rows(
    store: ImageStore, rows: np.ndarray, validation: np.ndarray, groups: np.ndarray, options: DetectorOptions
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The rows without blank images, of the validation part at most 2,000, and what must be said.

    Args:
        store: The images.
        rows: To train on.
        validation: To choose the epoch.
        groups: [N] whose each image is.
        options: Of the training.

    Raises:
        InputError: Too few are left.
    """
    notes = []
    if len(validation) > MOST_VALIDATED:
        notes.append(f"The epoch is chosen on {MOST_VALIDATED:,} of {len(validation):,} validation images.")
        drawn = np.random.default_rng(options.seed).choice(len(validation), MOST_VALIDATED, replace=False)
        validation = validation[np.sort(drawn)]
    rows = _without_blanks(store, rows, "training", notes)
    validation = _without_blanks(store, validation, "validation", notes)
    refuse_rows(rows, validation, groups, len(store.images))
    without = operations_without_effect(np.asarray(store.images[np.sort(rows[:_SAMPLE])]), options.augment)
    if without:
        notes.append(f"By themselves these operations change none of {_SAMPLE} images: {', '.join(without)}.")
    return rows, validation, notes


def _without_blanks(store: ImageStore, rows: np.ndarray, part: str, notes: list[str]) -> np.ndarray:
    """The rows of images of which a copy can be told; the others are named in a note."""
    blank = blank_rows(store.images, rows)
    if not len(blank):
        return rows
    ids = ", ".join(one_line(image, 40) for image in store.manifest.images[blank[:_NAMED]])
    more = ", ..." if len(blank) > _NAMED else ""
    said = several(len(blank), f"blank {part} image is", f"blank {part} images are")
    notes.append(f"{said} left out: no copy of a blank image can be told ({ids}{more}).")
    return rows[~np.isin(rows, blank)]
