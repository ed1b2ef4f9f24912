"""Options that many commands share, and the groups in which `--help` shows them.

A dataclass of settings names the group of its fields once, with `grouped`; a command's help shows the essential ones
of each group, and `--help-all` the rest, in a group of their own that ends in `MORE`.
"""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from cyclopts import Group, Parameter

GROUPS = {
    "images": "Images",
    "comparison": "Comparison",
    "training": "Training",
    "generator": "Generator",
    "design": "Design",
    "statistics": "Statistics",
    "privacy": "Privacy",
    "where": "Where it runs",
    "report": "Report",
}
"""Titles of the groups, in the order of the help."""
MORE = ", more"
_PLACES = {key: place for place, key in enumerate(GROUPS, start=1)}
_Settings = TypeVar("_Settings", bound=type)


def in_group(group: str, *, essential: bool = False, help: str | None = None) -> Parameter:
    """Return an option's place in the help.

    Args:
        group: Key of `GROUPS`.
        essential: Whether the short help shows the option.
        help: Text on its effect, where its field has no text of its own.
    """
    title = GROUPS[group] if essential else GROUPS[group] + MORE
    place = Group(title, sort_key=2 * _PLACES[group] + (not essential))
    return Parameter(group=place) if help is None else Parameter(group=place, help=help)


def grouped(group: str, *, essential: str = "", **others: str) -> Callable[[_Settings], _Settings]:
    """Give the fields of a dataclass of settings their places in the help.

    Args:
        group: Group of all fields that are not named below and have no group of their own.
        essential: Names of fields, with spaces between them, that the short help shows.
        others: Names of fields, by the group that they belong to.
    """

    def decorate(settings: _Settings) -> _Settings:
        """Put the fields of a class of settings into their groups."""
        places = {name: key for key, names in others.items() for name in names.split()}
        hints = inspect.get_annotations(settings)
        if unknown := {*essential.split(), *places} - set(hints):
            raise NameError(f"{settings.__name__} has no settings {', '.join(sorted(unknown))}")
        for name, hint in hints.items():
            key = places.get(name) or _own_group(hint) or group
            hints[name] = Annotated[hint, in_group(key, essential=name in essential.split())]
        settings.__annotations__ = hints
        return settings

    return decorate


def _own_group(hint: Any) -> str | None:
    """Return the group that an annotation of the types below names."""
    titles = {title: key for key, title in GROUPS.items()}
    for extra in getattr(hint, "__metadata__", ()):
        groups = extra.group if isinstance(extra, Parameter) else None
        for one in groups if isinstance(groups, tuple) else ():
            return titles[str(getattr(one, "name", one)).removesuffix(MORE)]
    return None


Words = Annotated[tuple[str, ...], Parameter(consume_multiple=True)]
"""Several words behind one flag."""

Device = Annotated[str, in_group("where", help="cpu, cuda, or auto: a GPU if there is one.")]
Threads = Annotated[int, in_group("where", help="CPU threads of each training or network. Results depend on it.")]
CheckpointSeconds = Annotated[
    float,
    in_group("where", help="Least seconds between two saves of a training's state, from which a killed run resumes."),
]
Precision = Annotated[
    Literal["auto", "fp32", "bf16", "fp16"],
    in_group("where", help="Arithmetic on a GPU; auto is bf16 where the GPU supports it, otherwise fp32."),
]
InputSize = Annotated[
    int | None,
    in_group("comparison", help="Side in pixels of the encoder's input; by default the size it was trained at."),
]
Normalise = Annotated[
    str | None,
    in_group("comparison", help="Mean and deviation of the encoder's input, as MEAN/STD; by default the published."),
]
Domain = Annotated[
    Literal["signed", "shift", "softplus"] | None,
    in_group("comparison", help="How braycurtis, canberra and jensenshannon handle negative features."),
]
HeldOutSplit = Annotated[
    str | None,
    in_group("images", help="Take the held-out images from TRAIN instead: this given split of it, such as test."),
]
TrainSplit = Annotated[
    str | None,
    in_group("images", help="The given split that the generator was trained on, where another split of TRAIN is held "
    "out or calibrates; by default train."),
]  # fmt: skip
OneImagePerPatient = Annotated[
    bool,
    in_group("images", help="Assert that each patient contributes one image. Required to pass without patient ids."),
]
By = Annotated[
    tuple[str, ...],
    Parameter(consume_multiple=True),
    in_group("statistics", essential=True, help="Columns of the images' table that divide patients into subgroups, as "
    "sex, age:4 (bins of equally many patients) or age:40,60 (edges): is one of them remembered or copied more?"),
]  # fmt: skip
Balance = Annotated[
    Literal["classes", "training"],
    in_group("generator", help="classes: the same number of images of each class; training: in the proportions of the "
    "training images."),
]  # fmt: skip
Paired = Annotated[
    bool,
    in_group("generator", help="Draw one image for each training image's condition. Needs a generator trained on "
    "pseudo-conditions."),
]  # fmt: skip
