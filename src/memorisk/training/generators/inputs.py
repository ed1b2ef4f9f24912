"""The inputs of a generator's training: its images, their conditions, the weights that it begins with.

Invalid rows and labels are refused. Notes for the report name few images or patients held out, images of
mixed kinds, and weights that were trained on some of the patients.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memorisk.images.options import ImageOptions
from memorisk.images.pixels import is_grey
from memorisk.images.readers.headers import image_header
from memorisk.images.store import ImageStore
from memorisk.models.generators.conditions import Conditions
from memorisk.models.generators.dit.weights import find_dit
from memorisk.models.provenance import TrainingRecord, read_training_record
from memorisk.runs.errors import InputError, listed, one_line, plural
from memorisk.training.engine.data import Division
from memorisk.training.engine.epoch_training import limit_validation
from memorisk.training.generators.options import GeneratorOptions

FEW_TRAINING_IMAGES = 1000
"""Number of different images below which a generator is known to repeat some (paper 003, A.5; METHODS section 5)."""
MAX_HELD_OUT = 512


@dataclass(frozen=True)
class Conditioning:
    """Conditions of the training images: none, their class, or a vector each.

    Attributes:
        conditioned_on: Kind of the conditions: ``none``, ``class`` or ``vector``.
        classes: Names of the classes, sorted.
        counts: Number of training rows of each class.
        labels: Class numbers of the training rows, [n] int64; -1 for an image without a class.
        vectors: Vectors of the training rows, [n, k] float32.
        conditioning: Rule by which a vector is made.
        held_out: Class numbers of the validation rows, [m] int64, -1 without a class or where vectors condition.
    """

    conditioned_on: str
    classes: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    labels: np.ndarray | None = None
    vectors: np.ndarray | None = None
    conditioning: str = ""
    held_out: np.ndarray | None = None


def check_rows(store: ImageStore, rows: np.ndarray, validation: np.ndarray, options: GeneratorOptions) -> None:
    """Refuse rows that lie outside the images, are in both parts, or are fewer than a step takes.

    Args:
        store: The images with their manifest.
        rows: Rows to train on; may repeat.
        validation: Rows that only measure; may be empty.
        options: Settings of the training.

    Raises:
        InputError: The rows are invalid in one of these ways.
    """
    n = len(store.images)
    for name, chosen in (("training", rows), ("validation", validation)):
        if chosen.ndim != 1 or (len(chosen) and (chosen.min() < 0 or chosen.max() >= n)):
            raise InputError(f"{name} rows must be whole numbers from 0 to {n - 1}")
    if len(np.intersect1d(rows, validation)):
        raise InputError("some images are training and validation images at once: split by patient")
    if len(rows) < options.images_a_step:
        raise InputError(
            f"there are {plural(len(rows), 'training image', 'training images')} and {options.images_a_step} are "
            f"taken a step: give more images, or a batch_size of at most {len(rows)}"
        )


def limit_held_out(validation: np.ndarray, seed: int) -> tuple[np.ndarray, tuple[str, ...]]:
    """Take at most 512 validation images, and note it."""
    return limit_validation(validation, MAX_HELD_OUT, seed, "The held-out loss is of")


def build_conditioning(
    store: ImageStore,
    rows: np.ndarray,
    validation: np.ndarray,
    options: GeneratorOptions,
    conditions: Conditions | None,
) -> Conditioning:
    """Build the conditions that a diffusion model has of its images, as the options request.

    Args:
        store: The images; classes are the manifest's labels.
        rows: Rows to train on.
        validation: Rows that only measure.
        options: Settings of the training.
        conditions: Conditions of the training images, for a generator of vectors.

    Raises:
        InputError: Classes are missing, or some images have no conditions.
    """
    wanted = options.conditioned_on
    labels = store.manifest.labels
    classes = tuple(sorted(set(labels[rows].tolist()) - {""}))
    if wanted == "auto":
        vector = options.conditioning is not None or conditions is not None
        wanted = "vector" if vector else "class" if len(classes) > 1 else "none"
    if wanted == "none":
        return Conditioning("none", held_out=np.full(len(validation), -1))
    if wanted == "vector":
        values = _vectors(store, rows, conditions)
        assert conditions is not None
        vector_conditions = {"vectors": values, "conditioning": conditions.conditioning}
        return Conditioning("vector", **vector_conditions, held_out=np.full(len(validation), -1))
    if not classes:
        raise InputError(
            f"{one_line(store.manifest.name)} has no labels, and conditioned_on is class: give labels_csv, "
            "label_column or label_from, or take none"
        )
    number: Mapping[str, int] = {name: index for index, name in enumerate(classes)}
    of_rows = np.array([number.get(name, -1) for name in labels[rows]], dtype=np.int64)
    held_out = np.array([number.get(name, -1) for name in labels[validation]], dtype=np.int64)
    counts = tuple(np.bincount(of_rows[of_rows >= 0], minlength=len(classes)).tolist())
    return Conditioning("class", classes, counts, of_rows, held_out=held_out)


def notes_on_training_rows(store: ImageStore, rows: np.ndarray) -> tuple[str, ...]:
    """Note limits of the images that a generator is trained on, one sentence each.

    Args:
        store: The images with their manifest.
        rows: Rows to train on.
    """
    _, times = np.unique(store.pixel_hashes[rows].astype(str), return_counts=True)
    notes = []
    if len(times) < FEW_TRAINING_IMAGES:
        subject = plural(len(times), "different training image", "different training images")
        notes.append(f"{subject}: generators that see so few for long are known to repeat some of them.")
    if (twice := times > 1).any():
        subject = plural(int(twice.sum()), "training image is", "training images are")
        notes.append(
            f"{subject} there more than once with the same pixels, the commonest {int(times.max())} times: repeated "
            "images are remembered more."
        )
    if not store.manifest.groups_given:
        notes.append("Whose each image is was not given: every image counts as a patient of its own.")
    if store.images.dtype.itemsize > 1:
        notes.append("Images are stored in 16 bits; those that are drawn have 8.")
    return tuple(notes)


def _vectors(store: ImageStore, rows: np.ndarray, conditions: Conditions | None) -> np.ndarray:
    """Return the conditions of the training rows, [n, k], by their images' ids.

    Raises:
        InputError: Some rows have no conditions.
    """
    if conditions is None:
        raise InputError(
            "the generator is conditioned on a vector, and no conditions are given: name conditioning, or from Python "
            "give what pseudo_conditions makes"
        )
    place = {image: index for index, image in enumerate(conditions.images.tolist())}
    ids = store.manifest.images[rows].tolist()
    missing = [image for image in ids if image not in place]
    if missing:
        raise InputError(
            f"{plural(len(missing), 'training image has', 'training images have')} no condition, such as "
            f"{one_line(missing[0], 60)}"
        )
    return conditions.values[[place[image] for image in ids]]


MIN_HELD_OUT = 19
"""Number of patients below which a share at the usual nominal rate of 1 in 20 is impossible."""
MAX_INSPECTED = 512
_RESIZED = {
    "squash": "squashed to a square, which changes their proportions",
    "crop": "cropped to the middle square",
    "pad": "padded with black to a square",
}


def notes_on_inputs(store: ImageStore, parts: Division, options: ImageOptions) -> tuple[str, ...]:
    """Note limits of the images, one sentence each; of more than 512 training images 512, evenly spread, are examined.

    Args:
        store: The images with their manifest.
        parts: Parts of the images, by patient.
        options: Settings by which they were read.
    """
    rows = parts.rows["training"]
    looked = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MAX_INSPECTED)).astype(int))]
    subject = plural(len(looked), "training image", "training images") + (
        " looked at" if len(looked) < len(rows) else ""
    )
    return (
        *_note_small_parts(parts),
        *_note_shapes(store, looked, subject, options),
        *_note_colours(store, looked, subject),
    )


def _note_small_parts(parts: Division) -> list[str]:
    """Note held-out parts that are too small for their purpose."""
    wants = {
        "validation": "No memorized share is possible while it trains",
        "test": "No final audit with held-out patients is possible",
    }
    notes, counts = [], parts.counts
    for name, what in wants.items():
        if (n := counts[name]["patients"]) < MIN_HELD_OUT:
            notes.append(f"{what} with {plural(n, f'{name} patient', f'{name} patients')}: it needs {MIN_HELD_OUT}.")
    return notes


def _note_shapes(store: ImageStore, rows: np.ndarray, subject: str, options: ImageOptions) -> list[str]:
    """Note files of another shape than a square, and of several depths, by the headers of the files that have one."""
    member = store.manifest.table.get("member")
    files = [(store.manifest.file(row), "" if member is None else str(member.iloc[row] or "")) for row in rows.tolist()]
    read = {one: image_header(*one) for one in dict.fromkeys(files)}  # many images share a file
    headers = [header for one in files if (header := read[one]) is not None]
    oblong = sum(header.width != header.height for header in headers)
    deep, n_headers = sum(header.deep for header in headers), len(headers)
    notes = []
    if oblong and options.size is not None:
        are = "is not square and was" if oblong == 1 else "are not square and were"
        notes.append(f"{oblong:,} of {subject} {are} {_RESIZED[options.resize]} (resize {options.resize}).")
    if 0 < deep < n_headers:
        notes.append(
            f"Depths are mixed: {deep:,} of {subject} have more than 8 bits a pixel, {n_headers - deep:,} have 8."
        )
    return notes


def _note_colours(store: ImageStore, rows: np.ndarray, told: str) -> list[str]:
    """Note grey images among coloured ones."""
    if store.images.shape[-1] != 3:
        return []
    grey = sum(is_grey(store.images[row]) for row in rows.tolist())
    if not 0 < grey < len(rows):
        return []
    return [f"Of {told} {grey:,} are grey and {len(rows) - grey:,} coloured: the generator draws RGB."]


@dataclass(frozen=True, eq=False)
class InitialWeights:
    """Weights that a training begins with: random, or weights that have seen images before.

    Attributes:
        name: Name of the weights; "" where they are random.
        seen: Record of the images that they were trained on, where that is known.
    """

    name: str = ""
    seen: TrainingRecord | None = None

    @classmethod
    def of(cls, options: GeneratorOptions) -> "InitialWeights":
        """Find the weights that the options name.

        Args:
            options: Settings of the training.

        Raises:
            InputError: The weights do not exist, or the record of their training images cannot be read.
        """
        if options.kind != "dit" or options.weights is None:
            return cls()
        start = find_dit(options.weights)
        return cls(start.name, start.seen)

    @property
    def unknown(self) -> str:
        """Name of the weights where their training images are unknown; else ""."""
        return self.name if self.seen is None else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the images that the weights have seen."""
        if not self.name:
            return ()
        unknown = f"What weights {self.name} were trained on is not known here: images of theirs may be repeated, too."
        if self.seen is None:
            return (unknown,)
        n_images = plural(self.seen.n_training, "image", "images")
        return (f"It began with weights {self.name}, trained on {n_images}, which it may repeat, too.",)

    def refuse_known(self, store: ImageStore, parts: Mapping[str, np.ndarray]) -> None:
        """Refuse to hold out patients that the weights were trained on: no measurement on them would be valid.

        Args:
            store: The images with their manifest.
            parts: Rows of each part that is held out, by its name.

        Raises:
            InputError: The weights were trained on one of these patients.
        """
        if self.seen is None:
            return
        trained = self.seen.parts(store).part == "training"
        for name, rows in parts.items():
            overlap = sorted(set(store.manifest.groups[rows[trained[rows]]].tolist()))
            if overlap:
                subject = plural(len(overlap), f"{name} patient", f"{name} patients")
                raise InputError(
                    f"weights {self.name} were trained on {subject} ({listed(overlap)}): divide the patients as for "
                    "that training (split_seed, or splits given), or begin with other weights"
                )


def notes_on_latents(options: GeneratorOptions, store: ImageStore, parts: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """Note an autoencoder that was trained on patients held out of the generator's training.

    Args:
        options: Settings of the training.
        store: The images with their manifest.
        parts: Rows of each part that is held out, by its name.

    Raises:
        InputError: The record of the autoencoder's training images cannot be read.
    """
    kind, _, folder = options.latent.partition(":")
    record = read_training_record(Path(folder)) if kind == "autoencoder" else None
    if options.kind != "dit" or record is None:
        return ()
    trained, notes = record.parts(store).part == "training", []
    for name, rows in parts.items():
        if n := len(set(store.manifest.groups[rows[trained[rows]]].tolist())):
            subject = plural(n, f"{name} patient", f"{name} patients")
            notes.append(
                f"The autoencoder was trained on {subject}: the drawn images may depend on them, and an audit "
                "refuses them as held-out patients."
            )
    return tuple(notes)
