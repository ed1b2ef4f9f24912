"""The settings of the classifier audit: one frozen dataclass for Python, the command line and YAML at once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from memorisk.images.options import ImageOptions
from memorisk.report.options import ReportOptions
from memorisk.runs.errors import InputError, unknown_name
from memorisk.runs.executors.placement import ClusterOptions
from memorisk.runs.settings import FunctionOptions, check_types, settings_of
from memorisk.training.engine.options import TrainOptions

WORKER_MODULES = ("memorisk.training.classifiers.jobs", "memorisk.images.pixels")
"""What the processes of an audit import, once for all of them."""

PAPER_SEEDS = (123, 456, 789, 1024)  # paper 000, section 4

Protocol = Literal["corrected", "paper"]
Design = Literal["balanced", "matched", "paper"]
Gate = Literal["high", "moderate", "never"]

NOTICE = 2.0
"""Nats: a patient with this gap is answered with seven times the probability of an unseen one (METHODS section 6)."""

ATTACK_GATE = 0.6
"""An AUC: of a member and another, ordered by the attack, six in ten right (METHODS section 6)."""


@dataclass(frozen=True, kw_only=True)
class AnalysisOptions:
    """What turns scores into lists and a verdict. The verdict's own list has a fixed level (`statistics.verdicts`)."""

    level: float = 0.1
    """At most this share of the flagged patients are expected to be noise, over all classes together. It changes lists;
    the verdict rests on a list at 0.1."""

    correction: Literal["bh", "by", "bh-within"] = "bh"
    """bh: Benjamini-Hochberg within the classes that it selects, so that the level holds for the whole audit; by: the
    same under any dependence, flags less; bh-within: each class at the level by itself. It changes lists; the verdict
    rests on bh."""

    fail_on: Gate = "high"
    """The gate: the tier of memorization that no class may reach; never: the exit code is 0 whatever is found."""

    notice: float = NOTICE
    """Nats: to pass, an audit must be able to notice a single patient with this gap in nine of ten cases."""

    attack_gate: float = ATTACK_GATE
    """No attack may tell members from others with this AUC (0.5 is guessing), on the twins or on --target."""

    one_image_per_patient: bool = False
    """Assert that no patient has two images: without patient ids a pass needs this said."""

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
        if not 0 < self.level < 1:
            raise InputError(f"level is {self.level}; it must lie between 0 and 1, as in 0.1")
        if not 0 < self.notice < float("inf"):
            raise InputError(f"notice is {self.notice}; it must be a number of nats above 0, as in 2")
        for name, allowed in (("correction", ("bh", "by", "bh-within")), ("fail_on", ("high", "moderate", "never"))):
            if getattr(self, name) not in allowed:
                raise unknown_name(name, getattr(self, name), allowed)


@dataclass(frozen=True, kw_only=True)
class LossesOptions(AnalysisOptions, ReportOptions):
    """Everything that `memorisk audit losses` can be told."""

    random_split: bool = True
    """Canaries and test images are one random split by group; otherwise there are no p-values."""


@dataclass(frozen=True, kw_only=True)
class ClassifierOptions(ImageOptions, TrainOptions, AnalysisOptions, ReportOptions, ClusterOptions, FunctionOptions):
    """Everything that `memorisk audit classifier` can be told."""

    model: str = "auto"
    """Network: any name of timm, one of the paper's, a small net; auto is small_cnn below 64 px, resnet50 above."""

    weights: str | None = None
    """Pre-trained weights: a file, "default" or a tag to download by name; none if not given."""

    train: str | None = None
    """Your own training function, module:function, instead of the built-in training."""

    train_settings: dict[str, str] | None = None
    """Settings handed to your training function, as --train-settings.NAME VALUE."""

    target: Path | None = None
    """Weights of the very model that is to be released; the given split says which images it was trained on."""

    target_classes: str | None = None
    """Classes of the target in the order of its outputs, joined by commas; sorted by name if not given."""

    protocol: Protocol = "corrected"
    """The repaired form, or the published one (design paper, four seeds)."""

    design: Design | None = None
    """balanced scores every image outside the test part; matched and paper score 15 percent of them."""

    models: int | None = None
    """How many models to train, two a seed; by default 16 (balanced) or 8."""

    seeds: Annotated[tuple[int, ...] | None, Parameter(consume_multiple=True)] = None
    """Seeds of the twin pairs; by default the paper's 123, 456, 789, 1024, then on from there."""

    splits: Literal["redraw", "given", "given-random"] = "redraw"
    """Training, canary and test parts: drawn anew by group, or the given split (no p-values, unless it was random)."""

    split_seed: int = 0
    """Seed of the split."""

    placebo: int = 0
    """Repeat the audit this many times with canaries that no model saw, to show the level it really has."""

    score_augmentations: int = 0
    """Score the mean loss over this many augmentations (of --augment) of each image; 5 in paper 000's older tables."""

    intervene: str | None = None
    """Train once more with some classes changed: grayscale, blur, edges-only or colour-only; and once unchanged."""

    classes: Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True)] = None
    """Classes that --intervene changes; by default those with fewer than 5 percent of the images."""

    canary_pairs: int = 0
    """Train one more model on this many pairs of mislabelled images and bound its epsilon from below; 200 say much."""

    device: str = "auto"
    """cpu, cuda, or auto: a GPU when there is one."""

    processes: int | None = None
    """Models trained side by side on a CPU; by default as many as there are cores for."""

    threads: int = 1
    """Threads of each training on a CPU; part of the run's identity, since results depend on it."""

    checkpoint_seconds: float = 30.0
    """Least time between two writes of a training's state, from which a killed run goes on."""

    discard_weights: bool = False
    """Keep only what the tables need, no weights of the models that were trained."""

    def __post_init__(self) -> None:
        """Check and complete what the parts do by themselves."""
        TrainOptions.__post_init__(self)
        FunctionOptions.__post_init__(self)

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        ImageOptions.validate(self)
        AnalysisOptions.validate(self)
        self.check_cluster()
        choices = {
            "protocol": ("corrected", "paper"),
            "splits": ("redraw", "given", "given-random"),
        }
        if self.design is not None:
            choices["design"] = ("balanced", "matched", "paper")
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise unknown_name(name, getattr(self, name), allowed)
        if self.protocol == "paper" and self.design not in (None, "paper"):
            raise InputError(f"protocol paper is the design paper, not {self.design}: leave one of the two out")
        if self.models is not None and (self.models < 2 or self.models % 2):
            raise InputError(f"models is {self.models}; twins come in pairs: give an even number of at least 2")
        if self.seeds is not None and len(set(self.seeds)) != len(self.seeds):
            raise InputError("a seed is given twice: each twin pair needs its own")
        if self.models is not None and self.seeds is not None and self.models != 2 * len(self.seeds):
            raise InputError(f"{len(self.seeds)} seeds make {2 * len(self.seeds)} models, not {self.models}")
        counts = {"threads": 1, "placebo": 0, "canary_pairs": 0, "score_augmentations": 0}
        for name, least in (counts | ({"processes": 1} if self.processes is not None else {})).items():
            if getattr(self, name) < least:
                raise InputError(f"{name} is {getattr(self, name)}; it must be a whole number of at least {least}")
        for seed in (self.split_seed, *(self.seeds or ())):
            if not 0 <= seed < 1 << 32:
                raise InputError(f"a seed is {seed}; it must lie between 0 and {(1 << 32) - 1}")
        if not 0 <= self.checkpoint_seconds < float("inf"):
            raise InputError(f"checkpoint_seconds is {self.checkpoint_seconds}; it must be 0 or more")
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
        if self.train_settings and not self.train:
            raise InputError("train_settings are for your own training function: name it with --train module:function")

    @property
    def chosen_design(self) -> Design:
        """The design that runs."""
        return self.design or ("paper" if self.protocol == "paper" else "balanced")

    @property
    def chosen_seeds(self) -> tuple[int, ...]:
        """The seeds that run: given, or the paper's and on from the last of them."""
        if self.seeds is not None:
            return self.seeds
        pairs = (self.models or (16 if self.chosen_design == "balanced" else 8)) // 2
        return (*PAPER_SEEDS, *range(PAPER_SEEDS[-1] + 1, PAPER_SEEDS[-1] + 1 + pairs))[:pairs]


def options_from(settings: dict[str, Any]) -> ClassifierOptions:
    """Options from keyword names, with a "did you mean" for one that does not exist.

    Raises:
        InputError: A name is unknown, or a value is not allowed.
    """
    for name in ("seeds", "classes"):
        if settings.get(name) is not None:
            several = isinstance(settings[name], list | tuple)
            settings = settings | {name: tuple(settings[name]) if several else (settings[name],)}
    if settings.get("classes") is not None:  # YAML makes numbers of classes that are called 0, 1, 2
        settings = settings | {"classes": tuple(str(c) for c in settings["classes"])}
    return settings_of(ClassifierOptions, settings)
