"""The three sets of a filter: training, synthetic and calibration images, and who may calibrate.

A calibration identity must be new to the generator and to every detector (METHODS section 4, "Guarantee"). Whoever is
not is left out and counted: the guarantee needs new identities, not these.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from memorisk.audits.filter.options import FilterOptions
from memorisk.audits.image_sets import (
    Source,
    decode_alike,
    given_splits,
    is_blank,
    manifest_of,
    read_source,
    select_rows,
    split_source,
)
from memorisk.images.manifest import Manifest
from memorisk.images.store import ImageStore
from memorisk.images.wording import listed
from memorisk.runs.progress import Progress
from memorisk.training.pair_detectors import PairDetector

TRAIN, SYNTHETIC, CALIBRATION = "training", "synthetic", "calibration"
_UNREAD = ("image", "path", "reason")


@dataclass(frozen=True)
class Manifests:
    """The three sources before a pixel is decoded; a source that was handed in decoded is its store."""

    train: Manifest | ImageStore
    synthetic: Manifest | ImageStore
    calibration: Manifest | ImageStore | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class LeftOut:
    """Calibration identities that are not new, by the first reason that holds."""

    in_training: int = 0
    """Named among the training patients."""
    same_pixels: int = 0
    """An image of theirs is a training image, pixel by pixel."""
    known: int = 0
    """A detector was trained or chosen on them."""

    @property
    def n(self) -> int:
        """All of them."""
        return self.in_training + self.same_pixels + self.known


@dataclass(frozen=True, eq=False)
class FilterSets:
    """What is compared."""

    train: ImageStore
    synthetic: ImageStore
    """The images that could be read."""
    asked: Manifest
    """All synthetic images, those that could not be read among them."""
    unread: pd.DataFrame
    """Of those: ``image, path, reason``; an image that has no row of its own goes by its path."""
    calibration: ImageStore | None
    """Of new identities; None where there are none."""
    left_out: LeftOut
    unseen: tuple[str, ...]
    """Detectors of which it cannot be seen whom they know."""
    notes: tuple[str, ...]
    """What was assumed or left out, a sentence each, without ids."""

    @property
    def groups_given(self) -> bool:
        """Whether the real parts say whose each image is."""
        return self.train.manifest.groups_given and (self.calibration is None or self.calibration.manifest.groups_given)

    @property
    def unread_training(self) -> int:
        """Training images that could not be read: copies of these are not found."""
        return len(self.train.skipped) + len(self.train.manifest.skipped)


def read_manifests(
    train: Source, synthetic: Source, calibration: Source | None, options: FilterOptions, progress: Progress
) -> Manifests:
    """Who is in which set, before a pixel is decoded.

    Raises:
        InputError: A source cannot be read, or a split does not exist.
    """
    progress("reading the manifests", 0, 0)
    ours = read_source(train, options.of_real())
    theirs: Manifest | ImageStore | None = None
    notes: list[str] = []
    if options.calibration_split is not None:
        ours, theirs, notes = split_source(ours, options.trained_on, options.calibration_split)
    else:
        theirs = None if calibration is None else read_source(calibration, options.of_real())
        parts = given_splits(manifest_of(ours))
        if len(parts) > 1:
            notes.append(f"TRAIN has splits ({listed(parts)}): all of its images are taken for training images.")
    made = read_source(synthetic, options.of_synthetic())
    notes += [note for source in (ours, theirs) if source is not None for note in manifest_of(source).notes]
    return Manifests(ours, made, theirs, tuple(dict.fromkeys(notes)))


def decode(
    found: Manifests, detectors: Sequence[PairDetector], options: FilterOptions, progress: Progress
) -> FilterSets:
    """Decode the three sets to one size and as many channels, and leave out calibration identities that are not new.

    Args:
        found: Of `read_manifests`.
        detectors: Which know whom they were trained on.
        options: How images are read.
        progress: Called with (stage, done, total).

    Raises:
        InputError: Real images cannot be read, no synthetic one can, or sizes differ.
    """
    given = {TRAIN: found.train, SYNTHETIC: found.synthetic, CALIBRATION: found.calibration}
    real = options.of_real()
    stores = decode_alike(given, {TRAIN: real, SYNTHETIC: options.of_synthetic(), CALIBRATION: real}, progress)
    train, calibration = stores[TRAIN], stores.get(CALIBRATION)
    left_out, unseen, notes = LeftOut(), [], list(found.notes)
    if calibration is not None:
        skipped = len(calibration.skipped) + len(calibration.manifest.skipped)
        if skipped:
            notes.append(f"{skipped:,} calibration images could not be read or have no file; they take no part.")
        calibration, left_out, said = _new_identities(train, calibration, detectors)
        notes += said
        if not options.calibration_unseen:
            unseen = [d.name for d in detectors if d.detector is not None and _known(d, stores[CALIBRATION]) is None]
    asked = manifest_of(found.synthetic)
    return FilterSets(
        train=train,
        synthetic=stores[SYNTHETIC],
        asked=asked,
        unread=_unread(asked, stores[SYNTHETIC]),
        calibration=calibration,
        left_out=left_out,
        unseen=tuple(unseen),
        notes=(*notes, *_of_training(train, detectors)),
    )


def _new_identities(
    train: ImageStore, calibration: ImageStore, detectors: Sequence[PairDetector]
) -> tuple[ImageStore | None, LeftOut, list[str]]:
    """Calibration images of identities that neither the generator nor a detector has seen."""
    groups = calibration.manifest.groups.astype(str)
    named, notes = np.isin(groups, train.manifest.groups.astype(str)), []
    if not (train.manifest.groups_given or calibration.manifest.groups_given) and named.any():
        notes.append(
            f"{int(named.sum()):,} names of images occur in training and calibration. No patients are given, so that "
            "they were taken for different images; if the names are patients, say so with --group-from '(.+)[.]'."
        )
        named[:] = False
    shared = np.flatnonzero(np.isin(calibration.pixel_hashes.astype(str), train.pixel_hashes.astype(str)))
    same = np.isin(groups, groups[shared[~is_blank(calibration, shared)]])
    known = np.zeros(len(groups), dtype=bool)
    for detector in detectors:
        theirs = _known(detector, calibration)
        known |= False if theirs is None else np.isin(groups, groups[theirs])
    counted = [len(set(groups[mask])) for mask in (named, same & ~named, known & ~named & ~same)]
    rows = np.flatnonzero(~(named | same | known))
    return select_rows(calibration, rows) if len(rows) else None, LeftOut(*counted), notes


def _known(detector: PairDetector, store: ImageStore) -> np.ndarray | None:
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


def _of_training(train: ImageStore, detectors: Sequence[PairDetector]) -> list[str]:
    """Whether detectors know the training patients, of whom the guarantee then does not speak."""
    groups, said = train.manifest.groups.astype(str), []
    for detector in detectors:
        known = _known(detector, train)
        if known is not None and known.any():
            said.append(
                f"The detector {detector.name} was trained or chosen on {len(set(groups[known])):,} of "
                f"{len(set(groups)):,} training patients. The guarantee is of new identities; of these it says nothing."
            )
    return said


def _unread(asked: Manifest, store: ImageStore) -> pd.DataFrame:
    """Synthetic images that could not be read, those without a row by their path."""
    files = asked.skipped
    columns = {name: [*store.skipped[name], *files["path" if name == "image" else name]] for name in _UNREAD}
    return pd.DataFrame(columns, dtype=object)
