"""The three sets of a synthetic audit: training, synthetic and held-out images, decoded alike, and nobody on two sides.

Training and held-out patients must be apart: one in both is refused by name, one whose image is in both is no held-out
patient and is left out. Synthetic images are nobody's.
"""

from dataclasses import dataclass

import numpy as np

from memorisk.audits.generated.image_sets import (
    Source,
    decode_alike,
    given_splits,
    is_blank,
    manifest_of,
    read_source,
    select_rows,
    split_source,
    stack_stores,
)
from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.images.manifest import Manifest
from memorisk.images.stacks import frames_left
from memorisk.images.store import ImageStore
from memorisk.images.wording import listed
from memorisk.runs.errors import InputError, one_line, several
from memorisk.runs.progress import Progress

TRAIN, SYNTHETIC, HELD_OUT = "training", "synthetic", "held out"


@dataclass(frozen=True, eq=False)
class Sets:
    """What is compared."""

    train: ImageStore
    synthetic: ImageStore
    held: ImageStore | None
    """None without held-out images."""
    shared_images: int
    """Held-out images with the pixels of a training image."""
    shared_patients: int
    """Held-out patients left out because of them."""
    shared_hashes: frozenset[str]
    """Pixels that are in both parts: a synthetic image that has them copies nobody for certain."""
    notes: tuple[str, ...]
    """What was assumed or left out, a sentence each, without ids."""
    frames_left: tuple[int, int] = (0, 0)
    """Pages, frames and slices of training and of synthetic files that were not asked for."""

    @property
    def real(self) -> ImageStore:
        """Training images, then held-out ones, as one store."""
        return self.train if self.held is None else stack_stores([self.train, self.held])

    @property
    def groups_given(self) -> bool:
        """Whether both real parts say whose each image is."""
        return self.train.manifest.groups_given and (self.held is None or self.held.manifest.groups_given)


@dataclass(frozen=True)
class Manifests:
    """The three sources before a pixel is decoded; a source that was handed in decoded is its store."""

    train: Manifest | ImageStore
    synthetic: Manifest | ImageStore
    held: Manifest | ImageStore | None
    notes: tuple[str, ...]


def read_manifests(
    train: Source, synthetic: Source, held_out: Source | None, options: SyntheticOptions, progress: Progress
) -> Manifests:
    """Who is in which set; everything that can be refused without pixels is refused here.

    Raises:
        InputError: A source cannot be read, a split does not exist, or patients are in both real parts.
    """
    progress("reading the manifests", 0, 0)
    ours = read_source(train, options.of_real())
    notes: list[str] = []
    theirs: Manifest | ImageStore | None = None
    if options.held_out_split is not None:
        ours, theirs, said = split_source(ours, options.trained_on, options.held_out_split)
        notes += said
    else:
        theirs = None if held_out is None else read_source(held_out, options.of_real())
        if len(names := given_splits(manifest_of(ours))) > 1:
            notes.append(f"TRAIN has splits ({listed(names)}): all of its images are taken for training images.")
    if len(set(manifest_of(ours).groups)) < 2:
        raise InputError(f"{one_line(manifest_of(ours).name)}: one training patient; nearest of several are looked for")
    if theirs is not None:
        notes += refuse_shared_patients(manifest_of(ours), manifest_of(theirs))
    notes += [note for source in (ours, theirs) if source is not None for note in manifest_of(source).notes]
    return Manifests(ours, read_source(synthetic, options.of_synthetic()), theirs, tuple(dict.fromkeys(notes)))


def decode(found: Manifests, options: SyntheticOptions, progress: Progress) -> Sets:
    """Decode the three sets to one size and as many channels, and take held-out patients with training images away.

    Raises:
        InputError: Images cannot be read, differ in size, or no held-out patient is left.
    """
    given = {TRAIN: found.train, SYNTHETIC: found.synthetic, HELD_OUT: found.held}
    real = options.of_real()
    stores = decode_alike(given, {TRAIN: real, SYNTHETIC: options.of_synthetic(), HELD_OUT: real}, progress)
    notes = [*found.notes, *_skipped(stores)]
    held, images, patients, hashes = stores.get(HELD_OUT), 0, 0, frozenset[str]()
    if held is not None:
        held, images, patients, hashes = apart(stores[TRAIN], held)
    progress("looking for pages and frames that are left out", 0, 0)
    plane = options.slice_plane
    left = tuple(sum(frames_left(stores[part].manifest, plane).values()) for part in (TRAIN, SYNTHETIC))
    return Sets(stores[TRAIN], stores[SYNTHETIC], held, images, patients, hashes, tuple(notes), (left[0], left[1]))


def refuse_shared_patients(train: Manifest, held: Manifest) -> list[str]:
    """Refuse a patient on both sides; where patients are not given, say that names alone mean nothing.

    Raises:
        InputError: Patients are in both.
    """
    both = sorted(set(train.groups) & set(held.groups))
    if not both:
        return []
    if train.groups_given or held.groups_given:
        raise InputError(
            f"{several(len(both), 'patient is', 'patients are')} in training and held out ({listed(both)}): split by "
            "patient, or leave their held-out images out"
        )
    return [
        f"{several(len(both), 'name of an image occurs', 'names of images occur')} in training and held out. No "
        "patients are given, so that they were taken for different images; if the names are patients, say so with "
        "--group-from '(.+)[.]'."
    ]


def n_unread(store: ImageStore) -> int:
    """Images and files of a set that were not read, texts beside them left aside."""
    return len(store.skipped) + len(store.manifest.unread)


def _skipped(stores: dict[str, ImageStore]) -> list[str]:
    """How many images could not be read, or have no file."""
    said = []
    for what, store in stores.items():
        if n := n_unread(store):
            said.append(f"{n:,} {what} images or files could not be read, or are not there; nothing is said of them.")
    return said


def apart(train: ImageStore, held: ImageStore) -> tuple[ImageStore, int, int, frozenset[str]]:
    """Held-out patients of whom no image is a training image; how many images and patients that leaves out.

    Raises:
        InputError: Nobody is left.
    """
    known = set(train.pixel_hashes)
    shared = np.flatnonzero([value in known for value in held.pixel_hashes])
    shared = shared[~is_blank(held, shared)]
    hashes = frozenset(str(value) for value in held.pixel_hashes[shared])
    if not len(shared):
        return held, 0, 0, hashes
    patients = set(held.manifest.groups[shared])
    rows = np.flatnonzero([group not in patients for group in held.manifest.groups])
    if not len(rows):
        raise InputError(f"every held-out patient has an image that is a training image ({len(shared):,}): no null")
    return select_rows(held, rows), len(shared), len(patients), hashes
