"""Settings of trainings and of the division of images, for Python, the command line and YAML at once.

Defaults are those of paper 000, A.7 and table 10 (Adam, cosine annealing, batch 64, 30 epochs, 1e-4), taken from the
architecture's `ModelSpec` where they are left open (``None``): MedSAM has 50 epochs at 5e-5, the small nets 1e-3.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Literal, Self, get_args

from cyclopts import Parameter

from memorisk.images.options import ImageOptions
from memorisk.models.classifiers.specs import ModelSpec
from memorisk.runs.errors import InputError, unknown_name
from memorisk.runs.options import CheckpointSeconds, Device, Threads, grouped, in_group
from memorisk.runs.settings import check_between, check_counts, check_finite, check_seeds, check_types
from memorisk.runs.user_code.functions import NAMES_A_FUNCTION, FunctionOptions

Head = Literal["single", "binary", "multi", "first"]
Regime = Literal["full", "lora", "dp-lora", "dp-full"]
Splits = Annotated[Literal["redraw", "given"], in_group("design")]
SplitSeed = Annotated[int, in_group("design", help="Random seed for the split.")]
_NETWORK = (
    "Network: any name of timm, a network of the papers, or a small one; auto: small_cnn below 64 pixels, resnet50 "
    "from 64 on."
)
Model = Annotated[str, in_group("training", essential=True, help=_NETWORK)]
Models = Annotated[
    tuple[str, ...],
    Parameter(consume_multiple=True),
    in_group("training", essential=True, help=f"{_NETWORK} Several are compared."),
]
Weights = Annotated[
    str | None,
    in_group("training", essential=True, help='Pre-trained weights: a file, "default" or a tag to download by name; '
    "by default none."),
]  # fmt: skip


AUGMENTATION_NAMES = ("hflip", "vflip", "rotate", "crop", "contrast", "shift1")
"""Names of the augmentations, which `memorisk.training.engine.pixels` defines."""


@grouped("training")
@dataclass(frozen=True, kw_only=True)
class OwnTrainingOptions(FunctionOptions):
    """Options of a training by the user's own function."""

    train: str | None = field(default=None, metadata=NAMES_A_FUNCTION)
    """Your own training function as module:function, instead of the built-in training. Its settings are
    --train-settings; those of the built-in training are refused."""

    train_settings: dict[str, str] | None = None
    """Settings passed to your training function, as --train-settings.NAME VALUE."""

    def check_own_training(self, built_in: Collection[str]) -> None:
        """Refuse settings that would have no effect.

        Args:
            built_in: Names of the settings of the built-in training, which the user's function does not get.

        Raises:
            InputError: One of these is given with a function, or settings of a function without one.
        """
        if self.train_settings and not self.train:
            raise InputError("train_settings are for your own training function: name it with --train module:function")
        for one in fields(self):
            if self.train and one.name in built_in and getattr(self, one.name) != one.default:
                raise InputError(
                    f"{one.name} is of the built-in training, and your own function makes the models: leave it out, or "
                    f"hand it over with train_settings (--train-settings.{one.name} VALUE)"
                )


@grouped("training", essential="epochs lr regime epsilon", privacy="regime epsilon delta clip")
@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """Settings of a training. ``None`` means the value in the architecture's specification."""

    epochs: int | None = None
    """Epochs; by default the architecture's (30, MedSAM 50)."""

    batch_size: int = 64
    """Images per step. The last, smaller batch of an epoch is kept; a single remaining image joins the batch before."""

    lr: float | None = None
    """Initial learning rate; by default the architecture's (1e-4, small networks 1e-3, MedSAM 5e-5)."""

    optimizer: Literal["adam", "adamw", "sgd", "nesterov"] = "adam"
    """Optimiser; sgd has momentum 0.9, nesterov is sgd with Nesterov momentum."""

    schedule: Literal["cosine", "constant", "step", "exponential"] = "cosine"
    """Learning rate over the epochs: cosine (annealed from lr to 0), constant, step (a tenth of lr after half of the
    epochs, a hundredth after three quarters, as Huang et al. 2018), or exponential (times 0.99 per epoch)."""

    weight_decay: float = 0.0
    """Weight decay of the optimiser."""

    class_weights: bool = False
    """Weight each class by the inverse of its frequency in the training images."""

    augment: str | None = None
    """Augmentations of the training images, separated by commas: hflip, vflip, rotate, crop, contrast, shift1."""

    head: Head = "single"
    """Prediction: single (one of several labels), binary (one of two, with a single logit), multi (several labels at
    once, joined by "|"), or first (the first-listed of several)."""

    normalise: Literal["dataset", "model", "none"] | None = None
    """Scale pixels by the mean and deviation of the data set (dataset) or of the pre-training (model), or only to
    [0, 1] (none); by default the architecture's choice."""

    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Arithmetic of the training; auto is bf16 on a GPU that supports it, otherwise fp32. Scoring is always in fp32."""

    regime: Annotated[tuple[Regime, ...], Parameter(consume_multiple=True)] = ("full",)
    """Train all weights (full) or low-rank adapters of the attention (lora), each also with differential privacy
    (dp-full, dp-lora). Several are compared."""

    epsilon: Annotated[tuple[float, ...], Parameter(consume_multiple=True)] = ()
    """Privacy budget of the dp regimes, per image added or removed. Several are compared."""

    delta: float = 1e-5
    """Delta of differential privacy: the probability with which the budget may be exceeded."""

    clip: float = 1.0
    """Gradient norm to which the dp regimes clip each image."""

    lora_rank: int = 8
    """Rank of the adapters of the lora regimes."""

    lora_alpha: float = 16.0
    """Scale of the adapters: their output is multiplied by lora_alpha / lora_rank."""

    def __post_init__(self) -> None:
        """Check every value that can be wrong by itself."""
        for name in ("regime", "epsilon"):  # one may be given without a list around it
            value = getattr(self, name)
            values = () if value is None else (value,) if isinstance(value, str | float | int) else tuple(value)
            object.__setattr__(self, name, values)
        check_types(self, TrainOptions)
        check_counts(self, epochs=1, batch_size=2, lora_rank=1)
        check_finite(self, "lr", "clip", "lora_alpha")
        check_finite(self, "weight_decay", zero=True)
        check_between(self, "delta", example="1e-5")
        for name in self.augmentations:
            if name not in AUGMENTATION_NAMES:
                raise unknown_name("augmentation", name, AUGMENTATION_NAMES)
        self._check_regime()

    def _check_regime(self) -> None:
        """Check the settings of the regimes, each by itself and together."""
        for name in ("regime", "epsilon"):
            refuse_repeated(name, getattr(self, name))
        if not self.regime:
            raise InputError(f"regime is empty; allowed are {', '.join(get_args(Regime))}")
        for epsilon in self.epsilon:
            if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 < epsilon < float("inf"):
                raise InputError(f"epsilon is {epsilon!r}; it must be above 0, as in 8")
        object.__setattr__(self, "epsilon", tuple(float(e) for e in self.epsilon))  # 8 and 8.0 are one training
        private = [r for r in self.regime if r.startswith("dp-")]
        if private and not self.epsilon:
            raise InputError(f"regime {private[0]} needs a privacy budget: name it with epsilon, as in 8")
        if self.epsilon and not private:
            raise InputError(f"epsilon is for the regimes dp-lora and dp-full, not for {', '.join(self.regime)}")
        if private and self.class_weights:
            raise InputError("class_weights are counted from the labels: differential privacy does not cover them")
        if private and self.precision not in ("auto", "fp32"):
            raise InputError(f"precision {self.precision} is not possible under differential privacy; use fp32")

    @property
    def augmentations(self) -> tuple[str, ...]:
        """Names in ``augment``, in their order."""
        return tuple(name.strip() for name in (self.augment or "").split(",") if name.strip())

    @property
    def one_regime(self) -> Regime:
        """Regime of one training.

        Raises:
            InputError: The options are those of several trainings.
        """
        if len(self.regime) != 1 or len(self.epsilon) > 1:
            raise InputError("one training has one regime and at most one epsilon; audit_defences compares several")
        return self.regime[0]

    @property
    def low_rank(self) -> bool:
        """Return whether adapters are trained instead of the weights."""
        return self.one_regime in ("lora", "dp-lora")

    @property
    def private(self) -> bool:
        """Return whether one training is differentially private."""
        return self.one_regime in ("dp-lora", "dp-full")

    @property
    def arms(self) -> dict[str, Self]:
        """Options of one training each, for every combination of regime and epsilon, by name ("dp-lora-8")."""
        named: dict[str, Self] = {}
        for regime in self.regime:
            for epsilon in self.epsilon if regime.startswith("dp-") else (None,):
                name = regime if epsilon is None else f"{regime}-{epsilon:g}"
                named[name] = replace(self, regime=(regime,), epsilon=() if epsilon is None else (epsilon,))
        return named


def refuse_repeated(name: str, values: tuple[object, ...]) -> None:
    """Refuse a setting that names the same value twice.

    Args:
        name: Name of the setting.
        values: Its values.

    Raises:
        InputError: Two values are equal.
    """
    if len(set(values)) != len(values):
        raise InputError(f"{name} names the same one twice: {', '.join(map(str, values))}")


def resolve_options(options: TrainOptions, spec: ModelSpec) -> TrainOptions:
    """Return the same options with every ``None`` filled in from the architecture's specification."""
    return replace(
        options,
        epochs=spec.epochs if options.epochs is None else options.epochs,
        lr=spec.lr if options.lr is None else options.lr,
        normalise=spec.normalise if options.normalise is None else options.normalise,
    )


@grouped("design", essential="splits")
@dataclass(frozen=True, kw_only=True)
class SplitOptions:
    """Settings that decide which images train, choose and measure."""

    splits: Splits = "redraw"
    """Draw training, validation and test images by patient (redraw), or use the given split."""

    split_seed: SplitSeed = 0

    validation_share: float = 0.15
    """Share of the images used to choose the epoch."""

    test_share: float = 0.15
    """Share of the images used for nothing but the reported figures."""

    def check_split(self) -> None:
        """Check the division of the images.

        Raises:
            InputError: A value is outside what its field allows.
        """
        check_seeds(self, "split_seed")
        if min(self.validation_share, self.test_share) <= 0 or self.validation_share + self.test_share >= 1:
            raise InputError(
                f"validation_share is {self.validation_share} and test_share {self.test_share}; both must be above 0 "
                "and leave images to train on"
            )


@dataclass(frozen=True, kw_only=True)
class PartOptions(SplitOptions, ImageOptions):
    """Settings that read the images, and decide which of them train, choose and measure."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        ImageOptions.validate(self)
        self.check_split()


@grouped("training", essential="model weights held_out device", design="held_out")
@dataclass(frozen=True, kw_only=True)
class TrainClassifierOptions(ImageOptions, TrainOptions):
    """All settings of ``memorisk train classifier``."""

    model: Model = "auto"

    weights: Weights = None

    seed: int = 0
    """Random seed for initial weights, order, augmentation and sampled slots. The noise of the dp regimes has none."""

    splits: Splits = "redraw"
    """Draw training and test images by group and class (redraw), or use the given split (other parts unused)."""

    split_seed: SplitSeed = 0

    held_out: float = 0.15
    """Share of the images that no model sees, to measure its performance."""

    device: Device = "auto"

    threads: Threads = 1

    checkpoint_seconds: CheckpointSeconds = 30.0

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        ImageOptions.validate(self)
        check_between(self, "held_out", example="0.15")
        check_counts(self, threads=1)
        check_seeds(self, "seed", "split_seed")
        check_finite(self, "checkpoint_seconds", zero=True)
