"""What a generator's training shows of itself while it runs, and what it went through at the end.

A training of either kind (`training.generators.diffusion.fit`, `training.generators.gan.fit`) is a `GeneratorTraining`;
`training.generators.fit` runs it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from memorisk.models.generators.generators import Generator, GeneratorConfig
from memorisk.runs.errors import one_line
from memorisk.runs.files import read_json
from memorisk.runs.progress import Progress

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
    """What a training went through."""

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
        """What a report must say, a sentence each."""
        ...

    @property
    def parameters(self) -> int:
        """Of the network that draws."""
        ...

    def run(self, checkpoint: Path, on_snapshot: OnSnapshot | None = None, progress: Progress = ...) -> TrainingLog:
        """Train, from the checkpoint if there is one, and call ``on_snapshot`` every so many steps and at the end."""
        ...

    def config(self, steps: int) -> GeneratorConfig:
        """What the generator's description says after so many steps."""
        ...

    def save(self, folder: Path, steps: int) -> None:
        """Write the generator with its averaged weights as they are now."""
        ...

    def seconds_a_step(self) -> float:
        """From the second of two steps, which are not kept."""
        ...


class Looks:
    """What is done at every look: keep the generator, call the caller, look for a file that says to stop.

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
        """Whether to go on."""
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
