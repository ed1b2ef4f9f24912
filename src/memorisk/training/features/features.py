"""Features of frozen networks: what the linear head would see, for every image of a store, batch by batch.

Paper 000, A.4; METHODS section 1, "Distinctiveness, measured". One pass, evaluation mode, no augmentation, float32
throughout (the paper autocasts to bfloat16). Images are resized to what the network was made for, bilinear with
antialias, and grey ones get three equal channels where it was trained on colour. ``memorisk.training.features.matrix``
computes features by the same batches, keeps them and says what they are of.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import torch
from torch import nn

from memorisk.models.blackbox.preprocessing import Preprocessing
from memorisk.models.classifiers.specs import ModelSpec
from memorisk.models.classifiers.zoo import create_model
from memorisk.models.encoders.encoders import check_network
from memorisk.models.encoders.networks import Trunk
from memorisk.runs.devices import check_device
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.progress import Counted
from memorisk.training.engine.pixels import Images, Normalisation, check_images, model_normalisation
from memorisk.training.features.extraction import MAX_BATCH, feature_batch_size, feature_batches

__all__ = ["MAX_BATCH", "check_feature_network", "extract_features", "feature_network"]


def feature_network(
    name: str, weights: str | Path | None, *, size: int | None = None, stored_size: int
) -> tuple[nn.Module, ModelSpec, int]:
    """A network by name for features, and the size it gets images in.

    Args:
        name: As for ``create_model``.
        weights: A file, "default" or a tag to download, or "none" for random ones, which must be said.
        size: Pixels a side; by default what timm's networks were trained at, and the store's for memorisk's own.
        stored_size: Pixels a side of the store's images.

    Raises:
        InputError: No weights are named, or as ``create_model``.
    """
    spec = check_feature_network(name, weights)
    side = size or (stored_size if spec.source == "memorisk" else spec.image_size)
    if side < 1:
        raise InputError(f"--feature-size is {size}; it must be at least 1")
    model = create_model(name, num_classes=2, in_chans=3, image_size=side, weights=weights, seed=0)
    return model, spec, side


def check_feature_network(name: str, weights: str | Path | None) -> ModelSpec:
    """Refuse a network for features that does not exist or whose weights nobody named; nothing is built.

    Args:
        name: As for `feature_network`.
        weights: Likewise.

    Raises:
        InputError: There is no such network or weights file, or no weights are named.
    """
    if weights is None:
        check_network(name, "none")
        raise InputError(
            f"features of {one_line(name, 60)} need its pre-trained weights: name their file with --feature-weights, "
            "'default' to download them, or 'none' for random ones"
        )
    return check_network(name, weights)


def extract_features(
    model: nn.Module | str,
    images: Images,
    *,
    weights: str | Path | None = None,
    size: int | None = None,
    normalisation: Normalisation | None = None,
    device: str | torch.device = "cpu",
    progress: Counted | None = None,
) -> np.ndarray:
    """Pre-head features of every image, not normalised to length 1 (``scores.atypicality`` does that).

    Args:
        model: A network, which gets the images in the channels they are stored in; or a name, which gets three
            channels and its own size and normalisation.
        images: uint8 or uint16 [N, H, W, C], read batch by batch (a store's memory map stays on the disk).
        weights: With a name: as for ``feature_network``.
        size: Pixels a side that images are resized to; for a network given as such, None leaves them as they are.
        normalisation: Of a network given as such: its training's; by default pixels in [0, 1].
        device: Where to compute.
        progress: Called with images done and their number.

    Returns:
        [N, d] float32.

    Raises:
        InputError: As ``feature_network``; or the network does not take the images or has no features of its own.
    """
    check_images(images)
    if images.ndim != 4 or not len(images):
        raise InputError(f"images have the shape {tuple(images.shape)}; features need pixels [N, H, W, C]")
    channels = int(images.shape[-1])
    if isinstance(model, str):
        model, spec, size = feature_network(model, weights, size=size, stored_size=int(images.shape[1]))
        channels, normalisation = 3, model_normalisation(spec, 3)
    normalisation = normalisation or Normalisation((0.0,) * channels, (1.0,) * channels)
    sides = (size, size) if size else (int(images.shape[1]), int(images.shape[2]))
    batches = feature_batches(
        Trunk(model),
        images,
        np.arange(len(images)),
        Preprocessing(sides, channels, normalisation.mean, normalisation.std),
        device=check_device(device),
        batch=feature_batch_size((max(sides), max(sides))),
        name=type(model).__name__,
    )
    with closing(batches):
        return _gathered(batches, len(images), progress)


def _gathered(batches: Iterator[np.ndarray], n: int, progress: Counted | None) -> np.ndarray:
    """Batches one after another in one array [n, d]; each is copied and let go, so that memory does not grow."""
    values, done = np.empty((n, 0), dtype=np.float32), 0
    for features in batches:
        if not done:
            values = np.empty((n, features.shape[1]), dtype=np.float32)
        values[done : done + len(features)] = features
        done += len(features)
        if progress is not None:
            progress(done, n)
    return values
