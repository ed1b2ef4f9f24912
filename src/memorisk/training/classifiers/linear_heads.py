"""A frozen trunk: features are computed once, then the linear heads of all models are trained together.

K heads ``logits = W_k f + c_k`` meet a batch of each in one batched product, [K, b, d] x [K, d, k]. Every head sees the
batches, schedule and loss that `fit` would give it alone; sums are taken in another order, so that the two agree up to
rounding (METHODS section 1, "Speed"; paper 000 trains BiomedCLIP's head so).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from memorisk.models.classifiers.zoo import seeded
from memorisk.models.network_parts import head_module, trunk_output
from memorisk.runs.environment import check_device
from memorisk.runs.errors import InputError
from memorisk.training.classifiers.stacked import ordered_rows, stack_rows, stack_weights
from memorisk.training.engine.loop import Bounds, run_epochs
from memorisk.training.engine.optimization import build_optimizer, check_outputs, stacked_objective, target_tensor
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.pixels import Images, Normalisation
from memorisk.training.engine.predict import map_images


@dataclass(frozen=True)
class LinearHeads:
    """K trained linear heads."""

    weight: torch.Tensor
    """Weights of the heads, [K, k, d], on the device they were trained on."""

    bias: torch.Tensor
    """Biases of the heads, [K, k]."""

    losses: np.ndarray
    """Mean training loss of each epoch and head, [epochs, K]."""

    def logits(self, features: torch.Tensor) -> np.ndarray:
        """Return the logits of every head for features [n, d]: [K, n, k] float32."""
        x = features.to(self.weight.device, self.weight.dtype)
        with torch.inference_mode():
            each = [F.linear(x, w, c) for w, c in zip(self.weight, self.bias, strict=True)]
        return torch.stack(each).float().cpu().numpy()

    def only(self, index: int) -> "LinearHeads":
        """Return one of the heads by itself."""
        one = slice(index, index + 1)
        return LinearHeads(self.weight[one], self.bias[one], self.losses[:, one])

    def put(self, model: nn.Module, index: int) -> None:
        """Copy one head into a network, in place of its own."""
        head = head_module(model)
        with torch.no_grad():
            head.weight.copy_(self.weight[index])
            head.bias.copy_(self.bias[index])


def trunk_features(
    model: nn.Module,
    images: Images,
    options: TrainOptions,
    device: str | torch.device = "cpu",
    *,
    normalisation: Normalisation | None = None,
) -> torch.Tensor:
    """Compute the head's input for every image: one pass of the trunk, evaluation mode, no augmentation, float32.

    Args:
        model: A network with one linear head (`memorisk.models.network_parts.head_module`).
        images: Images, uint8 or uint16 [N, H, W, C].
        options: Settings; ``normalise`` is used; ``augment`` is refused, since each image has one feature vector.
        device: Device to compute on.
        normalisation: Scaling of the pixels; by default as for `fit`.

    Returns:
        Features of the images, [N, d] float32 on the CPU.

    Raises:
        InputError: The options name an augmentation, or the head is not one linear layer.
    """
    refuse_augmentation(options)
    head_module(model)
    everything = np.arange(len(images))
    return torch.from_numpy(
        map_images(model, lambda x: trunk_output(model, x), images, everything, options, device, normalisation)
    )


def new_head(d: int, n_outputs: int, seed: int, *, dtype: torch.dtype = torch.float32) -> nn.Linear:
    """Build a linear head with torch's initialisation, drawn from ``seed``; twins share the seed and so the start."""
    with seeded(seed):
        return nn.Linear(d, n_outputs, dtype=dtype)


def fit_heads(
    features: torch.Tensor,
    targets: np.ndarray | torch.Tensor,
    rows_list: Sequence[np.ndarray],
    options: TrainOptions,
    *,
    n_outputs: int,
    seeds: Sequence[int],
    slots: int | None = None,
    device: str | torch.device = "cpu",
) -> LinearHeads:
    """Train K linear heads, each on its own rows and seed, as ``fit(new_head(d, k, seed), features, ...)`` would.

    Heads train in the precision of the features: products this small gain nothing from bf16.

    Args:
        features: Features of the images, [N, d], float32 (or float64).
        targets: Targets of all N images, as for `fit`.
        rows_list: K arrays of equally many rows, in slot order.
        options: The settings, epochs and lr filled in.
        n_outputs: Number of logits per head.
        seeds: K seeds; each decides its head's initialisation and batch order.
        slots: Number of places in an epoch, where these are more than images, as for `fit`.
        device: Device to train on.

    Raises:
        InputError: Lengths differ, or inputs do not fit together.
        MemoriskError: A loss becomes NaN or infinite.
    """
    refuse_augmentation(options)
    where = check_device(device)
    rows = stack_rows(rows_list, seeds, len(features))
    values = target_tensor(targets, options.head, features.dtype)
    check_outputs(n_outputs, values, options.head)
    starts = [new_head(features.shape[1], n_outputs, seed, dtype=features.dtype) for seed in seeds]
    weight = torch.stack([head.weight.detach() for head in starts]).to(where).requires_grad_()
    bias = torch.stack([head.bias.detach() for head in starts]).to(where).requires_grad_()
    weights = stack_weights(values, rows, options, n_outputs)
    loss_of = stacked_objective(options.head, None if weights is None else weights.to(where, features.dtype))
    x_all, y_all = features.to(where), values.to(where)

    def losses_of(epoch: int, bounds: Bounds) -> Iterator[torch.Tensor]:
        """Yield the losses of an epoch, [K] per step."""
        order = ordered_rows(rows, seeds, epoch, slots).to(where)  # [K, slots]
        for start, stop in bounds:
            chosen = order[:, start:stop]  # [K, b]
            logits = torch.baddbmm(bias[:, None], x_all[chosen], weight.mT)  # [K, b, d] x [K, d, k]
            yield loss_of(logits, y_all[chosen])

    optimizer = build_optimizer([weight, bias], options)
    state = {"weight": weight, "bias": bias}
    progress = run_epochs(losses_of, state, optimizer, options, n=slots or rows.shape[1], n_models=len(seeds))
    return LinearHeads(weight.detach(), bias.detach(), progress.losses)


def refuse_augmentation(options: TrainOptions) -> None:
    """Refuse augmentation: each image has one feature vector.

    Raises:
        InputError: The options name an augmentation.
    """
    if options.augmentations:
        raise InputError("a frozen trunk's features are computed once: augment is not possible with it")
