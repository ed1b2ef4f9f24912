"""Features of frozen networks: what the linear head would see, for every image of a store, batch by batch.

Paper 000, A.4; METHODS section 1, "Distinctiveness, measured". One pass, evaluation mode, no augmentation, float32
throughout (the paper autocasts to bfloat16). Images are resized to what the network was made for, bilinear with
antialias, and grey ones get three equal channels where it was trained on colour.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from memorisk.models.parts import trunk_output
from memorisk.models.specs import ModelSpec, model_spec
from memorisk.models.zoo import create_model, is_download
from memorisk.runs.devices import check_device
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.progress import Counted
from memorisk.training.devices import exact_products, place
from memorisk.training.pixels import Images, Normalisation, PixelSource, check_images, model_normalisation

MAX_BATCH = 256
_PIXELS_PER_BATCH = 1 << 22
_AS_STORED = Normalisation((0.0,), (1.0,))


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
    spec = model_spec(name)
    if weights is None:
        raise InputError(
            f"features of {one_line(name, 60)} need its pre-trained weights: name their file with --feature-weights, "
            "'default' to download them, or 'none' for random ones"
        )
    if weights != "none" and not is_download(weights, spec) and not Path(weights).is_file():
        raise InputError(f"there is no weights file {one_line(weights)} for {one_line(name, 60)}")
    return spec


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
    where = check_device(device)
    everything = np.arange(len(images))
    source = PixelSource(images, everything, device=where, dtype=torch.float32, normalisation=_AS_STORED)
    prepare = _preparation(normalisation, channels, size, where)
    side = size or max(images.shape[1:3])
    batch = int(max(1, min(MAX_BATCH, _PIXELS_PER_BATCH // side**2)))
    place(model, where)
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode(), exact_products(where):
            slots = torch.arange(len(images)).split(batch)
            return _gathered((_trunk(model, prepare(x)) for x in source.batches(slots)), len(images), progress)
    finally:
        model.train(was_training)


def _gathered(batches: Iterator[torch.Tensor], n: int, progress: Counted | None) -> np.ndarray:
    """Batches one after another in one array [n, d]; each is copied and let go, so that memory does not grow."""
    values, done = np.empty((n, 0), dtype=np.float32), 0
    for features in batches:
        if not done:
            values = np.empty((n, features.shape[1]), dtype=np.float32)
        values[done : done + len(features)] = features.float().cpu().numpy()
        done += len(features)
        if progress is not None:
            progress(done, n)
    return values


def _preparation(
    normalisation: Normalisation, channels: int, size: int | None, device: torch.device
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Pixels in [0, 1] as [b, c, H, W] to what the network sees: channels, size, normalisation, in this order."""
    mean = torch.tensor(normalisation.mean, device=device)[:, None, None]
    std = torch.tensor(normalisation.std, device=device)[:, None, None]

    def prepare(x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] == 1 and channels > 1:
            x = x.expand(-1, channels, -1, -1)
        if size is not None and x.shape[2:] != (size, size):
            x = F.interpolate(x, (size, size), mode="bilinear", antialias=True, align_corners=False)
        return ((x - mean) / std).contiguous(memory_format=torch.channels_last)

    return prepare


def _trunk(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Features [b, d] of a batch."""
    name = type(model).__name__
    try:
        features = trunk_output(model, x)
    except (RuntimeError, AttributeError, AssertionError, TypeError) as error:
        size = tuple(x.shape[1:])
        raise InputError(f"{name} gives no features of images {size}: {one_line(error, 160)}") from None
    if features.ndim != 2:
        raise InputError(f"{name} gives features of shape {tuple(features.shape)}; one vector per image is needed")
    return features
