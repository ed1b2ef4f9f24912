"""The similarity of two images of a benchmark: by vectors with a head or a measure, or by pixels.

A larger value is more alike, in every form. Scores of different forms do not compare; their order does. The
pixel-wise baselines of paper 004's table 2 are:

MSE: -mean (x - y)^2 on the scale of 8 bits;  NCC: Pearson's correlation of all pixels and channels;
SSIM: mean structural similarity (Wang et al., 2004), Gaussian window of 11, sigma 1.5, by kornia.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray

from memorisk.images.store import ImageStore
from memorisk.runs.errors import InputError, MissingExtraError
from memorisk.runs.workload import Progress, no_progress
from memorisk.scores import distances
from memorisk.scores.similarity import LOCAL_SEARCH, MeasureSimilarity, Search, Similarity
from memorisk.studies.engine.encoders import features_description, refuse_not_finite
from memorisk.studies.pairs.detectors import BenchmarkDetector
from memorisk.training.features.compute_backend import LOCAL, ComputeBackend
from memorisk.training.features.matrix import load_features
from memorisk.training.features.pca import fit_pixel_pca

FloatArray = NDArray[np.float64]
WINDOW = 11
SMALLEST = WINDOW // 2 + 1
"""Least side in pixels that the window reflects into."""
_AT_ONCE = 1 << 21  # numbers of a batch


def pixel_scores(name: str, first: np.ndarray, second: np.ndarray, *, device: str = "cpu") -> FloatArray:
    """Score how alike each image is to its partner.

    Args:
        name: "mse", "ncc" or "ssim".
        first: Pixels of the first images, uint8 or uint16 [n, H, W, C].
        second: Pixels of the second images, of the same shape and type.
        device: Device that computes SSIM.

    Returns:
        Scores of the pairs, [n] float64; NaN where an image of one value has no correlation.

    Raises:
        InputError: Shapes differ, or images are too small for SSIM's window.
        MissingExtraError: SSIM needs kornia, which is missing.
    """
    if first.shape != second.shape or first.dtype != second.dtype or first.ndim != 4:
        raise InputError(f"images {first.shape} and {second.shape} cannot be compared pixel by pixel")
    size = max(1, _AT_ONCE // int(np.prod(first.shape[1:])))
    scores = np.empty(len(first))
    for start in range(0, len(first), size):
        some = slice(start, start + size)
        scores[some] = _batch(name, first[some], second[some], device)
    return scores


def _batch(name: str, first: np.ndarray, second: np.ndarray, device: str) -> FloatArray:
    if name == "ssim":
        return _ssim(first, second, device)
    x, y = (a.reshape(len(a), -1).astype(np.float64) * (255 / np.iinfo(a.dtype).max) for a in (first, second))
    if name == "mse":
        return -np.square(x - y).mean(axis=1)
    x, y = (a - a.mean(axis=1, keepdims=True) for a in (x, y))
    length = np.sqrt(np.square(x).sum(axis=1) * np.square(y).sum(axis=1))
    constant = (first == first[:, :1, :1, :1]).all(axis=(1, 2, 3)) | (second == second[:, :1, :1, :1]).all(
        axis=(1, 2, 3)
    )
    return np.divide((x * y).sum(axis=1), length, out=np.full(len(x), np.nan), where=~constant)


def _ssim(first: np.ndarray, second: np.ndarray, device: str) -> FloatArray:
    """Compute SSIM by kornia, averaged over pixels and channels."""
    if min(first.shape[1:3]) < SMALLEST:
        raise InputError(f"SSIM looks through a window of {WINDOW} pixels; images of {first.shape[1]} are too small")
    try:
        from kornia.metrics import ssim
    except ImportError:
        raise MissingExtraError("kornia", "detectors", "SSIM") from None
    x, y = (_planes(a, device) for a in (first, second))
    with torch.inference_mode():
        return ssim(x, y, WINDOW, max_val=255.0).double().mean(dim=(1, 2, 3)).cpu().numpy()


def _planes(images: np.ndarray, device: Any) -> torch.Tensor:
    """Return float32 planes on the scale of 8 bits, [n, C, H, W]."""
    scaled = images.astype(np.float32) * np.float32(255 / np.iinfo(images.dtype).max)
    return torch.from_numpy(scaled).movedim(-1, 1).contiguous().to(device)


SIMILARITIES = ("cosine", "correlation")
"""Distances that are shown as a similarity, 1 less the distance."""
MOST_PIXELS = 1 << 30
"""Largest number of pixel values that are compared one against all: 4 GiB."""
NO_SEARCH = "each pair is computed by itself, so that nothing is compared one against all"


@dataclass(eq=False)
class VectorSimilarity:
    """Similarity of vectors of all images, compared by a head or a measure."""

    values: np.ndarray
    similarity: Similarity
    shift: float
    source: Any
    how: dict[str, Any]
    described: dict[str, Any]

    @property
    def device(self) -> str:
        """Return the device that compares all pairs; the answers are the same bits everywhere."""
        return "cuda" if str(self.how["device"]).startswith("cuda") else "cpu"

    @property
    def at_half(self) -> float:
        """Return 0, the logit of one half, for a head."""
        return self.similarity.at_half

    def scores(self, first: np.ndarray, second: np.ndarray) -> FloatArray:
        """Score row by row."""
        return self._between(self.values[first], self.values[second])

    def copies(self, copies: ImageStore, rows: np.ndarray) -> FloatArray:
        """Score copies by features that are computed and not kept."""
        features = load_features(copies, self.source, cache=False, **self.how)
        refuse_not_finite(features, "copies")
        return self._between(features.values, self.values[rows])

    def closest(self, rows: np.ndarray, groups: np.ndarray) -> FloatArray | None:
        """Search all pairs, exactly."""
        some = self.values[rows]
        nearest = self.similarity.nearest(some, some, 1, exclude_same=(groups, groups), device=self.device)
        return nearest.scores[:, 0] + self.shift

    def histogram(self, rows: np.ndarray, groups: np.ndarray, edges: ArrayLike) -> NDArray[np.int64] | None:
        """Count all pairs, exactly."""
        bounds = np.asarray(edges, dtype=np.float64) - self.shift
        return self.similarity.histogram(self.values[rows], bounds, exclude_same=groups, device=self.device)

    def _between(self, first: np.ndarray, second: np.ndarray) -> FloatArray:
        scores = np.full(len(first), np.nan)
        good = self._defined(first) & self._defined(second)
        if good.any():
            scores[good] = self.similarity.scores(first[good], second[good]) + self.shift
        return scores

    def _defined(self, values: np.ndarray) -> NDArray[np.bool_]:
        """Return the rows that the measure takes: zero vectors have no cosine, constant ones no correlation."""
        if not isinstance(self.similarity, MeasureSimilarity) or self.similarity.measure.name not in SIMILARITIES:
            return np.ones(len(values), dtype=bool)
        constant = values.max(axis=1) == values.min(axis=1)
        return ~constant if self.similarity.measure.name == "correlation" else (values != 0).any(axis=1)


@dataclass(eq=False)
class PixelSimilarity:
    """Similarity of pixels, compared as they are stored."""

    name: str
    images: np.ndarray
    device: str
    described: dict[str, Any]
    search: Search = LOCAL_SEARCH
    at_half = float("nan")

    def scores(self, first: np.ndarray, second: np.ndarray) -> FloatArray:
        """Score in blocks, so that few images are in memory at once."""
        scores = np.empty(len(first))
        for start in range(0, len(first), 4096):
            some = slice(start, start + 4096)
            scores[some] = pixel_scores(
                self.name, self.images[first[some]], self.images[second[some]], device=self.device
            )
        return scores

    def copies(self, copies: ImageStore, rows: np.ndarray) -> FloatArray:
        """Score the copies row by row."""
        return pixel_scores(self.name, np.asarray(copies.images), self.images[rows], device=self.device)

    def closest(self, rows: np.ndarray, groups: np.ndarray) -> FloatArray | None:
        """Search MSE and NCC as squared Euclidean and correlation distance; SSIM has no such form."""
        vectors = self._vectors(rows)
        return None if vectors is None else vectors.closest(np.arange(len(rows)), groups)

    def histogram(self, rows: np.ndarray, groups: np.ndarray, edges: ArrayLike) -> NDArray[np.int64] | None:
        """Count by the same measures, over all pairs."""
        vectors = self._vectors(rows)
        return None if vectors is None else vectors.histogram(np.arange(len(rows)), groups, edges)

    def _vectors(self, rows: np.ndarray) -> VectorSimilarity | None:
        """Return the pixels as vectors whose distance is the score; None where there are none."""
        d = int(np.prod(self.images.shape[1:]))
        if self.name == "ssim" or len(rows) * d > MOST_PIXELS:
            return None
        # A factor turns the sum of squared differences into the mean on the scale of 8 bits.
        scale = 255 / np.iinfo(self.images.dtype).max / np.sqrt(d) if self.name == "mse" else 1.0
        values = self.images[rows].reshape(len(rows), d).astype(np.float64) * scale
        measure = distances.fit_measure({"mse": "sqeuclidean", "ncc": "correlation"}[self.name], values)
        shift = 1.0 if self.name == "ncc" else 0.0
        return VectorSimilarity(
            values, MeasureSimilarity(measure, self.search), shift, None, {"device": self.device}, {}
        )


ImageSimilarity = VectorSimilarity | PixelSimilarity
"""Similarity of the images of a store, by the scores of pairs; larger is more alike, NaN is not defined."""


def open_similarity(
    contender: BenchmarkDetector,
    store: ImageStore,
    reference: np.ndarray,
    *,
    size: int | None,
    precision: str,
    device: str,
    workplace: ComputeBackend = LOCAL,
    progress: Progress = no_progress,
) -> ImageSimilarity:
    """Open the similarity by which a detector compares a store's images; vectors are computed or read.

    Args:
        contender: Detector that compares the images.
        store: Store of the images.
        reference: Rows that PCA and measures are fitted on.
        size: Side in pixels of the networks' input.
        precision: Numeric precision of networks.
        device: Device that computes them.
        workplace: Backend whose machines compute them and compare all pairs.
        progress: Function that is called with (stage, done, total).

    Raises:
        InputError: The features cannot be computed or are not finite, or the measure does not take them.
    """
    if contender.pixel is not None:
        description = {"encoder": contender.compares, "dimension": int(np.prod(store.images.shape[1:])), "notes": []}
        return PixelSimilarity(contender.pixel, store.images, device, description, workplace.search)
    assert contender.detector is not None
    detector = contender.detector.working_at(workplace)
    source: Any = detector.source
    if source.kind == "pca" and source.weights is None:
        source = fit_pixel_pca(store.images, int(source.components or 0), rows=reference, side=source.side)
    how: dict[str, Any] = {"device": device, "precision": precision, "work": workplace.features}
    if detector.source.kind in ("network", "transformers"):
        how["size"] = size
    features = load_features(store, source, progress=progress, **how)
    refuse_not_finite(features, "images")
    similarity = detector.similarity(features.values[reference])
    shift = 1.0 if detector.measure in SIMILARITIES else 0.0
    described = features_description(features, with_rows=False) | {"encoder": contender.compares}
    return VectorSimilarity(features.values, similarity, shift, source, how, described)


def copies_store(store: ImageStore, images: np.ndarray, rows: np.ndarray, hashes: Sequence[str]) -> ImageStore:
    """Return copies of some images as a store, in the order of the rows that they are copies of.

    Args:
        store: Store of the images.
        images: Pixels of the copies, [n, H, W, C].
        rows: Rows of the copied images, [n].
        hashes: Hashes of the copies' pixels, [n].
    """
    nothing = pd.DataFrame({"image": [], "path": [], "reason": []}, dtype=object)
    return replace(
        store, images=images, manifest=store.manifest.subset(rows), skipped=nothing,
        pixel_hashes=np.array(hashes, dtype=object),
    )  # fmt: skip
