"""The training of a generator of any kind, from look to look.

`training.generators.diffusion_training` and `training.generators.gan_training` give a `GeneratorTraining`, which
`training.generators.fit` runs. At each look ``on_snapshot`` receives a snapshot, which is kept if that was requested.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from memorisk.models.generators.generators import Generator
from memorisk.models.settings import GeneratorConfig
from memorisk.runs.checksums import is_intact
from memorisk.runs.errors import one_line
from memorisk.runs.files import read_json
from memorisk.runs.steps import StepCount
from memorisk.runs.workload import Progress
from memorisk.training.engine.loop import Checkpoint
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


class GeneratorTraining(Protocol):
    """A training of a generator, checked and on its device."""

    @property
    def key(self) -> str:
        """Fingerprint of everything that the weights depend on."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the report, one sentence each."""
        ...

    @property
    def parameters(self) -> int:
        """Count the weights of the network that draws."""
        ...

    def run(self, checkpoint: Path, on_snapshot: OnSnapshot | None = None, progress: Progress = ...) -> TrainingLog:
        """Train, from the checkpoint if there is one, and call ``on_snapshot`` every so many steps and at the end."""
        ...

    def config(self, steps: int) -> GeneratorConfig:
        """Describe the generator after so many steps."""
        ...

    def save(self, folder: Path, steps: int) -> None:
        """Write the generator with its present averaged weights."""
        ...

    def seconds_a_step(self) -> float:
        """Measure the seconds of the second of two steps, which are not kept."""
        ...


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


class TrainingLoop(Protocol):
    """A training between two updates (`DiffusionLoop`, `GanLoop`)."""

    step: int
    """Number of steps done."""

    def until(self, end: int, checkpoint: Checkpoint | None = None) -> Iterator[int]:
        """Train until so many steps are done, and yield their number after each."""
        ...

    def save(self, checkpoint: Checkpoint) -> None:
        """Write the state."""
        ...

    def load(self, checkpoint: Checkpoint) -> None:
        """Restore a state, bit for bit."""
        ...


def train_with_evaluations(
    loop: TrainingLoop, options: GeneratorOptions, kept: Checkpoint, look: Callable[[int], bool], progress: Progress
) -> bool:
    """Train, from the kept state if there is one, and look every ``snapshot_every`` steps and at the end.

    At its step a look comes before the state is written: a training that was killed during a look repeats it.

    Args:
        loop: Loop of the training.
        options: Settings of the training.
        kept: Checkpoint with its state.
        look: Function called with the first step of the stretch before it; it returns whether to continue.
        progress: Function called with ("training", steps done, steps).

    Returns:
        Whether the last look returned to continue.

    Raises:
        InputError: The state cannot be read, or is of another training.
        MemoriskError: A loss became NaN or infinite.
    """
    if is_intact(kept.path):
        loop.load(kept)
    going, steps, every = True, options.steps, options.snapshot_every
    while going and loop.step < steps:
        begin = loop.step // every * every
        for done in loop.until(min(steps, begin + every), kept):
            progress("training", StepCount(done, images=done * options.images_a_step), steps)
        going = look(begin)
        if going and loop.step < steps:
            loop.save(kept)
    return going


def evaluation_intervals(steps: int, every: int) -> list[tuple[int, int]]:
    """Return the first and last step of the stretch before each look.

    Args:
        steps: Number of steps done.
        every: Number of steps from look to look.
    """
    return [(begin, min(steps, begin + every)) for begin in range(0, steps, every)]


def step_seconds(loop: TrainingLoop, end: int, wait: Callable[[], Any]) -> list[float]:
    """Measure the seconds of each step until so many are done.

    Args:
        loop: Loop of the training; it is useless afterwards.
        end: Number of steps after which it ends.
        wait: Function that returns when a GPU has finished its work.
    """
    seconds, begun = [], time.perf_counter()
    for _ in loop.until(end):
        wait()
        ended = time.perf_counter()
        seconds.append(ended - begun)
        begun = ended
    return seconds
