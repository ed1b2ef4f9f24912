"""The settings of ``memorisk bench detectors``: one frozen dataclass for Python, the command line and YAML at once."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from memorisk.images.options import ImageOptions
from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.executors.placement import ClusterOptions
from memorisk.runs.options import Device, Precision, Threads, Words, grouped
from memorisk.runs.settings import check_between, check_counts, setting_names

if TYPE_CHECKING:  # the losses come with PyTorch
    from memorisk.training.detectors.options import DetectorOptions

Numbers = Annotated[tuple[int, ...], Parameter(consume_multiple=True)]
Shares = Annotated[tuple[float, float, float, float], Parameter(consume_multiple=True)]

Strength = Literal["weak", "strong"]
ALL = "all"
NO_TRAINING = "none"
LOSSES = (NO_TRAINING, "triplet", "infonce")
"""Losses of the grid; ``none`` takes the features of the backbone as it is, without training or linear layer."""
_SEVERAL = ("backbones", "losses", "measures", "seeds", "strengths")


@grouped(
    "training",
    essential="backbones losses measures seeds strengths protocol epochs device processes specificity",
    comparison="backbones losses measures domain network_size",
    design="seeds strengths shares split_seed protocol",
    statistics="specificity percent",
    where="processes",
)
@dataclass(frozen=True, kw_only=True)
class BenchDetectorsOptions(ImageOptions, ClusterOptions):
    """Settings that `memorisk bench detectors` takes."""

    backbones: Words = ("pixels", "pca:16")
    """Backbones: NAME@WEIGHTS (a file, default, or none), transformers:FOLDER, pixels, pca:16; append =LABEL to name
    the weights."""
    losses: Words = ("none",)
    """Losses that detectors are trained with: none (untrained), triplet, infonce. Pixels and PCA are never trained."""
    measures: Words = (ALL,)
    """Distance measures by name, or paper 003's 14 (all)."""
    seeds: Numbers = (0,)
    """Random seeds of initial weights and trainings; each makes a detector."""
    strengths: Annotated[tuple[Strength, ...], Parameter(consume_multiple=True)] = ("weak", "strong")
    """Strengths of the augmented copies; the tables use the last one."""

    shares: Shares = (0.5, 0.15, 0.15, 0.2)
    """Shares of the patients: train, validation, test, and null (patients without reference images)."""
    split_seed: int = 0
    """Random seed for the split of the patients, the copies and all other draws."""
    specificity: float = 0.95
    """Share of unseen patients without flagged images, at the corrected thresholds."""
    percent: float = 5.0
    """Published threshold: this percentile of the distances from training to validation images."""
    domain: Literal["shift", "softplus", "signed"] = "shift"
    """Treatment of signed features by measures of non-negative ones: shift or softplus (fitted on training images), or
    signed, as SciPy does."""

    protocol: Literal["paper", "corrected"] = "corrected"
    """Train as published (paper), or with images of one patient never as negatives, shuffled batches, and the epoch
    chosen by finding copies (corrected)."""
    augment: Strength = "weak"
    """Strength of the copies that detectors are trained on."""
    epochs: int = 100
    """Epochs of each training; the weights of the best one are kept."""
    lr: float = 1e-4
    """Initial learning rate."""
    batch_size: int | None = None
    """Images per step; by default 128, for CLIP and DINOv2 64."""
    frozen_epochs: int = 5
    """First epochs in which only the linear layer is trained."""
    margin: float = 0.05
    """Margin of the triplet loss."""
    temperature: float = 0.5
    """Temperature of InfoNCE."""

    network_size: int | None = None
    """Side in pixels of the networks' input; by default the size that each was trained at."""
    precision: Precision = "auto"
    device: Device = "auto"
    processes: int = 1
    """Detectors run in parallel on a CPU; 0 for one per core."""
    threads: Threads = 1

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        from memorisk.scores.distances.measures import PAPER_MEASURES

        ImageOptions.validate(self)
        self.check_cluster()
        for name in _SEVERAL:
            value = getattr(self, name)
            if not value or len(set(value)) < len(value):
                raise InputError(f"{name} is {one_line(value, 80)}; give one or more, each once")
        for loss in self.losses:
            if loss not in LOSSES:
                raise unknown_name("losses", loss, LOSSES)
        for name in self.measures:
            if name != ALL and name not in PAPER_MEASURES:
                raise unknown_name("measure of paper 003", name, PAPER_MEASURES)
        self.training("unknown@none", "triplet", 0).validate()
        self._check_numbers()

    def training(self, backbone: str, loss: str, seed: int) -> "DetectorOptions":
        """Return the training options of one detector.

        Args:
            backbone: A network and its weights.
            loss: "triplet" or "infonce".
            seed: Random seed of the training.
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
        check_between(self, "specificity")
        check_between(self, "percent", top=100)
        check_counts(self, processes=0, threads=1, network_size=1)
        for seed in (self.split_seed, *self.seeds):
            if not isinstance(seed, int) or not 0 <= seed < 1 << 32:
                raise InputError(f"seed is {seed}; it must be a whole number from 0 to {(1 << 32) - 1}")

    @property
    def chosen_measures(self) -> tuple[str, ...]:
        """Return the measures, in the registry's order."""
        from memorisk.scores.distances.measures import PAPER_MEASURES

        return tuple(name for name in PAPER_MEASURES if ALL in self.measures or name in self.measures)

    @property
    def strength(self) -> str:
        """Return the strength that the tables show."""
        return self.strengths[-1]
