"""Labels that name patients, and class folders that look like patients."""

import re
from collections import Counter
from collections.abc import Sequence

from memorisk.images.identity import IdDoubt, skeletons

_MOST_CLASSES = 20
"""Number of classes of the published set of patients with the most (NIH-CXR-LT); more may be patients."""
_FEWEST_IN_CLASS = 7
"""Number of images that a class needs to be divided into training, canaries and test."""
_NEARLY_ALL = 0.9
"""Share of labels above which a rule holds for all, strays aside."""
_WORDNET = re.compile("n[0-9]{8}")
"""Code of a class of ImageNet."""


def label_patients(labels: Sequence[str], patients: Sequence[str]) -> bool:
    """Return whether labels name patients: most are patient ids, or of many nearly all have one patient each.

    Args:
        labels: Label of each image, empty without one.
        patients: Id of each image's patient, empty where it is not known.

    Example:
        >>> label_patients(["p1", "p1", "p2", "sick"], ["P01", "P01", "P02", "P03"])
        True
    """
    patients_of: dict[str, set[str]] = {}
    for label, patient in zip(labels, patients, strict=True):
        if label:
            patients_of.setdefault(label, set()).add(patient)
    alone = {label: next(iter(of)) for label, of in patients_of.items() if len(of) == 1 and "" not in of}
    if len(patients_of) > _MOST_CLASSES and len(alone) >= _NEARLY_ALL * len(patients_of):
        return True
    named = sum(skeletons(label)[0] == skeletons(patient)[0] for label, patient in alone.items())
    return 2 * named > len(patients_of)


def patient_folder_doubts(labels: Sequence[str]) -> list[IdDoubt]:
    """Doubt that class folders are classes where they look like patients: many, with numbers or few images each.

    Args:
        labels: Name of the folder of each image, where nothing else gives its label or patient.
    """
    counts = Counter(label for label in labels if label)
    numbered = sum(any(map(str.isdigit, label)) and not _WORDNET.fullmatch(label) for label in counts)
    small = sum(n < _FEWEST_IN_CLASS for n in counts.values())
    if len(counts) <= _MOST_CLASSES or (numbered < _NEARLY_ALL * len(counts) and 2 * small <= len(counts)):
        return []
    return [
        IdDoubt(
            "patient-folders",
            f"{len(counts):,} folders look like patients, by their numbers or their few images, and were not taken for "
            "classes",
            "name the patients by --group-from '([^/]+)/[^/]+$' if each folder is one, and the classes by --labels-csv "
            "or --label-from; if the folders are classes, --label-from '([^/]+)/[^/]+$' confirms it",
            (),
        )
    ]
