"""The three sets of a filter: training, synthetic and calibration images."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from memorisk.audits.filter.identities import LeftOut, LookAlikes, known_images, new_identities
from memorisk.audits.filter.options import ScreeningOptions
from memorisk.audits.generated.image_sets import (
    Source,
    decode_alike,
    given_splits,
    manifest_of,
    read_source,
    split_source,
)
from memorisk.images.manifest import Manifest
from memorisk.images.store import ImageStore
from memorisk.images.wording import listed
from memorisk.runs.progress import Progress
from memorisk.training.detectors.pair_detectors import PairDetector

TRAIN, SYNTHETIC, CALIBRATION = "training", "synthetic", "calibration"
_UNREAD = ("image", "path", "reason")


@dataclass(frozen=True)
class Manifests:
    """The three sources before a pixel is decoded; a source that was handed in decoded is its store."""

    train: Manifest | ImageStore
    synthetic: Manifest | ImageStore
    calibration: Manifest | ImageStore | None
    notes: tuple[str, ...]


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
    merged: int
    """Calibration names that were taken for another one's, since they share an image."""
    alike: LookAlikes
    """Who calibrates and looks like somebody: the second reading of who is who."""
    unseen: tuple[str, ...]
    """Detectors of which it cannot be seen whom they know."""
    notes: tuple[str, ...]
    """What was assumed or left out, a sentence each, without ids."""
    decoded: int
    """Bytes of all images of the three as they are stored, those that are left out among them."""

    @property
    def groups_given(self) -> bool:
        """Whether the real parts say whose each image is."""
        return self.train.manifest.groups_given and (self.calibration is None or self.calibration.manifest.groups_given)

    @property
    def unread_training(self) -> int:
        """Training images that could not be read: copies of these are not found."""
        return len(self.train.skipped) + len(self.train.manifest.unread)


def read_manifests(
    train: Source, synthetic: Source, calibration: Source | None, options: ScreeningOptions, progress: Progress
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
    found: Manifests, detectors: Sequence[PairDetector], options: ScreeningOptions, progress: Progress
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
    left_out, merged, alike, unseen, notes = LeftOut(), 0, LookAlikes(), [], list(found.notes)
    if calibration is not None:
        skipped = len(calibration.skipped) + len(calibration.manifest.unread)
        if skipped:
            notes.append(f"{skipped:,} calibration images could not be read or have no file; they take no part.")
        new = new_identities(train, calibration, detectors, progress)
        calibration, left_out, merged, alike = new.store, new.left_out, new.merged, new.alike
        notes += new.notes
        if not options.calibration_unseen:
            unseen = [
                d.name for d in detectors if d.detector is not None and known_images(d, stores[CALIBRATION]) is None
            ]
    asked = manifest_of(found.synthetic)
    return FilterSets(
        train=train,
        synthetic=stores[SYNTHETIC],
        asked=asked,
        unread=_unread(asked, stores[SYNTHETIC]),
        calibration=calibration,
        left_out=left_out,
        merged=merged,
        alike=alike,
        unseen=tuple(unseen),
        notes=(*notes, *_of_training(train, detectors)),
        decoded=sum(store.images.nbytes for store in stores.values()),
    )


def _of_training(train: ImageStore, detectors: Sequence[PairDetector]) -> list[str]:
    """Whether detectors know the training patients, of whom the guarantee then does not speak."""
    groups, said = train.manifest.groups.astype(str), []
    for detector in detectors:
        known = known_images(detector, train)
        if known is not None and known.any():
            said.append(
                f"The detector {detector.name} was trained or chosen on {len(set(groups[known])):,} of "
                f"{len(set(groups)):,} training patients. The guarantee is of new identities; of these it says nothing."
            )
    return said


def _unread(asked: Manifest, store: ImageStore) -> pd.DataFrame:
    """Synthetic images that could not be read, those without a row by their path."""
    files = asked.unread
    columns = {name: [*store.skipped[name], *files["path" if name == "image" else name]] for name in _UNREAD}
    return pd.DataFrame(columns, dtype=object)
