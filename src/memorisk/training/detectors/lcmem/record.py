"""The validation figures of a stage, by epoch."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from memorisk.training.detectors.lcmem.validation import Seen
from memorisk.training.engine.best_epoch import BestEpoch


class StageRecord(BestEpoch):
    """Loss, AUC and recall of each epoch, and the best weights so far.

    Args:
        epochs: Of the whole stage.
        state: Tensors of the network by name, as it begins; those of its best epoch are copied.
        with_recall: Whether AUC + recall chooses the epoch; else the AUC. The first of equals.
    """

    def __init__(self, epochs: int, state: Mapping[str, torch.Tensor], *, with_recall: bool) -> None:
        super().__init__(epochs, 3, state)
        self.with_recall = with_recall

    @property
    def chosen_by(self) -> torch.Tensor:
        """[epochs + 1] AUC + recall, or AUC."""
        return self.figures[:, 1:].sum(dim=1) if self.with_recall else self.figures[:, 1]

    def add(
        self, epoch: int, seen: Seen, loss: float = float("nan"), state: Mapping[str, torch.Tensor] | None = None
    ) -> None:
        """Note an epoch (0 the start), and its weights if it is the best so far."""
        self.note(epoch, (loss, seen.auc, seen.recall), state)

    def history(self, epochs: int) -> tuple[Mapping[str, Any], ...]:
        """``epoch, loss, auc, recall`` of the start and each epoch done; None where there is nothing."""
        found = []
        for epoch, figures in enumerate(self.figures[: epochs + 1].tolist()):
            row = dict(zip(("loss", "auc", "recall"), figures, strict=True))
            found.append({"epoch": epoch} | {name: v if np.isfinite(v) else None for name, v in row.items()})
        return tuple(found)
