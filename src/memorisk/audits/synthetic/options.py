"""Settings of ``memorisk audit synthetic``: the three sets, what compares them, how sure a pass has to be.

The same class is the command line, the YAML file and the Python keywords.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from memorisk.images.options import ImageOptions, image_options, of_synthetic_images
from memorisk.report.options import ReportOptions
from memorisk.runs.errors import InputError, unknown_name
from memorisk.runs.executors.placement import ClusterOptions
from memorisk.runs.settings import check_types

AUTO = "auto"
VERDICT_LEVEL = 0.1
"""Of the list that a verdict rests on, whatever level the list of the report has: METHODS section 6."""
FAR_SHARE = 0.9
"""Share of the held-out patients who lie nearer to the training images than an image that is called far."""


@dataclass(frozen=True, kw_only=True)
class SyntheticOptions(ReportOptions, ImageOptions, ClusterOptions):
    """Everything that `memorisk audit synthetic` can be told; how images are read is the same for all three sets."""

    held_out: str | None = None
    """Real images of patients that the generator never saw, a random part of the same data; without them there are
    distances only."""
    held_out_split: str | None = None
    """Take the held-out images from TRAIN instead: this given split of it, such as test."""
    train_split: str | None = None
    """With --held-out-split: the given split that the generator was trained on; train if not given."""
    one_image_per_patient: bool = False
    """Nobody has two images, in training and held-out images together: without patient ids a pass needs this said."""

    detector: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    """What compares images, once for each of several: a folder of `train detector`, or whatever --features takes, each
    with its own measure. Several share the level, and a patient listed by any of them is listed."""
    features: str = AUTO
    """In place of --detector, one with a measure: a detector or encoder (docs/features.md), pixels:SIDE, pca:K, or a
    file of features of TRAIN; auto is pixels at 32 x 32, a weak detector."""
    synthetic_features: Path | None = None
    """With a file of features: that of SYNTHETIC."""
    held_out_features: Path | None = None
    """With a file of features: that of the held-out images."""
    measure: str = AUTO
    """One of the 14 measures; auto is a detector's own, cosine for encoders and euclidean for pixels, PCA and
    saved features."""
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

    paired: str | None = None
    """The training image that each synthetic one was conditioned on: a column of SYNTHETIC, or a table of pairs with
    the columns synthetic_image and training_image."""
    review: Path | None = None
    """A filled review.csv of an earlier run: pairs that a person confirmed or dismissed."""

    plants: int = 40
    """Known copies of each kind that are hidden in the set to measure what would be found; 0 for none."""
    plant_kinds: Annotated[tuple[str, ...], Parameter(negative="", consume_multiple=True)] = ()
    """The kinds of copies that a pass is to be about; all seven if not given."""
    seed: int = 0
    """Of the plants and their places."""

    level: float = 0.1
    """At most this share of the listed patients are expected to be no nearer to the set than held-out patients. Of the
    list that is shown: the verdict's is always at 0.1."""
    recall: float = 0.8
    """A pass needs that one copy of any planted kind would surely have been noticed with this probability."""
    fail_on: Literal["copied", "never"] = "copied"
    """never: exit code 0 whatever was found."""

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
            "domain": (None, "signed", "shift", "softplus"),
            "precision": ("auto", "fp32", "bf16", "fp16"),
            "fail_on": ("copied", "never"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise unknown_name(name, getattr(self, name), [a for a in allowed if a is not None])
        for name in ("level", "recall"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must lie between 0 and 1")
        if self.plants < 0:
            raise InputError(f"plants is {self.plants}; it must be a whole number of at least 0")
        assert self.kinds  # every name is one of a kind's
        if not 0 <= self.seed < 1 << 32:
            raise InputError(f"seed is {self.seed}; it must lie between 0 and {(1 << 32) - 1}")
        if self.held_out is not None and self.held_out_split is not None:
            raise InputError("held_out and held_out_split both say which images are held out: give one of them")
        if self.detector and (self.features, self.measure) != (AUTO, AUTO):
            raise InputError("detector says what compares images, each with its own measure: leave features and "
                             "measure out")  # fmt: skip
        if len(set(self.detector)) < len(self.detector):
            raise InputError("a detector is named twice: name each once, since they share the level")
        if self.train_split is not None and self.held_out_split is None:
            raise InputError("train_split goes with held_out_split: which part of TRAIN is held out?")
        if self.held_out_split is not None and self.held_out_split == self.trained_on:
            raise InputError(f"held_out_split and train_split are both {self.trained_on!r}; name two parts of TRAIN")

    @property
    def sources(self) -> tuple[str, ...]:
        """What compares images, as it was named."""
        return self.detector or (self.features,)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of copies that are planted, in the order of `images.alterations.plants.PLANT_KINDS`.

        Raises:
            InputError: There is no kind of a given name.
        """
        from memorisk.images.alterations.plants import planted_kinds  # numpy, which --help does without

        return planted_kinds(self.plant_kinds)

    @property
    def shared_level(self) -> float:
        """The level of each detector's list: with q/D each, the union of D lists keeps q."""
        return self.level / len(self.sources)

    @property
    def trained_on(self) -> str:
        """The given split that the generator was trained on."""
        return self.train_split or "train"

    def of_real(self) -> ImageOptions:
        """How training and held-out images are read."""
        return image_options(self)

    def of_synthetic(self) -> ImageOptions:
        """How synthetic images are read: as the real ones, but without their columns and patterns."""
        return of_synthetic_images(self)


def synthetic_options(settings: dict[str, Any]) -> SyntheticOptions:
    """Options from keyword names, with a "did you mean" for one that does not exist.

    Raises:
        InputError: A name is unknown, or a value is not allowed.
    """
    names = [f.name for f in fields(SyntheticOptions)]
    for name in settings:
        if name not in names:
            raise unknown_name("setting", name, names)
    for name in ("held_out", "features", "paired"):
        if isinstance(settings.get(name), Path):
            settings = settings | {name: str(settings[name])}
    if "detector" in settings:
        given = settings["detector"] or ()
        given = given if isinstance(given, list | tuple) else (given,)
        settings = settings | {"detector": tuple(str(one) for one in given)}
    if "plant_kinds" in settings:
        given = settings["plant_kinds"] or ()
        settings = settings | {"plant_kinds": (given,) if isinstance(given, str) else tuple(given)}
    if isinstance(settings.get("review"), str):
        settings = settings | {"review": Path(settings["review"])}
    options = SyntheticOptions(**settings)
    options.validate()
    return options
