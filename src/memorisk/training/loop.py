"""The epochs of a training: of one model, or of several that train in step.

Per step there is only forward, backward and update; the host waits for the device once an epoch, to read the losses.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import torch

from memorisk.runs.errors import InputError, MemoriskError
from memorisk.training.checkpoint import Checkpoint, Progress, load_checkpoint, save_checkpoint
from memorisk.training.optimizers import AnyOptimizer
from memorisk.training.options import TrainOptions
from memorisk.training.order import batch_bounds, learning_rate

OnEpoch = Callable[[int, float], None]
Bounds = list[tuple[int, int]]
LossesOf = Callable[[int, Bounds], Iterator[torch.Tensor]]


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
        on_epoch: Called with (epochs done, loss averaged over models).
        scaler: For fp16.

    Raises:
        InputError: for a checkpoint of another training, or options without epochs or lr.
        MemoriskError: if a loss becomes NaN or infinite.
    """
    if options.epochs is None or options.lr is None:
        raise InputError("epochs or lr are not set: fill them in with resolve_options(options, model_spec(name))")
    progress = Progress(0, np.zeros((0, n_models)))
    if checkpoint is not None and checkpoint.path.exists():
        progress = load_checkpoint(checkpoint, state, optimizer, scaler)
    bounds, written = batch_bounds(n, options.batch_size), time.monotonic()
    for epoch in range(progress.epoch, options.epochs):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(options.schedule, options.lr, epoch, options.epochs)
        total = _run_epoch(losses_of(epoch, bounds), bounds, optimizer, scaler)
        losses = np.atleast_1d(total.cpu().numpy()) / n
        _check_finite(losses, epoch, options.lr)
        progress = replace(progress, epoch=epoch + 1, losses=np.concatenate([progress.losses, losses[None]]))
        if checkpoint is not None and time.monotonic() - written >= checkpoint.seconds:
            save_checkpoint(checkpoint, state, optimizer, progress, scaler)
            written = time.monotonic()
        if on_epoch is not None:
            on_epoch(epoch + 1, float(losses.mean()))
    return progress


def _run_epoch(
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


def _check_finite(losses: np.ndarray, epoch: int, lr: float) -> None:
    wrong = np.flatnonzero(~np.isfinite(losses))
    if len(wrong):
        which = f" of model {wrong[0]}" if len(losses) > 1 else ""
        became = f"the loss{which} became {losses[wrong[0]]} in epoch {epoch + 1}"
        raise MemoriskError(f"{became}: lower the learning rate ({lr:g}) or use fp32")
