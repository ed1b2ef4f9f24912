"""One training of one network on chosen rows of an image set (paper 000, A.7).

The loop does nothing per step but gather, convert, forward, backward and step: no synchronisation, no bookkeeping on
the host. Everything random derives from (seed, epoch, step), so that twins share it slot by slot, a killed training
resumes to the same bytes on a CPU, and global random state is untouched. Threads are the caller's matter.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from memorisk.runs.errors import InputError, MemoriskError, one_line
from memorisk.runs.fingerprint import fingerprint
from memorisk.training.augment import Augmentation, build_augmentation
from memorisk.training.checkpoint import Progress, load_checkpoint, save_checkpoint
from memorisk.training.devices import autocast, check_device, choose_precision, forked_generators, place
from memorisk.training.objectives import balancing_weights, check_outputs, objective, target_tensor
from memorisk.training.optimizers import AnyOptimizer, build_optimizer
from memorisk.training.options import TrainOptions
from memorisk.training.order import batch_bounds, batch_order, learning_rate, step_seeds
from memorisk.training.pixels import Images, Normalisation, PixelSource, check_images, choose_normalisation

OnEpoch = Callable[[int, float], None]


@dataclass(frozen=True)
class FitLog:
    """What a training did."""

    losses: tuple[float, ...]
    """Mean training loss of each epoch, over the batches as they were seen."""

    epochs: int
    """Epochs trained, resumed ones included."""

    steps: int
    """Optimiser steps over all epochs."""

    n_images: int
    """Slots trained on."""

    precision: str
    """Arithmetic used: fp32, bf16 or fp16."""

    normalisation: Normalisation | None
    """How pixels were scaled; the same is needed to predict. None for features."""

    resumed_from: int
    """Epochs taken from a checkpoint, 0 for an undisturbed training."""

    seconds: float
    """Wall time of this call."""


def fit(
    model: nn.Module,
    images: Images,
    targets: np.ndarray | torch.Tensor,
    rows: np.ndarray,
    options: TrainOptions,
    *,
    seed: int,
    device: str | torch.device = "cpu",
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 30.0,
    on_epoch: OnEpoch | None = None,
    class_weights: np.ndarray | torch.Tensor | None = None,
    normalisation: Normalisation | None = None,
) -> FitLog:
    """Train a network in place: optimiser and schedule of ``options``, mean loss over each batch.

    Slot j is ``rows[j]``. The order of slots in an epoch is a function of (seed, epoch, len(rows)); dropout and
    augmentation draw from (seed, epoch, step). On a CPU the same arguments and threads give the same bytes.

    Args:
        model: The network; its parameters that require a gradient are trained. Moved to ``device``, channels last.
        images: uint8 or uint16 [N, H, W, C] (array, memory map, or tensor, on the device already if so), or features
            [N, d] in floating point.
        targets: For all N images: class numbers [N], 0/1 [N] (binary), or 0/1 [N, k] (multi).
        rows: Which images to train on, in slot order, [n].
        options: The settings, with epochs and lr filled in (`resolve_options`).
        seed: Decides order, dropout and augmentation; not the initialisation, which the model comes with.
        device: "cpu", "cuda" or "cuda:1".
        checkpoint: File for the state at the end of an epoch. If it exists the training goes on from there; it is
            left in place at the end, for the caller to remove once the result is kept.
        checkpoint_seconds: Least time between two such writes; 0 writes after each epoch.
        on_epoch: Called after each epoch with (epochs done, mean loss).
        class_weights: Weights per class (positive weights per label for binary and multi) instead of
            ``options.class_weights``, [k].
        normalisation: How to scale pixels; by default the mean and deviation of *all* ``images``.

    Returns:
        The log; the trained weights are in ``model``, which is left in training mode.

    Raises:
        InputError: if images, targets, rows, options or checkpoint do not fit together.
        MemoriskError: if the loss becomes NaN or infinite.
    """
    begun = time.perf_counter()
    if options.epochs is None or options.lr is None:
        raise InputError("epochs or lr are not set: fill them in with resolve_options(options, model_spec(name))")
    check_images(images)
    where = check_device(device)
    rows = np.asarray(rows, dtype=np.int64)
    place(model, where)
    training = _Training.build(model, images, targets, rows, options, where, class_weights, normalisation)
    path = Path(checkpoint) if checkpoint is not None else None
    identity = training.identity(seed) if path is not None else ""
    progress = Progress(0, ())
    if path is not None and path.exists():
        progress = load_checkpoint(path, model, training.optimizer, identity=identity, scaler=training.scaler)
    resumed_from, written = progress.epoch, time.monotonic()
    model.train()
    with forked_generators(where) as reseed:
        for epoch in range(progress.epoch, options.epochs):
            loss = training.epoch(seed, epoch, reseed)
            progress = Progress(epoch + 1, (*progress.losses, loss))
            if path is not None and time.monotonic() - written >= checkpoint_seconds:
                scale = training.scaler.state_dict()
                save_checkpoint(path, model, training.optimizer, progress=progress, identity=identity, scaler=scale)
                written = time.monotonic()
            if on_epoch is not None:
                on_epoch(epoch + 1, loss)
    return FitLog(
        losses=progress.losses,
        epochs=progress.epoch,
        steps=progress.epoch * len(batch_bounds(len(rows), options.batch_size)),
        n_images=len(rows),
        precision=training.precision,
        normalisation=training.normalisation,
        resumed_from=resumed_from,
        seconds=time.perf_counter() - begun,
    )


@dataclass
class _Training:
    """The parts of one training, built once; `epoch` runs one pass."""

    model: nn.Module
    source: PixelSource
    targets: torch.Tensor
    options: TrainOptions
    device: torch.device
    optimizer: AnyOptimizer
    loss_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    precision: str
    scaler: torch.amp.GradScaler
    augment: Augmentation | None
    normalisation: Normalisation | None
    weights: torch.Tensor | None

    @classmethod
    def build(
        cls,
        model: nn.Module,
        images: Images,
        targets: np.ndarray | torch.Tensor,
        rows: np.ndarray,
        options: TrainOptions,
        device: torch.device,
        class_weights: np.ndarray | torch.Tensor | None,
        normalisation: Normalisation | None,
    ) -> "_Training":
        """Check that the parts fit together and put them on the device."""
        if len(targets) != len(images):
            raise InputError(f"there are {len(targets)} targets for {len(images)} images")
        dtype = next(model.parameters()).dtype
        if images.ndim == 2:
            normalisation = None
        elif normalisation is None:
            normalisation = choose_normalisation(images, options.normalise)
        source = PixelSource(images, rows, device=device, dtype=dtype, normalisation=normalisation)
        chosen = target_tensor(targets, options.head, dtype)[source.rows]
        n_outputs = _count_outputs(model, source)
        check_outputs(n_outputs, chosen, options.head)
        weights = None
        if class_weights is not None:
            weights = torch.as_tensor(class_weights)
        elif options.class_weights:
            weights = balancing_weights(chosen, options.head, n_outputs)
        if weights is not None:
            weights = weights.to(device, dtype)
        precision = choose_precision(options.precision, device)
        return cls(
            model=model,
            source=source,
            targets=chosen.to(device),
            options=options,
            device=device,
            optimizer=build_optimizer([p for p in model.parameters() if p.requires_grad], options),
            loss_of=objective(options.head, weights),
            precision=precision,
            scaler=torch.amp.GradScaler(device.type, enabled=precision == "fp16"),
            augment=build_augmentation(options.augmentations, source),
            normalisation=normalisation,
            weights=weights,
        )

    def epoch(self, seed: int, epoch: int, reseed: Callable[[int], None]) -> float:
        """One pass over all slots; the mean loss. One synchronisation with the device, at its end."""
        options, optimizer, scaler, model = self.options, self.optimizer, self.scaler, self.model
        loss_of, augment, scaled = self.loss_of, self.augment, self.precision == "fp16"
        assert options.lr is not None
        assert options.epochs is not None
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(options.schedule, options.lr, epoch, options.epochs)
        n = len(self.targets)
        bounds = batch_bounds(n, options.batch_size)
        order = batch_order(seed, epoch, n)
        targets = self.targets[order.to(self.device)]
        slots = [order[start:stop] for start, stop in bounds]
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        seeds = step_seeds(seed, epoch, len(bounds))
        for (start, stop), step_seed, x in zip(bounds, seeds, self.source.batches(slots), strict=True):
            reseed(step_seed)
            if augment is not None:
                x = augment(x, step_seed)
            with autocast(self.device, self.precision):
                logits = model(x)
            loss = loss_of(logits.to(x.dtype), targets[start:stop])
            optimizer.zero_grad(set_to_none=True)
            if scaled:
                scaler.scale(loss).backward()
                scaler.step(optimizer)  # pyright: ignore[reportArgumentType] (it uses param_groups and step only)
                scaler.update()
            else:
                loss.backward()
                optimizer.step()
            total.add_(loss.detach(), alpha=stop - start)
        mean = float(total) / n
        if not np.isfinite(mean):
            raise MemoriskError(
                f"the loss became {mean} in epoch {epoch + 1}: lower the learning rate ({options.lr:g}) or use fp32"
            )
        return mean

    def identity(self, seed: int) -> str:
        """What a checkpoint must belong to: settings, seed, images, targets and the network's shape and start."""
        layout = [(name, list(value.shape), str(value.dtype)) for name, value in self.model.state_dict().items()]
        start = [round(float(p.detach().double().abs().sum()), 3) for p in self.model.parameters()]
        pixels = self.normalisation and [self.normalisation.mean, self.normalisation.std]
        weights = None if self.weights is None else self.weights.tolist()
        rows, targets = self.source.rows.numpy(), self.targets.cpu().numpy()
        return fingerprint(repr(self.options), self.precision, seed, layout, start, pixels, weights, rows, targets)


def _count_outputs(model: nn.Module, source: PixelSource) -> int:
    """How many logits the network gives, by asking it about two images, in evaluation mode so that nothing moves."""
    was_training = model.training
    model.eval()
    with torch.no_grad():
        try:
            logits = model(next(source.batches([torch.arange(2)])))
        except (RuntimeError, AssertionError, ValueError) as error:
            raise InputError(f"the network does not take these images: {one_line(error, 160)}") from error
    model.train(was_training)
    if logits.ndim != 2:
        raise InputError(f"the network gives outputs of shape {tuple(logits.shape)}; needed are logits [n, classes]")
    return int(logits.shape[1])
