"""Detectors at work: features of the training images, and what compares others with them.

Whatever is fitted (principal components, variances) is fitted on the training images: calibration identities must be
new to it, as they must be to a trained detector.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from memorisk.audits.filter.options import HALF, ScreeningOptions
from memorisk.audits.filter.sets import FilterSets
from memorisk.images.store import ImageStore
from memorisk.images.wording import listed
from memorisk.runs.errors import InputError, several
from memorisk.runs.progress import Progress
from memorisk.scores.similarity import Similarity
from memorisk.training.detectors.pair_detectors import PairDetector, open_pair_detector
from memorisk.training.features.matrix import Features

_POINTWISE = ("pixels", "pca")
_SIZED = ("network", "transformers")
"""Kinds of encoders whose input can be set; beside others the setting is theirs alone."""


@dataclass(frozen=True, eq=False)
class Opened:
    """A detector with the training images' features."""

    name: str
    """As a report shows it, told apart from the others."""
    detector: PairDetector
    train_store: ImageStore
    train: Features
    """Of the training images."""
    similarity: Similarity
    """Larger is more alike."""

    @property
    def top(self) -> float:
        """Score of an image and itself: the bias of a head, 0 for minus a distance."""
        return 0.0 if self.detector.head is None else float(self.detector.head.bias)

    def features(self, store: ImageStore, options: ScreeningOptions, progress: Progress) -> Features:
        """Features of any images, computed or found in the cache folder."""
        return _features(self.detector, store, self.train_store, options, progress)

    def usable(self, values: np.ndarray) -> np.ndarray:
        """[n] whether a vector can be compared: finite, and not one for which the measure is undefined."""
        good = np.array(np.isfinite(values).all(axis=1))
        if self.detector.measure in ("cosine", "jensenshannon"):
            good &= values.any(axis=1)
        elif self.detector.measure == "correlation":
            good &= ~(values == values[:, :1]).all(axis=1)
        return good


def open_detectors(options: ScreeningOptions) -> list[PairDetector]:
    """The detectors that a user names.

    Raises:
        InputError: There is no such detector, its features are saved ones, two are the same, or half is asked of one
            without probabilities.
    """
    found = [open_pair_detector(name, measure=options.measure) for name in options.detector]
    for detector in found:
        if detector.source.kind == "saved":
            raise InputError(
                f"{detector.source.shown} holds saved features, and the calibration needs those of copies: "
                "name what computed them"
            )
    if options.threshold:
        for detector, value in zip(found, options.threshold, strict=True):
            if value == HALF and detector.head is None:
                raise InputError(f"threshold half is P = 0.5, and {detector.name} gives no probability: give a score")
    return found


def is_weak(detector: PairDetector) -> bool:
    """Whether images are compared point by point, or by weights that nobody trained."""
    source = detector.source
    return source.kind in _POINTWISE or (source.kind == "network" and source.weights == "none")


def detector_names(detectors: Sequence[PairDetector]) -> list[str]:
    """Names of a report, numbered where several detectors lie in folders of one name.

    Args:
        detectors: As they were given.
    """
    names = [detector.name for detector in detectors]
    return [name if names.count(name) == 1 else f"{name} ({i + 1})" for i, name in enumerate(names)]


def open_all(
    detectors: Sequence[PairDetector], sets: FilterSets, options: ScreeningOptions, progress: Progress
) -> list[Opened]:
    """Features of the training images by every detector, and what compares them.

    Raises:
        InputError: Features cannot be had, or some training images cannot be compared (listed).
    """
    found = []
    for name, detector in zip(detector_names(detectors), detectors, strict=True):
        train = _features(detector, sets.train, sets.train, options, progress)
        opened = Opened(name, detector, sets.train, train, detector.similarity(train.values))
        bad = np.flatnonzero(~opened.usable(train.values))
        if len(bad):
            raise InputError(
                f"{several(len(bad), 'training image has', 'training images have')} features by {detector.name} that "
                f"are not finite or cannot be compared ({listed(train.ids[bad])}); leave them out"
            )
        found.append(opened)
    return found


def _features(
    detector: PairDetector, store: ImageStore, reference: ImageStore, options: ScreeningOptions, progress: Progress
) -> Features:
    sized = detector.source.kind in _SIZED or len(options.detector) == 1  # alone it says what is wrong itself
    return detector.features(
        store,
        reference=reference,
        size=options.input_size if sized else None,
        normalise=options.normalise if sized else None,
        device=options.device,
        precision=options.precision,
        progress=progress,
    )
