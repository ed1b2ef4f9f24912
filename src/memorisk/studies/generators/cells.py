"""One generator of the study: `memorisk.training.generators.fit` trains it, and every snapshot is measured.

A killed cell resumes from its checkpoint. A detector computes every distance that figures and tables are made of. For
each real image, the nearest synthetic image is found (METHODS section 5: training and held-out patients query the
same set). For each synthetic image, augmented copy and held-out image, the nearest training image is found (paper
003, figure 3).
"""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.images.store import ImageStore, store_of_pixels
from memorisk.models.generators.conditions import Conditions
from memorisk.models.generators.generators import Generator
from memorisk.runs.errors import InputError, MemoriskError, one_line
from memorisk.runs.files import fingerprint, write_table
from memorisk.runs.workload import Progress, no_progress
from memorisk.scores.similarity import Similarity
from memorisk.studies.engine.cells import Arrays, write_result
from memorisk.studies.generators.config import NO_QUALITY
from memorisk.studies.generators.plan import Cell, SetData
from memorisk.training.detectors.contrastive.augmentations import augmented_copies
from memorisk.training.detectors.pair_detectors import PairDetector, open_pair_detector
from memorisk.training.features.matrix import Features
from memorisk.training.generators.draws import draw, plan_draws
from memorisk.training.generators.snapshots import GeneratorTraining, Snapshot

CONDITIONS = "conditions"
"""Folder of the study for what classifiers predict of training images; all conditionings of these images share it."""


def fit(cell: Cell, folder: Path, look: Callable[[Snapshot], None], progress: Progress = no_progress) -> dict[str, Any]:
    """Train the generator of a cell.

    Args:
        cell: Cell of the study.
        folder: Folder that holds the training while it lasts.
        look: Function that is called at every snapshot.
        progress: Function that is called with (stage, done, total).

    Returns:
        Description of the cell for its folder.
    """
    from memorisk.training.generators.fit import fit_generator

    options = cell.arm.training(cell.seed, cell.options)
    fitted = fit_generator(
        cell.data.store,
        cell.training.repeated,
        options,
        folder,
        validation=cell.data.held_out,
        conditions=conditions_of(cell, progress),
        on_snapshot=look,
        progress=progress,
    )
    end = Snapshot(fitted.steps, options.steps, fitted.generator, float("nan"), None)
    look(end)  # where the last reading was killed after the training had ended
    return {"name": cell.name, "recipe": options.recipe(), "notes": fitted.notes}


def conditions_of(cell: Cell, progress: Progress = no_progress) -> Conditions | None:
    """Return the pseudo-conditions of a cell's training images; None where it has none.

    Args:
        cell: Cell of the study.
        progress: Function that is called with (stage, done, total).
    """
    if not cell.arm.conditioning:
        return None
    from memorisk.training.generators.pseudo_conditions import pseudo_conditions

    options, folder = cell.classifiers, conditions_folder(cell)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    which = cell.arm.conditioning
    return pseudo_conditions(
        cell.data.store, cell.training.rows, options, which=which, folder=folder, progress=progress
    )


def conditions_folder(cell: Cell) -> Path:
    """Return the folder of the predictions that the classifiers of a cell's training images make.

    Args:
        cell: Cell of the study.
    """
    return cell.out / CONDITIONS / fingerprint(cell.data.store.data_hash, cell.training.rows, vars(cell.classifiers))


def blank_conditions(cell: Cell) -> Conditions | None:
    """Return zeros in place of the pseudo-conditions that classifiers would be trained for; None where a cell has none.

    Args:
        cell: Cell of the study.
    """
    if not cell.arm.conditioning:
        return None
    from memorisk.training.generators.fold_classifiers import fold_data

    which, data = cell.arm.conditioning, fold_data(cell.data.store, cell.training.rows, None)
    length = data.onehot.shape[1] * (2 if which.endswith("-label") else 1)
    values = np.zeros((len(data.rows), length), dtype=np.float32)
    return Conditions(values, cell.data.store.manifest.images[data.rows], data.labels, which)


def seconds_a_step(cell: Cell) -> float:
    """Time a step of a cell's training on this machine, by the second of two; nothing is kept.

    Args:
        cell: Cell of the study.

    Raises:
        InputError: The generator cannot be trained.
    """
    return _build_training(cell).seconds_a_step()


def weight_bytes(cell: Cell) -> int | None:
    """Estimate the bytes of a cell's generator; None if it cannot be trained.

    Args:
        cell: Cell of the study.
    """
    from memorisk.training.generators.command import weights_cost

    try:
        return weights_cost(_build_training(cell)).bytes_weights
    except InputError:
        return None


def _build_training(cell: Cell) -> GeneratorTraining:
    """Return a cell's training before its first step, with blank conditions."""
    from memorisk.training.generators.fit import build_training

    options, conditions = cell.arm.training(cell.seed, cell.options), blank_conditions(cell)
    return build_training(cell.data.store, cell.training.repeated, options, conditions=conditions)


WORK = "work"
"""Folder inside a cell's folder for features of images that are used only once."""
_STREAM = 89  # keeps these draws apart from others of the same seed


@dataclass(eq=False)
class Detectors:
    """Detectors with the features of real images, each computed once.

    Attributes:
        device: Device that computes the features.
    """

    device: str
    _opened: dict[str, PairDetector] = field(default_factory=dict)
    _real: dict[tuple[str, str], Features] = field(default_factory=dict)
    _similar: dict[tuple[str, str], Similarity] = field(default_factory=dict)

    def open(self, source: str) -> PairDetector:
        """Open a detector by its name."""
        return self._opened.setdefault(source, open_pair_detector(source))

    def real(self, source: str, data: SetData, progress: Progress = no_progress) -> Features:
        """Return the features of all images of a data set; what is fitted is fitted on both parts alike."""
        key = (source, data.name)
        if key not in self._real:
            features = self.features(source, data.store, data, progress)
            self._real[key] = replace(features, groups=data.groups.astype(str).astype(object))
        return self._real[key]

    def features(self, source: str, store: ImageStore, data: SetData, progress: Progress = no_progress) -> Features:
        """Return the features of images that are stored as those of a data set are."""
        features = self.open(source).features(store, reference=data.store, device=self.device, progress=progress)
        if len(wrong := features.checks.not_finite):
            raise InputError(f"{one_line(source, 80)} gives no finite numbers for {len(wrong):,} images")
        return features

    def similarity(self, source: str, data: SetData) -> Similarity:
        """Return the similarity that compares images of a data set."""
        key = (source, data.name)
        if key not in self._similar:
            self._similar[key] = self.open(source).similarity(self.real(source, data).values)
        return self._similar[key]


@dataclass(frozen=True, eq=False)
class GeneratedImages:
    """Images that a generator drew.

    Attributes:
        images: Pixels of the images, [s, H, W, C] uint8.
        source: Row in the store of the training image whose condition each image has, [s]; -1 without one.
        seeds: Seed of each image, [s]; the generator draws the image again from it.
    """

    images: np.ndarray
    source: np.ndarray
    seeds: np.ndarray


def draw_images(cell: Cell, generator: Generator) -> GeneratedImages:
    """Draw the images that are measured.

    A generator that is conditioned on training images draws equally many images for each of their conditions. Any other
    generator draws the classes as often as they occur in the training.

    Args:
        cell: Cell of the study.
        generator: Generator in the middle or at the end of its training.
    """
    options, config = cell.options, generator.config
    paired = config.conditioned_on == "vector"
    balance = "training" if config.class_counts and not paired else "classes"
    plan = plan_draws(generator, cell.n_images, seed=cell.draw_seed, balance=balance, paired=paired)
    images = draw(generator, plan, options.of_kind(config.kind), options.device)
    place = {str(image): row for row, image in enumerate(cell.data.store.manifest.images)}
    source = np.array([place.get(str(image), -1) for image in plan["source"]], dtype=np.int64)
    return GeneratedImages(images, source, plan["seed"].to_numpy(dtype=np.int64))


def measure(
    cell: Cell, drawn: GeneratedImages, detectors: Detectors, *, last: bool, progress: Progress = no_progress
) -> Arrays:
    """Compute all distances of one reading; the number of the detector precedes each name.

    Args:
        cell: Cell of the study.
        drawn: Images of the generator.
        detectors: Detectors that compare the images.
        last: Whether the training has ended. Only then are augmented copies, which no step changes, measured and the
            closest pairs kept.
        progress: Function that is called with (stage, done, total).

    Returns:
        ``source`` and ``seeds`` of the images; for each detector ``train_distance`` [n], ``train_nearest`` [n],
        ``held_distance`` [m], ``synthetic_distance`` [s], ``synthetic_nearest`` [s], ``synthetic_second`` [s] (distance
        to the nearest training image of another patient), ``held_train`` [m], ``held_nearest`` [m]; with ``last`` also
        ``weak`` and ``strong`` [n], ``shown`` and ``shown_pixels``; for images with a condition what `_pairs` adds.
    """
    arrays: Arrays = {"source": drawn.source, "seeds": drawn.seeds}
    sets = {"synthetic": store_of(drawn.images, cell, "synthetic")}
    if last:
        sets |= copies_of(cell)
    closest: list[np.ndarray] = []
    for i, source in enumerate(cell.options.detectors):
        values = {name: detectors.features(source, one, cell.data, progress).values for name, one in sets.items()}
        distances = _distances(cell, detectors, source, values)
        if drawn.source.max(initial=-1) >= 0:
            distances |= _pairs(cell, detectors, source, values, drawn.source)
        closest.append(_closest(distances, cell.options.closest))
        arrays |= {f"{i}.{name}": array for name, array in distances.items()}
    if last:
        arrays["shown"] = np.unique(np.concatenate(closest))
        arrays["shown_pixels"] = drawn.images[arrays["shown"]]
    shutil.rmtree(cell.folder / WORK, ignore_errors=True)
    return arrays


def copies_of(cell: Cell) -> dict[str, ImageStore]:
    """Return a weak and a strong copy of every training image, and a weak one of every held-out image, as stores."""
    images, seed = cell.data.store.images, cell.options.seed
    copies = {name: augmented_copies(images, cell.training.rows, name, seed=seed) for name in cell.options.strengths}
    if cell.arm.conditioning:
        copies["held_copy"] = augmented_copies(images, cell.data.held_out, "weak", seed=seed)
    return {name: store_of(copies, cell, name) for name, copies in copies.items()}


def store_of(images: np.ndarray, cell: Cell, name: str) -> ImageStore:
    """Return drawn images as a store whose features are kept in the cell's folder and not among the user's."""
    ids = [f"{name}-{i}" for i in range(len(images))]
    store = store_of_pixels(images, cell.data.store, name, ids=ids)
    return replace(store, folder=cell.folder / WORK / "stores" / name)


def _distances(cell: Cell, detectors: Detectors, source: str, values: Mapping[str, np.ndarray]) -> Arrays:
    """Compute the distances in both directions, and the pools of figure 3."""
    data, training = cell.data, cell.training
    real, similar = detectors.real(source, data).values, detectors.similarity(source, data)
    train, held, synthetic = real[training.rows], real[data.held_out], values["synthetic"]
    forward, back = similar.nearest(train, synthetic), similar.nearest(synthetic, train)
    nearest = back.rows[:, 0]
    codes = np.unique(training.groups, return_inverse=True)[1]
    others = similar.nearest(synthetic, train, exclude_same=(codes[nearest], codes))
    distances = {
        "train_distance": -forward.scores[:, 0], "train_nearest": forward.rows[:, 0],
        "held_distance": -similar.nearest(held, synthetic).scores[:, 0],
        "synthetic_distance": -back.scores[:, 0], "synthetic_nearest": nearest,
        "synthetic_second": -others.scores[:, 0], "held_train": -similar.nearest(held, train).scores[:, 0],
    }  # fmt: skip
    nearest_held = similar.nearest(held, train).rows[:, 0]
    distances["held_nearest"] = nearest_held
    for strength in ("weak", "strong"):
        if strength in values:
            distances[strength] = -similar.nearest(values[strength], train).scores[:, 0]
    return distances


def _pairs(
    cell: Cell, detectors: Detectors, source: str, values: Mapping[str, np.ndarray], conditioned: np.ndarray
) -> Arrays:
    """Score each image against the training image of its condition, and held-out images against a training image."""
    data = cell.data
    real, similar = detectors.real(source, data).values, detectors.similarity(source, data)
    own = np.flatnonzero(conditioned >= 0)
    beside = held_partners(data, cell.training.rows, cell.options.seed)
    scores = {
        "pair_image": own,
        "pair_row": conditioned[own],
        "pair_score": similar.scores(values["synthetic"][own], real[conditioned[own]]),
        "beside_row": beside,
        "beside_score": similar.scores(real[data.held_out[beside >= 0]], real[beside[beside >= 0]]),
        "at_half": np.array(similar.at_half),
    }
    if "held_copy" in values:
        scores["copy_score"] = similar.scores(values["held_copy"], real[data.held_out])
    return scores


def held_partners(data: SetData, rows: np.ndarray, seed: int) -> np.ndarray:
    """Return for each held-out image a random training image of its class, [m]; -1 where the class has none.

    Args:
        data: Data set of the study.
        rows: Rows of the training images, [n].
        seed: Random seed of the draw.
    """
    labels, partners = data.store.manifest.labels, np.full(len(data.held_out), -1, dtype=np.int64)
    rng = np.random.default_rng([_STREAM, seed])
    for label in sorted(set(labels[data.held_out].tolist())):
        mine, pool = np.flatnonzero(labels[data.held_out] == label), rows[labels[rows] == label]
        if len(pool):
            turns = -(-len(mine) // len(pool))
            partners[mine] = np.concatenate([rng.permutation(pool) for _ in range(turns)])[: len(mine)]
    return partners


def _closest(distances: Arrays, n: int) -> np.ndarray:
    """Return the synthetic images of the closest pairs, searched from either side."""
    near = np.argsort(distances["synthetic_distance"], kind="stable")[:n]
    exposing = distances["train_nearest"][np.argsort(distances["train_distance"], kind="stable")[:n]]
    return np.concatenate([near, exposing])


TRAINING = "training"


def run_cell(cell: Cell, detectors: Detectors, progress: Progress) -> None:
    """Train a generator, measure it at its snapshots, and leave the readings in its folder.

    Args:
        cell: Cell of the study.
        detectors: Detectors that compare images.
        progress: Function that is called with (stage, done, total).

    Raises:
        InputError: The images do not fit the generator.
        MemoriskError: The training broke.
    """
    cell.make_folder()
    steps = cell.arm.snapshots

    def look(snapshot: Snapshot) -> None:
        """Measure the generator where the study requires it and no earlier run has done so."""
        if snapshot.step in steps and not cell.reading_file(snapshot.step).is_file():
            evaluate_generator(cell, snapshot, detectors, progress)

    described = fit(cell, cell.folder / TRAINING, look, progress)
    if cell.missing:
        shutil.rmtree(cell.folder / TRAINING, ignore_errors=True)
        raise MemoriskError(f"{cell.name}: killed at a reading; the same command trains it again")
    cell.finish(described)
    if not cell.options.keep_generators:
        shutil.rmtree(cell.folder / TRAINING, ignore_errors=True)


def run_cell_job(cell: Cell) -> None:
    """Run `run_cell` as a silent job with detectors of its own.

    Args:
        cell: Cell of the study.
    """
    run_cell(cell, Detectors(cell.options.device), no_progress)


def evaluate_generator(cell: Cell, snapshot: Snapshot, detectors: Detectors, progress: Progress) -> None:
    """Draw images, compare them, and write the measurements."""
    last = snapshot.step == cell.arm.snapshots[-1]
    progress(f"drawing {cell.n_images:,} images", 0, 0)
    drawn = draw_images(cell, snapshot.generator)
    progress("measuring", 0, 0)
    arrays = measure(cell, drawn, detectors, last=last)
    nan = float("nan")
    held = snapshot.held_out_loss
    arrays |= {"loss": np.array(snapshot.loss, dtype=float), "held_out_loss": np.array(nan if held is None else held)}
    if last and cell.options.quality_source != NO_QUALITY:
        write_table(cell.quality_file(snapshot.step), quality(cell, drawn.images, detectors), recorded=True)
    write_result(cell.reading_file(snapshot.step), arrays)


def quality(cell: Cell, images: np.ndarray, detectors: Detectors) -> Any:
    """Compute FID, KID, MiFID, precision and recall, density and coverage as a table with one row per figure."""
    from memorisk.audits.quality.figures import measure_quality

    source = cell.options.quality_source
    real = detectors.real(source, cell.data)
    features = detectors.features(source, store_of(images, cell, "synthetic"), cell.data)
    train, held = real.select(cell.training.rows), real.select(cell.data.held_out)
    table = measure_quality(train, features, held, seed=cell.options.seed).table
    shutil.rmtree(cell.folder / WORK, ignore_errors=True)
    return table
