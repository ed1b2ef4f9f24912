"""What a detector's training has come to: retrieval by epoch and the best weights so far, in live tensors.

They are saved with the training's own state, so that a killed one chooses the same epoch.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from memorisk.statistics.proportions import clopper_pearson
from memorisk.training.detector_retrieval import Retrieval


@dataclass(frozen=True)
class Looked:
    """What was seen of a network on validation copies."""

    retrieval: Retrieval
    """How often the source is found first."""
    loss: float = float("nan")
    """The published code's validation loss; NaN where it is not asked for."""


class DetectorRecord:
    """The validation figures of one training and its best weights so far.

    Args:
        epochs: Of the whole training.
        state: Tensors of the network by name, as it begins; those of its best epoch are copied.
        by_loss: Whether the lowest validation loss chooses the epoch; else the highest retrieval. The first of equals.
    """

    def __init__(self, epochs: int, state: Mapping[str, torch.Tensor], *, by_loss: bool) -> None:
        self.by_loss = by_loss
        self.figures = torch.full((epochs + 1, 5), float("nan"), dtype=torch.float64)
        """[epochs + 1, 5] loss, retrieval, validation loss, patients found, patients; row 0 is the untrained start."""
        self.best = {name: value.detach().clone() for name, value in state.items()}

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """What a checkpoint holds of it."""
        return {"figures": self.figures, **{f"best.{name}": value for name, value in self.best.items()}}

    @torch.no_grad()
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
        row = [loss, share, looked.loss, patients.successes, patients.trials]
        self.figures[epoch] = torch.tensor(row, dtype=torch.float64)
        if state is not None and self.best_epoch == epoch:
            for name, value in self.best.items():
                value.copy_(state[name])

    @property
    def best_epoch(self) -> int:
        """The best of the epochs done; 0 before the first."""
        chosen = -self.figures[1:, 2] if self.by_loss else self.figures[1:, 1]
        values = chosen.numpy()
        return int(np.nanargmax(values)) + 1 if np.isfinite(values).any() else 0

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
