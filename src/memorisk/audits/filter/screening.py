"""Detectors at work: every synthetic image against the whole training set, and which are rejected, by what.

One against all and exact: the best score of an image over all training images (METHODS section 4, "Use"), so that a
threshold's cost is that of a synthetic image, not of a pair.

Whatever a detector fits (principal components, variances) is fitted on the training images: calibration identities
must be new to it, as they must be to a trained detector.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from memorisk.audits.comparison.features import comparable, display_names, encode
from memorisk.audits.filter.options import HALF, ScreeningOptions
from memorisk.audits.filter.sets import FilterSets
from memorisk.audits.filter.wording import NO_SCORE, OTHER_PIXELS, PIXELS, SCORE
from memorisk.images.copies.near_copies import SamePixels, same_pixels
from memorisk.images.store import ImageStore
from memorisk.runs.environment import check_device
from memorisk.runs.errors import InputError, listed, plural
from memorisk.runs.workload import Progress
from memorisk.scores.similarity import Similarity
from memorisk.training.detectors.pair_detectors import PairDetector, open_pair_detector
from memorisk.training.features.matrix import Features

_SIZED = ("network", "transformers")
"""Kinds of encoders whose input can be set; among other kinds the setting applies to these alone."""


@dataclass(frozen=True, eq=False)
class Matches:
    """The training image most alike to each of some images, by one detector."""

    score: np.ndarray
    """Score of each image and its training image, [n]; NaN for images that cannot be compared."""
    row: np.ndarray
    """Row of the training image, [n]; -1 for images that cannot be compared."""
    second: np.ndarray
    """Score of the most alike training image of another patient, [n], where the first reaches the threshold; else NaN;
    -inf without another patient."""


@dataclass(frozen=True, eq=False)
class ScreeningDetector:
    """A detector with the training images' features."""

    name: str
    """Name of the detector in a report, different from those of the others."""
    detector: PairDetector
    train_store: ImageStore
    train: Features
    """Features of the training images."""
    similarity: Similarity
    """Larger is more alike."""
    options: ScreeningOptions

    @property
    def top(self) -> float:
        """Score of an image and itself: the bias of a head, 0 for minus a distance."""
        return 0.0 if self.detector.head is None else float(self.detector.head.bias)

    def features(self, store: ImageStore, progress: Progress) -> Features:
        """Return features of any images, computed or read from the cache folder."""
        return _features(self.detector, store, self.train_store, self.options, progress)

    def usable(self, values: np.ndarray) -> np.ndarray:
        """Return whether a vector can be compared, [n]."""
        return comparable(values, self.detector)

    def matches(self, store: ImageStore, threshold: float, progress: Progress) -> Matches:
        """Find the training image that is most alike to each image of a store.

        Args:
            store: Images to compare.
            threshold: Threshold from which on the next patient is searched as well.
            progress: Called with (stage, done, total).

        Raises:
            InputError: Features are not available.
        """
        values, train = self.features(store, progress).values, self.train.values
        search = partial(self.similarity.nearest, device=str(check_device(self.options.device)))
        progress("comparing", 0, 0)
        good, n = np.flatnonzero(self.usable(np.asarray(values))), len(values)
        score, row, second = np.full(n, np.nan), np.full(n, -1), np.full(n, np.nan)
        if len(good):
            nearest = search(values[good], train)
            score[good], row[good] = nearest.scores[:, 0] + 0.0, nearest.rows[:, 0]  # no minus zero
        reaching = np.flatnonzero(score >= threshold)
        if len(reaching):
            patients = self.train_store.manifest.groups.astype(str)
            same = (patients[row[reaching]], patients)
            second[reaching] = search(values[reaching], train, exclude_same=same).scores[:, 0]
        return Matches(score, row, second)


def open_detectors(options: ScreeningOptions) -> list[PairDetector]:
    """Open the detectors that a user names.

    Raises:
        InputError: No such detector exists, its features are saved ones, two are the same, or the threshold half is
            given for one without probabilities.
    """
    detectors = [open_pair_detector(name, measure=options.measure) for name in options.detector]
    for detector in detectors:
        if detector.source.kind == "saved":
            raise InputError(
                f"{detector.source.shown} holds saved features, and the calibration needs those of copies: "
                "name what computed them"
            )
    if options.threshold:
        for detector, value in zip(detectors, options.threshold, strict=True):
            if value == HALF and detector.head is None:
                raise InputError(f"threshold half is P = 0.5, and {detector.name} gives no probability: give a score")
    return detectors


def open_screening(
    detectors: Sequence[PairDetector], sets: FilterSets, options: ScreeningOptions, progress: Progress
) -> list[ScreeningDetector]:
    """Compute features of the training images by every detector, and fit what compares them.

    Raises:
        InputError: Features are not available, or some training images cannot be compared (listed).
    """
    screening = []
    for name, detector in zip(display_names(detectors), detectors, strict=True):
        train = _features(detector, sets.train, sets.train, options, progress)
        opened = ScreeningDetector(name, detector, sets.train, train, detector.similarity(train.values), options)
        bad = np.flatnonzero(~opened.usable(train.values))
        if len(bad):
            raise InputError(
                f"{plural(len(bad), 'training image has', 'training images have')} features by {detector.name} that "
                f"are not finite or cannot be compared ({listed(train.ids[bad])}); leave them out"
            )
        screening.append(opened)
    return screening


def _features(
    detector: PairDetector, store: ImageStore, reference: ImageStore, options: ScreeningOptions, progress: Progress
) -> Features:
    sized = detector.source.kind in _SIZED or len(options.detector) == 1  # alone it says what is wrong itself
    return encode(detector, store, reference, options, progress, sized=sized)


def reaching(matches: Sequence[Matches], thresholds: Sequence[float]) -> np.ndarray:
    """Return whether an image reaches the threshold, [D, n], detector by detector.

    Args:
        matches: Matches of the images, by detector.
        thresholds: Threshold of each detector.
    """
    pairs = zip(matches, thresholds, strict=True)
    return np.array([np.nan_to_num(m.score, nan=-np.inf) >= threshold for m, threshold in pairs], dtype=bool)


@dataclass(frozen=True, eq=False)
class Screening:
    """Matches and decisions of every detector for the synthetic and the calibration images."""

    thresholds: tuple[float, ...]
    """Threshold of each detector."""
    synthetic: tuple[Matches, ...]
    """Matches of the S synthetic images, by detector."""
    real: tuple[Matches, ...]
    """Matches of the M calibration images, by detector; none without them."""
    same: SamePixels
    """Identical pixels of the S synthetic images and training images: as they are, mirrored or turned."""
    identical_other: np.ndarray
    """Row of the image with the same pixels in a further part of TRAIN, [S]; -1 for none."""

    @property
    def identical(self) -> np.ndarray:
        """Row of the training image with the same pixels, [S]; -1 for none."""
        return self.same.row

    def reaches(self, matches: Sequence[Matches]) -> np.ndarray:
        """Return whether an image reaches the threshold, [D, n], detector by detector."""
        return reaching(matches, self.thresholds)

    @property
    def reason(self) -> np.ndarray:
        """Reason why an image is rejected, [S]; empty for those that are kept."""
        reason = np.full(len(self.identical), "", dtype=object)
        for matches in self.synthetic:
            reason[matches.row < 0] = NO_SCORE
        reason[self.reaches(self.synthetic).any(axis=0)] = SCORE
        reason[self.identical_other >= 0] = OTHER_PIXELS
        reason[self.identical >= 0] = PIXELS
        return reason

    @property
    def decisive(self) -> np.ndarray:
        """Return the detector whose match is reported, [S]: the first to reach its threshold, else the first."""
        return self.reaches(self.synthetic).argmax(axis=0)

    @property
    def nearest(self) -> np.ndarray:
        """Return the row of the reported training image, [S]: that with the same pixels, else the decisive one's."""
        by_score = np.array([m.row for m in self.synthetic])[self.decisive, np.arange(len(self.identical))]
        return np.where(self.identical >= 0, self.identical, by_score)

    @property
    def singled_out(self) -> np.ndarray:
        """Return whether an image points at one training patient only, [S].

        By its very pixels, or since it reaches a threshold with images of one patient only, by some detector. An image
        with the pixels of a further part shows a person of that part, whatever it scores.
        """
        pairs = zip(self.synthetic, self.thresholds, self.reaches(self.synthetic), strict=True)
        by_score = np.any([here & (m.second < threshold) for m, threshold, here in pairs], axis=0)
        return np.asarray((by_score & (self.identical_other < 0)) | (self.identical >= 0))


def screen(
    opened: Sequence[ScreeningDetector], sets: FilterSets, thresholds: Sequence[float], progress: Progress
) -> Screening:
    """Compare the synthetic and calibration images with the whole training set, and pixels with further parts of it.

    Args:
        opened: Detectors, with the training images' features.
        sets: Images to compare.
        thresholds: Threshold of each detector.
        progress: Called with (stage, done, total).

    Raises:
        InputError: Features are not available.
    """
    nothing = np.full(len(sets.synthetic.images), -1, dtype=np.int64)
    return Screening(
        thresholds=tuple(thresholds),
        synthetic=matches_of(sets.synthetic, opened, thresholds, progress),
        real=matches_of(sets.calibration, opened, thresholds, progress),
        same=same_pixels(sets.synthetic, sets.train),  # images of one value only count, too
        identical_other=nothing if sets.others is None else same_pixels(sets.synthetic, sets.others).row,
    )


def matches_of(
    store: ImageStore | None, opened: Sequence[ScreeningDetector], thresholds: Sequence[float], progress: Progress
) -> tuple[Matches, ...]:
    """Find the training image that is most alike to each image of a store, by each detector; none without a store.

    Other arguments and errors are those of `screen`.
    """
    if store is None:
        return ()
    return tuple(one.matches(store, cut, progress) for one, cut in zip(opened, thresholds, strict=True))
