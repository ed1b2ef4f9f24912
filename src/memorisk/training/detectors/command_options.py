"""The settings of ``memorisk train detector``, for every kind of detector at once.

What is left open is filled in by the kind: `training.detectors.options.DetectorOptions` for ``copy``,
`training.detectors.options` for the Siamese kinds. A setting that the kind does not have is refused where it is
given.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal

from memorisk.images.options import ImageOptions
from memorisk.models.settings import COPY_DETECTOR, DETECTOR_KINDS
from memorisk.runs.errors import InputError, unknown_name
from memorisk.runs.settings import check_types
from memorisk.training.detectors.options import DetectorOptions, LatentOptions
from memorisk.training.engine.options import check_parts

SHARED = (
    *("backbone", "protocol", "epochs", "lr", "batch_size", "temperature", "dimension", "weight_decay"),
    *("network_size", "precision", "seed", "device", "threads", "checkpoint_seconds"),
)
COPY_ONLY = ("loss", "augment", "frozen_epochs", "margin", "normalise")
LATENT_ONLY = (
    *("encoder", "identities", "stages", "patience", "stage2_epochs", "stage2_patience", "stage2_batch_size"),
    *("stage2_lr", "pairs", "bce_share", "sample_normalisation", "stage1_augment", "same_dataset"),
)


@dataclass(frozen=True, kw_only=True)
class TrainDetectorOptions(ImageOptions):
    """Everything that `memorisk train detector` can be told; docs/detectors-training.md and docs/lcmem.md say more."""

    kind: Literal["copy", "lcmem", "siamese", "siamese-ntxent"] = "copy"
    """copy: recognises augmented copies; lcmem: the same patient and copies, from latents, in two stages; siamese,
    siamese-ntxent: its baselines."""

    backbone: str | None = None
    """Network and its weights, as in resnet50@FILE, resnet50@default (downloads) or resnet50@none (random); lcmem has
    convnext_tiny@none where none is named."""

    encoder: str | None = None
    """Of the latents, not for copy: pixels (the default), pixels:SIDE, autoencoder:FOLDER."""

    loss: Literal["triplet", "infonce"] | None = None
    """What a copy detector is learnt from: triplet (margin, the nearest negative; the default) or infonce
    (temperature, all negatives)."""

    protocol: Literal["paper", "corrected"] = "corrected"
    """corrected: no image of a patient is a negative of another, each patient counts alike, batches are shuffled;
    paper: as published."""

    augment: Literal["weak", "strong"] | None = None
    """Strength of a copy detector's augmented copies; the paper's is weak."""

    stages: Literal[1, 2] | None = None
    """1: clean latents; 2: augmented images after that. lcmem has 2, its baselines 1; not for copy."""

    epochs: int | None = None
    """Passes over the training images, by default 100; the weights of the best one are kept. Of two stages the
    first."""

    patience: int | None = None
    """Epochs without a better one after which stage 1 ends (10; the baselines 5); not for copy."""

    lr: float | None = None
    """Learning rate at the start: 1e-4; of lcmem's stage 1 5e-4. It falls by 0.99 an epoch for copy, else stays."""

    batch_size: int | None = None
    """Images a step of copy, each with one copy (128; 64 for CLIP and DINOv2); pairs a step of the others (lcmem 512,
    32), at most twice the patients with two images."""

    stage2_epochs: int | None = None
    """Of stage 2 (20)."""

    stage2_patience: int | None = None
    """Of stage 2 (5)."""

    stage2_lr: float | None = None
    """Of stage 2 (8e-5)."""

    stage2_batch_size: int | None = None
    """Pairs a step of stage 2 (64)."""

    pairs: int | None = None
    """Pairs an epoch, half of them of one patient; by default as many as training images. Not for copy."""

    identities: Literal["use", "ignore"] | None = None
    """use, or ignore: every file is its own identity, recognised by two augmentations of it. Not for copy."""

    bce_share: float | None = None
    """Share of the binary cross-entropy in lcmem's loss (0.8); the rest is NT-Xent."""

    frozen_epochs: int | None = None
    """Epochs at the start in which only the new linear layer of a copy detector is trained (5)."""

    margin: float | None = None
    """Of the triplet loss (0.05)."""

    temperature: float | None = None
    """Of InfoNCE (0.5) and NT-Xent (0.07)."""

    dimension: int | None = None
    """Numbers of an embedding: 128, of the kinds over latents 512."""

    sample_normalisation: float | None = None
    """Probability in lcmem's stage 1 that a latent is normalised by itself (0.01), as it always is afterwards."""

    stage1_augment: str | None = None
    """mild: images of stage 1 are moved and brightened a little, for small data sets; or some of rotate, flip, blur,
    noise, brightness, contrast, jpeg with commas between them; none is the paper's and the default. Not for copy."""

    same_dataset: float | None = None
    """Share of the pairs of two patients that are within one data set (0.9); not for copy."""

    weight_decay: float | None = None
    """Of AdamW for copy (0.01), of Adam for the others (0)."""

    network_size: int | None = None
    """Pixels a side that the backbone or the encoder gets; by default what it was trained at, else what is stored."""

    normalise: str | None = None
    """Mean and deviation of a copy detector's input where they are not the published ones, as in 0.13/0.31."""

    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Arithmetic of the training; auto is bf16 on a GPU that has it, fp32 elsewhere. Figures are always in fp32."""

    seed: int = 0
    """Of new layers, random weights, order, pairs, augmentation and the copies that are looked for."""

    device: str = "auto"
    """cpu, cuda, or auto: a GPU when there is one."""

    threads: int = 1
    """Threads on a CPU; results depend on it."""

    checkpoint_seconds: float = 30.0
    """Least time between two writes of the training's state, from which a killed one goes on."""

    splits: Literal["redraw", "given"] = "redraw"
    """Training, validation and test images: drawn by patient, or the given split (train, validation, test)."""

    split_seed: int = 0
    """Seed of the split."""

    validation_share: float = 0.15
    """Share of the images that choose the epoch."""

    test_share: float = 0.15
    """Share of the images that choose nothing: the figures to be reported are theirs."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows, or the kind has no such setting.
        """
        ImageOptions.validate(self)
        check_types(self)
        if self.kind not in DETECTOR_KINDS:
            raise unknown_name("kind", self.kind, DETECTOR_KINDS)
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
        check_parts(self.splits, self.split_seed, self.validation_share, self.test_share)

    @property
    def copy(self) -> DetectorOptions:
        """Of one training of a copy detector."""
        return DetectorOptions(**self._given((*SHARED, *COPY_ONLY)))

    @property
    def latent(self) -> LatentOptions:
        """Of one training of a Siamese detector."""
        return LatentOptions(kind=self.kind, **self._given((*SHARED, *LATENT_ONLY)))  # pyright: ignore[reportArgumentType]

    def complete(self) -> dict[str, Any]:
        """Every setting by its name, what is left open filled in by the kind; None for those of other kinds."""
        filled = self.copy if self.kind == COPY_DETECTOR else self.latent.filled()
        names = {field.name for field in fields(filled)}
        return {f.name: getattr(filled if f.name in names else self, f.name) for f in fields(self)}

    def _given(self, names: Iterable[str]) -> dict[str, Any]:
        return {name: value for name in names if (value := getattr(self, name)) is not None}
