"""Sets of images that are compared with each other, and the three sets of an audit of generated images.

Sets are read, split, decoded to one form, stacked and chosen from.

The three sets are training, synthetic and held-out images, decoded alike. Training and held-out patients must be
apart: a patient in both is refused by name, a patient whose image is in both does not count as held out and
is left out. Synthetic images belong to no patient.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pandas as pd

from memorisk.audits.comparison.options import PartOptions
from memorisk.audits.comparison.other_forms import Forms, other_forms
from memorisk.audits.run_images import HELD_OUT, OTHER, SYNTHETIC, TRAIN
from memorisk.images.identity import DoubtedIds, IdDoubt, look_alike_doubt, look_alikes_across
from memorisk.images.manifest import Manifest, shared_study_doubts
from memorisk.images.options import ImageOptions
from memorisk.images.pixels import few_levels_note, grey_levels
from memorisk.images.readers.headers import uncovered_frames
from memorisk.images.readers.suffixes import KIND_BY_SUFFIX, suffix
from memorisk.images.sources.registry import load_manifest
from memorisk.images.stacked_images import StackedImages
from memorisk.images.store import ImageStore, build_store
from memorisk.images.transparency import count_hiding
from memorisk.images.volumes import is_volume
from memorisk.runs.errors import InputError, listed, one_line, plural
from memorisk.runs.workload import Progress

Source = str | Path | Manifest | ImageStore
"""A source as for `load_manifest`, its manifest, or the store of its images."""


def read_source(source: Source, options: ImageOptions) -> Manifest | ImageStore:
    """Return the manifest of a source; a source that was handed in decoded stays decoded.

    Raises:
        InputError: The source cannot be read.
    """
    return source if isinstance(source, (Manifest, ImageStore)) else load_manifest(source, options)


def source_name(source: Source) -> str:
    """Name a source as in ``config.yaml``."""
    return manifest_of(source).name if isinstance(source, (Manifest, ImageStore)) else str(source)


def manifest_of(source: Manifest | ImageStore) -> Manifest:
    """Return the manifest of a source, decoded or not."""
    return source.manifest if isinstance(source, ImageStore) else source


def given_splits(manifest: Manifest) -> list[str]:
    """Return the names of its given splits, sorted."""
    return [] if manifest.splits is None else sorted({str(part) for part in manifest.splits if part})


NO_SPLIT = "without a split"
"""Name of the part of the images that have no given split."""


def part_names(manifest: Manifest) -> np.ndarray:
    """Return the name of the given split of each image, or `NO_SPLIT`, object array of str [n]."""
    splits = np.full(manifest.n, "", dtype=object) if manifest.splits is None else manifest.splits
    return np.array([one_line(part, 40) or NO_SPLIT for part in splits], dtype=object)


def images_by_part(manifest: Manifest) -> dict[str, int]:
    """Count the images of each part, by the names of `part_names`."""
    names, counts = np.unique(part_names(manifest).astype(str), return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def further_parts_note(images: Mapping[str, int], *, pixels_compared: bool, data: str = "TRAIN") -> str:
    """Return the sentence on the images of TRAIN in further parts, for pages, terminal and statement.

    Args:
        images: Number of images in each further part, at least one part.
        pixels_compared: Whether generated images are compared with the pixels of these images.
        data: Name of the images, or of the split, that hold the parts.
    """
    count = plural(sum(images.values()), "image", "images")
    use = "no generated image is compared with them here; memorisk audit synthetic compares their pixels"
    if pixels_compared:
        use = "only their pixels are compared with generated images, and they take no other part"
    return f"{data} holds {count} in further parts ({part_counts(images)}): {use}."


def part_counts(images: Mapping[str, int]) -> str:
    """Return the number of images in each part as words, such as ``val: 10``."""
    return ", ".join(f"{part}: {n:,}" for part, n in images.items())


def split_source(
    source: Manifest | ImageStore, train: str, other: str
) -> tuple[Manifest | ImageStore, Manifest | ImageStore, Manifest | ImageStore | None]:
    """Return two given splits of one source, and the images that are in neither; None where there are none.

    Raises:
        InputError: A split does not exist.
    """
    manifest = manifest_of(source)
    names, splits = given_splits(manifest), manifest.splits
    for name in (train, other):
        if splits is None or name not in names:
            have = f"has the splits {listed(names)}" if names else "has no given split"
            raise InputError(f"{one_line(manifest.name)} {have}; there is no {one_line(name, 40)!r} in it")
    take: Callable[[np.ndarray], Manifest | ImageStore] = (
        partial(select_rows, source) if isinstance(source, ImageStore) else source.subset
    )
    further = np.flatnonzero((splits != train) & (splits != other))
    return (
        take(np.flatnonzero(splits == train)),
        take(np.flatnonzero(splits == other)),
        take(further) if len(further) else None,
    )


def decode_alike(
    given: Mapping[str, Manifest | ImageStore | None], options: Mapping[str, ImageOptions], progress: Progress
) -> dict[str, ImageStore]:
    """Decode sets to one size and as many channels: grey ones to three where another has colour.

    Args:
        given: Sources by the names of the sets; those that are None have no store.
        options: Options by which the images of each are read.
        progress: Called with (stage, done, total).

    Raises:
        InputError: Images cannot be read, or sets differ in size or type.
    """
    stores = {
        what: _store(what, source, options[what], progress) for what, source in given.items() if source is not None
    }
    if len({store.images.shape[3] for store in stores.values()}) > 1:
        for what, store in stores.items():
            source = given[what]
            if store.images.shape[3] == 1 and isinstance(source, Manifest):
                stores[what] = _store(what, source, replace(options[what], channels=3), progress)
    shapes = {what: (store.images.shape[1:], store.images.dtype.name) for what, store in stores.items()}
    if len(set(shapes.values())) > 1:
        names = {what: _set_name(what, store.manifest) for what, store in stores.items()}
        forms = [f"{names[what]}: {' x '.join(map(str, shape))} {kind}" for what, (shape, kind) in shapes.items()]
        without = f", or TRAIN without its {names[OTHER]}" if OTHER in stores else ""
        raise InputError(
            f"the sets are stored in different forms ({'; '.join(forms)}), and pixels are compared in one: give "
            f"--size, and --channels or --depth{without}"
        )
    return stores


def _set_name(what: str, manifest: Manifest) -> str:
    """Return the name of a set in messages; of further parts their own names."""
    if what != OTHER:
        return what
    parts = list(images_by_part(manifest))
    return f"further {'part' if len(parts) == 1 else 'parts'} {listed(parts)}"


def _store(what: str, source: Manifest | ImageStore, options: ImageOptions, progress: Progress) -> ImageStore:
    if isinstance(source, ImageStore):
        return source
    return build_store(source, options, progress=partial(progress, f"decoding {what} images"))


def stack_stores(stores: list[ImageStore], order: np.ndarray | None = None) -> ImageStore:
    """Lay stores end to end, in an order, as one store; the pixels stay where they are.

    Args:
        stores: Stores of one shape and type.
        order: Rows of the stores laid end to end, [N]; None for all as they lie.
    """
    images = StackedImages([store.images for store in stores], order)
    tables = [store.manifest.table[["image", "path", "label", "group"]] for store in stores]
    table = pd.concat(tables, ignore_index=True)
    hashes = np.concatenate([store.pixel_hashes for store in stores])
    return replace(
        stores[0],
        images=cast(np.ndarray, images),
        manifest=replace(stores[0].manifest, table=table.iloc[images.order].reset_index(drop=True)),
        pixel_hashes=hashes[images.order],
    )


def select_rows(store: ImageStore, rows: np.ndarray) -> ImageStore:
    """Return some rows of a store, [n] by index."""
    return replace(
        store,
        images=cast(np.ndarray, StackedImages([store.images], rows)),
        manifest=store.manifest.subset(rows),
        pixel_hashes=store.pixel_hashes[rows],
    )


VOLUMES_COMPARED = (
    "Equal voxels are searched for in whole volumes, also mirrored and turned, and the second look lays whole volumes "
    "on one another. Networks and details compare three middle slices of each volume, one across each axis; near "
    "copies compare its middle axial one."
)
"""Note on what of volumes is compared."""
MIN_GREY_LEVELS = 3
"""Grey levels of 256 between the extremes of nearly all pixels: an image with fewer shows rounding alone."""


def is_blank(store: ImageStore, rows: np.ndarray) -> np.ndarray:
    """Return whether an image has one value only, [n]: such an image shows no person."""
    images = (np.asarray(store.images[row]) for row in rows)
    return np.array([image.max() == image.min() for image in images], dtype=bool)


def is_nearly_blank(store: ImageStore) -> np.ndarray:
    """Return whether nearly all pixels of an image span fewer grey levels, as in a 16-bit file up to 255, [N]."""
    return np.array([grey_levels(np.asarray(image)) - 1 < MIN_GREY_LEVELS for image in store.images], dtype=bool)


class ComparedParts:
    """Knowledge of the people of a comparison, from the manifests of its parts."""

    @property
    def manifests(self) -> tuple[Manifest, Manifest | None, Manifest | None]:
        """Return the manifests of training, new and synthetic images; None for a part that there is not.

        The ids of synthetic images mean nothing. They have no manifest here where they do not come from files.
        """
        raise NotImplementedError

    @property
    def real_manifests(self) -> list[Manifest]:
        """Return the manifests of the real parts."""
        return [manifest for manifest in self.manifests[:2] if manifest is not None]

    @property
    def groups_given(self) -> bool:
        """Return whether every real part names the patient of each image."""
        return all(manifest.groups_given for manifest in self.real_manifests)

    @property
    def n_without_group(self) -> int:
        """Return the number of real images that have no patient id."""
        return sum(manifest.n_without_group for manifest in self.real_manifests)

    def knowledge(self, *, one_image_per_patient: bool) -> dict[str, Any]:
        """Return what is known of the people, as numbers of a result.

        Args:
            one_image_per_patient: Whether the user asserts that no patient has two images.
        """
        return {
            "patients_known": (self.groups_given and not self.n_without_group) or one_image_per_patient,
            "patients_by_word": one_image_per_patient and not self.groups_given,
            "n_without_patient": self.n_without_group if self.groups_given else 0,
            "ids": DoubtedIds.of(self.id_doubts),
        }

    @property
    def id_doubts(self) -> tuple[IdDoubt, ...]:
        """Return the doubts about the identities in the real images, each once."""
        train, new, synthetic = self.manifests
        doubts = [doubt for manifest in self.real_manifests for doubt in manifest.id_doubts]
        doubts += [] if new is None else shared_study_doubts(train, new)
        real_studies = {study for manifest in self.real_manifests for study in manifest.studies} - {""}
        studies = real_studies & set(() if synthetic is None else synthetic.studies)
        if studies:
            count = plural(len(studies), "study of real images is", "studies of real images are")
            doubts.append(
                IdDoubt(
                    "study-of-synthetic",
                    f"{count} that of synthetic images, too, which may be real images",
                    "synthetic images without headers of real ones, and no real images among them",
                    tuple(sorted(studies)),
                )
            )
        return tuple(dict.fromkeys(doubts))


LeftOf = Literal["files", "nifti", "series"]
"""Kind of what further frames are left out of: files of several frames, NIfTI files of which slices were read, or files
of several volumes."""


@dataclass(frozen=True, eq=False)
class Sets(ComparedParts):
    """Sets of images that are compared."""

    train: ImageStore
    synthetic: ImageStore
    held: ImageStore | None
    """Held-out images; None without."""
    shared_images: int
    """Number of held-out images with the pixels of a training image."""
    shared_patients: int
    """Number of held-out patients left out because of them."""
    shared_hashes: frozenset[str]
    """Hashes of pixels that are in both parts: a synthetic image that has them copies no person for certain."""
    notes: tuple[str, ...]
    """Assumptions and omissions, one sentence for each, without ids."""
    frames_left: tuple[int, int] = (0, 0)
    """Numbers of pages, frames and slices of training and of synthetic files that the options leave out."""
    left_of: LeftOf = "files"
    """Kind of what these frames are left out of."""
    train_hiding: int = 0
    """Number of training images that hold a picture under transparent pixels, which is not compared."""
    others: ImageStore | None = None
    """Images of further parts of TRAIN, whose pixels alone are compared; None without."""
    forms: Forms = field(default_factory=dict)
    """Real images in each other form."""

    @property
    def real(self) -> ImageStore:
        """Return training images, then held-out ones, as one store."""
        return self.train if self.held is None else stack_stores([self.train, self.held])

    @property
    def shares_pixels(self) -> np.ndarray:
        """Return whether an image is of a patient who shares an image with another patient, of either part, [N + M].

        No image counts where no held-out patient was left out. Where one was, the remaining patients are not a random
        split, because patients who share an image are in one part. Patients who share no image are a random split,
        since that does not depend on the parts.
        """
        real = self.real
        if not self.shared_patients:
            return np.zeros(len(real.images), bool)
        parts = np.arange(len(real.images)) >= len(self.train.images)
        who = np.unique([parts.astype(str), real.manifest.groups.astype(str)], axis=1, return_inverse=True)[1].ravel()
        pixels = np.unique(real.pixel_hashes.astype(str), return_inverse=True)[1]
        pairs = np.unique(np.stack([pixels, who]), axis=1)
        several = np.bincount(pairs[0]) > 1
        several[pixels[np.isin(real.pixel_hashes.astype(str), list(self.shared_hashes))]] = True
        rows = np.flatnonzero(several[pixels])
        rows = rows[~is_blank(real, rows)]
        return np.isin(who, who[rows])

    @property
    def manifests(self) -> tuple[Manifest, Manifest | None, Manifest | None]:
        """Return the manifests of the training, held-out and synthetic images."""
        return self.train.manifest, None if self.held is None else self.held.manifest, self.synthetic.manifest


@dataclass(frozen=True)
class Manifests:
    """The three sources, opened, before a pixel is decoded; a source that was handed in decoded is its store."""

    train: Manifest | ImageStore
    synthetic: Manifest | ImageStore | None
    """Images that the generator made; None where they are not there yet."""
    unseen: Manifest | ImageStore | None
    """Real images that the generator never saw; None without."""
    notes: tuple[str, ...]
    """Assumptions and omissions, one sentence for each."""
    options: PartOptions
    """Settings by which the images are read."""
    others: Manifest | ImageStore | None = None
    """Images of further parts of TRAIN, whose pixels are compared; None without, and where they are not compared."""


def read_manifests(
    train: Source,
    synthetic: Source | None,
    unseen: Source | None,
    options: PartOptions,
    progress: Progress,
    *,
    unseen_are_null: bool = True,
    others: Source | None = None,
    compares_others: bool = False,
) -> Manifests:
    """Open the sources, and refuse here everything that can be refused without pixels.

    Args:
        train: Images that the generator was trained on.
        synthetic: Images that the generator made; None where they are not there yet.
        unseen: Real images that the generator never saw.
        options: Settings by which the images are listed and read.
        progress: Called with (stage, done, total).
        unseen_are_null: Whether training patients are ranked among unseen ones: there must be two, and no patient in
            both parts.
        others: Images of further parts of the data that TRAIN is from, which were split off before; None without.
        compares_others: Whether generated images are compared with the pixels of further parts of TRAIN.

    Raises:
        InputError: A source cannot be read, a split does not exist, or patients are in both real parts.
    """
    progress("reading the manifests", 0, 0)
    ours = read_source(train, options.of_real())
    notes: list[str] = []
    theirs: Manifest | ImageStore | None = None
    further = None if others is None else read_source(others, options.of_real())
    if options.new_split is not None:
        ours, theirs, further = split_source(ours, options.trained_on, options.new_split)
    else:
        theirs = None if unseen is None else read_source(unseen, options.of_real())
        if len(names := given_splits(manifest_of(ours))) > 1:
            aside = "" if theirs is not None else "; --held-out-split takes the held-out images from them"
            notes.append(f"TRAIN has splits ({listed(names)}): all of its images are taken for training images{aside}.")
    if unseen_are_null:
        if len(set(manifest_of(ours).groups)) < 2:
            name = one_line(manifest_of(ours).name)
            raise InputError(f"{name}: one training patient; nearest of several are looked for")
        if theirs is not None:
            notes += refuse_shared_patients(manifest_of(ours), manifest_of(theirs))
    if further is not None:
        notes.append(further_parts_note(images_by_part(manifest_of(further)), pixels_compared=compares_others))
    notes += [note for source in (ours, theirs) if source is not None for note in manifest_of(source).notes]
    drawn = None if synthetic is None else read_source(synthetic, options.of_synthetic())
    return Manifests(ours, drawn, theirs, tuple(dict.fromkeys(notes)), options, further if compares_others else None)


def decode_parts(opened: Manifests, new: str, progress: Progress) -> dict[str, ImageStore]:
    """Decode the three sets, and further parts that are compared, to one size and as many channels.

    Args:
        opened: The sources.
        new: Name of the images that the generator never saw.
        progress: Called with (stage, done, total).

    Raises:
        InputError: Images cannot be read, or differ in size.
    """
    real, synthetic = opened.options.of_real(), opened.options.of_synthetic()
    return decode_alike(
        {TRAIN: opened.train, SYNTHETIC: opened.synthetic, new: opened.unseen, OTHER: opened.others},
        {TRAIN: real, SYNTHETIC: synthetic, new: real, OTHER: real},
        progress,
    )


def decode_sets(opened: Manifests, progress: Progress) -> Sets:
    """Decode the three sets to one size and as many channels, and take held-out patients with training images away.

    Raises:
        InputError: Images cannot be read, differ in size, or no held-out patient is left.
    """
    stores = decode_parts(opened, HELD_OUT, progress)
    dark = [note for part, store in stores.items() for note in few_levels_note(store.images, f"{part} images")]
    notes = [*opened.notes, *_unread_notes(stores), *dark]
    notes += [VOLUMES_COMPARED] if is_volume(stores[TRAIN].images.shape) else []
    held, images, patients, hashes = stores.get(HELD_OUT), 0, 0, frozenset[str]()
    if held is not None:
        held, images, patients, hashes = separate_held_out(stores[TRAIN], held)
    progress("looking for pages and frames that are left out", 0, 0)
    hiding = count_hiding(stores[TRAIN].manifest, opened.options.of_real(), MIN_GREY_LEVELS)
    uncovered = [uncovered_frames(stores[part].manifest, opened.options.slice_plane) for part in (TRAIN, SYNTHETIC)]
    return Sets(
        train=stores[TRAIN],
        synthetic=stores[SYNTHETIC],
        held=held,
        shared_images=images,
        shared_patients=patients,
        shared_hashes=hashes,
        notes=tuple(notes),
        frames_left=(sum(uncovered[0].values()), sum(uncovered[1].values())),
        left_of=_left_of([*uncovered[0], *uncovered[1]], opened.options.frames),
        train_hiding=hiding,
        others=stores.get(OTHER),
        forms=other_forms([stores[TRAIN], *([] if held is None else [held])], opened.options.of_real(), progress),
    )


def _left_of(paths: Sequence[str], frames: str) -> LeftOf:
    """Say what is left out: further volumes of a series in time, slices of NIfTI files, or frames of any files."""
    if frames == "volume":
        return "series"
    return "nifti" if paths and all(KIND_BY_SUFFIX.get(suffix(path)) == "nifti" for path in paths) else "files"


def refuse_shared_patients(train: Manifest, held: Manifest) -> list[str]:
    """Refuse a patient on both sides; where patients are not given, say that names alone mean nothing.

    Raises:
        InputError: Patients are in both parts, or ids of the two look alike.
    """
    both = sorted(set(train.groups) & set(held.groups))
    alike = look_alikes_across(train.patients, held.patients)
    if not both and alike:
        raise InputError(
            f"{plural(len(alike), 'patient id looks', 'patient ids look')} alike in training and held out "
            f"({listed([' and '.join(names) for names in alike])}): {look_alike_doubt(alike).what_would_decide}"
        )
    if not both:
        return []
    if train.groups_given or held.groups_given:
        raise InputError(
            f"{plural(len(both), 'patient is', 'patients are')} in training and held out ({listed(both)}): split by "
            "patient, or leave their held-out images out"
        )
    return [
        f"{plural(len(both), 'name of an image occurs', 'names of images occur')} in training and held out. No "
        "patients are given, so that they were taken for different images; if the names are patients, say so with "
        "--group-from '(.+)[.]'."
    ]


def n_unread(store: ImageStore) -> int:
    """Count the images and files of a set that were not read, without texts that lie with them.

    An image whose label is dropped counts: a person is compared whatever the label.
    """
    return len(store.skipped) + len(store.manifest.not_compared)


def _unread_notes(stores: dict[str, ImageStore]) -> list[str]:
    """Note how many images of each set were not read."""
    notes = []
    for what, store in stores.items():
        if n := n_unread(store):
            notes.append(f"{n:,} {what} images or files were not read; nothing is known of them.")
    return notes


def separate_held_out(train: ImageStore, held: ImageStore) -> tuple[ImageStore, int, int, frozenset[str]]:
    """Keep held-out patients without a training image; count the images and patients that this leaves out.

    Raises:
        InputError: None of the held-out patients is left.
    """
    train_hashes = set(train.pixel_hashes)
    shared = np.flatnonzero([value in train_hashes for value in held.pixel_hashes])
    shared = shared[~is_blank(held, shared)]
    hashes = frozenset(str(value) for value in held.pixel_hashes[shared])
    if not len(shared):
        return held, 0, 0, hashes
    patients = set(held.manifest.groups[shared])
    rows = np.flatnonzero([group not in patients for group in held.manifest.groups])
    if not len(rows):
        raise InputError(f"every held-out patient has an image that is a training image ({len(shared):,}): no null")
    return select_rows(held, rows), len(shared), len(patients), hashes
