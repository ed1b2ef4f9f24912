"""Which images a detector is trained on, which choose its epoch, and which only measure it: divided by patient."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from memorisk.images.copies.duplicates import linked_groups
from memorisk.images.manifest import Manifest, refuse_leaking_splits
from memorisk.images.splits import NOT_AUDITABLE, merge_linked, split_by_group
from memorisk.runs.errors import InputError, one_line

PARTS = ("training", "validation", "test")
_GIVEN = {
    "train": "training", "training": "training",
    "val": "validation", "valid": "validation", "validation": "validation",
    "test": "test", "testing": "test",
}  # fmt: skip
_DRAWN = {"train": "training", "canary": "validation", "test": "test", NOT_AUDITABLE: "training"}


@dataclass(frozen=True)
class Division:
    """The parts of a set of images."""

    rows: dict[str, np.ndarray]
    """Of each of `PARTS`."""
    groups: np.ndarray
    """[N] whose each image is; patients who share an image are one."""

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Images and patients of each part."""
        return {
            name: {"images": len(rows), "patients": len(set(self.groups[rows].tolist()))}
            for name, rows in self.rows.items()
        }

    @property
    def names(self) -> np.ndarray:
        """[N] the part of each image, empty for images of none."""
        found = np.full(len(self.groups), "", dtype=object)
        for name, rows in self.rows.items():
            found[rows] = name
        return found


def divide(manifest: Manifest, hashes: np.ndarray, options: Any) -> Division:
    """Divide the patients; patients who share an image are one.

    Patients of different data sets (column ``dataset``) are different, whatever they are called.

    Args:
        manifest: Of the images.
        hashes: [N] of their pixels.
        options: ``splits, split_seed, validation_share, test_share``.

    Raises:
        InputError: A given split that is none, or a part without images.
    """
    named = named_groups(manifest)
    groups = merge_linked(named, linked_groups(hashes, named)).astype(str)
    if options.splits == "given":
        part = given_parts(manifest)
        _refuse_twins(part, groups, manifest)
    else:
        shares = (1 - options.validation_share - options.test_share, options.validation_share, options.test_share)
        drawn = split_by_group(np.full(len(groups), "image"), groups, fractions=shares, seed=options.split_seed)
        part = np.array([_DRAWN[name] for name in drawn], dtype=object)
    rows = {name: np.flatnonzero(part == name) for name in PARTS}
    for name, chosen in rows.items():
        if not len(chosen):
            raise InputError(
                f"{one_line(manifest.name)} has no {name} images: too few patients for these shares, or none so named"
            )
    return Division(rows, groups)


def named_groups(manifest: Manifest) -> np.ndarray:
    """[N] groups, told apart by their data sets where there are several."""
    if "dataset" not in manifest.table:
        return manifest.groups
    sets = manifest.table["dataset"].astype(str).tolist()
    if len(set(sets)) < 2:
        return manifest.groups
    return np.array([f"{one}:{group}" for one, group in zip(sets, manifest.groups, strict=True)], dtype=object)


def given_parts(manifest: Manifest) -> np.ndarray:
    """[N] the part of each image by the given split; empty for images of no part.

    Raises:
        InputError: There is none, or a patient straddles it.
    """
    if manifest.splits is None:
        raise InputError(f"{one_line(manifest.name)} gives no split: name it with split_column, or leave splits out")
    refuse_leaking_splits(manifest)
    return np.array([_GIVEN.get(str(name).lower(), "") for name in manifest.splits], dtype=object)


def _refuse_twins(part: np.ndarray, groups: np.ndarray, manifest: Manifest) -> None:
    """Refuse parts of a given split that share an image: patients with one are the same to a detector."""
    pairs = {(group, name) for group, name in zip(groups.tolist(), part.tolist(), strict=True) if name}
    names = [group for group, _ in pairs]
    twice = sorted({group for group in names if names.count(group) > 1})
    if twice:
        raise InputError(
            f"{one_line(manifest.name)}: identical images are in more than one given split ({one_line(twice[0], 60)}): "
            "leave the split out, and they are kept together"
        )
