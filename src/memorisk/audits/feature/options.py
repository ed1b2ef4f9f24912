"""Settings of ``memorisk audit feature``: the mark, its controls, the models, their preprocessing, the probes.

The same class is the command line, the YAML file and the Python keywords.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from memorisk.images.options import ImageOptions
from memorisk.report.options import PseudonymOptions
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.options import Device, Threads, Words, grouped
from memorisk.runs.settings import check_between, check_counts, check_seeds, settings_of
from memorisk.runs.user_code.functions import FunctionOptions
from memorisk.statistics.verdicts.levels import MARK_GATE, MARK_LEVEL

TEXT, PATTERN = "text:", "pattern:"
"""Beginnings of the name of a mark that is a text, or a random pattern."""


def is_letter(text: str) -> bool:
    """Say whether the name of a mark is that of a letter."""
    return len(text) == 1 and "A" <= text <= "Z"


def check_mark(text: str) -> None:
    """Refuse a mark that is of no kind; its picture is not made yet.

    Args:
        text: Name of the mark, as `MarkOptions.mark`.

    Raises:
        InputError: The name fits none of the kinds.
    """
    if not (is_letter(text) or text.startswith((TEXT, PATTERN)) or Path(text).is_file()):
        raise InputError(
            f"mark is {one_line(text, 60)}: neither a letter A to Z, text:..., pattern:SEED, nor an image file"
        )


@grouped("design", essential="mark place mark_scale opacity controls n_controls")
@dataclass(frozen=True, kw_only=True)
class MarkOptions:
    """A mark, its place and its controls."""

    mark: str = ""
    """The mark: a letter (A to Z), text:ANY TEXT, pattern:SEED (5 x 5, random), or an image file, whose alpha channel
    is its opacity."""
    place: str = "top-left"
    """Place of the mark: top-left, top-right, bottom-left, bottom-right (one pixel from the edges), centre, or TOP,LEFT
    in pixels."""
    mark_scale: int = 1
    """Enlarge each pixel of a letter, pattern or patch to this side in image pixels."""
    opacity: float = 1.0
    """Opacity of the mark; 1 covers the image."""
    text_height: int = 12
    """Font size of text, in pixels."""
    font: Path | None = None
    """TrueType or OpenType file for text; by default Pillow's font."""
    text_background: bool = False
    """Draw text on an opaque black rectangle."""
    controls: str = "matched"
    """Control marks: matched, shuffled, letters or random; or a file with one text per line, or a folder of patches."""
    n_controls: int = 199
    """Number of controls. Fewer than 19 cannot reach a level of 0.05."""

    @property
    def where(self) -> str | tuple[int, int]:
        """Return the place of the mark.

        Raises:
            InputError: The text does not name a place.
        """
        from memorisk.images.alterations.marks import check_place

        place: str | tuple[int, int] = self.place
        if "," in self.place:
            try:
                top, left_edge = (int(v) for v in self.place.split(","))
            except ValueError:
                raise InputError(f"place is {one_line(self.place, 40)}; TOP,LEFT are two whole numbers") from None
            place = (top, left_edge)
        check_place(place)
        return place


@grouped(
    "statistics",
    essential="probes references level fail_on device redact",
    images="probes n_probes",
    training="references normalise output num_classes",
    report="redact",
)
@dataclass(frozen=True, kw_only=True)
class FeatureOptions(PseudonymOptions, MarkOptions, ImageOptions, FunctionOptions):
    """Settings of `memorisk audit feature`; those of ImageOptions apply to the probes."""

    probes: str | None = None
    """Images that the model was not trained on, as IMAGES of `audit classifier`; labels are not needed."""
    n_probes: int = 1000
    """Use a random sample of at most this many probes."""

    references: Words = ()
    """Models trained in the same way without the mark, each as MODEL. Fewer than 19 decide nothing at 0.05."""
    normalise: str = ""
    """Normalisation of the model's input: imagenet, half, none, or MEAN/STD for pixels in [0, 1], with one number or
    one per channel."""
    output: Literal["auto", "logits", "probabilities"] = "auto"
    """Output of the model; auto detects it once."""
    num_classes: int | None = None
    """Number of classes of a network given by name."""

    level: float = MARK_LEVEL
    """Significance level: the chance of calling a mark remembered that no model saw."""
    gate: float = MARK_GATE
    """A passing audit must detect, in four of five cases, a model this many times as sensitive to the mark."""
    redraws: int = 3
    """Redraws of the random patches in the paper's form of the test."""
    white_box: str | None = None
    """Also compute the paper's M_w. LABEL@IMAGES: the label of the marked image, and labelled images; where these lack
    the model's classes, NUMBER=LABEL@IMAGES with the model's number of the class."""

    device: Device = "auto"
    threads: Threads = 1
    seed: int = 0
    """Random seed for controls, probes and random patches."""
    redact: bool = False
    """Leave the mark, texts and images out of the report."""
    fail_on: Literal["remembered", "never"] = "remembered"
    """Fail if the mark is remembered (remembered); never: the exit code is 0 whatever the result."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        ImageOptions.validate(self)
        if self.mark:
            check_mark(self.mark)
        check_counts(self, n_controls=1, n_probes=2, mark_scale=1, redraws=1, threads=1)
        check_between(self, "level", example="0.05")
        if not self.gate > 1:
            raise InputError(f"gate is {self.gate}; it must be above 1: times the sensitivity to a control")
        if not 0 < self.opacity <= 1:
            raise InputError(f"opacity is {self.opacity}; it must lie above 0, where nothing is burnt in, and up to 1")
        check_seeds(self, "seed")
        _ = self.where


def feature_options(settings: dict[str, Any]) -> FeatureOptions:
    """Build options from keyword names, with a "did you mean" for one that does not exist.

    Raises:
        InputError: A name is unknown, or a value is not allowed.
    """
    return settings_of(FeatureOptions, settings)
