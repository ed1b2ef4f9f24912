"""Sentences of a statement that several kinds of runs share."""

from collections.abc import Mapping
from typing import Any

from memorisk.report.statements.statement import Figure

NO_PATIENTS = (
    "It is not known whose each image is: every image counts as a person, so that a patient with several images may be "
    "on both sides, and figures may be too small."
)
ONE_IMAGE = (
    "Nobody has two images: whoever ran this said so (--one-image-per-patient), and nothing was given to check it by."
)
OF_A_MODEL = (
    "Whether images can be reconstructed from the weights (model inversion).",
    "What the model lets somebody guess about a known person (attribute inference).",
    "What happens if the model is trained further, or asked in another way than with whole images.",
)
OF_IMAGES = (
    "The names of files and folders, and what is hidden in the pixels themselves.",
    "Names or dates that can be read in the images.",
    "The generator: whoever has its weights can draw other images.",
)
SEEDED = "Whoever has the same data, settings and versions on the same machine gets the same figures."


def rate(name: str, title: str, found: Mapping[str, Any] | None, unit: str) -> list[Figure]:
    """A share with its interval, from what `memorisk.statistics.proportions` leaves in a verdict; none without one.

    Args:
        name: Of the figure.
        title: For readers.
        found: ``estimate``, ``low``, ``high``, ``trials``, ``level``.
        unit: What is counted.
    """
    if not found:
        return []
    n, level = found.get("trials"), found.get("level")
    return [
        Figure(
            name=name, title=title, value=found.get("estimate"), low=found.get("low"), high=found.get("high"),
            confidence=level, n=n, unit=unit,
        )
    ]  # fmt: skip


def whole(value: Any) -> int | None:
    """A count, or None where there is none."""
    return None if value is None else int(value)


def of_texts(found: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The sentences under a name."""
    return tuple(str(text) for text in found.get(name) or ())


def without_columns(notes: tuple[str, ...]) -> tuple[str, ...]:
    """Notes without how the columns of somebody's table are called: no limit of a result, and nobody else's matter."""
    return tuple(note for note in notes if not note.startswith("Columns: "))


def settings_of_run(config: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Some settings in JSON's own types: numbers, and words of a fixed vocabulary; never a path.

    Args:
        config: Of the run.
        names: Which.
    """
    return {
        name: config[name] for name in names if name in config and isinstance(config[name], str | int | float | bool)
    }
