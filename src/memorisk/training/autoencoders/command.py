"""Train a small autoencoder on a set of images (``memorisk train autoencoder``).

The run folder holds ``autoencoder/`` (what `diffusers.AutoencoderKL.from_pretrained` and ``autoencoder:FOLDER`` read),
``training.json`` (settings, history, and how well it renders images that chose nothing) and ``manifest.parquet`` (which
image was in which part). In ``autoencoder/`` stand also ``origin.json`` and ``seen.parquet``: hashes of the images and
patients that it was trained and chosen on.
"""

import time
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.images.sources.registry import load_manifest, refuse_overlap
from memorisk.images.store import ImageStore, build_store
from memorisk.models.autoencoder import latent_shape
from memorisk.models.provenance import TrainingRecord
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import json_value, read_json, write_json, write_table
from memorisk.runs.folder import check_out_folder, open_run
from memorisk.runs.settings import settings_of
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
from memorisk.training.engine.data import Division, divide, parts_of_split
from memorisk.training.engine.devices import keep_freed_memory, limited_threads
from memorisk.training.engine.loop import EarlyStoppingLog
from memorisk.training.engine.optimization import batch_bounds, build_optimizer

AUTOENCODER, SUMMARY, MANIFEST, CHECKPOINT = (
    "autoencoder",
    "training.json",
    "manifest.parquet",
    "checkpoint.safetensors",
)
_PART_SETTINGS = ("splits", "split_seed", "validation_share", "test_share")


@dataclass(frozen=True)
class TrainedAutoencoder:
    """What was trained."""

    folder: Path
    """The run folder; the autoencoder is in its ``autoencoder``."""
    summary: dict[str, Any]
    """What its ``training.json`` holds."""


@dataclass(frozen=True)
class AutoencoderPlan:
    """What a training would take."""

    parts: dict[str, dict[str, int]]
    """Images and patients of each part."""
    latent_shape: tuple[int, int, int]
    """Channels, height and width of a latent."""
    parameters: int
    """Of the network."""
    steps: int
    """Of the optimiser, if no epoch is the last before its time."""
    seconds: float
    """Of the training on this machine, from the second of two steps."""
    notes: tuple[str, ...]
    """What a report would say."""
    cost: Cost
    """Of all of it; a training may end early."""


def train_autoencoder(
    images: str | Path, *, out: str | Path, progress: Progress = no_progress, **settings: Any
) -> TrainedAutoencoder:
    """Train an autoencoder, and measure it on patients who had no part in it.

    Args:
        images: As for `memorisk.audit_classifier`; labels are not needed.
        out: The run folder: new, empty, or a run of the same command to go on with.
        progress: Called with (stage, done, total).
        **settings: Any field of `TrainAutoencoderOptions`.

    Returns:
        What was trained, also saved in ``out``.

    Raises:
        InputError: Bad input or settings; nothing was written.
        MissingExtraError: diffusers is not installed.
        MemoriskError: The training failed; what is done is kept.
    """
    options = settings_of(TrainAutoencoderOptions, settings)
    folder = Path(out)
    refuse_overlap(folder, {"IMAGES": images})
    check_out_folder(folder, {}, identity=[])
    (store, parts), how = _data(images, options, progress), _recipe(options)
    keep_freed_memory()
    with limited_threads(options.threads):
        training = AutoencoderTraining.build(store, parts, how)
        config = {"images": str(images), "out": str(folder), **asdict(options)}
        config["run"] = {"data_hash": store.data_hash, **recipe(how)}
        config["run"] |= {name: getattr(options, name) for name in _PART_SETTINGS}
        with open_run(folder, config, identity=["run"]) as run:
            written = run.path / SUMMARY
            if written.is_file() and read_json(written).get("key") == training.key:
                (run.path / CHECKPOINT).unlink(missing_ok=True)  # a kill may have come before
                return TrainedAutoencoder(folder, read_json(written))
            run.log("started", versions=versions(), machine=machine())
            write_table(run.path / MANIFEST, store.manifest.table.assign(split=parts.names))
            log = training.run(run.path / CHECKPOINT, progress)
            summary = {"key": training.key, **_summary(parts, training, log, progress)}
            seen = TrainingRecord.of(store, {"training": training.rows, "validation": training.validation})
            scaling_factor = summary["latents"]["scaling_factor"]
            save_autoencoder(training.network, run.path / AUTOENCODER, seen, scaling_factor=scaling_factor)
            write_json(written, summary)
            (run.path / CHECKPOINT).unlink(missing_ok=True)
            run.log("finished")
    return TrainedAutoencoder(folder, json_value(summary))


def plan_autoencoder(
    images: str | Path, *, out: str | Path, progress: Progress = no_progress, **settings: Any
) -> AutoencoderPlan:
    """What `train_autoencoder` would do and take, by two steps; nothing is written but the image store.

    Args:
        images: As for `train_autoencoder`.
        out: Likewise.
        progress: Likewise.
        **settings: Likewise.

    Raises:
        InputError: As `train_autoencoder`.
    """
    options = settings_of(TrainAutoencoderOptions, settings)
    refuse_overlap(out, {"IMAGES": images})
    check_out_folder(Path(out), {}, identity=[])
    store, parts = _data(images, options, progress)
    with limited_threads(options.threads):
        training = AutoencoderTraining.build(store, parts, _recipe(options))
        bounds = batch_bounds(len(training.rows), options.batch_size)
        each = _seconds_a_step(training, bounds[:1])
    parameters = sum(parameter.numel() for parameter in training.network.parameters())
    steps = len(bounds) * options.epochs
    cost = _cost(store, parts, training, steps)
    return AutoencoderPlan(parts.counts, _shape(training), parameters, steps, steps * each, training.notes, cost)


def _cost(store: ImageStore, parts: Division, training: AutoencoderTraining, steps: int) -> Cost:
    """Validation images are rendered after every epoch, and with the test images at the end; latents are averaged."""
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


def _data(images: str | Path, options: TrainAutoencoderOptions, progress: Progress) -> tuple[ImageStore, Division]:
    """Decode the images and divide the patients."""
    progress("reading the manifest", 0, 0)
    manifest = load_manifest(images, options)
    if options.splits == "given":
        parts_of_split(manifest)  # refused before anything is decoded
    store = build_store(manifest, options, progress=partial(progress, "decoding images"))
    return store, divide(store.manifest, store.pixel_hashes, options)


def _seconds_a_step(training: AutoencoderTraining, bounds: list[tuple[int, int]]) -> float:
    """Of one step, from the second of two."""
    optimizer = build_optimizer(list(training.network.parameters()), training.options.steps)
    begun = []
    for _ in range(2):
        begun.append(time.perf_counter())
        for loss in training.losses(lambda seed: None, 0, bounds):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()  # waits for a GPU
    return time.perf_counter() - begun[1]


def _recipe(options: TrainAutoencoderOptions) -> AutoencoderOptions:
    return AutoencoderOptions(**{field.name: getattr(options, field.name) for field in fields(AutoencoderOptions)})


def _shape(training: AutoencoderTraining) -> tuple[int, int, int]:
    side = int(training.store.images.shape[1])
    return latent_shape(training.network.config, (side, side))


def _summary(
    parts: Division, training: AutoencoderTraining, log: EarlyStoppingLog, progress: Progress
) -> dict[str, Any]:
    """What ``training.json`` says."""
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
    """Mean and deviation of each channel over the training images, and what brings the whole to a deviation of 1."""
    mean, std = running_statistics(training.latents(training.rows))
    whole = float(np.sqrt((std**2 + (mean - mean.mean()) ** 2).mean()))
    return {"mean": mean, "std": std, "scaling_factor": 1 / whole if whole > 0 else 1.0}


def _notes(store: ImageStore, log: EarlyStoppingLog) -> tuple[str, ...]:
    """What must be said of a training that is over."""
    notes = []
    if not store.manifest.groups_given:
        notes.append("Whose each image is was not given: every image counts as a patient of its own.")
    if not log.stopped and log.best_epoch >= len(log.losses) - 1:
        notes.append("The best epoch is the last or the one before it: more epochs may render more.")
    return tuple(notes)
