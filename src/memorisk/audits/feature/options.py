"""Settings of ``memorisk audit feature``: the mark, its controls, the models, their preprocessing, the probes.

The same class is the command line, the YAML file and the Python keywords.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from memorisk.images.options import ImageOptions
from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.settings import FunctionOptions, settings_of

Several = Annotated[tuple[str, ...], Parameter(consume_multiple=True)]


@dataclass(frozen=True, kw_only=True)
class MarkOptions:
    """What is burnt in, and where."""

    mark: str = ""
    """A letter (A to Z), text:ANY TEXT, pattern:SEED (5 x 5, random), or an image file; its alpha is its opacity."""
    place: str = "top-left"
    """top-left, top-right, bottom-left, bottom-right (one pixel from the edges), centre, or TOP,LEFT in pixels."""
    mark_scale: int = 1
    """Image pixels a side of each pixel of a letter, pattern or patch."""
    opacity: float = 1.0
    """Of the mark; 1 covers the image."""
    text_height: int = 12
    """Font size of text, in pixels."""
    font: Path | None = None
    """TrueType or OpenType file for text; the font of Pillow if not given."""
    text_background: bool = False
    """Draw text on an opaque black rectangle."""
    controls: str = "matched"
    """matched, shuffled, letters or random; or a file with a text a line, or a folder of patches."""
    n_controls: int = 199
    """How many controls; fewer than 19 cannot reach 0.05."""

    @property
    def where(self) -> str | tuple[int, int]:
        """The place of the mark.

        Raises:
            InputError: It is none.
        """
        from memorisk.images.alterations.marks import check_place

        place: str | tuple[int, int] = self.place
        if "," in self.place:
            try:
                top, left = (int(v) for v in self.place.split(","))
            except ValueError:
                raise InputError(f"place is {one_line(self.place, 40)}; TOP,LEFT are two whole numbers") from None
            place = (top, left)
        check_place(place)
        return place


@dataclass(frozen=True, kw_only=True)
class FeatureOptions(MarkOptions, ImageOptions, FunctionOptions):
    """Everything that `memorisk audit feature` can be told; those of ImageOptions are of the probes."""

    probes: str | None = None
    """Images that the model was not trained on: as for `audit classifier`; labels are not needed."""
    n_probes: int = 1000
    """Use a random sample of at most this many probes."""

    references: Several = ()
    """Models trained alike without the mark, each as MODEL; with fewer than 19 nothing is decided at 0.05."""
    normalise: str = ""
    """Of the model's input: imagenet, half, none, or MEAN/STD on pixels in [0, 1]; one number or one a channel."""
    output: Literal["auto", "logits", "probabilities"] = "auto"
    """What the model gives; auto finds out once."""
    num_classes: int | None = None
    """Classes of a network given by name."""

    level: float = 0.05
    """Chance of calling a mark remembered that no model saw."""
    gate: float = 2.0
    """Pass only if a model this many times as sensitive to the mark would have been found in four of five cases."""
    redraws: int = 3
    """Redraws of the random patches of the paper's form."""
    white_box: str | None = None
    """Also the paper's M_w: the label that the marked image had and images with labels, as LABEL@IMAGES; where these do
    not have the model's classes, NUMBER=LABEL@IMAGES with the model's number of the class."""

    device: str = "auto"
    """cpu, cuda, or auto: a GPU when there is one."""
    threads: int = 1
    """Threads on a CPU."""
    seed: int = 0
    """Of controls, probes and random patches."""
    redact: bool = False
    """Leave the mark, texts and images out of the report."""
    fail_on: Literal["remembered", "never"] = "remembered"
    """never: exit code 0 whatever was found."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        ImageOptions.validate(self)
        for name, allowed in (("output", ("auto", "logits", "probabilities")), ("fail_on", ("remembered", "never"))):
            if getattr(self, name) not in allowed:
                raise unknown_name(name, getattr(self, name), allowed)
        for name, least in (("n_controls", 1), ("n_probes", 2), ("mark_scale", 1), ("redraws", 1), ("threads", 1)):
            if getattr(self, name) < least:
                raise InputError(f"{name} is {getattr(self, name)}; it must be a whole number of at least {least}")
        if not 0 < self.level < 1:
            raise InputError(f"level is {self.level}; it must lie between 0 and 1, as in 0.05")
        if not self.gate > 1:
            raise InputError(f"gate is {self.gate}; it must be above 1: times the sensitivity to a control")
        if not 0 < self.opacity <= 1:
            raise InputError(f"opacity is {self.opacity}; it must lie above 0, where nothing is burnt in, and up to 1")
        if not 0 <= self.seed < 1 << 32:
            raise InputError(f"seed is {self.seed}; it must lie between 0 and {(1 << 32) - 1}")
        _ = self.where


def feature_options(settings: dict[str, Any]) -> FeatureOptions:
    """Options from keyword names, with a "did you mean" for one that does not exist.

    Raises:
        InputError: A name is unknown, or a value is not allowed.
    """
    if isinstance(settings.get("references"), str):
        settings = settings | {"references": (settings["references"],)}
    if settings.get("references") is not None:
        settings = settings | {"references": tuple(str(r) for r in settings["references"])}
    return settings_of(FeatureOptions, settings)
