"""The one registry of ways to copy an image: planted copies, families of a filter's guarantee, and their words.

A way to copy is one entry of `TRANSFORMATIONS`, in each form in which it is used. Everything else reads it there: the
copies that an audit of a generated set plants and those that its pass requires (`images.alterations.plants`),
statement, gate and officer's page; the families of a filter's guarantee, of ``bench copies`` and of the tests of LCMem
(`images.alterations.families`); the training of LCMem. A form's function has the name of the form. It is imported when
it is called, so that the registry needs Python's own library alone, as the gate does.

Each form draws from a random stream of its own, by the number in its entry. A new entry takes the next free number and
moves no draw of another one. Numbers are never changed or used again.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from math import inf, nextafter
from typing import Any, ClassVar, Literal, TypeVar

PLACES = 7
"""Number of the stream that draws the places of plants in a set; no planted kind has it."""
_FACTORS = (1.1, 1.3, 1.6, 2.0)


@dataclass(frozen=True)
class Form:
    """Form in which a way to copy is used."""

    module: ClassVar[str]
    """Module of `images.alterations` that has the function of each form."""
    name: str
    """Name of the form in options and tables, and of its function."""
    stream: int
    """Number of the random stream, and place of the form in lists."""

    @property
    def make(self) -> Callable[..., Any]:
        """Return the function that makes copies."""
        return getattr(import_module(f"memorisk.images.alterations.{self.module}"), self.name)


@dataclass(frozen=True)
class PlantKind(Form):
    """Kind of copies that are planted in a generated set; the parameter of each copy is drawn.

    Its function is one of (image [H, W, C], second image, generator, limits); it returns the copy and its parameter in
    words.
    """

    module: ClassVar[str] = "planting"
    summary: str
    """Description of the kind; its limits are formatted into it."""
    limits: tuple[float, float] | tuple[()] = ()
    """Smallest and largest parameter; none where no parameter is drawn."""
    required: bool = False
    """Whether a pass covers the kind unless the user names kinds."""
    second: Literal["", "synthetic", "patient"] = ""
    """Second image from which a part of the copy comes: a synthetic one, or another patient's; empty for none."""
    of_volumes: bool = True
    """Whether the kind is defined for volumes [H, W, D], too."""

    @property
    def description(self) -> str:
        """Return the description of the kind with its limits."""
        return self.summary.format(*self.limits)


@dataclass(frozen=True)
class CopyFamily(Form):
    """Family of copies that a filter can promise to leave out, at stated strengths or drawn as they are planted.

    Its function is one of (images [b, C, H, W], strengths [b], a generator for each image). A family without strengths
    has the name of a planted kind, and its copies are drawn as that kind's.
    """

    module: ClassVar[str] = "graded"
    strengths: tuple[float, ...] = ()
    """Strengths from the weakest to the strongest."""
    axis: str = ""
    """Title of the strengths in figures."""
    allowed: tuple[float, float] = (nextafter(0, 1), inf)
    """Smallest and largest strength that has a meaning; by default every number above 0."""

    @property
    def allowed_words(self) -> str:
        """Return the allowed strengths in words."""
        least, most = self.allowed
        return f"from {least:g} to {most:g}" if most < inf else "above 0" if least else "0 or more"


@dataclass(frozen=True)
class Augmentation(Form):
    """Operation on the copies that train LCMem; its strength is drawn for each image.

    Its function is one of (images [b, C, H, W], a uniform draw for each [b], a torch generator).
    """

    module: ClassVar[str] = "augmentations"


@dataclass(frozen=True)
class Transformation:
    """One way to copy, in the forms in which it is used."""

    words: str
    """Plain word for such a copy: "mirrored"."""
    plant: PlantKind | None = None
    family: CopyFamily | None = None
    augmentation: Augmentation | None = None


TRANSFORMATIONS: tuple[Transformation, ...] = (
    Transformation("unchanged", PlantKind("exact", 0, "pixel by pixel", required=True)),
    Transformation("mirrored", PlantKind("flipped", 1, "left to right or top to bottom", required=True),
                   CopyFamily("flipped", 7), Augmentation("flip", 1)),
    Transformation("turned",  # 20 degrees are the largest angle of paper 003's weak augmentation
                   PlantKind("rotated", 2, "by {:g} to {:g} degrees either way, borders repeated", (5, 20),
                             required=True),
                   CopyFamily("rotation", 2, (5.0, 10.0, 20.0, 30.0), "Rotation, degrees", (-180, 180)),
                   Augmentation("rotate", 0)),
    Transformation("noisy",
                   PlantKind("noised", 3, "Gaussian noise, deviation {:.0%} to {:.0%} of the range", (0.02, 0.10),
                             required=True),
                   CopyFamily("noise", 1, (0.01, 0.1, 0.2, 0.3), "Standard deviation of the noise, share of the greys",
                              (0, inf)),
                   Augmentation("noise", 3)),
    Transformation("compressed",  # between paper 004's strongest and its second weakest
                   PlantKind("jpeg", 4, "JPEG at quality {} to {}", (10, 70), required=True, of_volumes=False),
                   CopyFamily("jpeg", 6, (95.0, 70.0, 40.0, 10.0), "JPEG quality", (1, 95)), Augmentation("jpeg", 6)),
    Transformation("cropped",
                   PlantKind("cropped", 5, "a window of {:.0%} to {:.0%} of either side, enlarged", (0.75, 0.95),
                             required=True),
                   CopyFamily("cropped", 8)),
    Transformation("pasted in part",
                   PlantKind("pasted", 6, "a region of {:.0%} to {:.0%} of either side, set into a synthetic image",
                             (0.5, 0.7), required=True, second="synthetic")),
    Transformation("inverted", PlantKind("inverted", 8, "bright and dark exchanged")),
    Transformation("shifted", PlantKind("shifted", 9, "by {:.0%} to {:.0%} of either side, borders repeated",
                                        (0.05, 0.20))),
    Transformation("changed in tone", PlantKind("toned", 10, "a tone curve, exponent {:g} to {:g} or the inverse",
                                                (1.4, 2.5))),
    Transformation("made coarser", PlantKind("resized", 11, "shrunk to {:.0%} to {:.0%} of either side, enlarged again",
                                             (0.25, 0.5), of_volumes=False)),
    Transformation("of few values", PlantKind("posterised", 12, "{} to {} values in each channel", (3, 6))),
    Transformation("redrawn in part",
                   PlantKind("redrawn", 13, "one half from a synthetic image, without a visible seam",
                             second="synthetic")),
    Transformation("changed in colour",
                   PlantKind("recoloured", 14, "grey, or channels in another order; of colour images",
                             of_volumes=False)),
    Transformation("mixed with another image",
                   PlantKind("blended", 15, "{:.0%} to {:.0%} of each value, the rest of another patient's image",
                             (0.6, 0.8), second="patient")),
    Transformation("shrunken into another image",
                   PlantKind("shrunken", 16, "shrunk to {:.0%} to {:.0%} of either side, set into a synthetic image",
                             (0.4, 0.7), second="synthetic", of_volumes=False)),
    Transformation("blurred", None,
                   CopyFamily("blur", 0, (0.1, 1.0, 2.0, 6.0), "Standard deviation of the blur, pixels"),
                   Augmentation("blur", 2)),
    Transformation("brighter", None, CopyFamily("brightness", 3, _FACTORS, "Pixels times"),
                   Augmentation("brightness", 4)),
    Transformation("darker", None, CopyFamily("darkening", 4, _FACTORS, "Pixels divided by")),
    Transformation("changed in contrast", None, CopyFamily("contrast", 5, _FACTORS, "Contrast times"),
                   Augmentation("contrast", 5)),
)  # fmt: skip
"""Every way to copy; a new one is an entry here."""
_Form = TypeVar("_Form", bound=Form)


def by_name(forms: Iterable[_Form | None]) -> dict[str, _Form]:
    """Return the forms that there are by their names, in the order of their streams."""
    return {form.name: form for form in sorted(filter(None, forms), key=lambda form: form.stream)}
