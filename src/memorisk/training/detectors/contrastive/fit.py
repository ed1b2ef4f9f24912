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

Where the paper's text and its code differ ``paper`` follows the text: the rate falls after each epoch (the code: after
each step), and InfoNCE has the rest of the batch as negatives (the code: the nearest one).

Everything random derives from (seed, epoch, step), so that a killed training goes on to the same bytes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from memorisk.images.store import ImageStore
from memorisk.models.detectors.detectors import (
    CONFIG,
    Detector,
    DetectorNetwork,
    group_hashes,
)
from memorisk.models.encoders.preparation import preparation
from memorisk.runs.devices import check_device
from memorisk.runs.errors import MemoriskError
from memorisk.runs.files import write_json
from memorisk.runs.fingerprint import fingerprint
from memorisk.runs.progress import Progress, quiet
from memorisk.training.detectors.contrastive.augmentations import (
    CopyAugmentation,
    augmented_copies,
    load_strength,
)
from memorisk.training.detectors.contrastive.history import CHECKPOINT, HISTORY, read_finished
from memorisk.training.detectors.contrastive.metric_losses import MetricLoss, metric_loss
from memorisk.training.detectors.contrastive.options import DetectorOptions
from memorisk.training.detectors.contrastive.record import DetectorRecord, Looked
from memorisk.training.detectors.contrastive.retrieval import embed, found_sources, retrieval
from memorisk.training.detectors.contrastive.rows import refuse_rows, usable_rows
from memorisk.training.detectors.contrastive.start import Start, frozen_throughout, untrained
from memorisk.training.engine.checkpoint import Checkpoint
from memorisk.training.engine.devices import autocast, choose_precision, forked_generators, limited_threads, place
from memorisk.training.engine.fit import set_training_mode
from memorisk.training.engine.loop import Bounds, Watch, run_epochs
from memorisk.training.engine.optimizers import build_optimizer
from memorisk.training.engine.order import batch_bounds, batch_order, step_seeds
from memorisk.training.engine.pixels import Normalisation, PixelSource

_AT_MARGIN = 0.05  # of the margin
_WHOLE_RANGE = Normalisation((0.0,), (1.0,))


@dataclass(frozen=True)
class FittedDetector:
    """A detector, and how it came about."""

    detector: Detector
    """With the weights of the best epoch."""
    history: tuple[Mapping[str, Any], ...]
    """Per epoch from 0, the untrained start: ``epoch, loss, retrieval, of_patients, validation_loss`` (None where there
    is none); retrieval is the share of validation copies whose nearest image is their source."""
    best_epoch: int
    """Whose weights were kept; never 0."""
    notes: tuple[str, ...]
    """What a report must say, a sentence each."""


def fit_detector(
    store: ImageStore,
    train_rows: np.ndarray,
    validation_rows: np.ndarray,
    groups: np.ndarray,
    options: DetectorOptions,
    folder: str | Path,
    progress: Progress = quiet,
) -> FittedDetector:
    """Train a detector and leave it in a folder, as `memorisk.load_detector` reads it.

    Killed and called again with the same arguments it goes on, and gives the same bytes; once done it is only read.

    Args:
        store: The images.
        train_rows: Those to train on, [n].
        validation_rows: Those that choose the epoch, [m]; of more than 2,000 a random 2,000.
        groups: [N] whose each image of the store is; of no patient in both parts.
        options: How.
        folder: New, empty, or that of the same training.
        progress: Called with ("training", epochs done, epochs).

    Returns:
        The detector and its history.

    Raises:
        InputError: Settings, rows, groups or backbone cannot be, or the folder holds another detector; nothing was
            written.
        MissingExtraError: kornia or pytorch-metric-learning is not installed.
        MemoriskError: The loss or an embedding became NaN or infinite.
    """
    options.validate()
    training = Training.build(store, train_rows, validation_rows, np.asarray(groups), options)
    return run_detector_training(training, folder, progress)


def run_detector_training(training: "Training", folder: str | Path, progress: Progress = quiet) -> FittedDetector:
    """`fit_detector` of a training that was checked already.

    Args:
        training: From `Training.build`.
        folder: As for `fit_detector`.
        progress: Likewise.

    Raises:
        InputError: The folder holds another detector.
        MemoriskError: The loss or an embedding became NaN or infinite.
    """
    target = Path(folder)
    if (target / CONFIG).is_file():
        return _finished(target, training.key)
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    with limited_threads(training.options.threads):
        record = training.run(target / CHECKPOINT, progress)
    start, best = training.start, record.best_epoch
    _load_best(start.network, record.best)
    detector = Detector(start.network.cpu().eval(), replace(start.config, best_epoch=best), training.seen())
    notes = (*training.notes, *training.afterwards(record))
    fitted = FittedDetector(detector, record.history(), best, notes)
    write_json(target / HISTORY, {"key": training.key, "history": fitted.history, "notes": notes})
    detector.save(target)
    (target / CHECKPOINT).unlink(missing_ok=True)
    return fitted


@dataclass(frozen=True)
class Training:
    """The parts of one training, checked and on the device."""

    store: ImageStore
    rows: np.ndarray
    validation: np.ndarray
    groups: np.ndarray
    options: DetectorOptions
    start: Start
    device: torch.device
    precision: str
    augmentation: CopyAugmentation
    loss: MetricLoss
    notes: tuple[str, ...]
    key: str

    @classmethod
    def build(
        cls, store: ImageStore, rows: np.ndarray, validation: np.ndarray, groups: np.ndarray, options: DetectorOptions
    ) -> "Training":
        """Check everything and put the network on the device; arguments as for `fit_detector`."""
        rows, validation = (np.asarray(chosen, dtype=np.int64) for chosen in (rows, validation))
        refuse_rows(rows, validation, groups, len(store.images))
        device = check_device(options.device)
        precision = choose_precision(options.precision, device)
        loss = metric_loss(options.loss, margin=options.margin, temperature=options.temperature)
        rows, validation, notes = usable_rows(store, rows, validation, groups, options)
        start = untrained(store, options)
        place(start.network, device)
        kind = [start.encoder.identity, precision, device.type]
        content = [dict(start.config.recipe), *kind]
        pixels = [store.pixel_hashes[chosen].tolist() for chosen in (rows, validation)]
        key = fingerprint(content, pixels, [groups[chosen].tolist() for chosen in (rows, validation)], length=32)
        augmentation = load_strength(options.augment)
        said = (*start.notes, *notes, *frozen_throughout(options))
        return cls(store, rows, validation, groups, options, start, device, precision, augmentation, loss, said, key)

    @cached_property
    def source(self) -> PixelSource:
        """Pixels of the training rows, in [0, 1]; on a GPU, if they have room there, brought there once."""
        images, device = self.store.images, self.device
        return PixelSource(images, self.rows, device=device, dtype=torch.float32, normalisation=_WHOLE_RANGE)

    def run(self, checkpoint: Path, progress: Progress) -> DetectorRecord:
        """Train for all epochs; the record holds the best weights."""
        network, epochs = self.start.network, self.options.epochs
        record = DetectorRecord(epochs, network.tensors(), by_loss=self.options.protocol == "paper")
        look = self._look()
        record.add(0, look())

        def after(epoch: int, losses: np.ndarray) -> bool:
            """Note what the network finds now."""
            record.add(epoch, look(), float(losses[0]), network.tensors())
            return True

        with forked_generators(self.device) as reseed:
            run_epochs(
                partial(self.losses, reseed),
                network.tensors(),
                build_optimizer(list(network.trained()), self.options.steps),
                self.options.steps,
                n=len(self.rows),
                checkpoint=Checkpoint(checkpoint, self.key, self.options.checkpoint_seconds),
                on_epoch=lambda done, _: progress("training", done, epochs),
                scaler=torch.amp.GradScaler(self.device.type, enabled=self.precision == "fp16"),
                watch=Watch(after, record.tensors, self.key),
            )
        return record

    def losses(self, reseed: Callable[[int], None], epoch: int, bounds: Bounds) -> Iterator[torch.Tensor]:
        """The loss of each batch of an epoch."""
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

    def afterwards(self, record: DetectorRecord) -> list[str]:
        """What must be said of a training that is over."""
        margin, (last, share) = self.options.margin, record.figures[-1, :2].tolist()
        worse = share <= float(record.figures[0, 1])
        if self.options.loss != "triplet" or not worse or abs(last - margin) > _AT_MARGIN * margin:
            return []
        return [
            f"The triplet loss ended at its margin ({last:.3g} of {margin:g}) and finds no more copies than before: "
            "the embeddings of all images fell together. Take infonce, weak copies, or a lower learning rate."
        ]

    def seen(self) -> pd.DataFrame:
        """Hashes of what chose the weights; patients by their ids in the manifest, however they were joined here."""
        both = np.concatenate([self.rows, self.validation])
        ids = self.store.manifest.groups[both]
        return pd.DataFrame(
            {
                "part": ["training"] * len(self.rows) + ["validation"] * len(self.validation),
                "pixel_hash": self.store.pixel_hashes[both].astype(str),
                "group_hash": group_hashes(ids, self.store.data_hash),
            }
        )

    def _codes(self) -> torch.Tensor:
        """Who may not be a negative of whom, [n]: patients, or each image for itself."""
        if self.options.protocol == "paper":
            return torch.arange(len(self.rows))
        return torch.from_numpy(np.unique(self.groups[self.rows].astype(str), return_inverse=True)[1])

    def _set_mode(self, epoch: int) -> None:
        """Freeze the backbone in the first epochs, and with it all that it keeps count of."""
        network, frozen = self.start.network, epoch < self.options.frozen_epochs
        layer = set(network.projection.parameters())
        for parameter in network.trained():
            parameter.requires_grad_(not frozen or parameter in layer)
        if self.options.protocol == "paper":
            network.train()
        else:
            set_training_mode(network)

    def _look(self) -> Callable[[], Looked]:
        """What is asked after each epoch: which validation copies are found, and for the paper's form its loss."""
        images, rows, options = self.store.images, self.validation, self.options
        copies = augmented_copies(images, rows, self.augmentation, seed=options.seed)
        hashes, groups = self.store.pixel_hashes[rows], self.groups[rows].astype(str)
        ask = partial(embed, self.start.network, preprocessing=self.start.config.preprocessing, device=self.device)

        def look() -> Looked:
            """Of the network as it is now."""
            sources = ask(images, rows)
            found = found_sources(ask(copies, np.arange(len(rows))), sources, options.measure, hashes)
            of_paper = options.protocol == "paper"
            return Looked(retrieval(found, groups, options.seed), self._loss_of(sources) if of_paper else float("nan"))

        return look

    def _loss_of(self, sources: np.ndarray) -> float:
        """The published code's validation loss: the positive of an image is the image."""
        z, total = torch.from_numpy(sources), 0.0
        for begin, end in batch_bounds(len(z), self.options.images_a_step):
            some = z[begin:end]
            total += float(self.loss(some, some, torch.arange(end - begin))) * (end - begin)
        return total / len(z)


def _load_best(network: DetectorNetwork, best: Mapping[str, torch.Tensor]) -> None:
    """Put the best epoch's tensors in: all of the network's own; only the backbone's head, which has no part, stays.

    Raises:
        MemoriskError: A tensor is missing, or one is not the network's.
    """
    found = network.load_state_dict(best, strict=False)
    lacking = sorted(network.tensors().keys() & set(found.missing_keys))
    if lacking or found.unexpected_keys:
        how = f"lack {lacking[0]}" if lacking else f"hold {found.unexpected_keys[0]}, which it does not have"
        raise MemoriskError(f"the best epoch's weights are not this network's: they {how}")


def _finished(folder: Path, key: str) -> FittedDetector:
    """What an earlier call left.

    Raises:
        InputError: It is another detector.
    """
    detector, found = read_finished(folder, key, Detector)
    return FittedDetector(detector, tuple(found["history"]), detector.config.best_epoch, tuple(found["notes"]))
