"""The manifest: a table with a row for each image, which every audit starts from.

Columns, all text but ``frame``: ``image`` (unique id), ``path`` (relative to the root), ``label`` (empty where
there is none; several findings joined by ``|``), ``group`` (patient, lesion, video; an image without one is its
own), and where they apply ``split`` (given by the source), ``dataset``, ``member`` (array in the file, or plane of
a volume) and ``frame`` (index in a stack, missing for the reader's own rule). Other columns of the source are kept;
one that has a name of these is kept as ``user_<name>``. Ids, labels and paths are data: any text that UTF-8 can
hold.
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.images.wording import listed
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import read_table, write_table

REQUIRED = ("image", "path", "label", "group")
RESERVED = (*REQUIRED, "split", "dataset", "member", "frame")
BUILTIN = "builtin:"
TEXT = "text and no image"
NO_PICTURE = "no picture of a patient"
LINKED = "a link to a folder that is listed where it lies"
HIDDEN = "hidden, or left by an operating system"


def _no_skipped() -> pd.DataFrame:
    return pd.DataFrame({"path": pd.Series(dtype=object), "reason": pd.Series(dtype=object)})


@dataclass(frozen=True)
class Manifest:
    """A row for each image, and where the files are."""

    table: pd.DataFrame
    """One row per image; the columns are described above."""
    root: Path | None
    """Folder that paths are relative to; None for built-in images."""
    name: str
    """Short name of the source, for reports."""
    notes: tuple[str, ...] = ()
    """What was assumed or left out when the source was read, one sentence each."""
    skipped: pd.DataFrame = field(default_factory=_no_skipped)
    """Files and rows left out: columns ``path``, ``reason``. See `unread` for those that may have been images."""
    n_not_sampled: int = 0
    """Images that a sample left out."""

    @property
    def n(self) -> int:
        """Number of images."""
        return len(self.table)

    @property
    def unread(self) -> pd.DataFrame:
        """What of ``skipped`` may hold images: no text, DICOM plan or hidden file, nothing that is read elsewhere."""
        reasons = self.skipped["reason"].astype(str)
        known = (reasons.isin([TEXT, LINKED, HIDDEN]) | reasons.str.startswith(NO_PICTURE)).to_numpy()
        return self.skipped.take(np.flatnonzero(~known))

    @property
    def images(self) -> np.ndarray:
        """Ids, object array of str [n]."""
        return self._texts("image")

    @property
    def labels(self) -> np.ndarray:
        """Labels, object array of str [n]; empty where an image has none."""
        return self._texts("label")

    @property
    def groups(self) -> np.ndarray:
        """Groups, object array of str [n]."""
        return self._texts("group")

    @property
    def groups_given(self) -> bool:
        """Whether the source says whose each image is; without that every image is its own group."""
        return bool((self.groups != self.images).any())

    @property
    def splits(self) -> np.ndarray | None:
        """Given splits, object array of str [n] (empty where a row has none), or None where the source gives none."""
        return self._texts("split") if "split" in self.table else None

    @property
    def classes(self) -> list[str]:
        """The labels that occur, sorted; images without a label do not count."""
        return sorted(set(self.labels) - {""})

    def file(self, row: int) -> str:
        """Path of the file of one row, to be opened as it is (or the name of built-in images)."""
        path = str(self.table["path"].iloc[row])
        return path if self.root is None or path.startswith(BUILTIN) else os.path.join(self.root, path)  # noqa: PTH118

    def subset(self, rows: np.ndarray | Sequence[int]) -> "Manifest":
        """The manifest of some rows, by boolean mask [n] or by index, in that order."""
        chosen = np.asarray(rows)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.intp)
        return replace(self, table=self.table.iloc[chosen].reset_index(drop=True))

    def save(self, path: str | Path) -> None:
        """Write the table as Parquet, atomically."""
        write_table(path, self.table)

    @classmethod
    def load(cls, path: str | Path, root: Path | None, name: str | None = None) -> "Manifest":
        """Read a table that :meth:`save` wrote; ``root`` says where the images are now."""
        manifest = cls(table=read_table(path), root=root, name=name or Path(path).stem)
        manifest.validate()
        return manifest

    def validate(self) -> None:
        """Check columns, types, ids and that there is an image.

        Raises:
            InputError: A column is missing or not text, an id is empty or given twice, or there is no row.
        """
        absent = [c for c in REQUIRED if c not in self.table]
        if absent:
            raise InputError(f"{one_line(self.name)}: the manifest lacks the column {listed(absent)}")
        if not self.n:
            raise InputError(f"{one_line(self.name)}: no images")
        for column in RESERVED[:-1]:
            if column in self.table:
                self._check_texts(column)
        ids = self.images
        if "" in ids:
            raise InputError(f"{one_line(self.name)}: row {ids.tolist().index('') + 1} has an empty image id")
        twice = [image for image, count in Counter(ids).items() if count > 1]
        if twice:
            raise InputError(
                f"{one_line(self.name)}: {len(twice):,} image ids occur more than once ({listed(twice)}); "
                "each image needs an id of its own"
            )

    def _texts(self, column: str) -> np.ndarray:
        return np.array(self.table[column].tolist(), dtype=object)

    def _check_texts(self, column: str) -> None:
        for row, value in enumerate(self.table[column].tolist()):
            if not isinstance(value, str):
                raise InputError(f"{one_line(self.name)}: {column} of row {row + 1} is {value!r}, not text")
            try:
                value.encode()
            except UnicodeEncodeError:
                raise InputError(
                    f"{one_line(self.name)}: {column} of row {row + 1} ({one_line(value)}) is not UTF-8; rename it"
                ) from None

    def __repr__(self) -> str:
        return f"Manifest({self.name!r}, {self.n:,} images, {len(self.classes)} classes)"


def require_labels(manifest: Manifest) -> None:
    """Refuse images without a label, for the questions that need one.

    Raises:
        InputError: Some images have no label; the first are listed.
    """
    missing = manifest.images[manifest.labels == ""]
    if len(missing):
        raise InputError(
            f"{one_line(manifest.name)}: {len(missing):,} of {manifest.n:,} images have no label ({listed(missing)}); "
            "put them in class folders, or give labels_csv, label_column or label_from"
        )


def leaking_groups(manifest: Manifest) -> dict[str, tuple[str, ...]]:
    """Groups with images in more than one given split, and in which: ``{group: (splits)}``, sorted by group."""
    if manifest.splits is None:
        return {}
    found: dict[str, set[str]] = {}
    for group, split in zip(manifest.groups, manifest.splits, strict=True):
        if split:
            found.setdefault(group, set()).add(split)
    return {group: tuple(sorted(found[group])) for group in sorted(found) if len(found[group]) > 1}


def refuse_leaking_splits(manifest: Manifest) -> None:
    """Refuse given splits that a group straddles: a patient in train and test makes every comparison of the two void.

    Raises:
        InputError: Groups straddle the splits; the first are listed.
    """
    leaking = leaking_groups(manifest)
    if leaking:
        pairs = [f"{group} in {' and '.join(splits)}" for group, splits in leaking.items()]
        raise InputError(
            f"{one_line(manifest.name)}: {len(leaking):,} groups are in more than one given split ({listed(pairs)}); "
            "split by group, or leave the split out"
        )
