"""The steps that every ``memorisk train`` takes around the training itself.

It refuses a folder that cannot be used, reads the images, opens the run folder, continues from its state, and writes
``manifest.parquet`` (the part that each image was in) and ``training.json`` (settings, history and figures).
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch

from memorisk.images.manifest import Manifest
from memorisk.images.sources.overlap import refuse_overlap
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.runs.checksums import remove_recorded
from memorisk.runs.environment import machine, versions
from memorisk.runs.errors import one_line, plural
from memorisk.runs.files import json_value, read_json, write_json
from memorisk.runs.folder import RunFolder, check_out_folder, open_run
from memorisk.runs.workload import Cost, Opening, Progress
from memorisk.training.autoencoders.latent_store import Latents
from memorisk.training.autoencoders.options import TrainAutoencoderOptions
from memorisk.training.detectors.command_options import TrainDetectorOptions
from memorisk.training.engine.data import Division, divide, parts_of_split
from memorisk.training.engine.devices import is_main, keep_freed_memory, limited_threads, wait_for_all
from memorisk.training.engine.epoch_training import EpochSetup
from memorisk.training.engine.loop import CHECKPOINT
from memorisk.training.engine.optimization import build_optimizer
from memorisk.training.engine.options import PartOptions, TrainClassifierOptions
from memorisk.training.generators.options import TrainGeneratorOptions

SUMMARY, MANIFEST = "training.json", "manifest.parquet"
SPLIT_SETTINGS = ("splits", "split_seed", "validation_share", "test_share", "held_out")
"""Settings by which images are divided: a run with others is another run."""

ImageTraining = PartOptions | TrainDetectorOptions
"""The settings of a training whose images are divided into training, validation and test part."""


Options = TypeVar(
    "Options", TrainClassifierOptions, TrainAutoencoderOptions, TrainDetectorOptions, TrainGeneratorOptions
)
Source = TypeVar("Source", ImageStore, Latents)
Training = TypeVar("Training")


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
    """Time of the training on this machine, from the second of two steps; looks at held-out images are not included.
    NaN where no step was timed."""
    notes: tuple[str, ...]
    """Notes that a report would have."""
    cost: Cost
    """Cost of the whole training; it may end early."""

    @property
    def opening(self) -> Opening:
        """Return what a training shows at its start: images and patients of each part, work, and notes."""
        parts = (
            f"{name} {n['images']:,} of {plural(n['patients'], 'patient', 'patients')}"
            for name, n in self.parts.items()
        )
        notes = (f"note: {one_line(note, 300)}" for note in self.notes)
        return Opening.of([f"images: {', '.join(parts)}", f"work: {self.cost.in_short()}", *notes])


Plan = TypeVar("Plan", bound=TrainingPlan)


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


class TrainingCommand(ABC, Generic[Options, Source, Training, Plan]):
    """A ``memorisk train`` command: a kind declares its parts, `train` and `plan` do everything around them.

    Args:
        images: Source of the images, as the user names it.
        out: The run folder.
        options: Settings of the command.
        progress: Function called with (stage, done, total).

    Raises:
        InputError: The folder, the images or their split are refused.
    """

    name: str
    """Name of the kind, as in ``memorisk train NAME``."""
    shared = False
    """Whether several processes train it together; the first one writes."""

    def __init__(self, images: str | Path, out: str | Path, options: Options, progress: Progress) -> None:
        self.images, self.options, self.progress = images, options, progress
        self.folder = check_folder(images, out)
        self.source, self.parts = self.open()

    @abstractmethod
    def open(self) -> tuple[Source, Division]:
        """Open the images or their latents, and divide the patients."""

    @abstractmethod
    def build(self) -> Training:
        """Check everything and build the training on its device."""

    @abstractmethod
    def identity(self, training: Training) -> Mapping[str, Any]:
        """Return the settings without which a run is another run, in addition to images and split."""

    def fit(self, run: RunFolder, training: Training) -> dict[str, Any]:
        """Train, measure, write the weights, and return the content of ``training.json``."""
        raise NotImplementedError

    def estimate(self, training: Training, *, timed: bool) -> Plan:
        """Make the plan.

        Args:
            training: Training that was built.
            timed: Whether to time two steps, after which the training is not that of a run any more.
        """
        raise NotImplementedError

    def prepare(self, run: RunFolder, training: Training) -> Training:
        """Return the training with what is made in the run folder first."""
        return training

    def plan(self) -> Plan:
        """Plan the training; nothing is written but the image store."""
        with limited_threads(self.options.threads):
            return self.estimate(self.build(), timed=True)

    def train(self) -> Trained:
        """Train in the run folder, continue an incomplete run, or read the summary of a finished one.

        Raises:
            InputError: The folder holds another run, or the kind refuses it.
            MemoriskError: The training failed; what is done is kept.
        """
        writes = not self.shared or is_main()
        keep_freed_memory()
        with limited_threads(self.options.threads):
            checked = self.build()
            opened = self.opened(checked) if writes else nullcontext(RunFolder(self.folder))
            with opened as run:
                training: Any = self.prepare(run, checked)
                written = run.path / SUMMARY
                if written.is_file() and read_json(written).get("key") == training.key:
                    remove_recorded(run.path / CHECKPOINT)  # a kill may have come before
                    return Trained(self.folder, read_json(written))
                if writes:
                    self.progress(self.estimate(training, timed=False).opening, 0, 0)
                    self.note_start(run)
                summary = {"key": training.key, **self.fit(run, training)}
                if writes:
                    write_json(written, summary, recorded=True)
                    remove_recorded(run.path / CHECKPOINT)
                    run.log("finished")
                if self.shared:
                    wait_for_all()
        return Trained(self.folder, json_value(summary))

    def opened(self, training: Training) -> AbstractContextManager[RunFolder]:
        """Open the run folder, held as long as the training runs.

        Raises:
            InputError: It holds another run.
        """
        split = {name: getattr(self.options, name) for name in SPLIT_SETTINGS if hasattr(self.options, name)}
        identity = {"data_hash": self.source.data_hash, "train": self.name, **self.identity(training), **split}
        config = {"images": str(self.images), "out": str(self.folder), **asdict(self.options), "run": identity}
        return open_run(self.folder, config, identity=["run"])

    def note_start(self, run: RunFolder) -> None:
        """Log versions and machine, and write the part that each image is in."""
        run.log("started", versions=versions(), machine=machine())
        self.source.manifest.save(run.path / MANIFEST, split=self.parts.names)


def seconds_a_step(losses: Iterable[torch.Tensor], setup: EpochSetup) -> float:
    """Measure the seconds of the second of two steps, which are not kept.

    Args:
        losses: Losses of two steps, each computed on request.
        setup: Parameters that are trained, and their optimiser.
    """
    optimizer, ended = build_optimizer(list(setup.trained), setup.options), []
    for loss in losses:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()  # waits for a GPU
        ended.append(time.perf_counter())
    return ended[1] - ended[0]
