"""Settings of a training, as the command line, the configuration file and Python share them.

Defaults are those of paper 000, A.7 and table 10 (Adam, cosine annealing, batch 64, 30 epochs, 1e-4), taken from the
architecture's `ModelSpec` where they are left open (``None``): MedSAM has 50 epochs at 5e-5, the small nets 1e-3.

How images are divided into training, validation and test parts by patient: the settings that commands share.

The settings of ``memorisk train``: frozen dataclasses for Python, the command line and YAML at once.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from cyclopts import Parameter

from memorisk.images.options import ImageOptions
from memorisk.models.classifiers.specs import ModelSpec
from memorisk.runs.errors import InputError, unknown_name

OPTIMIZERS = ("adam", "adamw", "sgd", "nesterov")
SCHEDULES = ("cosine", "constant", "step", "exponential")
HEADS = ("single", "binary", "multi", "first")
NORMALISATIONS = ("dataset", "model", "none")
PRECISIONS = ("auto", "fp32", "bf16", "fp16")
REGIMES = ("full", "lora", "dp-lora", "dp-full")

Regime = Literal["full", "lora", "dp-lora", "dp-full"]


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """How a network is trained. ``None`` means: what the architecture's specification says."""

    epochs: int | None = None
    """Passes over the training images; by default the architecture's (30, MedSAM 50)."""

    batch_size: int = 64
    """Images per step. The last, smaller batch of an epoch is kept; a remainder of one image joins the batch before."""

    lr: float | None = None
    """Learning rate at the start; by default the architecture's (1e-4, small nets 1e-3, MedSAM 5e-5)."""

    optimizer: Literal["adam", "adamw", "sgd", "nesterov"] = "adam"
    """Optimiser; sgd is with momentum 0.9, nesterov is sgd with Nesterov's."""

    schedule: Literal["cosine", "constant", "step", "exponential"] = "cosine"
    """Learning rate by epoch: cosine annealing from lr to 0 over all epochs, constant, step: lr, a tenth of it from
    half of the epochs and a hundredth from three quarters (Huang et al. 2018, DenseNet on CIFAR), or exponential: times
    0.99 after each."""

    weight_decay: float = 0.0
    """Weight decay of the optimiser."""

    class_weights: bool = False
    """Weigh each class by the inverse of its frequency in the training images."""

    augment: str | None = None
    """Augmentations of the training images, by name and joined with commas: hflip, vflip, rotate, crop, contrast,
    shift1."""

    head: Literal["single", "binary", "multi", "first"] = "single"
    """What is predicted: one label of several, one of two by a single logit, several labels at once (joined by "|"),
    or the first-listed of several."""

    normalise: Literal["dataset", "model", "none"] | None = None
    """Pixels are scaled by the data set's own mean and deviation, by those that the architecture was pre-trained with,
    or only to [0, 1]; by default the architecture's choice."""

    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Arithmetic of the training; auto is bf16 on a GPU that has it, fp32 elsewhere. Scoring is always in fp32."""

    regime: Annotated[tuple[Regime, ...], Parameter(consume_multiple=True)] = ("full",)
    """What is trained and how: every weight (full), low-rank adapters of the attention (lora), and either under
    differential privacy (dp-lora, dp-full). Several are compared."""

    epsilon: Annotated[tuple[float, ...], Parameter(consume_multiple=True)] = ()
    """Privacy budget of the dp regimes, per image added or removed. Several are compared."""

    delta: float = 1e-5
    """Probability with which the budget may be exceeded."""

    clip: float = 1.0
    """Norm to which the dp regimes clip the gradient of each image."""

    lora_rank: int = 8
    """Rank of the adapters of the lora regimes."""

    lora_alpha: float = 16.0
    """Scale of the adapters: their product is multiplied by lora_alpha / lora_rank."""

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
        if self.lr is not None:
            _check_positive("lr", self.lr, "as in 0.0001")
        if (
            isinstance(self.weight_decay, bool)
            or not isinstance(self.weight_decay, int | float)
            or not (0 <= self.weight_decay < float("inf"))
        ):
            raise InputError(f"weight_decay is {self.weight_decay!r}; it must be 0 or more")
        self._check_regime()

    def _check_regime(self) -> None:
        """Check the settings of the regimes, each by itself and together."""
        for name in ("regime", "epsilon"):  # one may be given without a list around it
            value = getattr(self, name)
            given = () if value is None else (value,) if isinstance(value, str | float | int) else tuple(value)
            object.__setattr__(self, name, given)
        for regime in self.regime:
            _check_choice("regime", regime, REGIMES)
        for name in ("regime", "epsilon"):
            if len(set(getattr(self, name))) != len(getattr(self, name)):
                raise InputError(f"{name} names the same one twice: {', '.join(map(str, getattr(self, name)))}")
        if not self.regime:
            raise InputError(f"regime is empty; allowed are {', '.join(REGIMES)}")
        for epsilon in self.epsilon:
            _check_positive("epsilon", epsilon, "as in 8")
        object.__setattr__(self, "epsilon", tuple(float(e) for e in self.epsilon))  # 8 and 8.0 are one training
        _check_positive("clip", self.clip, "as in 1.0")
        _check_positive("lora_alpha", self.lora_alpha, "as in 16")
        _check_count("lora_rank", self.lora_rank)
        if not 0 < self.delta < 1:
            raise InputError(f"delta is {self.delta}; it must lie between 0 and 1, as in 1e-5")
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
        """The names in ``augment``, in their order."""
        return tuple(name.strip() for name in (self.augment or "").split(",") if name.strip())

    @property
    def one_regime(self) -> Regime:
        """The regime of one training.

        Raises:
            InputError: These are the options of several.
        """
        if len(self.regime) != 1 or len(self.epsilon) > 1:
            raise InputError("one training has one regime and at most one epsilon; audit_defences compares several")
        return self.regime[0]

    @property
    def low_rank(self) -> bool:
        """Whether adapters are trained instead of the weights."""
        return self.one_regime in ("lora", "dp-lora")

    @property
    def private(self) -> bool:
        """Whether one training is differentially private."""
        return self.one_regime in ("dp-lora", "dp-full")

    @property
    def arms(self) -> dict[str, "TrainOptions"]:
        """Each combination of regime and epsilon by its name ("dp-lora-8"), as options of one training."""
        named = {}
        for regime in self.regime:
            for epsilon in self.epsilon if regime.startswith("dp-") else (None,):
                name = regime if epsilon is None else f"{regime}-{epsilon:g}"
                named[name] = replace(self, regime=(regime,), epsilon=() if epsilon is None else (epsilon,))
        return named


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


def _check_positive(field: str, value: object, example: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise InputError(f"{field} is {value!r}; it must be above 0, {example}")


def _check_count(field: str, value: object, *, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{field} is {value!r}; it must be a whole number of at least {least}")


_SEEDS = 1 << 32


@dataclass(frozen=True, kw_only=True)
class PartOptions(ImageOptions):
    """Which images train, choose and measure."""

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
            InputError: A value is outside what its field allows.
        """
        ImageOptions.validate(self)
        check_parts(self.splits, self.split_seed, self.validation_share, self.test_share)


def check_parts(splits: str, split_seed: int, validation_share: float, test_share: float) -> None:
    """Check how images are divided.

    Raises:
        InputError: A value is outside what its field allows.
    """
    if splits not in ("redraw", "given"):
        raise unknown_name("splits", splits, ("redraw", "given"))
    if not 0 <= split_seed < _SEEDS:
        raise InputError(f"split_seed is {split_seed}; it must lie between 0 and {_SEEDS - 1}")
    if min(validation_share, test_share) <= 0 or validation_share + test_share >= 1:
        raise InputError(
            f"validation_share is {validation_share} and test_share {test_share}; both must be above 0 and leave "
            "images to train on"
        )


@dataclass(frozen=True, kw_only=True)
class TrainClassifierOptions(ImageOptions, TrainOptions):
    """Everything that `memorisk train classifier` can be told."""

    model: str = "auto"
    """Network: any name of timm, one of the paper's, a small net; auto is small_cnn below 64 px, resnet50 above."""

    weights: str | None = None
    """Pre-trained weights: a file, "default" or a tag to download by name; none if not given."""

    seed: int = 0
    """Seed of initialisation, order, augmentation and sampled slots. The noise of dp regimes is never from a seed."""

    splits: Literal["redraw", "given"] = "redraw"
    """Training and test images: drawn by group and class, or the given split (other parts than these two unused)."""

    split_seed: int = 0
    """Seed of the split."""

    held_out: float = 0.15
    """Share of the images that no model sees, to measure what it is good for."""

    device: str = "auto"
    """cpu, cuda, or auto: a GPU when there is one."""

    threads: int = 1
    """Threads of each training on a CPU; results depend on it."""

    checkpoint_seconds: float = 30.0
    """Least time between two writes of a training's state, from which a killed training goes on."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        ImageOptions.validate(self)
        if self.splits not in ("redraw", "given"):
            raise unknown_name("splits", self.splits, ("redraw", "given"))
        if not 0 < self.held_out < 1:
            raise InputError(f"held_out is {self.held_out}; it must lie between 0 and 1, as in 0.15")
        if self.threads < 1:
            raise InputError(f"threads is {self.threads}; it must be a whole number of at least 1")
        for name in ("seed", "split_seed"):
            if not 0 <= getattr(self, name) < 1 << 32:
                raise InputError(f"{name} is {getattr(self, name)}; it must lie between 0 and {(1 << 32) - 1}")
        if not 0 <= self.checkpoint_seconds < float("inf"):
            raise InputError(f"checkpoint_seconds is {self.checkpoint_seconds}; it must be 0 or more")
