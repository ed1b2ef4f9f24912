"""The verdict of a run as blocks, its numbers next to those of another, and the results of a check of images."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memorisk.audits.image_set.page import label_table, unread_tables
from memorisk.report.blocks import Block, Callout, Heading, Paragraph
from memorisk.report.columns import MINUS, capitalized
from memorisk.report.first_screen import BOXES, FirstScreen
from memorisk.report.result import from_storable
from memorisk.report.statements.statement import run_headline
from memorisk.runs.files import read_table

_WAYS = {"pass": "What would change it", "fail": "What to do", "undecided": "What would decide it"}


def verdict_blocks(verdict: Mapping[str, Any] | None, progress: str = "") -> list[Block]:
    """Lay out the verdict of a run, or that it has none yet.

    Args:
        verdict: Content of ``verdict.json``; None without one.
        progress: Progress of the run, in words.
    """
    if verdict is None:
        return [Callout("note", "No verdict yet", [Paragraph(capitalized(progress))] if progress else [])]
    status = str(verdict.get("status"))
    headline = run_headline(status, verdict.get("audit")) if status in BOXES else "Done"
    lists = {
        heading: [str(sentence) for sentence in verdict.get(name) or ()]
        for heading, name in (("Why", "why"), (_WAYS.get(status, _WAYS["undecided"]), "what_would_decide"))
    }
    return FirstScreen(kind=BOXES.get(status, "note"), headline=headline, lists=lists).blocks()


def check_blocks(tables: Path, *, redacted: bool) -> list[Block]:
    """Lay out the images that a check could not read, and its labels.

    Args:
        tables: Path of the folder of its tables.
        redacted: Whether to leave out names of files.
    """
    names = ("unreadable", "not_read", "empty", "few_levels", "classes")
    tables_by_name = {name: from_storable(read_table(tables / f"{name}.parquet")) for name in names}
    return [
        Heading("What could not be read"),
        *unread_tables(tables_by_name, redact=redacted),
        Heading("Labels"),
        *label_table(tables_by_name["classes"]),
    ]


def number_rows(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the numbers of two verdicts side by side, those that both have."""
    ours, theirs = (dict(_numbers(verdict, "")) for verdict in (first, second))
    return [(name, _written(value), _written(theirs[name])) for name, value in ours.items() if name in theirs]


def _numbers(value: Any, name: str) -> list[tuple[str, float]]:
    if isinstance(value, bool) or name == "schema":
        return []
    if isinstance(value, int | float):
        return [(name.replace("_", " "), value)]
    if isinstance(value, Mapping):
        return [pair for key, inner in value.items() for pair in _numbers(inner, f"{name} {key}".strip())]
    return []


def _written(value: float) -> str:
    text = f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    return text.replace("-", MINUS)
