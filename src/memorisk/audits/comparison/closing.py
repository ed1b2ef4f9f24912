"""Closing sections of reports on generated images: all that is needed to repeat the run, and who may see the page."""

from collections.abc import Mapping, Sequence
from typing import Any

from memorisk.report.blocks import Block, Definitions, Details, Heading, Name, Steps, Text

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
