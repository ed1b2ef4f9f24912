"""How the report of a screened set ends, a filter's and a loop's: how it was done, and the line below the page."""

from typing import Any

from memorisk.report.blocks import Block, Definitions, Details, Heading, Name, Steps, Text
from memorisk.report.result import Result

Told = list[tuple[Text, Text]]
"""Titles, and what is said of each."""


def setup_section(result: Result, first: Told, settings: Told, redact: bool) -> list[Block]:
    """Everything to repeat it.

    Args:
        result: Of `analysis`.
        first: Which images, in what form.
        settings: Those that the command has alone.
        redact: Leave out the notes of the run, which may name files.
    """
    n, s = result.summary["numbers"], result.summary
    told = list(first)
    for found in s["features"]:
        told.append(("Detector", Name(f"{found['detector']}: {found['sentence']} Compared by {found['compares']}.")))
    told += [
        ("Miss rate, confidence", f"{n['miss_rate']:g}, {n['confidence']:g}"),
        *settings,
        ("Seed", f"{s['settings']['seed']}"),
        ("Ids replaced by keyed hashes", "yes" if s["pseudonymised"] else "no"),
    ]
    told += [(f"Fingerprint, {what}", Name(str(value))) for what, value in n["data_hash"].items() if value]
    blocks: list[Block] = [Definitions(told, compact=True)]
    notes = [*n["notes"], *(note for found in s["features"] for note in found["notes"])]
    if notes and not redact:
        blocks += [Heading("Notes of the run"), Steps([Name(str(note)) for note in notes])]
    versions: Told = [(k, Name(str(v))) for k, v in s["versions"].items()]
    return [*blocks, Details("Versions", [Definitions(versions, compact=True)])]


def named(name: Any, counted: str, redact: bool) -> Text:
    """Images by their name, where they have one that may be told, and their number.

    Args:
        name: "" where they have none.
        counted: How many, in words.
        redact: Leave out the name.
    """
    return counted if redact or not str(name) else [Name(str(name)), f", {counted}"]


def footer(result: Result, redact: bool) -> str:
    """What made the page, and who may see it.

    Args:
        result: Of `analysis`.
        redact: Whether ids and images were left out.
    """
    version = result.summary["versions"].get("memorisk")
    shown = "Ids and images are left out." if redact else "This file names training images: handle it as personal data."
    return f"Made by memorisk {version}. {shown} It needs no network and asks for none."
