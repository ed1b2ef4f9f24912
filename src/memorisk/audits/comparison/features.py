"""Features of all three sets, and a similarity between them that knows neither real part better.

Whatever is fitted (principal components, variances, a covariance) is fitted on training and held-out images
together. Fitted on the training images alone it would be nearer to them, and the p-values of METHODS section 5
would no longer be those of a random split.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from memorisk.audits.comparison.knowledge import detector_notes
from memorisk.audits.comparison.options import check_saved_features
from memorisk.audits.comparison.plants import PlantedSet
from memorisk.audits.comparison.sets import Sets
from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.images.store import ImageStore
from memorisk.models.encoders.feature_sources import FeatureSource, parse_source
from memorisk.models.feature_description import FeatureDescription
from memorisk.models.provenance import CONFIG
from memorisk.models.settings import DEFAULT_DETECTOR
from memorisk.runs.arrays import scratch_array
from memorisk.runs.errors import InputError, listed, one_line, plural
from memorisk.runs.workload import Progress
from memorisk.scores.distances.rows import rows_per_block
from memorisk.scores.similarity import Similarity
from memorisk.training.detectors.pair_detectors import PairDetector, open_pair_detector
from memorisk.training.features.matrix import Features, load_features

FITTED_IMAGES = 1 << 13
"""Largest number of images on which a comparison by parts is fitted: memory does not grow with the set. Of more
images every second, third and so on is taken, of both parts alike."""


def _finite(values: np.ndarray) -> Any:
    return np.isfinite(values).all(axis=1)


def _zero(values: np.ndarray) -> Any:
    return ~values.any(axis=1)


def _constant(values: np.ndarray) -> Any:
    return (values == values[:, :1]).all(axis=1)


UNDEFINED: Mapping[str, tuple[str, Callable[[np.ndarray], Any]]] = {
    **dict.fromkeys(("cosine", "jensenshannon", "whitened"), ("zero", _zero)),
    "correlation": ("all one number", _constant),
}
"""Rows for which a measure has no distance, in words and as a condition, by its name."""


class EncodingOptions(Protocol):
    """Settings by which images are encoded."""

    @property
    def input_size(self) -> int | None:
        """Side in pixels of the input."""
        ...

    @property
    def normalise(self) -> str | None:
        """Mean and deviation of the input."""
        ...

    @property
    def precision(self) -> str:
        """Arithmetic of the network."""
        ...

    @property
    def device(self) -> str:
        """Device to compute on."""
        ...


def encode(
    detector: PairDetector,
    store: ImageStore,
    reference: ImageStore,
    options: EncodingOptions,
    progress: Progress,
    *,
    sized: bool = True,
    as_copies: bool = False,
) -> Features:
    """Compute features of images by a detector, or read them from the cache folder.

    Args:
        detector: Detector that compares images.
        store: The images.
        reference: Images that components are fitted on.
        options: Settings of the command.
        progress: Called with (stage, done, total).
        sized: Whether the input's size and normalisation in the settings are about this detector.
        as_copies: Whether the images are compared as copies of others alone.

    Raises:
        InputError: Features are not available.
    """
    return detector.features(
        store,
        reference=reference,
        size=options.input_size if sized else None,
        normalise=options.normalise if sized else None,
        device=options.device,
        precision=options.precision,
        as_copies=as_copies,
        progress=progress,
    )


def notes_without_images(features: Features) -> tuple[str, ...]:
    """Return the notes of features but those of checks, which name images."""
    of_images = set(features.checks.sentences(features.ids, features.values.shape[1]))
    return tuple(note for note in features.described.notes if note not in of_images)


def feature_identity(described: FeatureDescription) -> dict[str, Any]:
    """Return what a later command may not change of features in a run folder."""
    return {name: getattr(described, name) for name in ("encoder", "weights_fingerprint", "preprocessing", "precision")}


@dataclass(frozen=True, eq=False)
class FeatureTables:
    """Features of every image of the audit."""

    train: np.ndarray
    """Features of the training images, [N, d], the atlas: kept by content, whatever is compared with it."""
    held: np.ndarray
    """Features of the held-out images, [M, d]; without rows where there are none."""
    synthetic: np.ndarray
    """Features of the synthetic images, [S, d]."""
    plants: np.ndarray
    """Features of the planted copies, [P, d]."""
    described: FeatureDescription
    """Description of the training images' features."""
    weak: bool
    """Whether pixels are compared, alone or by their principal components."""
    notes: tuple[str, ...]
    """Notes that must accompany the features, without ids."""
    computed: int
    """Number of images that went through the encoder in this call."""
    atlas_computed: int
    """Number of training images among them; 0 where the atlas was kept from before."""


def open_detectors(options: SyntheticOptions, sets: Sets) -> tuple[PairDetector, ...]:
    """Open the detectors that compare images.

    Raises:
        InputError: No such source or measure, or files of features for some of the sets only or with another source.
    """
    detectors = named_detectors(options)
    _check_saved(detectors, options, sets)
    return detectors


def named_detectors(options: SyntheticOptions) -> tuple[PairDetector, ...]:
    """Open the detectors that compare images by their names alone, to refuse a misspelt one before decoding.

    Raises:
        InputError: No such source or measure exists.
    """
    for text in options.detector:
        _check_folder(text)
    return tuple(open_pair_detector(text, measure=options.measure, domain=options.domain) for text in options.sources)


def _check_folder(text: str) -> None:
    """Refuse a path without a detector by naming what is missing there, not as an unknown network.

    Raises:
        InputError: The folder holds something else, or does not exist.
    """
    path = Path(text.removeprefix("detector:"))
    if text != DEFAULT_DETECTOR and path.is_dir() and not (path / CONFIG).is_file():
        inside = path / "detector"
        way = f"; did you mean {one_line(inside)}?" if (inside / CONFIG).is_file() else ""
        raise InputError(f"{one_line(path)} holds no detector: there is no {CONFIG} in it{way}")
    if "/" in text and not {"@", ":"} & set(text) and not path.exists():
        raise InputError(f"there is no folder {one_line(path)} of a detector")


def display_names(detectors: Sequence[PairDetector]) -> tuple[str, ...]:
    """Name each detector in a report: a folder called detector with the one above, numbers where names repeat.

    Args:
        detectors: Detectors in their order.
    """
    names = [_with_folder(detector) for detector in detectors]
    return tuple(
        f"{name} ({names[: i + 1].count(name)})" if names.count(name) > 1 else name for i, name in enumerate(names)
    )


def _with_folder(detector: PairDetector) -> str:
    """Name ``detector:lcmem/detector`` where every training calls it ``detector``."""
    path = Path(detector.source.name)
    if detector.source.kind != "detector" or path.name != "detector" or not path.resolve().parent.name:
        return detector.name
    return detector.name.replace(detector.source.shown, f"detector:{path.resolve().parent.name}/{path.name}", 1)


def _check_saved(detectors: Sequence[PairDetector], options: SyntheticOptions, sets: Sets) -> None:
    """Require that a file of features is the only source, and that there is one for every set.

    Raises:
        InputError: Another source is named as well, or a file is missing.
    """
    saved = any(detector.source.kind == "saved" for detector in detectors)
    if saved and len(detectors) > 1:
        raise InputError("a file of features is used alone, since no known copy has any: leave the others out")
    check_saved_features(options, saved=saved, held_out=sets.held is not None)


def can_plant(options: SyntheticOptions) -> bool:
    """Return whether features of new images can be computed; saved ones cover only the images that are there."""
    return not any(_is_saved(text) for text in options.sources)


def _is_saved(text: str) -> bool:
    return not Path(text).is_dir() and parse_source(text).kind == "saved"


def measure_features(
    detector: PairDetector, sets: Sets, hidden: PlantedSet, options: SyntheticOptions, progress: Progress
) -> FeatureTables:
    """Compute one detector's features of the real images and of the set with its plants.

    The training images' are computed and kept by themselves (paper 004's atlas), so that the next set finds them.
    Images with the pixels of a real image get that image's features, so that an exact copy is at distance 0 whatever
    batch it was in.

    Raises:
        InputError: Features cannot be computed or read, or some are not finite.
    """
    source = detector.source
    if source.kind == "saved":
        return _saved(sets, source, options)
    own = len(options.sources) > 1 and source.kind == "detector"  # a detector among others has its own size

    def load(store: ImageStore, what: str, *, as_copies: bool = False) -> Features:
        """Compute the features of one set, with its name in the progress."""
        named = _named_progress(progress, what)
        return encode(detector, store, sets.real, options, named, sized=not own, as_copies=as_copies)

    train = load(sets.train, "training images")
    title = "synthetic images and planted copies" if len(hidden.of_plants) else "synthetic images"
    ours = load(hidden.store, title, as_copies=True)
    held = None if sets.held is None else load(sets.held, "held-out images")
    real = np.concatenate([train.values, *([] if held is None else [held.values])])
    place = first_rows(sets.real.pixel_hashes)
    n = len(train.values)
    features = FeatureTables(
        train=real[:n],
        held=real[n:],
        synthetic=values_by_pixels(ours.values, hidden.of_set, hidden.store.pixel_hashes, real, place),
        plants=values_by_pixels(ours.values, hidden.of_plants, hidden.store.pixel_hashes, real, place),
        described=train.described,
        weak=source.kind in ("pixels", "pca"),
        notes=(*_notes(train, source), *detector_notes(detector, sets)),
        computed=train.computed + ours.computed + (0 if held is None else held.computed),
        atlas_computed=train.computed,
    )
    _refuse_not_finite(features, sets)
    return features


def _named_progress(progress: Progress, what: str) -> Progress:
    """Return a progress whose stages name the images."""
    return lambda stage, done, total: progress(f"{stage}: {what}", done, total)


def first_rows(hashes: np.ndarray) -> dict[str, int]:
    """Return the first row of each content by its hash."""
    return {value: row for row, value in reversed(list(enumerate(hashes)))}


def values_by_pixels(
    values: np.ndarray, rows: np.ndarray, hashes: np.ndarray, real: np.ndarray, place: Mapping[str, int]
) -> np.ndarray:
    """Return features of some rows, [n, d]; those of the real image where the pixels match. A large table is on disk.

    Args:
        values: Features of all rows, [T, d]; for copies d may be fewer columns than for real images, the first ones.
        rows: Rows to return, [n].
        hashes: Hashes of the pixels of all rows, [T].
        real: Features of the real images, [R, d].
        place: Row of a real image by the hash of its pixels.
    """
    table = scratch_array((len(rows), values.shape[1]), values.dtype)
    step = rows_per_block(values.shape[1])
    for first in range(0, len(rows), step):
        some = rows[first : first + step]
        table[first : first + step] = values[some]
        matches = np.flatnonzero([value in place for value in hashes[some]])
        table[first + matches] = real[[place[value] for value in hashes[some[matches]]], : values.shape[1]]
    return table


def fit_similarity(detector: PairDetector, found: FeatureTables, sets: Sets) -> Similarity:
    """Choose the similarity of features: a head as it was trained, or a measure fitted on both real parts together.

    Args:
        detector: Detector that names it.
        found: Features of the detector.
        sets: Images with their ids, for those that a measure does not take.

    Raises:
        InputError: A domain is missing, or the measure does not take some rows.
    """
    if detector.measure is not None and not detector.source.by_parts:
        _refuse_degenerate(detector.measure, found, sets)
    parts, step = (found.train, found.held), 1
    if detector.source.by_parts:
        step = max(1, -(-sum(map(len, parts)) // FITTED_IMAGES))
    return detector.similarity(np.concatenate([part[::step] for part in parts]))


def _saved(sets: Sets, source: FeatureSource, options: SyntheticOptions) -> FeatureTables:
    """Read features that were computed elsewhere: of the images that are there, hence without plants."""
    ours = load_features(sets.train, source)
    theirs = load_features(sets.synthetic, Path(str(options.synthetic_features)))
    held = np.empty((0, ours.values.shape[1]), np.float32)
    if sets.held is not None:
        held = load_features(sets.held, options.held_out_features or Path(source.name)).values
    widths = {part.shape[1] for part in (ours.values, theirs.values, held)}
    if len(widths) > 1:
        raise InputError(f"the files of features have {listed(sorted(widths))} columns: give features of one kind")
    nobody = np.empty((0, ours.values.shape[1]), np.float32)
    features = FeatureTables(
        ours.values, held, theirs.values, nobody, ours.described, False, _notes(ours, source), 0, 0
    )
    _refuse_not_finite(features, sets)
    return features


def _notes(found: Features, source: FeatureSource) -> tuple[str, ...]:
    """Return the encoder's notes, and one on principal components that were fitted elsewhere."""
    fitted_before = (
        "The principal components were fitted before. If that was on training images without the held-out ones, "
        "they are nearer to the former, and the p-values are not to be trusted."
    )
    before = source.kind == "pca" and source.weights is not None
    return (*notes_without_images(found), *([fitted_before] if before else []))


def _refuse_not_finite(found: FeatureTables, sets: Sets) -> None:
    for ids, values in _parts(found, sets):
        bad = np.flatnonzero(~_where(values, _finite))
        if len(bad):
            raise InputError(
                f"{plural(len(bad), 'image has', 'images have')} features that are not finite ({listed(ids[bad])}); "
                "leave them out"
            )


def _refuse_degenerate(name: str, found: FeatureTables, sets: Sets) -> None:
    """Refuse, by their ids, images for which a measure is undefined."""
    for ids, values in _parts(found, sets) if name in UNDEFINED else ():
        what, condition = UNDEFINED[name]
        bad = np.flatnonzero(_where(values, condition))
        if len(bad):
            raise InputError(
                f"{plural(len(bad), 'image has', 'images have')} features that are {what}, where {name} is undefined "
                f"({listed(ids[bad])}); "
                "leave them out, or choose measure euclidean"
            )


def comparable(values: np.ndarray, detector: PairDetector) -> np.ndarray:
    """Return whether a detector can compare each vector, [n]: it is finite, and the measure is defined for it.

    Args:
        values: Features of the detector, [n, d].
        detector: Detector that compares them.
    """
    good = _where(values, _finite)
    undefined = None if detector.source.by_parts else UNDEFINED.get(detector.measure or "")
    return good if undefined is None else good & ~_where(values, undefined[1])


def _where(values: np.ndarray, condition: Callable[[np.ndarray], Any]) -> np.ndarray:
    """Return of which rows of a table something is true, [n], computed one block at a time."""
    step = rows_per_block(values.shape[1])
    blocks = [np.asarray(condition(values[first : first + step])) for first in range(0, len(values), step)]
    return np.concatenate([np.empty(0, dtype=bool), *blocks])


def _parts(found: FeatureTables, sets: Sets) -> Sequence[tuple[np.ndarray, np.ndarray]]:
    held = () if sets.held is None else ((sets.held.manifest.images, found.held),)
    return ((sets.train.manifest.images, found.train), *held, (sets.synthetic.manifest.images, found.synthetic))
