"""What a training has come to: figures by epoch and the best weights so far, in live tensors.

They are saved with the training's own state, so that a killed one chooses the same epoch and ends at the same.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
import torch


class BestEpoch(ABC):
    """The figures of one training and its best weights so far.

    Args:
        epochs: Of the whole training.
        columns: Figures an epoch.
        state: Tensors of the network by name, as it begins; those of its best epoch are copied.
    """

    def __init__(self, epochs: int, columns: int, state: Mapping[str, torch.Tensor]) -> None:
        self.figures = torch.full((epochs + 1, columns), float("nan"), dtype=torch.float64)
        """[epochs + 1, columns]; row 0 is the start."""
        self.best = {name: value.detach().clone() for name, value in state.items()}

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """What a checkpoint holds of it."""
        return {"figures": self.figures, **{f"best.{name}": value for name, value in self.best.items()}}

    @property
    @abstractmethod
    def chosen_by(self) -> torch.Tensor:
        """[epochs + 1] what chooses the epoch, larger = better; NaN where there is nothing."""

    @property
    def best_epoch(self) -> int:
        """The best of the epochs done, the first of equals; 0 before the first."""
        values = self.chosen_by[1:].numpy()
        return int(np.nanargmax(values)) + 1 if np.isfinite(values).any() else 0

    @torch.no_grad()
    def note(self, epoch: int, figures: Sequence[float], state: Mapping[str, torch.Tensor] | None = None) -> None:
        """Note an epoch (0 the start), and its weights if it is the best so far.

        Args:
            epoch: Epochs done.
            figures: A number a column.
            state: The network's tensors now.
        """
        self.figures[epoch] = torch.tensor(figures, dtype=torch.float64)
        if state is not None and self.best_epoch == epoch:
            for name, value in self.best.items():
                value.copy_(state[name])
