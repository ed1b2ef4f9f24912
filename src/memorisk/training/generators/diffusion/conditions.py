"""What a diffusion model is told of the images of a batch, on its device."""

import numpy as np
import torch

from memorisk.models.generators.dit.network import DiTSpec, null_labels
from memorisk.training.generators.rows import Told


class RowConditions:
    """Labels or vectors of the training rows.

    Args:
        told: Of the images.
        spec: Of the network, which knows what no condition is.
        device: Where.
    """

    def __init__(self, told: Told, spec: DiTSpec, device: torch.device) -> None:
        self.device, self.null = device, null_labels(spec, 1, device)
        self.values: torch.Tensor | None = None
        if told.vectors is not None:
            self.values = torch.from_numpy(told.vectors).to(device)
        elif told.labels is not None:
            self.values = class_labels(told.labels, self.null)

    def __call__(self, slots: torch.Tensor, drop: torch.Tensor) -> torch.Tensor:
        """Of the rows of a batch.

        Args:
            slots: [b] positions among the rows.
            drop: [b] bool, which lose their condition.

        Returns:
            [b] int64 or [b, k] float32.
        """
        if self.values is None:
            return torch.zeros(len(slots), dtype=torch.int64, device=self.device)
        values, lost = self.values[slots.to(self.device)], drop.to(self.device)
        return torch.where(lost if values.ndim == 1 else lost[:, None], self.null, values)


def class_labels(numbers: np.ndarray, null: torch.Tensor) -> torch.Tensor:
    """Class numbers as the network takes them: that of no condition for -1.

    Args:
        numbers: [n] int64.
        null: [1] int64.
    """
    found = torch.from_numpy(numbers).to(null.device)
    return torch.where(found < 0, null, found)
