"""The settings of the classifier audit: one frozen dataclass for Python, the command line and YAML at once."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from cyclopts import Parameter

from memorisk.images.options import ImageOptions
from memorisk.report.options import ReportOptions
from memorisk.runs.errors import InputError
from memorisk.runs.executors.placement import ClusterOptions
from memorisk.runs.options import By, CheckpointSeconds, Device, OneImagePerPatient, Threads, grouped
from memorisk.runs.settings import check_between, check_counts, check_finite, check_types, settings_of, written_settings
from memorisk.statistics.verdicts.levels import ATTACK_GATE, NOTICE, VERDICT_LEVEL
from memorisk.statistics.verdicts.scales import CROSS_ENTROPY, NOISE_ERROR, LossScale
from memorisk.training.engine.options import (
    Models,
    OwnTrainingOptions,
    SplitSeed,
    TrainOptions,
    Weights,
    refuse_repeated,
)

WORKER_MODULES = ("memorisk.training.classifiers.jobs", "memorisk.images.pixels")
"""Modules that the processes of an audit import, once for all of them."""

PAPER_SEEDS = (123, 456, 789, 1024)  # paper 000, section 4

Protocol = Literal["corrected", "paper"]
Design = Literal["balanced", "matched", "paper"]
Gate = Literal["high", "moderate", "never"]


@grouped("statistics", essential="fail_on one_image_per_patient by")
@dataclass(frozen=True, kw_only=True)
class AnalysisOptions:
    """Options of lists and verdicts from scores. The verdict's own list has a fixed level (`statistics.verdicts`)."""

    level: float = VERDICT_LEVEL
    """False discovery rate of the flagged patients, over all classes together. It changes the lists; the verdict uses
    a list at 0.1."""

    correction: Literal["bh", "by", "bh-within"] = "bh"
    """Multiple testing: bh (Benjamini-Hochberg within selected classes; the level holds for the whole audit), by (the
    same under any dependence, flags fewer) or bh-within (the level holds in each class). It changes the lists; the
    verdict uses bh."""

    fail_on: Gate = "high"
    """Fail if any class reaches this tier of memorization; never: the exit code is 0 whatever the result."""

    notice: float = NOTICE
    """Memorization gap (nats; of generators standard deviations of the gaps of unseen images) that a passing audit must
    detect for a single patient in nine of ten cases."""

    attack_gate: float = ATTACK_GATE
    """Fail if a membership attack on the twins or on --target reaches this AUC; 0.5 is guessing."""

    one_image_per_patient: OneImagePerPatient = False

    by: By = ()

    review: Path | None = None
    """Path of the marks.csv of an earlier run: a person's judgements of patients, who keep their marks in this run."""

    @property
    def loss_scale(self) -> LossScale:
        """Return the scale of the losses that are analysed."""
        return CROSS_ENTROPY

    def validate(self) -> None:
        """Check every value.

        Raises:
            InputError: A value is outside what its field allows.
        """
        check_types(self)
        if not 0.5 < self.attack_gate < 1:
            raise InputError(
                f"attack_gate is {self.attack_gate}; it is an AUC and must lie between 0.5 (guessing) and 1, as in 0.6"
            )
        check_between(self, "level", example="0.1")
        if not 0 < self.notice < float("inf"):
            raise InputError(f"notice is {self.notice}; it must be a number of {self.loss_scale.unit} above 0, as in 2")


@grouped("design", essential="of random_split")
@dataclass(frozen=True, kw_only=True)
class LossesOptions(AnalysisOptions, ReportOptions):
    """Settings of `memorisk audit losses`."""

    of: Literal["classifier", "generator"] = "classifier"
    """Models of the losses: a classifier's losses are cross-entropies in nats, a generator's are errors of denoising in
    any unit, where the column level may name the noise level."""

    random_split: bool = True
    """Canaries and test images are a random split by group. Without one the audit computes no p-values."""

    @property
    def loss_scale(self) -> LossScale:
        """Return the scale of the losses that are analysed."""
        return NOISE_ERROR if self.of == "generator" else CROSS_ENTROPY


@grouped(
    "training",
    essential="models splits device processes",
    design="models seeds splits",
    where="processes discard_weights",
)
@dataclass(frozen=True, kw_only=True)
class TwinOptions(ImageOptions, AnalysisOptions, ReportOptions, ClusterOptions):
    """Settings of an audit that trains twins, of any kind of model."""

    models: int | None = None
    """Number of models to train, two per seed; by default the fewest with which these images can pass, and at least 16
    (balanced) or 8."""

    seeds: Annotated[tuple[int, ...] | None, Parameter(consume_multiple=True)] = None
    """Random seeds of the pairs of twin models; by default 123, 456, 789, 1024 as in the paper, then 1025 and on."""

    splits: Literal["redraw", "given", "given-random"] = "redraw"
    """Training, canary and test parts: drawn by group (redraw), or the given split. A given split has no p-values
    unless it was drawn at random (given-random)."""

    split_seed: SplitSeed = 0

    device: Device = "auto"

    processes: int | None = None
    """Models trained in parallel on a CPU; by default as many as the cores allow."""

    threads: Threads = 1

    checkpoint_seconds: CheckpointSeconds = 30.0

    discard_weights: bool = False
    """Delete the weights of the trained models, and keep only what the tables need."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        ImageOptions.validate(self)
        AnalysisOptions.validate(self)
        self.check_cluster()
        if self.models is not None and (self.models < 2 or self.models % 2):
            raise InputError(f"models is {self.models}; twins come in pairs: give an even number of at least 2")
        if self.seeds is not None and len(set(self.seeds)) != len(self.seeds):
            raise InputError("a seed is given twice: each twin pair needs its own")
        if self.models is not None and self.seeds is not None and self.models != 2 * len(self.seeds):
            raise InputError(f"{len(self.seeds)} seeds make {2 * len(self.seeds)} models, not {self.models}")
        check_counts(self, threads=1, processes=1)
        for seed in (self.split_seed, *(self.seeds or ())):
            if not 0 <= seed < 1 << 32:
                raise InputError(f"a seed is {seed}; it must lie between 0 and {(1 << 32) - 1}")
        check_finite(self, "checkpoint_seconds", zero=True)

    @property
    def chosen_design(self) -> Design:
        """The design that runs; by default every patient outside the test part is in one twin of each pair."""
        return "balanced"

    @property
    def names_models(self) -> bool:
        """Return whether the number of models is given, as it is or by seeds."""
        return self.models is not None or self.seeds is not None

    @property
    def chosen_seeds(self) -> tuple[int, ...]:
        """Seeds that run: the given ones, or the paper's and further ones from the last of them.

        Where no number of models is given, these are the fewest that an audit of the design has by default; an audit
        takes more where its images need them (`rehearsal.choose_models`).
        """
        if self.seeds is not None:
            return self.seeds
        pairs = (self.models or (16 if self.chosen_design == "balanced" else 8)) // 2
        return (*PAPER_SEEDS, *range(PAPER_SEEDS[-1] + 1, PAPER_SEEDS[-1] + 1 + pairs))[:pairs]


@grouped(
    "training",
    essential="model weights design target",
    design="protocol design placebo score_augmentations intervene classes canary_pairs target target_classes",
)
@dataclass(frozen=True, kw_only=True)
class ClassifierOptions(TwinOptions, TrainOptions, OwnTrainingOptions):
    """Settings of `memorisk audit classifier`."""

    model: Models = ("auto",)

    weights: Weights = None

    target: Path | None = None
    """Weights of the model to be released; the given split tells which images it was trained on."""

    target_classes: str | None = None
    """Classes of the target in the order of its outputs, separated by commas; by default sorted by name, and
    whole numbers by value."""

    protocol: Protocol = "corrected"
    """Form of the audit: corrected, or as published (paper: design paper, four seeds)."""

    design: Design | None = None
    """balanced scores every image outside the test part; matched and paper score 15 percent of them."""

    placebo: int = 0
    """Repeat the audit this many times with canaries that no model saw, to measure its false positive rate."""

    score_augmentations: int = 0
    """Score the mean loss over this many augmentations (see --augment) per image; paper 000's older tables use 5."""

    intervene: str | None = None
    """Train again with some classes changed (grayscale, blur, edges-only or colour-only), and once unchanged."""

    classes: Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True)] = None
    """Classes that --intervene changes; by default those with fewer than 5 percent of the images."""

    canary_pairs: int = 0
    """Train one more model on this many pairs of mislabelled images to bound its epsilon from below; 200 is a good
    number."""

    def __post_init__(self) -> None:
        """Check and complete what the parts do by themselves."""
        if isinstance(self.model, str):  # one may be given without a list around it
            object.__setattr__(self, "model", (self.model,))
        TrainOptions.__post_init__(self)
        OwnTrainingOptions.__post_init__(self)

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        TwinOptions.validate(self)
        self._check_networks()
        if self.protocol == "paper" and self.design not in (None, "paper"):
            raise InputError(f"protocol paper is the design paper, not {self.design}: leave one of the two out")
        check_counts(self, placebo=0, canary_pairs=0, score_augmentations=0)
        if self.placebo and (self.chosen_design == "paper" or self.splits == "given"):
            raise InputError("the placebo redraws the split and swaps twins: it needs the design balanced or matched")
        if self.target_classes is not None and self.target is None:
            raise InputError("target_classes names the outputs of a model that is to be released: name it with target")
        if self.intervene is not None:
            from memorisk.images.alterations.interventions import find_intervention  # NumPy, which --help does without

            find_intervention(self.intervene)
        if self.classes is not None and (self.intervene is None or not self.classes):
            raise InputError("classes names at least one class that an intervention changes: name that with intervene")
        if self.train and (self.canary_pairs or self.regime != ("full",)):
            raise InputError("regimes and canary_pairs are of the built-in training: your own --train makes its models")
        if self.score_augmentations and (self.train or not self.augment):
            raise InputError(
                "score_augmentations scores on the training's own augmentations: name them with augment"
                + (" and leave out --train" if self.train else "")
            )
        # The head says what the labels are; a target is a network that memorisk builds and scales pixels for.
        used = {"head", *(("model", "normalise") if self.target else ())}
        self.check_own_training({"model", "weights", *(one.name for one in fields(TrainOptions))} - used)

    def _check_networks(self) -> None:
        """Check the networks, each by itself and together.

        Raises:
            InputError: None is named, one twice, or several together with what belongs to one of them.
        """
        if not self.model:
            raise InputError("model is empty: name a network, or leave it out")
        refuse_repeated("model", tuple(name.removeprefix("timm:") for name in self.model))
        if len(self.model) == 1:
            return
        if "auto" in self.model:
            raise InputError("model auto is one of the others by another name: name each network that is compared")
        if len(self.arms) > 1:
            raise InputError(
                f"{len(self.model)} networks and {len(self.arms)} regimes are too many to compare at once: name "
                "several networks and one regime, or several regimes and one network"
            )
        if self.weights not in (None, "none", "default"):
            raise InputError(
                f"weights {self.weights} fit one network, and {len(self.model)} are compared: give default for the "
                "published weights of each, or none"
            )
        if self.target is not None:
            raise InputError(
                f"target is a file of one network, and {len(self.model)} are compared: name its network alone"
            )

    @property
    def one_model(self) -> str:
        """Network of one audit.

        Raises:
            InputError: The options are those of several audits.
        """
        if len(self.model) != 1:
            raise InputError("one audit has one network; audit_defences compares several")
        return self.model[0]

    @property
    def names_several(self) -> bool:
        """Return whether these are the options of several audits, side by side."""
        return len(self.model) > 1 or len(self.arms) > 1

    @property
    def networks(self) -> dict[str, Self]:
        """Options of one audit each, for every network, by its name."""
        return {name.removeprefix("timm:"): replace(self, model=(name,)) for name in self.model}

    @property
    def chosen_design(self) -> Design:
        """The design that runs."""
        return self.design or ("paper" if self.protocol == "paper" else "balanced")


def options_from(settings: dict[str, Any]) -> ClassifierOptions:
    """Return options from keyword names, with a "did you mean" for one that does not exist.

    Raises:
        InputError: A name is unknown, or a value is not allowed.
    """
    return settings_of(ClassifierOptions, settings)


def saved_options(config: dict[str, Any]) -> ClassifierOptions:
    """Read the settings in a run's ``config.yaml``.

    Raises:
        InputError: A value is not allowed.
    """
    return options_from(written_settings(ClassifierOptions, config))
