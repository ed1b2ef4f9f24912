"""What a stage has come to: validation figures by epoch and the best weights so far, in live tensors.

They are saved with the training's own state, so that a killed one chooses the same epoch and ends at the same.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from memorisk.training.lcmem_validation import Seen


class StageRecord:
    """The validation figures of one stage and its best weights so far.

    Args:
        epochs: Of the whole stage.
        state: Tensors of the network by name, as it begins; those of its best epoch are copied.
        with_recall: Whether AUC + recall chooses the epoch; else the AUC. The first of equals.
    """

    def __init__(self, epochs: int, state: Mapping[str, torch.Tensor], *, with_recall: bool) -> None:
        self.with_recall = with_recall
        self.figures = torch.full((epochs + 1, 3), float("nan"), dtype=torch.float64)
        """[epochs + 1, 3] loss, AUC, recall; row 0 is the start."""
        self.best = {name: value.detach().clone() for name, value in state.items()}

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """What a checkpoint holds of it."""
        return {"figures": self.figures, **{f"best.{name}": value for name, value in self.best.items()}}

    @torch.no_grad()
    def add(
        self, epoch: int, seen: Seen, loss: float = float("nan"), state: Mapping[str, torch.Tensor] | None = None
    ) -> None:
        """Note an epoch (0 the start), and its weights if it is the best so far."""
        self.figures[epoch] = torch.tensor([loss, seen.auc, seen.recall], dtype=torch.float64)
        if state is not None and self.best_epoch == epoch:
            for name, value in self.best.items():
                value.copy_(state[name])

    @property
    def best_epoch(self) -> int:
        """The best of the epochs done; 0 before the first."""
        chosen = self.figures[1:, 1:].sum(dim=1) if self.with_recall else self.figures[1:, 1]
        values = chosen.numpy()
        return int(np.nanargmax(values)) + 1 if np.isfinite(values).any() else 0

    def history(self, epochs: int) -> tuple[Mapping[str, Any], ...]:
        """``epoch, loss, auc, recall`` of the start and each epoch done; None where there is nothing."""
        found = []
        for epoch, figures in enumerate(self.figures[: epochs + 1].tolist()):
            row = dict(zip(("loss", "auc", "recall"), figures, strict=True))
            found.append({"epoch": epoch} | {name: v if np.isfinite(v) else None for name, v in row.items()})
        return tuple(found)
