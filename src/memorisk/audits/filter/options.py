"""Settings of ``memorisk filter``: detectors that choose, families of the promise, and the audit of the kept set.

The same class is the command line, the YAML file and the Python keywords.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from memorisk.audits.comparison.options import PartOptions
from memorisk.audits.filter.families import parse_families
from memorisk.images.alterations.options import PlantKinds, PromisedFamilies
from memorisk.images.alterations.plants import planted_kinds
from memorisk.images.options import ImageOptions
from memorisk.models.settings import DEFAULT_DETECTOR
from memorisk.report.options import ReportOptions
from memorisk.runs.errors import InputError
from memorisk.runs.executors.placement import ClusterOptions
from memorisk.runs.options import (
    Device,
    InputSize,
    Normalise,
    OneImagePerPatient,
    Precision,
    TrainSplit,
    grouped,
)
from memorisk.runs.settings import check_between, check_seeds, settings_of

AUTO, HALF = "auto", "half"


@grouped(
    "statistics",
    essential="detector calibration one_image_per_patient auditor families miss_rate fail_on device",
    comparison="detector measure threshold auditor",
    images="calibration calibration_split calibration_unseen",
)
@dataclass(frozen=True, kw_only=True)
class ScreeningOptions(ReportOptions, PartOptions, ClusterOptions):
    """Options that a filter and a loop around one share; the options for reading images apply to all sets."""

    NEW: ClassVar[str] = "calibration"

    detector: tuple[str, ...] = (DEFAULT_DETECTOR,)
    """Detector that compares images: default (comes with memorisk), a folder of `train detector`, or an encoder
    (docs/features.md). Repeat it for several: an image is rejected by any of them."""
    measure: str = AUTO
    """Distance measure of an encoder, one of 15; auto: a detector's own measure or head, cosine for encoders,
    euclidean for pixels and PCA."""
    input_size: InputSize = None
    normalise: Normalise = None
    precision: Precision = "auto"
    device: Device = "auto"

    calibration: str | None = None
    """Real images of patients unseen by the generator and by every detector: the guarantee is calibrated on them, and
    they are the held-out patients of the audit of the kept set."""
    calibration_split: str | None = None
    """Take the calibration images from TRAIN instead: this given split of it, such as test."""
    train_split: TrainSplit = None
    calibration_unseen: bool = False
    """Assert that no detector was trained or selected on the calibration patients, where this cannot be checked."""
    one_image_per_patient: OneImagePerPatient = False
    families: PromisedFamilies = ()

    miss_rate: float = 0.05
    """Largest share of the copies of --families that may be missed."""
    confidence: float = 0.95
    """Confidence of the guarantee, over all detectors and families together."""
    threshold: tuple[str, ...] = ()
    """Reject images with at least this score instead, without a guarantee: a number for each detector, or half for
    P = 0.5."""
    seed: int = 0
    """Random seed for the pairs and copies of the calibration, and for the copies that the audit plants."""
    auditor: str | None = None
    """Detector that audits the kept set and takes no part in choosing it; by default the detector that comes with
    memorisk, in all its ways."""
    plant_kinds: PlantKinds = ()
    fail_on: Literal["copied", "never"] = "copied"
    """Fail unless the audit of the kept set passes (copied); never: the exit code is 0 whatever the result."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        PartOptions.validate(self)
        self.check_cluster()
        check_between(self, "miss_rate", "confidence")
        check_seeds(self, "seed")
        self._check_lists()
        if self.families:
            parse_families(self.families)
        planted_kinds(self.plant_kinds)

    def _check_lists(self) -> None:
        """Check detectors, families and thresholds.

        Raises:
            InputError: No detector, a detector or a family twice, or not one threshold per detector.
        """
        if not self.detector:
            raise InputError(
                "no detector is given: name what compares images, a folder that train detector wrote or pixels"
            )
        for name, values in (("detector", self.detector), ("families", self.families)):
            if len(set(values)) != len(values):
                raise InputError(f"{name} names {next(v for v in values if values.count(v) > 1)!r} twice")
        if self.threshold and len(self.threshold) != len(self.detector):
            raise InputError(f"{len(self.threshold)} thresholds for {len(self.detector)} detectors: give one for each")
        for value in self.threshold:
            if value != HALF:
                _number(value)

    @property
    def thresholds(self) -> tuple[float | None, ...]:
        """Scores that were given, one for each detector; None for P = 0.5."""
        return tuple(None if value == HALF else _number(value) for value in self.threshold)

    def of_synthetic(self) -> ImageOptions:
        """Return how synthetic images are read: without the columns and patterns of real ones, all frames of a stack.

        Unreadable ones are listed instead of refused, since they are rejected.
        """
        listed: dict[str, Any] = {"skip_unreadable": True, "skip_missing": True, "frames": "all", "frame_step": 1}
        return replace(PartOptions.of_synthetic(self), **listed)


@dataclass(frozen=True, kw_only=True)
class FilterOptions(ScreeningOptions):
    """Options of `memorisk filter`."""


def filter_options(settings: dict[str, Any]) -> FilterOptions:
    """Return options from keyword names, with a "did you mean" for one that does not exist.

    A single name is taken as a list of one, and numbers in place of their texts.

    Raises:
        InputError: A name is unknown, or a value is not allowed.
    """
    return settings_of(FilterOptions, settings)


def _number(value: str) -> float:
    """Read a threshold.

    Raises:
        InputError: The value is not a finite number.
    """
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not abs(number) < float("inf"):
        raise InputError(f"threshold is {value!r}; give a score (larger is more alike), or half for P = 0.5")
    return number
