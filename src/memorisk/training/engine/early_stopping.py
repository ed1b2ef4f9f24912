"""Training until the validation loss stops falling, as paper 002 trains its canaries (A.2).

Up to 500 epochs, patience 10, weights of the epoch with the lowest validation loss; the validation part is taken from
the training images, so that the test part chooses nothing (METHODS section 2, "Models").
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from memorisk.runs.devices import check_device
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.runs.fingerprint import fingerprint
from memorisk.scores.attacks.differential import cross_entropy
from memorisk.training.engine.devices import place
from memorisk.training.engine.fit import fit, set_training_mode
from memorisk.training.engine.loop import Watch, epochs_and_lr
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.pixels import Images, Normalisation, choose_normalisation
from memorisk.training.engine.predict import predict_logits

PATIENCE = 10


@dataclass(frozen=True)
class EarlyLog:
    """What a training that was stopped early went through."""

    best_epoch: int
    """Epochs after which the validation loss was lowest: the weights are those (1, 2, ...)."""

    losses: tuple[float, ...]
    """Mean training loss of each epoch that ran."""

    validation: tuple[float, ...]
    """Mean validation loss after each; infinite where a logit was not finite."""

    stopped: bool
    """Whether patience ran out; else all epochs ran."""


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
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 30.0,
    on_epoch: Callable[[int, nn.Module], None] | None = None,
    normalisation: Normalisation | None = None,
) -> EarlyLog:
    """Train in place and leave the weights of the best validation epoch, in evaluation mode.

    Killed and started again with the same arguments, ``checkpoint`` among them, it gives the same bytes.

    Args:
        model: As for `fit`.
        images: Likewise.
        targets: Class numbers [N].
        rows: Images to train on, in slot order.
        validation_rows: Images that say when to stop; none of ``rows``.
        options: As for `fit`; ``epochs`` is the most there can be.
        seed: Likewise.
        patience: Epochs without a lower validation loss after which it ends.
        device: As for `fit`.
        checkpoint: Likewise; the file also holds the best weights so far and the validation losses.
        checkpoint_seconds: Likewise.
        on_epoch: Called after each epoch with (epochs done, the network in evaluation mode), before its checkpoint is
            written: after a kill an epoch may be seen twice, none is left out.
        normalisation: Likewise.

    Returns:
        The log.

    Raises:
        InputError: As `fit`; or there are no validation images, some are trained on, or patience is below 1.
        MemoriskError: As `fit`; or no validation loss was finite.
    """
    check_early(rows, validation_rows, patience)
    place(model, check_device(device))
    normalisation = normalisation or choose_normalisation(images, options.normalise)
    record = Record(epochs_and_lr(options)[0], model.state_dict())

    def validation_loss() -> float:
        """The mean loss on the validation images."""
        logits = predict_logits(model, images, validation_rows, options, device, normalisation=normalisation)
        return mean_loss(logits, targets[validation_rows])

    given = {"seed": seed, "device": device, "checkpoint": checkpoint, "checkpoint_seconds": checkpoint_seconds}
    after = _look(model, record, validation_loss, patience, on_epoch)
    watch = record.watch(after, patience, validation_rows, np.asarray(targets))
    log = fit(model, images, targets, rows, options, **given, normalisation=normalisation, watch=watch)
    model.load_state_dict(record.best)
    model.eval()
    return record.log(log.losses, patience)


def _look(
    model: nn.Module,
    record: "Record",
    validation_loss: Callable[[], float],
    patience: int,
    on_epoch: Callable[[int, nn.Module], None] | None,
) -> Callable[[int, np.ndarray], bool]:
    """What is done after each epoch: the validation loss is asked for and noted, then ``on_epoch`` is called."""

    def after(epoch: int, losses: np.ndarray) -> bool:
        """Note an epoch and say whether to go on."""
        record.add(epoch, validation_loss(), model.state_dict())
        if on_epoch is not None:
            model.eval()
            on_epoch(epoch, model)
        set_training_mode(model)
        return record.waited(epoch) < patience

    return after


def check_early(rows: np.ndarray, validation_rows: np.ndarray, patience: int) -> None:
    """Refuse what cannot say when to stop.

    Args:
        rows: Images to train on.
        validation_rows: Images that say when to stop.
        patience: Epochs without a lower validation loss.

    Raises:
        InputError: There are no validation images, some are trained on, or patience is below 1.
    """
    if patience < 1:
        raise InputError(f"patience is {patience}; it must be at least 1")
    if not len(validation_rows) or np.isin(validation_rows, rows).any():
        raise InputError("early stopping needs validation images that are not trained on")


def mean_loss(logits: np.ndarray, labels: np.ndarray) -> float:
    """Mean cross-entropy in float64, infinite where a logit is not finite.

    Args:
        logits: [n, k].
        labels: Class numbers [n].
    """
    return float(cross_entropy(logits, labels).mean()) if np.isfinite(logits).all() else float("inf")


class Record:
    """The validation losses of one training and its best weights so far, in live tensors.

    Args:
        epochs: The most there can be.
        state: Tensors of the network by name, as it begins; those of its best epoch are copied.
    """

    def __init__(self, epochs: int, state: Mapping[str, torch.Tensor]) -> None:
        self.losses = torch.full((epochs,), float("nan"), dtype=torch.float64)
        self.best = {name: value.detach().clone() for name, value in state.items()}

    @torch.no_grad()
    def add(self, epoch: int, loss: float, state: Mapping[str, torch.Tensor]) -> None:
        """Note the validation loss after an epoch (1, 2, ...), and the weights if it is the lowest so far."""
        self.losses[epoch - 1] = loss
        if np.isfinite(loss) and self.lowest(epoch) == epoch:
            for name, value in self.best.items():
                value.copy_(state[name])

    def lowest(self, epoch: int) -> int:
        """The first epoch with the lowest finite loss among the first ``epoch``; 0 if none is finite."""
        losses = self.losses[:epoch].numpy()
        return int(np.argmin(losses)) + 1 if np.isfinite(losses).any() else 0

    def waited(self, epoch: int) -> int:
        """Epochs since the lowest loss."""
        return epoch - self.lowest(epoch)

    def watch(
        self, after: Callable[[int, np.ndarray], bool], patience: int, validation_rows: np.ndarray, targets: np.ndarray
    ) -> Watch:
        """What `fit` needs to keep the record, and a checkpoint to belong to it."""
        tensors = {**{f"best.{name}": value for name, value in self.best.items()}, "losses": self.losses}
        return Watch(after, tensors, fingerprint("early", patience, validation_rows, targets[validation_rows]))

    def log(self, losses: tuple[float, ...], patience: int) -> EarlyLog:
        """The log of a training that has ended.

        Args:
            losses: Training losses of its epochs.
            patience: What it ended by.

        Raises:
            MemoriskError: No validation loss was finite.
        """
        epoch = len(losses)
        if not self.lowest(epoch):
            raise MemoriskError(f"no validation loss of {epoch} epochs was finite: lower the learning rate or use fp32")
        stopped = self.waited(epoch) >= patience
        return EarlyLog(self.lowest(epoch), losses, tuple(self.losses[:epoch].tolist()), stopped)
