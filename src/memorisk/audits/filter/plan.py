"""What a filter would compare and could promise, before any feature is computed (``--dry-run``)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from memorisk.audits.filter.families import Family
from memorisk.audits.filter.measuring import detector_names
from memorisk.audits.filter.sets import FilterSets
from memorisk.runs.cost import Cost, total
from memorisk.statistics.pairs.guarantee import MissGuarantee
from memorisk.training.detectors.pair_detectors import PairDetector
from memorisk.training.features.cost import WITHOUT_NETWORK, dimension, features_cost


@dataclass(frozen=True)
class FilterPlan:
    """What a command would do.

    Attributes:
        images: In each set; of the synthetic ones those that could be read.
        unreadable: Synthetic images that could not, and will be rejected.
        patients: Training and calibration ones; images where no patients are given.
        left_out: Calibration identities that are not new, by reason.
        n_merged: Calibration names that were taken for another one's, with whom they share an image.
        look_alikes: Calibration identities that look like somebody, and how many both readings count.
        detectors: What compares images.
        families: Of copies: identities there are, needed and missing for the guarantee.
        missing: Identities that are missing for it; 0 where it can be given.
        cost: Passes, bytes and pairs: every image is compared with all training images, and once more where it reaches
            the threshold, so that of pairs only a bound is known.
        notes: What was assumed or left out.
    """

    images: dict[str, int]
    unreadable: int
    patients: dict[str, int]
    left_out: dict[str, int]
    n_merged: int
    look_alikes: dict[str, int]
    detectors: tuple[str, ...]
    families: tuple[dict[str, Any], ...]
    missing: int
    cost: Cost
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
        look_alikes=sets.alike.counts,
        detectors=tuple(detector_names(detectors)),
        families=tuple(
            {"family": f.words, "identities": c.n_identities, "needed": c.needed, "missing": c.missing}
            for f, c in zip(families, counted, strict=True)
        ),
        missing=max((found.missing for found in counted), default=0),
        cost=total([_cost_of(detector, sets, copies) for detector in detectors]) + Cost(bytes_images=sets.decoded),
        notes=sets.notes,
    )


def _cost_of(detector: PairDetector, sets: FilterSets, copies: int) -> Cost:
    """Of one detector: features of all images and of the copies that calibrate it, and its comparisons."""
    stores = [store for store in (sets.train, sets.synthetic, sets.calibration) if store is not None]
    features = features_cost(
        detector.source, [store.pixel_hashes for store in stores], sets.train.images.shape, detector.detector
    )
    d = dimension(detector.source, sets.train.images.shape, detector.detector)
    asking = sum(len(store.images) for store in stores[1:])
    return features + Cost(
        images_passed=0 if detector.source.kind in WITHOUT_NETWORK else copies,
        bytes_features=None if d is None else 4 * d * copies,
        pairs=2 * asking * len(sets.train.images),
        at_most=("images_passed", "pairs"),
    )
