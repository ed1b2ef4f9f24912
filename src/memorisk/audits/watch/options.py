"""Settings of a watch: what compares images, how often is looked, when a training is stopped, where it is logged.

The same class is the command line, the YAML file and the Python keywords.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from memorisk.audits.comparison.options import PartOptions
from memorisk.models.settings import DEFAULT_DETECTOR, SamplingOptions
from memorisk.runs.errors import InputError
from memorisk.runs.options import Device, Domain, HeldOutSplit, InputSize, Normalise, Precision, TrainSplit, grouped
from memorisk.runs.settings import check_between, check_counts, check_seeds, settings_of
from memorisk.statistics.verdicts.levels import VERDICT_LEVEL

AUTO = "auto"
StopOn = Literal["auto", "share", "test", "listed", "never"]
TrackerName = Literal["tensorboard", "mlflow"]


@grouped(
    "statistics",
    essential="detector images every stop_on device redact",
    comparison="detector measure quality",
    generator="images every looks seed",
    report="log log_to redact",
)
@dataclass(frozen=True, kw_only=True)
class WatchSettings(SamplingOptions):
    """Settings of a watch, whatever it watches."""

    detector: str = DEFAULT_DETECTOR
    """Detector that compares images: default (comes with memorisk), a folder of `train detector`, or any features
    (docs/features.md)."""
    measure: str = AUTO
    """Distance measure, one of 15; auto: a detector's own, cosine for encoders, euclidean for pixels and PCA."""
    domain: Domain = None
    input_size: InputSize = None
    normalise: Normalise = None
    precision: Precision = "auto"
    device: Device = "auto"

    images: int = 200
    """Images drawn for each evaluation."""
    every: int = 1000
    """Training steps between two evaluations, where your own training calls the watch."""
    looks: int | None = None
    """Planned number of evaluations, which share --error evenly; by default evaluation k gets 1 / (k (k + 1)) of it."""
    nominal: float = 0.05
    """A training patient counts as memorized if fewer than this share of held-out patients are as close to the drawn
    images."""
    level: float = VERDICT_LEVEL
    """False discovery rate of the patients listed at each evaluation: the expected share that is not closer than
    held-out patients are."""

    stop_on: StopOn = "auto"
    """Stop the training when the lower limit of the memorized share exceeds --nominal (share), when an exact test of
    the share rejects (test, for few held-out patients), when a patient is listed (listed), or never. auto: share or
    test, whichever the number of held-out patients allows, otherwise never."""
    error: float = 0.05
    """Probability of stopping, at any evaluation, a training that memorizes nothing."""
    patience: int = 1
    """Consecutive evaluations that must meet --stop-on."""

    quality: str = AUTO
    """Features for FID: any (docs/features.md), auto: the detector's, none: no FID."""
    seed: int = 0
    """Random seed for the drawn images, the same at each evaluation."""

    log: tuple[TrackerName, ...] = ()
    """Log each evaluation to tensorboard, mlflow or both (extra `tracking`)."""
    log_to: Path | None = None
    """Folder for the logs of --log; by default tracking in the watch's own folder."""
    redact: bool = False
    """Leave ids out of the report."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        SamplingOptions.validate(self)
        if self.log_to is not None and not self.log:
            raise InputError("log_to is a folder for logs: say of which kind with log, tensorboard or mlflow")
        check_between(self, "nominal", "level")
        check_between(self, "error", top=0.5)
        check_counts(self, images=1, every=1, looks=1, patience=1)
        check_seeds(self, "seed")


@grouped("images", essential="held_out_split")
@dataclass(frozen=True, kw_only=True)
class WatchOptions(PartOptions, WatchSettings):
    """Settings of `memorisk watch`; images are read in the same way for training and held-out ones."""

    held_out_split: HeldOutSplit = None
    train_split: TrainSplit = None

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        PartOptions.validate(self)
        WatchSettings.validate(self)


def watch_options(settings: dict[str, Any]) -> WatchOptions:
    """Return options from keyword names.

    Raises:
        InputError: A name is unknown, or a value is not allowed.
    """
    return settings_of(WatchOptions, settings)
