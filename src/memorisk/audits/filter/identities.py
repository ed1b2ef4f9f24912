"""Who may calibrate: people whom neither the generator nor a detector has seen, each counted once.

A calibration identity must be new to the generator and to every detector (METHODS section 4, "Guarantee"). Whoever is
not is left out and counted. People who share an image, or have nearly the same one, are one: under invented names a
few people would otherwise look like many, and the guarantee counts people.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from memorisk.audits.image_sets import is_blank, select_rows
from memorisk.images.duplicates import NEAR, equal_sets, linked_groups, near_pairs
from memorisk.images.near_copies import best_matches, thumbnails
from memorisk.images.orientations import same_pixels
from memorisk.images.splits import merge_linked
from memorisk.images.store import ImageStore
from memorisk.runs.progress import Progress
from memorisk.training.pair_detectors import PairDetector


@dataclass(frozen=True)
class LeftOut:
    """Calibration identities that are not new, by the first reason that holds."""

    in_training: int = 0
    """Named among the training patients."""
    same_pixels: int = 0
    """An image of theirs is a training image, pixel by pixel, as it is, mirrored or turned."""
    nearly_same: int = 0
    """An image of theirs is nearly a training image, as it is or mirrored (`images.near_copies`)."""
    known: int = 0
    """A detector was trained or chosen on them."""

    @property
    def n(self) -> int:
        """All of them."""
        return self.in_training + self.same_pixels + self.nearly_same + self.known


@dataclass(frozen=True, eq=False)
class NewIdentities:
    """Who calibrates."""

    store: ImageStore | None
    """Their images, people who share one under one name; None for nobody."""
    left_out: LeftOut
    merged: int
    """Names that were taken for another one's."""
    notes: tuple[str, ...]


def new_identities(
    train: ImageStore, calibration: ImageStore, detectors: Sequence[PairDetector], progress: Progress
) -> NewIdentities:
    """Calibration images of identities that neither the generator nor a detector has seen, each identity once.

    Args:
        train: What the generator was trained on.
        calibration: Whose images were given.
        detectors: Which know whom they were trained on.
        progress: Called with (stage, done, total).
    """
    theirs = calibration.manifest.groups.astype(str)
    named, notes = np.isin(theirs, train.manifest.groups.astype(str)), []
    if not (train.manifest.groups_given or calibration.manifest.groups_given) and named.any():
        notes.append(
            f"{int(named.sum()):,} names of images occur in training and calibration. No patients are given, so that "
            "they were taken for different images; if the names are patients, say so with --group-from '(.+)[.]'."
        )
        named[:] = False
    small = thumbnails(calibration.images, progress=partial(progress, "looking at calibration images"))
    groups, first = _people(calibration, small)
    shared = np.flatnonzero(same_pixels(calibration, train).row >= 0)
    of_train = thumbnails(train.images, progress=partial(progress, "looking at training images"))
    near = best_matches(small, of_train, progress=partial(progress, "looking for near copies"))[0].similarity >= NEAR
    seen = np.zeros(len(theirs), dtype=bool)
    for detector in detectors:
        known = known_images(detector, calibration)
        seen |= False if known is None else known
    counted, gone = [], np.zeros(len(theirs), dtype=bool)
    for reason in (np.flatnonzero(named), shared[~is_blank(calibration, shared)], np.flatnonzero(near), seen):
        of_reason = np.isin(groups, groups[reason]) & ~gone
        counted.append(len(set(groups[of_reason])))
        gone |= of_reason
    rows = np.flatnonzero(~gone & first)
    merged = len(set(theirs)) - len(set(groups))
    store = select_rows(_renamed(calibration, groups), rows) if len(rows) else None
    return NewIdentities(store, LeftOut(*counted), merged, tuple(notes))


def known_images(detector: PairDetector, store: ImageStore) -> np.ndarray | None:
    """[N] images of identities that a detector was trained or chosen on; None where that cannot be seen.

    Where patients are not given, on either side, their place is taken by names of files, which occur anywhere: then
    pixels alone are compared.
    """
    known = detector.detector
    if known is None:
        return np.zeros(len(store.images), dtype=bool)
    seen = known.seen_parts(store)
    if known.config.groups_given and store.manifest.groups_given:
        return np.asarray(seen.part != "", dtype=bool)
    if not seen.pixels_compared:
        return None
    return np.isin(store.pixel_hashes.astype(str), known.seen["pixel_hash"].tolist())


def _people(store: ImageStore, small: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[N] groups, those that share an image or nearly one under one name; and [N] the images that stay.

    An image that links two names stays once: it is no second image of the person, whom a pair of it would make easy.
    Without patients every name is an image's, and one image of those that are nearly the same stays.
    """
    names, hashes = store.manifest.groups.astype(str), store.pixel_hashes.astype(str)
    sets = equal_sets(hashes)
    alike = np.concatenate(sets) if sets else np.empty(0, dtype=np.intp)
    hashes[alike[is_blank(store, alike)]] = ""
    unique = np.sort(np.unique(hashes, return_index=True)[1])  # the equal ones are linked by their hashes
    pairs = near_pairs(small[unique])
    one, other = unique[pairs.first], unique[pairs.second]
    across = names[one] != names[other]
    linked = linked_groups(hashes, names) + list(zip(names[one[across]], names[other[across]], strict=True))
    groups = merge_linked(names, linked).astype(str)
    stays = np.ones(len(names), dtype=bool)
    if not store.manifest.groups_given:
        stays[:] = False
        stays[np.unique(groups, return_index=True)[1]] = True
        return groups, stays
    stays[other[across]] = False
    for rows in equal_sets(hashes):
        stays[rows[1:]] &= names[rows[1:]] == names[rows[0]]
    return groups, stays


def _renamed(store: ImageStore, groups: np.ndarray) -> ImageStore:
    """A store whose images belong to these groups; without patients every image goes on under its own name."""
    if not store.manifest.groups_given:
        return store
    table = store.manifest.table.assign(group=groups.astype(object))
    return replace(store, manifest=replace(store.manifest, table=table))
