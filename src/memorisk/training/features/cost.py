"""What the features of images take: a pass of every image with pixels of its own, and their bytes."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch

from memorisk.models.classifiers.zoo import create_model, model_spec
from memorisk.models.detectors.detectors import Detector
from memorisk.models.detectors.lcmem import LatentDetector
from memorisk.models.encoders.encoders import RANDOM, FeatureSource
from memorisk.models.encoders.pca import PixelPca
from memorisk.models.weights.parts import head_module
from memorisk.runs.cost import Cost
from memorisk.runs.errors import InputError, MissingExtraError

WITHOUT_NETWORK = ("pixels", "pca", "saved")
_FLOAT32 = 4


def features_cost(
    source: FeatureSource,
    pixel_hashes: Sequence[np.ndarray],
    shape: tuple[int, ...],
    detector: Detector | LatentDetector | None = None,
) -> Cost:
    """Of computing and keeping them; images of one set with the same pixels are computed once.

    Args:
        source: What computes them.
        pixel_hashes: Of the images of every set that is computed by itself.
        shape: [..., H, W, C] of an image as it is stored.
        detector: Of a detector's folder, for its dimension.

    Returns:
        Images through a network, a detector over latents as one network, and bytes; these are unknown where only the
        network itself would tell how many numbers it gives.
    """
    if source.kind == "saved":
        return Cost()
    distinct = sum(len(set(hashes.tolist())) for hashes in pixel_hashes)
    d = dimension(source, shape, detector)
    return Cost(
        images_passed=0 if source.kind in WITHOUT_NETWORK else distinct,
        bytes_features=None if d is None else _FLOAT32 * d * sum(map(len, pixel_hashes)),
    )


def dimension(
    source: FeatureSource, shape: tuple[int, ...], detector: Detector | LatentDetector | None = None
) -> int | None:
    """Numbers of a feature; None where only the network itself tells.

    Args:
        source: What computes them.
        shape: [..., H, W, C] of an image as it is stored.
        detector: Of a detector's folder.
    """
    height, width, channels = shape[-3:]
    if source.kind == "pixels":
        return channels * (height * width if source.side is None else source.side**2)
    if source.kind == "pca":
        return source.components if source.weights is None else len(PixelPca.load(source.weights).directions)
    if source.kind == "network":
        return _width(source.name)
    return None if detector is None else int(detector.config.dimension)


@lru_cache(maxsize=64)
def _width(name: str) -> int | None:
    """Inputs of a network's head, which is built without numbers; None where it cannot be, or its head is no layer."""
    try:
        with torch.device("meta"):
            size = model_spec(name).image_size
            network = create_model(name, num_classes=2, in_chans=3, image_size=size, weights=RANDOM, seed=0)
        return head_module(network).in_features
    except (InputError, MissingExtraError, RuntimeError, NotImplementedError, ValueError, TypeError):
        return None
