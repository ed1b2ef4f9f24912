"""Training until the validation loss stops falling, as paper 002 trains its canaries (A.2).

Up to 500 epochs, patience 10, weights of the epoch with the lowest validation loss; the validation part is taken from
the training images, so that the test part chooses nothing (METHODS section 2, "Models").
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from memorisk.runs.errors import InputError
from memorisk.scores.differential import cross_entropy
from memorisk.training.fit import fit
from memorisk.training.options import TrainOptions
from memorisk.training.pixels import Images, Normalisation
from memorisk.training.predict import predict_logits

PATIENCE = 10


@dataclass(frozen=True)
class EarlyLog:
    """What a training that was stopped early went through."""

    best_epoch: int
    """Epochs after which the validation loss was lowest: the weights are those (1, 2, ...)."""

    losses: tuple[float, ...]
    """Mean training loss of each epoch that ran."""

    validation: tuple[float, ...]
    """Mean validation loss after each."""

    stopped: bool
    """Whether patience ran out; else all epochs ran."""


class _EnoughError(Exception):
    """Leaves the epochs of `fit`."""


def fit_early(
    model: nn.Module,
    images: Images,
    targets: np.ndarray,
    rows: np.ndarray,
    validation_rows: np.ndarray,
    options: TrainOptions,
    *,
    seed: int,
    patience: int = PATIENCE,
    device: str | torch.device = "cpu",
    normalisation: Normalisation | None = None,
) -> EarlyLog:
    """Train in place and leave the weights of the best validation epoch, in evaluation mode.

    Args:
        model: As for `fit`.
        images: Likewise.
        targets: Class numbers [N].
        rows: Images to train on, in slot order.
        validation_rows: Images that say when to stop; none of ``rows``.
        options: Likewise; ``epochs`` is the most there can be.
        seed: Likewise.
        patience: Epochs without a lower validation loss after which it ends.
        device: Likewise.
        normalisation: Likewise.

    Returns:
        The log.

    Raises:
        InputError: As `fit`; or there are no validation images, some are trained on, or patience is below 1.
        MemoriskError: As `fit`.
    """
    if patience < 1:
        raise InputError(f"patience is {patience}; it must be at least 1")
    if not len(validation_rows) or np.isin(validation_rows, rows).any():
        raise InputError("early stopping needs validation images that are not trained on")
    best: dict[str, torch.Tensor] = {}
    losses: list[float] = []
    validation: list[float] = []

    def after(epoch: int, loss: float) -> None:
        logits = predict_logits(model, images, validation_rows, options, device, normalisation=normalisation)
        losses.append(loss)
        validation.append(float(cross_entropy(logits, targets[validation_rows]).mean()))
        if validation[-1] < min(validation[:-1], default=float("inf")):
            best.update({name: value.detach().clone() for name, value in model.state_dict().items()})
        if epoch - 1 - int(np.argmin(validation)) >= patience:
            raise _EnoughError

    stopped = False
    try:
        given = {"seed": seed, "device": device, "normalisation": normalisation}
        fit(model, images, targets, rows, options, on_epoch=after, **given)
    except _EnoughError:
        stopped = True
    model.load_state_dict(best)
    model.eval()
    return EarlyLog(int(np.argmin(validation)) + 1, tuple(losses), tuple(validation), stopped)
