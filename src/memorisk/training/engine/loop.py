"""The epochs of a training: of one model, or of several that train in step.

Per step there is only forward, backward and update; the host waits for the device once an epoch, to read the losses.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from memorisk.runs.errors import InputError, MemoriskError
from memorisk.training.engine.checkpoint import Checkpoint, Progress, load_checkpoint, save_checkpoint
from memorisk.training.engine.optimizers import AnyOptimizer
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.order import batch_bounds, learning_rate

OnEpoch = Callable[[int, float], None]
Bounds = list[tuple[int, int]]
LossesOf = Callable[[int, Bounds], Iterator[torch.Tensor]]


@dataclass(frozen=True)
class Watch:
    """Who looks at a training after each epoch and may end it, and what a checkpoint must hold for that."""

    after: Callable[[int, np.ndarray], bool]
    """Called with (epochs done, mean training loss of each model [K]) before the epoch's checkpoint is written; returns
    whether to go on. The epoch at which it says no leaves no checkpoint: a training that goes on from an earlier one
    comes to the same end."""

    tensors: Mapping[str, torch.Tensor]
    """Live tensors that are saved and loaded together with the training's own."""

    identity: str
    """What ``tensors`` depend on beside the training; a checkpoint with another one is refused."""


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
    watch: Watch | None = None,
) -> Progress:
    """Train for all epochs, from a checkpoint if there is one.

    Args:
        losses_of: ``(epoch, bounds) ->`` for each batch the loss of each model, [K] (or [] for one model), with its
            graph. The next batch is asked for after the update.
        state: The live tensors a checkpoint holds.
        optimizer: Over the trained ones.
        options: Epochs, lr, schedule and batch size are used.
        n: Slots per model.
        n_models: K.
        checkpoint: Where the state is kept between epochs.
        on_epoch: Called with (epochs done, loss averaged over models), after the epoch's checkpoint is written.
        scaler: For fp16.
        watch: May end the training after any epoch.

    Raises:
        InputError: for a checkpoint of another training, or options without epochs or lr.
        MemoriskError: if a loss becomes NaN or infinite.
    """
    epochs, _ = epochs_and_lr(options)
    if watch is not None:
        state = {**state, **{f"watch/{name}": value for name, value in watch.tensors.items()}}
    progress = Progress(0, np.zeros((0, n_models)))
    if checkpoint is not None and checkpoint.path.exists():
        progress = load_checkpoint(checkpoint, state, optimizer, scaler)
    bounds, written = batch_bounds(n, options.batch_size), time.monotonic()
    for epoch in range(progress.epoch, epochs):
        losses = run_epoch(losses_of, optimizer, options, epoch, bounds, scaler=scaler)
        progress = replace(progress, epoch=epoch + 1, losses=np.concatenate([progress.losses, losses[None]]))
        ends = watch is not None and not watch.after(epoch + 1, losses)
        if checkpoint is not None and not ends and time.monotonic() - written >= checkpoint.seconds:
            save_checkpoint(checkpoint, state, optimizer, progress, scaler)
            written = time.monotonic()
        if on_epoch is not None:
            on_epoch(epoch + 1, float(losses.mean()))
        if ends:
            break
    return progress


def epochs_and_lr(options: TrainOptions) -> tuple[int, float]:
    """The two settings that no training can do without.

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
    """One epoch at its learning rate.

    Args:
        losses_of: As for `run_epochs`.
        optimizer: Likewise.
        options: Likewise.
        epoch: Its number, from 0.
        bounds: Start and stop of each batch.
        scaler: For fp16.
        numbers: What the K models are called in an error; by default 0, 1, ...

    Returns:
        The mean loss of each model over the batches as they were seen, [K] float64.

    Raises:
        InputError: for options without epochs or lr.
        MemoriskError: if a loss becomes NaN or infinite.
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
    """One update per batch; the sum over images of each model's loss, in float64 on the device."""
    active = scaler if scaler is not None and scaler.is_enabled() else None
    total: torch.Tensor | None = None
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
    assert total is not None
    return total


def _check_finite(losses: np.ndarray, epoch: int, lr: float, numbers: Sequence[int]) -> None:
    wrong = np.flatnonzero(~np.isfinite(losses))
    if len(wrong):
        which = f" of model {numbers[wrong[0]]}" if len(losses) > 1 else ""
        became = f"the loss{which} became {losses[wrong[0]]} in epoch {epoch + 1}"
        raise MemoriskError(f"{became}: lower the learning rate ({lr:g}) or use fp32")
