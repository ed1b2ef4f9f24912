"""Training, validation and test images: no patient, and no image, is in two parts."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from memorisk.images.duplicates import linked_groups
from memorisk.images.manifest import Manifest, refuse_leaking_splits
from memorisk.images.sources import load_manifest
from memorisk.images.splits import NOT_AUDITABLE, merge_linked, split_by_group
from memorisk.images.store import ImageStore, build_store
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.progress import Progress, quiet
from memorisk.training.part_options import PartOptions

PARTS = ("training", "validation", "test")
_GIVEN = {
    "train": "training", "training": "training",
    "val": "validation", "valid": "validation", "validation": "validation",
    "test": "test", "testing": "test",
}  # fmt: skip
_DRAWN = {"train": "training", "canary": "validation", "test": "test", NOT_AUDITABLE: "training"}


@dataclass(frozen=True)
class PatientParts:
    """Images by part.

    Attributes:
        store: All of them.
        rows: Of each part, by its name in `PARTS`.
        groups: [N] whose each image is; patients who share an image are one.
    """

    store: ImageStore
    rows: dict[str, np.ndarray]
    groups: np.ndarray

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Images and patients of each part."""
        return {
            name: {"images": len(rows), "patients": len(set(self.groups[rows].tolist()))}
            for name, rows in self.rows.items()
        }

    @property
    def names(self) -> np.ndarray:
        """[N] the part of each image; empty for those of none."""
        found = np.full(len(self.groups), "", dtype=object)
        for name, rows in self.rows.items():
            found[rows] = name
        return found


def divide(images: str | Path, options: PartOptions, progress: Progress = quiet) -> PatientParts:
    """Decode images and divide their patients.

    Args:
        images: As for `memorisk.images.sources.load_manifest`.
        options: How.
        progress: Called with (stage, done, total).

    Raises:
        InputError: The images are refused, a part is empty, or the given split has a patient or an image in two parts.
    """
    progress("reading the manifest", 0, 0)
    manifest = load_manifest(images, options)
    if options.splits == "given":
        _given(manifest)  # before anything is decoded
    store = build_store(manifest, options, progress=partial(progress, "decoding images"))
    manifest = store.manifest
    groups = merge_linked(manifest.groups, linked_groups(store.pixel_hashes, manifest.groups)).astype(str)
    if options.splits == "given":
        part = _given(manifest)
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
    return PatientParts(store, rows, groups)


def _given(manifest: Manifest) -> np.ndarray:
    """[N] the part of each image by the given split; empty for images of no part."""
    if manifest.splits is None:
        raise InputError(f"{one_line(manifest.name)} gives no split: name it with split_column, or leave splits out")
    refuse_leaking_splits(manifest)
    return np.array([_GIVEN.get(str(name).lower(), "") for name in manifest.splits], dtype=object)


def _refuse_twins(part: np.ndarray, groups: np.ndarray, manifest: Manifest) -> None:
    """Refuse parts of a given split that share an image: patients with one are the same person to a model."""
    pairs = {(group, name) for group, name in zip(groups.tolist(), part.tolist(), strict=True) if name}
    names = [group for group, _ in pairs]
    twice = sorted({group for group in names if names.count(group) > 1})
    if twice:
        raise InputError(
            f"{one_line(manifest.name)}: identical images are in more than one given split ({one_line(twice[0], 60)}): "
            "leave the split out, and they are kept together"
        )
