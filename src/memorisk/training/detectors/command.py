"""Train a detector on a set of images (``memorisk train detector``): a copy detector here, others in `lcmem.command`.

The run folder holds ``detector/`` (what `memorisk.load_detector` reads), ``training.json`` (settings, history, and what
the training was good for on images that chose nothing) and ``manifest.parquet`` (which image was in which part).
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from memorisk.images.overlap import refuse_overlap
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.models.detectors.kinds import COPY
from memorisk.runs.cost import Cost
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import plain, read_json, write_json, write_table
from memorisk.runs.folder import check_out, open_run
from memorisk.runs.progress import Progress, quiet
from memorisk.runs.settings import settings_of
from memorisk.training.detectors.command_options import TrainDetectorOptions
from memorisk.training.detectors.contrastive.augmentations import blank_rows
from memorisk.training.detectors.contrastive.fit import FittedDetector, Training, run_detector_training
from memorisk.training.detectors.contrastive.options import STRENGTH_NAMES, DetectorOptions
from memorisk.training.detectors.contrastive.parts import Division, divide, given_parts
from memorisk.training.detectors.contrastive.report import DETECTORS, measure_training
from memorisk.training.engine.devices import limited_threads
from memorisk.training.engine.memory import keep_freed_memory
from memorisk.training.engine.optimizers import build_optimizer
from memorisk.training.engine.order import batch_bounds

DETECTOR, SUMMARY, MANIFEST = "detector", "training.json", "manifest.parquet"


@dataclass(frozen=True)
class TrainedDetector:
    """What was trained."""

    folder: Path
    """The run folder; the detector is in its ``detector``."""
    summary: dict[str, Any]
    """What its ``training.json`` holds."""


@dataclass(frozen=True)
class DetectorPlan:
    """What a training would take."""

    parts: dict[str, dict[str, int]]
    """Images and patients of each part."""
    steps: int
    """Of the optimiser."""
    seconds: float
    """Of the training on this machine, from the second of two steps."""
    notes: tuple[str, ...]
    """What a report would say."""
    cost: Cost
    """Of all of it."""


@dataclass(frozen=True)
class _Data:
    store: ImageStore
    parts: Division

    @property
    def rows(self) -> dict[str, np.ndarray]:
        """Of each part."""
        return self.parts.rows

    @property
    def groups(self) -> np.ndarray:
        """[N] whose each image is."""
        return self.parts.groups


def train_detector(
    images: str | Path, *, out: str | Path, progress: Progress = quiet, **settings: Any
) -> TrainedDetector:
    """Train a detector, and measure it on patients who had no part in it.

    Args:
        images: As for `memorisk.audit_classifier`; labels are not needed.
        out: The run folder: new, empty, or a run of the same command to go on with.
        progress: Called with (stage, done, total).
        **settings: Any field of `TrainDetectorOptions`.

    Returns:
        What was trained, also saved in ``out``.

    Raises:
        InputError: Bad input or settings; nothing was written.
        MissingExtraError: kornia or pytorch-metric-learning is not installed.
        MemoriskError: The training failed; what is done is kept.
    """
    options = settings_of(TrainDetectorOptions, settings)
    folder = Path(out)
    refuse_overlap(folder, {"IMAGES": images})
    check_out(folder, {}, identity=[])
    if options.kind != COPY:
        from memorisk.training.detectors.lcmem.command import train_latent_detector

        return TrainedDetector(folder, train_latent_detector(images, folder, options, progress))
    data = _data(images, options, progress)
    recipe = options.copy
    keep_freed_memory()
    with limited_threads(options.threads):
        training = Training.build(data.store, data.rows["training"], data.rows["validation"], data.groups, recipe)
        key, config = training.key, {"images": str(images), "out": str(folder), **asdict(options)}
        config["run"] = {"data_hash": data.store.data_hash, **split_settings(options), **_weights(training)}
        with open_run(folder, config, identity=["run"]) as run:
            written = run.path / SUMMARY
            if written.is_file() and read_json(written).get("key") == key:
                return TrainedDetector(folder, read_json(written))
            run.log("started", versions=versions(), machine=machine())
            write_table(run.path / MANIFEST, data.store.manifest.table.assign(split=data.parts.names))
            fitted = run_detector_training(training, run.subfolder(DETECTOR), progress)
            summary = {"key": key, **_summary(data, fitted, recipe, progress)}
            write_json(written, summary)
            run.log("finished")
    return TrainedDetector(folder, plain(summary))


def plan_detector(images: str | Path, *, out: str | Path, progress: Progress = quiet, **settings: Any) -> DetectorPlan:
    """What `train_detector` would do and take, by two steps; nothing is written but the image store.

    Args:
        images: As for `train_detector`.
        out: Likewise.
        progress: Likewise.
        **settings: Likewise.

    Raises:
        InputError: As `train_detector`.
    """
    options = settings_of(TrainDetectorOptions, settings)
    refuse_overlap(out, {"IMAGES": images})
    check_out(Path(out), {}, identity=[])
    if options.kind != COPY:
        from memorisk.training.detectors.lcmem.command import plan_latent_detector

        return plan_latent_detector(images, options, progress)
    data = _data(images, options, progress)
    with limited_threads(options.threads):
        training = Training.build(data.store, data.rows["training"], data.rows["validation"], data.groups, options.copy)
        bounds = batch_bounds(len(training.rows), training.options.images_a_step)
        each = _seconds_a_step(training, bounds[:1])
    steps = len(bounds) * options.copy.epochs
    return DetectorPlan(data.parts.counts, steps, steps * each, training.notes, _cost(data, training, steps))


def _cost(data: _Data, training: Training, steps: int) -> Cost:
    """Each image of a step has a copy; validation images and theirs are looked for after every epoch."""
    epochs, measured = training.options.epochs, _measured(data)
    looks, tests = len(training.validation), len(STRENGTH_NAMES)
    return Cost(
        trainings=1,
        steps=steps,
        images_trained=2 * epochs * len(training.rows),
        images_passed=2 * (looks * (epochs + 1) + DETECTORS * (measured["validation"] + tests * measured["test"])),
        pairs=looks**2 * (epochs + 1) + DETECTORS * (measured["validation"] ** 2 + tests * measured["test"] ** 2),
        bytes_images=data.store.images.nbytes,
        bytes_weights=sum(t.numel() * t.element_size() for t in training.start.network.tensors().values()),
    )


def _measured(data: _Data) -> dict[str, int]:
    """Images of each part that are not blank: those that the trained detector is measured on."""
    return {
        name: len(np.setdiff1d(data.rows[name], blank_rows(data.store.images, data.rows[name])))
        for name in ("validation", "test")
    }


def _seconds_a_step(training: Training, bounds: list[tuple[int, int]]) -> float:
    """Of a step with the whole network, from the second of two."""
    optimizer = build_optimizer(list(training.start.network.trained()), training.options.steps)
    begun = []
    for _ in range(2):
        begun.append(time.perf_counter())
        for loss in _losses(training, bounds):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()  # waits for a GPU
    return time.perf_counter() - begun[1]


def _losses(training: Training, bounds: list[tuple[int, int]]) -> Iterator[torch.Tensor]:
    """As in the first epoch in which nothing is frozen."""
    return training.losses(lambda seed: None, training.options.frozen_epochs, bounds)


def split_settings(options: TrainDetectorOptions) -> dict[str, Any]:
    """How the images are divided: by these a run is the same run."""
    names = ("splits", "split_seed", "validation_share", "test_share")
    return {name: getattr(options, name) for name in names}


def _weights(training: Training) -> dict[str, Any]:
    """What is trained, how, and from what."""
    config = training.start.config
    return {"backbone": config.backbone, "weights": config.weights_fingerprint, **config.recipe}


def _data(images: str | Path, options: TrainDetectorOptions, progress: Progress) -> _Data:
    """Decode the images and divide the patients; patients who share an image are one."""
    progress("reading the manifest", 0, 0)
    manifest = load_manifest(images, options)
    if options.splits == "given":
        given_parts(manifest)
    store = build_store(manifest, options, progress=lambda done, total: progress("decoding images", done, total))
    return _Data(store, divide(store.manifest, store.pixel_hashes, options))


def _summary(data: _Data, fitted: FittedDetector, recipe: DetectorOptions, progress: Progress) -> dict[str, Any]:
    """What ``training.json`` says."""
    config = fitted.detector.config
    parts = {name: data.rows[name] for name in ("validation", "test")}
    return {
        "backbone": config.backbone,
        "weights": config.weights,
        "loss": config.loss,
        "measure": config.measure,
        "protocol": config.protocol,
        "departures": config.departures,
        "recipe": config.recipe,
        "parts": data.parts.counts,
        "groups_given": config.groups_given,
        "best_epoch": fitted.best_epoch,
        **measure_training(data.store, parts, data.groups, fitted, recipe, progress),
        "history": fitted.history,
        "notes": fitted.notes,
        "data_hash": config.data_hash,
        "versions": config.versions,
    }
