"""The way of a generator's training from look to look, whatever its kind."""

import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from memorisk.runs.progress import Progress
from memorisk.training.engine.checkpoint import Checkpoint
from memorisk.training.generators.options import GeneratorOptions


class Loop(Protocol):
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


def train_by_looks(
    loop: Loop, options: GeneratorOptions, kept: Checkpoint, look: Callable[[int], bool], progress: Progress
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
    if kept.path.exists():
        loop.load(kept)
    going, steps, every = True, options.steps, options.snapshot_every
    while going and loop.step < steps:
        begin = loop.step // every * every
        for done in loop.until(min(steps, begin + every), kept):
            progress("training", done, steps)
        going = look(begin)
        if going and loop.step < steps:
            loop.save(kept)
    return going


def stretches(steps: int, every: int) -> list[tuple[int, int]]:
    """Where the stretch before each look began and ended.

    Args:
        steps: Done.
        every: Steps from look to look.
    """
    return [(begin, min(steps, begin + every)) for begin in range(0, steps, every)]


def step_seconds(loop: Loop, end: int, wait: Callable[[], Any]) -> list[float]:
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
