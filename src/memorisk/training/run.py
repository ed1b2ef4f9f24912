"""The steps that every ``memorisk train`` takes around the training itself.

It refuses a folder that cannot be used, reads the images, opens the run folder, continues from its state, and writes
``manifest.parquet`` (the part that each image was in) and ``training.json`` (settings, history and figures).
"""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

from memorisk.images.manifest import Manifest
from memorisk.images.sources.overlap import refuse_overlap
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.runs.checksums import remove_recorded
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import json_value, read_json, write_json
from memorisk.runs.folder import RunFolder, check_out_folder, open_run
from memorisk.runs.workload import Cost, Progress
from memorisk.training.autoencoders.latent_store import Latents
from memorisk.training.detectors.command_options import TrainDetectorOptions
from memorisk.training.engine.data import Division, divide, parts_of_split
from memorisk.training.engine.devices import is_main, keep_freed_memory, wait_for_all
from memorisk.training.engine.loop import CHECKPOINT
from memorisk.training.engine.optimization import build_optimizer
from memorisk.training.engine.options import PartOptions, TrainClassifierOptions, TrainOptions

SUMMARY, MANIFEST = "training.json", "manifest.parquet"

ImageTraining = PartOptions | TrainDetectorOptions
"""The settings of a training whose images are divided into training, validation and test part."""


class KeyedTraining(Protocol):
    """A training with a key, checked and on its device."""

    @property
    def key(self) -> str:
        """Fingerprint of everything that the weights depend on."""
        ...


Training = TypeVar("Training", bound=KeyedTraining)


@dataclass(frozen=True)
class Trained:
    """Outcome of a training."""

    folder: Path
    """The run folder; its ``detector``, ``autoencoder`` or ``generator`` holds the trained model."""
    summary: dict[str, Any]
    """Content of its ``training.json``."""


@dataclass(frozen=True)
class TrainingPlan:
    """Plan of a training, with its cost."""

    parts: dict[str, dict[str, int]]
    """Number of images and patients of each part."""
    steps: int
    """Number of steps of the optimiser, if all epochs run."""
    seconds: float
    """Time of the training on this machine, from the second of two steps; looks at held-out images are not included."""
    notes: tuple[str, ...]
    """Notes that a report would have."""
    cost: Cost
    """Cost of the whole training; it may end early."""


def check_folder(images: str | Path, out: str | Path) -> Path:
    """Refuse, before any work, a run folder that cannot be used; only the first of several processes checks it.

    Args:
        images: Source of the images, as the user names it.
        out: The run folder.

    Raises:
        InputError: The folder lies among the images, belongs to something else, or another process works on it.
    """
    folder = Path(out)
    refuse_overlap(folder, {"IMAGES": images})
    if is_main():
        check_out_folder(folder, {}, identity=[])
    return folder


def open_images(
    images: str | Path,
    options: ImageTraining | TrainClassifierOptions,
    progress: Progress,
    *checks: Callable[[Manifest], object],
) -> ImageStore:
    """Decode the images.

    Args:
        images: Source of the images, as the user names it.
        options: Settings by which they are read; a given split is checked before anything is decoded.
        progress: Function called with (stage, done, total).
        *checks: Further functions that may refuse a manifest before anything is decoded.

    Raises:
        InputError: The images or their split are refused.
    """
    progress("reading the manifest", 0, 0)
    manifest = load_manifest(images, options)
    for check in (*checks, parts_of_split) if options.splits == "given" else checks:
        check(manifest)
    return build_store(manifest, options, progress=partial(progress, "decoding images"))


def open_parts(
    images: str | Path, options: ImageTraining, progress: Progress, *checks: Callable[[Manifest], object]
) -> tuple[ImageStore, Division]:
    """Decode the images and divide their patients; arguments as for `open_images`."""
    store = open_images(images, options, progress, *checks)
    return store, divide(store.manifest, store.pixel_hashes, options)


def split_settings(options: ImageTraining) -> dict[str, Any]:
    """Return the settings by which images are divided: a run with others is another run."""
    return {name: getattr(options, name) for name in ("splits", "split_seed", "validation_share", "test_share")}


def train_in_folder(
    images: str | Path,
    folder: Path,
    options: ImageTraining,
    source: ImageStore | Latents,
    parts: Division,
    identity: Mapping[str, Any],
    prepare: Callable[[RunFolder], Training],
    train: Callable[[RunFolder, Training], dict[str, Any]],
    *,
    shared: bool = False,
) -> Trained:
    """Train in a run folder, continue an incomplete run, or read the summary of a finished one.

    Args:
        images: Source of the images, as the user names it.
        folder: The run folder, checked.
        options: Settings of the command.
        source: The images, or their latents.
        parts: Parts of the images, by patient.
        identity: Settings without which a run is another run, in addition to the images.
        prepare: Function that builds the training that ``train`` gets.
        train: Function that trains, writes the weights, and returns the content of ``training.json``.
        shared: Whether several processes train it together; the first one writes.

    Raises:
        InputError: The folder holds another run; or what ``prepare`` refuses.
        MemoriskError: The training failed; what is done is kept.
    """
    config = {"images": str(images), "out": str(folder), **asdict(options)}
    config["run"] = {"data_hash": source.data_hash, **identity}
    writes = not shared or is_main()
    keep_freed_memory()
    with open_run(folder, config, identity=["run"]) if writes else nullcontext(RunFolder(folder)) as run:
        training, written = prepare(run), run.path / SUMMARY
        if written.is_file() and read_json(written).get("key") == training.key:
            remove_recorded(run.path / CHECKPOINT)  # a kill may have come before
            return Trained(folder, read_json(written))
        if writes:
            run.log("started", versions=versions(), machine=machine())
            source.manifest.save(run.path / MANIFEST, split=parts.names)
        summary = {"key": training.key, **train(run, training)}
        if writes:
            write_json(written, summary, recorded=True)
            remove_recorded(run.path / CHECKPOINT)
            run.log("finished")
        if shared:
            wait_for_all()
    return Trained(folder, json_value(summary))


def seconds_a_step(losses: Iterable[torch.Tensor], parameters: Iterable[torch.Tensor], steps: TrainOptions) -> float:
    """Measure the seconds of the second of two steps, which are not kept.

    Args:
        losses: Losses of two steps, each computed on request.
        parameters: Parameters that are trained.
        steps: Settings of the optimiser.
    """
    optimizer, ended = build_optimizer(list(parameters), steps), []
    for loss in losses:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()  # waits for a GPU
        ended.append(time.perf_counter())
    return ended[1] - ended[0]
