"""Input of a copy detector's training: images and the untrained detector.

Images that cannot be trained on are refused, left out or limited, and notes report it. A detector begins with the
backbone's weights and a new linear layer, or with those of another copy detector.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from memorisk.images.store import ImageStore
from memorisk.models.copy_detectors import Detector, DetectorNetwork, load_detector, new_network, open_backbone
from memorisk.models.encoders.feature_sources import FeatureSource, parse_source
from memorisk.models.encoders.networks import Encoder, open_encoder
from memorisk.models.provenance import DetectorConfig, TrainingRecord
from memorisk.runs.environment import versions
from memorisk.runs.errors import InputError, one_line, plural
from memorisk.runs.files import json_value
from memorisk.training.detectors.contrastive.augmentations import blank_rows, operations_without_effect
from memorisk.training.detectors.options import DetectorOptions
from memorisk.training.engine.epoch_training import limit_validation

PAPER_DEVIATIONS = (
    "Other images of a patient count as negatives, as in the published code.",
    "Batches are not shuffled, as in the published code: an image meets the same others in every epoch.",
    "The epoch was chosen by a loss whose positives are the very same images, as in the published code.",
    "While the backbone is frozen its normalisation statistics move and its dropout acts, as in the published code.",
)
"""Choices that ``protocol="paper"`` takes over from the published code where the paper is silent."""


@dataclass(frozen=True)
class InitialDetector:
    """A detector before its first step."""

    network: DetectorNetwork
    encoder: Encoder
    config: DetectorConfig
    notes: tuple[str, ...]
    earlier: TrainingRecord | None = None
    """Record of the data that the earlier detector has seen; None without one, or for a backbone with a new layer."""


def build_initial_detector(store: ImageStore, options: DetectorOptions) -> InitialDetector:
    """Build the detector that a training starts from.

    The backbone's weights and a linear layer drawn from the seed; or another copy detector, where the backbone is
    ``default`` or ``detector:FOLDER``.

    Args:
        store: The images with their manifest.
        options: Settings of the training.

    Raises:
        InputError: The backbone is not available, or it is a detector of another kind or dimension.
    """
    books, source = store.folder.parent.parent, parse_source(options.backbone)
    if source.kind == "detector":
        return _earlier_detector(source, store, options)
    encoder = open_backbone(
        options.backbone,
        store.shape,
        size=options.network_size,
        normalise=options.normalise,
        seed=options.seed,
        books=books if books.is_dir() else None,
    )
    trunk, loading = encoder.load()
    network = new_network(trunk, encoder.preprocessing, options.dimension, options.seed)
    config = _config(encoder, encoder.name, encoder.weights, options.measure, store, options)
    weights = tuple(f"Weights of {encoder.name}: {one_line(note, 300)}." for note in loading)
    return InitialDetector(network, encoder, config, (*encoder.notes, *weights))


def _earlier_detector(source: FeatureSource, store: ImageStore, options: DetectorOptions) -> InitialDetector:
    """Open another copy detector, backbone and linear layer, as the start.

    Raises:
        InputError: It is of another kind or dimension, or has another size or normalisation than the settings name.
    """
    encoder = open_encoder(source, store.shape, size=options.network_size, normalise=options.normalise)
    detector = load_detector(source.folder)
    if not isinstance(detector, Detector):
        raise InputError(
            f"{source.shown} is a detector of kind {detector.config.kind}: name a copy detector as backbone"
        )
    if detector.config.dimension != options.dimension:
        raise InputError(
            f"dimension is {options.dimension}, and {source.shown} gives {detector.config.dimension} numbers"
        )
    for parameter in detector.network.trained():
        parameter.requires_grad_(True)
    record = detector.training_record
    config = _config(encoder, detector.config.backbone, source.shown, detector.config.measure, store, options)
    return InitialDetector(
        detector.network, encoder, replace(config, earlier=record is not None), encoder.notes, record
    )


def _config(
    encoder: Encoder, backbone: str, weights: str, measure: str, store: ImageStore, options: DetectorOptions
) -> DetectorConfig:
    """Describe the detector that a training will write; where it starts from another, it keeps that one's measure."""
    return DetectorConfig(
        kind="copy",
        backbone=backbone,
        weights=weights,
        weights_fingerprint=encoder.weights_fingerprint,
        preprocessing=encoder.preprocessing,
        stored=store.shape,
        depth=store.images.dtype.itemsize * 8,
        dimension=options.dimension,
        measure=measure,
        loss=options.loss,
        protocol=options.protocol,
        recipe=_recipe(options),
        departures=PAPER_DEVIATIONS if options.protocol == "paper" else (),
        best_epoch=0,
        data_hash=store.data_hash,
        groups_given=store.manifest.groups_given,
        versions=versions(),
    )


def note_on_frozen_backbone(options: DetectorOptions) -> tuple[str, ...]:
    """Note that the backbone is never trained, where no epoch remains for it."""
    if options.frozen_epochs < options.epochs:
        return ()
    return (
        f"The backbone stayed frozen: in the first {options.frozen_epochs:,} epochs the linear layer is trained alone, "
        f"and there were {options.epochs:,} in all. Set more epochs or fewer frozen_epochs to train the backbone.",
    )


def _recipe(options: DetectorOptions) -> dict[str, Any]:
    """Return every setting except device and frequency of checkpoints; the backbone's weights only by their name."""
    left_out = ("backbone", "device", "checkpoint_seconds")
    settings = {field.name: getattr(options, field.name) for field in fields(DetectorOptions)}
    recipe = {name: value for name, value in settings.items() if name not in left_out}
    return json_value(recipe | {"batch_size": options.images_a_step, "optimizer": "adamw", "decay": 0.99})


MOST_VALIDATED = 2000
_SAMPLE = 32
_NAMED = 3


def refuse_rows(rows: np.ndarray, validation: np.ndarray, groups: np.ndarray, n: int) -> None:
    """Refuse parts that are too small, lie outside the images, or share a patient.

    Args:
        rows: Rows to train on.
        validation: Rows that choose the epoch.
        groups: Patient of each image, [N].
        n: Number of images.

    Raises:
        InputError: A part is invalid in one of these ways.
    """
    if len(groups) != n:
        raise InputError(f"there are {len(groups)} groups for {n} images")
    for name, chosen in (("training", rows), ("validation", validation)):
        if chosen.ndim != 1 or len(np.unique(chosen)) < max(2, len(chosen)):
            raise InputError(f"the {name} part has {len(chosen)} images; needed are at least 2 different ones")
        if chosen.min() < 0 or chosen.max() >= n:
            raise InputError(f"{name} rows run from {chosen.min()} to {chosen.max()}; there are {n} images")
        if len(np.unique(groups[chosen].astype(str))) < 2:
            raise InputError(
                f"all images of the {name} part are of one patient: at least two are needed to tell them apart"
            )
    shared = np.intersect1d(groups[rows].astype(str), groups[validation].astype(str))
    if len(shared):
        raise InputError(
            f"{plural(len(shared), 'patient is', 'patients are')} in the training and the validation part, such as "
            f"{one_line(shared[0], 60)}: split by patient"
        )


def usable_rows(
    store: ImageStore, rows: np.ndarray, validation: np.ndarray, groups: np.ndarray, options: DetectorOptions
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return the rows without blank images, of the validation part at most 2,000, and notes for the report.

    Args:
        store: The images with their manifest.
        rows: Rows to train on.
        validation: Rows that choose the epoch.
        groups: Patient of each image, [N].
        options: Settings of the training.

    Raises:
        InputError: Too few images remain.
    """
    validation, limits = limit_validation(validation, MOST_VALIDATED, options.seed, "The epoch is chosen on")
    notes = [*limits]
    rows = _without_blanks(store, rows, "training", notes)
    validation = _without_blanks(store, validation, "validation", notes)
    refuse_rows(rows, validation, groups, len(store.images))
    without = operations_without_effect(np.asarray(store.images[np.sort(rows[:_SAMPLE])]), options.augment)
    if without:
        notes.append(f"By themselves these operations change none of {_SAMPLE} images: {', '.join(without)}.")
    return rows, validation, notes


def _without_blanks(store: ImageStore, rows: np.ndarray, part: str, notes: list[str]) -> np.ndarray:
    """Return the rows of images of which a copy can be recognised; the others are named in a note."""
    blank = blank_rows(store.images, rows)
    if not len(blank):
        return rows
    ids = ", ".join(one_line(image, 40) for image in store.manifest.images[blank[:_NAMED]])
    more = ", ..." if len(blank) > _NAMED else ""
    subject = plural(len(blank), f"blank {part} image is", f"blank {part} images are")
    notes.append(f"{subject} left out: no copy of a blank image can be recognised ({ids}{more}).")
    return rows[~np.isin(rows, blank)]
