"""Mended table of a set of images: what ``images check --mend`` writes for the next command.

One person's ids that differ by their form alone become one id (`memorisk.images.identity.look_alikes`), and images that
cannot be used are left out. Which of two labels, patients or splits of a copy is right, no rule can decide: such images
stay.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from memorisk.images.identity import LOOK_ALIKES, look_alikes
from memorisk.images.manifest import BUILTIN, Manifest
from memorisk.images.set_check.check import DOUBTS, ImageCheck
from memorisk.images.sources.overlap import refuse_overlap
from memorisk.report.columns import column_texts, rows
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import atomic_path

SUFFIX = ".csv"
_MENDED = ("unreadable", "not read", "empty")
"""Kinds of problems that the table does not have."""


@dataclass(frozen=True)
class Mending:
    """Mended table, and what was mended."""

    table: pd.DataFrame
    """Rows of the manifest, with absolute paths."""
    merged: tuple[tuple[str, ...], ...]
    """Ids that became one, each time the chosen one first."""
    n_left_out: int
    """Number of images that are left out."""
    undecided: dict[str, int]
    """Number of problems of each kind that only a person can decide."""

    @property
    def next_command(self) -> str:
        """Name the command that takes the table, without the table: the check again, or an audit."""
        if self.undecided:
            return "images check"
        return "audit classifier" if any(column_texts(self.table, "label")) else "audit synthetic"


def mend(manifest: Manifest, check: ImageCheck) -> Mending:
    """Mend what a rule can mend.

    Args:
        manifest: Manifest of the images.
        check: Check of these images.
    """
    unusable = {*check.unreadable["image"], *check.empty["image"]}
    usable = [image not in unusable for image in manifest.images]
    table = rows(manifest.table, usable).reset_index(drop=True)
    n_images = Counter(table["group"].tolist())
    merged = tuple(
        tuple(sorted(alike, key=lambda name: (-n_images[name], name)))
        for alike in look_alikes(manifest.patients & set(n_images))
    )
    chosen = {name: alike[0] for alike in merged for name in alike}
    root = Path() if manifest.root is None else manifest.root.absolute()
    paths = [path if path.startswith(BUILTIN) else str(root / path) for path in table["path"]]
    table = table.assign(path=paths, group=[chosen.get(name, name) for name in table["group"]])
    problems = check.problems | {DOUBTS: sum(doubt.code != LOOK_ALIKES for doubt in check.id_doubts)}
    undecided = {what: n for what, n in problems.items() if n and what not in _MENDED}
    return Mending(table, merged, len(unusable), undecided)


def refuse_place(file: Path, source: str) -> None:
    """Refuse a file that exists, has no name of a table, or lies among the images.

    Args:
        file: File to write.
        source: Source of the images.

    Raises:
        InputError: The table cannot be written there.
    """
    if file.suffix.lower() != SUFFIX:
        raise InputError(f"--mend {one_line(file)}: name a new file that ends in {SUFFIX}")
    if file.exists() or file.is_symlink():
        raise InputError(f"--mend {one_line(file)} exists: name a new file")
    if not file.parent.is_dir():
        raise InputError(f"--mend {one_line(file)}: the folder {one_line(file.parent)} does not exist")
    refuse_overlap(file, {"the images": source}, called="--mend")


def write_mended(mending: Mending, file: Path) -> None:
    """Write the table, readable for its owner alone.

    Args:
        mending: Mended table.
        file: File that `refuse_place` accepted.
    """
    with atomic_path(file) as temporary:
        mending.table.to_csv(temporary, index=False, encoding="utf-8")
