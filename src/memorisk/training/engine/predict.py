"""Logits of a trained network in evaluation mode and float32: one plain pass, or several augmented ones."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import nn

from memorisk.runs.environment import check_device
from memorisk.runs.errors import InputError
from memorisk.runs.workload import CountProgress
from memorisk.training.engine.devices import exact_products, place
from memorisk.training.engine.optimization import step_seeds
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.pixels import (
    Images,
    Normalisation,
    PixelSource,
    build_augmentation,
    check_images,
    choose_normalisation,
)

MAX_BATCH = 256
_PIXELS_PER_BATCH = 1 << 22


def batch_of_size(height: int, width: int) -> int:
    """Return images per batch: 256, or as many as hold 4,194,304 pixels (83 at 224 px).

    It depends on the image size alone, never on the device or on free memory, so that the same command gives the same
    bytes.
    """
    return int(max(1, min(MAX_BATCH, _PIXELS_PER_BATCH // (height * width))))


def predict_batch_size(images: Images) -> int:
    """Return the images per batch of a prediction, by `batch_of_size`."""
    return MAX_BATCH if images.ndim == 2 else batch_of_size(images.shape[1], images.shape[2])


def predict_logits(
    model: nn.Module,
    images: Images,
    rows: np.ndarray | None,
    options: TrainOptions,
    device: str | torch.device = "cpu",
    *,
    normalisation: Normalisation | None = None,
) -> np.ndarray:
    """Compute logits of chosen images, in float32 for any precision of the training: M is a difference of losses.

    Args:
        model: The network; its training or evaluation mode is restored afterwards.
        images: Images of the set, as for `fit`.
        rows: Rows of the chosen images, [n]; None for all.
        options: Settings the network was trained with (``normalise`` is used).
        device: Device to compute on, "cpu", "cuda" or "cuda:1".
        normalisation: Scaling of the pixels in the training (`FitLog.normalisation`); by default that of all
            ``images``, which is the training's own if these are the same images.

    Returns:
        Logits of the images, [n, k] float32.

    Raises:
        InputError: Images, rows or options do not fit together, or rows are missing.
    """
    chosen = np.arange(len(images)) if rows is None else np.asarray(rows, dtype=np.int64)
    return map_images(model, model, images, chosen, options, device, normalisation)


def predict_augmented(
    model: nn.Module,
    images: Images,
    options: TrainOptions,
    device: str | torch.device = "cpu",
    *,
    passes: int,
    normalisation: Normalisation | None = None,
) -> np.ndarray:
    """Compute logits of every image under several of its augmentations, those of the network's training.

    Paper 000, appendix, "Single-pass versus five-augmentation scoring": the earlier protocol of some of its tables.
    The draws depend on the pass and the image's place alone, so that every model sees the same augmented images.

    Args:
        model: The network, as for `predict_logits`.
        images: Images of the set.
        options: Settings of its training; ``augment`` is used, too.
        device: Device to compute on.
        passes: Number of augmentations of each image.
        normalisation: Scaling of the pixels.

    Returns:
        Logits by pass, [passes, N, k] float32.

    Raises:
        InputError: As `predict_logits`, or the options name no augmentation, or one that changes no pixel.
    """
    everything = np.arange(len(images))
    normalisation = normalisation or choose_normalisation(images, options.normalise)
    source = PixelSource(
        images, everything, device=check_device(device), dtype=torch.float32, normalisation=normalisation
    )
    augment = build_augmentation(options.augmentations, source)
    if augment is None:
        raise InputError("scoring on augmented images needs the training's augmentation: name it with augment")
    batches = -(-len(images) // predict_batch_size(images))

    def one_pass(number: int) -> np.ndarray:
        """Compute logits of the images under one draw of the augmentation."""
        seeds = iter(step_seeds(0, number, batches))
        return map_images(
            model, lambda x: model(augment(x, next(seeds))), images, everything, options, device, normalisation
        )

    return np.stack([one_pass(number) for number in range(passes)])


def map_images(
    model: nn.Module,
    function: Callable[[torch.Tensor], torch.Tensor],
    images: Images,
    rows: np.ndarray,
    options: TrainOptions,
    device: str | torch.device,
    normalisation: Normalisation | None,
) -> np.ndarray:
    """Apply a function of the network to chosen images, in evaluation mode: [b, C, H, W] to [n, ...] float32."""
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
            return gather_rows((function(x).float().cpu().numpy() for x in source.batches(slots)), len(rows))
    finally:
        model.train(was_training)


def gather_rows(batches: Iterator[np.ndarray], n: int, progress: CountProgress | None = None) -> np.ndarray:
    """Copy batches one after another into one array [n, ...], float32.

    Each is copied and freed. When all were kept till the end, small results between large freed blocks kept the
    allocator from using these again, and memory grew by 20 kB per image (benchmarks/results/memory.json).

    Args:
        batches: Results of the images, [b, ...] each.
        n: Number of images.
        progress: Function called with images done and their number.
    """
    values, done = np.empty((n, 0), dtype=np.float32), 0
    for batch in batches:
        if not done:
            values = np.empty((n, *batch.shape[1:]), dtype=np.float32)
        values[done : done + len(batch)] = batch
        done += len(batch)
        if progress is not None:
            progress(done, n)
    return values
