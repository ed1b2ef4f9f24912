"""The validation figures of a copy detector's training, by epoch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from memorisk.statistics.proportions import clopper_pearson
from memorisk.training.detectors.contrastive.retrieval import Retrieval
from memorisk.training.engine.best_epoch import BestEpoch


@dataclass(frozen=True)
class Looked:
    """What was seen of a network on validation copies."""

    retrieval: Retrieval
    """How often the source is found first."""
    loss: float = float("nan")
    """The published code's validation loss; NaN where it is not asked for."""


class DetectorRecord(BestEpoch):
    """Loss, retrieval, validation loss, patients found and patients of each epoch, and the best weights so far.

    Args:
        epochs: Of the whole training.
        state: Tensors of the network by name, as it begins; those of its best epoch are copied.
        by_loss: Whether the lowest validation loss chooses the epoch; else the highest retrieval. The first of equals.
    """

    def __init__(self, epochs: int, state: Mapping[str, torch.Tensor], *, by_loss: bool) -> None:
        super().__init__(epochs, 5, state)
        self.by_loss = by_loss

    @property
    def chosen_by(self) -> torch.Tensor:
        """[epochs + 1] minus the validation loss, or retrieval."""
        return -self.figures[:, 2] if self.by_loss else self.figures[:, 1]

    def add(
        self,
        epoch: int,
        looked: Looked,
        loss: float = float("nan"),
        state: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        """Note an epoch (0 the start), and its weights if it is the best so far.

        Args:
            epoch: Epochs done.
            looked: What validation copies say of it.
            loss: Mean training loss.
            state: The network's tensors now.
        """
        share, patients = looked.retrieval.share, looked.retrieval.of_patients
        self.note(epoch, (loss, share, looked.loss, patients.successes, patients.trials), state)

    def history(self) -> tuple[Mapping[str, Any], ...]:
        """A row an epoch, None where there is nothing.

        Returns:
            ``epoch, loss, retrieval, of_patients, validation_loss``; of_patients is one copy of each patient, with its
            Clopper-Pearson interval.
        """
        found = []
        for epoch, (loss, share, validation_loss, hits, patients) in enumerate(self.figures.tolist()):
            row = {"epoch": epoch, "loss": loss, "retrieval": share, "validation_loss": validation_loss}
            known = {name: value if np.isfinite(value) else None for name, value in row.items()}
            found.append(known | {"of_patients": asdict(clopper_pearson(int(hits), int(patients)))})
        return tuple(found)
