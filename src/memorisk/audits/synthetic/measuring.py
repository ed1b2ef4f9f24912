"""What compares images: features of all three sets, and a distance between them that knows neither real part better.

Whatever is fitted (principal components, variances, a covariance) is fitted on training and held-out images together:
fitted on the training images alone it would be nearer to them, and the p-values of METHODS section 5 would no longer be
those of a random split.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from memorisk.audits.synthetic.hidden import HiddenSet
from memorisk.audits.synthetic.knowledge import detector_notes
from memorisk.audits.synthetic.options import AUTO, SyntheticOptions
from memorisk.audits.synthetic.sets import Sets
from memorisk.images.store import ImageStore
from memorisk.images.wording import listed
from memorisk.models.detectors import read_config
from memorisk.models.features import FeatureSource, parse_source
from memorisk.runs.errors import InputError, several
from memorisk.runs.progress import Progress
from memorisk.scores.distances import FittedMeasure, find_measure, fit_measure
from memorisk.scores.distances.fitted import BINARY, POSITIVE
from memorisk.training.feature_matrix import FeatureDescription, Features, load_features

AUTO_SIDE = 32
"""Pixels a side of the default features."""
_NO_NETWORK = ("pixels", "pca", "saved")


@dataclass(frozen=True, eq=False)
class FeatureTables:
    """Features of every image of the audit."""

    train: np.ndarray
    """[N, d]."""
    held: np.ndarray
    """[M, d]; no row without held-out images."""
    synthetic: np.ndarray
    """[S, d]."""
    plants: np.ndarray
    """[P, d]."""
    described: FeatureDescription
    """Of the training images' features."""
    weak: bool
    """Whether pixels are compared, alone or by their principal components."""
    notes: tuple[str, ...]
    """What must be said of them, without ids."""
    computed: int
    """Images that went through the encoder in this call."""


def feature_source(options: SyntheticOptions, sets: Sets) -> FeatureSource:
    """What computes features, ``auto`` settled.

    Raises:
        InputError: No such source, or files of features for some of the sets only.
    """
    side = max(sets.train.images.shape[1:3])
    text = options.features
    if text == AUTO:
        text = f"pixels:{AUTO_SIDE}" if side > AUTO_SIDE else "pixels"
    source = parse_source(text)
    beside = {"synthetic_features": options.synthetic_features, "held_out_features": options.held_out_features}
    if source.kind != "saved":
        if given := [name for name, path in beside.items() if path is not None]:
            raise InputError(f"{given[0]} belongs to a file of features of TRAIN: name that with features")
        return source
    if options.synthetic_features is None:
        raise InputError("features of TRAIN are saved ones: name those of SYNTHETIC with synthetic_features")
    if sets.held is not None and options.held_out_split is None and options.held_out_features is None:
        raise InputError("features of TRAIN are saved ones: name those of the held-out images with held_out_features")
    return source


def can_plant(options: SyntheticOptions) -> bool:
    """Whether features of new images can be computed: saved ones are of those that are there."""
    return options.features == AUTO or parse_source(options.features).kind != "saved"


def measure_features(sets: Sets, hidden: HiddenSet, options: SyntheticOptions, progress: Progress) -> FeatureTables:
    """Features of the real images and of the set with its plants.

    Images with the pixels of a real image get that image's features, so that an exact copy is at distance 0 whatever
    batch it was in.

    Raises:
        InputError: Features cannot be had, or some are not finite.
    """
    source = feature_source(options, sets)
    real_store = sets.real
    if source.kind == "saved":
        return _saved(sets, source, options)
    load = partial(_load, source=source, options=options, reference=real_store, progress=progress)
    real, ours = load(real_store), load(hidden.store)
    values = np.array(ours.values)
    place = {value: row for row, value in reversed(list(enumerate(real_store.pixel_hashes)))}
    same = np.flatnonzero([value in place for value in hidden.store.pixel_hashes])
    values[same] = real.values[[place[value] for value in hidden.store.pixel_hashes[same]]]
    n = len(sets.train.images)
    found = FeatureTables(
        train=real.values[:n],
        held=real.values[n:],
        synthetic=values[hidden.of_set],
        plants=values[hidden.of_plants],
        described=real.described,
        weak=source.kind in ("pixels", "pca"),
        notes=(*_notes(real, source), *detector_notes(source, sets)),
        computed=real.computed + ours.computed,
    )
    _refuse_not_finite(found, sets)
    return found


def fit_distance(found: FeatureTables, sets: Sets, options: SyntheticOptions, source: FeatureSource) -> FittedMeasure:
    """The measure, fitted on training and held-out features together where there is something to fit.

    Args:
        found: Features.
        sets: For the ids of images that a measure does not take.
        options: The measure by name, and how it meets negative values.
        source: Of the features; a detector says what its loss is about.

    Raises:
        InputError: No such measure, a domain is missing, or rows that it does not take.
    """
    name = options.measure
    if name == AUTO:
        name = "euclidean" if source.kind in _NO_NETWORK else "cosine"
        name = read_config(Path(source.name)).measure if source.kind == "detector" else name
    find_measure(name)
    _refuse_degenerate(name, found, sets)
    return fit_measure(
        name,
        np.concatenate([found.train, found.held]),
        domain=options.domain if name in POSITIVE else None,
        binarise="median" if name in BINARY else None,
    )


def _load(
    store: ImageStore, *, source: FeatureSource, options: SyntheticOptions, reference: ImageStore, progress: Progress
) -> Features:
    return load_features(
        store,
        source,
        reference=reference if source.kind == "pca" and source.weights is None else None,
        size=options.input_size,
        normalise=options.normalise,
        device=options.device,
        precision=options.precision,
        progress=progress,
    )


def _saved(sets: Sets, source: FeatureSource, options: SyntheticOptions) -> FeatureTables:
    """Features that were computed elsewhere: of the images that are there, hence without plants."""
    ours = load_features(sets.train, source)
    theirs = load_features(sets.synthetic, Path(str(options.synthetic_features)))
    held = np.empty((0, ours.values.shape[1]), np.float32)
    if sets.held is not None:
        held = load_features(sets.held, options.held_out_features or Path(source.name)).values
    widths = {part.shape[1] for part in (ours.values, theirs.values, held)}
    if len(widths) > 1:
        raise InputError(f"the files of features have {listed(sorted(widths))} columns: give features of one kind")
    nobody = np.empty((0, ours.values.shape[1]), np.float32)
    found = FeatureTables(ours.values, held, theirs.values, nobody, ours.described, False, _notes(ours, source), 0)
    _refuse_not_finite(found, sets)
    return found


def _notes(found: Features, source: FeatureSource) -> tuple[str, ...]:
    """What the encoder says of itself; what its checks say names images, and is refused or does no harm."""
    of_images = set(found.checks.sentences(found.ids, found.values.shape[1]))
    notes = [note for note in found.described.notes if note not in of_images]
    if source.kind == "pca" and source.weights is not None:
        notes.append(
            "The principal components were fitted before. If that was on training images without the held-out ones, "
            "they are nearer to the former, and the p-values are not to be trusted."
        )
    return tuple(notes)


def _refuse_not_finite(found: FeatureTables, sets: Sets) -> None:
    for ids, values in _parts(found, sets):
        bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(bad):
            raise InputError(
                f"{several(len(bad), 'image has', 'images have')} features that are not finite ({listed(ids[bad])}); "
                "leave them out"
            )


def _refuse_degenerate(name: str, found: FeatureTables, sets: Sets) -> None:
    """Refuse, by their ids, images for which a measure is undefined."""
    for ids, values in _parts(found, sets):
        if name in ("cosine", "jensenshannon"):
            bad, what = np.flatnonzero(~values.any(axis=1)), "zero"
        elif name == "correlation":
            bad, what = np.flatnonzero((values == values[:, :1]).all(axis=1)), "all one number"
        else:
            return
        if len(bad):
            raise InputError(
                f"{several(len(bad), 'image has', 'images have')} features that are {what}, where {name} is undefined "
                f"({listed(ids[bad])}); "
                "leave them out, or choose measure euclidean"
            )


def _parts(found: FeatureTables, sets: Sets) -> Sequence[tuple[np.ndarray, np.ndarray]]:
    held = () if sets.held is None else ((sets.held.manifest.images, found.held),)
    return ((sets.train.manifest.images, found.train), *held, (sets.synthetic.manifest.images, found.synthetic))
