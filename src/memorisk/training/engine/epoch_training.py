"""A training whose best epoch is kept: what a kind of network declares, and everything around it.

After each epoch the network is measured (`look`), and the record keeps the weights of the best one. Everything random
derives from (seed, epoch, step), so that a killed training continues to the same bytes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from memorisk.runs.environment import check_device
from memorisk.runs.steps import metered
from memorisk.runs.workload import Progress, no_progress
from memorisk.training.engine.devices import choose_precision, forked_generators
from memorisk.training.engine.loop import BestEpoch, Bounds, Checkpoint, EpochObserver, TrainingState, run_epochs
from memorisk.training.engine.optimization import build_optimizer
from memorisk.training.engine.options import TrainOptions


@dataclass(frozen=True, kw_only=True)
class EpochSetup:
    """What the loop of epochs needs of a training."""

    tensors: Mapping[str, torch.Tensor]
    """Live tensors of the network by name, which its best epoch is kept of."""
    trained: Iterable[torch.Tensor]
    """Parameters that are trained."""
    options: TrainOptions
    """Settings of optimiser and schedule."""
    slots: int
    """Number of places in an epoch."""
    figures: Mapping[str, int]
    """Figures of an epoch, with their signs in the choice of the best (`BestEpoch`)."""
    patience: int | None = None
    """Number of epochs without a better one that ends it; None for all epochs."""
    measured_at_start: bool = True
    """Whether the untrained network is measured, too."""
    stage: str = "training"
    """Name of the training in the progress."""


class EpochTraining(ABC):
    """A training, checked and on its device.

    Args:
        options: Settings with device, precision and ``checkpoint_seconds``.

    Raises:
        InputError: The device does not exist, or does not compute in this precision.
    """

    notes: tuple[str, ...]
    """Notes for the report, one sentence each."""
    key: str
    """Fingerprint of everything that the weights depend on."""

    def __init__(self, options: Any) -> None:
        self.options = options
        self.device = check_device(options.device)
        self.precision = choose_precision(options.precision, self.device)

    @property
    @abstractmethod
    def setup(self) -> EpochSetup:
        """Return what the loop of epochs needs."""

    @abstractmethod
    def losses(self, reseed: Callable[[int], None], epoch: int, bounds: Bounds) -> Iterator[torch.Tensor]:
        """Yield the loss of each batch of an epoch.

        Args:
            reseed: Function that seeds the generators that the network draws from.
            epoch: Number of the epoch, from 0.
            bounds: Start and stop of each batch.
        """

    @abstractmethod
    def look(self) -> dict[str, float]:
        """Measure the network in its present state."""

    def run(self, checkpoint: Path, progress: Progress = no_progress) -> tuple[BestEpoch, TrainingState]:
        """Train for all epochs, or until patience ends it; return the record with the best weights, and the end.

        Args:
            checkpoint: File of the state from which a killed training continues.
            progress: Function called with (stage, steps done, steps).

        Raises:
            MemoriskError: The loss became NaN or infinite.
        """
        setup = self.setup
        record = BestEpoch(setup.options.epochs or 0, setup.figures, setup.tensors)
        if setup.measured_at_start:
            record.note(0, self.look())

        def after(epoch: int, losses: np.ndarray) -> bool:
            """Note an epoch and return whether to continue."""
            record.note(epoch, {"loss": float(losses[0]), **self.look()}, setup.tensors)
            return setup.patience is None or epoch - record.best_epoch < setup.patience

        with metered(partial(progress, setup.stage)), forked_generators(self.device) as reseed:
            done = run_epochs(
                partial(self.losses, reseed),
                setup.tensors,
                build_optimizer(list(setup.trained), setup.options),
                setup.options,
                n=setup.slots,
                checkpoint=Checkpoint(checkpoint, self.key, self.options.checkpoint_seconds),
                scaler=torch.amp.GradScaler(self.device.type, enabled=self.precision == "fp16"),
                watch=EpochObserver(after, record.tensors, self.key),
            )
        return record, done

    @torch.no_grad()
    def restore(self, record: BestEpoch) -> None:
        """Copy the best epoch's weights into the network."""
        for name, tensor in self.setup.tensors.items():
            tensor.copy_(record.best[name])


def limit_validation(rows: np.ndarray, most: int, seed: int, what: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Take at most so many validation images, and note it.

    Args:
        rows: Rows of the validation images.
        most: Largest number of them.
        seed: Random seed of the choice.
        what: Subject and verb of the note, as in "The epoch is chosen on".
    """
    if len(rows) <= most:
        return rows, ()
    drawn = np.random.default_rng(seed).choice(len(rows), most, replace=False)
    return rows[np.sort(drawn)], (f"{what} {most:,} of {len(rows):,} validation images.",)
