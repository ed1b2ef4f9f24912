"""Settings of a training, as the command line, the configuration file and Python share them.

Defaults are those of paper 000, A.7 and table 10 (Adam, cosine annealing, batch 64, 30 epochs, 1e-4), taken from the
architecture's `ModelSpec` where they are left open (``None``): MedSAM has 50 epochs at 5e-5, the small nets 1e-3.
"""

from dataclasses import dataclass, replace
from typing import Literal

from memorisk.models.specs import ModelSpec
from memorisk.runs.errors import InputError, unknown_name

OPTIMIZERS = ("adam", "adamw", "sgd")
SCHEDULES = ("cosine", "constant")
HEADS = ("single", "binary", "multi", "first")
NORMALISATIONS = ("dataset", "model", "none")
PRECISIONS = ("auto", "fp32", "bf16", "fp16")


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """How a network is trained. ``None`` means: what the architecture's specification says."""

    epochs: int | None = None
    """Passes over the training images; by default the architecture's (30, MedSAM 50)."""

    batch_size: int = 64
    """Images per step. The last, smaller batch of an epoch is kept; a remainder of one image joins the batch before."""

    lr: float | None = None
    """Learning rate at the start; by default the architecture's (1e-4, small nets 1e-3, MedSAM 5e-5)."""

    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    """Optimiser; sgd is with momentum 0.9."""

    schedule: Literal["cosine", "constant"] = "cosine"
    """Learning rate by epoch: cosine annealing from lr to 0 over all epochs, or constant."""

    weight_decay: float = 0.0
    """Weight decay of the optimiser."""

    class_weights: bool = False
    """Weigh each class by the inverse of its frequency in the training images."""

    augment: str | None = None
    """Augmentations of the training images, by name and joined with commas: hflip, vflip, rotate, crop."""

    head: Literal["single", "binary", "multi", "first"] = "single"
    """What is predicted: one label of several, one of two by a single logit, several labels at once (joined by "|"),
    or the first-listed of several."""

    normalise: Literal["dataset", "model", "none"] | None = None
    """Pixels are scaled by the data set's own mean and deviation, by those that the architecture was pre-trained with,
    or only to [0, 1]; by default the architecture's choice."""

    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Arithmetic of the training; auto is bf16 on a GPU that has it, fp32 elsewhere. Scoring is always in fp32."""

    def __post_init__(self) -> None:
        """Check every value that can be wrong by itself."""
        _check_choice("optimizer", self.optimizer, OPTIMIZERS)
        _check_choice("schedule", self.schedule, SCHEDULES)
        _check_choice("head", self.head, HEADS)
        _check_choice("precision", self.precision, PRECISIONS)
        if self.normalise is not None:
            _check_choice("normalise", self.normalise, NORMALISATIONS)
        if not isinstance(self.class_weights, bool):
            raise InputError(f"class_weights is {self.class_weights!r}; it must be true or false, without quotes")
        if self.epochs is not None:
            _check_count("epochs", self.epochs)
        _check_count("batch_size", self.batch_size, least=2)
        if self.lr is not None and not 0 < self.lr < float("inf"):
            raise InputError(f"lr is {self.lr}; it must be above 0, as in 1e-4")
        if not 0 <= self.weight_decay < float("inf"):
            raise InputError(f"weight_decay is {self.weight_decay}; it must be 0 or more")

    @property
    def augmentations(self) -> tuple[str, ...]:
        """The names in ``augment``, in their order."""
        return tuple(name.strip() for name in (self.augment or "").split(",") if name.strip())


def resolve_options(options: TrainOptions, spec: ModelSpec) -> TrainOptions:
    """The same options with every ``None`` filled in from the architecture's specification."""
    return replace(
        options,
        epochs=spec.epochs if options.epochs is None else options.epochs,
        lr=spec.lr if options.lr is None else options.lr,
        normalise=spec.normalise if options.normalise is None else options.normalise,
    )


def _check_choice(field: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise unknown_name(field, value, allowed)


def _check_count(field: str, value: object, *, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{field} is {value!r}; it must be a whole number of at least {least}")
