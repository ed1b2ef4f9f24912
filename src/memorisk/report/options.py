"""What reports show of the people in the data."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """What of the people in the data a run folder and its report show."""

    gallery: bool = False
    """Show pictures in the report: the most memorized images, or synthetic images beside real ones."""

    redact: bool = False
    """Leave images and ids out of the report."""

    pseudonymise: bool = False
    """Replace ids of images and groups, and paths, by keyed hashes in everything the run writes."""

    pseudonym_key: Path | None = None
    """File with the key of the hashes; made once in the user's configuration folder if not given."""
