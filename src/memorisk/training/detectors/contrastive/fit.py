"""One training of a copy detector (paper 003, section 3.2; METHODS section 3).

A step embeds a batch of images and one augmented copy of each in one pass. Two forms:

=======================  ====================================  ==============================================
                         corrected                             paper
=======================  ====================================  ==============================================
negatives                other images, but of the same group   all other images
order of images          shuffled anew each epoch              as they are stored, each epoch
positives in validation  augmented copies                      the very same images
the epoch is chosen by   the share of copies whose nearest     the loss on them
                         image is their source
while it is frozen       the backbone is as in evaluation      its normalisation statistics move, dropout acts
=======================  ====================================  ==============================================

Where the paper's text and its code differ, ``paper`` follows the text: the rate falls after each epoch (the code: after
each step), and InfoNCE has the rest of the batch as negatives (the code: the nearest one).

Everything random derives from (seed, epoch, step), so that a killed training continues to the same bytes.

`measure_training` counts the copies that the backbone alone finds, the untrained start, and the trained detector. The
epoch was chosen on the validation part, so that its figures flatter; the test part chose nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import torch

from memorisk.images.store import ImageStore
from memorisk.models.copy_detectors import Detector
from memorisk.models.encoders.networks import preparation
from memorisk.models.provenance import seen_table
from memorisk.runs.environment import check_device
from memorisk.runs.files import fingerprint
from memorisk.runs.workload import Progress, no_progress
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.training.detectors.contrastive.augmentations import (
    augmented_copies,
    blank_rows,
    load_strength,
)
from memorisk.training.detectors.contrastive.inputs import (
    build_initial_detector,
    note_on_frozen_backbone,
    refuse_rows,
    usable_rows,
)
from memorisk.training.detectors.contrastive.retrieval import (
    embed,
    paired_difference,
    retrieval,
    source_hits,
)
from memorisk.training.detectors.detector_training import DetectorTraining, FittedDetector
from memorisk.training.detectors.metric_losses import metric_loss
from memorisk.training.detectors.options import DetectorOptions, Strength
from memorisk.training.engine.devices import (
    autocast,
    place,
    set_training_mode,
)
from memorisk.training.engine.epoch_training import EpochSetup
from memorisk.training.engine.loop import BestEpoch, Bounds
from memorisk.training.engine.optimization import batch_bounds, batch_order, step_seeds
from memorisk.training.engine.pixels import Normalisation, PixelSource

_AT_MARGIN = 0.05  # of the margin
_WHOLE_RANGE = Normalisation((0.0,), (1.0,))


def fit_detector(
    store: ImageStore,
    train_rows: np.ndarray,
    validation_rows: np.ndarray,
    groups: np.ndarray,
    options: DetectorOptions,
    folder: str | Path,
    progress: Progress = no_progress,
) -> FittedDetector[Detector]:
    """Train a detector and leave it in a folder, as `memorisk.load_detector` reads it.

    Killed and called again with the same arguments it continues, and gives the same bytes; once done it is only read.

    Args:
        store: The images with their manifest.
        train_rows: Rows to train on, [n].
        validation_rows: Rows that choose the epoch, [m]; of more than 2,000 a random 2,000.
        groups: Patient of each image of the store, [N]; each patient in one part only.
        options: Settings of the training.
        folder: Folder of the detector: new, empty, or that of the same training.
        progress: Function called with ("training", steps done, steps).

    Returns:
        Trained detector and its history.

    Raises:
        InputError: Settings, rows, groups or backbone are invalid, or the folder holds another detector; nothing was
            written.
        MissingExtraError: kornia or pytorch-metric-learning is not installed.
        MemoriskError: The loss or an embedding became NaN or infinite.
    """
    options.validate()
    training = CopyDetectorTraining(store, train_rows, validation_rows, np.asarray(groups), options)
    return training.fit(folder, progress)


class CopyDetectorTraining(DetectorTraining[Detector]):
    """A training of a copy detector, checked and on its device; arguments and errors as for `fit_detector`."""

    options: DetectorOptions
    kind = Detector

    def __init__(
        self, store: ImageStore, rows: np.ndarray, validation: np.ndarray, groups: np.ndarray, options: DetectorOptions
    ) -> None:
        rows, validation = (np.asarray(chosen, dtype=np.int64) for chosen in (rows, validation))
        refuse_rows(rows, validation, groups, len(store.images))
        super().__init__(options)
        self.store, self.groups = store, groups
        self.loss = metric_loss(options.loss, margin=options.margin, temperature=options.temperature)
        self.rows, self.validation, notes = usable_rows(store, rows, validation, groups, options)
        self.start = build_initial_detector(store, options)
        place(self.start.network, self.device)
        config, encoder = self.start.config, self.start.encoder
        content = [dict(config.recipe), encoder.identity, self.precision, self.device.type]
        both = (self.rows, self.validation)
        pixels = [store.pixel_hashes[chosen].tolist() for chosen in both]
        self.key = fingerprint(content, pixels, [groups[chosen].tolist() for chosen in both], length=32)
        self.augmentation = load_strength(options.augment)
        self.notes = (*self.start.notes, *notes, *note_on_frozen_backbone(options))

    @property
    def setup(self) -> EpochSetup:
        """Return what the loop of epochs needs; the paper's form chooses by the loss, the other by copies found."""
        network, by_loss = self.start.network, self.options.protocol == "paper"
        return EpochSetup(
            tensors=network.tensors(),
            trained=network.trained(),
            options=self.options.steps,
            slots=len(self.rows),
            figures={"loss": 0, "retrieval": int(not by_loss), "validation_loss": -int(by_loss)}
            | {"hits": 0, "patients": 0},
        )

    @cached_property
    def source(self) -> PixelSource:
        """Pixels of the training rows, in [0, 1]; copied to a GPU once if they fit there."""
        images, device = self.store.images, self.device
        return PixelSource(images, self.rows, device=device, dtype=torch.float32, normalisation=_WHOLE_RANGE)

    def fitted(self, record: BestEpoch, epochs: int) -> FittedDetector[Detector]:
        """Build the detector of the network's present weights; arguments as for `DetectorTraining`."""
        start, best = self.start, record.best_epoch
        config = replace(start.config, best_epoch=best)
        detector = Detector(start.network.cpu().eval(), config, self.seen(), start.earlier)
        notes = (*self.notes, *self.afterwards(record))
        return FittedDetector(detector, tuple(map(_with_interval, record.history(epochs))), best, notes)

    def losses(self, reseed: Callable[[int], None], epoch: int, bounds: Bounds) -> Iterator[torch.Tensor]:
        """Yield the loss of each batch of an epoch."""
        options, network = self.options, self.start.network
        self._set_mode(epoch)
        prepare = preparation(self.start.config.preprocessing, self.device, torch.float32)
        shuffled = options.protocol == "corrected"
        order = batch_order(options.seed, epoch, len(self.rows)) if shuffled else torch.arange(len(self.rows))
        codes = self._codes()[order].to(self.device)
        slots = [order[begin:end] for begin, end in bounds]
        seeds = step_seeds(options.seed, epoch, len(bounds))
        for (begin, end), step_seed, x in zip(bounds, seeds, self.source.batches(slots), strict=True):
            reseed(step_seed)
            copies = self.augmentation.apply(x, torch.Generator(self.device).manual_seed(step_seed))
            with autocast(self.device, self.precision):
                embeddings = network(prepare(torch.cat([x, copies])))
            first, second = embeddings.float().chunk(2)
            yield self.loss(first, second, codes[begin:end])

    def afterwards(self, record: BestEpoch) -> list[str]:
        """Note a training whose loss ended at the margin."""
        margin, (last, share) = self.options.margin, record.figures[-1, :2].tolist()
        worse = share <= float(record.figures[0, 1])
        if self.options.loss != "triplet" or not worse or abs(last - margin) > _AT_MARGIN * margin:
            return []
        return [
            f"The triplet loss ended at its margin ({last:.3g} of {margin:g}) and finds no more copies than before: "
            "the embeddings of all images fell together. Take infonce, weak copies, or a lower learning rate."
        ]

    def seen(self) -> pd.DataFrame:
        """Return hashes of the images that chose the weights; patients by their manifest ids, even where joined."""
        store, rows = self.store, {"training": self.rows, "validation": self.validation}
        return seen_table(store.manifest.groups, store.pixel_hashes, store.data_hash, rows)

    def _codes(self) -> torch.Tensor:
        """Number the images that may not be negatives of each other, [n]: by patient, or each image for itself."""
        if self.options.protocol == "paper":
            return torch.arange(len(self.rows))
        return torch.from_numpy(np.unique(self.groups[self.rows].astype(str), return_inverse=True)[1])

    def _set_mode(self, epoch: int) -> None:
        """Freeze the backbone in the first epochs, and with it all its running statistics."""
        network, frozen = self.start.network, epoch < self.options.frozen_epochs
        layer = set(network.projection.parameters())
        for parameter in network.trained():
            parameter.requires_grad_(not frozen or parameter in layer)
        if self.options.protocol == "paper":
            network.train()
        else:
            set_training_mode(network)

    @cached_property
    def copies(self) -> np.ndarray:
        """Augmented copies of the validation images."""
        return augmented_copies(self.store.images, self.validation, self.augmentation, seed=self.options.seed)

    def look(self) -> dict[str, float]:
        """Measure the network in its present state: the validation copies found, and for the paper's form the loss."""
        rows, config, options = self.validation, self.start.config, self.options
        ask = partial(embed, self.start.network, preprocessing=config.preprocessing, device=self.device)
        sources = ask(self.store.images, rows)
        hits = source_hits(
            ask(self.copies, np.arange(len(rows))), sources, config.measure, self.store.pixel_hashes[rows]
        )
        share = retrieval(hits, self.groups[rows].astype(str), options.seed)
        figures = {"retrieval": share.share, "hits": share.of_patients.successes, "patients": share.of_patients.trials}
        return figures | ({"validation_loss": self._loss_of(sources)} if options.protocol == "paper" else {})

    def _loss_of(self, sources: np.ndarray) -> float:
        """Compute the published code's validation loss: the positive of an image is the image."""
        z, total = torch.from_numpy(sources), 0.0
        for begin, end in batch_bounds(len(z), self.options.images_a_step):
            some = z[begin:end]
            total += float(self.loss(some, some, torch.arange(end - begin))) * (end - begin)
        return total / len(z)


def _with_interval(row: Mapping[str, Any]) -> dict[str, Any]:
    """Replace an epoch's counts by the patients of which a copy was found, with their Clopper-Pearson interval."""
    figures = {name: value for name, value in row.items() if name not in ("hits", "patients")}
    return figures | {"of_patients": asdict(clopper_pearson(int(row["hits"]), int(row["patients"])))}


_BLOCK = 256

Embed = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Function from (images [N, H, W, C], rows [n]) to embeddings [n, d]."""


DETECTORS = 3
"""Number of detectors that are measured: the bare backbone, the untrained network, the trained one."""


def measure_training(
    store: ImageStore,
    parts: dict[str, np.ndarray],
    groups: np.ndarray,
    fitted: FittedDetector[Detector],
    options: DetectorOptions,
    progress: Progress,
) -> dict[str, Any]:
    """Measure retrieval on each part by strength, of three detectors, with paired differences.

    Args:
        store: The images with their hashes.
        parts: Rows of "validation" and "test".
        groups: Patient of each image, [N].
        fitted: The trained detector.
        options: Settings of its training.
        progress: Function called with (stage, done, total).

    Returns:
        ``{part: {strength: {"backbone", "untrained", "trained", "trained_less_untrained", "trained_less_backbone"}}}``;
        the validation part has only the strength that chose the epoch.
    """
    start, device = build_initial_detector(store, options), check_device(options.device)
    networks = {"backbone": start.network.trunk, "untrained": start.network, "trained": fitted.detector.network}
    how = {"preprocessing": start.config.preprocessing, "device": device}
    ask = {name: partial(embed, network, **how) for name, network in networks.items()}
    wanted = [("validation", options.augment), *(("test", strength) for strength in get_args(Strength))]
    figures: dict[str, Any] = {"validation": {}, "test": {}}
    for done, (part, strength) in enumerate(wanted):
        progress("looking for copies", done, len(wanted))
        rows = np.setdiff1d(parts[part], blank_rows(store.images, parts[part]))
        hits = _hits(ask, store, rows, strength, start.config.measure, options.seed)
        figures[part][strength] = _figures(hits, groups[rows].astype(str), options.seed)
    progress("looking for copies", len(wanted), len(wanted))
    return figures


def _hits(
    ask: dict[str, Embed], store: ImageStore, rows: np.ndarray, strength: str, measure: str, seed: int
) -> dict[str, np.ndarray]:
    """Find copies by each detector, [n] bool; copies are made a block at a time."""
    copies: dict[str, list[np.ndarray]] = {name: [] for name in ask}
    for begin in range(0, len(rows), _BLOCK):
        some = augmented_copies(store.images, rows[begin : begin + _BLOCK], strength, seed=seed)
        for name, of in ask.items():
            copies[name].append(of(some, np.arange(len(some))))
    hashes = store.pixel_hashes[rows]
    return {
        name: source_hits(np.concatenate(copies[name]), of(store.images, rows), measure, hashes)
        for name, of in ask.items()
    }


def _figures(hits: dict[str, np.ndarray], groups: np.ndarray, seed: int) -> dict[str, Any]:
    """Compute the share of each detector, and the difference of the trained one to the others."""
    shares: dict[str, Any] = {name: retrieval(hit, groups, seed).as_json() for name, hit in hits.items()}
    for other in ("untrained", "backbone"):
        shares[f"trained_less_{other}"] = paired_difference(hits["trained"], hits[other], groups)
    return shares
