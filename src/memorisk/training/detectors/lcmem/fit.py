"""One training of a Siamese detector over latents, in one stage or two (paper 004, section 3.1 and appendix B).

==================  ======================================  =====================================================
                    stage 1                                 stage 2
==================  ======================================  =====================================================
input               latents, computed once                  pixels, augmented and encoded in every step
normalised          by the data set's own mean and          by the sample
                    deviation; by the sample with
                    probability 0.01
starts from         the backbone's weights                  stage 1's best epoch, whose detector is kept
positives           two files of an identity                the same; of identities of one file two augmentations
the epoch is        patient-weighted AUC of validation      the same plus the recall of copies at the strongest
chosen by           pairs                                   augmentations
==================  ======================================  =====================================================

In stage 2 the second image of a pair is augmented, and in half of the pairs the first one too; so are both images of
pairs that are two augmentations of one file, in either stage. The baselines are normalised by the data set throughout.

Everything random derives from (seed, epoch, step), so that a killed training continues to the same bytes.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from memorisk.models.encoders.networks import state_fingerprint
from memorisk.models.lcmem import LatentConfig, LatentDetector, LatentNetwork, by_sample, by_statistics
from memorisk.models.provenance import seen_table
from memorisk.runs.errors import InputError
from memorisk.runs.files import fingerprint
from memorisk.runs.workload import Progress, no_progress
from memorisk.training.autoencoders.latent_store import Latents
from memorisk.training.detectors.detector_training import DetectorTraining, FittedDetector
from memorisk.training.detectors.lcmem.augmentations import MildAugmentation, PairAugmentation, operations_of
from memorisk.training.detectors.lcmem.inputs import (
    AugmentedEncoder,
    LatentSource,
    PairData,
    build_initial_network,
    recipe,
)
from memorisk.training.detectors.lcmem.sampler import PairBatch, PairSampler
from memorisk.training.detectors.lcmem.validation import ValidationSet
from memorisk.training.detectors.metric_losses import pair_loss
from memorisk.training.detectors.options import LatentOptions, StageOptions
from memorisk.training.engine.devices import autocast, limited_threads, place
from memorisk.training.engine.epoch_training import EpochSetup
from memorisk.training.engine.loop import BestEpoch, Bounds
from memorisk.training.engine.optimization import step_seeds

FittedStage = FittedDetector[LatentDetector]
"""Detector of one stage and its history: ``epoch, loss, auc, recall``."""
STAGE1, DETECTOR_FOLDER = "stage1", "detector"
_AUGMENT_FIRST = 0.5


def fit_lcmem(
    latents: Latents,
    train_rows: np.ndarray,
    validation_rows: np.ndarray,
    groups: np.ndarray,
    options: LatentOptions,
    folder: str | Path,
    progress: Progress = no_progress,
) -> dict[str, FittedStage]:
    """Train a Siamese detector and leave it in a folder, as `memorisk.load_detector` reads it.

    Killed and called again with the same arguments it continues, and gives the same bytes; once done it is only read.

    Args:
        latents: Latents of all images (`memorisk.training.autoencoders.latent_store.load_latents`).
        train_rows: Rows to train on, [n].
        validation_rows: Rows that choose the epoch, [m].
        groups: Patient of each image, [N]; each patient in one part only.
        options: Settings of the training.
        folder: Folder of the run: new, empty, or that of the same training. ``detector`` in it is the detector,
            ``stage1`` the one after the first of two stages.
        progress: Function called with (stage, steps done, steps).

    Returns:
        Detectors by stage, ``{"stage1": ..., "detector": ...}``, or the detector alone where there is one stage.

    Raises:
        InputError: Settings, rows, groups or backbone are invalid, or the folder holds another detector.
        MemoriskError: The loss became NaN or infinite.
    """
    chosen = options.filled()
    data = PairData.build(latents, train_rows, validation_rows, groups, ignore=chosen.identities == "ignore")
    with limited_threads(chosen.threads):
        first = StageTraining.first(data, chosen)
        first.refuse_second()
        return run_stages(first, Path(folder), progress)


def run_stages(first: "StageTraining", folder: Path, progress: Progress = no_progress) -> dict[str, FittedStage]:
    """Train the stages one after another, as `fit_lcmem` does.

    Args:
        first: Training of the first stage.
        folder: Folder of the run.
        progress: Function called with (stage, steps done, steps).
    """
    if first.options.stages == 1:
        return {DETECTOR_FOLDER: run_stage(first, folder / DETECTOR_FOLDER, progress)}
    stage1 = run_stage(first, folder / STAGE1, progress)
    second = StageTraining.second(first.data, first.options, stage1.detector)
    return {STAGE1: stage1, DETECTOR_FOLDER: run_stage(second, folder / DETECTOR_FOLDER, progress)}


def run_stage(training: "StageTraining", target: Path, progress: Progress = no_progress) -> FittedStage:
    """Train one stage and write it to its folder.

    Args:
        training: Training of the stage, checked.
        target: Folder of the detector.
        progress: Function called with (stage, steps done, steps).

    Raises:
        InputError: The folder holds another detector.
        MemoriskError: The loss became NaN or infinite.
    """
    training.fit(target, progress)
    return FittedDetector.read(target, training.key, LatentDetector)


class StageTraining(DetectorTraining[LatentDetector]):
    """A training of one stage, checked and on its device.

    Args:
        data: Latents and identities.
        options: Settings, filled in.
        number: Number of the stage.
        branch: Network that is trained.
        config: Configuration of the detector, its best epoch open.
        notes: Notes on the network.
    """

    options: LatentOptions
    kind = LatentDetector

    def __init__(
        self,
        data: PairData,
        options: LatentOptions,
        number: int,
        branch: LatentNetwork,
        config: LatentConfig,
        notes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(options)
        self.data, self.part, self.branch, self.config = data, options.stage(number), branch, config
        rows, latents, dataset = data.rows, data.latents, data.dataset
        self.sampler = PairSampler(
            rows,
            data.identity[rows],
            latents.hashes[rows],
            None if dataset is None else dataset[rows],
            protocol=options.protocol,
            copies=number == 2 or not data.identities_known,
            same_dataset=options.same_dataset,
            seed=options.seed,
        )
        moved = number == 1 and options.stage1_augment != "none"
        if (self.sampler.copies_needed or moved) and latents.store is None:
            why = "stage1_augment augments images" if moved else "without identities images are augmented"
            raise InputError(f"{why}, and these latents were given without images")
        self.batches, self.size = self.sampler.plan(options.pairs or len(rows), self.part.batch_size)
        self.notes = (*notes, *_copies_note(self.sampler, self.part, data.identities_known))
        if self.size < self.part.batch_size:
            self.notes = (*self.notes, _smaller(self.part, self.size, self.sampler))
        place(branch, self.device)
        content = [recipe(options), dict(latents.encoder.identity), self.precision, self.device.type, number]
        who = [[latents.hashes[c].tolist(), data.identity[c].tolist()] for c in (rows, data.validation)]
        sets = None if dataset is None else dataset[rows].tolist()
        self.key = fingerprint(content, state_fingerprint(branch), who, sets, length=32)

    @classmethod
    def first(cls, data: PairData, options: LatentOptions) -> "StageTraining":
        """Build stage 1 from the backbone's weights; arguments as for `fit_lcmem`."""
        start = build_initial_network(data.latents, options)
        return cls(data, options, 1, start.branch, start.config, start.notes)

    @classmethod
    def second(cls, data: PairData, options: LatentOptions, detector: LatentDetector) -> "StageTraining":
        """Build stage 2 from a copy of the network of stage 1, which is kept."""
        branch = deepcopy(detector.branch).requires_grad_(False)
        for parameter in branch.trained():
            parameter.requires_grad_(True)
        return cls(data, options, 2, branch, _of_stage_two(detector.config))

    def as_second(self) -> "StageTraining":
        """Build stage 2 from the network in its present state, to estimate its cost."""
        return StageTraining(self.data, self.options, 2, self.branch, _of_stage_two(self.config))

    def refuse_second(self) -> None:
        """Refuse two stages of latents without images.

        Raises:
            InputError: The second stage needs images that are not given.
        """
        if self.data.latents.store is None and self.options.stages == 2:
            raise InputError("stage 2 augments images, and these latents were given without: train with --stages 1")

    def rehearse(self, steps: int) -> Iterator[torch.Tensor]:
        """Yield the losses of so many steps, as in the first epoch."""
        batch = self.sampler.batches(0, self.batches, self.size)[0]
        for seed in range(steps):
            self.branch.train()
            x = self._normalised(batch, torch.Generator().manual_seed(seed))
            yield self._loss(batch, self.branch.features(x).float())

    @property
    def setup(self) -> EpochSetup:
        """Return what the loop of epochs needs."""
        part = self.part
        return EpochSetup(
            tensors=self.branch.tensors(),
            trained=self.branch.trained(),
            options=self.options.steps(part, self.size),
            slots=self.batches * self.size,
            figures={"loss": 0, "auc": 1, "recall": int(part.number == 2)},
            patience=part.patience,
            stage=f"training, stage {part.number}",
        )

    def look(self) -> dict[str, float]:
        """Measure the network on the validation images."""
        return asdict(self.watcher.look(self.branch))

    @cached_property
    def latents(self) -> LatentSource:
        """Open the latents of all rows."""
        return LatentSource(self.data.latents.values, self.device)

    @cached_property
    def encoder(self) -> AugmentedEncoder:
        """Open the encoder of augmented images."""
        return AugmentedEncoder(self.data.latents, self.device, self.precision)

    @cached_property
    def watcher(self) -> ValidationSet:
        """Build the set that measures the network on validation images."""
        with_copies = self.part.number == 2
        return ValidationSet.build(
            self.data, self.latents, lambda: self.encoder, self.options.seed, with_copies=with_copies
        )

    def restore(self, record: BestEpoch) -> None:
        """Copy the best epoch's weights into the network.

        Raises:
            InputError: No epoch is the best.
        """
        if not record.best_epoch:
            raise InputError("the validation images have no pair that could choose an epoch: give more identities")
        super().restore(record)

    def fitted(self, record: BestEpoch, epochs: int) -> FittedStage:
        """Build the detector of the network's present weights; arguments as for `DetectorTraining`."""
        branch, best = self.branch, record.best_epoch
        config = replace(self.config, best_epoch=best, calibration=self.watcher.calibration(branch))
        detector = LatentDetector(branch.cpu().eval(), self.data.latents.encoder, config, self.seen())
        return FittedDetector(detector, tuple(record.history(epochs)), best, self.notes)

    def losses(self, reseed: Callable[[int], None], epoch: int, bounds: Bounds) -> Iterator[torch.Tensor]:
        """Yield the loss of each batch of an epoch."""
        seeds = step_seeds(self.options.seed + self.part.number - 1, epoch, len(bounds))
        drawn = self.sampler.batches(epoch, self.batches, self.size)
        for batch, seed in zip(drawn, seeds, strict=True):
            reseed(seed)
            generator = torch.Generator().manual_seed(seed)
            x = self._normalised(batch, generator)
            self.branch.train()
            with autocast(self.device, self.precision):
                features = self.branch.features(x)
            yield self._loss(batch, features.float())

    def _loss(self, batch: PairBatch, features: torch.Tensor) -> torch.Tensor:
        b = len(batch)
        both = np.concatenate([batch.first, batch.second])
        if self.options.protocol == "paper":
            identity = np.tile(np.arange(b), 2)
        else:
            identity = np.unique(self.data.identity[both], return_inverse=True)[1]
        share = self.options.bce_share
        assert share is not None
        logits = self.branch.logits(features[:b], features[b:]) if share > 0 else None
        positive = torch.from_numpy(batch.positive).to(self.device)
        identities = torch.from_numpy(identity).to(self.device)
        how = {"bce_share": share, "temperature": self.options.temperature}
        return pair_loss(features, logits, positive, identities, **how)

    def _normalised(self, batch: PairBatch, generator: torch.Generator) -> torch.Tensor:
        """Return latents of the first, then of the second images, as the branch takes them: [2b, c, h, w]."""
        both = np.concatenate([batch.first, batch.second])
        copied = torch.from_numpy(np.tile(batch.copied, 2))
        strong, moved = copied, torch.zeros_like(copied)
        how: PairAugmentation | MildAugmentation = MildAugmentation()
        augment = self.options.stage1_augment
        if self.part.number == 2 or augment not in ("none", "mild"):
            first = torch.rand(len(batch), generator=generator) < _AUGMENT_FIRST
            moved = torch.cat([first, torch.ones(len(batch), dtype=torch.bool)]) & ~copied
            if self.part.number == 2:
                strong, moved = strong | moved, torch.zeros_like(copied)
            else:
                how = PairAugmentation(operations=operations_of(augment))
        elif augment == "mild":
            moved = ~copied
        z = self.latents(both)
        for chosen, augmentation in ((strong, PairAugmentation()), (moved, how)):
            places = chosen.nonzero()[:, 0]
            if len(places):
                pixels = self.encoder.pixels(both[places.numpy()])
                z[places.to(self.device)] = self.encoder.encode(augmentation.apply(pixels, generator))
        if not self.branch.form.by_sample:
            return by_statistics(z, self.branch.mean, self.branch.std)
        if self.part.number == 2:
            return by_sample(z)
        return self._by_data_set(z, both, generator)

    def _by_data_set(self, z: torch.Tensor, rows: np.ndarray, generator: torch.Generator) -> torch.Tensor:
        """Normalise by the statistics of each latent's data set, or with a small probability by its own."""
        set_of, mean, std = self.data.statistics
        chosen = torch.from_numpy(set_of[rows]).to(self.device)
        means, stds = (torch.from_numpy(v).to(self.device, z.dtype)[chosen] for v in (mean, std))
        alone = torch.rand(len(z), generator=generator) < (self.options.sample_normalisation or 0.0)
        by_set = by_statistics(z, means, stds)
        return torch.where(alone.to(self.device)[:, None, None, None], by_sample(z), by_set)

    def seen(self) -> pd.DataFrame:
        """Return hashes of the images that chose the weights; patients by their manifest ids, even where joined."""
        latents, rows = self.data.latents, {"training": self.data.rows, "validation": self.data.validation}
        return seen_table(latents.groups, latents.hashes, latents.data_hash, rows)


def _of_stage_two(config: LatentConfig) -> LatentConfig:
    """Return the configuration of a detector that enters stage 2."""
    return replace(config, stage=2, best_epoch=0, calibration={})


def _copies_note(sampler: PairSampler, stage: StageOptions, identities_known: bool) -> tuple[str, ...]:
    """Note that a data set has no identities, where stage 1 trains on copies of its images."""
    if not sampler.copies_needed or stage.number == 2 or not identities_known:
        return ()
    return (
        "No two training images of a data set are of one identity: there it learns to recognise two augmentations of "
        "one image, not a patient. If patients are known, name them (--group-from, --group-column).",
    )


def _smaller(stage: StageOptions, size: int, sampler: PairSampler) -> str:
    return (
        f"Stage {stage.number}: batches are of {size} pairs and not of {stage.batch_size}: "
        f"{sampler.n_able:,} identities have a positive pair, and no batch holds more than one of each on average."
    )
