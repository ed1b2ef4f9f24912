"""Generators that the study trains: arms x data sets x sizes x seeds, each with its training images.

A data set is decoded once, and some patients are held out. Training images are drawn by patient, anew for every
seed and the same for every arm; fewer are the first of more, so that sizes and kinds of generators are compared on
patients that are as alike as can be.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import fingerprint
from memorisk.runs.workload import Progress
from memorisk.studies.engine.cells import CellFolder
from memorisk.studies.generators.config import ALL, Arm, Duplicates, GeneratorSet, GeneratorsOptions, GeneratorsStudy
from memorisk.training.detectors.contrastive.augmentations import blank_rows
from memorisk.training.engine.data import divide
from memorisk.training.engine.options import PartOptions
from memorisk.training.generators.options import PseudoOptions


@dataclass(frozen=True, eq=False)
class SetData:
    """A data set ready to train on.

    Attributes:
        name: Name of the data set in the study.
        store: Images of the data set.
        groups: Patient of each image, [N]; patients who share an image are one.
        pool: Rows of the images that a generator may be trained on.
        held_out: Rows of the images that no generator is trained on.
        blank: Number of images of one grey level, which take no part.
    """

    name: str
    store: ImageStore
    groups: np.ndarray
    pool: np.ndarray
    held_out: np.ndarray
    blank: int

    @property
    def n_patients(self) -> int:
        """Count the patients of the pool."""
        return len(np.unique(self.groups[self.pool].astype(str)))

    @property
    def n_held(self) -> int:
        """Count the held-out patients."""
        return len(np.unique(self.groups[self.held_out].astype(str)))


def prepare_set(name: str, dataset: GeneratorSet, progress: Progress) -> SetData:
    """Decode a data set and hold patients out.

    Raises:
        InputError: Images cannot be read, or no patient is left on one side.
    """
    manifest = load_manifest(dataset.images, dataset.reading)
    store = build_store(manifest, dataset.reading, progress=partial(progress, f"{name}: decoding images"))
    if store.images.dtype != np.uint8:
        raise InputError(f"{one_line(name, 60)}: generators are trained on images of 8 bits: leave depth out")
    half = dataset.held_out / 2
    options = PartOptions(
        splits=dataset.splits, split_seed=dataset.split_seed, validation_share=half, test_share=half
    )  # both halves are held out
    division = divide(store.manifest, store.pixel_hashes, options)
    blank = set(blank_rows(store.images, np.arange(len(store.images))).tolist())
    pool = _exclude_rows(division.rows["training"], blank)
    held = _exclude_rows(np.sort(np.concatenate([division.rows["validation"], division.rows["test"]])), blank)
    if not len(pool) or not len(held):
        raise InputError(f"{one_line(name, 60)}: no image with two grey levels is left to train on, or held out")
    return SetData(name, store, division.groups, pool, held, len(blank))


def _exclude_rows(rows: np.ndarray, left_out: set[int]) -> np.ndarray:
    return np.array([row for row in rows.tolist() if row not in left_out], dtype=np.int64)


_STREAM = 83  # keeps these draws apart from others of the same seed
_TRAINING, _COPIES = 0, 1


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Training set of one generator.

    Attributes:
        rows: Rows of different images of the store, ascending, [n].
        copies: Number of times that each image occurs in the training, [n].
        groups: Patient of each image, [n].
    """

    rows: np.ndarray
    copies: np.ndarray
    groups: np.ndarray

    @property
    def repeated(self) -> np.ndarray:
        """Return the rows of the store as a training takes them: an image of 16 copies occurs 16 times."""
        return np.repeat(self.rows, self.copies)


@dataclass(frozen=True, eq=False)
class Cell(CellFolder):
    """One generator of the study.

    Attributes:
        out: Folder of the study.
        arm: Generator as the file describes it.
        data: Data set of the generator.
        size: Requested number of training images.
        seed: Random seed of the training set and the training.
        training: Training set of the generator.
        options: Settings of the study.
        classifier_values: Settings in the file for the classifiers that make pseudo-conditions.
    """

    out: Path
    arm: Arm
    data: SetData
    size: int | str
    seed: int
    training: TrainingSet
    options: GeneratorsOptions
    classifier_values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name the cell in words, on one line."""
        return cell_name(self.data.name, self.arm.name, self.size, self.seed)

    @property
    def key(self) -> str:
        """Return the name of its folder: the same training and the same reading give the same name."""
        settings = {
            "generator": self.arm.training(self.seed, self.options).recipe(), "steps": self.arm.snapshots,
            "images": self.n_images, "data": self.data.store.data_hash,
            "classifiers": dict(self.classifier_values) if self.arm.conditioning else {},
            "reading": [getattr(self.options, name) for name in MEASUREMENT_SETTINGS],
        }  # fmt: skip
        return fingerprint(settings, self.training.rows, self.training.copies, self.data.held_out)

    @property
    def classifiers(self) -> PseudoOptions:
        """Return the settings of the classifiers that make pseudo-conditions."""
        own = {"seed": self.seed, "device": self.options.device, "threads": self.options.threads}
        return PseudoOptions(**{**self.classifier_values, **own})

    @property
    def draw_seed(self) -> int:
        """Return the seed of the drawn images: one per training seed, so that means over seeds average over both."""
        return int(fingerprint("draws", self.options.seed, self.seed), 16) >> 1

    @property
    def n_images(self) -> int:
        """Return how many images are drawn at each reading."""
        return self.arm.images or len(self.training.rows)

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the steps after which it is measured."""
        return tuple(str(step) for step in self.arm.snapshots)

    def file(self, part: str) -> Path:
        """Return the file of the measurements after a number of steps."""
        return super().file(f"step-{int(part):08d}")

    def reading_file(self, step: int) -> Path:
        """Return the file of the measurements after a number of steps."""
        return self.file(str(step))

    def quality_file(self, step: int) -> Path:
        """Return the file of the quality figures after a number of steps."""
        return self.folder / f"quality-{step:08d}.parquet"

    def epochs(self, step: int) -> float:
        """Count the epochs over the training rows after a number of steps, copies included."""
        n_images = step * self.arm.training(self.seed, self.options).images_a_step
        return n_images / int(self.training.copies.sum())


MEASUREMENT_SETTINGS = (
    "detectors", "quality_source", "strengths", "closest", "seed", "sampler", "sampling_steps", "guidance",
)  # fmt: skip
"""Settings that decide what is measured of a generator."""


def plan_cells(study: GeneratorsStudy, sets: Mapping[str, SetData], out: Path) -> tuple[list[Cell], dict[str, str]]:
    """Plan every generator of the study in the order of its file; also return why others cannot be trained, by name.

    Args:
        study: Study as its file describes it.
        sets: Data sets of the study.
        out: Folder of the study.

    Raises:
        InputError: No generator can be trained: data sets have too few images or patients for every arm.
    """
    cells: dict[str, Cell] = {}
    refused: dict[str, str] = {}
    for arm in study.arms:
        for dataset in arm.datasets:
            data = sets[dataset]
            for size in arm.sizes:
                for seed in arm.seeds:
                    try:
                        training = draw_training(data, size, seed, arm.duplicates, arm.name)
                    except InputError as error:
                        refused[cell_name(data.name, arm.name, size, seed)] = one_line(error, 300)
                        continue
                    cell = Cell(out, arm, data, size, seed, training, study.options, study.classifiers)
                    cells.setdefault(f"{arm.name}/{cell.key}", cell)
    if not cells:
        raise InputError(next(iter(refused.values())))
    return list(cells.values()), refused


def cell_name(dataset: str, arm: str, size: int | str, seed: int) -> str:
    """Return the name of a generator in words, on one line.

    Args:
        dataset: Name of its data set.
        arm: Name of its arm.
        size: Requested number of training images.
        seed: Random seed of its training.
    """
    return f"{dataset}, {arm}, {size} images, seed {seed}"


def draw_training(
    data: SetData, size: int | str, seed: int, duplicates: Duplicates | None, name: str = ""
) -> TrainingSet:
    """Draw training images by patient, and the patients whose images are repeated.

    Whole patients are taken in a random order until the number is reached; the last one gives only as many images as
    are
    missing. Patients of each level of copies are drawn among them, independently of that order.

    Args:
        data: Data set of the generator.
        size: Number of images, or `ALL`.
        seed: Random seed of both draws.
        duplicates: Levels of copies.
        name: Name of the arm, for messages.

    Raises:
        InputError: There are too few images or patients.
    """
    title = f"{one_line(data.name, 60)}, {one_line(name, 60)}"
    groups = data.groups[data.pool].astype(str)
    patients, index = np.unique(groups, return_inverse=True)
    n = len(data.pool) if size == ALL else int(size)
    if n > len(data.pool):
        raise InputError(f"{title}: {n:,} training images are requested, of {len(data.pool):,} that are not held out")
    place = np.random.default_rng([_STREAM, seed, _TRAINING]).permutation(len(patients))
    order = np.lexsort((np.arange(len(index)), place[index]))
    training = np.sort(order[:n])
    rows, own = data.pool[training], groups[training]
    copies = np.ones(n, dtype=np.int64)
    if duplicates is not None:
        who = np.unique(own)
        each = duplicates.count(len(who))
        if each * len(duplicates.levels) >= len(who):
            raise InputError(
                f"{title}: {each} patients for each of {len(duplicates.levels)} levels of copies leave none of "
                f"{len(who):,} whose images occur once: request fewer"
            )
        drawn = np.random.default_rng([_STREAM, seed, _COPIES]).permutation(len(who))
        for i, level in enumerate(duplicates.levels):
            copies[np.isin(own, who[drawn[i * each : (i + 1) * each]])] = level
    return TrainingSet(rows, copies, own)
