"""Parts of every report on generated images: columns that name a pair, settings that repeat a run, the footer."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memorisk.audits.comparison.terms import Terms
from memorisk.report.blocks import Block, Column, Definitions, Details, Heading, Name, Steps, Text, words
from memorisk.runs.errors import plural

DefinitionRows = list[tuple[Text, Text]]
"""Titles, and the text of each."""


def set_name(name: Any, counted: str, redact: bool) -> Text:
    """Name a set of images, where it has a name that may be shown, with its number of images.

    Args:
        name: Name of the set; "" or None where it has none.
        counted: Number of images, in words.
        redact: Whether to leave out the name.
    """
    return counted if redact or name is None or not str(name) else [Name(str(name)), f", {counted}"]


def set_rows(
    sets: Iterable[tuple[str, Any, int | None, int | None]],
    terms: Terms,
    shape: tuple[int, ...],
    resize: str,
    *,
    redact: bool,
) -> DefinitionRows:
    """List the sets that were compared, and the form of their images.

    Args:
        sets: Title, name, number of images and number of patients of each set; None where there is none.
        terms: Words for a patient.
        shape: Height, width and channels of the images.
        resize: Rule by which images were resized.
        redact: Whether to leave out the names.
    """
    rows: DefinitionRows = []
    for title, name, n_images, n_patients in sets:
        counted = "none" if n_images is None else plural(n_images, "image", "images")
        if n_patients is not None and terms.units == "patients":
            counted += f" of {terms.counted(n_patients)}"
        rows.append((title, set_name(name, counted, redact)))
    height, width, channels = shape
    return [*rows, ("Pixels", f"{height} x {width} x {channels}, by {resize} where they were resized")]


def image_columns(
    terms: Terms,
    *,
    redact: bool = False,
    image: str = "image",
    real: tuple[str, str] = ("training_image", "Training image"),
    patient: tuple[str, str] = ("group", "Patient"),
) -> list[Column]:
    """Return the columns that name the images of a pair, and the patient where patients are known.

    Args:
        terms: Words for a patient.
        redact: Whether to leave out every name.
        image: Column of the synthetic image.
        real: Column of the real image, and its heading.
        patient: Column of the patient, and its heading.
    """
    named = [words(image, "Synthetic image", row=True), words(*real)]
    named += [words(*patient)] if terms.units == "patients" else []
    return [] if redact else named


def repeat_blocks(
    settings: DefinitionRows, notes: Sequence[object], versions: Mapping[str, object], redact: bool
) -> list[Block]:
    """Lay out the settings, notes and versions of a run.

    Args:
        settings: Titles and values of the settings.
        notes: Notes of the run; they may name files.
        versions: Versions by package.
        redact: Whether to leave out the notes.
    """
    blocks: list[Block] = [Definitions(settings, compact=True)]
    if notes and not redact:
        blocks += [Heading("Notes of the run"), Steps([Name(str(note)) for note in notes])]
    rows: DefinitionRows = [(package, Name(str(version))) for package, version in versions.items()]
    return [*blocks, Details("Versions", [Definitions(rows, compact=True)])]


def footer(versions: Mapping[str, object], redact: bool) -> str:
    """Say which program made the page, and who may see it.

    Args:
        versions: Versions by package.
        redact: Whether ids and images were left out.
    """
    handling = (
        "Ids and images are left out." if redact else "This file names training images: handle it as personal data."
    )
    return f"Made by memorisk {versions.get('memorisk')}. {handling} It needs no network and asks for none."
