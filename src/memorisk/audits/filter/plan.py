"""What a filter would compare and could promise, before any feature is computed (``--dry-run``)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from memorisk.audits.filter.families import Family
from memorisk.audits.filter.measuring import detector_names
from memorisk.audits.filter.sets import FilterSets
from memorisk.statistics.guarantee import MissGuarantee
from memorisk.training.pair_detectors import PairDetector


@dataclass(frozen=True)
class FilterPlan:
    """What a command would do.

    Attributes:
        images: In each set; of the synthetic ones those that could be read.
        unreadable: Synthetic images that could not, and will be rejected.
        patients: Training and calibration ones; images where no patients are given.
        left_out: Calibration identities that are not new, by reason.
        n_merged: Calibration names that were taken for another one's.
        detectors: What compares images.
        families: Of copies: identities there are, needed and missing for the guarantee.
        missing: Identities that are missing for it; 0 where it can be given.
        comparisons: Pairs of images that are compared.
        bytes: ``images``: decoded, in the cache; ``features_per_number``: for each number of a feature, all images.
        notes: What was assumed or left out.
    """

    images: dict[str, int]
    unreadable: int
    patients: dict[str, int]
    left_out: dict[str, int]
    n_merged: int
    detectors: tuple[str, ...]
    families: tuple[dict[str, Any], ...]
    missing: int
    comparisons: int
    bytes: dict[str, int]
    notes: tuple[str, ...]


def describe_sets(
    sets: FilterSets,
    detectors: Sequence[PairDetector],
    families: Sequence[Family],
    counted: Sequence[MissGuarantee],
) -> FilterPlan:
    """Count what there is and say whether the guarantee can be given.

    Args:
        sets: Decoded.
        detectors: What compares images.
        families: Kinds of copies.
        counted: How many identities there are and are needed, of each family.
    """
    stores = {"training": sets.train, "synthetic": sets.synthetic, "calibration": sets.calibration}
    n = {what: 0 if store is None else len(store.images) for what, store in stores.items()}
    copies = sum(found.n_identities for family, found in zip(families, counted, strict=True) if family.copied)
    return FilterPlan(
        images=n,
        unreadable=len(sets.unread),
        patients={
            what: 0 if store is None else len(np.unique(store.manifest.groups.astype(str)))
            for what, store in stores.items()
            if what != "synthetic"
        },
        left_out=asdict(sets.left_out),
        n_merged=sets.merged,
        detectors=tuple(detector_names(detectors)),
        families=tuple(
            {"family": f.words, "identities": c.n_identities, "needed": c.needed, "missing": c.missing}
            for f, c in zip(families, counted, strict=True)
        ),
        missing=max((found.missing for found in counted), default=0),
        comparisons=(n["synthetic"] + n["calibration"]) * n["training"] * len(detectors),
        bytes={
            "images": sum(store.images.nbytes for store in stores.values() if store is not None),
            "features_per_number": 4 * (sum(n.values()) + copies) * len(detectors),
        },
        notes=sets.notes,
    )
