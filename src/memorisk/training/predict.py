"""Logits of a trained network: one pass, evaluation mode, no augmentation, float32 throughout."""

import numpy as np
import torch
from torch import nn

from memorisk.training.devices import check_device, place
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
        InputError: if images, rows or options do not fit together.
    """
    check_images(images)
    where = check_device(device)
    chosen = np.arange(len(images)) if rows is None else np.asarray(rows, dtype=np.int64)
    if images.ndim == 4 and normalisation is None:
        normalisation = choose_normalisation(images, options.normalise)
    dtype = next(model.parameters()).dtype
    source = PixelSource(images, chosen, device=where, dtype=dtype, normalisation=normalisation)
    slots = torch.arange(len(chosen)).split(predict_batch_size(images)) if len(chosen) else ()
    place(model, where)
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            parts = [model(x).float().cpu().numpy() for x in source.batches(slots)]
    finally:
        model.train(was_training)
    return np.concatenate(parts) if parts else np.empty((0, 0), dtype=np.float32)
