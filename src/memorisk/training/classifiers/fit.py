"""One training of one network on chosen rows of an image set (paper 000, A.7).

Everything random derives from (seed, epoch, step), so that twins share it slot by slot, a killed training resumes to
the same bytes on a CPU, and global random state is untouched. The caller sets the number of threads.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from memorisk.runs.environment import check_device
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import fingerprint
from memorisk.training.classifiers.regimes import ParameterChangeCheck, check_parameter_changes
from memorisk.training.engine.devices import (
    autocast,
    choose_precision,
    forked_generators,
    place,
    set_training_mode,
)
from memorisk.training.engine.loop import Bounds, Checkpoint, EpochObserver, OnEpoch, TrainingState, run_epochs
from memorisk.training.engine.optimization import (
    balancing_weights,
    batch_bounds,
    batch_order,
    build_optimizer,
    check_outputs,
    objective,
    step_seeds,
    target_tensor,
)
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.pixels import (
    Images,
    Normalisation,
    PixelSource,
    build_augmentation,
    check_images,
    choose_normalisation,
)


@dataclass(frozen=True)
class FitLog:
    """Log of a training."""

    losses: tuple[float, ...]
    """Mean training loss of each epoch, over the batches as they were trained on."""

    epochs: int
    """Number of epochs trained, those taken from a checkpoint included."""

    steps: int
    """Number of optimiser steps over all epochs."""

    n_images: int
    """Number of images trained on."""

    precision: str
    """Arithmetic used: fp32, bf16 or fp16."""

    normalisation: Normalisation | None
    """Scaling of the pixels; the same is needed to predict. None for features."""

    resumed_from: int
    """Number of epochs taken from a checkpoint; 0 for an undisturbed training."""

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
    slots: int | None = None,
    device: str | torch.device = "cpu",
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 30.0,
    on_epoch: OnEpoch | None = None,
    class_weights: np.ndarray | torch.Tensor | None = None,
    normalisation: Normalisation | None = None,
    watch: EpochObserver | None = None,
) -> FitLog:
    """Train a network in place: optimiser and schedule of ``options``, mean loss over each batch.

    The order of slots in an epoch is a function of (seed, epoch, slots); dropout and augmentation draw from
    (seed, epoch, step). On a CPU the same arguments and threads give the same bytes.

    Args:
        model: The network; its parameters that require a gradient are trained. Moved to ``device``, channels last.
        images: Images, uint8 or uint16 [N, H, W, C] (array, memory map or tensor), or floating-point features [N, d].
        targets: Targets of all N images: class numbers [N], 0/1 [N] (binary), or 0/1 [N, k] (multi).
        rows: Images to train on, in slot order, [n].
        options: The settings, with epochs and lr filled in (`resolve_options`).
        seed: Random seed of order, dropout and augmentation; not of the initialisation, which the model comes with.
        slots: Number of places in an epoch, where they exceed the images: `batch_order` describes what fills them.
        device: Device to train on, "cpu", "cuda" or "cuda:1".
        checkpoint: File for the state at the end of an epoch; if it exists, training continues from there. The caller
            removes it once the result is kept.
        checkpoint_seconds: Least time between two writes of it; 0 writes after each epoch.
        on_epoch: Function called after each epoch with (epochs done, mean loss).
        class_weights: Weights per class (of the positives for binary and multi), [k], instead of the options'.
        normalisation: Scaling of the pixels; by default by the mean and deviation of *all* ``images``.
        watch: Observer that may end the training after any epoch (early stopping).

    Returns:
        The log; the trained weights are in ``model``, which is left in training mode.

    Raises:
        InputError: if images, targets, rows, options or checkpoint do not fit together.
        MemoriskError: if the loss becomes NaN or infinite.
    """
    begun = time.perf_counter()
    if options.private:
        raise InputError(f"regime {options.one_regime} is trained by fit_private, which clips and adds noise")
    training = ClassifierTraining(
        model, images, targets, rows, options, device, normalisation, class_weights=class_weights, slots=slots
    )
    resume = None
    if checkpoint is not None:
        identity = training.identity(seed) if watch is None else fingerprint(training.identity(seed), watch.identity)
        resume = Checkpoint(Path(checkpoint), identity, checkpoint_seconds)
    progress = training.run(seed, resume, on_epoch, watch)
    return training.log(progress, time.perf_counter() - begun)


def check_fit(
    model: nn.Module,
    images: Images,
    targets: np.ndarray | torch.Tensor,
    rows: np.ndarray,
    options: TrainOptions,
    *,
    device: str | torch.device = "cpu",
    normalisation: Normalisation | None = None,
) -> None:
    """Check all that `fit` checks before its first step, and train nothing.

    Raises:
        InputError: as `fit`.
    """
    ClassifierTraining(model, images, targets, rows, options, device, normalisation)


class ClassifierTraining:
    """A training of a classifier, checked and on its device; arguments and errors as for `fit`."""

    def __init__(
        self,
        model: nn.Module,
        images: Images,
        targets: np.ndarray | torch.Tensor,
        rows: np.ndarray,
        options: TrainOptions,
        device: str | torch.device,
        normalisation: Normalisation | None,
        *,
        class_weights: np.ndarray | torch.Tensor | None = None,
        slots: int | None = None,
    ) -> None:
        self.model, self.options, self.device = model, options, check_device(device)
        place(model, self.device)
        check_images(images)
        if len(targets) != len(images):
            raise InputError(f"there are {len(targets)} targets for {len(images)} images")
        batch_bounds(len(rows), options.batch_size)  # refuses fewer than two images
        dtype = next(model.parameters()).dtype
        self.normalisation = how = normalisation or choose_normalisation(images, options.normalise)
        self.source = PixelSource(images, rows, device=self.device, dtype=dtype, normalisation=how)
        chosen = target_tensor(targets, options.head, dtype)[self.source.rows]
        n_outputs = _count_outputs(model, self.source)
        check_outputs(n_outputs, chosen, options.head)
        weights = None if class_weights is None else torch.as_tensor(class_weights)
        if weights is None and options.class_weights:
            weights = balancing_weights(chosen, options.head, n_outputs)
        self.weights = None if weights is None else weights.to(self.device, dtype)
        self.targets, self.slots = chosen.to(self.device), max(slots or 0, len(rows))
        self.loss_of = objective(options.head, self.weights)
        self.precision = choose_precision(options.precision, self.device)
        self.augment = build_augmentation(options.augmentations, self.source)

    def run(
        self, seed: int, checkpoint: Checkpoint | None, on_epoch: OnEpoch | None, watch: EpochObserver | None = None
    ) -> TrainingState:
        """Train for all epochs, or until ``watch`` ends it."""
        set_training_mode(self.model)
        movement = ParameterChangeCheck(self.model) if self.options.low_rank else None

        def losses_of(epoch: int, bounds: Bounds) -> Iterator[torch.Tensor]:
            """Yield the losses of an epoch, one per step."""
            losses = self.losses(seed, epoch, bounds, reseed)
            return losses if movement is None else check_parameter_changes(losses, epoch, movement)

        with forked_generators(self.device) as reseed:
            return run_epochs(
                losses_of,
                self.model.state_dict(),
                build_optimizer([p for p in self.model.parameters() if p.requires_grad], self.options),
                self.options,
                n=self.slots,
                checkpoint=checkpoint,
                on_epoch=on_epoch,
                scaler=torch.amp.GradScaler(self.device.type, enabled=self.precision == "fp16"),
                watch=watch,
            )

    def log(self, progress: TrainingState, seconds: float) -> FitLog:
        """Return the log of a training that is done."""
        return FitLog(
            losses=tuple(progress.losses[:, 0].tolist()),
            epochs=progress.epoch,
            steps=progress.epoch * len(batch_bounds(self.slots, self.options.batch_size)),
            n_images=len(self.targets),
            precision=self.precision,
            normalisation=self.normalisation,
            resumed_from=progress.resumed_from,
            seconds=seconds,
        )

    def losses(self, seed: int, epoch: int, bounds: Bounds, reseed: Callable[[int], None]) -> Iterator[torch.Tensor]:
        """Yield the loss of each batch of an epoch."""
        model, loss_of, augment = self.model, self.loss_of, self.augment
        order = batch_order(seed, epoch, len(self.targets), self.slots)
        targets = self.targets[order.to(self.device)]
        slots = [order[start:stop] for start, stop in bounds]
        seeds = step_seeds(seed, epoch, len(bounds))
        for (start, stop), step_seed, x in zip(bounds, seeds, self.source.batches(slots), strict=True):
            reseed(step_seed)
            if augment is not None:
                x = augment(x, step_seed)
            with autocast(self.device, self.precision):
                logits = model(x)
            yield loss_of(logits.to(x.dtype), targets[start:stop])

    def identity(self, seed: int) -> str:
        """Fingerprint settings, seed, images, targets and the network's shape and start, for a checkpoint."""
        layout = [(name, list(value.shape), str(value.dtype)) for name, value in self.model.state_dict().items()]
        start = [round(float(p.detach().double().abs().sum()), 3) for p in self.model.parameters()]
        pixels = self.normalisation and [self.normalisation.mean, self.normalisation.std]
        weights = None if self.weights is None else self.weights.tolist()
        rows, targets = self.source.rows.numpy(), self.targets.cpu().numpy()
        more = [self.slots] if self.slots > len(rows) else []
        return fingerprint(
            repr(self.options), self.precision, seed, layout, start, pixels, weights, rows, targets, *more
        )


def _count_outputs(model: nn.Module, source: PixelSource) -> int:
    """Count the network's logits on two images, in evaluation mode so that running statistics do not change."""
    was_training = model.training
    model.eval()
    batch = next(source.batches([torch.arange(2)]))
    try:
        with torch.no_grad():
            logits = model(batch)
    except (RuntimeError, AssertionError, ValueError) as error:
        height, width = batch.shape[2:] if batch.ndim == 4 else (1, 1)
        cure = "" if height == width else f"; of {width} x {height} pixels: --size 64 makes square ones"
        raise InputError(f"the network does not take these images: {one_line(error, 160)}{cure}") from error
    finally:
        model.train(was_training)
    if logits.ndim != 2:
        raise InputError(f"the network gives outputs of shape {tuple(logits.shape)}; needed are logits [n, classes]")
    return int(logits.shape[1])
