"""Train a detector on a set of images (``memorisk train detector``): of copies, or of patients and copies (LCMem).

The run folder holds ``detector/`` and, after two stages, ``stage1/`` (which `memorisk.load_detector` reads),
``training.json`` (settings, history, and the accuracy of each detector on patients who chose nothing) and
``manifest.parquet`` (the part that each image was in).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np

from memorisk.images.store import ImageStore
from memorisk.models.copy_detectors import Detector
from memorisk.models.latents import open_latents
from memorisk.models.provenance import DetectorConfig
from memorisk.models.settings import COPY_DETECTOR
from memorisk.runs.errors import InputError
from memorisk.runs.folder import RunFolder
from memorisk.runs.settings import settings_of, takes_settings
from memorisk.runs.workload import Cost, Progress, no_progress
from memorisk.training.autoencoders.latent_store import LATENTS_PREFIX, Latents, load_latents, read_latents
from memorisk.training.classifiers.joint_jobs import state_bytes
from memorisk.training.detectors.command_options import TrainDetectorOptions
from memorisk.training.detectors.contrastive.augmentations import blank_rows
from memorisk.training.detectors.contrastive.fit import (
    DETECTORS,
    CopyDetectorTraining,
    measure_training,
)
from memorisk.training.detectors.detector_training import FittedDetector
from memorisk.training.detectors.lcmem.fit import DETECTOR_FOLDER, FittedStage, StageTraining, run_stages
from memorisk.training.detectors.lcmem.inputs import PairData
from memorisk.training.detectors.lcmem.measurement import lcmem_cost, measure_stages
from memorisk.training.detectors.options import DetectorOptions, LatentOptions, Strength
from memorisk.training.engine.data import Division, divide
from memorisk.training.engine.optimization import batch_bounds
from memorisk.training.run import (
    Trained,
    TrainingCommand,
    TrainingPlan,
    open_images,
    open_parts,
    seconds_a_step,
)

DETECTOR = "detector"


@takes_settings(TrainDetectorOptions)
def train_detector(
    images: str | Path, *, out: str | Path, progress: Progress = no_progress, **settings: Any
) -> Trained:
    """Train a detector, and measure it on patients who had no part in it.

    Args:
        images: Source of the images, as for `memorisk.audit_classifier`; labels are not needed.
        out: The run folder: new, empty, or a run of the same command to continue.
        progress: Function called with (stage, done, total).
        **settings: Any field of `TrainDetectorOptions`.

    Returns:
        Result of the training, also saved in ``out``.

    Raises:
        InputError: Bad input or settings; nothing was written.
        MissingExtraError: kornia or pytorch-metric-learning is not installed.
        MemoriskError: The training failed; what is done is kept.
    """
    return _command(images, out, settings, progress).train()


def plan_detector(
    images: str | Path, *, out: str | Path, progress: Progress = no_progress, **settings: Any
) -> TrainingPlan:
    """Plan `train_detector` by two steps; nothing is written but the image store.

    Args:
        images: Source of the images, as for `train_detector`.
        out: The run folder.
        progress: Function called with (stage, done, total).
        **settings: Any field of `TrainDetectorOptions`.

    Raises:
        InputError: As `train_detector`.
    """
    return _command(images, out, settings, progress).plan()


def _command(
    images: str | Path, out: str | Path, settings: Mapping[str, Any], progress: Progress
) -> "CopyCommand | LatentCommand":
    """Open the command of a kind of detector."""
    options = settings_of(TrainDetectorOptions, settings)
    return (CopyCommand if options.kind == COPY_DETECTOR else LatentCommand)(images, out, options, progress)


def _identity(config: DetectorConfig) -> dict[str, Any]:
    """Describe model, settings and start of a training: a run with the same description is the same run."""
    return {"backbone": config.backbone, "weights": config.weights_fingerprint, **config.recipe}


class CopyCommand(TrainingCommand[TrainDetectorOptions, ImageStore, CopyDetectorTraining, TrainingPlan]):
    """The command ``memorisk train detector`` for a detector of copies."""

    name = DETECTOR

    def open(self) -> tuple[ImageStore, Division]:
        """Decode the images and divide the patients."""
        return open_parts(self.images, self.options, self.progress)

    def build(self) -> CopyDetectorTraining:
        """Check everything and build the training on its device."""
        rows, groups = self.parts.rows, self.parts.groups
        return CopyDetectorTraining(self.source, rows["training"], rows["validation"], groups, self.options.copy)

    def identity(self, training: CopyDetectorTraining) -> dict[str, Any]:
        """Return the settings without which a run is another run."""
        return _identity(training.start.config)

    def fit(self, run: RunFolder, training: CopyDetectorTraining) -> dict[str, Any]:
        """Train and measure the detector."""
        fitted = training.fit(run.subfolder(DETECTOR), self.progress)
        return _copy_summary(self.source, self.parts, fitted, training.options, self.progress)

    def estimate(self, training: CopyDetectorTraining, *, timed: bool) -> TrainingPlan:
        """Plan the training, if timed by two steps with the whole network."""
        recipe = training.options
        bounds = batch_bounds(len(training.rows), recipe.images_a_step)
        first = ((lambda seed: None), recipe.frozen_epochs, bounds[:1])  # of an epoch in which nothing is frozen
        losses = (loss for _ in range(2) for loss in training.losses(*first))
        steps = len(bounds) * recipe.epochs
        seconds = steps * seconds_a_step(losses, training.setup) if timed else float("nan")
        cost = _copy_cost(self.source, self.parts, training, steps)
        return TrainingPlan(self.parts.counts, steps, seconds, training.notes, cost)


def _copy_cost(store: ImageStore, parts: Division, training: CopyDetectorTraining, steps: int) -> Cost:
    """Count the cost: each image of a step has a copy; validation copies are looked for after every epoch."""
    epochs, measured = training.options.epochs, _measured_images(store, parts)
    looks, tests = len(training.validation), len(get_args(Strength))
    return Cost(
        trainings=1,
        steps=steps,
        images_trained=2 * epochs * len(training.rows),
        images_passed=2 * (looks * (epochs + 1) + DETECTORS * (measured["validation"] + tests * measured["test"])),
        pairs=looks**2 * (epochs + 1) + DETECTORS * (measured["validation"] ** 2 + tests * measured["test"] ** 2),
        bytes_images=store.images.nbytes,
        bytes_weights=state_bytes(training.setup.tensors),
    )


def _measured_images(store: ImageStore, parts: Division) -> dict[str, int]:
    """Count the images of each part that are not blank, on which the trained detector is measured."""
    return {
        name: len(np.setdiff1d(parts.rows[name], blank_rows(store.images, parts.rows[name])))
        for name in ("validation", "test")
    }


def _copy_summary(
    store: ImageStore, parts: Division, fitted: FittedDetector[Detector], recipe: DetectorOptions, progress: Progress
) -> dict[str, Any]:
    """Make the contents of ``training.json``."""
    config = fitted.detector.config
    measured = {name: parts.rows[name] for name in ("validation", "test")}
    return {
        "backbone": config.backbone,
        "weights": config.weights,
        "loss": config.loss,
        "measure": config.measure,
        "protocol": config.protocol,
        "departures": config.departures,
        "recipe": config.recipe,
        "parts": parts.counts,
        "groups_given": config.groups_given,
        "best_epoch": fitted.best_epoch,
        **measure_training(store, measured, parts.groups, fitted, recipe, progress),
        "history": fitted.history,
        "notes": fitted.notes,
        "data_hash": config.data_hash,
        "versions": config.versions,
    }


class LatentCommand(TrainingCommand[TrainDetectorOptions, Latents, StageTraining, TrainingPlan]):
    """The command ``memorisk train detector`` for a detector over latents, in one stage or two."""

    name = DETECTOR

    def open(self) -> tuple[Latents, Division]:
        """Open latents of the images, and divide the patients."""
        return _open_latents(self.images, self.options, self.progress)

    def build(self) -> StageTraining:
        """Build and check the first stage; the second is checked as far as possible.

        Raises:
            InputError: Images, patients or settings do not fit each other, or two stages need images that are not
                given.
        """
        rows, options = self.parts.rows, self.options.latent.filled()
        ignore = options.identities == "ignore"
        data = PairData.build(self.source, rows["training"], rows["validation"], self.parts.groups, ignore=ignore)
        first = StageTraining.first(data, options)
        first.refuse_second()
        return first

    def identity(self, training: StageTraining) -> dict[str, Any]:
        """Return the settings without which a run is another run."""
        return {"latents": dict(self.source.encoder.identity), **_identity(training.config)}

    def fit(self, run: RunFolder, training: StageTraining) -> dict[str, Any]:
        """Train and measure each stage."""
        fitted = run_stages(training, run.path, self.progress)
        return _latent_summary(self.source, self.parts, fitted, training.options, self.progress)

    def estimate(self, training: StageTraining, *, timed: bool) -> TrainingPlan:
        """Plan a training, if timed by two steps of each stage."""
        options, first = training.options, training
        steps, seconds, notes, stages = 0, 0.0, [], []
        for _ in range(options.stages or 1):
            count = training.batches * training.part.epochs
            steps += count
            seconds += count * seconds_a_step(training.rehearse(2), training.setup) if timed else 0.0
            stages.append(training)
            notes += [note for note in training.notes if note not in notes]
            training = training.as_second()
        notes.append("Patience may end a stage much earlier.")
        cost = lcmem_cost(self.source, self.parts, stages, first.options)
        return TrainingPlan(self.parts.counts, steps, seconds if timed else float("nan"), tuple(notes), cost)


def _open_latents(images: str | Path, options: TrainDetectorOptions, progress: Progress) -> tuple[Latents, Division]:
    """Open latents of the images, and divide the patients."""
    if str(images).startswith(LATENTS_PREFIX):
        progress("reading the manifest", 0, 0)
        if options.encoder is not None:
            raise InputError("latents are given: leave encoder out")
        latents = read_latents(str(images))
    else:
        store = open_images(images, options, progress)
        books, size = store.folder.parent.parent, options.network_size
        encoder = open_latents(options.latent.encoder, store.shape, size=size, books=books)
        latents = load_latents(store, encoder, device=options.device, progress=progress)
    return latents, divide(latents.manifest, latents.hashes, options)


def _latent_summary(
    latents: Latents,
    parts: Division,
    fitted: dict[str, FittedStage],
    options: LatentOptions,
    progress: Progress,
) -> dict[str, Any]:
    """Make the contents of ``training.json``."""
    last, config = fitted[DETECTOR_FOLDER], fitted[DETECTOR_FOLDER].detector.config
    notes = [note for one in fitted.values() for note in one.notes]
    return {
        "kind": config.kind,
        "encoder": config.encoder,
        "latent_shape": config.latent_shape,
        "backbone": config.backbone,
        "weights": config.weights,
        "loss": config.loss,
        "measure": "the head" if last.detector.head is not None else config.measure,
        "protocol": config.protocol,
        "recipe": config.recipe,
        "parts": parts.counts,
        "groups_given": config.groups_given,
        "best_epoch": {name: one.best_epoch for name, one in fitted.items()},
        "test": measure_stages(latents, parts, fitted, options, progress),
        "history": {name: one.history for name, one in fitted.items()},
        "notes": list(dict.fromkeys(notes)),
        "data_hash": config.data_hash,
        "versions": config.versions,
    }
