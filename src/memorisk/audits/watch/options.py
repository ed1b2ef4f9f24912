"""Settings of a watch: what compares images, how often is looked, when a training is stopped, where it is logged.

The same class is the command line, the YAML file and the Python keywords.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from memorisk.images.options import ImageOptions, image_options, of_synthetic_images
from memorisk.models.settings import SamplingOptions
from memorisk.runs.errors import InputError, unknown_name
from memorisk.runs.settings import settings_of

AUTO = "auto"
STOP_ON = ("auto", "share", "test", "listed", "never")
TRACKERS = ("tensorboard", "mlflow")
PRECISIONS = ("auto", "fp32", "bf16", "fp16")


@dataclass(frozen=True, kw_only=True)
class WatchSettings(SamplingOptions):
    """What a watch does, whatever it watches."""

    detector: str = AUTO
    """What compares images: a folder of `train detector`, or any source of features (docs/features.md); auto is pixels
    at 32 x 32, a weak detector."""
    measure: str = AUTO
    """One of the 14 measures; auto is a detector's own, cosine for encoders and euclidean for pixels and PCA."""
    domain: Literal["signed", "shift", "softplus"] | None = None
    """How braycurtis, canberra and jensenshannon meet negative features."""
    input_size: int | None = None
    """Pixels a side that an encoder gets; by default what it was trained at."""
    normalise: str | None = None
    """An encoder's mean and deviation, as MEAN/STD, where they are not the published ones."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Of an encoder on a GPU."""
    device: str = "auto"
    """cpu, cuda, or auto: a GPU when there is one."""

    images: int = 200
    """Images that are drawn at every look."""
    every: int = 1000
    """Steps between two looks of a training that asks for them itself."""
    looks: int | None = None
    """Looks that are planned: the error of a stop is shared evenly over them. Without it, look k gets 1 / (k (k + 1))
    of it."""
    nominal: float = 0.05
    """A training patient counts as memorized who is nearer to the images than this share of held-out patients is."""
    level: float = 0.1
    """Of the list of training patients at each look: at most this share of it is expected to be no nearer than held-out
    patients."""

    stop_on: Literal["auto", "share", "test", "listed", "never"] = "auto"
    """What stops a training: share (the lower limit of the memorized share is above the nominal rate), test (the exact
    p-value of the share, for few held-out patients), listed (a patient is listed), or never. auto is share where there
    are enough held-out patients for it, else test, and never where they are too few for either."""
    error: float = 0.05
    """Probability that a training which memorizes nothing is stopped at any of its looks."""
    patience: int = 1
    """Looks in a row that have to say so."""

    quality: str = AUTO
    """What FID is computed of: any source of features, auto for those of the detector, none for no FID."""
    seed: int = 0
    """Of the images that are drawn: the same ones at every look."""

    log: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    """tensorboard or mlflow, or both: every look is logged there, too (extra `tracking`)."""
    log_to: Path | None = None
    """Folder of these logs; tracking in the watch's own folder if not given."""
    redact: bool = False
    """Leave ids out of the report."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        SamplingOptions.validate(self)
        choices = {"domain": (None, "signed", "shift", "softplus"), "precision": PRECISIONS, "stop_on": STOP_ON}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise unknown_name(name, getattr(self, name), [a for a in allowed if a is not None])
        for name in self.log:
            if name not in TRACKERS:
                raise unknown_name("log", name, TRACKERS)
        if self.log_to is not None and not self.log:
            raise InputError("log_to is a folder for logs: say of which kind with log, tensorboard or mlflow")
        for name in ("nominal", "level"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must lie between 0 and 1")
        if not 0 < self.error < 0.5:
            raise InputError(f"error is {self.error}; it must lie between 0 and 0.5")
        for name in ("images", "every", "looks", "patience"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}; it must be a whole number of at least 1")
        if not 0 <= self.seed < 1 << 32:
            raise InputError(f"seed is {self.seed}; it must lie between 0 and {(1 << 32) - 1}")


@dataclass(frozen=True, kw_only=True)
class WatchOptions(ImageOptions, WatchSettings):
    """Everything that `memorisk watch` can be told; how images are read is the same for training and held-out ones."""

    held_out_split: str | None = None
    """Take the held-out images from the training images' table: this given split of it, such as val."""
    train_split: str | None = None
    """With --held-out-split: the given split that the generator is trained on; train if not given."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        ImageOptions.validate(self)
        WatchSettings.validate(self)
        if self.sample is not None:
            raise InputError("sample draws from one set of images, and a watch compares several: name smaller sets")
        if self.train_split is not None and self.held_out_split is None:
            raise InputError("train_split goes with held_out_split: which part is held out?")
        if self.held_out_split is not None and self.held_out_split == self.trained_on:
            raise InputError(f"held_out_split and train_split are both {self.trained_on!r}; name two parts")

    @property
    def trained_on(self) -> str:
        """The given split that the generator is trained on."""
        return self.train_split or "train"

    def of_real(self) -> ImageOptions:
        """How training and held-out images are read."""
        return image_options(self)

    def of_synthetic(self) -> ImageOptions:
        """How folders of drawn images are read: as the real ones, but without their columns and patterns."""
        return of_synthetic_images(self)


def watch_options(settings: dict[str, Any]) -> WatchOptions:
    """Options from keyword names.

    Raises:
        InputError: A name is unknown, or a value is not allowed.
    """
    if "log" in settings:
        given = settings["log"] or ()
        settings = settings | {"log": (given,) if isinstance(given, str) else tuple(str(one) for one in given)}
    for name in ("detector", "quality"):
        if isinstance(settings.get(name), Path):
            settings = settings | {name: str(settings[name])}
    if isinstance(settings.get("log_to"), str):
        settings = settings | {"log_to": Path(settings["log_to"])}
    return settings_of(WatchOptions, settings)
