"""The settings of a copy detector's training; those of the command are in `training.detectors.command_options`.

Defaults are METHODS section 3's, from paper 003, section 3.2.3; docs/detectors-training.md has what they do on a small
data set.
"""

from dataclasses import dataclass
from typing import Literal

from memorisk.runs.errors import InputError, unknown_name
from memorisk.runs.settings import check_types
from memorisk.training.engine.options import PRECISIONS, TrainOptions

MEASURES = {"triplet": "cosine", "infonce": "cosine"}
"""The distance that each loss is about: both see directions only (the nearest at length 1 is the nearest by cosine)."""
MARGIN, TEMPERATURE = 0.05, 0.5
PROTOCOLS = ("paper", "corrected")
STRENGTH_NAMES = ("weak", "strong")
_BATCH, _TRANSFORMER_BATCH = 128, 64
_SEEDS = 1 << 32


@dataclass(frozen=True, kw_only=True)
class DetectorOptions:
    """How one detector is trained."""

    backbone: str = ""
    """Network and its weights, as in resnet50@FILE, resnet50@default (downloads) or resnet50@none (random)."""

    loss: Literal["triplet", "infonce"] = "triplet"
    """What is learnt from: triplet (margin, the nearest negative) or infonce (temperature, all negatives)."""

    protocol: Literal["paper", "corrected"] = "corrected"
    """corrected: other images of a patient are no negatives, batches are shuffled, the epoch is chosen by finding
    validation copies, a frozen backbone stays as it is; paper: as published, without these."""

    augment: Literal["weak", "strong"] = "weak"
    """Strength of the augmented copies that it learns to recognise, and that choose the epoch; the paper's is weak."""

    epochs: int = 100
    """Passes over the training images; the weights of the best one are kept."""

    lr: float = 1e-4
    """Learning rate at the start, times 0.99 after each epoch."""

    batch_size: int | None = None
    """Images a step, each with one copy; by default 128, and 64 for CLIP and DINOv2."""

    frozen_epochs: int = 5
    """Epochs at the start in which only the new linear layer is trained."""

    margin: float = MARGIN
    """Of the triplet loss."""

    temperature: float = TEMPERATURE
    """Of InfoNCE."""

    dimension: int = 128
    """Numbers of an embedding."""

    weight_decay: float = 0.01
    """Of AdamW."""

    network_size: int | None = None
    """Pixels a side that the backbone gets; by default what it was trained at, memorisk's own what is stored."""

    normalise: str | None = None
    """Mean and deviation of the backbone's input where they are not the published ones, as in 0.13/0.31."""

    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Arithmetic of the training; auto is bf16 on a GPU that has it, fp32 elsewhere. Figures are always in fp32."""

    seed: int = 0
    """Of the linear layer, random weights, order, augmentation and the copies that are looked for."""

    device: str = "auto"
    """cpu, cuda, or auto: a GPU when there is one."""

    threads: int = 1
    """Threads on a CPU; results depend on it."""

    checkpoint_seconds: float = 30.0
    """Least time between two writes of the training's state, from which a killed one goes on."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        check_types(self)
        if not self.backbone:
            raise InputError("a detector needs a backbone: name it, as in --backbone resnet50@FILE")
        choices = (("loss", MEASURES), ("protocol", PROTOCOLS), ("augment", STRENGTH_NAMES), ("precision", PRECISIONS))
        for name, allowed in choices:
            if getattr(self, name) not in allowed:
                raise unknown_name(name, getattr(self, name), allowed)
        for name, least in (("epochs", 1), ("batch_size", 2), ("frozen_epochs", 0), ("dimension", 1), ("threads", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name} is {value}; it must be a whole number of at least {least}")
        for name in ("lr", "margin", "temperature"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"{name} is {getattr(self, name)}; it must be above 0")
        for name in ("weight_decay", "checkpoint_seconds"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise InputError(f"{name} is {getattr(self, name)}; it must be 0 or more")
        if not 0 <= self.seed < _SEEDS:
            raise InputError(f"seed is {self.seed}; it must lie between 0 and {_SEEDS - 1}")

    @property
    def measure(self) -> str:
        """The distance that the loss is about."""
        return MEASURES[self.loss]

    @property
    def images_a_step(self) -> int:
        """Batch size, filled in."""
        small = any(name in self.backbone.partition("@")[0].lower() for name in ("clip", "dino"))
        return self.batch_size or (_TRANSFORMER_BATCH if small else _BATCH)

    @property
    def steps(self) -> TrainOptions:
        """What the loop of epochs needs of these settings."""
        return TrainOptions(
            epochs=self.epochs,
            lr=self.lr,
            batch_size=self.images_a_step,
            optimizer="adamw",
            schedule="exponential",
            weight_decay=self.weight_decay,
            precision=self.precision,
        )
