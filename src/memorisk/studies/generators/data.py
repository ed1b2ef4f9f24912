"""One data set of the study, decoded: who may be trained on, who is held out."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.progress import Progress
from memorisk.statistics.copies.calibration import one_per_group
from memorisk.studies.generators.config import GeneratorSet
from memorisk.training.detectors.contrastive.augmentations import blank_rows
from memorisk.training.detectors.contrastive.parts import divide
from memorisk.training.engine.part_options import PartOptions


@dataclass(frozen=True, eq=False)
class SetData:
    """A data set ready to train on.

    Attributes:
        name: As the study calls it.
        store: Its images.
        groups: [N] whose each image is; patients who share an image are one.
        pool: Images that a generator may be trained on.
        held_out: Images that none is.
        blank: Images of one grey level, which take no part.
    """

    name: str
    store: ImageStore
    groups: np.ndarray
    pool: np.ndarray
    held_out: np.ndarray
    blank: int

    @property
    def n_patients(self) -> int:
        """Patients of the pool."""
        return len(np.unique(self.groups[self.pool].astype(str)))

    @property
    def n_held(self) -> int:
        """Patients held out."""
        return len(np.unique(self.groups[self.held_out].astype(str)))

    def one_held_each(self, seed: int) -> np.ndarray:
        """One image of each held-out patient, drawn by the seed."""
        return self.held_out[one_per_group(self.groups[self.held_out].astype(str), seed=seed)]


def prepare_set(name: str, asked: GeneratorSet, progress: Progress) -> SetData:
    """Decode a data set and hold patients out.

    Raises:
        InputError: Images cannot be read, or nobody is left on one side.
    """
    manifest = load_manifest(asked.images, asked.reading)
    store = build_store(manifest, asked.reading, progress=partial(progress, f"{name}: decoding images"))
    if store.images.dtype != np.uint8:
        raise InputError(f"{one_line(name, 60)}: generators are trained on images of 8 bits: leave depth out")
    half = asked.held_out / 2
    options = PartOptions(
        splits=asked.splits, split_seed=asked.split_seed, validation_share=half, test_share=half
    )  # both halves are held out
    division = divide(store.manifest, store.pixel_hashes, options)
    blank = set(blank_rows(store.images, np.arange(len(store.images))).tolist())
    pool = _without(division.rows["training"], blank)
    held = _without(np.sort(np.concatenate([division.rows["validation"], division.rows["test"]])), blank)
    if not len(pool) or not len(held):
        raise InputError(f"{one_line(name, 60)}: no image with two grey levels is left to train on, or held out")
    return SetData(name, store, division.groups, pool, held, len(blank))


def _without(rows: np.ndarray, left_out: set[int]) -> np.ndarray:
    return np.array([row for row in rows.tolist() if row not in left_out], dtype=np.int64)
