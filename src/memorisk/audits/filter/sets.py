"""The three sets of a filter: training, synthetic and calibration images; and who may calibrate.

A calibration identity must be new to the generator and to every detector (METHODS section 4, "Guarantee"), and counts
once. Names and pixels decide that: who is named, or has a known image pixel by pixel, is left out and counted, and
people who share an image are one. Likeness decides nothing (METHODS section 6, "Filter"): to leave out look-alikes
would leave a sample of people who are easily distinguished. Likeness gives a second reading instead, in which
look-alikes are one person, so that a few people under invented names do not pass for many. The threshold is the more
cautious of both.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pandas as pd

from memorisk.audits.comparison.knowledge import known_images
from memorisk.audits.comparison.sets import (
    ComparedParts,
    Manifests,
    Source,
    decode_parts,
    is_blank,
    manifest_of,
    n_unread,
    read_manifests,
    select_rows,
)
from memorisk.audits.filter.options import ScreeningOptions
from memorisk.audits.filter.result import ExcludedIdentities, Exclusions, LookAlikeCounts
from memorisk.audits.run_images import OTHER, SYNTHETIC, TRAIN
from memorisk.images.copies.duplicates import equal_sets, linked_groups
from memorisk.images.copies.near_copies import near_copies, near_copies_between, rule_of_stores, same_pixels, thumbnails
from memorisk.images.identity import look_alikes_across
from memorisk.images.manifest import Manifest
from memorisk.images.splits import merge_linked
from memorisk.images.store import ImageStore
from memorisk.runs.workload import Progress
from memorisk.statistics.pairs.identity_pairs import cliques
from memorisk.training.detectors.pair_detectors import PairDetector


@dataclass(frozen=True, eq=False)
class LookAlikes:
    """Second reading of the calibration identities: look-alikes are one person, look-alikes of TRAIN are not new."""

    unit: dict[str, int] = field(default_factory=dict)
    """Number of the person for each identity as given; -1 where the identity is not a new person."""
    of_others: int = 0
    """Number of identities with an image nearly that of another one, as it is or mirrored
    (`images.copies.near_copies`)."""
    of_training: int = 0
    """Number of identities with an image nearly a training image, as it is or mirrored
    (`images.copies.near_copies`)."""

    @property
    def counts(self) -> LookAlikeCounts:
        """Return who looks alike, and the identities of both readings."""
        merged = {unit for unit in self.unit.values() if unit >= 0}
        return LookAlikeCounts(
            of_others=self.of_others, of_training=self.of_training, as_given=len(self.unit), as_one=len(merged)
        )


@dataclass(frozen=True, eq=False)
class NewIdentities:
    """Identities that calibrate, and what was left out to get them."""

    store: ImageStore | None
    """Images of the identities, with people who share an image under one name; None without identities."""
    left_out: ExcludedIdentities
    merged: int
    """Number of names that were taken for another one's, since they share an image with it."""
    alike: LookAlikes
    notes: tuple[str, ...]


def new_identities(
    train: ImageStore, calibration: ImageStore, detectors: Sequence[PairDetector], progress: Progress
) -> NewIdentities:
    """Choose calibration images of identities that neither the generator nor a detector has seen, each identity once.

    Args:
        train: Images that the generator was trained on.
        calibration: Images that were given for calibration.
        detectors: Detectors, which may know the patients they were trained on.
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
    alike = look_alikes_across(train.manifest.patients, calibration.manifest.patients)
    named |= np.isin(theirs, [name for names in alike for name in names])
    named |= np.isin(calibration.manifest.studies, sorted({*train.manifest.studies} - {""}))
    groups, first = _people(calibration)
    shared = np.flatnonzero(same_pixels(calibration, train).row >= 0)
    hits = [images for _, images in _known_by(detectors, calibration) if images is not None]
    by_detector = np.any([np.zeros(len(theirs), dtype=bool), *hits], axis=0)
    counted, gone = [], np.zeros(len(theirs), dtype=bool)
    for reason in (np.flatnonzero(named), shared[~is_blank(calibration, shared)], by_detector):
        of_reason = np.isin(groups, groups[reason]) & ~gone
        counted.append(len(set(groups[of_reason])))
        gone |= of_reason
    rows = np.flatnonzero(~gone & first)
    merged = len(set(theirs)) - len(set(groups))
    store = select_rows(_with_groups(calibration, groups), rows) if len(rows) else None
    by_image = LookAlikes()
    if store is not None:
        who = likeness(train, store, progress)
        notes += [f"Look-alikes could not be looked for: {who.why_none}."] if who.why_none else []
        by_image = look_alikes(np.unique(store.manifest.groups.astype(str)), who)
    return NewIdentities(store, ExcludedIdentities(*counted), merged, by_image, tuple(notes))


@dataclass(frozen=True)
class Likeness:
    """Identities by their places among the sorted names of a store."""

    one: np.ndarray
    """Places of the first identity of every pair that looks alike, [L]; an image of one is nearly one of the other."""
    other: np.ndarray
    """Places of the second identity of every pair, [L]."""
    known: np.ndarray
    """Places of the identities that look like TRAIN, [K]: one of their images is nearly a training image, as it is or
    mirrored."""
    why_none: str = ""
    """Reason why look-alikes could not be searched for, where that is so."""


def likeness(train: ImageStore, calibration: ImageStore, progress: Progress) -> Likeness:
    """Find the calibration identities that look like another person, or like a training image.

    How alike two people can be is learned from the training patients alone: a calibration whose people have several
    invented names each would have no tail of different people.

    Args:
        train: Images that the generator was trained on.
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
    _, train_copies = near_copies_between(
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
    return Likeness(one, other, np.unique(identity[train_copies.first[train_copies.confirmed]]), rule.chance.why)


def look_alikes(names: np.ndarray, alike: Likeness) -> LookAlikes:
    """Read look-alikes as one person: a set of identities of which every two look alike, since chains join no people.

    Args:
        names: Names of the identities, sorted, [n].
        alike: Pairs of identities that look alike.
    """
    unit = cliques(len(names), alike.one, alike.other)
    unit[np.isin(unit, unit[alike.known])] = -1
    return LookAlikes(
        unit=dict(zip(names.tolist(), unit.tolist(), strict=True)),
        of_others=len(np.union1d(alike.one, alike.other)),
        of_training=len(alike.known),
    )


def _known_by(detectors: Sequence[PairDetector], store: ImageStore) -> Iterator[tuple[str, np.ndarray | None]]:
    """Yield each trained detector's name and the images of people that it knows, [N]; None where that is unknown."""
    for detector in detectors:
        if detector.detector is not None:
            yield detector.name, known_images(detector.detector, store)


def _people(store: ImageStore) -> tuple[np.ndarray, np.ndarray]:
    """Return groups, [N], those that share an image under one name; and which images stay, [N].

    An image that links two names stays once: it is not a second image of the person, who would be easy by a pair of it.
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


def _with_groups(store: ImageStore, groups: np.ndarray) -> ImageStore:
    """Return a store whose images belong to these groups; without patients each image keeps its own name."""
    if not store.manifest.groups_given:
        return store
    table = store.manifest.table.assign(group=groups.astype(object))
    return replace(store, manifest=replace(store.manifest, table=table))


CALIBRATION = "calibration"
_UNREAD = ("image", "path", "reason")


@dataclass(frozen=True, eq=False)
class FilterSets(ComparedParts):
    """Sets that a filter compares."""

    train: ImageStore
    synthetic: ImageStore
    """The images that could be read."""
    candidates: Manifest
    """All synthetic images, those that could not be read among them."""
    unread: pd.DataFrame
    """Unread images: ``image, path, reason``; an image that has no row of its own goes by its path."""
    calibration: ImageStore | None
    """Calibration images of new identities; None where there are none."""
    left_out: ExcludedIdentities
    merged: int
    """Number of calibration names that were taken for another one's, since they share an image."""
    alike: LookAlikes
    """Calibration identities that look like another one: the second reading of the identities."""
    unseen: tuple[str, ...]
    """Detectors that do not say which patients they know."""
    notes: tuple[str, ...]
    """Sentences, without ids, on what was assumed or left out."""
    decoded: int
    """Bytes of all images of all parts as they are stored, those that are left out among them."""
    others: ImageStore | None = None
    """Images of further parts of TRAIN, with whose pixels the audit compares what is kept; None without."""

    @property
    def manifests(self) -> tuple[Manifest, Manifest | None, Manifest | None]:
        """Return the manifests of the training, calibration and all synthetic images."""
        return self.train.manifest, None if self.calibration is None else self.calibration.manifest, self.candidates

    @property
    def exclusions(self) -> Exclusions:
        """Return who does not calibrate, who was counted once, and who looks alike."""
        return Exclusions(left_out=self.left_out, n_merged_patients=self.merged, look_alikes=self.alike.counts)


def open_manifests(
    train: Source, synthetic: Source, calibration: Source | None, options: ScreeningOptions, progress: Progress
) -> Manifests:
    """Open the three sources; calibration identities that are not new are left out when their images are decoded.

    Raises:
        InputError: A source cannot be read, or a split does not exist.
    """
    return read_manifests(train, synthetic, calibration, options, progress, unseen_are_null=False, compares_others=True)


def decode_sets(
    opened: Manifests, detectors: Sequence[PairDetector], progress: Progress, *, calibration_unseen: bool = False
) -> FilterSets:
    """Decode the three sets to one size and as many channels, and leave out calibration identities that are not new.

    Args:
        opened: Manifests of `open_manifests`.
        detectors: Detectors, which may know the patients they were trained on.
        progress: Called with (stage, done, total).
        calibration_unseen: Whether the user states that no detector knows the calibration images.

    Raises:
        InputError: Real images cannot be read, no synthetic one can, or sizes differ.
    """
    stores = decode_parts(opened, CALIBRATION, progress)
    train, calibration = stores[TRAIN], stores.get(CALIBRATION)
    left_out, merged, alike, unseen, notes = ExcludedIdentities(), 0, LookAlikes(), [], list(opened.notes)
    if calibration is not None:
        if skipped := n_unread(calibration):
            notes.append(f"{skipped:,} calibration images were not read; they take no part.")
        new = new_identities(train, calibration, detectors, progress)
        calibration, left_out, merged, alike = new.store, new.left_out, new.merged, new.alike
        notes += new.notes
        if not calibration_unseen:
            unseen = [name for name, images in _known_by(detectors, stores[CALIBRATION]) if images is None]
    assert opened.synthetic is not None
    manifest = manifest_of(opened.synthetic)
    return FilterSets(
        train=train,
        synthetic=stores[SYNTHETIC],
        candidates=manifest,
        unread=_unread(manifest, stores[SYNTHETIC]),
        calibration=calibration,
        left_out=left_out,
        merged=merged,
        alike=alike,
        unseen=tuple(unseen),
        notes=(*notes, *_of_training(train, detectors)),
        decoded=sum(store.images.nbytes for store in stores.values()),
        others=stores.get(OTHER),
    )


def _of_training(train: ImageStore, detectors: Sequence[PairDetector]) -> list[str]:
    """Find whether detectors know the training patients, which the guarantee then does not cover."""
    groups, notes = train.manifest.groups.astype(str), []
    for name, rows in _known_by(detectors, train):
        if rows is not None and rows.any():
            notes.append(
                f"The detector {name} was trained or chosen on {len(set(groups[rows])):,} of "
                f"{len(set(groups)):,} training patients. The guarantee is of new identities; of these it says nothing."
            )
    return notes


def _unread(manifest: Manifest, store: ImageStore) -> pd.DataFrame:
    """Return the synthetic images that could not be read, those without a row by their path."""
    files = manifest.unread
    columns = {name: [*store.skipped[name], *files["path" if name == "image" else name]] for name in _UNREAD}
    return pd.DataFrame(columns, dtype=object)
