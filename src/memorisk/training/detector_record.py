"""What a detector's training has come to: retrieval by epoch and the best weights so far, in live tensors.

They are saved with the training's own state, so that a killed one chooses the same epoch.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


class DetectorRecord:
    """The validation figures of one training and its best weights so far.

    Args:
        epochs: Of the whole training.
        state: Tensors of the network by name, as it begins; those of its best epoch are copied.
        by_loss: Whether the lowest validation loss chooses the epoch; else the highest retrieval. The first of equals.
    """

    def __init__(self, epochs: int, state: Mapping[str, torch.Tensor], *, by_loss: bool) -> None:
        self.by_loss = by_loss
        self.figures = torch.full((epochs + 1, 3), float("nan"), dtype=torch.float64)
        """[epochs + 1, 3] loss, retrieval, validation loss; row 0 is the untrained start."""
        self.best = {name: value.detach().clone() for name, value in state.items()}

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """What a checkpoint holds of it."""
        return {"figures": self.figures, **{f"best.{name}": value for name, value in self.best.items()}}

    @torch.no_grad()
    def add(
        self,
        epoch: int,
        validation: tuple[float, float],
        loss: float = float("nan"),
        state: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        """Note an epoch (0 the start), and its weights if it is the best so far.

        Args:
            epoch: Epochs done.
            validation: Retrieval and validation loss.
            loss: Mean training loss.
            state: The network's tensors now.
        """
        self.figures[epoch] = torch.tensor([loss, *validation], dtype=torch.float64)
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
        """A row an epoch: ``epoch, loss, retrieval, validation_loss``, None where there is none."""
        names = ("loss", "retrieval", "validation_loss")
        rows = [[value if np.isfinite(value) else None for value in row] for row in self.figures.tolist()]
        return tuple({"epoch": epoch, **dict(zip(names, row, strict=True))} for epoch, row in enumerate(rows))
