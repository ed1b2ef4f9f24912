"""Settings of ``memorisk quality``: the three sets, the features, the figures, and the classifier if one is wanted.

The same class is the command line, the YAML file and the Python keywords.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from memorisk.images.options import ImageOptions
from memorisk.runs.errors import InputError, unknown_name
from memorisk.runs.executors.placement import ClusterOptions
from memorisk.runs.settings import check_types, settings_of

AUTO = "auto"
FIGURES = ("FID", "KID", "MiFID", "precision", "recall", "density", "coverage", "IRS")
"""In the order of the table."""


@dataclass(frozen=True, kw_only=True)
class QualityOptions(ImageOptions, ClusterOptions):
    """Everything that `memorisk quality` can be told; how images are read is the same for all three sets."""

    held_out: str | None = None
    """Real images of patients that the generator never saw: what a perfect generator would get is measured on them."""
    held_out_split: str | None = None
    """Take the held-out images from TRAIN instead: this given split of it, such as test."""
    train_split: str | None = None
    """With --held-out-split: the given split that the generator was trained on; train if not given."""

    features: Annotated[tuple[str, ...], Parameter(negative="", consume_multiple=True)] = (AUTO,)
    """Feature spaces (docs/features.md), a table each: NETWORK@WEIGHTS, detector:FOLDER, pixels:SIDE, pca:K, or a file
    of features of TRAIN; auto is pixels at 32 x 32, which judge shapes and greys and little else."""
    synthetic_features: Path | None = None
    """With a file of features: that of SYNTHETIC."""
    held_out_features: Path | None = None
    """With a file of features: that of the held-out images."""
    input_size: int | None = None
    """Pixels a side that a network gets; by default what it was trained at."""
    normalise: str | None = None
    """A network's mean and deviation, as MEAN/STD, where they are not the published ones."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Of a network on a GPU."""
    device: str = "auto"
    """cpu, cuda, or auto: a GPU when there is one."""

    figures: Annotated[tuple[str, ...], Parameter(negative="", consume_multiple=True)] = FIGURES
    """Which figures: FID, KID, MiFID, precision, recall, density, coverage, IRS."""
    level: float = 0.95
    """Coverage of the intervals."""
    seed: int = 0
    """Of the draws that make numbers of images equal, and of the trainings."""

    classifier: str | None = None
    """Train this network (auto, or a name as for `train classifier`) on synthetic images and on as many real ones, and
    test both on the held-out images; their labels are needed. Off if not given."""
    classifier_weights: str | None = None
    """Its pre-trained weights: a file, "default" or a tag; none if not given."""
    classifier_epochs: int | None = None
    """Epochs of each training; by default the architecture's."""
    classifier_seeds: int = 3
    """Trainings of each of the two, by seeds from --seed on."""
    batch_size: int = 64
    """Images a step of these trainings."""
    threads: int = 1
    """Threads of a training on a CPU; results depend on it."""

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
        if self.precision not in ("auto", "fp32", "bf16", "fp16"):
            raise unknown_name("precision", self.precision, ("auto", "fp32", "bf16", "fp16"))
        if not 0 < self.level < 1:
            raise InputError(f"level is {self.level}; it must lie between 0 and 1")
        if not 0 <= self.seed < 1 << 31:
            raise InputError(f"seed is {self.seed}; it must lie between 0 and {(1 << 31) - 1}")
        for name, least in (("classifier_epochs", 1), ("classifier_seeds", 1), ("batch_size", 2), ("threads", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name} is {value}; it must be a whole number of at least {least}")
        self._check_lists()
        if self.held_out is not None and self.held_out_split is not None:
            raise InputError("held_out and held_out_split both say which images are held out: give one of them")
        if self.train_split is not None and self.held_out_split is None:
            raise InputError("train_split goes with held_out_split: which part of TRAIN is held out?")
        if self.held_out_split is not None and self.held_out_split == (self.train_split or "train"):
            raise InputError(
                f"held_out_split and train_split are both {self.held_out_split!r}; name two parts of TRAIN"
            )
        if self.classifier is not None and self.held_out is None and self.held_out_split is None:
            raise InputError("classifier is tested on held-out real images: name them with held_out or held_out_split")

    def _check_lists(self) -> None:
        """Features and figures.

        Raises:
            InputError: None, one twice, or an unknown figure.
        """
        for name, values in (("features", self.features), ("figures", self.figures)):
            if not values:
                raise InputError(f"{name} names none: give one at least")
            if len(set(values)) < len(values):
                raise InputError(f"{name} names {next(v for v in values if values.count(v) > 1)!r} twice")
        for figure in self.figures:
            if figure not in FIGURES:
                raise unknown_name("figure", figure, FIGURES)

    def of_images(self) -> dict[str, Any]:
        """How the three sets are found and read, by the names that `memorisk audit synthetic` has for it, too."""
        names = [f.name for f in fields(ImageOptions)] + ["held_out_split", "train_split"]
        return {name: getattr(self, name) for name in names}


def quality_options(settings: Mapping[str, Any]) -> QualityOptions:
    """Options from keyword names, with a "did you mean" for one that does not exist; one name may stand for a list.

    Raises:
        InputError: A name is unknown, or a value is not allowed.
    """
    given = dict(settings)
    for name in ("features", "figures"):
        if name in given:
            value = given[name]
            given[name] = tuple(str(v) for v in (value if isinstance(value, (list, tuple)) else [value]))
    if isinstance(given.get("held_out"), Path):
        given["held_out"] = str(given["held_out"])
    for name in ("synthetic_features", "held_out_features"):
        if isinstance(given.get(name), str):
            given[name] = Path(given[name])
    return settings_of(QualityOptions, given)
