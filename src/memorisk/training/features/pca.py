"""Principal components of pixels, fitted on reference images only.

Exact, in float64: the eigenvectors of the smaller of the two matrices X'X [D, D] and XX' [n, n] of centred pixels,
accumulated in blocks, so that images are never held as floats. Components that the reference images do not span are
refused, since their direction would be rounding.
"""

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import scipy
import torch

from memorisk.models.encoders.networks import FlattenPixels, PixelPca, stored_preprocessing
from memorisk.runs.errors import InputError
from memorisk.runs.workload import CountProgress
from memorisk.training.engine.pixels import check_images
from memorisk.training.features.extraction import feature_batches

_LARGEST = 8192  # side of the matrix whose eigenvectors are computed
_BLOCK_VALUES = 1 << 23  # float64 values of a block of rows, 64 MiB
_RANK = 1e-13  # eigenvalues below this share of the largest are rounding
_TIE = 1e-9


def fit_pixel_pca(
    images: np.ndarray,
    components: int,
    *,
    rows: np.ndarray | None = None,
    side: int | None = None,
    progress: CountProgress | None = None,
) -> PixelPca:
    """Fit principal components to the pixels of reference images.

    Pixels x in [0, 1] of image i are centred, ``X = x - mean(x)``; the directions are the eigenvectors of X'X by
    falling eigenvalue, and the variances its eigenvalues over n - 1 (Jolliffe, Principal Component Analysis, 2002,
    section 3.5; signs as `PixelPca` says).

    Args:
        images: Images, uint8 or uint16 [N, H, W, C]; may be on the disk.
        components: Number of components, K.
        rows: Reference images, by index [n] or mask [N]; None for all. Images given twice count twice.
        side: Side in pixels that images are resized to; None as they are stored.
        progress: Function called with blocks done and their number.

    Returns:
        Fit of the components, with directions [K, h w C].

    Raises:
        InputError: The reference images are fewer than K + 1, their pixels have a lower rank than K, or both pixels and
            images are more than 8,192.
    """
    check_images(images)
    chosen = np.arange(len(images)) if rows is None else np.asarray(rows)
    chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64)
    stored = (int(images.shape[1]), int(images.shape[2]), int(images.shape[3]))
    preprocessing = stored_preprocessing(stored, side)
    shape = (*preprocessing.size, stored[2])
    width, n = int(np.prod(shape)), len(chosen)
    if not 1 <= components < max(n, 2) or components > width or n < 2:
        raise InputError(
            f"{components} principal components need at least {components + 1} reference images and {components} "
            f"pixels; there are {n:,} images of {width:,}"
        )
    if min(width, n) > _LARGEST:
        raise InputError(
            f"PCA of {width:,} pixels fitted on {n:,} images is too large: resize (pca:{components}:32) or fit on at "
            f"most {_LARGEST:,} reference images"
        )
    pixels = _Pixels(images, chosen, side, width)
    mean = sum((block.sum(axis=0) for block in pixels.blocks()), np.zeros(width)) / n
    values, directions = (_by_pixels if width <= n else _by_images)(pixels, mean, components, progress)
    total = float(sum(((block - mean) ** 2).sum() for block in pixels.blocks())) / (n - 1)
    rank = int((values > _RANK * max(total * (n - 1), 0.0)).sum())
    if rank < components:
        raise InputError(
            f"the {n:,} reference images span {rank} of the {components} requested components: request fewer"
        )
    return PixelPca(
        mean=mean,
        directions=_fix_signs(directions),
        variance=values / (n - 1),
        total_variance=total,
        n_fitted=n,
        shape=shape,
        side=side,
    )


class _Pixels:
    """Rows of pixels in blocks, [b, D] float64, which are always the same blocks."""

    def __init__(self, images: np.ndarray, rows: np.ndarray, side: int | None, width: int) -> None:
        self.images, self.width = images, width
        self.preprocessing = stored_preprocessing(
            (int(images.shape[1]), int(images.shape[2]), int(images.shape[3])), side
        )
        self.pieces = [
            rows[i : i + max(1, _BLOCK_VALUES // width)] for i in range(0, len(rows), max(1, _BLOCK_VALUES // width))
        ]

    def blocks(self) -> Iterator[np.ndarray]:
        for piece in self.pieces:
            yield self.block(piece)

    def block(self, rows: np.ndarray) -> np.ndarray:
        batches = feature_batches(
            FlattenPixels(),
            self.images,
            rows,
            self.preprocessing,
            device=torch.device("cpu"),
            dtype=torch.float64,
            keep=True,
        )
        with closing(batches):
            return np.concatenate(list(batches))


def _by_pixels(
    pixels: _Pixels, mean: np.ndarray, components: int, progress: CountProgress | None
) -> tuple[np.ndarray, np.ndarray]:
    """Compute eigenvalues [K] and directions [K, D] from X'X."""
    product = np.zeros((pixels.width, pixels.width))
    for done, block in enumerate(pixels.blocks(), 1):
        centred = block - mean
        product += centred.T @ centred
        if progress is not None:
            progress(done, len(pixels.pieces))
    values, vectors = _largest(product, components)
    return values, np.ascontiguousarray(vectors.T)


def _by_images(
    pixels: _Pixels, mean: np.ndarray, components: int, progress: CountProgress | None
) -> tuple[np.ndarray, np.ndarray]:
    """Compute eigenvalues and directions from XX': directions are X'u / |X'u|."""
    starts = np.cumsum([0, *(len(piece) for piece in pixels.pieces)])
    product = np.zeros((starts[-1], starts[-1]))
    for i, piece in enumerate(pixels.pieces):
        rows_block = pixels.block(piece) - mean
        for j in range(i + 1):
            columns_block = rows_block if i == j else pixels.block(pixels.pieces[j]) - mean
            product[starts[i] : starts[i + 1], starts[j] : starts[j + 1]] = part = rows_block @ columns_block.T
            product[starts[j] : starts[j + 1], starts[i] : starts[i + 1]] = part.T
        if progress is not None:
            progress(i + 1, len(pixels.pieces))
    values, vectors = _largest(product, components)
    directions = np.zeros((components, pixels.width))
    for i, block in enumerate(pixels.blocks()):
        directions += vectors[starts[i] : starts[i + 1]].T @ (block - mean)
    orthonormal, triangle = np.linalg.qr(directions.T)
    return values, np.ascontiguousarray(
        (orthonormal * np.sign(np.where(np.diag(triangle) == 0, 1, np.diag(triangle)))).T
    )


def _largest(product: np.ndarray, components: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute the K largest eigenvalues, falling, and their vectors [m, K]."""
    last = len(product) - 1
    values, vectors = scipy.linalg.eigh(product, subset_by_index=(last - components + 1, last), driver="evr")
    return np.maximum(values[::-1], 0.0), vectors[:, ::-1]


def _fix_signs(directions: np.ndarray) -> np.ndarray:
    """Turn each direction so that its entry of largest magnitude (the first of equals) is positive."""
    size = np.abs(directions)
    first = np.argmax(size >= size.max(axis=1, keepdims=True) * (1 - _TIE), axis=1)
    sign = np.sign(directions[np.arange(len(directions)), first])
    return directions * np.where(sign == 0, 1.0, sign)[:, None]
