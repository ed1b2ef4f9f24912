"""Logits of a trained network: one pass, evaluation mode, no augmentation, float32 throughout."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import nn

from memorisk.training.devices import check_device, exact_products, place
from memorisk.training.options import TrainOptions
from memorisk.training.pixels import Images, Normalisation, PixelSource, check_images, choose_normalisation

MAX_BATCH = 256
_PIXELS_PER_BATCH = 1 << 22


def predict_batch_size(images: Images) -> int:
    """Images per batch of a prediction: 256, or as many as hold 4,194,304 pixels (83 at 224 px).

    It depends on the image size alone, never on the device or on free memory, so that the same command gives the same
    bytes.
    """
    if images.ndim == 2:
        return MAX_BATCH
    return int(max(1, min(MAX_BATCH, _PIXELS_PER_BATCH // (images.shape[1] * images.shape[2]))))


def predict_logits(
    model: nn.Module,
    images: Images,
    rows: np.ndarray | None,
    options: TrainOptions,
    device: str | torch.device = "cpu",
    *,
    normalisation: Normalisation | None = None,
) -> np.ndarray:
    """Logits of chosen images, in float32 whatever the training's precision was: M is a difference of losses.

    Args:
        model: The network; its training or evaluation mode is restored afterwards.
        images: As for `fit`.
        rows: Which images, [n]; None for all.
        options: The settings the network was trained with (``normalise`` is used).
        device: "cpu", "cuda" or "cuda:1".
        normalisation: The training's (`FitLog.normalisation`); by default that of all ``images``, which is the
            training's own if these are the same images.

    Returns:
        [n, k] float32.

    Raises:
        InputError: if images, rows or options do not fit together, or there are no rows.
    """
    chosen = np.arange(len(images)) if rows is None else np.asarray(rows, dtype=np.int64)
    return map_images(model, model, images, chosen, options, device, normalisation)


def map_images(
    model: nn.Module,
    function: Callable[[torch.Tensor], torch.Tensor],
    images: Images,
    rows: np.ndarray,
    options: TrainOptions,
    device: str | torch.device,
    normalisation: Normalisation | None,
) -> np.ndarray:
    """A function of the network, in evaluation mode, of chosen images: [b, C, H, W] a batch, [n, ...] float32 out."""
    check_images(images)
    where = check_device(device)
    dtype = next(model.parameters()).dtype
    normalisation = normalisation or choose_normalisation(images, options.normalise)
    source = PixelSource(images, rows, device=where, dtype=dtype, normalisation=normalisation)
    place(model, where)
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode(), exact_products(where):
            slots = torch.arange(len(rows)).split(predict_batch_size(images))
            return _gathered((function(x) for x in source.batches(slots)), len(rows))
    finally:
        model.train(was_training)


def _gathered(batches: Iterator[torch.Tensor], n: int) -> np.ndarray:
    """Batches one after another in one array [n, ...], float32.

    Each is copied and let go: kept till the end, small results between large freed blocks kept the allocator from using
    these again, and memory grew by 20 kB an image (benchmarks/results/memory.json).
    """
    first = next(batches)
    values = np.empty((n, *first.shape[1:]), dtype=np.float32)
    at = len(first)
    values[:at] = first.float().cpu().numpy()
    del first
    for batch in batches:
        values[at : at + len(batch)] = batch.float().cpu().numpy()
        at += len(batch)
    return values
