"""The work of a command: its cost, counted before it runs, and its progress while it runs.

Every ``--dry-run`` gives a `Cost` under the same names. It counts the work that is still to be done: a training whose
result lies in the run folder costs nothing. Features that the cache may hold from before are counted as if it did
not. A check that a network takes its images (a pass of two) is not counted.

A long computation reports its `Progress` by functions that its caller passes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from memorisk.runs.errors import plural

MOST_OPENING = 5
"""Largest number of lines of an opening."""
COST_LABELS = {
    "trainings": "trainings",
    "steps": "steps of optimisers",
    "images_trained": "images forward and backward, repeats counted",
    "images_passed": "images forward only",
    "images_drawn": "images drawn by generators",
    "pairs": "pairs of images compared",
    "bytes_images": "bytes of decoded images in the cache",
    "bytes_features": "bytes of features in the cache",
    "bytes_weights": "bytes of weights in the run folder",
    "bytes_outputs": "bytes of models' outputs in the run folder",
}
"""Meaning of each number, as it is printed."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Numbers of a plan; 0 where the command has nothing of the kind, None where a number cannot be known beforehand.

    Raises:
        ValueError: A name in ``at_most`` or ``about`` is not the name of a number.
    """

    trainings: int | None = 0
    """Number of networks that are trained."""
    steps: int | None = 0
    """Number of updates by optimisers, all trainings together."""
    images_trained: int | None = 0
    """Number of images that go through a network forward and backward; an image in two epochs counts twice."""
    images_passed: int | None = 0
    """Number of images that go through a network forward only: predictions, features (each window of an image
    counts), validation, sampling steps."""
    images_drawn: int | None = 0
    """Number of images that generators make."""
    pairs: int | None = 0
    """Number of pairs of images, or of an image and a copy, to compare; each direction and each detector counts."""
    bytes_images: int | None = 0
    """Bytes of decoded pixels in the image stores, without the files' headers."""
    bytes_features: int | None = 0
    """Bytes of features that are kept, without the files' headers."""
    bytes_weights: int | None = 0
    """Bytes of tensors of trained networks that stay in the run folder, without the files' headers."""
    bytes_outputs: int | None = 0
    """Bytes of outputs of trained networks in the run folder, without the files' headers."""
    at_most: tuple[str, ...] = ()
    """Names of the numbers that are upper bounds: a training may end early, images may be found in the cache."""
    about: tuple[str, ...] = ()
    """Names of the numbers that are expectations, since they are drawn at random while the command runs."""

    def __post_init__(self) -> None:
        unknown = {*self.at_most, *self.about} - set(COST_LABELS)
        if unknown:
            raise ValueError(f"a cost has no {', '.join(sorted(unknown))}")

    @property
    def numbers(self) -> dict[str, int | None]:
        """Return the numbers alone, by name."""
        return {name: getattr(self, name) for name in COST_LABELS}

    def __add__(self, other: "Cost") -> "Cost":
        """Add the cost of a further part: the sum is unknown where one is, a bound where one is."""
        both = {
            name: None if None in (number, yours := getattr(other, name)) else number + yours
            for name, number in self.numbers.items()
        }
        return Cost(**both, at_most=_union(self.at_most, other.at_most), about=_union(self.about, other.about))

    def __mul__(self, times: int) -> "Cost":
        """Multiply the cost by a number of repetitions."""
        many = {name: None if number is None else number * times for name, number in self.numbers.items()}
        return Cost(**many, at_most=self.at_most, about=self.about)

    def as_json(self) -> dict[str, Any]:
        """Return every field, as JSON has it."""
        return {f.name: getattr(self, f.name) for f in fields(self)} | {
            "at_most": list(self.at_most),
            "about": list(self.about),
        }

    def rows(self, *, with_bytes: bool = True) -> list[tuple[str, str]]:
        """List each count that is not 0, named and formatted for the terminal.

        Args:
            with_bytes: Whether to list the bytes, too.
        """
        return [
            (COST_LABELS[name], "unknown" if number is None else f"{self._how(name)}{number:,}")
            for name, number in self.numbers.items()
            if number != 0 and (with_bytes or not name.startswith("bytes_"))
        ]

    def lines(self) -> list[str]:
        """Return the rows as text, one line each."""
        return [f"{value:>16} {_agreeing(what, value)}" for what, value in self.rows()]

    def in_short(self) -> str:
        """Return the counts on one line, without bytes and without a time: only a run finds out how long it takes."""
        counts = ", ".join(f"{number} {_agreeing(what, number)}" for what, number in self.rows(with_bytes=False))
        return f"{counts or 'none'}; an estimate of the time appears while it runs"

    def _how(self, name: str) -> str:
        return "at most " if name in self.at_most else "about " if name in self.about else ""


def _agreeing(what: str, number: str) -> str:
    """Return the label of a number as it follows it: "training" after "1" and after "at most 1"."""
    noun, space, rest = what.partition(" ")
    return f"{noun.removesuffix('s')}{space}{rest}" if number.split()[-1] == "1" else what


def total(costs: "list[Cost]") -> Cost:
    """Add up costs of parts that run one after the other."""
    return sum(costs, start=Cost())


def _union(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in COST_LABELS if name in first or name in second)


CountProgress = Callable[[int, int], None]
"""Function called with (done, total)."""

Progress = Callable[[str, int, int], None]
"""Function called with (stage, done, total); total is 0 where it is not known."""


class Opening(str):
    """Stage that is shown once and stays in sight: what a run does, how long it takes, and whether it can pass.

    Example:
        >>> stages = []
        >>> report = lambda stage, done, total: stages.append(stage)
        >>> report(Opening("models: 16"), 0, 0)
        >>> isinstance(stages[0], str)
        True
    """

    @classmethod
    def of(cls, lines: Sequence[str]) -> "Opening":
        """Make an opening of a few lines; of many it keeps the first and counts the others.

        Args:
            lines: Texts without line ends.
        """
        if len(lines) > MOST_OPENING:
            more = len(lines) - MOST_OPENING + 1
            lines = [*lines[: MOST_OPENING - 1], f"{more} more lines with --dry-run"]
        return cls("\n".join(lines))


def no_progress(stage: str, done: int, total: int) -> None:
    """Ignore a report of progress."""


def duration(seconds: float) -> str:
    """Word a duration with at most two digits, since it is an estimate.

    Args:
        seconds: Duration in seconds.
    """
    for size, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.2g} {unit}"
    return plural(max(1, round(seconds)), "second", "seconds")
