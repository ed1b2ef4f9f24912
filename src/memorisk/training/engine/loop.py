"""The epochs of a training: of one model, or of several that train in step.

A step is only forward, backward and update; the host waits for the device once an epoch, to read the losses.

A checkpoint is one safetensors file, written atomically at the end of an epoch: the trained tensors, the optimiser's
moments and the losses so far. No random state is kept, because every draw of a training derives from (seed, epoch,
step). A file that belongs to another training is refused by its fingerprint.

`BestEpoch` keeps the figures of each epoch and the best weights so far in live tensors. A checkpoint holds them, too,
so that a killed training chooses the same epoch and ends with the same weights.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from memorisk.models.weight_files import save_weights
from memorisk.runs.checksums import is_intact
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.runs.steps import open_meter
from memorisk.training.engine.optimization import AnyOptimizer, batch_bounds, learning_rate
from memorisk.training.engine.options import TrainOptions

CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """File of the state of a training, and the time between its writes."""

    path: Path
    """The safetensors file."""

    identity: str
    """Fingerprint of the training; a file with another one is refused."""

    seconds: float
    """Least time between two writes."""


@dataclass(frozen=True)
class TrainingState:
    """Progress of a training."""

    epoch: int
    """Number of epochs that are done."""

    losses: np.ndarray
    """Mean training loss of each epoch done and each model, [epochs, K] float64."""

    resumed_from: int = 0
    """Number of epochs that came from a checkpoint."""


def save_checkpoint(
    checkpoint: Checkpoint,
    state: Mapping[str, torch.Tensor],
    optimizer: AnyOptimizer,
    progress: TrainingState,
    scaler: torch.amp.GradScaler | None = None,
) -> None:
    """Write the training's state; a reader sees the old state or the new one."""
    tensors = {f"model.{name}": value for name, value in state.items()}
    for index, parameter in enumerate(_parameters(optimizer)):
        for name, value in optimizer.state.get(parameter, {}).items():
            if value is not None:
                tensors[f"optimizer.{index}.{name}"] = torch.as_tensor(value)
    tensors["losses"] = torch.from_numpy(np.ascontiguousarray(progress.losses))
    scale = scaler.state_dict() if scaler is not None else {}
    metadata = {"identity": checkpoint.identity, "epoch": str(progress.epoch), "scaler": json.dumps(scale)}
    save_weights(checkpoint.path, tensors, metadata)


def load_checkpoint(
    checkpoint: Checkpoint,
    state: Mapping[str, torch.Tensor],
    optimizer: AnyOptimizer,
    scaler: torch.amp.GradScaler | None = None,
) -> TrainingState:
    """Restore a training's state, bit for bit, into the live tensors of ``state`` and the optimiser.

    Raises:
        InputError: The file is unreadable or belongs to another training (other seed, images, options or network).
    """
    name = checkpoint.path.name
    try:
        with safe_open(checkpoint.path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise InputError(f"checkpoint {name} cannot be read: remove it to start this training anew") from error
    if metadata.get("identity") != checkpoint.identity:
        raise InputError(f"checkpoint {name} belongs to another training: remove it or use another folder")
    with torch.no_grad():
        for key, live in state.items():
            live.copy_(tensors[f"model.{key}"])
    for index, parameter in enumerate(_parameters(optimizer)):
        prefix = f"optimizer.{index}."
        moments = {key.removeprefix(prefix): t for key, t in tensors.items() if key.startswith(prefix)}
        if moments:
            optimizer.state[parameter] = {key: _like(parameter, value) for key, value in moments.items()}
    if scaler is not None and scaler.is_enabled():
        scaler.load_state_dict(json.loads(metadata["scaler"]))
    epoch = int(metadata["epoch"])
    return TrainingState(epoch, tensors["losses"].numpy(), resumed_from=epoch)


def _parameters(optimizer: AnyOptimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _like(parameter: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Put a value on the parameter's device; a moment also in its strides, which the fused optimiser relies on."""
    if value.shape != parameter.shape:
        return value.to(parameter.device)
    return torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)


OnEpoch = Callable[[int, float], None]
Bounds = list[tuple[int, int]]
LossesOf = Callable[[int, Bounds], Iterator[torch.Tensor]]


@dataclass(frozen=True)
class EpochObserver:
    """Observer that looks at a training after each epoch and may end it, with its tensors in the checkpoint."""

    after: Callable[[int, np.ndarray], bool]
    """Function called with (epochs done, mean training loss of each model [K]) before the epoch's checkpoint is
    written; it returns whether to continue. The epoch at which it returns False leaves no checkpoint: a training that
    continues from an earlier one comes to the same end."""

    tensors: Mapping[str, torch.Tensor]
    """Live tensors that are saved and loaded together with the training's own."""

    identity: str
    """Fingerprint of the inputs of ``tensors`` other than the training's; a checkpoint with another one is refused."""


def run_epochs(
    losses_of: LossesOf,
    state: Mapping[str, torch.Tensor],
    optimizer: AnyOptimizer,
    options: TrainOptions,
    *,
    n: int,
    n_models: int = 1,
    checkpoint: Checkpoint | None = None,
    on_epoch: OnEpoch | None = None,
    scaler: torch.amp.GradScaler | None = None,
    watch: EpochObserver | None = None,
) -> TrainingState:
    """Train for all epochs, from a checkpoint if there is one.

    Args:
        losses_of: Function ``(epoch, bounds) ->`` for each batch the loss of each model, [K] (or [] for one model),
            with its graph. The next batch is requested after the update.
        state: Live tensors that a checkpoint holds.
        optimizer: Optimiser of the trained tensors.
        options: Settings; epochs, lr, schedule and batch size are used.
        n: Number of slots per model.
        n_models: Number of models, K.
        checkpoint: File in which the state is kept between epochs.
        on_epoch: Function called with (epochs done, loss averaged over models), after the checkpoint is written.
        scaler: Gradient scaler for fp16.
        watch: Observer that may end the training after any epoch.

    Raises:
        InputError: The checkpoint belongs to another training, or the options lack epochs or lr.
        MemoriskError: A loss becomes NaN or infinite.
    """
    epochs, _ = epochs_and_lr(options)
    if watch is not None:
        state = {**state, **{f"watch/{name}": value for name, value in watch.tensors.items()}}
    progress = TrainingState(0, np.zeros((0, n_models)))
    if checkpoint is not None and is_intact(checkpoint.path):
        progress = load_checkpoint(checkpoint, state, optimizer, scaler)
    bounds, written = batch_bounds(n, options.batch_size), time.monotonic()
    steps, meter = len(bounds) * n_models, open_meter()
    if meter is not None:
        meter.begin(progress.epoch * steps, epochs * steps)
    for epoch in range(progress.epoch, epochs):
        losses = run_epoch(losses_of, optimizer, options, epoch, bounds, scaler=scaler)
        progress = replace(progress, epoch=epoch + 1, losses=np.concatenate([progress.losses, losses[None]]))
        ends = watch is not None and not watch.after(epoch + 1, losses)
        if checkpoint is not None and not ends and time.monotonic() - written >= checkpoint.seconds:
            save_checkpoint(checkpoint, state, optimizer, progress, scaler)
            written = time.monotonic()
        if meter is not None:
            meter.epoch(float(losses.mean()))
        if on_epoch is not None:
            on_epoch(epoch + 1, float(losses.mean()))
        if ends:
            break
    if meter is not None:
        meter.end()
    return progress


def epochs_and_lr(options: TrainOptions) -> tuple[int, float]:
    """Return the two settings that every training needs.

    Raises:
        InputError: One is left open.
    """
    if options.epochs is None or options.lr is None:
        raise InputError("epochs or lr are not set: fill them in with resolve_options(options, model_spec(name))")
    return options.epochs, options.lr


def run_epoch(
    losses_of: LossesOf,
    optimizer: AnyOptimizer,
    options: TrainOptions,
    epoch: int,
    bounds: Bounds,
    *,
    scaler: torch.amp.GradScaler | None = None,
    numbers: Sequence[int] | None = None,
) -> np.ndarray:
    """Train one epoch at its learning rate.

    Args:
        losses_of: Function that yields the losses, as for `run_epochs`.
        optimizer: Optimiser of the trained tensors.
        options: Settings; epochs, lr and schedule are used.
        epoch: Number of the epoch, from 0.
        bounds: Start and stop of each batch.
        scaler: Gradient scaler for fp16.
        numbers: Numbers of the K models in an error message; by default 0, 1, ...

    Returns:
        Mean loss of each model over the batches as they were trained on, [K] float64.

    Raises:
        InputError: The options lack epochs or lr.
        MemoriskError: A loss becomes NaN or infinite.
    """
    epochs, lr = epochs_and_lr(options)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(options.schedule, lr, epoch, epochs)
    total = _run_batches(losses_of(epoch, bounds), bounds, optimizer, scaler)
    losses = np.atleast_1d(total.cpu().numpy()) / bounds[-1][1]
    _check_finite(losses, epoch, lr, range(len(losses)) if numbers is None else numbers)
    return losses


def _run_batches(
    batches: Iterator[torch.Tensor], bounds: Bounds, optimizer: AnyOptimizer, scaler: torch.amp.GradScaler | None
) -> torch.Tensor:
    """Make one update per batch; return the sum over images of each model's loss, in float64 on the device."""
    active = scaler if scaler is not None and scaler.is_enabled() else None
    total: torch.Tensor | None = None
    meter = open_meter()
    for (start, stop), loss in zip(bounds, batches, strict=True):
        objective = loss if loss.ndim == 0 else loss.sum()
        optimizer.zero_grad(set_to_none=True)
        if active is not None:
            active.scale(objective).backward()
            active.step(optimizer)  # pyright: ignore[reportArgumentType] (it uses param_groups and step only)
            active.update()
        else:
            objective.backward()
            optimizer.step()
        value = loss.detach()
        total = torch.zeros_like(value, dtype=torch.float64) if total is None else total
        total.add_(value, alpha=stop - start)
        if meter is not None:
            last = stop == bounds[-1][1]  # reported once the epoch's checkpoint is written
            loss_now = None if last else lambda value=value: float(value.mean())
            meter.step(value.numel(), (stop - start) * value.numel(), loss_now)
    assert total is not None
    return total


def _check_finite(losses: np.ndarray, epoch: int, lr: float, numbers: Sequence[int]) -> None:
    wrong = np.flatnonzero(~np.isfinite(losses))
    if len(wrong):
        which = f" of model {numbers[wrong[0]]}" if len(losses) > 1 else ""
        became = f"the loss{which} became {losses[wrong[0]]} in epoch {epoch + 1}"
        raise MemoriskError(f"{became}: lower the learning rate ({lr:g}) or use fp32")


class BestEpoch:
    """The figures of one training by epoch and its best weights so far, in live tensors.

    Args:
        epochs: Number of epochs of the whole training.
        figures: Names of the figures of an epoch, each with its sign in the choice of the best: 1 where larger is
            better, -1 where smaller is, 0 where it has no part. Several are added up.
        state: Tensors of the network by name, as it begins; those of its best epoch are copied.
    """

    def __init__(self, epochs: int, figures: Mapping[str, int], state: Mapping[str, torch.Tensor]) -> None:
        self.signs = dict(figures)
        self.figures = torch.full((epochs + 1, len(figures)), float("nan"), dtype=torch.float64)
        """Figures by epoch, [epochs + 1, figures]; row 0 is the start."""
        self.best = {name: value.detach().clone() for name, value in state.items()}

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """Best weights so far, as a checkpoint names them."""
        return {f"best.{name}": value for name, value in self.best.items()}

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """Tensors that a checkpoint holds of this record."""
        return {"figures": self.figures, **self.weights}

    @property
    def best_epoch(self) -> int:
        """Number of the best of the epochs done, the first of equals; 0 before the first."""
        parts = [sign * self.figures[1:, place] for place, sign in enumerate(self.signs.values()) if sign]
        values = torch.stack(parts).sum(dim=0).numpy()
        return int(np.nanargmax(values)) + 1 if np.isfinite(values).any() else 0

    @torch.no_grad()
    def note(self, epoch: int, figures: Mapping[str, float], state: Mapping[str, torch.Tensor] | None = None) -> None:
        """Note an epoch (0 the start), and its weights if it is the best so far.

        Args:
            epoch: Number of epochs done.
            figures: Figures by name; NaN for those that are left out.
            state: Present tensors of the network.
        """
        values = [figures.get(name, float("nan")) for name in self.signs]
        self.figures[epoch] = torch.tensor(values, dtype=torch.float64)
        if state is not None and self.best_epoch == epoch:
            for name, value in self.best.items():
                value.copy_(state[name])

    def history(self, epochs: int) -> list[dict[str, Any]]:
        """Return ``epoch`` and the figures of the start and each epoch done; None where a figure is missing."""
        rows = [dict(zip(self.signs, row, strict=True)) for row in self.figures[: epochs + 1].tolist()]
        figures = [{name: value if np.isfinite(value) else None for name, value in row.items()} for row in rows]
        return [{"epoch": epoch, **row} for epoch, row in enumerate(figures)]


@dataclass(frozen=True)
class EarlyStoppingLog:
    """Log of a training that was stopped early."""

    best_epoch: int
    """Number of epochs after which the validation loss was lowest (1, 2, ...); the weights are of that epoch."""

    losses: tuple[float, ...]
    """Mean training loss of each epoch that ran."""

    validation: tuple[float, ...]
    """Mean validation loss after each epoch; infinite where a logit was not finite."""

    stopped: bool
    """Whether patience ran out; else all epochs ran."""

    @classmethod
    def of(cls, record: BestEpoch, losses: Sequence[float], patience: int) -> "EarlyStoppingLog":
        """Build the log of a training that has ended.

        Args:
            record: Record of its validation losses, the only figure.
            losses: Training losses of its epochs.
            patience: Number of epochs without a better one that ends it.

        Raises:
            MemoriskError: No validation loss was finite.
        """
        epochs, best = len(losses), record.best_epoch
        if not best:
            raise MemoriskError(
                f"no validation loss of {epochs} epochs was finite: lower the learning rate or use fp32"
            )
        validation = tuple(record.figures[1 : epochs + 1, 0].tolist())
        return cls(best, tuple(losses), validation, epochs - best >= patience)


def check_early_stopping(rows: np.ndarray, validation_rows: np.ndarray, patience: int) -> None:
    """Refuse input that cannot decide when to stop.

    Args:
        rows: Rows of the images to train on.
        validation_rows: Rows of the images that decide when to stop.
        patience: Number of epochs without a lower validation loss.

    Raises:
        InputError: Validation images are missing, some are trained on, or patience is below 1.
    """
    if patience < 1:
        raise InputError(f"patience is {patience}; it must be at least 1")
    if not len(validation_rows) or np.isin(validation_rows, rows).any():
        raise InputError("early stopping needs validation images that are not trained on")
