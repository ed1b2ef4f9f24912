"""The loop of a training that counts steps and not epochs, from look to look; generators are trained so.

A step is requested after the update before it. Losses are read every hundred steps, before anything is kept. At its
step a look comes before the state is written: a training that was killed during a look repeats it.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from memorisk.runs.checksums import is_intact
from memorisk.runs.errors import MemoriskError
from memorisk.runs.steps import StepCount
from memorisk.runs.workload import Progress
from memorisk.training.engine.loop import Checkpoint, TrainingState, load_checkpoint, save_checkpoint

_AT_ONCE = 100  # steps whose inputs are requested together, and after which their losses are checked


class StepLoop(ABC):
    """A training between two updates. Everything random derives from (seed, step): its state is tensors alone."""

    losses: torch.Tensor
    """Losses of each step so far, [steps, k] float64; all must stay finite."""
    loss_names: tuple[str, ...] = ("loss",)
    """Names of the k losses."""
    state: Mapping[str, torch.Tensor]
    """Live tensors that a checkpoint holds."""
    optimizer: Any
    """Optimiser, or what has the groups and moments of several."""
    scaler: Any = None
    """Gradient scaler for fp16, or None."""
    writes: bool = True
    """Whether this process writes the state."""

    def __init__(self) -> None:
        self.step = 0
        """Number of steps done."""
        self._written = time.monotonic()

    @abstractmethod
    def inputs(self, steps: range) -> Iterator[Any]:
        """Yield the input of each of these steps."""

    @abstractmethod
    def _update(self, inputs: Any) -> None:
        """Make the update of the present step, and note its losses."""

    @property
    @abstractmethod
    def remedy(self) -> str:
        """Advice against losses that are not finite."""

    def until(self, end: int, checkpoint: Checkpoint | None = None) -> Iterator[int]:
        """Train, and yield the number of steps done after each.

        Args:
            end: Number of steps after which it returns.
            checkpoint: File in which the state is kept meanwhile.

        Raises:
            MemoriskError: A loss became NaN or infinite.
        """
        while self.step < end:
            begin = self.step
            for inputs in self.inputs(range(begin, min(end, begin + _AT_ONCE))):
                self._update(inputs)
                self.step += 1
                due = checkpoint is not None and time.monotonic() - self._written >= checkpoint.seconds
                if checkpoint is not None and due and self.step < end:  # at the end the caller's look comes first
                    self.check(begin)
                    self.save(checkpoint)
                yield self.step
            self.check(begin)

    def check(self, begin: int) -> None:
        """Refuse losses that are not finite.

        Args:
            begin: First step to check.

        Raises:
            MemoriskError: A loss is not finite.
        """
        recent = self.losses[begin : self.step].cpu().numpy()
        wrong = np.argwhere(~np.isfinite(recent))
        if len(wrong):
            step, which = wrong[0].tolist()
            became = f"the {self.loss_names[which]} became {recent[step, which]} in step {begin + step + 1:,}"
            raise MemoriskError(f"{became}: {self.remedy}, or use fp32")

    def save(self, checkpoint: Checkpoint) -> None:
        """Write the state, by the first process.

        Args:
            checkpoint: File to write.
        """
        if self.writes:
            done = TrainingState(self.step, np.zeros((0, 1)))
            save_checkpoint(checkpoint, self.state, self.optimizer, done, self.scaler)
        self._written = time.monotonic()

    def load(self, checkpoint: Checkpoint) -> None:
        """Restore a state, bit for bit.

        Args:
            checkpoint: File that `save` wrote.

        Raises:
            InputError: The file cannot be read, or is of another training.
        """
        self.step = load_checkpoint(checkpoint, self.state, self.optimizer, self.scaler).epoch

    def run(
        self,
        intervals: list[tuple[int, int]],
        checkpoint: Checkpoint,
        look: Callable[[int], bool],
        progress: Progress,
        images: int,
    ) -> bool:
        """Train, from the kept state if there is one, and look at the end of each interval.

        Args:
            intervals: First and last step of the stretch before each look.
            checkpoint: File of the state.
            look: Function called with the first step of the stretch before it; it returns whether to continue.
            progress: Function called with ("training", steps done, steps).
            images: Number of images per step.

        Returns:
            Whether the last look returned to continue.

        Raises:
            InputError: The state cannot be read, or is of another training.
            MemoriskError: A loss became NaN or infinite.
        """
        if is_intact(checkpoint.path):
            self.load(checkpoint)
        steps = intervals[-1][1]
        for begin, end in intervals:
            if self.step >= end:
                continue
            for done in self.until(end, checkpoint):
                progress("training", StepCount(done, images=done * images), steps)
            if not look(begin):
                return False
            if end < steps:
                self.save(checkpoint)
        return True

    def seconds(self, end: int) -> list[float]:
        """Measure the seconds of each step until so many are done; the training is useless afterwards.

        Args:
            end: Number of steps after which it ends.
        """
        seconds, begun = [], time.perf_counter()
        for _ in self.until(end):
            self.losses.cpu()  # waits for a GPU
            ended = time.perf_counter()
            seconds.append(ended - begun)
            begun = ended
        return seconds


def look_intervals(steps: int, every: int) -> list[tuple[int, int]]:
    """Return the first and last step of the stretch before each look.

    Args:
        steps: Number of steps done.
        every: Number of steps from look to look.
    """
    return [(begin, min(steps, begin + every)) for begin in range(0, steps, every)]
