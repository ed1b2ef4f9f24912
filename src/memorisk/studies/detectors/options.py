"""The settings of ``memorisk bench detectors``: one frozen dataclass for Python, the command line and YAML at once."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from memorisk.images.options import ImageOptions
from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.executors.placement import ClusterOptions
from memorisk.runs.settings import setting_names, settings_of

if TYPE_CHECKING:  # the losses come with PyTorch
    from memorisk.training.detectors.options import DetectorOptions

Several = Annotated[tuple[str, ...], Parameter(consume_multiple=True)]
Numbers = Annotated[tuple[int, ...], Parameter(consume_multiple=True)]
Shares = Annotated[tuple[float, float, float, float], Parameter(consume_multiple=True)]

STRENGTHS = ("weak", "strong")
ALL = "all"
DOMAINS = ("shift", "softplus", "signed")
_SEVERAL = ("backbones", "losses", "measures", "seeds", "strengths")


@dataclass(frozen=True, kw_only=True)
class BenchDetectorsOptions(ImageOptions, ClusterOptions):
    """Everything that `memorisk bench detectors` can be told."""

    backbones: Several = ("pixels", "pca:16")
    """NAME@WEIGHTS (a file, default, or none), transformers:FOLDER, pixels, pca:16; =LABEL behind names the weights."""
    losses: Several = ("none",)
    """none (untrained), triplet, infonce: what detectors are trained with; pixels and PCA are never trained."""
    measures: Several = (ALL,)
    """Distances by SciPy's names, or all 14."""
    seeds: Numbers = (0,)
    """Of random weights and trainings: each makes a detector."""
    strengths: Several = STRENGTHS
    """Of the augmented copies; the last one is that of the tables."""

    shares: Shares = (0.5, 0.15, 0.15, 0.2)
    """Of the patients: train, validation, test, and those of whom no image is a reference (the null)."""
    split_seed: int = 0
    """Of the division of the patients, of the copies, and of whatever else is drawn."""
    specificity: float = 0.95
    """Share of new patients with no flagged image, at the corrected thresholds."""
    percent: float = 5.0
    """The published threshold: this percentile of training images asked among validation images."""
    domain: Literal["shift", "softplus", "signed"] = "shift"
    """How signed features meet measures of non-negative ones: made so (fitted on training images), or as SciPy does."""

    protocol: Literal["paper", "corrected"] = "corrected"
    """Of the trainings: as published, or with patients masked, batches shuffled, the epoch chosen by finding copies."""
    augment: Literal["weak", "strong"] = "weak"
    """Strength of the copies that detectors are trained on."""
    epochs: int = 100
    """Of each training; the best one is kept."""
    lr: float = 1e-4
    """Learning rate at the start."""
    batch_size: int | None = None
    """Images a step; by default 128, and 64 for CLIP and DINOv2."""
    frozen_epochs: int = 5
    """Epochs at the start in which only the linear layer is trained."""
    margin: float = 0.05
    """Of the triplet loss."""
    temperature: float = 0.5
    """Of InfoNCE."""

    network_size: int | None = None
    """Pixels a side that networks get; by default what each was trained at."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Arithmetic of networks; auto is bf16 on a GPU that has it, fp32 elsewhere."""
    device: str = "auto"
    """cpu, cuda, or auto: a GPU when there is one."""
    processes: int = 1
    """Detectors side by side on a CPU; 0 for one a core."""
    threads: int = 1
    """Threads of each; results of networks depend on it."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        from memorisk.scores.distances.measures import find_measure
        from memorisk.studies.detectors.cells import LOSSES

        ImageOptions.validate(self)
        self.check_cluster()
        for name in _SEVERAL:
            value = getattr(self, name)
            if not value or len(set(value)) < len(value):
                raise InputError(f"{name} is {one_line(value, 80)}; give one or more, each once")
        for name, allowed in (("losses", LOSSES), ("strengths", STRENGTHS), ("domain", DOMAINS)):
            for value in (self.domain,) if name == "domain" else getattr(self, name):
                if value not in allowed:
                    raise unknown_name(name, value, allowed)
        for name in self.measures:
            if name != ALL:
                find_measure(name)
        self.training("unknown@none", "triplet", 0).validate()
        self._check_numbers()

    def training(self, backbone: str, loss: str, seed: int) -> "DetectorOptions":
        """How one detector is trained.

        Args:
            backbone: A network and its weights.
            loss: "triplet" or "infonce".
            seed: Of the training.
        """
        from memorisk.training.detectors.options import DetectorOptions

        same = (set(setting_names(DetectorOptions)) & set(setting_names(self))) - {"seed"}
        shared = {name: getattr(self, name) for name in sorted(same)}
        return DetectorOptions(
            backbone=backbone, loss="triplet" if loss == "triplet" else "infonce", seed=seed, **shared
        )

    def _check_numbers(self) -> None:
        good = all(isinstance(s, int | float) and 0 < s < 1 for s in self.shares)
        if len(self.shares) != 4 or not good or abs(sum(self.shares) - 1) > 1e-9:
            raise InputError(f"shares are {self.shares}; give four that add up to 1, as in 0.5 0.15 0.15 0.2")
        for name, top in (("specificity", 1), ("percent", 100)):
            if not 0 < getattr(self, name) < top:
                raise InputError(f"{name} is {getattr(self, name)}; it must lie between 0 and {top}")
        for name, least in (("processes", 0), ("threads", 1), ("network_size", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name} is {value}; it must be a whole number of at least {least}")
        for seed in (self.split_seed, *self.seeds):
            if not isinstance(seed, int) or not 0 <= seed < 1 << 32:
                raise InputError(f"seed is {seed}; it must be a whole number from 0 to {(1 << 32) - 1}")

    @property
    def chosen_measures(self) -> tuple[str, ...]:
        """The measures, in the registry's order."""
        from memorisk.scores.distances.measures import MEASURES

        return tuple(name for name in MEASURES if ALL in self.measures or name in self.measures)

    @property
    def strength(self) -> str:
        """The strength of the tables."""
        return self.strengths[-1]


def bench_options(settings: dict[str, Any]) -> BenchDetectorsOptions:
    """Options from keyword names, with a "did you mean" for one that does not exist.

    Raises:
        InputError: A name is unknown, or a value is not allowed.
    """
    given = dict(settings)
    for name in (*_SEVERAL, "shares"):
        if name in given:
            value = given[name]
            given[name] = (value,) if isinstance(value, str | int) else tuple(value)
    return settings_of(BenchDetectorsOptions, given)
