"""Which images a generator is trained on and what it is told of each: what is refused, and what must be said."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from memorisk.images.store import ImageStore
from memorisk.models.generators.conditions import Conditions
from memorisk.runs.errors import InputError, one_line, several
from memorisk.training.generators.options import GeneratorOptions

FEW = 1000
"""Below so many different images a generator is known to repeat some (paper 003, A.5; METHODS section 5)."""
MOST_HELD_OUT = 512


@dataclass(frozen=True)
class Told:
    """What a generator is told of its training images: nothing, their class, or a vector each.

    Attributes:
        conditioned_on: ``none``, ``class`` or ``vector``.
        classes: Their names, sorted.
        counts: Training rows of each.
        labels: [n] int64 of the training rows; -1 for an image without a class.
        vectors: [n, k] float32 of the training rows.
        conditioning: What a vector is made of.
        held_out: [m] int64 of the validation rows, -1 where there is no class or where vectors are told.
    """

    conditioned_on: str
    classes: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    labels: np.ndarray | None = None
    vectors: np.ndarray | None = None
    conditioning: str = ""
    held_out: np.ndarray | None = None


def check_rows(store: ImageStore, rows: np.ndarray, validation: np.ndarray, options: GeneratorOptions) -> None:
    """Refuse rows that are not there, in both parts, or fewer than a step takes.

    Args:
        store: The images.
        rows: To train on; may repeat.
        validation: That only measure; may be none.
        options: Of the training.

    Raises:
        InputError: They are.
    """
    n = len(store.images)
    for name, chosen in (("training", rows), ("validation", validation)):
        if chosen.ndim != 1 or (len(chosen) and (chosen.min() < 0 or chosen.max() >= n)):
            raise InputError(f"{name} rows must be whole numbers from 0 to {n - 1}")
    if len(np.intersect1d(rows, validation)):
        raise InputError("some images are training and validation images at once: split by patient")
    if len(rows) < options.images_a_step:
        raise InputError(
            f"there are {several(len(rows), 'training image', 'training images')} and {options.images_a_step} are "
            f"taken a step: give more images, or a batch_size of at most {len(rows)}"
        )


def chosen_held_out(validation: np.ndarray, seed: int) -> tuple[np.ndarray, tuple[str, ...]]:
    """At most 512 validation images, and what is said of it."""
    if len(validation) <= MOST_HELD_OUT:
        return validation, ()
    drawn = np.random.default_rng(seed).choice(len(validation), MOST_HELD_OUT, replace=False)
    said = f"The held-out loss is of {MOST_HELD_OUT:,} of {len(validation):,} validation images."
    return validation[np.sort(drawn)], (said,)


def told_of(
    store: ImageStore,
    rows: np.ndarray,
    validation: np.ndarray,
    options: GeneratorOptions,
    conditions: Conditions | None,
) -> Told:
    """What a diffusion model is told of its images, as the options ask.

    Args:
        store: The images; classes are the manifest's labels.
        rows: To train on.
        validation: That only measure.
        options: Of the training.
        conditions: Of the training images, for a generator of vectors.

    Raises:
        InputError: There are no classes, or no conditions of some images.
    """
    wanted = options.conditioned_on
    labels = store.manifest.labels
    classes = tuple(sorted(set(labels[rows].tolist()) - {""}))
    if wanted == "auto":
        vector = options.conditioning is not None or conditions is not None
        wanted = "vector" if vector else "class" if len(classes) > 1 else "none"
    if wanted == "none":
        return Told("none", held_out=np.full(len(validation), -1))
    if wanted == "vector":
        values = _vectors(store, rows, conditions)
        assert conditions is not None
        told = {"vectors": values, "conditioning": conditions.conditioning}
        return Told("vector", **told, held_out=np.full(len(validation), -1))
    if not classes:
        raise InputError(
            f"{one_line(store.manifest.name)} has no labels, and conditioned_on is class: give labels_csv, "
            "label_column or label_from, or take none"
        )
    number: Mapping[str, int] = {name: index for index, name in enumerate(classes)}
    of_rows = np.array([number.get(name, -1) for name in labels[rows]], dtype=np.int64)
    held_out = np.array([number.get(name, -1) for name in labels[validation]], dtype=np.int64)
    counts = tuple(np.bincount(of_rows[of_rows >= 0], minlength=len(classes)).tolist())
    return Told("class", classes, counts, of_rows, held_out=held_out)


def notes_on(store: ImageStore, rows: np.ndarray) -> tuple[str, ...]:
    """What must be said of images that a generator is trained on, a sentence each.

    Args:
        store: The images.
        rows: To train on.
    """
    _, times = np.unique(store.pixel_hashes[rows].astype(str), return_counts=True)
    notes = []
    if len(times) < FEW:
        said = several(len(times), "different training image", "different training images")
        notes.append(f"{said}: generators that see so few for long are known to repeat some of them.")
    if (twice := times > 1).any():
        said = several(int(twice.sum()), "training image is", "training images are")
        notes.append(
            f"{said} there more than once with the same pixels, the commonest {int(times.max())} times: repeated "
            "images are remembered more."
        )
    if not store.manifest.groups_given:
        notes.append("Whose each image is was not given: every image counts as a patient of its own.")
    if store.images.dtype.itemsize > 1:
        notes.append("Images are stored in 16 bits; those that are drawn have 8.")
    return tuple(notes)


def _vectors(store: ImageStore, rows: np.ndarray, conditions: Conditions | None) -> np.ndarray:
    """[n, k] conditions of the training rows, by their images' ids.

    Raises:
        InputError: There are none.
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
            f"{several(len(missing), 'training image has', 'training images have')} no condition, such as "
            f"{one_line(missing[0], 60)}"
        )
    return conditions.values[[place[image] for image in ids]]
