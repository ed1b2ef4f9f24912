"""One data set of the study, decoded: training and validation images, probes, the mark and its controls."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from memorisk.audits.feature.marks import choose_controls, choose_mark
from memorisk.images.alterations.marks import Mark
from memorisk.images.copies.duplicates import linked_groups
from memorisk.images.manifest import Manifest, refuse_leaking_splits, require_labels
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.splits import NOT_AUDITABLE, split_by_group
from memorisk.images.store import ImageStore, build_store
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.workload import Progress
from memorisk.studies.unique_features.config import UniqueOptions, UniqueSet

_TRAIN, _VALIDATION = ("train", "training"), ("val", "valid", "validation")


@dataclass(frozen=True, eq=False)
class SetData:
    """A data set ready to train on.

    Attributes:
        name: Name of the data set in the study.
        store: Store of the images.
        probes: Store of the probes, the images of the queries.
        labels: Class number of each image, [N].
        classes: Names of the classes.
        rows: Rows of the training part's images, ascending: slot j is ``rows[j]``.
        validation: Rows of the images that decide when to stop.
        mark: Mark that is burnt in.
        controls: Controls of the mark.
        probes_left_out: Number of probes left out because they are among the images, or of the same patients.
        decoded: Bytes of the stores that were read for the data set, by their folders.
    """

    name: str
    store: ImageStore
    probes: ImageStore
    labels: np.ndarray
    classes: list[str]
    rows: np.ndarray
    validation: np.ndarray
    mark: Mark
    controls: list[Mark]
    probes_left_out: int
    decoded: Mapping[Path, int]

    @property
    def channels(self) -> int:
        """Return the number of channels: 1 or 3."""
        return int(self.store.images.shape[3])


def prepare_set(name: str, dataset: UniqueSet, options: UniqueOptions, progress: Progress) -> SetData:
    """Decode a data set and its probes, draw the validation part, make the mark.

    Where the source gives a split, its test part is left out: the validation part comes from the training part
    (METHODS section 2, "Models"), by patient, drawn by ``seed``, unless the source has one.

    Raises:
        InputError: Images, labels, probes or the mark cannot be read or made.
    """
    manifest = load_manifest(dataset.images, dataset.reading)
    require_labels(manifest)
    store = build_store(manifest, dataset.reading, progress=lambda d, n: progress(f"{name}: images", d, n))
    height, width = store.images.shape[1:3]
    if height != width:
        raise InputError(f"{one_line(name, 60)}: images are {height} x {width}; the networks take squares: give size")
    place = options.where
    mark = choose_mark(options, place)
    mark.corner(height, width)
    controls = choose_controls(mark, options, place, options.seed)
    labels = np.asarray(store.manifest.labels, dtype=str)
    if any("|" in label for label in labels):
        raise InputError(f"{one_line(name, 60)}: an image has several findings; the paper's networks name one class")
    classes, numbers = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"{one_line(name, 60)}: all images are of one class; there is nothing to learn")
    rows, validation = _parts(store, labels, options)
    for which in ("random", "latent"):
        if dataset.networks and getattr(options, which) > len(rows):
            n = getattr(options, which)
            raise InputError(f"{one_line(name, 60)}: {which} is {n:,}, and there are {len(rows):,} training images")
    probes, left_out, read = _probes(name, dataset, options, store, progress)
    return SetData(
        name=name,
        store=store,
        probes=probes,
        probes_left_out=left_out,
        labels=numbers.astype(np.int64),
        classes=classes.tolist(),
        rows=rows,
        validation=validation,
        mark=mark,
        controls=controls,
        decoded={one.folder: one.images.nbytes for one in (store, read, probes)},
    )


def _parts(store: ImageStore, labels: np.ndarray, options: UniqueOptions) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows to train on and the rows to stop by.

    Raises:
        InputError: The given split has no training images, or patients on both sides; or a part is empty.
    """
    manifest = store.manifest
    train = np.ones(len(labels), dtype=bool)
    if manifest.splits is not None:
        refuse_leaking_splits(manifest)
        part = np.array([str(s).lower() for s in manifest.splits], dtype=object)
        train, validation = np.isin(part, _TRAIN), np.isin(part, _VALIDATION)
        if not train.any():  # one part of an official set: nothing says that it may not be trained on
            train, validation = np.ones(len(labels), dtype=bool), np.zeros(len(labels), dtype=bool)
        if validation.any():
            return np.flatnonzero(train), np.flatnonzero(validation)
    rows = np.flatnonzero(train)
    linked = linked_groups(store.pixel_hashes[rows], manifest.groups[rows])
    shares = (1 - options.validation, 0.0, options.validation)
    part = split_by_group(labels[rows], manifest.groups[rows], fractions=shares, seed=options.seed, linked=linked)
    part[part == NOT_AUDITABLE] = "train"
    chosen, test = rows[part == "train"], rows[part == "test"]
    if len(chosen) < 2 or not len(test):
        raise InputError(f"{one_line(manifest.name)}: too few images for a training and a validation part")
    return chosen, test


def _probes(
    name: str, dataset: UniqueSet, options: UniqueOptions, store: ImageStore, progress: Progress
) -> tuple[ImageStore, int, ImageStore]:
    """Return the probes, how many images were left out, and all images that were read for them.

    The probes have the size and the channels of the training images. Images that are among the training or validation
    images, and those of their patients where both are known, do not serve as probes: the model may answer to them
    because it saw them.

    Raises:
        InputError: Fewer than two probes are left.
    """
    reading = ImageOptions(
        size=int(store.images.shape[1]),
        channels=1 if store.images.shape[3] == 1 else 3,
        depth=8 if store.images.dtype == np.uint8 else 16,
        **{key: getattr(dataset.reading, key) for key in ("store", "follow_links", "max_pixels", "window", "resize")},
    )
    manifest = _with_groups(dataset, reading)
    rng = np.random.default_rng([options.seed, 1])
    n = min(manifest.n, options.n_probes)
    first = np.arange(n) if n == manifest.n else rng.choice(manifest.n, n, replace=False)
    spare = rng.permutation(np.setdiff1d(np.arange(manifest.n), first))[:n]
    order = np.concatenate([first, spare])
    many = build_store(manifest.subset(order), reading, progress=lambda d, n: progress(f"{name}: probes", d, n))
    at = {image: place for place, image in enumerate(manifest.images[order])}
    place = np.array([at[image] for image in many.manifest.images])  # one that cannot be read is not there
    excluded = np.isin(many.pixel_hashes.astype(str), store.pixel_hashes.astype(str))
    if many.manifest.groups_given and store.manifest.groups_given:
        excluded |= np.isin(many.manifest.groups.astype(str), store.manifest.groups.astype(str))
    probe_rows = np.sort(order[np.sort(place[~excluded])[:n]])
    if len(probe_rows) < 2:
        raise InputError(
            f"{one_line(dataset.probes)} holds {len(probe_rows)} images that no model is trained on "
            f"({int(excluded.sum()):,} are among the training images or of their patients): "
            "at least 2 probes are needed"
        )
    return build_store(manifest.subset(probe_rows), reading), int(excluded.sum()), many


def _with_groups(dataset: UniqueSet, reading: ImageOptions) -> Manifest:
    """Return the probes' manifest, with patients where the training images' rule finds them."""
    if dataset.reading.group_from is not None:
        with suppress(InputError):  # other names: their patients are not known
            return load_manifest(dataset.probes, replace(reading, group_from=dataset.reading.group_from))
    return load_manifest(dataset.probes, reading)
