"""The images of a training divided by patient, and their labels as targets.

`divide` decides which images train, choose and measure. `build_targets` turns labels as written in a manifest into the
targets of a head.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from memorisk.images.copies.duplicates import linked_groups
from memorisk.images.manifest import Manifest, refuse_leaking_splits
from memorisk.images.splits import NOT_AUDITABLE, merge_linked, split_by_group
from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.settings import check_choice
from memorisk.training.engine.options import Head

PARTS = ("training", "validation", "test")
_SPLIT_PARTS = {
    "train": "training", "training": "training",
    "val": "validation", "valid": "validation", "validation": "validation",
    "test": "test", "testing": "test",
}  # fmt: skip
_DRAWN_PARTS = {"train": "training", "canary": "validation", "test": "test", NOT_AUDITABLE: "training"}


@dataclass(frozen=True)
class Division:
    """The parts of a set of images, divided by patient."""

    rows: dict[str, np.ndarray]
    """Rows of each of `PARTS`, by its name."""
    groups: np.ndarray
    """Patient of each image, [N]; patients who share an image are one."""

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Number of images and patients of each part."""
        return {
            name: {"images": len(rows), "patients": len(set(self.groups[rows].tolist()))}
            for name, rows in self.rows.items()
        }

    @property
    def names(self) -> np.ndarray:
        """Part of each image, [N], empty for images of no part."""
        names = np.full(len(self.groups), "", dtype=object)
        for name, rows in self.rows.items():
            names[rows] = name
        return names


def divide(manifest: Manifest, hashes: np.ndarray, options: Any) -> Division:
    """Divide the patients; patients who share an image are one.

    Patients of different data sets (column ``dataset``) are different, whatever their names.

    Args:
        manifest: Manifest of the images.
        hashes: Hashes of their pixels, [N].
        options: Settings with ``splits, split_seed, validation_share, test_share``.

    Raises:
        InputError: The given split is unusable, or a part has no images.
    """
    named = dataset_groups(manifest)
    groups = merge_linked(named, linked_groups(hashes, named)).astype(str)
    if options.splits == "given":
        part = parts_of_split(manifest, groups)
    else:
        shares = (1 - options.validation_share - options.test_share, options.validation_share, options.test_share)
        drawn = split_by_group(np.full(len(groups), "image"), groups, fractions=shares, seed=options.split_seed)
        part = np.array([_DRAWN_PARTS[name] for name in drawn], dtype=object)
    rows = {name: np.flatnonzero(part == name) for name in PARTS}
    for name, chosen in rows.items():
        if not len(chosen):
            raise InputError(
                f"{one_line(manifest.name)} has no {name} images: too few patients for these shares, or none so named"
            )
    return Division(rows, groups)


def dataset_groups(manifest: Manifest) -> np.ndarray:
    """Return the groups, [N], distinguished by their data sets where they come from several."""
    if "dataset" not in manifest.table:
        return manifest.groups
    sets = manifest.table["dataset"].astype(str).tolist()
    if len(set(sets)) < 2:
        return manifest.groups
    return np.array([f"{one}:{group}" for one, group in zip(sets, manifest.groups, strict=True)], dtype=object)


def parts_of_split(manifest: Manifest, merged: np.ndarray | None = None) -> np.ndarray:
    """Look up the part of each image, [N], by the given split; empty for images of no part.

    Args:
        manifest: Manifest of the images.
        merged: Groups of the images, [N], merged where they share an identical image; None where pixels are not known.

    Raises:
        InputError: The manifest has no split, or a patient or an image straddles it.
    """
    if manifest.splits is None:
        raise InputError(f"{one_line(manifest.name)} gives no split: name it with split_column, or leave splits out")
    refuse_leaking_splits(manifest, merged)
    return np.array([_SPLIT_PARTS.get(str(name).lower(), "") for name in manifest.splits], dtype=object)


SEPARATOR = "|"


@dataclass(frozen=True)
class Targets:
    """Training targets of all images of a manifest."""

    head: str
    """Kind of the head: single, binary, multi or first."""

    classes: tuple[str, ...]
    """Names of the classes, in order; for binary the second one is the positive."""

    values: np.ndarray
    """Class numbers int64 [N] (single, first), 0/1 float32 [N] (binary) or float32 [N, k] (multi)."""

    @property
    def n_outputs(self) -> int:
        """Number of logits: one for binary, else one per class."""
        return 1 if self.head == "binary" else len(self.classes)


def ordered_classes(names: Iterable[str]) -> list[str]:
    """Sort the names of classes: whole numbers by their value, as class numbers are, other names as text.

    >>> ordered_classes(["10", "9"]), ordered_classes(["b", "10", "9"])
    (['9', '10'], ['10', '9', 'b'])
    """
    distinct = sorted(set(names))
    if all(name.isascii() and name.isdecimal() for name in distinct):
        distinct.sort(key=lambda name: (len(name.lstrip("0")), name.lstrip("0")))
    return distinct


def build_targets(
    labels: Sequence[str] | np.ndarray, head: str = "single", *, classes: Sequence[str] | None = None
) -> Targets:
    """Build targets from labels.

    The head decides. single: the whole label. binary: the same, exactly two classes. multi: labels joined by "|", one
    output each; an empty label means none of them. first: the first-listed of several, as the paper reads ChestX-ray14.

    Args:
        labels: Labels of the images, one text per image, [N].
        head: Kind of the head that is trained.
        classes: Names of the classes in their order, where this set may lack some; by default those that occur, in the
            order of `ordered_classes`.

    Raises:
        InputError: A label is empty where one is needed, classes are fewer than two or more than two for binary, or a
            label is outside ``classes``.
    """
    check_choice("head", head, Head)
    texts = [str(label).strip() for label in labels]
    lists = [[part.strip() for part in text.split(SEPARATOR) if part.strip()] for text in texts]
    if head in ("single", "binary"):
        lists = [[text] if text else [] for text in texts]
    elif head == "first":
        lists = [parts[:1] for parts in lists]
    empty = [i for i, parts in enumerate(lists) if not parts]
    if empty and head != "multi":
        raise InputError(
            f"{len(empty)} images have no label (the first is row {empty[0]}); a {head} head needs one each"
        )
    names = tuple(classes) if classes is not None else tuple(ordered_classes(part for parts in lists for part in parts))
    _check_classes(names, head)
    number = {name: i for i, name in enumerate(names)}
    for part in (part for parts in lists for part in parts):
        if part not in number:
            raise unknown_name("label", part, names)
    if head == "multi":
        values = np.zeros((len(lists), len(names)), dtype=np.float32)
        for i, parts in enumerate(lists):
            values[i, [number[part] for part in parts]] = 1
        return Targets(head, names, values)
    chosen = np.array([number[parts[0]] for parts in lists], dtype=np.int64)
    return Targets(head, names, chosen.astype(np.float32) if head == "binary" else chosen)


def training_labels(manifest: Manifest, head: str) -> np.ndarray:
    """Return the labels that a head is trained on: the first-listed for ``first``, joined ones only for ``multi``.

    Raises:
        InputError: Findings are joined and the head takes one label.
    """
    labels = manifest.labels
    joined = np.array(["|" in str(label) for label in labels])
    if head == "first":
        return np.array([str(label).split("|")[0] for label in labels], dtype=object)
    if joined.any() and head != "multi":
        raise InputError(
            f"{joined.sum():,} images of {one_line(manifest.name)} have several findings, the first "
            f"{one_line(labels[joined][0], 60)!r}: say --head multi, or --head first for the first-listed one"
        )
    return labels


def _check_classes(names: tuple[str, ...], head: str) -> None:
    if len(set(names)) != len(names):
        raise InputError("a class is named twice")
    if head == "multi":
        if not names:
            raise InputError("no image has a label")
    elif len(names) < 2:
        raise InputError(f"all images have the same label ({', '.join(names) or 'none'}); a classifier needs two")
    if head == "binary" and len(names) != 2:
        raise InputError(f"a binary head needs exactly two classes, there are {len(names)}: use head single")
