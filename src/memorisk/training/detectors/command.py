"""Train a detector on a set of images (``memorisk train detector``): a copy detector here, others in `lcmem.command`.

The run folder holds ``detector/`` (what `memorisk.load_detector` reads), ``training.json`` (settings, history, and what
the training was good for on images that chose nothing) and ``manifest.parquet`` (which image was in which part).

``memorisk train detector`` of the kinds over latents: LCMem and its baselines (paper 004).

The run folder holds ``detector/`` and, of two stages, ``stage1/`` (what `memorisk.load_detector` reads),
``training.json`` (settings, histories, and what either detector is good for on patients who chose nothing) and
``manifest.parquet`` (which image was in which part).
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from memorisk.images.sources.registry import load_manifest, refuse_overlap
from memorisk.images.store import ImageStore, build_store
from memorisk.models.latents import open_latents
from memorisk.models.settings import COPY_DETECTOR
from memorisk.runs.environment import machine, versions
from memorisk.runs.errors import InputError
from memorisk.runs.files import json_value, read_json, write_json, write_table
from memorisk.runs.folder import check_out_folder, open_run
from memorisk.runs.settings import settings_of
from memorisk.runs.workload import Cost, Progress, no_progress
from memorisk.training.autoencoders.latent_store import LATENTS_PREFIX, Latents, load_latents, read_latents
from memorisk.training.detectors.command_options import TrainDetectorOptions
from memorisk.training.detectors.contrastive.augmentations import blank_rows
from memorisk.training.detectors.contrastive.fit import (
    DETECTORS,
    CopyDetectorTraining,
    FittedDetector,
    measure_training,
    run_detector_training,
)
from memorisk.training.detectors.lcmem.fit import DETECTOR_FOLDER, FittedStage, StageTraining, fit_lcmem
from memorisk.training.detectors.lcmem.inputs import PairData
from memorisk.training.detectors.lcmem.measurement import lcmem_cost, measure_stages
from memorisk.training.detectors.options import DetectorOptions, LatentOptions, Strength
from memorisk.training.engine.data import Division, divide, parts_of_split
from memorisk.training.engine.devices import keep_freed_memory, limited_threads
from memorisk.training.engine.optimization import batch_bounds, build_optimizer

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
class _CopyData:
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
    images: str | Path, *, out: str | Path, progress: Progress = no_progress, **settings: Any
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
    check_out_folder(folder, {}, identity=[])
    if options.kind != COPY_DETECTOR:
        return TrainedDetector(folder, train_latent_detector(images, folder, options, progress))
    data = _copy_data(images, options, progress)
    recipe = options.copy
    keep_freed_memory()
    with limited_threads(options.threads):
        training = CopyDetectorTraining.build(
            data.store, data.rows["training"], data.rows["validation"], data.groups, recipe
        )
        key, config = training.key, {"images": str(images), "out": str(folder), **asdict(options)}
        config["run"] = {"data_hash": data.store.data_hash, **split_settings(options), **_copy_weights(training)}
        with open_run(folder, config, identity=["run"]) as run:
            written = run.path / SUMMARY
            if written.is_file() and read_json(written).get("key") == key:
                return TrainedDetector(folder, read_json(written))
            run.log("started", versions=versions(), machine=machine())
            write_table(run.path / MANIFEST, data.store.manifest.table.assign(split=data.parts.names))
            fitted = run_detector_training(training, run.subfolder(DETECTOR), progress)
            summary = {"key": key, **_copy_summary(data, fitted, recipe, progress)}
            write_json(written, summary)
            run.log("finished")
    return TrainedDetector(folder, json_value(summary))


def plan_detector(
    images: str | Path, *, out: str | Path, progress: Progress = no_progress, **settings: Any
) -> DetectorPlan:
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
    check_out_folder(Path(out), {}, identity=[])
    if options.kind != COPY_DETECTOR:
        return plan_latent_detector(images, options, progress)
    data = _copy_data(images, options, progress)
    with limited_threads(options.threads):
        training = CopyDetectorTraining.build(
            data.store, data.rows["training"], data.rows["validation"], data.groups, options.copy
        )
        bounds = batch_bounds(len(training.rows), training.options.images_a_step)
        each = _seconds_per_copy_step(training, bounds[:1])
    steps = len(bounds) * options.copy.epochs
    return DetectorPlan(data.parts.counts, steps, steps * each, training.notes, _copy_cost(data, training, steps))


def _copy_cost(data: _CopyData, training: CopyDetectorTraining, steps: int) -> Cost:
    """Each image of a step has a copy; validation images and theirs are looked for after every epoch."""
    epochs, measured = training.options.epochs, _measured_images(data)
    looks, tests = len(training.validation), len(get_args(Strength))
    return Cost(
        trainings=1,
        steps=steps,
        images_trained=2 * epochs * len(training.rows),
        images_passed=2 * (looks * (epochs + 1) + DETECTORS * (measured["validation"] + tests * measured["test"])),
        pairs=looks**2 * (epochs + 1) + DETECTORS * (measured["validation"] ** 2 + tests * measured["test"] ** 2),
        bytes_images=data.store.images.nbytes,
        bytes_weights=sum(t.numel() * t.element_size() for t in training.start.network.tensors().values()),
    )


def _measured_images(data: _CopyData) -> dict[str, int]:
    """Images of each part that are not blank: those that the trained detector is measured on."""
    return {
        name: len(np.setdiff1d(data.rows[name], blank_rows(data.store.images, data.rows[name])))
        for name in ("validation", "test")
    }


def _seconds_per_copy_step(training: CopyDetectorTraining, bounds: list[tuple[int, int]]) -> float:
    """Of a step with the whole network, from the second of two."""
    optimizer = build_optimizer(list(training.start.network.trained()), training.options.steps)
    begun = []
    for _ in range(2):
        begun.append(time.perf_counter())
        for loss in _copy_losses(training, bounds):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()  # waits for a GPU
    return time.perf_counter() - begun[1]


def _copy_losses(training: CopyDetectorTraining, bounds: list[tuple[int, int]]) -> Iterator[torch.Tensor]:
    """As in the first epoch in which nothing is frozen."""
    return training.losses(lambda seed: None, training.options.frozen_epochs, bounds)


def split_settings(options: TrainDetectorOptions) -> dict[str, Any]:
    """How the images are divided: by these a run is the same run."""
    names = ("splits", "split_seed", "validation_share", "test_share")
    return {name: getattr(options, name) for name in names}


def _copy_weights(training: CopyDetectorTraining) -> dict[str, Any]:
    """What is trained, how, and from what."""
    config = training.start.config
    return {"backbone": config.backbone, "weights": config.weights_fingerprint, **config.recipe}


def _copy_data(images: str | Path, options: TrainDetectorOptions, progress: Progress) -> _CopyData:
    """Decode the images and divide the patients; patients who share an image are one."""
    progress("reading the manifest", 0, 0)
    manifest = load_manifest(images, options)
    if options.splits == "given":
        parts_of_split(manifest)
    store = build_store(manifest, options, progress=lambda done, total: progress("decoding images", done, total))
    return _CopyData(store, divide(store.manifest, store.pixel_hashes, options))


def _copy_summary(
    data: _CopyData, fitted: FittedDetector, recipe: DetectorOptions, progress: Progress
) -> dict[str, Any]:
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


@dataclass(frozen=True, eq=False)
class _LatentData:
    latents: Latents
    parts: Division

    def data(self, options: LatentOptions) -> PairData:
        """Of the training."""
        rows = self.parts.rows
        ignore = options.identities == "ignore"
        return PairData.build(self.latents, rows["training"], rows["validation"], self.parts.groups, ignore=ignore)


def train_latent_detector(
    images: str | Path, folder: Path, options: TrainDetectorOptions, progress: Progress
) -> dict[str, Any]:
    """Train, measure, and leave all of it in a run folder.

    Args:
        images: As for `memorisk.training.detectors.command.train_detector`, or ``latents:FILE``.
        folder: The run folder.
        options: Checked.
        progress: Called with (stage, done, total).

    Returns:
        What ``training.json`` says.
    """
    filled, found = options.latent.filled(), _latent_data(images, options, progress)
    keep_freed_memory()
    with limited_threads(options.threads):
        first = StageTraining.first(found.data(filled), filled)  # refuses what cannot be, before anything is written
    _refuse_stage_two(found.latents, filled)
    config = {"images": str(images), "out": str(folder), **asdict(options)}
    shown = first.config
    config["run"] = {
        "data_hash": found.latents.data_hash,
        **split_settings(options),
        "backbone": shown.backbone,
        "weights": shown.weights_fingerprint,
        "latents": dict(found.latents.encoder.identity),
        **shown.recipe,
    }
    with open_run(folder, config, identity=["run"]) as run:
        written = run.path / SUMMARY
        if written.is_file() and read_json(written).get("key") == first.key:
            return read_json(written)
        run.log("started", versions=versions(), machine=machine())
        write_table(run.path / MANIFEST, found.latents.manifest.table.assign(split=found.parts.names))
        rows = found.parts.rows
        fitted = fit_lcmem(
            found.latents, rows["training"], rows["validation"], found.parts.groups, filled, run.path, progress
        )
        summary = {"key": first.key, **_latent_summary(found, fitted, filled, progress)}
        write_json(written, summary)
        run.log("finished")
    return json_value(summary)


def plan_latent_detector(images: str | Path, options: TrainDetectorOptions, progress: Progress) -> DetectorPlan:
    """What a training would take, by two steps of each stage; nothing is written but the image store and latents.

    Args:
        images: As for `train_latent_detector`.
        options: Checked.
        progress: Called with (stage, done, total).
    """
    filled, found = options.latent.filled(), _latent_data(images, options, progress)
    _refuse_stage_two(found.latents, filled)
    steps, seconds, notes, stages = 0, 0.0, [], []
    with limited_threads(options.threads):
        training = StageTraining.first(found.data(filled), filled)
        for _ in range(filled.stages or 1):
            count = training.batches * training.stage.epochs
            steps, seconds = steps + count, seconds + count * _seconds_per_stage_step(training)
            stages.append(training)
            notes += [note for note in training.notes if note not in notes]
            training = training.as_second()
    notes.append("Patience may end a stage much earlier.")
    cost = lcmem_cost(found.latents, found.parts, stages, filled)
    return DetectorPlan(found.parts.counts, steps, seconds, tuple(notes), cost)


def _seconds_per_stage_step(training: StageTraining) -> float:
    """From the second of two."""
    optimizer = build_optimizer(list(training.branch.trained()), training.options.steps(training.stage, training.size))
    begun = []
    for loss in training.rehearse(2):
        begun.append(time.perf_counter())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if training.device.type == "cuda":
            torch.cuda.synchronize(training.device)
    return begun[1] - begun[0]


def _latent_data(images: str | Path, options: TrainDetectorOptions, progress: Progress) -> _LatentData:
    """Latents of the images, and the patients divided."""
    progress("reading the manifest", 0, 0)
    if str(images).startswith(LATENTS_PREFIX):
        if options.encoder is not None:
            raise InputError("latents are given: leave encoder out")
        latents = read_latents(str(images))
    else:
        manifest = load_manifest(images, options)
        if options.splits == "given":
            parts_of_split(manifest)
        store = build_store(manifest, options, progress=lambda done, total: progress("decoding images", done, total))
        _, height, width, channels = (int(n) for n in store.images.shape)
        encoder = open_latents(
            options.latent.encoder,
            (height, width, channels),
            size=options.network_size,
            books=store.folder.parent.parent,
        )
        latents = load_latents(store, encoder, device=options.device, progress=progress)
    return _LatentData(latents, divide(latents.manifest, latents.hashes, options))


def _refuse_stage_two(latents: Latents, options: LatentOptions) -> None:
    """Refuse two stages of latents without images, before anything is written."""
    if latents.store is None and options.stages == 2:
        raise InputError("stage 2 augments images, and these latents were given without: train with --stages 1")


def _latent_summary(
    found: _LatentData, fitted: dict[str, FittedStage], options: LatentOptions, progress: Progress
) -> dict[str, Any]:
    """What ``training.json`` says."""
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
        "parts": found.parts.counts,
        "groups_given": config.groups_given,
        "best_epoch": {name: one.best_epoch for name, one in fitted.items()},
        "test": measure_stages(found.latents, found.parts, fitted, options, progress),
        "history": {name: one.history for name, one in fitted.items()},
        "notes": list(dict.fromkeys(notes)),
        "data_hash": config.data_hash,
        "versions": config.versions,
    }
