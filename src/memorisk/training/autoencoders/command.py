"""Train a small autoencoder on a set of images (``memorisk train autoencoder``).

The run folder holds ``autoencoder/`` (which `diffusers.AutoencoderKL.from_pretrained` and ``autoencoder:FOLDER`` read),
``training.json`` (settings, history, and how well it renders images that chose nothing) and ``manifest.parquet`` (the
part that each image was in). The folder ``autoencoder/`` also holds ``origin.json`` and ``seen.parquet``: hashes of the
images and patients that it was trained and chosen on.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.images.store import ImageStore
from memorisk.models.autoencoder import latent_shape
from memorisk.models.provenance import TrainingRecord
from memorisk.runs.environment import versions
from memorisk.runs.folder import RunFolder
from memorisk.runs.settings import settings_of, takes_settings
from memorisk.runs.workload import Cost, Progress, no_progress
from memorisk.training.autoencoders.fit import (
    AutoencoderTraining,
    baseline_side,
    measure_reconstruction,
    recipe,
    save_autoencoder,
)
from memorisk.training.autoencoders.latent_store import running_statistics
from memorisk.training.autoencoders.options import AutoencoderOptions, TrainAutoencoderOptions
from memorisk.training.classifiers.joint_jobs import tensor_bytes
from memorisk.training.engine.data import Division
from memorisk.training.engine.loop import CHECKPOINT, EarlyStoppingLog
from memorisk.training.engine.optimization import batch_bounds
from memorisk.training.run import Trained, TrainingCommand, TrainingPlan, open_parts, seconds_a_step

AUTOENCODER = "autoencoder"


@dataclass(frozen=True)
class AutoencoderPlan(TrainingPlan):
    """Plan of a training of an autoencoder."""

    latent_shape: tuple[int, int, int]
    """Channels, height and width of a latent."""
    parameters: int
    """Number of parameters of the network."""


@takes_settings(TrainAutoencoderOptions)
def train_autoencoder(
    images: str | Path, *, out: str | Path, progress: Progress = no_progress, **settings: Any
) -> Trained:
    """Train an autoencoder, and measure it on patients who had no part in it.

    Args:
        images: Source of the images, as for `memorisk.audit_classifier`; labels are not needed.
        out: The run folder: new, empty, or a run of the same command to continue.
        progress: Function called with (stage, done, total).
        **settings: Any field of `TrainAutoencoderOptions`.

    Returns:
        Result of the training, also saved in ``out``.

    Raises:
        InputError: Bad input or settings; nothing was written.
        MissingExtraError: diffusers is not installed.
        MemoriskError: The training failed; what is done is kept.
    """
    return AutoencoderCommand(images, out, settings_of(TrainAutoencoderOptions, settings), progress).train()


def plan_autoencoder(
    images: str | Path, *, out: str | Path, progress: Progress = no_progress, **settings: Any
) -> AutoencoderPlan:
    """Plan `train_autoencoder` by two steps; nothing is written but the image store.

    Args:
        images: Source of the images, as for `train_autoencoder`.
        out: The run folder.
        progress: Function called with (stage, done, total).
        **settings: Any field of `TrainAutoencoderOptions`.

    Raises:
        InputError: As `train_autoencoder`.
    """
    return AutoencoderCommand(images, out, settings_of(TrainAutoencoderOptions, settings), progress).plan()


class AutoencoderCommand(TrainingCommand[TrainAutoencoderOptions, ImageStore, AutoencoderTraining, AutoencoderPlan]):
    """The command ``memorisk train autoencoder``."""

    name = AUTOENCODER

    def open(self) -> tuple[ImageStore, Division]:
        """Decode the images and divide the patients."""
        return open_parts(self.images, self.options, self.progress)

    def build(self) -> AutoencoderTraining:
        """Check everything and build the training on its device."""
        names = (field.name for field in fields(AutoencoderOptions))
        options = AutoencoderOptions(**{name: getattr(self.options, name) for name in names})
        return AutoencoderTraining(self.source, self.parts, options)

    def identity(self, training: AutoencoderTraining) -> dict[str, Any]:
        """Return the settings without which a run is another run."""
        return recipe(training.options)

    def fit(self, run: RunFolder, training: AutoencoderTraining) -> dict[str, Any]:
        """Train, measure and leave the weights of the best epoch."""
        record, done = training.run(run.path / CHECKPOINT, self.progress)
        training.restore(record)
        log = EarlyStoppingLog.of(record, done.losses[:, 0].tolist(), self.options.patience)
        summary = _summary(self.parts, training, log, self.progress)
        record = TrainingRecord.of(self.source, {"training": training.rows, "validation": training.validation})
        scaling_factor = summary["latents"]["scaling_factor"]
        save_autoencoder(training.network, run.path / AUTOENCODER, record, scaling_factor=scaling_factor)
        return summary

    def estimate(self, training: AutoencoderTraining, *, timed: bool) -> AutoencoderPlan:
        """Plan the training, if timed by two steps."""
        options, bounds = self.options, batch_bounds(len(training.rows), self.options.batch_size)
        losses = (loss for _ in range(2) for loss in training.losses(lambda seed: None, 0, bounds[:1]))
        steps = len(bounds) * options.epochs
        seconds = steps * seconds_a_step(losses, training.setup) if timed else float("nan")
        parameters = sum(parameter.numel() for parameter in training.network.parameters())
        cost = _cost(self.source, self.parts, training, steps)
        return AutoencoderPlan(self.parts.counts, steps, seconds, training.notes, cost, _shape(training), parameters)


def _cost(store: ImageStore, parts: Division, training: AutoencoderTraining, steps: int) -> Cost:
    """Count the work: validation images pass after each epoch, and last with the test images; latents are averaged."""
    n, m = len(training.rows), len(training.validation)
    return Cost(
        trainings=1,
        steps=steps,
        images_trained=training.options.epochs * n,
        images_passed=training.options.epochs * m + n + m + len(parts.rows["test"]),
        bytes_images=store.images.nbytes,
        bytes_weights=tensor_bytes(training.network),
        at_most=("steps", "images_trained", "images_passed"),
    )


def _shape(training: AutoencoderTraining) -> tuple[int, int, int]:
    side = int(training.store.images.shape[1])
    return latent_shape(training.network.config, (side, side))


def _summary(
    parts: Division, training: AutoencoderTraining, log: EarlyStoppingLog, progress: Progress
) -> dict[str, Any]:
    """Make the contents of ``training.json``."""
    store, shape = training.store, _shape(training)
    measured = {"test": parts.rows["test"], "validation": training.validation}
    numbers = int(np.prod(shape))
    small = baseline_side(numbers, int(store.images.shape[3]), int(store.images.shape[1]))
    history = [
        {"epoch": number + 1, "loss": loss, "error": error}
        for number, (loss, error) in enumerate(zip(log.losses, log.validation, strict=True))
    ]
    return {
        "images": {"stored": store.images.shape[1:], "depth": store.images.dtype.itemsize * 8},
        "latents": {"shape": shape, **_statistics(training)},
        "parameters": sum(parameter.numel() for parameter in training.network.parameters()),
        "recipe": recipe(training.options),
        "parts": parts.counts,
        "groups_given": store.manifest.groups_given,
        "best_epoch": log.best_epoch,
        "stopped_early": log.stopped,
        "baseline": f"bilinear, {small} x {small}",
        **measure_reconstruction(training, measured, parts.groups, numbers, progress),
        "history": history,
        "notes": (*training.notes, *_notes(store, log)),
        "data_hash": store.data_hash,
        "versions": versions(),
    }


def _statistics(training: AutoencoderTraining) -> dict[str, Any]:
    """Compute mean and deviation of each channel over training images, and the factor to an overall deviation of 1."""
    mean, std = running_statistics(training.latents(training.rows))
    whole = float(np.sqrt((std**2 + (mean - mean.mean()) ** 2).mean()))
    return {"mean": mean, "std": std, "scaling_factor": 1 / whole if whole > 0 else 1.0}


def _notes(store: ImageStore, log: EarlyStoppingLog) -> tuple[str, ...]:
    """Note limits of a training that is over."""
    notes = []
    if not store.manifest.groups_given:
        notes.append("Whose each image is was not given: every image counts as a patient of its own.")
    if not log.stopped and log.best_epoch >= len(log.losses) - 1:
        notes.append("The best epoch is the last or the one before it: more epochs may render more.")
    return tuple(notes)
