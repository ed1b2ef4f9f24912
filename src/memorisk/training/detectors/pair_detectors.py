"""Any detector behind one interface: it turns images into vectors, and scores the similarity of two vectors.

The source is a folder of ``memorisk train detector`` (with a head or a measure), or any source of features with a
measure.
"""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.images.copies.details import COMPONENTS as DETAIL_COMPONENTS
from memorisk.images.copies.details import FLOOR
from memorisk.images.copies.duplicates import SIDE
from memorisk.images.options import ImageOptions
from memorisk.models.copy_detectors import Detector, load_detector
from memorisk.models.encoders.feature_sources import FeatureSource, parse_source
from memorisk.models.lcmem import LatentDetector
from memorisk.models.provenance import CONFIG
from memorisk.models.settings import DEFAULT_DETECTOR
from memorisk.models.windows import GRIDS
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.workload import Progress, no_progress
from memorisk.scores.distances import find_measure, fit_measure
from memorisk.scores.distances.measures import BINARY, POSITIVE
from memorisk.scores.pairs import Head
from memorisk.scores.parts import PLACES, PartsSimilarity, fit_parts
from memorisk.scores.similarity import HeadSimilarity, MeasureSimilarity, Similarity
from memorisk.training.features.compute_backend import LOCAL, ComputeBackend
from memorisk.training.features.matrix import Features, ImageSource, load_features

AUTO = "auto"
COMPONENTS = 64
"""Directions in which windows are compared: with 32 fewer copies lie beyond chance, with 128 as many."""
_NO_NETWORK = ("pixels", "pca", "saved")


@dataclass(frozen=True, eq=False)
class PairDetector:
    """Comparison of two images by vectors and a score."""

    source: FeatureSource
    """Source of the vectors."""
    measure: str | None
    """Name of the distance; None where a head compares."""
    domain: str | None
    """Treatment of negative numbers by measures that need non-negative ones."""
    head: Head | None
    """Head of a Siamese detector; None for a measure."""
    detector: Detector | LatentDetector | None
    """Detector that was loaded from a folder, with the record of its training data."""
    workplace: ComputeBackend = LOCAL
    """Backend that computes its features and searches all pairs."""

    @property
    def name(self) -> str:
        """Name as a report may show it."""
        return self.source.shown if self.measure is None else f"{self.source.shown}, {self.measure}"

    @property
    def fits(self) -> bool:
        """Return whether something is fitted on the vectors that it compares, so that they must be named."""
        return self.source.kind == "pca" or self.measure in (
            "seuclidean",
            "mahalanobis",
            "whitened",
            *BINARY,
            *POSITIVE,
        )

    def working_at(self, workplace: ComputeBackend) -> "PairDetector":
        """Return the same detector, its passes of images and its searches on another backend."""
        return replace(self, workplace=workplace)

    def features(
        self,
        images: ImageSource,
        *,
        options: ImageOptions | None = None,
        reference: Any = None,
        size: int | None = None,
        normalise: str | None = None,
        device: str = "auto",
        precision: str = "auto",
        as_copies: bool = False,
        progress: Progress = no_progress,
    ) -> Features:
        """Compute the vectors of images, or read them from the cache folder.

        Args:
            images: Source of the images, as for `load_features`.
            options: Settings that read the images; not with a store.
            reference: Images that ``pca:K`` is fitted on.
            size: Side in pixels of the input.
            normalise: Mean and deviation of the input.
            device: Device to compute on.
            precision: Arithmetic of the network.
            as_copies: Whether the images are compared as copies of others alone, of which fewer windows are read.
            progress: Function called with (stage, done, total).

        Raises:
            InputError: As `load_features`.
        """
        fitted = self.source.kind == "pca" and self.source.weights is None
        source = replace(self.source, as_copies=as_copies)
        load = partial(load_features, images, source, options=options, reference=reference if fitted else None)
        how = {"size": size, "normalise": normalise, "device": device, "precision": precision}
        return load(work=self.workplace.features, progress=progress, **how)

    def similarity(self, reference: np.ndarray) -> Similarity:
        """Open the comparison of its vectors; a measure is fitted on the given vectors where it needs a fit.

        Args:
            reference: Vectors to fit on, [N, d].

        Raises:
            InputError: The measure does not take some rows.
        """
        if self.head is not None:
            return HeadSimilarity(self.head, self.workplace.search)
        assert self.measure is not None
        if self.source.parts is not None:
            assert self.detector is not None
            windows = reference.shape[1] // int(self.detector.config.dimension)
            fitted = fit_parts(reference.reshape(len(reference), windows, -1), COMPONENTS)
            return PartsSimilarity(fitted, windows, self.source.parts, slices=windows // GRIDS[self.source.parts].n)
        if self.source.is_details:
            slices = reference.shape[1] // SIDE**2
            components = max(1, min(DETAIL_COMPONENTS, len(reference) // 4))
            fitted = fit_parts(reference.reshape(len(reference), slices, -1), components, floor=FLOOR)
            return PartsSimilarity(fitted, slices, PLACES, slices=slices)
        domain = self.domain if self.measure in POSITIVE else None
        binarise = "median" if self.measure in BINARY else None
        measure = fit_measure(self.measure, reference, domain=domain, binarise=binarise)
        return MeasureSimilarity(measure, self.workplace.search)


def open_pair_detector(source: str | Path, *, measure: str = AUTO, domain: str | None = None) -> PairDetector:
    """Open a detector by the name that a user gives.

    Args:
        source: Source of the vectors: ``default``, the folder of a detector, with or without ``detector:``, or
            any source of features (`memorisk.models.encoders.feature_sources`).
        measure: Name of one of the 15 measures; "auto" is a detector's own or its head, cosine for encoders, Euclidean
            for pixels, PCA and saved features.
        domain: Treatment of negative numbers by braycurtis, canberra and jensenshannon.

    Raises:
        InputError: The source or measure does not exist, or the detector's files are damaged.
    """
    text = str(source)
    is_folder = text != DEFAULT_DETECTOR and (Path(text) / CONFIG).is_file()
    features = parse_source(f"detector:{text}" if is_folder else text)
    detector = load_detector(features.folder) if features.kind == "detector" else None
    head = getattr(detector, "head", None) if measure == AUTO else None
    if head is not None:
        return PairDetector(features, None, None, head, detector)
    name = measure
    if name == AUTO:
        name = "euclidean" if features.kind in _NO_NETWORK else "cosine"
        name = "whitened" if features.by_parts else name
        name = detector.config.measure if detector is not None else name
    find_measure(name)
    if features.by_parts and name != "whitened":
        raise InputError(
            f"{features.shown} is compared by its own measure, not by {one_line(name, 60)}: leave the measure out"
        )
    return PairDetector(features, name, domain, None, detector)
