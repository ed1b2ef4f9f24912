"""How many models are trained at a time, and in which way.

The rule (METHODS section 1, "Speed"): on a CPU, processes side by side with a fixed number of threads each; on a GPU,
small networks stacked, as many at once as half of its free memory holds; everything else one after another, since
one such network fills the device.
"""

import copy
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from memorisk.runs.devices import check_device
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.stacked import why_not_stackable

SMALL_PARAMETERS = 2_000_000
"""Networks up to this size are small: several leave a GPU's units idle when trained alone."""

_SHARE_OF_FREE_MEMORY = 0.5


@dataclass(frozen=True)
class Strategy:
    """How K models are trained."""

    kind: Literal["processes", "stacked", "sequential"]
    """Side by side in processes, stacked as one, or one after another."""

    at_once: int
    """Models in one stack; 1 for the other kinds (the number of processes is the executor's matter)."""

    why: str
    """The reason, for the log and the report."""


def choose_strategy(
    model: nn.Module,
    options: TrainOptions,
    *,
    n_models: int,
    image_shape: tuple[int, int, int],
    device: str | torch.device,
    free_bytes: int | None = None,
) -> Strategy:
    """The way to train ``n_models`` networks like this one.

    Memory of one stacked network: four times its parameters (value, gradient, two moments) and twice the outputs of
    its layers on one batch (value, gradient), 4 bytes each.

    Args:
        model: One of the networks, on any device.
        options: The settings.
        n_models: How many are to be trained.
        image_shape: (H, W, C).
        device: Where.
        free_bytes: Free memory of the device; by default as the driver reports it.
    """
    if torch.device(device).type == "cpu":
        if n_models > 1:
            return Strategy("processes", 1, "on a CPU models train side by side in processes")
        return Strategy("sequential", 1, "there is one model")
    reason = why_not_stackable(model, options)
    n_parameters = sum(p.numel() for p in model.parameters())
    if not reason and n_parameters > SMALL_PARAMETERS:
        reason = f"{n_parameters:,} parameters fill the device"
    if not reason and n_models < 2:
        reason = "there is one model"
    if reason:
        return Strategy("sequential", 1, f"one after another: {reason}")
    if free_bytes is None:
        free_bytes = torch.cuda.mem_get_info(check_device(device))[0]
    one = 4 * (4 * n_parameters + 2 * _count_activations(model, options.batch_size, image_shape))
    at_once = min(n_models, int(_SHARE_OF_FREE_MEMORY * free_bytes // one))
    if at_once < 2:
        return Strategy("sequential", 1, "one after another: two do not fit the device's free memory")
    return Strategy("stacked", at_once, f"{at_once} at once on the device, as one stack")


def _count_activations(model: nn.Module, batch_size: int, image_shape: tuple[int, int, int]) -> int:
    """Numbers that the layers put out on one batch, counted without computing them."""
    height, width, channels = image_shape
    shadow = copy.deepcopy(model).to("meta")
    counts: list[int] = []
    for module in shadow.modules():
        if not list(module.children()):
            module.register_forward_hook(lambda _module, _inputs, output: counts.append(output.numel()))
    with torch.no_grad():
        shadow(torch.empty(batch_size, channels, height, width, device="meta"))
    return sum(counts)
