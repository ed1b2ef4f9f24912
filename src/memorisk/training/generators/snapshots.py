"""The training of a generator of any kind, from look to look.

`kinds.diffusion_training` and `kinds.gan_training` give a `GeneratorTraining`, which
`training.generators.fit` runs. At each look ``on_snapshot`` receives a snapshot, which is kept if that was requested.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import isnan
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from torch import nn

from memorisk.images.store import ImageStore
from memorisk.models.generators.generators import Generator
from memorisk.models.provenance import TrainingRecord
from memorisk.models.settings import GeneratorConfig
from memorisk.runs.environment import check_device
from memorisk.runs.errors import one_line
from memorisk.runs.files import read_json
from memorisk.runs.workload import Progress, no_progress
from memorisk.training.engine.devices import choose_precision
from memorisk.training.engine.loop import Checkpoint
from memorisk.training.engine.step_loop import StepLoop, look_intervals
from memorisk.training.generators.inputs import check_rows
from memorisk.training.generators.options import GeneratorOptions

STOP = "stop.json"
SNAPSHOTS = "snapshots"


@dataclass(frozen=True)
class Snapshot:
    """A generator in the middle of its training."""

    step: int
    """Number of steps done."""
    steps: int
    """Number of steps planned."""
    generator: Generator
    """Generator with the averaged weights of this step. Its training continues: draw before the call returns, or use
    ``folder``."""
    loss: float
    """Mean training loss since the last look."""
    held_out_loss: float | None
    """Loss of the averaged weights on the validation images, with the same noise and times at every look; None without
    validation images, and for a GAN."""
    folder: Path | None = None
    """Folder in which this generator is kept, as `memorisk.load_generator` reads it; None where it is not kept."""


OnSnapshot = Callable[[Snapshot], bool | None]
"""Function called at every look; False ends the training there, anything else does not."""


@dataclass(frozen=True)
class TrainingLog:
    """Log of a generator's training."""

    steps: int
    """Number of steps done."""
    history: tuple[dict[str, Any], ...]
    """History with one row per look: ``step, loss, held_out_loss`` and the figures that the kind adds."""
    stopped: bool
    """Whether the training ended early."""


class GeneratorLoop(StepLoop):
    """The loop of a generator's training."""

    averaged: Any
    """The network that draws, with the averaged weights."""


Loop = TypeVar("Loop", bound=GeneratorLoop)


class GeneratorTraining(ABC, Generic[Loop]):
    """A training of a generator, checked and on its device.

    Args:
        store: The images with their manifest.
        rows: Rows to train on, [n]; an image that repeats is seen so often.
        options: Settings of the training.
        validation: Rows of other images, that measure only.

    Raises:
        InputError: The rows are refused, or the device.
    """

    notes: tuple[str, ...]
    """Notes for the report, one sentence each."""
    key: str
    """Fingerprint of everything that the weights depend on."""

    def __init__(
        self, store: ImageStore, rows: np.ndarray, options: GeneratorOptions, validation: np.ndarray | None
    ) -> None:
        self.store, self.options, self.rows = store, options, np.asarray(rows, dtype=np.int64)
        self.validation = np.asarray([] if validation is None else validation, dtype=np.int64)
        check_rows(store, self.rows, self.validation, options)
        self.device = check_device(options.device)
        self.precision = choose_precision(options.precision, self.device)

    @cached_property
    def loop(self) -> Loop:
        """Loop of the training."""
        return self.begin()

    @abstractmethod
    def begin(self) -> Loop:
        """Open the loop of the training at its start."""

    @property
    @abstractmethod
    def saved_networks(self) -> tuple[nn.Module, ...]:
        """Return the networks that are saved, first the one that draws."""

    @property
    @abstractmethod
    def described(self) -> dict[str, Any]:
        """Return what the configuration says of this kind."""

    @abstractmethod
    def seen(self) -> TrainingRecord:
        """Return the record of the images that decided the weights."""

    @abstractmethod
    def generator(self) -> Generator:
        """Open the generator with its present averaged weights; it shares them with the training."""

    @abstractmethod
    def save(self, folder: Path, steps: int) -> None:
        """Write the generator with its present averaged weights.

        Args:
            folder: Folder to write, created if missing; an incomplete one is written again.
            steps: Number of steps done.
        """

    @abstractmethod
    def figures(self, begin: int, end: int) -> dict[str, float]:
        """Return the figures of a stretch of steps for the history; NaN for those without a value."""

    def held_out_loss(self, begin: int, loss: float) -> float | None:
        """Compute the held-out loss of a look; None for a kind that has none.

        Args:
            begin: First step of the stretch before it.
            loss: Mean training loss of that stretch.
        """
        return None

    @property
    def parameters(self) -> int:
        """Count the weights of the network that draws."""
        return sum(parameter.numel() for parameter in self.saved_networks[0].parameters())

    def config(self, steps: int) -> GeneratorConfig:
        """Describe the generator after so many steps."""
        height, width, channels = self.store.shape
        return GeneratorConfig(
            size=(height, width),
            channels=channels,
            steps=steps,
            n_training=len(set(self.store.pixel_hashes[self.rows].tolist())),
            details={"recipe": self.options.recipe()},
            **self.described,
        )

    def run(
        self, checkpoint: Path, on_snapshot: OnSnapshot | None = None, progress: Progress = no_progress
    ) -> TrainingLog:
        """Train, and leave the averaged weights for `save`.

        Args:
            checkpoint: File of the state from which a killed training continues.
            on_snapshot: Function called every ``snapshot_every`` steps and at the end; a training that was killed
                during a call calls it again.
            progress: Function called with ("training", steps done, steps).

        Raises:
            MemoriskError: A loss became NaN or infinite.
        """
        options, every = self.options, self.options.snapshot_every
        going = self.loop.run(
            look_intervals(options.steps, every),
            Checkpoint(checkpoint, self.key, options.checkpoint_seconds),
            lambda begin: self.look(begin, on_snapshot),
            progress,
            options.images_a_step,
        )
        rows = [(end, self.figures(begin, end)) for begin, end in look_intervals(self.loop.step, every)]
        history = [{"step": end, **{n: None if isnan(v) else v for n, v in row.items()}} for end, row in rows]
        return TrainingLog(self.loop.step, tuple(history), stopped=not going)

    def look(self, begin: int, on_snapshot: OnSnapshot | None) -> bool:
        """Measure the generator and call ``on_snapshot``; return whether to continue.

        Args:
            begin: First step of the stretch before this look.
            on_snapshot: Function of the caller.
        """
        loop = self.loop
        loss = float(loop.losses[begin : loop.step, 0].mean())
        held_out = self.held_out_loss(begin, loss)
        if on_snapshot is None:
            return True
        going = on_snapshot(Snapshot(loop.step, self.options.steps, self.generator(), loss, held_out)) is not False
        loop.averaged.to(self.device)  # the caller may have moved it to another device
        return going

    def seconds_a_step(self) -> float:
        """Measure the seconds of the second of two steps; the networks are useless afterwards."""
        return self.loop.seconds(min(2, self.options.steps))[-1]


class Evaluations:
    """Looks at a training: each keeps the generator, calls ``on_snapshot``, and checks for a file that ends it.

    Args:
        training: Training that is looked at.
        folder: Folder of the training, where ``stop.json`` may appear and ``snapshots`` are kept.
        keep: Whether snapshots are kept.
        on_snapshot: Function of the caller, called at every look.
    """

    def __init__(self, training: GeneratorTraining, folder: Path, keep: bool, on_snapshot: OnSnapshot | None) -> None:
        self.training, self.folder, self.keep, self.on_snapshot = training, folder, keep, on_snapshot
        self.reason: str | None = None

    def __call__(self, snapshot: Snapshot) -> bool:
        """Return whether to continue."""
        if self.keep:
            target = self.folder / SNAPSHOTS / f"step-{snapshot.step:08}"
            target.parent.mkdir(mode=0o700, exist_ok=True)
            self.training.save(target, snapshot.step)
            snapshot = replace(snapshot, folder=target)
        if self.on_snapshot is not None and self.on_snapshot(snapshot) is False:
            self.reason = "ended by what watched it"
        if (reason := read_stop(self.folder)) is not None:
            self.reason = reason
        return self.reason is None


def read_stop(folder: Path) -> str | None:
    """Return the reason for ending a training, from ``stop.json`` in its folder; None without that file.

    Args:
        folder: Folder of the run.
    """
    file = folder / STOP
    if not file.is_file():
        return None
    try:
        return one_line(read_json(file)["reason"], 300)
    except (OSError, ValueError, KeyError, TypeError):
        return f"{STOP} was there"
