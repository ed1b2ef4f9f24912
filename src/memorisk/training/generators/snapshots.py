"""A generator's training from look to look, whatever its kind.

`training.generators.diffusion_training` and `training.generators.gan_training` give a `GeneratorTraining`, which
`training.generators.fit` runs. At each look a snapshot is shown to whoever watches, and kept where that was asked for.
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
    """Steps done."""
    steps: int
    """Steps planned."""
    generator: Generator
    """With the averaged weights of this step. It goes on learning: draw before the call returns, or use ``folder``."""
    loss: float
    """Mean training loss since the last look."""
    held_out_loss: float | None
    """Loss of the averaged weights on the validation images, with the same noise and times at every look; None without
    validation images, and for a GAN."""
    folder: Path | None = None
    """Where this generator is kept, as `memorisk.load_generator` reads it; None where it is not."""


OnSnapshot = Callable[[Snapshot], bool | None]
"""Called at every look; False ends the training there, anything else does not."""


@dataclass(frozen=True)
class TrainingLog:
    """Log of a training."""

    steps: int
    """Steps done."""
    history: tuple[dict[str, Any], ...]
    """A row a look: ``step, loss, held_out_loss`` and what the kind adds."""
    stopped: bool
    """Whether it was ended before its time."""


class GeneratorTraining(Protocol):
    """A training that was checked, and is on its device."""

    @property
    def key(self) -> str:
        """Fingerprint of everything that the weights depend on."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Note what a report must say, a sentence each."""
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
        """Write the generator with its averaged weights as they are now."""
        ...

    def seconds_a_step(self) -> float:
        """Time the second of two steps, which are not kept."""
        ...


class Evaluations:
    """Looks at a training: each keeps the generator, calls the caller, and looks for a file that says to stop.

    Args:
        training: The training.
        folder: Its folder, where ``stop.json`` may appear and ``snapshots`` are kept.
        keep: Whether they are.
        on_snapshot: The caller's.
    """

    def __init__(self, training: GeneratorTraining, folder: Path, keep: bool, on_snapshot: OnSnapshot | None) -> None:
        self.training, self.folder, self.keep, self.on_snapshot = training, folder, keep, on_snapshot
        self.reason: str | None = None

    def __call__(self, snapshot: Snapshot) -> bool:
        """Return whether to go on."""
        if self.keep:
            kept = self.folder / SNAPSHOTS / f"step-{snapshot.step:08}"
            kept.parent.mkdir(mode=0o700, exist_ok=True)
            self.training.save(kept, snapshot.step)
            snapshot = replace(snapshot, folder=kept)
        if self.on_snapshot is not None and self.on_snapshot(snapshot) is False:
            self.reason = "ended by what watched it"
        if (said := read_stop(self.folder)) is not None:
            self.reason = said
        return self.reason is None


def read_stop(folder: Path) -> str | None:
    """Why a training is to end, by ``stop.json`` in its folder; None where there is none.

    Args:
        folder: Of the run.
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
    """Steps done."""

    def until(self, end: int, checkpoint: Checkpoint | None = None) -> Iterator[int]:
        """Train until so many steps are done, and give their number after each."""
        ...

    def save(self, checkpoint: Checkpoint) -> None:
        """Write the state."""
        ...

    def load(self, checkpoint: Checkpoint) -> None:
        """Put a state back, bit for bit."""
        ...


def train_with_evaluations(
    loop: TrainingLoop, options: GeneratorOptions, kept: Checkpoint, look: Callable[[int], bool], progress: Progress
) -> bool:
    """Train, from the kept state if there is one, and look every ``snapshot_every`` steps and at the end.

    At its step a look comes before the state is written: a training that was killed in the middle of one looks again.

    Args:
        loop: The training.
        options: How.
        kept: Its state.
        look: Called with the step at which the stretch before it began; whether to go on.
        progress: Called with ("training", steps done, steps).

    Returns:
        Whether the last look said to go on.

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
        steps: Done.
        every: Steps from look to look.
    """
    return [(begin, min(steps, begin + every)) for begin in range(0, steps, every)]


def step_seconds(loop: TrainingLoop, end: int, wait: Callable[[], Any]) -> list[float]:
    """The seconds of each step until so many are done.

    Args:
        loop: The training; it is of no use afterwards.
        end: Steps.
        wait: Returns when a GPU has done what it was given.
    """
    found, begun = [], time.perf_counter()
    for _ in loop.until(end):
        wait()
        ended = time.perf_counter()
        found.append(ended - begun)
        begun = ended
    return found
