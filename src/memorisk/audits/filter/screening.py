"""Every synthetic image against the whole training set, and which are rejected, by what.

One against all and exact: the best score of an image over all training images (METHODS section 4, "Use"), so that a
threshold's cost is that of a synthetic image, not of a pair.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from memorisk.audits.filter.measuring import Opened
from memorisk.audits.filter.options import ScreeningOptions
from memorisk.audits.filter.sets import FilterSets
from memorisk.images.copies.orientations import SamePixels, same_pixels
from memorisk.images.store import ImageStore
from memorisk.runs.devices import check_device
from memorisk.runs.progress import Progress

SCORE, PIXELS, NO_SCORE = "score", "same pixels", "no score"


@dataclass(frozen=True, eq=False)
class Matches:
    """The training image most alike to each of some images, by one detector."""

    score: np.ndarray
    """[n]; NaN for images that cannot be compared."""
    row: np.ndarray
    """[n] of the training image; -1 for those."""
    second: np.ndarray
    """[n] score of the most alike training image of another patient, where the first reaches the threshold; else NaN;
    -inf where there is no other patient."""


@dataclass(frozen=True, eq=False)
class Screened:
    """What every detector says of the synthetic and of the calibration images."""

    thresholds: tuple[float, ...]
    """Of each detector."""
    synthetic: tuple[Matches, ...]
    """[S] images each."""
    real: tuple[Matches, ...]
    """[M] calibration images each; none without them."""
    same: SamePixels
    """[S] with training images: as they are, mirrored or turned."""

    @property
    def identical(self) -> np.ndarray:
        """[S] row of the training image with the same pixels; -1 for none."""
        return self.same.row

    def reaches(self, matches: Sequence[Matches]) -> np.ndarray:
        """[D, n] whether an image reaches the threshold, detector by detector."""
        pairs = zip(matches, self.thresholds, strict=True)
        return np.array([np.nan_to_num(m.score, nan=-np.inf) >= threshold for m, threshold in pairs], dtype=bool)

    @property
    def reason(self) -> np.ndarray:
        """[S] why an image is rejected; empty for those that are kept."""
        found = np.full(len(self.identical), "", dtype=object)
        for matches in self.synthetic:
            found[matches.row < 0] = NO_SCORE
        found[self.reaches(self.synthetic).any(axis=0)] = SCORE
        found[self.identical >= 0] = PIXELS
        return found

    @property
    def decisive(self) -> np.ndarray:
        """[S] the detector whose match is told: the first that reaches its threshold, else the first of all."""
        return self.reaches(self.synthetic).argmax(axis=0)

    @property
    def nearest(self) -> np.ndarray:
        """[S] row of the training image that is told: one with the same pixels, else the decisive detector's."""
        by_score = np.array([m.row for m in self.synthetic])[self.decisive, np.arange(len(self.identical))]
        return np.where(self.identical >= 0, self.identical, by_score)

    @property
    def singled_out(self) -> np.ndarray:
        """[S] whether an image points at one training patient only.

        By its very pixels, or since it reaches a threshold with images of one patient only, by some detector.
        """
        pairs = zip(self.synthetic, self.thresholds, self.reaches(self.synthetic), strict=True)
        by_score = np.any([here & (m.second < threshold) for m, threshold, here in pairs], axis=0)
        return np.asarray(by_score | (self.identical >= 0))


def screen(
    opened: Sequence[Opened],
    sets: FilterSets,
    thresholds: Sequence[float],
    options: ScreeningOptions,
    progress: Progress,
) -> Screened:
    """Compare the synthetic images, and the calibration images beside them, with the whole training set.

    Args:
        opened: The detectors.
        sets: The images.
        thresholds: Of each detector.
        options: What compares them, and where.
        progress: Called with (stage, done, total).

    Raises:
        InputError: Features cannot be had.
    """
    ask = partial(_matches, sets=sets, options=options, progress=progress)
    pairs = list(zip(opened, thresholds, strict=True))
    real = () if sets.calibration is None else tuple(ask(o, sets.calibration, t) for o, t in pairs)
    return Screened(
        thresholds=tuple(thresholds),
        synthetic=tuple(ask(o, sets.synthetic, t) for o, t in pairs),
        real=real,
        same=same_pixels(sets.synthetic, sets.train),  # images of one value only count, too
    )


def _matches(
    opened: Opened,
    store: ImageStore,
    threshold: float,
    *,
    sets: FilterSets,
    options: ScreeningOptions,
    progress: Progress,
) -> Matches:
    values = opened.features(store, options, progress).values
    train, device = opened.train.values, str(check_device(options.device))
    patients = sets.train.manifest.groups.astype(str)
    progress("comparing", 0, 0)
    good = np.flatnonzero(opened.usable(np.asarray(values)))
    n = len(values)
    score, row, second = np.full(n, np.nan), np.full(n, -1), np.full(n, np.nan)
    if len(good):
        found = opened.similarity.nearest(values[good], train, device=device)
        score[good], row[good] = found.scores[:, 0] + 0.0, found.rows[:, 0]  # no minus zero
    reaching = np.flatnonzero(score >= threshold)
    if len(reaching):
        same = (patients[row[reaching]], patients)
        second[reaching] = opened.similarity.nearest(values[reaching], train, exclude_same=same, device=device).scores[
            :, 0
        ]
    return Matches(score, row, second)
