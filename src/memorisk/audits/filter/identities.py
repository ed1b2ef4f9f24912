"""Who may calibrate: people whom neither the generator nor a detector has seen, each counted once.

A calibration identity must be new to the generator and to every detector (METHODS section 4, "Guarantee"). Names and
pixels decide that: who is named, or has a known image pixel by pixel, is left out and counted, and people who share an
image are one. Likeness decides nothing (METHODS section 6, "Filter"): whoever is left out for it leaves a sample of
people who are easily told apart. It gives a second reading instead, in which look-alikes are one person, so that a few
people under invented names do not pass for many; the threshold is the more cautious of both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from memorisk.audits.generated.image_sets import is_blank, select_rows
from memorisk.images.copies.duplicates import equal_sets, linked_groups
from memorisk.images.copies.near_copies import between_sets, near_copies, rule_of_stores, thumbnails
from memorisk.images.copies.orientations import same_pixels
from memorisk.images.splits import merge_linked
from memorisk.images.store import ImageStore
from memorisk.runs.progress import Progress
from memorisk.statistics.pairs.identity_pairs import cliques
from memorisk.training.detectors.pair_detectors import PairDetector


@dataclass(frozen=True)
class LeftOut:
    """Calibration identities that are not new, by the first reason that holds."""

    in_training: int = 0
    """Named among the training patients."""
    same_pixels: int = 0
    """An image of theirs is a training image, pixel by pixel, as it is, mirrored or turned."""
    known: int = 0
    """A detector was trained or chosen on them."""

    @property
    def n(self) -> int:
        """All of them."""
        return self.in_training + self.same_pixels + self.known


@dataclass(frozen=True, eq=False)
class LookAlikes:
    """The second reading of who calibrates: look-alikes are one person, and who looks like TRAIN is not new."""

    unit: dict[str, int] = field(default_factory=dict)
    """Of each identity as given: whose it is in this reading; -1 where that is nobody new."""
    of_others: int = 0
    """Identities with an image nearly that of another one, as it is or mirrored (`images.copies.near_copies`)."""
    of_training: int = 0
    """Identities with an image nearly a training image, as it is or mirrored (`images.copies.near_copies`)."""

    @property
    def counts(self) -> dict[str, int]:
        """Who looks alike, and the identities of both readings, as a result keeps them."""
        merged = {unit for unit in self.unit.values() if unit >= 0}
        return {
            "of_others": self.of_others,
            "of_training": self.of_training,
            "as_given": len(self.unit),
            "as_one": len(merged),
        }


@dataclass(frozen=True, eq=False)
class NewIdentities:
    """Who calibrates."""

    store: ImageStore | None
    """Their images, people who share one under one name; None for nobody."""
    left_out: LeftOut
    merged: int
    """Names that were taken for another one's, with whom they share an image."""
    alike: LookAlikes
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
    groups, first = _people(calibration)
    shared = np.flatnonzero(same_pixels(calibration, train).row >= 0)
    seen = np.zeros(len(theirs), dtype=bool)
    for detector in detectors:
        known = known_images(detector, calibration)
        seen |= False if known is None else known
    counted, gone = [], np.zeros(len(theirs), dtype=bool)
    for reason in (np.flatnonzero(named), shared[~is_blank(calibration, shared)], seen):
        of_reason = np.isin(groups, groups[reason]) & ~gone
        counted.append(len(set(groups[of_reason])))
        gone |= of_reason
    rows = np.flatnonzero(~gone & first)
    merged = len(set(theirs)) - len(set(groups))
    store = select_rows(_renamed(calibration, groups), rows) if len(rows) else None
    alike = LookAlikes()
    if store is not None:
        who = likeness(train, store, progress)
        notes += [f"Look-alikes could not be looked for: {who.why_none}."] if who.why_none else []
        alike = look_alikes(np.unique(store.manifest.groups.astype(str)), who)
    return NewIdentities(store, LeftOut(*counted), merged, alike, tuple(notes))


@dataclass(frozen=True)
class Likeness:
    """Identities by their places among the sorted names of a store."""

    one: np.ndarray
    """[L] of every two that look alike; an image of theirs is nearly one of the other's."""
    other: np.ndarray
    """[L] likewise."""
    known: np.ndarray
    """[K] who looks like TRAIN: an image of theirs is nearly a training image, as it is or mirrored."""
    why_none: str = ""
    """Why nobody could be looked for, where that is so."""


def likeness(train: ImageStore, calibration: ImageStore, progress: Progress) -> Likeness:
    """Who of the calibration looks like another one, or like a training image.

    How alike two people can be is learned from the training patients alone: a calibration whose people have several
    invented names each would have no tail of different people.

    Args:
        train: What the generator was trained on.
        calibration: Images of new identities.
        progress: Called with (stage, done, total).
    """
    small = thumbnails(calibration.images, progress=partial(progress, "looking at calibration images"))
    of_train = thumbnails(train.images, progress=partial(progress, "looking at training images"))
    rule = rule_of_stores(
        train,
        small=[of_train],
        compared_with=len(small),
        progress=partial(progress, "learning how alike two people are"),
    )
    _, known = between_sets(
        small,
        of_train,
        rule,
        calibration.images.__getitem__,
        train.images.__getitem__,
        progress=partial(progress, "looking for near copies"),
    )
    pairs = near_copies(small, rule, calibration.images.__getitem__)
    identity = np.unique(calibration.manifest.groups.astype(str), return_inverse=True)[1]
    ends = np.sort(identity[np.array(pairs.pairs, dtype=np.intp).reshape(-1, 2).T], axis=0)
    one, other = np.unique(ends[:, ends[0] != ends[1]], axis=1)
    return Likeness(one, other, np.unique(identity[known.first[known.confirmed]]), rule.chance.why)


def look_alikes(names: np.ndarray, alike: Likeness) -> LookAlikes:
    """The second reading. Chains join nobody: a person of it is a set of identities of which every two look alike.

    Args:
        names: [n] of the identities, sorted.
        alike: Who of them looks like whom.
    """
    unit = cliques(len(names), alike.one, alike.other)
    unit[np.isin(unit, unit[alike.known])] = -1
    return LookAlikes(
        unit=dict(zip(names.tolist(), unit.tolist(), strict=True)),
        of_others=len(np.union1d(alike.one, alike.other)),
        of_training=len(alike.known),
    )


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


def _people(store: ImageStore) -> tuple[np.ndarray, np.ndarray]:
    """[N] groups, those that share an image under one name; and [N] the images that stay.

    An image that links two names stays once: it is no second image of the person, whom a pair of it would make easy.
    Without patients every name is an image's, and one image of those that are the same stays.
    """
    names, hashes = store.manifest.groups.astype(str), store.pixel_hashes.astype(str)
    sets = equal_sets(hashes)
    alike = np.concatenate(sets) if sets else np.empty(0, dtype=np.intp)
    hashes[alike[is_blank(store, alike)]] = ""
    groups = merge_linked(names, linked_groups(hashes, names)).astype(str)
    stays = np.ones(len(names), dtype=bool)
    if not store.manifest.groups_given:
        stays[:] = False
        stays[np.unique(groups, return_index=True)[1]] = True
        return groups, stays
    for rows in equal_sets(hashes):
        stays[rows[1:]] &= names[rows[1:]] == names[rows[0]]
    return groups, stays


def _renamed(store: ImageStore, groups: np.ndarray) -> ImageStore:
    """A store whose images belong to these groups; without patients every image goes on under its own name."""
    if not store.manifest.groups_given:
        return store
    table = store.manifest.table.assign(group=groups.astype(object))
    return replace(store, manifest=replace(store.manifest, table=table))
