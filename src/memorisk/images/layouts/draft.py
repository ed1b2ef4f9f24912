"""A manifest in the making: the rows of a source, with what the source knows about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from memorisk.images.identity import IdDoubt
from memorisk.images.manifest import RESERVED
from memorisk.images.readers.registry import Kind


@dataclass
class Draft:
    """Rows of a source before the shared steps."""

    table: pd.DataFrame
    """Table with columns image and path, any of label, group, split, dataset, member, frame, and the source's own."""
    root: Path
    name: str
    notes: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """Path and reason of each file or row that was left out."""
    group_from: str = ""
    """Source of the group column, in words."""
    group_fallback: str = ""
    """Option to suggest when that column is empty or the same everywhere."""
    kind: Kind | None = None
    """Kind of all files, where that is known; otherwise each file is examined."""
    called: list[str] | None = None
    """Texts in which patterns are searched, one for each row; None for the paths."""
    doubts: list[IdDoubt] = field(default_factory=list)
    """Doubts about the identity of people, including those of a manifest that was kept."""
    headers: dict[str, list[str]] = field(default_factory=dict)
    """Values of the DICOM tags of which a patient has one value, and of those that belong to one patient, by tag; each
    list is as long as the table."""
    finer: bool = False
    """Whether groups are smaller than patients, because the user named such a tag."""
    labels_from_folders: bool = False
    """Whether the label of an image is the name of its folder, by no word of the user."""
    labels_left_out: str = ""
    """Reason why labels were left out, in words; empty where none were."""
    names: dict[str, list[str]] = field(default_factory=dict)
    """Further names by which a table may call the rows, such as SOPInstanceUID; each list is as long as the table."""

    def skip(self, path: str, reason: str) -> None:
        """Note a file or row that is left out."""
        self.skipped.append((path, reason))


def keep_user_columns(table: pd.DataFrame, extra: Mapping[str, pd.Series]) -> pd.DataFrame:
    """Add a source's other columns to a draft's table, renamed ``user_<name>`` where the name is ours."""
    for name, values in extra.items():
        column_name = name
        while column_name in RESERVED or column_name in table:
            column_name = f"user_{column_name}"
        table[column_name] = values.array
    return table
