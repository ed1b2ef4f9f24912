"""Settings of ``memorisk filter``: what compares images, what the guarantee is about, what is done without one.

The same class is the command line, the YAML file and the Python keywords.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from memorisk.images.options import ImageOptions, image_options, of_synthetic_images
from memorisk.report.options import ReportOptions
from memorisk.runs.errors import InputError, unknown_name
from memorisk.runs.executors.placement import ClusterOptions
from memorisk.runs.settings import check_types, settings_of

AUTO, HALF = "auto", "half"


@dataclass(frozen=True, kw_only=True)
class ScreeningOptions(ReportOptions, ImageOptions, ClusterOptions):
    """What a filter and a loop around one are told alike; how images are read is the same for all sets."""

    detector: tuple[str, ...] = ()
    """What compares images: the folder of a detector, or an encoder (docs/features.md); given again for each, an image
    is rejected by any of them."""
    measure: str = AUTO
    """With an encoder: one of the 14 measures; auto is a detector's own or its head, cosine for encoders and euclidean
    for pixels and PCA."""
    input_size: int | None = None
    """Pixels a side that an encoder gets; by default what it was trained at."""
    normalise: str | None = None
    """An encoder's mean and deviation, as MEAN/STD, where they are not the published ones."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Of an encoder on a GPU."""
    device: str = "auto"
    """cpu, cuda, or auto: a GPU when there is one."""

    calibration: str | None = None
    """Real images of people whom neither the generator nor a detector has seen: the guarantee is made on them."""
    calibration_split: str | None = None
    """Take the calibration images from TRAIN instead: this given split of it, such as test."""
    train_split: str | None = None
    """With --calibration-split: the given split that the generator was trained on; train if not given."""
    calibration_unseen: bool = False
    """The detectors were not trained or chosen on the calibration people: said where it cannot be seen."""
    one_image_per_patient: bool = False
    """Nobody has two images, in training and calibration images together: without patient ids a pass asks for this."""
    families: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = ("copies",)
    """Which copies the guarantee is about: re-identification (another image of the person), blur, noise, rotation,
    brightness, darkening, contrast, jpeg, up to a strength if one is given (noise:0.1); copies: all of these
    but the first; flipped, cropped: as the audit of a synthetic set plants them."""

    miss_rate: float = 0.05
    """At most this share of such copies is missed."""
    confidence: float = 0.95
    """In at least this share of calibrations that holds, for all detectors and families together."""
    threshold: tuple[str, ...] = ()
    """Reject from this score on instead, without a guarantee: a number for each detector, or half for P = 0.5."""
    seed: int = 0
    """Of the pairs and copies of the calibration."""
    fail_on: Literal["no-guarantee", "never"] = "no-guarantee"
    """never: exit code 0 whatever came of it."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        ImageOptions.validate(self)
        check_types(self)
        self.check_cluster()
        if self.sample is not None:
            raise InputError("sample draws from one set of images, and here are three: name smaller sets instead")
        choices = {
            "precision": ("auto", "fp32", "bf16", "fp16"),
            "fail_on": ("no-guarantee", "never"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise unknown_name(name, getattr(self, name), allowed)
        for name in ("miss_rate", "confidence"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must lie between 0 and 1")
        if not 0 <= self.seed < 1 << 32:
            raise InputError(f"seed is {self.seed}; it must lie between 0 and {(1 << 32) - 1}")
        self._check_lists()
        if self.calibration is not None and self.calibration_split is not None:
            raise InputError("calibration and calibration_split both say which images calibrate: give one of them")
        self._check_train_split()
        if self.calibration_split is not None and self.calibration_split == self.trained_on:
            raise InputError(f"calibration_split and train_split are both {self.trained_on!r}; name two parts of TRAIN")

    def _check_train_split(self) -> None:
        """A split to train on asks for another one.

        Raises:
            InputError: There is none.
        """
        if self.train_split is not None and self.calibration_split is None:
            raise InputError("train_split goes with calibration_split: which part of TRAIN calibrates?")

    def _check_lists(self) -> None:
        """Detectors, families and thresholds.

        Raises:
            InputError: None or one twice of the first two, or thresholds that are not one for each detector.
        """
        for name, values in (("detector", self.detector), ("families", self.families)):
            if not values:
                raise InputError(
                    f"no {name} is given: what compares images, as in detector FOLDER"
                    if name == "detector"
                    else "families names at least one kind of copy that the guarantee is about"
                )
            if len(set(values)) != len(values):
                raise InputError(f"{name} names {next(v for v in values if values.count(v) > 1)!r} twice")
        if self.threshold and len(self.threshold) != len(self.detector):
            raise InputError(f"{len(self.threshold)} thresholds for {len(self.detector)} detectors: give one for each")
        for value in self.threshold:
            if value != HALF:
                _number(value)

    @property
    def trained_on(self) -> str:
        """The given split that the generator was trained on."""
        return self.train_split or "train"

    @property
    def thresholds(self) -> tuple[float | None, ...]:
        """Scores that were given, one for each detector; None for P = 0.5."""
        return tuple(None if value == HALF else _number(value) for value in self.threshold)

    def of_real(self) -> ImageOptions:
        """How training and calibration images are read."""
        return image_options(self)

    def of_synthetic(self) -> ImageOptions:
        """How synthetic images are read: without the columns and patterns of real ones, and every frame of a stack.

        Unreadable ones are listed instead of refused, since they are rejected.
        """
        listed: dict[str, Any] = {"skip_unreadable": True, "skip_missing": True, "frames": "all", "frame_step": 1}
        return replace(of_synthetic_images(self), **listed)


@dataclass(frozen=True, kw_only=True)
class FilterOptions(ScreeningOptions):
    """Everything that `memorisk filter` can be told."""


def filter_options(settings: dict[str, Any]) -> FilterOptions:
    """Options from keyword names, with a "did you mean" for one that does not exist.

    One name may stand for a list of one, and numbers for their texts.

    Raises:
        InputError: A name is unknown, or a value is not allowed.
    """
    return settings_of(FilterOptions, plain_settings(settings))


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a screening in their own types: one name may stand for a list of one, numbers for their texts."""
    given = dict(settings)
    for name in ("detector", "families", "threshold"):
        if name in given:
            value = given[name]
            several = value if isinstance(value, (list, tuple)) else [value]
            given[name] = tuple(str(v) for v in several if v is not None)
    if isinstance(given.get("calibration"), Path):
        given["calibration"] = str(given["calibration"])
    return given


def _number(value: str) -> float:
    """A threshold.

    Raises:
        InputError: It is no finite number.
    """
    try:
        found = float(value)
    except ValueError:
        found = float("nan")
    if not abs(found) < float("inf"):
        raise InputError(f"threshold is {value!r}; give a score (larger is more alike), or half for P = 0.5")
    return found
