"""Training until the validation loss stops falling, as paper 002 trains its canaries (A.2): alone or side by side.

Up to 500 epochs, patience 10, weights of the epoch with the lowest validation loss. The validation part is taken from
the training images, so that the test part chooses nothing (METHODS section 2, "Models").

Paper 002 trains one network per canary, hundreds of MLPs and small CNNs. `fit_early_stacked` trains many as one, and
each gets what `fit_early` would give it alone, up to rounding. Rounding grows from step to step: in float32 Adam turns
the sign of a vanishing gradient into a whole step. Where the lowest validation losses of two epochs differ by no more
than that, the stack may keep the other epoch, with a validation loss that is as low. A network that has stopped stays
idle in the stack until at least half of the stack has stopped; then the stack shrinks to the others.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from memorisk.runs.environment import check_device
from memorisk.runs.files import fingerprint
from memorisk.scores.memorization import cross_entropy
from memorisk.training.classifiers.fit import fit
from memorisk.training.classifiers.stacked import StackedNetworks
from memorisk.training.engine.devices import exact_products, place, set_training_mode
from memorisk.training.engine.loop import (
    BestEpoch,
    Bounds,
    EarlyStoppingLog,
    EpochObserver,
    check_early_stopping,
    epochs_and_lr,
    run_epoch,
)
from memorisk.training.engine.optimization import batch_bounds
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.pixels import Images, Normalisation, choose_normalisation
from memorisk.training.engine.predict import predict_logits

PATIENCE = 10
_FIGURES = {"validation_loss": -1}


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
) -> EarlyStoppingLog:
    """Train in place and leave the weights of the best validation epoch, in evaluation mode.

    Killed and started again with the same arguments, ``checkpoint`` among them, it gives the same bytes.

    Args:
        model: Network to train, as for `fit`.
        images: Images of the set, as for `fit`.
        targets: Class numbers of the images, [N].
        rows: Images to train on, in slot order.
        validation_rows: Images that decide when to stop; none of ``rows``.
        options: Settings, as for `fit`; ``epochs`` is the largest possible number.
        seed: Random seed of order, dropout and augmentation.
        patience: Number of epochs without a lower validation loss after which the training ends.
        device: Device to train on, as for `fit`.
        checkpoint: File of the state, as for `fit`; it also holds the best weights so far and the validation losses.
        checkpoint_seconds: Least time between two writes of it.
        on_epoch: Function called after each epoch with (epochs done, the network in evaluation mode), before its
            checkpoint is written: after a kill an epoch may be seen twice, none is left out.
        normalisation: Scaling of the pixels, as for `fit`.

    Returns:
        Log of the training.

    Raises:
        InputError: As `fit`; or validation images are missing, some are trained on, or patience is below 1.
        MemoriskError: As `fit`; or no validation loss was finite.
    """
    check_early_stopping(rows, validation_rows, patience)
    place(model, check_device(device))
    normalisation = normalisation or choose_normalisation(images, options.normalise)
    record = BestEpoch(epochs_and_lr(options)[0], _FIGURES, model.state_dict())

    def after(epoch: int, losses: np.ndarray) -> bool:
        """Note the validation loss, call ``on_epoch``, and return whether to continue."""
        logits = predict_logits(model, images, validation_rows, options, device, normalisation=normalisation)
        record.note(epoch, {"validation_loss": mean_loss(logits, targets[validation_rows])}, model.state_dict())
        if on_epoch is not None:
            model.eval()
            on_epoch(epoch, model)
        set_training_mode(model)
        return epoch - record.best_epoch < patience

    run_settings = {"seed": seed, "device": device, "checkpoint": checkpoint, "checkpoint_seconds": checkpoint_seconds}
    identity = fingerprint("early", patience, validation_rows, np.asarray(targets)[validation_rows])
    watch = EpochObserver(after, {**record.weights, "losses": record.figures[1:, 0]}, identity)
    log = fit(model, images, targets, rows, options, **run_settings, normalisation=normalisation, watch=watch)
    model.load_state_dict(record.best)
    model.eval()
    return EarlyStoppingLog.of(record, log.losses, patience)


def mean_loss(logits: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean cross-entropy in float64, infinite where a logit is not finite.

    Args:
        logits: Logits of the images, [n, k].
        labels: Class numbers of the images, [n].
    """
    return float(cross_entropy(logits, labels).mean()) if np.isfinite(logits).all() else float("inf")


OnEpochOfMany = Callable[[int, Mapping[int, nn.Module]], None]


def fit_early_stacked(
    models: Sequence[nn.Module],
    images: Images,
    targets: np.ndarray,
    rows_list: Sequence[np.ndarray],
    validation_rows: np.ndarray,
    options: TrainOptions,
    *,
    seeds: Sequence[int],
    patience: int = PATIENCE,
    device: str | torch.device = "cpu",
    normalisation: Normalisation | None = None,
    on_epoch: OnEpochOfMany | None = None,
) -> list[EarlyStoppingLog]:
    """Train K networks of one architecture together, in place, as `fit_early` would train each on its rows.

    Args:
        models: K networks, as initialised; each is left with the weights of its own best epoch, in evaluation mode.
        images: Images shared by all, as for `fit`. Where networks differ in one marked image, it is a row of its own.
        targets: Class numbers of all images, [N].
        rows_list: K arrays of equally many rows, in slot order.
        validation_rows: Images that decide when to stop, the same for all; none of the rows.
        options: The settings; ``epochs`` is the most there can be.
        seeds: K seeds; twins share theirs.
        patience: Epochs without a lower validation loss after which a network stops.
        device: Device to train on.
        normalisation: Scaling of the pixels, as for `fit`.
        on_epoch: Function called after each epoch with (epochs done, {place in ``models``: network in evaluation
            mode} of those that had not stopped before it).

    Returns:
        One log per network.

    Raises:
        InputError: The networks cannot be stacked, inputs do not fit together, or as `fit_early`.
        MemoriskError: A loss of a network that has not stopped becomes NaN or infinite, or as `fit_early`.
    """
    for rows in rows_list:
        check_early_stopping(rows, validation_rows, patience)
    epochs, _ = epochs_and_lr(options)
    stack = _EarlyStoppedStack(models, images, targets, rows_list, options, seeds, device, normalisation)
    records = [BestEpoch(epochs, _FIGURES, stack.state(number)) for number in stack.numbers]
    losses: list[list[float]] = [[] for _ in models]
    going = list(range(len(models)))
    for epoch in range(epochs):
        trained, validation = stack.run_epoch(epoch, going), stack.validation(validation_rows)
        for number in going:
            losses[number].append(trained[number])
            records[number].note(epoch + 1, {"validation_loss": validation[number]}, stack.state(number))
        if on_epoch is not None:
            on_epoch(epoch + 1, {number: _network_with(models[number], stack.state(number)) for number in going})
        going = [number for number in going if epoch + 1 - records[number].best_epoch < patience]
        if not going:
            break
        stack.shrink(going)
    for model, record in zip(models, records, strict=True):
        _network_with(model, record.best)
    return [EarlyStoppingLog.of(record, lost, patience) for record, lost in zip(records, losses, strict=True)]


@torch.no_grad()
def _network_with(model: nn.Module, state: Mapping[str, torch.Tensor]) -> nn.Module:
    """Return the network with these parameters, in evaluation mode."""
    for name, value in model.named_parameters():
        value.copy_(state[name])
    return model.eval()


class _EarlyStoppedStack(StackedNetworks):
    """Networks in training, by their numbers; arguments as for `StackedNetworks`."""

    def __init__(self, models: Sequence[nn.Module], images: Images, targets: np.ndarray, *how: Any) -> None:
        super().__init__(models, images, targets, *how)
        self.labels, self.numbers = np.asarray(targets), list(range(len(models)))
        self.bounds = batch_bounds(self.slots, self.options.batch_size)

    def run_epoch(self, epoch: int, going: Sequence[int]) -> dict[int, float]:
        """Train all for one epoch; return each mean loss by number. The weights of stopped networks do not matter."""
        idle = torch.tensor([number not in going for number in self.numbers], device=self.device)
        resting = bool(idle.any())

        def losses_of(epoch: int, bounds: Bounds) -> Iterator[torch.Tensor]:
            """Yield the losses of the models, 0 for those that have stopped."""
            for losses in self.losses(epoch, bounds):
                yield losses.masked_fill(idle, 0) if resting else losses

        losses = run_epoch(losses_of, self.optimizer, self.options, epoch, self.bounds, numbers=self.numbers)
        return dict(zip(self.numbers, losses.tolist(), strict=True))

    @torch.no_grad()
    def validation(self, rows: np.ndarray) -> dict[int, float]:
        """Return each mean loss on these images by number; in float32, in batches as large as the training's."""
        slots = torch.from_numpy(np.array(rows, dtype=np.int64)).split(self.options.batch_size)
        with exact_products(self.device):
            seen = (self.forward_shared(self.parameters, x).float().cpu() for x in self.source.batches(slots))
            batches = list(seen)
        logits, labels = torch.cat(batches, dim=1).numpy(), self.labels[rows]
        return {number: mean_loss(logits[place], labels) for place, number in enumerate(self.numbers)}

    def state(self, number: int) -> dict[str, torch.Tensor]:
        """Return the parameters of one network."""
        place = self.numbers.index(number)
        return {name: value.detach()[place] for name, value in self.parameters.items()}

    def shrink(self, numbers: Sequence[int]) -> None:
        """Continue with these networks alone, if they are at most half of the stack."""
        if 2 * len(numbers) > len(self.numbers):
            return
        self.select([self.numbers.index(number) for number in numbers])
        self.numbers = list(numbers)
