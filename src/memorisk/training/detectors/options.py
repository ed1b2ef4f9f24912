"""The settings of one training of a detector; those of the command are in `training.detectors.command_options`.

A copy detector's defaults are METHODS section 3's, from paper 003, section 3.2.3; docs/detectors-training.md shows
their effect on a small data set.

A Siamese detector is LCMem with its two stages, or one of two baselines (paper 004). Defaults that depend on the kind
are None here and filled in by `LatentOptions.filled`:

==================  ===================  ========  =====  ======  =========  =======  ========
kind                backbone             features  pairs  lr      loss: BCE  epochs   patience
==================  ===================  ========  =====  ======  =========  =======  ========
``lcmem`` stage 1   convnext_tiny@none   512       512    5e-4    0.8        100      10
``lcmem`` stage 2   of stage 1                     64     8e-5    0.8        20       5
``siamese``         resnet101@none       512       32     1e-4    1          100      5
``siamese-ntxent``  resnet101@none       512       32     1e-4    0          100      5
==================  ===================  ========  =====  ======  =========  =======  ========

LCMem's values are of paper 004, section 4 and appendix B. The baselines are trained there "using their suggested
parameters", on a ResNet-101 with 512 and with 1,024 features, of which the better run counts; batch, rate and patience
are those of Packhaeuser et al. (2022) for both, since Dar et al. give theirs for volumes.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

from memorisk.runs.errors import InputError
from memorisk.runs.options import CheckpointSeconds, Device, Precision, Threads
from memorisk.runs.settings import check_counts, check_finite, check_seeds, check_types
from memorisk.training.engine.options import TrainOptions

MEASURES = {"triplet": "cosine", "infonce": "cosine"}
"""Distance that fits each loss: both see directions only (the nearest at length 1 is the nearest by cosine)."""
MARGIN, INFONCE_TEMPERATURE = 0.05, 0.5
Protocol = Literal["paper", "corrected"]
Strength = Literal["weak", "strong"]
_BATCH, _TRANSFORMER_BATCH = 128, 64


@dataclass(frozen=True, kw_only=True)
class DetectorOptions:
    """Settings of one training of a copy detector."""

    backbone: str = ""
    """Network and its weights, as in resnet50@FILE, resnet50@default (downloads) or resnet50@none (random); or a copy
    detector to start from, its linear layer too: default, or detector:FOLDER."""

    loss: Literal["triplet", "infonce"] = "triplet"
    """Loss of the training: triplet (margin, the nearest negative) or infonce (temperature, all negatives)."""

    protocol: Protocol = "corrected"
    """corrected: other images of a patient are never negatives, batches are shuffled, the epoch is chosen by finding
    validation copies, a frozen backbone keeps its statistics; paper: as published, without these."""

    augment: Strength = "weak"
    """Strength of the augmented copies that it learns to recognise, and that choose the epoch; the paper's is weak."""

    epochs: int = 100
    """Number of passes over the training images; the weights of the best one are kept."""

    lr: float = 1e-4
    """Learning rate at the start, times 0.99 after each epoch."""

    batch_size: int | None = None
    """Number of images per step, each with one copy; by default 128, and 64 for CLIP and DINOv2."""

    frozen_epochs: int = 5
    """Number of epochs at the start in which only the new linear layer is trained."""

    margin: float = MARGIN
    """Margin of the triplet loss."""

    temperature: float = INFONCE_TEMPERATURE
    """Temperature of the InfoNCE loss."""

    dimension: int = 128
    """Number of values of an embedding."""

    weight_decay: float = 0.01
    """Weight decay of AdamW."""

    network_size: int | None = None
    """Side in pixels of the backbone's input; by default that of its training, for memorisk's own that of the store."""

    normalise: str | None = None
    """Mean and deviation of the backbone's input where they are not the published ones, as in 0.13/0.31."""

    precision: Precision = "auto"

    seed: int = 0
    """Random seed of the linear layer, random weights, order, augmentation and the copies that are looked for."""

    device: Device = "auto"

    threads: Threads = 1

    checkpoint_seconds: CheckpointSeconds = 30.0

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        check_types(self)
        if not self.backbone:
            raise InputError("a detector needs a backbone: name it, as in --backbone default or resnet50@FILE")
        check_counts(self, epochs=1, batch_size=2, frozen_epochs=0, dimension=1, threads=1)
        check_finite(self, "lr", "margin", "temperature")
        check_finite(self, "weight_decay", "checkpoint_seconds", zero=True)
        check_seeds(self, "seed")

    @property
    def measure(self) -> str:
        """Distance that fits the loss."""
        return MEASURES[self.loss]

    @property
    def images_a_step(self) -> int:
        """Batch size, filled in."""
        network = "" if self.backbone.startswith("detector:") else self.backbone.partition("@")[0].lower()
        small = "clip" in network or "dino" in network
        return self.batch_size or (_TRANSFORMER_BATCH if small else _BATCH)

    @property
    def steps(self) -> TrainOptions:
        """Return the settings that the loop of epochs needs."""
        return TrainOptions(
            epochs=self.epochs,
            lr=self.lr,
            batch_size=self.images_a_step,
            optimizer="adamw",
            schedule="exponential",
            weight_decay=self.weight_decay,
            precision=self.precision,
        )


BCE_SHARE, NT_XENT_TEMPERATURE = 0.8, 0.07
_BASELINE_DEFAULTS = {"backbone": "resnet101@none", "dimension": 512, "stages": 1, "epochs": 100, "patience": 5}
_BASELINE_DEFAULTS |= {"batch_size": 32, "lr": 1e-4, "sample_normalisation": 0.0}
DEFAULTS_BY_KIND: dict[str, dict[str, Any]] = {
    "lcmem": {"backbone": "convnext_tiny@none", "dimension": 512, "stages": 2, "epochs": 100, "patience": 10}
    | {"batch_size": 512, "lr": 5e-4, "sample_normalisation": 0.01, "bce_share": BCE_SHARE},
    "siamese": _BASELINE_DEFAULTS | {"bce_share": 1.0},
    "siamese-ntxent": _BASELINE_DEFAULTS | {"bce_share": 0.0},
}
"""Values by kind of the settings that are left open."""


@dataclass(frozen=True, kw_only=True)
class StageOptions:
    """Length and rate of one stage."""

    number: int
    """Number of the stage, 1 or 2."""
    epochs: int
    """Largest number of epochs."""
    patience: int
    """Number of epochs without a better one after which the stage ends."""
    batch_size: int
    """Number of pairs per step."""
    lr: float
    """Learning rate of Adam, constant."""


@dataclass(frozen=True, kw_only=True)
class LatentOptions:
    """Settings of one training of a Siamese detector."""

    kind: Literal["lcmem", "siamese", "siamese-ntxent"] = "lcmem"
    """Kind of the detector."""
    encoder: str = "pixels"
    """Encoder of the latents: pixels, pixels:SIDE, autoencoder:FOLDER."""
    backbone: str | None = None
    """Network and its weights, as in convnext_tiny@none or resnet50@FILE."""
    dimension: int | None = None
    """Number of features of an image."""
    protocol: Protocol = "corrected"
    """Protocol of the pairs (`memorisk.training.detectors.lcmem.sampler`), which also decides whether NT-Xent leaves
    other images of an identity out of the negatives (corrected) or not (paper)."""
    identities: Literal["use", "ignore"] = "use"
    """use: the given identities; ignore: every file is its own, positives are two augmentations of one file."""
    stages: Literal[1, 2] | None = None
    """1: clean latents; 2: then also augmented images."""
    epochs: int | None = None
    """Largest number of epochs of stage 1."""
    patience: int | None = None
    """Number of epochs of stage 1 without a better one after which it ends."""
    batch_size: int | None = None
    """Number of pairs per step of stage 1; at most twice the identities with two images."""
    lr: float | None = None
    """Learning rate of stage 1."""
    stage2_epochs: int = 20
    """Largest number of epochs of stage 2."""
    stage2_patience: int = 5
    """Number of epochs of stage 2 without a better one after which it ends."""
    stage2_batch_size: int = 64
    """Number of pairs per step of stage 2."""
    stage2_lr: float = 8e-5
    """Learning rate of stage 2."""
    pairs: int | None = None
    """Number of pairs per epoch, half of them positive; by default as many as training images."""
    bce_share: float | None = None
    """Share of the binary cross-entropy in the loss; the rest is NT-Xent."""
    temperature: float = NT_XENT_TEMPERATURE
    """Temperature of NT-Xent."""
    sample_normalisation: float | None = None
    """Probability in stage 1 that a latent is normalised by itself, as it always is afterwards; lcmem only."""
    stage1_augment: str = "none"
    """mild: images of stage 1 are moved and brightened a little
    (`training.detectors.lcmem.augmentations.MildAugmentation`), for small data sets; or operations of stage 2 with
    commas between them, as in "blur,noise", for the single-stage rows of the paper's table 4; none is the paper's."""
    same_dataset: float = 0.9
    """Share of the negative pairs within one data set, of the corrected protocol."""
    network_size: int | None = None
    """Resize images to this side in pixels before the encoder."""
    weight_decay: float = 0.0
    """Weight decay of Adam."""
    precision: Precision = "auto"
    seed: int = 0
    """Random seed of weights, pairs, augmentation and the copies that are looked for."""
    device: Device = "auto"
    threads: Threads = 1
    checkpoint_seconds: CheckpointSeconds = 30.0

    def filled(self) -> "LatentOptions":
        """Return the same settings, the open ones filled in by the kind, checked.

        Raises:
            InputError: A value is outside what its field allows.
        """
        check_types(self)
        missing = {name: value for name, value in DEFAULTS_BY_KIND[self.kind].items() if getattr(self, name) is None}
        options = replace(self, **missing)
        options._check()
        return options

    def stage(self, number: int) -> StageOptions:
        """Return one stage of filled options."""
        prefix = "" if number == 1 else "stage2_"
        names = ("epochs", "patience", "batch_size", "lr")
        return StageOptions(number=number, **{name: getattr(self, prefix + name) for name in names})

    def steps(self, stage: StageOptions, size: int) -> TrainOptions:
        """Return the settings that the loop of epochs needs."""
        return TrainOptions(
            epochs=stage.epochs,
            lr=stage.lr,
            batch_size=size,
            optimizer="adam",
            schedule="constant",
            weight_decay=self.weight_decay,
            precision=self.precision,
        )

    def _check(self) -> None:
        """Check filled options."""
        if self.stage1_augment not in ("none", "mild"):
            from memorisk.training.detectors.lcmem.augmentations import operations_of  # PyTorch comes with it

            operations_of(self.stage1_augment)
        check_counts(self, epochs=1, patience=1, stage2_epochs=1, stage2_patience=1, dimension=1, threads=1)
        check_counts(self, network_size=1, pairs=2, batch_size=2, stage2_batch_size=2)
        check_finite(self, "lr", "stage2_lr", "temperature")
        check_finite(self, "weight_decay", "checkpoint_seconds", zero=True)
        for name in ("bce_share", "sample_normalisation", "same_dataset"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must lie between 0 and 1")
        check_seeds(self, "seed")
        if self.kind == "siamese-ntxent" and self.bce_share:
            raise InputError(
                "siamese-ntxent has no head for a binary cross-entropy: leave bce_share out, or take lcmem"
            )
        if self.kind == "siamese" and self.bce_share == 0:
            raise InputError("siamese needs its binary cross-entropy: without it, take siamese-ntxent")
