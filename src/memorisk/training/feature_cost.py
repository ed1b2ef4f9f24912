"""What the features of images take: a pass of every image with pixels of its own, and their bytes."""

from collections.abc import Sequence

import numpy as np

from memorisk.models.detectors import Detector
from memorisk.models.features import FeatureSource
from memorisk.models.lcmem import LatentDetector
from memorisk.runs.cost import Cost

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
    if source.kind == "pca" and source.weights is None:
        return source.components
    return None if detector is None else int(detector.config.dimension)
