"""Measurements of an evaluation: how near real patients are to the drawn images, who is listed, equal pixels, and FID.

Nearness and the list are those of METHODS section 5. Equal pixels need no null: they are counted. FID says how like the
training images the drawn ones are, compared with real images at that number.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.comparison.features import comparable
from memorisk.audits.comparison.sets import is_blank
from memorisk.audits.quality.figures import measure_quality
from memorisk.audits.watch.evaluations import LISTED_COLUMNS
from memorisk.audits.watch.options import AUTO, WatchOptions
from memorisk.audits.watch.real_images import RealImages
from memorisk.images.copies.near_copies import same_pixels
from memorisk.images.store import ImageStore
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.workload import Progress, no_progress
from memorisk.statistics.copies.calibration import group_values
from memorisk.statistics.copies.memorized_share import MemorizedShare, memorized_share
from memorisk.statistics.copies.reversed_queries import ReversedQueries, exposures, reversed_queries
from memorisk.training.features.matrix import Features, load_features

_HELD = "held out: "


@dataclass(frozen=True, eq=False)
class Distances:
    """Distances of every real image to its nearest drawn one."""

    train: np.ndarray
    """Distance of each training image to its nearest drawn image, [N]."""
    nearest: np.ndarray
    """Number of that drawn image, [N]."""
    held: np.ndarray
    """Distance of each held-out image to its nearest drawn image, [M]."""
    train_group: np.ndarray
    """Patient of each training image, [N]."""
    held_group: np.ndarray
    """Patient of each held-out image, [M], with names that no training patient has."""
    compared: int
    """Number of drawn images that took part."""


@dataclass(frozen=True, eq=False)
class Nearness:
    """Share, list and summaries of the distances."""

    share: MemorizedShare
    """Memorized share with 95 % limits."""
    floor: float
    """Lower limit of the share that fails with the error of this look; 0 where it has none."""
    queries: ReversedQueries
    """The list at the level that is shown."""
    listed_at_error: bool
    """Whether any patient is listed at the error of this look."""
    listed: pd.DataFrame
    """`LISTED_COLUMNS`, without the step."""
    medians: tuple[float, float]
    """Medians of training and held-out patients' distances."""
    least: tuple[float, float]
    """Smallest of training and held-out patients' distances."""


def distances(real: RealImages, drawn: np.ndarray) -> Distances | None:
    """Find the nearest drawn image of every real one.

    Drawn images for which the measure has no distance (features that are not finite, or that have no direction where
    directions are compared) cannot be copies and take no part.

    Args:
        real: Real images to compare.
        drawn: Features of the drawn images, [S, d].

    Returns:
        The distances; None where no drawn image takes part.
    """
    usable = np.flatnonzero(comparable(drawn, real.detector))
    if not len(usable):
        return None
    queries = np.concatenate([real.train_features.values, real.held_features.values])
    neighbours = real.similarity.reversed.nearest(queries, drawn[usable])
    n = len(real.train_features)
    patients = real.held.manifest.groups.astype(str)
    return Distances(
        train=-neighbours.scores[:n, 0],
        nearest=usable[neighbours.rows[:n, 0]],
        held=-neighbours.scores[n:, 0],
        train_group=real.train.manifest.groups.astype(str),
        held_group=np.char.add(_HELD, patients.astype(str)),
        compared=len(usable),
    )


def nearness(distances: Distances, real: RealImages, options: WatchOptions, error: float) -> Nearness:
    """Compute the share, the list and summaries.

    Share, summaries and the count nearer than every held-out patient are of the images that count
    (`RealImages.counted`); the list compares each patient with held-out ones at as many images, and looks at all.

    Args:
        distances: Result of `distances`.
        real: Real images, for their names and for which of them count.
        options: Rates and levels.
        error: Error of this look; 0 where it can stop nothing.
    """
    four = (distances.train, distances.held, distances.train_group, distances.held_group)
    train, held = real.counted.train, real.counted.held
    counted = (distances.train[train], distances.held[held], distances.train_group[train], distances.held_group[held])
    share = memorized_share(*counted, nominal=options.nominal)
    floor = memorized_share(*counted, nominal=options.nominal, level=1 - 2 * error).low if error else 0.0
    queries = reversed_queries(*four, q=options.level, seed=options.seed)
    at_error = bool(error) and bool(reversed_queries(*four, q=error).listed.n_rejected)
    ours, theirs = group_values(counted[0], counted[2]), group_values(counted[1], counted[3])
    return Nearness(
        share=share,
        floor=floor,
        queries=queries,
        listed_at_error=at_error,
        listed=_listed(distances, queries, real),
        medians=(float(np.median(ours)), float(np.median(theirs))),
        least=(float(ours.min()), float(theirs.min())),
    )


_NO_DISTANCES = {
    **dict.fromkeys(("share", "train_nearest", "held_nearest", "train_least", "held_least"), math.nan),
    **{"share_low": 0.0, "share_high": 1.0, "share_floor": 0.0, "p_value": 1.0, "p_ahead": 1.0},
    **dict.fromkeys(("listed", "shortest_list", "ahead"), 0),
}


def pixel_fields(real: RealImages, drawn: ImageStore) -> dict[str, int]:
    """Return the fields of a look that pixels give: drawn images that are real images, or of one value.

    Args:
        real: Real images.
        drawn: The drawn images.
    """
    blank = is_blank(drawn, np.arange(len(drawn.images)))
    of_training, of_held = (same_pixels(drawn, store).row for store in (real.train, real.held))
    shared = np.isin(real.train.pixel_hashes.astype(str), list(real.shared_hashes))
    return {
        "same_pixels": int(((of_training >= 0) & ~shared[of_training] & ~blank).sum()),
        "held_out_pixels": int(((of_held >= 0) & ~blank).sum()),
        "blank": int(blank.sum()),
    }


def exceeds_rule(nearness: Nearness | None, options: WatchOptions, error: float, n_same_pixels: int) -> bool:
    """Return whether a look reaches what the rule waits for, with the error that it may make.

    Chance does not draw a training image: such a look needs no error.

    Args:
        nearness: Result of `nearness`; None where nothing was compared.
        options: Options with the rule.
        error: Error of this look; 0 where it has none.
        n_same_pixels: Number of drawn images that are training images.
    """
    if options.stop_on == "never":
        return False
    if n_same_pixels or nearness is None or not error:
        return n_same_pixels > 0
    return {
        "share": nearness.floor > options.nominal,
        "test": nearness.share.p_value <= error,
        "listed": nearness.listed_at_error,
    }[options.stop_on]


def evaluation_fields(nearness: Nearness | None) -> dict[str, Any]:
    """Return the fields of a look that distances give."""
    if nearness is None:
        return dict(_NO_DISTANCES)
    return {
        "share": nearness.share.estimate,
        "share_low": nearness.share.low,
        "share_high": nearness.share.high,
        "share_floor": nearness.floor,
        "p_value": nearness.share.p_value,
        "listed": nearness.queries.listed.n_rejected,
        "shortest_list": nearness.queries.shortest_list,
        "ahead": nearness.queries.ahead,
        "p_ahead": nearness.queries.p_ahead,
        "train_nearest": nearness.medians[0],
        "held_nearest": nearness.medians[1],
        "train_least": nearness.least[0],
        "held_least": nearness.least[1],
    }


def _listed(distances: Distances, queries: ReversedQueries, real: RealImages) -> pd.DataFrame:
    """List patients, with the training image and the drawn image that is nearest."""
    exposed = exposures(queries, distances.train, distances.nearest, distances.train_group)
    p = dict(zip(queries.unit.tolist(), queries.p_value.tolist(), strict=True))
    columns = {
        "patient": exposed.unit.astype(object),
        "image": real.train.manifest.images[exposed.image],
        "drawn": exposed.synthetic.astype(np.int64),
        "distance": exposed.distance,
        "p_value": np.array([p[unit] for unit in exposed.unit.tolist()], dtype=np.float64),
    }
    return pd.DataFrame({name: columns[name] for name in LISTED_COLUMNS if name in columns})


NO_FID = "none"
_NUMBERS = ("fid", "fid_low", "fid_high", "fid_same_number", "fid_held_out")


class EvaluationQuality:
    """FID of each look; the features of the real images are computed once.

    Args:
        real: The real images.
        options: Settings of the watch, with the source of features.
        progress: Called with (stage, done, total).

    Raises:
        InputError: The source of features does not exist, or is a file of features or fitted.
    """

    def __init__(self, real: RealImages, options: WatchOptions, progress: Progress) -> None:
        self.real, self.options = real, options
        self.own: tuple[Features, Features] | None = None
        if options.quality not in (AUTO, NO_FID):
            train, held = (self._features(store, True, progress) for store in (real.train, real.held))
            self.own = train, held

    def __call__(self, drawn: ImageStore, features: Features) -> dict[str, Any]:
        """Return the fields of a look; NaN for missing figures.

        Args:
            drawn: The drawn images.
            features: Features of the drawn images, by the detector.
        """
        nothing = dict.fromkeys(_NUMBERS, math.nan) | {"fid_name": ""}
        if self.options.quality == NO_FID:
            return nothing
        train, held = self.own or (self.real.train_features, self.real.held_features)
        generated = features if self.own is None else self._features(drawn, False, no_progress)
        try:
            fid = measure_quality(train, generated, held, figures=("FID",), seed=self.options.seed).of("FID")
        except InputError:  # features that are not finite, or one image: a training continues all the same
            return nothing
        values = (fid[name] for name in ("estimate", "low", "high", "same_number", "reference"))
        return dict(zip(_NUMBERS, values, strict=True)) | {"fid_name": str(fid["name"])}

    def _features(self, store: ImageStore, cache: bool, progress: Progress) -> Features:
        """Compute features by the source that was named."""
        options = self.options
        if options.quality.startswith("pca:") or options.quality.endswith((".npy", ".npz", ".parquet")):
            raise InputError(
                f"quality {one_line(options.quality, 60)} is fitted or saved: name a network, or pixels:32"
            )
        how = {"device": options.device, "precision": options.precision, "cache": cache, "progress": progress}
        return load_features(store, options.quality, **how)
