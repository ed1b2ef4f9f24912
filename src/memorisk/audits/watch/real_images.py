"""The real images of a watch: training and held-out ones, decoded alike, their features computed once.

The held-out images must be of patients that the training does not see. They choose when it stops, so that they cannot
serve as held-out images for the audit of what comes out of it (METHODS section 5: "neither chose the checkpoint").

Images in memory become an image store: what a training draws, and real images that Python hands in.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.comparison.features import encode, first_rows, values_by_pixels
from memorisk.audits.comparison.knowledge import detector_notes
from memorisk.audits.comparison.sets import (
    ComparedParts,
    Sets,
    Source,
    decode_parts,
    n_unread,
    read_manifests,
    read_source,
    separate_held_out,
    stack_stores,
)
from memorisk.audits.run_images import HELD_OUT, TRAIN
from memorisk.audits.watch.options import WatchOptions
from memorisk.images.identity import DoubtedIds
from memorisk.images.manifest import Manifest
from memorisk.images.pixels import hash_pixels
from memorisk.images.store import ImageStore
from memorisk.models.copy_detectors import published_sentence
from memorisk.runs.errors import InputError, plural
from memorisk.runs.storage.locations import cache_folder
from memorisk.runs.workload import Progress
from memorisk.scores.similarity import Similarity
from memorisk.statistics.exchangeability.image_numbers import ImageCounts, image_counts
from memorisk.training.detectors.pair_detectors import PairDetector, open_pair_detector
from memorisk.training.features.matrix import Features, load_features


def validate_images(images: object, what: str) -> np.ndarray:
    """Check what was given as images, and return it as [n, H, W, C].

    Args:
        images: uint8 or uint16, [n, H, W] or [n, H, W, C] with 1 or 3 channels.
        what: Name of the images in the message.

    Raises:
        InputError: They are something else.
    """
    pixels = np.asarray(images)
    pixels = pixels[..., None] if pixels.ndim == 3 else pixels
    good = pixels.dtype in (np.uint8, np.uint16) and pixels.ndim == 4 and pixels.shape[3] in (1, 3) and pixels.size
    if not good:
        raise InputError(
            f"{what} are {pixels.dtype} of shape {np.shape(pixels)}; uint8 images [n, H, W] or [n, H, W, C] with 1 or "
            "3 channels are needed"
        )
    return pixels


def match_channels(images: np.ndarray, like: ImageStore, what: str) -> np.ndarray:
    """Give images the channels of a store: grey ones repeated, three equal channels as one.

    Raises:
        InputError: They are of another size or type, or in colour where the store is grey.
    """
    wanted, have = like.images.shape[1:], images.shape[1:]
    if have[2] == 1 and wanted[2] == 3:
        images = np.repeat(images, 3, axis=3)
    elif have[2] == 3 and wanted[2] == 1 and (images == images[..., :1]).all():
        images = images[..., :1]
    if images.shape[1:] != wanted or images.dtype != like.images.dtype:
        raise InputError(
            f"{what} are {' x '.join(map(str, have))} {images.dtype}, the training images are stored as "
            f"{' x '.join(map(str, wanted))} {like.images.dtype}: give --size, and --channels or --depth"
        )
    return images


def store_of_arrays(
    images: np.ndarray, name: str, groups: Sequence[str] | np.ndarray | None = None, *, cache: Path | None = None
) -> ImageStore:
    """Make a store of images that lie in memory; nothing is written.

    Args:
        images: Images, [n, H, W, C].
        name: Name of the images; with a number it is the id of each.
        groups: Patient of each image, [n]; None for one patient per image.
        cache: Cache folder that keeps features next to its stores.

    Raises:
        InputError: The number of groups is not one per image.
    """
    ids = [f"{name} {i}" for i in range(len(images))]
    whose = ids if groups is None else [str(group) for group in groups]
    if len(whose) != len(ids):
        raise InputError(f"{len(whose)} groups are given for {len(ids)} {name} images: give one an image")
    table = pd.DataFrame({"image": ids, "path": "", "label": "", "group": whose}, dtype=object)
    hashes = np.array([hash_pixels(image) for image in images], dtype=object)
    none = pd.DataFrame({"image": [], "path": [], "reason": []}, dtype=object)
    folder = cache_folder(cache) / "stores" / "in memory"
    return ImageStore(images, Manifest(table=table, root=None, name=name), "in memory", folder, none, hashes)


Images = Source | np.ndarray
"""A source as for `load_manifest`, its manifest, the store of its images, or uint8 images [n, H, W, C]."""


@dataclass(frozen=True, eq=False)
class RealImages(ComparedParts):
    """Real images that every look compares drawn images with."""

    train: ImageStore
    held: ImageStore
    detector: PairDetector
    train_features: Features
    held_features: Features
    similarity: Similarity
    notes: tuple[str, ...]
    """Notes on what was assumed or left out, one sentence each."""
    counted: ImageCounts
    """Images by which patients are compared: all, or one each where their numbers are not alike."""
    decoded: int
    """Bytes of images that were decoded for it; 0 of what was handed in decoded."""
    shared_hashes: frozenset[str]
    """Pixel hashes of training images that left-out held-out patients have, too."""

    @property
    def manifests(self) -> tuple[Manifest, Manifest | None, Manifest | None]:
        """Return the manifests of the training and held-out images; drawn images have none."""
        return self.train.manifest, self.held.manifest, None

    @property
    def ids(self) -> DoubtedIds:
        """Doubts about the identities of the images."""
        return DoubtedIds.of(self.id_doubts)

    @property
    def n_train(self) -> int:
        """Number of training patients."""
        return len(set(self.train.manifest.groups))

    @property
    def n_held(self) -> int:
        """Number of held-out patients."""
        return len(set(self.held.manifest.groups))

    @property
    def both(self) -> ImageStore:
        """Training images, then held-out ones."""
        return stack_stores([self.train, self.held])


def open_real(
    train: Images,
    held_out: Images | None,
    options: WatchOptions,
    progress: Progress,
    *,
    train_groups: Any = None,
    held_out_groups: Any = None,
) -> RealImages:
    """Read, decode and compare by a detector the real images of a watch.

    Args:
        train: The images that the generator is trained on, repeated ones once.
        held_out: Images of other patients; None where ``held_out_split`` names a part of ``train``.
        options: Settings for reading and comparing images.
        progress: Called with (stage, done, total).
        train_groups: Patients of the training images, [N], where these are an array.
        held_out_groups: Patients of the held-out images, [M], where these are an array.

    Raises:
        InputError: A source cannot be read, a patient is on both sides, the detector knows one part better than the
            other, or held-out images are missing.
    """
    ours = _source(train, "training", train_groups, options)
    theirs = None if held_out is None else _source(held_out, "held-out", held_out_groups, options)
    if options.held_out_split is not None and theirs is not None:
        raise InputError("held_out and held_out_split both say which images are held out: give one of them")
    if options.held_out_split is None and theirs is None:
        raise InputError(
            "a watch needs held-out images: real images of patients whom the training does not see (held_out, or "
            "held_out_split)"
        )
    opened = read_manifests(ours, None, theirs, options, progress)
    notes, stores = list(opened.notes), decode_parts(opened, HELD_OUT, progress)
    held, images, patients, shared = separate_held_out(stores[TRAIN], stores[HELD_OUT])
    if patients:
        notes.append(
            f"{plural(patients, 'held-out patient has', 'held-out patients have')} an image that is a training image "
            f"({images:,}): left out."
        )
    if n := n_unread(stores[TRAIN]):
        notes.append(
            f"{plural(n, 'file or image', 'files or images')} of the training set {'was' if n == 1 else 'were'} not "
            "read: copies of these are not seen."
        )
    decoded = sum(stores[what].images.nbytes for what, source in ((TRAIN, opened.train), (HELD_OUT, opened.unseen))
                  if isinstance(source, Manifest))  # fmt: skip
    return _with_features(stores[TRAIN], held, shared, notes, options, decoded, progress)


def draw_features(real: RealImages, drawn: ImageStore, options: WatchOptions, progress: Progress) -> Features:
    """Compute features of drawn images by the same detector; equal pixels get the features of the real image.

    Raises:
        InputError: As `load_features`.
    """
    fitted = real.detector.source.kind == "pca" and real.detector.source.weights is None
    computed = load_features(
        drawn,
        real.detector.source,
        reference=real.both if fitted else None,
        size=options.input_size,
        normalise=options.normalise,
        device=options.device,
        precision=options.precision,
        cache=False,
        progress=progress,
    )
    of_real = np.concatenate([real.train_features.values, real.held_features.values])
    place = first_rows(real.both.pixel_hashes)
    values = values_by_pixels(computed.values, np.arange(len(drawn.images)), drawn.pixel_hashes, of_real, place)
    return replace(computed, values=values)


def _source(images: Images, what: str, groups: Any, options: WatchOptions) -> Manifest | ImageStore:
    """Return the manifest or store of what was handed in.

    Raises:
        InputError: It cannot be read, or patients are given of something else than an array.
    """
    if isinstance(images, np.ndarray):
        return store_of_arrays(validate_images(images, f"the {what} images"), what, groups, cache=options.store)
    if groups is not None:
        raise InputError(f"groups are given for an array of {what} images; a source says itself whose each image is")
    return read_source(images, options.of_real())


def _with_features(
    train: ImageStore, held: ImageStore, shared: frozenset[str], notes: list[str], options: WatchOptions,
    decoded: int, progress: Progress,
) -> RealImages:  # fmt: skip
    detector = _detector(options)
    sets = Sets(train, train, held, 0, 0, shared, ())
    ours, theirs = (encode(detector, store, sets.real, options, progress) for store in (train, held))
    for what, features in (("training", ours), ("held-out", theirs)):
        if not np.isfinite(features.values).all():
            raise InputError(f"{what} images have features that are not finite; leave them out")
    similarity = detector.similarity(np.concatenate([ours.values, theirs.values]))
    lines = [*notes, *(n for s in (train, held) for n in s.manifest.notes), *detector_notes(detector, sets)]
    if detector.detector is not None and (published := detector.detector.config.published):
        lines.append(published_sentence(detector.source.shown, published))
    groups = (store.manifest.groups.astype(str) for store in (train, held))
    counted = image_counts(*groups, seed=options.seed)
    all_notes = tuple(dict.fromkeys(lines))
    return RealImages(train, held, detector, ours, theirs, similarity, all_notes, counted, decoded, shared)


def _detector(options: WatchOptions) -> PairDetector:
    """Open what compares images.

    Raises:
        InputError: No such detector, or saved features, which drawn images have none of.
    """
    detector = open_pair_detector(options.detector, measure=options.measure, domain=options.domain)
    if detector.source.kind == "saved":
        raise InputError("a file of features has none of images that are yet to be drawn: name what computes features")
    return detector
