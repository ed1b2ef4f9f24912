"""Images through an encoder, batch by batch: the one way to compute features, and its cost.

Evaluation mode, no augmentation, no gradients. Images come as integers, are scaled to [0, 1], repeated to three
channels where the encoder needs them, resized (bilinear with antialias) and normalised, in this order, on the device.

`extract_features` gives the input of a linear head, for every image of a store (paper 000, A.4; METHODS section 1,
"Distinctiveness, measured"): float32 throughout, where the paper autocasts to bfloat16. `training.features.matrix`
computes features by the same batches, keeps them and describes them.
"""

from collections.abc import Generator, Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import nn

from memorisk.images.copies.duplicates import SIDE
from memorisk.images.stacked_images import MiddleSlices
from memorisk.images.volumes import is_volume
from memorisk.models.blackbox.preprocessing import Preprocessing
from memorisk.models.classifiers.specs import ModelSpec, model_spec
from memorisk.models.classifiers.zoo import create_model
from memorisk.models.copy_detectors import Detector
from memorisk.models.encoders.feature_sources import RANDOM, FeatureSource, check_feature_network
from memorisk.models.encoders.networks import PixelPca, Trunk, preparation
from memorisk.models.lcmem import LatentDetector
from memorisk.models.network_parts import head_module
from memorisk.models.windows import source_grid
from memorisk.runs.environment import check_device
from memorisk.runs.errors import InputError, MissingExtraError, one_line
from memorisk.runs.workload import Cost, CountProgress
from memorisk.training.engine.devices import autocast, choose_precision, exact_products, place
from memorisk.training.engine.pixels import Images, Normalisation, PixelSource, check_images, model_normalisation
from memorisk.training.engine.predict import batch_of_size, gather_rows

_AS_STORED = Normalisation((0.0,), (1.0,))
_FAILED = (RuntimeError, AttributeError, AssertionError, TypeError, ValueError)


def feature_precision(precision: str, device: torch.device, *, mixed: bool = True) -> str:
    """Resolve a precision: ``auto`` is bf16 on a GPU that computes in it, and fp32 elsewhere.

    Args:
        precision: Arithmetic of the encoder, "auto", "fp32", "bf16" or "fp16".
        device: Device on which features are computed.
        mixed: Whether the encoder may be computed in mixed precision; one that may not keeps its own type.

    Raises:
        InputError: The precision is unknown, or mixed precision is named for a CPU.
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
    """Yield features of chosen images, a batch at a time, in the order of ``rows``.

    While a batch is computed on a GPU, the one before it is copied back and handled by the caller.

    Args:
        model: Network from [b, C, h, w] to [b, d]; its mode and the generators are left as they were.
        images: Images, uint8 or uint16 [N, H, W, C].
        rows: Rows of the chosen images, [n].
        preprocessing: Preprocessing of the model; None for pixels in [0, 1] as they are stored.
        device: Device to compute on.
        precision: Arithmetic of the network, "fp32", "bf16" or "fp16".
        dtype: Type that pixels are converted to.
        batch: Number of images per batch; by default `batch_of_size`.
        name: Name of the model in an error message.
        keep: Whether features keep the type they were computed in.

    Yields:
        Features of a batch, [b, d] float32, or with ``keep`` as computed.

    Raises:
        InputError: The model does not take the images, or does not give one vector per image.
    """
    if batch is not None and batch < 1:
        raise InputError(f"batch is {batch}; it must be at least 1")
    shown_name = name or type(model).__name__
    height, width = preprocessing.size if preprocessing else images.shape[1:3]
    source = PixelSource(images, rows, device=device, dtype=dtype, normalisation=_AS_STORED)
    prepare = preparation(preprocessing, device, dtype)
    slots = torch.arange(len(rows)).split(batch or batch_of_size(int(height), int(width)))
    was_training = model.training
    place(model, device)
    model.eval()
    waiting: torch.Tensor | None = None
    try:
        for x in source.batches(slots) if len(rows) else ():
            with torch.inference_mode(), exact_products(device), autocast(device, precision):
                vectors = _vectors(model, prepare(x), shown_name)
            if waiting is not None:
                yield _on_host(waiting, keep)
            waiting = vectors
        if waiting is not None:
            yield _on_host(waiting, keep)
    finally:
        model.train(was_training)


def _on_host(features: torch.Tensor, keep: bool) -> np.ndarray:
    return (features if keep else features.float()).cpu().numpy()


def _vectors(model: nn.Module, x: torch.Tensor, said: str) -> torch.Tensor:
    """Compute features [b, d] of a batch."""
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


def feature_network(
    name: str, weights: str | Path | None, *, size: int | None = None, stored_size: int
) -> tuple[nn.Module, ModelSpec, int]:
    """Build a network by name for features, and choose the size of its input.

    Args:
        name: Name of the network, as for ``create_model``.
        weights: Weights of the network: a file, "default" or a tag to download, or "none" for random ones.
        size: Side of the input in pixels; by default timm's of the training, and the store's for memorisk's own.
        stored_size: Side of the store's images in pixels.

    Raises:
        InputError: Weights are not named, or as ``create_model``.
    """
    spec = check_feature_network(name, weights)
    side = size or (stored_size if spec.source == "memorisk" else spec.image_size)
    if side < 1:
        raise InputError(f"--feature-size is {size}; it must be at least 1")
    model = create_model(name, num_classes=2, in_chans=3, image_size=side, weights=weights, seed=0)
    return model, spec, side


def extract_features(
    model: nn.Module | str,
    images: Images,
    *,
    weights: str | Path | None = None,
    size: int | None = None,
    normalisation: Normalisation | None = None,
    device: str | torch.device = "cpu",
    progress: CountProgress | None = None,
) -> np.ndarray:
    """Compute pre-head features of every image, not normalised to length 1 (``scores.atypicality`` does that).

    Args:
        model: A network, which gets the images in the channels they are stored in; or a name, which gets three
            channels and its own size and normalisation.
        images: Images, uint8 or uint16 [N, H, W, C], read batch by batch (a store's memory map stays on the disk).
        weights: Weights of a network named by its name, as for ``feature_network``.
        size: Side in pixels that images are resized to; for a network given as such, None leaves them as they are.
        normalisation: Scaling of the pixels for a network given as such: its training's; by default pixels in [0, 1].
        device: Device to compute on.
        progress: Function called with images done and their number.

    Returns:
        Features of the images, [N, d] float32.

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
        batch=batch_of_size(max(sides), max(sides)),
        name=type(model).__name__,
    )
    with closing(batches):
        return gather_rows(batches, len(images), progress)


_WITHOUT_NETWORK = ("pixels", "pca", "saved")
_FLOAT32 = 4


def windows_per_image(source: FeatureSource) -> int:
    """Count the windows of one image that a source embeds; the whole image alone is one.

    Args:
        source: Source of the features.
    """
    grid = source_grid(source.parts, source.as_copies)
    return 1 if grid is None else grid.n


def passes_per_image(source: FeatureSource) -> int:
    """Count the passes of a network for one image: one for each of its windows, none without a network.

    Args:
        source: Source of the features.
    """
    return 0 if source.kind in _WITHOUT_NETWORK else windows_per_image(source)


def by_slices(source: FeatureSource | PixelPca, shape: Sequence[int]) -> bool:
    """Return whether a source compares volumes by their middle slices: a network, and details of thumbnails.

    Args:
        source: Source of the features.
        shape: Shape of an image as it is stored, [..., H, W, C].
    """
    if not is_volume(shape) or isinstance(source, PixelPca):
        return False
    return source.kind not in _WITHOUT_NETWORK or source.is_details


def features_cost(
    source: FeatureSource,
    pixel_hashes: Sequence[np.ndarray],
    shape: tuple[int, ...],
    detector: Detector | LatentDetector | None = None,
) -> Cost:
    """Count the cost of computing and keeping features; images of one set with the same pixels are computed once.

    Args:
        source: Source that computes them.
        pixel_hashes: Hashes of the images of every set that is computed by itself.
        shape: Shape of an image as it is stored, [..., H, W, C].
        detector: Detector of a folder, for its dimension.

    Returns:
        Cost in passes of a network, a detector over latents as one network, and bytes; these are unknown where only the
        network itself could reveal how many numbers it gives.
    """
    if source.kind == "saved":
        return Cost()
    distinct = sum(len(set(hashes.tolist())) for hashes in pixel_hashes)
    d, slices = dimension(source, shape, detector), MiddleSlices.PER_VOLUME if by_slices(source, shape) else 1
    return Cost(
        images_passed=passes_per_image(source) * slices * distinct,
        bytes_features=None if d is None else _FLOAT32 * d * sum(map(len, pixel_hashes)),
    )


def dimension(
    source: FeatureSource, shape: tuple[int, ...], detector: Detector | LatentDetector | None = None
) -> int | None:
    """Return the length of a feature; None where only the network itself determines it.

    Args:
        source: Source that computes them.
        shape: Shape of an image as it is stored, [..., H, W, C].
        detector: Detector of a folder.
    """
    height, width, channels = shape[-3:]
    if by_slices(source, shape):
        of_slice = dimension(source, (height, width, 1), detector)
        return None if of_slice is None else MiddleSlices.PER_VOLUME * of_slice
    if source.is_details:
        return SIDE**2
    if source.kind == "pixels":
        return channels * (height * width if source.side is None else source.side**2)
    if source.kind == "pca":
        return source.components if source.weights is None else len(PixelPca.load(source.weights).directions)
    if source.kind == "network":
        return _width(source.name)
    return None if detector is None else int(detector.config.dimension) * windows_per_image(source)


@lru_cache(maxsize=64)
def _width(name: str) -> int | None:
    """Count the inputs of a network's head, built without memory; None where that fails, or its head is not a layer."""
    try:
        with torch.device("meta"):
            size = model_spec(name).image_size
            network = create_model(name, num_classes=2, in_chans=3, image_size=size, weights=RANDOM, seed=0)
        return head_module(network).in_features
    except (InputError, MissingExtraError, RuntimeError, NotImplementedError, ValueError, TypeError):
        return None
