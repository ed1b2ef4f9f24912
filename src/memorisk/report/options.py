"""Options that decide what reports show of the people in the data."""

from dataclasses import dataclass
from pathlib import Path

from memorisk.runs.options import grouped


@grouped("privacy")
@dataclass(frozen=True, kw_only=True)
class PseudonymOptions:
    """Options that replace ids in a run folder."""

    pseudonymise: bool = False
    """Replace image ids, group ids and paths by keyed hashes in everything that the run writes."""

    pseudonym_key: Path | None = None
    """File with the key for the hashes; by default created once in the user's configuration folder."""


@grouped("report", essential="redact")
@dataclass(frozen=True, kw_only=True)
class ReportOptions(PseudonymOptions):
    """Options that decide what a run folder and its report show of the people in the data."""

    gallery: bool = True
    """Show images in the report: those of flagged patients, or synthetic images next to real ones; --no-gallery leaves
    them out."""

    redact: bool = False
    """Leave images and ids out of the report."""
