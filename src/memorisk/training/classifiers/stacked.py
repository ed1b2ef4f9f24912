"""Small networks trained side by side as one: parameters stacked, the forward pass vectorised by `torch.func`.

A small network leaves a GPU idle; K of them together fill it. Every network sees the batches, schedule and loss that
`fit` would give it alone: equally many slots, and a batch order from its own seed. Sums are taken in another order, so
that the two agree up to rounding.

`stack_size` decides how many models are trained at a time (METHODS section 1, "Speed"). On a CPU stacking was
*slower* than parallel processes, so there models are trained in processes with a fixed number of threads each. On a
GPU small networks are stacked, as many at once as half of its free memory holds; everything else is trained one after
another, since one such network fills the device.
"""

import copy
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, vmap

from memorisk.runs.environment import check_device
from memorisk.runs.errors import InputError
from memorisk.runs.files import fingerprint
from memorisk.training.classifiers.fit import FitLog
from memorisk.training.engine.devices import autocast, choose_precision
from memorisk.training.engine.loop import Bounds, Checkpoint, OnEpoch, TrainingState, run_epochs
from memorisk.training.engine.optimization import (
    balancing_weights,
    batch_bounds,
    batch_order,
    build_optimizer,
    check_outputs,
    stacked_objective,
    target_tensor,
)
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.pixels import Images, Normalisation, PixelSource, check_images, choose_normalisation


def stack_rows(rows_list: Sequence[np.ndarray], seeds: Sequence[int], n_images: int) -> torch.Tensor:
    """Check and stack the rows of K trainings, [K, n] int64.

    Raises:
        InputError: Lists of rows are missing, are not equally long, or lie outside the images.
    """
    if len(rows_list) != len(seeds) or not rows_list:
        raise InputError(f"there are {len(rows_list)} lists of rows for {len(seeds)} seeds; one each is needed")
    lengths = sorted({len(rows) for rows in rows_list})
    if len(lengths) > 1:
        raise InputError(f"models that train together need equally many images; here are {lengths[0]} to {lengths[-1]}")
    rows = torch.from_numpy(np.stack([np.asarray(r, dtype=np.int64) for r in rows_list]))
    if rows.numel() and (int(rows.min()) < 0 or int(rows.max()) >= n_images):
        raise InputError(f"rows run from {int(rows.min())} to {int(rows.max())}; there are {n_images} images")
    return rows


def ordered_rows(rows: torch.Tensor, seeds: Sequence[int], epoch: int, slots: int | None = None) -> torch.Tensor:
    """Put rows [K, slots] in the order in which an epoch visits them: for each model as `fit` with its seed would."""
    orders = {seed: batch_order(seed, epoch, rows.shape[1], slots) for seed in set(seeds)}  # twins share theirs
    return rows.gather(1, torch.stack([orders[seed] for seed in seeds]))


def stack_weights(
    targets: torch.Tensor, rows: torch.Tensor, options: TrainOptions, n_outputs: int
) -> torch.Tensor | None:
    """Compute class weights of each model from its own training targets, [K, k], if the options request them."""
    if not options.class_weights:
        return None
    return torch.stack([balancing_weights(targets[r], options.head, n_outputs) for r in rows])


def stacking_obstacle(model: nn.Module, options: TrainOptions) -> str:
    """Name the reason why networks of this kind cannot be stacked; empty if they can.

    Running statistics of batch normalisation, and anything drawn at random in a step, would differ from a training
    alone.
    """
    if any(True for _ in model.buffers()):
        return "it keeps running statistics"
    if any("drop" in type(m).__name__.lower() and getattr(m, "p", getattr(m, "drop_prob", 0)) for m in model.modules()):
        return "it uses dropout"
    if options.augmentations:
        return "training images are augmented"
    if options.precision == "fp16":
        return "fp16 scales the loss of all models alike"
    return ""


def fit_stacked(
    models: Sequence[nn.Module],
    images: Images,
    targets: np.ndarray | torch.Tensor,
    rows_list: Sequence[np.ndarray],
    options: TrainOptions,
    *,
    seeds: Sequence[int],
    slots: int | None = None,
    device: str | torch.device = "cpu",
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 30.0,
    on_epoch: OnEpoch | None = None,
    normalisation: Normalisation | None = None,
) -> list[FitLog]:
    """Train K networks of one architecture together, in place, as `fit` would train each on its rows with its seed.

    Args:
        models: K networks, as initialised.
        images: Images of the set, shared by all, as for `fit`.
        targets: Targets of all images, as for `fit`.
        rows_list: K arrays of equally many rows, in slot order.
        options: The settings, epochs and lr filled in.
        seeds: K seeds; twins share theirs.
        slots: Number of places in an epoch, where these are more than images, as for `fit`.
        device: Device to train on.
        checkpoint: File for the state of all K, as for `fit`.
        checkpoint_seconds: Least time between two writes of it.
        on_epoch: Function called after each epoch with (epochs done, loss averaged over models).
        normalisation: Scaling of the pixels, as for `fit`.

    Returns:
        One log per network; ``seconds`` is the time of all together.

    Raises:
        InputError: The networks cannot be stacked, or inputs do not fit together.
        MemoriskError: A loss becomes NaN or infinite.
    """
    begun = time.perf_counter()
    together = StackedNetworks(models, images, targets, rows_list, options, seeds, device, normalisation, slots)
    resume = None
    if checkpoint is not None:
        resume = Checkpoint(Path(checkpoint), together.identity(), checkpoint_seconds)
    progress = run_epochs(
        together.losses, together.parameters, together.optimizer, options,
        n=together.slots, n_models=len(models), checkpoint=resume, on_epoch=on_epoch,
    )  # fmt: skip
    unstack_parameters(models, together.parameters)
    return together.logs(progress, time.perf_counter() - begun)


class StackedNetworks:
    """K networks as one function of their stacked parameters and a batch for each, or one batch for all.

    Arguments and errors as for `fit_stacked`.
    """

    def __init__(
        self,
        models: Sequence[nn.Module],
        images: Images,
        targets: np.ndarray | torch.Tensor,
        rows_list: Sequence[np.ndarray],
        options: TrainOptions,
        seeds: Sequence[int],
        device: str | torch.device,
        normalisation: Normalisation | None = None,
        slots: int | None = None,
    ) -> None:
        check_images(images)
        if len(targets) != len(images):
            raise InputError(f"there are {len(targets)} targets for {len(images)} images")
        self.options, self.device, self.seeds = options, check_device(device), tuple(seeds)
        self.parameters = stack_parameters(models, options, self.device)
        self.rows = stack_rows(rows_list, seeds, len(images))
        if len(seeds) != len(models):
            raise InputError(f"there are {len(seeds)} seeds for {len(models)} networks; one each is needed")
        self.slots = slots or self.rows.shape[1]
        self.normalisation = how = normalisation or choose_normalisation(images, options.normalise)
        dtype, everything = next(models[0].parameters()).dtype, np.arange(len(images))
        self.source = PixelSource(images, everything, device=self.device, dtype=dtype, normalisation=how)
        self.precision = choose_precision(options.precision, self.device)
        skeleton = copy.deepcopy(models[0]).to("meta").train()

        def alone(values: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
            """Return one model's outputs with these weights."""
            return functional_call(skeleton, values, (x,))

        self.forward, self.forward_shared = vmap(alone), vmap(alone, in_dims=(0, None))
        first = next(self.source.batches([self.rows[:, :2].reshape(-1)]))
        with torch.no_grad():
            n_outputs = self.forward(self.parameters, self._pixels(first)).shape[2]
        values = target_tensor(targets, options.head, dtype)
        check_outputs(n_outputs, values[self.rows.reshape(-1)], options.head)
        self.targets, weights = values.to(self.device), stack_weights(values, self.rows, options, n_outputs)
        self.weights = None if weights is None else weights.to(self.device, dtype)
        self.loss_of = stacked_objective(options.head, self.weights)
        self.optimizer = build_optimizer(self._trained(), options)

    def _trained(self) -> list[torch.Tensor]:
        return [p for p in self.parameters.values() if p.requires_grad]

    def select(self, places: Sequence[int]) -> None:
        """Continue with the networks at these places alone, each with its moments.

        Args:
            places: Places of the networks in the stack.
        """
        before, moments = self.parameters, self.optimizer.state
        self.parameters = {name: _select_networks(value, places) for name, value in before.items()}
        self.optimizer = build_optimizer(self._trained(), self.options)
        for name, parameter in before.items():
            if parameter in moments:
                self.optimizer.state[self.parameters[name]] = {
                    key: _select_networks(value, places) if value.shape == parameter.shape else value
                    for key, value in moments[parameter].items()
                }
        self.rows, self.seeds = self.rows[list(places)], tuple(self.seeds[place] for place in places)
        self.weights = None if self.weights is None else self.weights[list(places)]
        self.loss_of = stacked_objective(self.options.head, self.weights)

    def losses(self, epoch: int, bounds: Bounds) -> Iterator[torch.Tensor]:
        """Yield the losses [K] of each batch of an epoch."""
        order = ordered_rows(self.rows, self.seeds, epoch, self.slots)  # [K, slots] on the CPU
        targets = self.targets[order.to(self.device)]
        chosen = [order[:, start:stop].reshape(-1) for start, stop in bounds]
        for (start, stop), flat in zip(bounds, self.source.batches(chosen), strict=True):
            x = self._pixels(flat)
            with autocast(self.device, self.precision):
                logits = self.forward(self.parameters, x)  # [K, b, k]
            yield self.loss_of(logits.to(x.dtype), targets[:, start:stop])

    def logs(self, progress: TrainingState, seconds: float) -> list[FitLog]:
        """Return the logs of trainings that are done; each has the time of all."""
        return [
            FitLog(
                losses=tuple(losses.tolist()),
                epochs=progress.epoch,
                steps=progress.epoch * len(batch_bounds(self.slots, self.options.batch_size)),
                n_images=self.rows.shape[1],
                precision=self.precision,
                normalisation=self.normalisation,
                resumed_from=progress.resumed_from,
                seconds=seconds,
            )
            for losses in progress.losses.T
        ]

    def identity(self) -> str:
        """Fingerprint the trainings for a checkpoint, as for one training."""
        layout = [(name, list(value.shape)) for name, value in self.parameters.items()]
        start = [round(float(value.detach().double().abs().sum()), 3) for value in self.parameters.values()]
        pixels = self.normalisation and [self.normalisation.mean, self.normalisation.std]
        targets, rows = self.targets.cpu().numpy(), self.rows.numpy()
        more = [self.slots] if self.slots > rows.shape[1] else []
        return fingerprint(repr(self.options), self.precision, self.seeds, layout, start, pixels, rows, targets, *more)

    def _pixels(self, flat: torch.Tensor) -> torch.Tensor:
        """Reshape [K b, ...] to [K, b, ...]."""
        return flat.unflatten(0, (len(self.seeds), -1))


def _select_networks(value: torch.Tensor, places: Sequence[int]) -> torch.Tensor:
    """Return a leaf tensor of its own with some of the networks."""
    return value.detach()[list(places)].requires_grad_(value.requires_grad)


def stack_parameters(
    models: Sequence[nn.Module], options: TrainOptions, device: torch.device
) -> dict[str, torch.Tensor]:
    """Stack parameters by name with a leading axis of K, as leaves on the device.

    Args:
        models: K networks of one architecture.
        options: Settings of the training.
        device: Device to train on.

    Raises:
        InputError: The list is empty, the networks have several architectures, or they cannot be stacked.
    """
    if not models:
        raise InputError("no model to train: give at least one")
    reason = stacking_obstacle(models[0], options)
    if reason:
        raise InputError(f"{type(models[0]).__name__} cannot be trained stacked: {reason}; train one after another")
    each = [dict(model.named_parameters()) for model in models]
    shapes = [{name: value.shape for name, value in parameters.items()} for parameters in each]
    if any(other != shapes[0] for other in shapes):
        raise InputError("models that train together must have one architecture")
    return {
        name: torch.stack([p[name].detach() for p in each]).to(device).requires_grad_(first.requires_grad)
        for name, first in each[0].items()
    }


def unstack_parameters(models: Sequence[nn.Module], parameters: dict[str, torch.Tensor]) -> None:
    """Copy the trained values back into the K networks, from `stack_parameters`."""
    with torch.no_grad():
        for index, model in enumerate(models):
            for name, value in model.named_parameters():
                value.copy_(parameters[name][index])


SMALL_PARAMETERS = 2_000_000
"""Networks up to this size are small: several leave a GPU's units idle when trained alone."""

_SHARE_OF_FREE_MEMORY = 0.5


def stack_size(
    model: nn.Module,
    options: TrainOptions,
    *,
    n_models: int,
    image_shape: tuple[int, int, int],
    device: str | torch.device,
    free_bytes: int | None = None,
) -> int:
    """Choose how many of ``n_models`` networks like this one train as one stack on a GPU.

    Memory of one stacked network: four times its parameters (value, gradient, two moments) and twice the outputs of
    its layers on one batch (value, gradient), 4 bytes each.

    Args:
        model: One of the networks, on any device.
        options: Settings of the training.
        n_models: Number of models to be trained.
        image_shape: Height, width and channels of an image, (H, W, C).
        device: Device to train on.
        free_bytes: Free memory of the device; by default as the driver reports it.

    Returns:
        Number of models in one stack; 1 where they train one after another.
    """
    n_parameters = sum(p.numel() for p in model.parameters())
    if stacking_obstacle(model, options) or n_parameters > SMALL_PARAMETERS:
        return 1
    if free_bytes is None:
        free_bytes = torch.cuda.mem_get_info(check_device(device))[0]
    one = 4 * (4 * n_parameters + 2 * _count_activations(model, options.batch_size, image_shape))
    return max(1, min(n_models, int(_SHARE_OF_FREE_MEMORY * free_bytes // one)))


def _count_activations(model: nn.Module, batch_size: int, image_shape: tuple[int, int, int]) -> int:
    """Count the output values of all layers on one batch, without computing them."""
    height, width, channels = image_shape
    shadow = copy.deepcopy(model).to("meta")
    counts: list[int] = []
    for module in shadow.modules():
        if not list(module.children()):
            module.register_forward_hook(lambda _module, _inputs, output: counts.append(output.numel()))
    with torch.no_grad():
        shadow(torch.empty(batch_size, channels, height, width, device="meta"))
    return sum(counts)
