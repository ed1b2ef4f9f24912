"""The settings of ``memorisk train detector``, for every kind of detector at once.

The kind fills in what is left open: `training.detectors.options.DetectorOptions` for ``copy``, `LatentOptions` for the
Siamese kinds. A setting that the kind does not have is refused.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal

from memorisk.images.options import ImageOptions
from memorisk.models.settings import COPY_DETECTOR
from memorisk.runs.errors import InputError
from memorisk.runs.options import CheckpointSeconds, Device, Precision, Threads, grouped
from memorisk.training.detectors.options import DetectorOptions, LatentOptions, Protocol, Strength
from memorisk.training.engine.options import SplitOptions

SHARED = (
    *("backbone", "protocol", "epochs", "lr", "batch_size", "temperature", "dimension", "weight_decay"),
    *("network_size", "precision", "seed", "device", "threads", "checkpoint_seconds"),
)
COPY_ONLY = ("loss", "augment", "frozen_epochs", "margin", "normalise")
LATENT_ONLY = (
    *("encoder", "identities", "stages", "patience", "stage2_epochs", "stage2_patience", "stage2_batch_size"),
    *("stage2_lr", "pairs", "bce_share", "sample_normalisation", "stage1_augment", "same_dataset"),
)


@grouped("training", essential="kind backbone encoder loss epochs batch_size lr dimension protocol device")
@dataclass(frozen=True, kw_only=True)
class DetectorSettings(ImageOptions):
    """Settings that read images and train a detector of any kind, without the split of the images."""

    kind: Literal["copy", "lcmem", "siamese", "siamese-ntxent"] = "copy"
    """copy: recognises augmented copies; lcmem: recognises copies and images of the same patient, from latents, in two
    stages; siamese, siamese-ntxent: baselines of lcmem."""

    backbone: str | None = None
    """Network and its weights: resnet50@FILE, resnet50@default (downloads) or resnet50@none (random). Required for
    copy, where it may also be a copy detector to start from, its linear layer too: default (comes with memorisk) or
    detector:FOLDER; lcmem by default convnext_tiny@none."""

    encoder: str | None = None
    """Encoder of the latents: pixels (default), pixels:SIDE or autoencoder:FOLDER. Not for copy."""

    loss: Literal["triplet", "infonce"] | None = None
    """Loss of a copy detector: triplet (margin, nearest negative; default) or infonce (temperature, all negatives)."""

    protocol: Protocol = "corrected"
    """corrected: images of one patient are never negatives of each other, patients have equal weight, batches are
    shuffled; paper: as published."""

    augment: Strength | None = None
    """Strength of the augmented copies of a copy detector; the paper uses weak."""

    stages: Literal[1, 2] | None = None
    """1: train on clean latents; 2: then also on augmented images. By default 2 for lcmem, 1 for its baselines. Not for
    copy."""

    epochs: int | None = None
    """Most epochs (of stage 1), by default 100; the weights of the best one are kept."""

    patience: int | None = None
    """Stop stage 1 after this many epochs without improvement, by default 10 (baselines 5). Not for copy."""

    lr: float | None = None
    """Initial learning rate, by default 1e-4, for stage 1 of lcmem 5e-4. It decays by 0.99 per epoch for copy only."""

    batch_size: int | None = None
    """Images per step for copy, each with one copy, by default 128 (CLIP and DINOv2 64); otherwise pairs per step of
    stage 1, by default 512 for lcmem and 32 for its baselines, at most twice the patients with two images."""

    stage2_epochs: int | None = None
    """Most epochs of stage 2, by default 20."""

    stage2_patience: int | None = None
    """Stop stage 2 after this many epochs without improvement, by default 5."""

    stage2_lr: float | None = None
    """Learning rate of stage 2, by default 8e-5."""

    stage2_batch_size: int | None = None
    """Pairs per step of stage 2, by default 64."""

    pairs: int | None = None
    """Pairs per epoch, half of them of one patient; by default as many as training images. Not for copy."""

    identities: Literal["use", "ignore"] | None = None
    """use: pairs are images of one patient; ignore: pairs are two augmentations of one file. Not for copy."""

    bce_share: float | None = None
    """Weight of the binary cross-entropy in the loss of lcmem, by default 0.8; the rest is NT-Xent."""

    frozen_epochs: int | None = None
    """First epochs in which only the new linear layer of a copy detector is trained, by default 5."""

    margin: float | None = None
    """Margin of the triplet loss, by default 0.05."""

    temperature: float | None = None
    """Temperature of InfoNCE (by default 0.5) or NT-Xent (0.07)."""

    dimension: int | None = None
    """Dimension of the embedding, by default 128 for copy, otherwise 512."""

    sample_normalisation: float | None = None
    """Probability in stage 1 of lcmem that each latent is normalised by itself, by default 0.01; later it always is."""

    stage1_augment: str | None = None
    """Augmentation in stage 1: none (default, as in the paper), mild (small shifts and brightness changes, for small
    data sets), or any of rotate, flip, blur, noise, brightness, contrast, jpeg, separated by commas. Not for copy."""

    same_dataset: float | None = None
    """Share of the pairs of two patients that come from one data set, by default 0.9. Not for copy."""

    weight_decay: float | None = None
    """Weight decay, by default 0.01 for copy (AdamW), otherwise 0 (Adam)."""

    network_size: int | None = None
    """Side in pixels of the input; by default the size that the backbone was trained at, otherwise the images'."""

    normalise: str | None = None
    """Mean and deviation of a copy detector's input, as in 0.13/0.31; by default the published."""

    precision: Precision = "auto"

    seed: int = 0
    """Random seed for initial weights, order, pairs, augmentation and the copies used for evaluation."""

    device: Device = "auto"

    threads: Threads = 1

    checkpoint_seconds: CheckpointSeconds = 30.0


@dataclass(frozen=True, kw_only=True)
class TrainDetectorOptions(SplitOptions, DetectorSettings):
    """All settings of ``memorisk train detector``; docs/detectors-training.md and docs/lcmem.md describe them."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows, or the kind has no such setting.
        """
        ImageOptions.validate(self)
        for name in LATENT_ONLY if self.kind == COPY_DETECTOR else COPY_ONLY:
            if getattr(self, name) is not None:
                whose = "lcmem, siamese and siamese-ntxent" if self.kind == COPY_DETECTOR else COPY_DETECTOR
                raise InputError(f"{name} is a setting of --kind {whose}, not of {self.kind}: leave it out")
        if self.kind != "lcmem" and self.sample_normalisation is not None:
            raise InputError(f"sample_normalisation is a setting of --kind lcmem, not of {self.kind}: leave it out")
        if self.kind == COPY_DETECTOR:
            self.copy.validate()
        else:
            self.latent.filled()
        self.check_split()

    @property
    def copy(self) -> DetectorOptions:
        """Return the settings of one training of a copy detector."""
        return DetectorOptions(**self._given((*SHARED, *COPY_ONLY)))

    @property
    def latent(self) -> LatentOptions:
        """Return the settings of one training of a Siamese detector."""
        return LatentOptions(kind=self.kind, **self._given((*SHARED, *LATENT_ONLY)))  # pyright: ignore[reportArgumentType]

    def complete(self) -> dict[str, Any]:
        """Return every setting by its name, filled in by the kind where it is open; None for those of other kinds."""
        filled = self.copy if self.kind == COPY_DETECTOR else self.latent.filled()
        names = {field.name for field in fields(filled)}
        return {f.name: getattr(filled if f.name in names else self, f.name) for f in fields(self)}

    def _given(self, names: Iterable[str]) -> dict[str, Any]:
        return {name: value for name in names if (value := getattr(self, name)) is not None}
