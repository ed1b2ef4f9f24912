"""Images through an encoder, batch by batch: the one way features are computed.

Evaluation mode, no augmentation, no gradients. Images come as integers, are scaled to [0, 1], repeated to three
channels where the encoder needs them, resized (bilinear with antialias) and normalised, in this order, on the device.
"""

from collections.abc import Generator

import numpy as np
import torch
from torch import nn

from memorisk.models.blackbox.preprocessing import Preprocessing
from memorisk.models.encoders.preparation import preparation
from memorisk.runs.errors import InputError, one_line
from memorisk.training.engine.devices import autocast, choose_precision, exact_products, place
from memorisk.training.engine.pixels import Images, Normalisation, PixelSource

MAX_BATCH = 256
_PIXELS_PER_BATCH = 1 << 22
_AS_STORED = Normalisation((0.0,), (1.0,))
_FAILED = (RuntimeError, AttributeError, AssertionError, TypeError, ValueError)


def feature_batch_size(size: tuple[int, int]) -> int:
    """Images a batch: 256, or as many as hold 4,194,304 pixels (83 at 224 px); features do not depend on it."""
    return int(max(1, min(MAX_BATCH, _PIXELS_PER_BATCH // (size[0] * size[1]))))


def feature_precision(precision: str, device: torch.device, *, mixed: bool = True) -> str:
    """What a precision means here: ``auto`` is bf16 on a GPU that computes in it, and fp32 elsewhere.

    Args:
        precision: "auto", "fp32", "bf16" or "fp16".
        device: Where features are computed.
        mixed: Whether the encoder may be computed in mixed precision; one that may not is computed as it is.

    Raises:
        InputError: An unknown precision, or mixed precision on a CPU.
    """
    if precision not in ("auto", "fp32", "bf16", "fp16"):
        raise InputError(f"precision is {one_line(precision, 40)!r}; it must be auto, fp32, bf16 or fp16")
    if not mixed:
        return "fp32"
    if precision in ("bf16", "fp16") and device.type == "cpu":
        raise InputError(f"precision {precision} is for a GPU; on a CPU features are computed in fp32")
    return choose_precision(precision, device)


def feature_batches(
    model: nn.Module,
    images: Images,
    rows: np.ndarray,
    preprocessing: Preprocessing | None,
    *,
    device: torch.device,
    precision: str = "fp32",
    dtype: torch.dtype = torch.float32,
    batch: int | None = None,
    name: str | None = None,
    keep: bool = False,
) -> Generator[np.ndarray]:
    """Features of chosen images, a batch at a time, in the order of ``rows``.

    While a batch is computed on a GPU, the one before it is copied back and handled by the caller.

    Args:
        model: From [b, C, h, w] to [b, d]; its mode and the generators are left as they were.
        images: uint8 or uint16 [N, H, W, C].
        rows: Which, [n].
        preprocessing: Of the model; None for pixels in [0, 1] as they are stored.
        device: Where to compute.
        precision: "fp32", "bf16" or "fp16".
        dtype: What pixels are converted to.
        batch: Images a batch; by default `feature_batch_size`.
        name: What the model is called where it fails.
        keep: Give features in the type they were computed in.

    Yields:
        [b, d] float32, or with ``keep`` as computed.

    Raises:
        InputError: The model does not take the images, or gives no vector an image.
    """
    if batch is not None and batch < 1:
        raise InputError(f"batch is {batch}; it must be at least 1")
    said = name or type(model).__name__
    height, width = preprocessing.size if preprocessing else images.shape[1:3]
    source = PixelSource(images, rows, device=device, dtype=dtype, normalisation=_AS_STORED)
    prepare = preparation(preprocessing, device, dtype)
    slots = torch.arange(len(rows)).split(batch or feature_batch_size((int(height), int(width))))
    was_training = model.training
    place(model, device)
    model.eval()
    waiting: torch.Tensor | None = None
    try:
        for x in source.batches(slots) if len(rows) else ():
            with torch.inference_mode(), exact_products(device), autocast(device, precision):
                found = _vectors(model, prepare(x), said)
            if waiting is not None:
                yield _on_host(waiting, keep)
            waiting = found
        if waiting is not None:
            yield _on_host(waiting, keep)
    finally:
        model.train(was_training)


def _on_host(features: torch.Tensor, keep: bool) -> np.ndarray:
    return (features if keep else features.float()).cpu().numpy()


def _vectors(model: nn.Module, x: torch.Tensor, said: str) -> torch.Tensor:
    """Features [b, d] of a batch."""
    try:
        features = model(x)
    except torch.OutOfMemoryError:
        raise
    except _FAILED as error:
        size = tuple(x.shape[1:])
        raise InputError(f"{said} gives no features of images {size}: {one_line(error, 160)}") from None
    if not isinstance(features, torch.Tensor) or features.ndim != 2:
        shape = tuple(features.shape) if isinstance(features, torch.Tensor) else type(features).__name__
        raise InputError(f"{said} gives features of shape {shape}; one vector per image is needed")
    return features
