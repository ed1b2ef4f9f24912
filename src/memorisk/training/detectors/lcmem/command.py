"""``memorisk train detector`` of the kinds over latents: LCMem and its baselines (paper 004).

The run folder holds ``detector/`` and, of two stages, ``stage1/`` (what `memorisk.load_detector` reads),
``training.json`` (settings, histories, and what either detector is good for on patients who chose nothing) and
``manifest.parquet`` (which image was in which part).
"""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.models.autoencoders.latents import open_latents
from memorisk.runs.environment import machine, versions
from memorisk.runs.errors import InputError
from memorisk.runs.files import plain, read_json, write_json, write_table
from memorisk.runs.folder import open_run
from memorisk.runs.progress import Progress
from memorisk.training.autoencoders.latent_store import GIVEN, Latents, load_latents, read_latents
from memorisk.training.detectors.command import MANIFEST, SUMMARY, DetectorPlan, split_settings
from memorisk.training.detectors.command_options import TrainDetectorOptions
from memorisk.training.detectors.contrastive.parts import Division, divide, given_parts
from memorisk.training.detectors.lcmem.cost import lcmem_cost
from memorisk.training.detectors.lcmem.data import PairData
from memorisk.training.detectors.lcmem.fit import DETECTOR, FittedStage, StageTraining, fit_lcmem
from memorisk.training.detectors.lcmem.options import LatentOptions
from memorisk.training.detectors.lcmem.report import measure_stages
from memorisk.training.engine.devices import limited_threads
from memorisk.training.engine.memory import keep_freed_memory
from memorisk.training.engine.optimizers import build_optimizer


@dataclass(frozen=True, eq=False)
class _Material:
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
    filled, found = options.latent.filled(), _material(images, options, progress)
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
        summary = {"key": first.key, **_summary(found, fitted, filled, progress)}
        write_json(written, summary)
        run.log("finished")
    return plain(summary)


def plan_latent_detector(images: str | Path, options: TrainDetectorOptions, progress: Progress) -> DetectorPlan:
    """What a training would take, by two steps of each stage; nothing is written but the image store and latents.

    Args:
        images: As for `train_latent_detector`.
        options: Checked.
        progress: Called with (stage, done, total).
    """
    filled, found = options.latent.filled(), _material(images, options, progress)
    _refuse_stage_two(found.latents, filled)
    steps, seconds, notes, stages = 0, 0.0, [], []
    with limited_threads(options.threads):
        training = StageTraining.first(found.data(filled), filled)
        for _ in range(filled.stages or 1):
            count = training.batches * training.stage.epochs
            steps, seconds = steps + count, seconds + count * _seconds_a_step(training)
            stages.append(training)
            notes += [note for note in training.notes if note not in notes]
            training = training.as_second()
    notes.append("Patience may end a stage much earlier.")
    cost = lcmem_cost(found.latents, found.parts, stages, filled)
    return DetectorPlan(found.parts.counts, steps, seconds, tuple(notes), cost)


def _seconds_a_step(training: StageTraining) -> float:
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


def _material(images: str | Path, options: TrainDetectorOptions, progress: Progress) -> _Material:
    """Latents of the images, and the patients divided."""
    progress("reading the manifest", 0, 0)
    if str(images).startswith(GIVEN):
        if options.encoder is not None:
            raise InputError("latents are given: leave encoder out")
        latents = read_latents(str(images))
    else:
        manifest = load_manifest(images, options)
        if options.splits == "given":
            given_parts(manifest)
        store = build_store(manifest, options, progress=lambda done, total: progress("decoding images", done, total))
        _, height, width, channels = (int(n) for n in store.images.shape)
        encoder = open_latents(
            options.latent.encoder,
            (height, width, channels),
            size=options.network_size,
            books=store.folder.parent.parent,
        )
        latents = load_latents(store, encoder, device=options.device, progress=progress)
    return _Material(latents, divide(latents.manifest, latents.hashes, options))


def _refuse_stage_two(latents: Latents, options: LatentOptions) -> None:
    """Refuse two stages of latents without images, before anything is written."""
    if latents.store is None and options.stages == 2:
        raise InputError("stage 2 augments images, and these latents were given without: train with --stages 1")


def _summary(
    found: _Material, fitted: dict[str, FittedStage], options: LatentOptions, progress: Progress
) -> dict[str, Any]:
    """What ``training.json`` says."""
    last, config = fitted[DETECTOR], fitted[DETECTOR].detector.config
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
