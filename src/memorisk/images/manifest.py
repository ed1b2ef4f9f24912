"""The manifest: a table with one row per image, from which every audit starts, and its stratified samples.

Columns, all text but ``frame``: ``image`` (unique id), ``path`` (relative to the root), ``label`` (empty where
there is none; several findings joined by ``|``), ``group`` (patient, lesion, video; an image without a group is its
own group), and where they apply ``split`` (given by the source), ``dataset``, ``member`` (array in the file, or plane
of a volume) and ``frame`` (index in a stack; missing for the reader's own rule). The manifest keeps other columns of
the source; a column that has one of these names is kept as ``user_<name>``. Ids, labels and paths are data: any
text that UTF-8 can hold.

`sample_manifest` draws a smaller data set from a large one, stratified by class: paper 000, A.6, took 50,000 images
of ChestX-ray14. It draws images, as in the paper, and not patients: a patient may lose images, but the others keep
their group, so no patient lies on both sides of a split.
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.images.identity import (
    STUDY,
    IdDoubt,
    doubts_from_json,
    doubts_to_json,
    looks_missing,
    normal_id,
    study_doubts,
)
from memorisk.runs.errors import InputError, listed, one_line
from memorisk.runs.files import read_table, write_table

REQUIRED = ("image", "path", "label", "group")
RESERVED = (*REQUIRED, "split", "dataset", "member", "frame")
BUILTIN = "builtin:"
ALONE = " (alone)"
"""Suffix of the name of an image without a group where another image's group has that name."""
TEXT_FILE = "text and no image"
TABLE_FILE = "a table that was not read; if it describes the images, name it in place of the folder"
NO_PATIENT_PICTURE = "no picture of a patient"
LINKED_FOLDER = "a link to a folder that is listed where it lies"
DROPPED_LABEL = "its label is left out"
HIDDEN_FILE = "hidden, or left by an operating system, a network drive or an editor"


_DOUBTS = "id_doubts"
"""Key of the doubts in the attributes of a saved table."""
_STREAM = 31  # keeps the random stream of samples apart from those of splits, pairing and training


def split_doubts(table: pd.DataFrame) -> tuple[pd.DataFrame, tuple[IdDoubt, ...]]:
    """Separate a table from the doubts about the identity of people that `Manifest.save` noted in it.

    Raises:
        DamagedError: The doubts are damaged.
    """
    doubts = doubts_from_json(table.attrs.pop(_DOUBTS, ()))
    return table, doubts


def _no_skipped() -> pd.DataFrame:
    return pd.DataFrame({"path": pd.Series(dtype=object), "reason": pd.Series(dtype=object)})


@dataclass(frozen=True)
class Manifest:
    """Table with one row per image, and the place of the files."""

    table: pd.DataFrame
    """Table with one row per image; the columns are described above."""
    root: Path | None
    """Folder that paths are relative to; None for built-in images."""
    name: str
    """Short name of the source, for reports."""
    notes: tuple[str, ...] = ()
    """Assumptions and omissions when the source was read, one sentence each."""
    skipped: pd.DataFrame = field(default_factory=_no_skipped)
    """Files and rows left out: columns ``path``, ``reason``. See `unread` for those that may have been images."""
    n_not_sampled: int = 0
    """Number of images that a sample left out."""
    id_doubts: tuple[IdDoubt, ...] = ()
    """Doubts about the identity of people, which prevent a pass; notes do not repeat them, since they name ids."""
    labels_left_out: str = ""
    """Reason why the labels of the source were left out, in words without ids; empty where none were."""

    @property
    def n(self) -> int:
        """Return the number of images."""
        return len(self.table)

    @property
    def unread(self) -> pd.DataFrame:
        """List the ``skipped`` files that may hold images: no text, DICOM plan, hidden or read elsewhere, dropped."""
        return self._skipped_except(TEXT_FILE, TABLE_FILE, LINKED_FOLDER, HIDDEN_FILE, DROPPED_LABEL)

    @property
    def not_compared(self) -> pd.DataFrame:
        """List the ``skipped`` files that may show people: `unread`, and images whose label is dropped."""
        return self._skipped_except(TEXT_FILE, TABLE_FILE, LINKED_FOLDER, HIDDEN_FILE)

    @property
    def tables_hint(self) -> str:
        """Return the end of a refusal for want of labels: the tables that may hold them; empty without one."""
        tables = self.skipped["path"].to_numpy()[(self.skipped["reason"] == TABLE_FILE).to_numpy()].tolist()
        return f"; {listed(tables, 3)} may hold them: name the table in place of the folder" if tables else ""

    @property
    def images(self) -> np.ndarray:
        """Return the ids, object array of str [n]."""
        return self._texts("image")

    @property
    def labels(self) -> np.ndarray:
        """Return the labels, object array of str [n]; empty where an image has none."""
        return self._texts("label")

    @property
    def groups(self) -> np.ndarray:
        """Return the groups, object array of str [n]."""
        return self._texts("group")

    @property
    def patients(self) -> set[str]:
        """Return the ids of groups; an image whose group is its own name has none."""
        rows = zip(self.groups, self.images, strict=True)
        return {group for group, image in rows if group not in (image, f"{image}{ALONE}")}

    @property
    def groups_given(self) -> bool:
        """Return whether the source gives the group of images; otherwise every image is its own group."""
        return bool((self.groups != self.images).any())

    @property
    def n_without_group(self) -> int:
        """Count the images without a given group: their group is their own name, or the file's name for frames."""
        images = self.images
        if "frame" in self.table:
            images = np.array([name.rpartition("#")[0] if "#" in name else name for name in images], dtype=object)
        own = (self.groups == self.images) | (self.groups == images)
        return int((own | (self.groups == self.images + ALONE) | (self.groups == images + ALONE)).sum())

    @property
    def splits(self) -> np.ndarray | None:
        """Return the given splits, object array of str [n] (empty where a row has none); None without any."""
        return self._texts("split") if "split" in self.table else None

    @property
    def classes(self) -> list[str]:
        """Return the labels that occur, sorted; images without a label do not count."""
        return sorted(set(self.labels) - {""})

    def file(self, row: int) -> str:
        """Return the path of the file of one row, to be opened as it is (or the name of built-in images)."""
        path = str(self.table["path"].iloc[row])
        return path if self.root is None or path.startswith(BUILTIN) else os.path.join(self.root, path)  # noqa: PTH118

    def subset(self, rows: np.ndarray | Sequence[int]) -> "Manifest":
        """Return the manifest of some rows, by boolean mask [n] or by index, in that order."""
        chosen = np.asarray(rows)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.intp)
        return replace(self, table=self.table.iloc[chosen].reset_index(drop=True))

    @property
    def studies(self) -> np.ndarray:
        """Return the studies, object array of str [n]; empty where the source knows none."""
        studies = self.table[STUDY].tolist() if STUDY in self.table else [""] * self.n
        return np.array([study if isinstance(study, str) else "" for study in studies], dtype=object)

    def save(self, path: str | Path, **columns: Any) -> None:
        """Write the table as Parquet, atomically, with the doubts about identity and a record of its checksum.

        Args:
            path: Path of the file.
            **columns: Further columns, [n] each, or others in place of the manifest's own.
        """
        table = self.table.assign(**columns)
        if self.id_doubts:
            table.attrs[_DOUBTS] = doubts_to_json(self.id_doubts)
        write_table(path, table, recorded=True)

    @classmethod
    def load(cls, path: str | Path, root: Path | None, name: str | None = None) -> "Manifest":
        """Read a table that :meth:`save` wrote; ``root`` is the folder where the images are now."""
        table, doubts = split_doubts(read_table(path))
        manifest = cls(table=table, root=root, name=name or Path(path).stem, id_doubts=doubts)
        manifest.validate()
        return manifest

    def validate(self) -> None:
        """Check columns, types, ids and that the manifest has an image.

        Raises:
            InputError: A column is missing or not text, an id is empty or given twice, or the table has no rows.
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

    def _skipped_except(self, *explained: str) -> pd.DataFrame:
        """Return the rows of ``skipped`` for other reasons than these, and than files without a patient's picture."""
        reasons = self.skipped["reason"].astype(str)
        out = reasons.isin(explained) | reasons.str.startswith(NO_PATIENT_PICTURE)
        return self.skipped.take(np.flatnonzero(~out.to_numpy()))

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


def shared_study_doubts(one: Manifest, other: Manifest) -> list[IdDoubt]:
    """Doubt the ids of two sources that have images of one study under different ids.

    Args:
        one: Manifest of one source.
        other: Manifest of the other source.
    """
    both = set(one.studies) & set(other.studies) - {""}
    studies, groups = np.concatenate([one.studies, other.studies]), np.concatenate([one.groups, other.groups])
    rows = np.flatnonzero([study in both for study in studies])
    return study_doubts(studies[rows].tolist(), groups[rows].tolist())


def drop_labels(manifest: Manifest, dropped: Sequence[str]) -> Manifest:
    """Leave out labels without a meaning, and images with no other label; note labels that look meaningless.

    Args:
        manifest: Manifest of all images.
        dropped: Labels to drop; a label that no image has is refused.

    Raises:
        InputError: No image has such a label, or no image is left.
    """
    held = Counter(part for joined in manifest.labels for part in joined.split("|"))
    dropped = [normal_id(label) for label in dropped]
    if absent := [label for label in dropped if label not in held]:
        raise InputError(
            f"drop_label {one_line(absent[0], 60)}: no image has this label; those there are: "
            f"{listed(sorted(label for label in held if label), 8)}"
        )
    labels = ["|".join(part for part in joined.split("|") if part not in dropped) for joined in manifest.labels]
    out = [
        not remaining and (joined != "" or "" in dropped)
        for joined, remaining in zip(manifest.labels, labels, strict=True)
    ]
    notes = list(manifest.notes)
    if dropped:
        gone = manifest.table["path"].to_numpy()[out]
        if len(gone) == manifest.n:
            raise InputError("drop_label leaves out every image: name the labels that say nothing, and no others")
        skipped = pd.DataFrame({"path": gone, "reason": DROPPED_LABEL}, dtype=object)
        manifest = replace(
            manifest,
            table=manifest.table.assign(label=labels).loc[~np.array(out)].reset_index(drop=True),
            skipped=pd.concat([manifest.skipped, skipped], ignore_index=True),
        )
        notes.append(f"{len(gone):,} images are left out: they have no label but {listed(dropped, 8)}.")
    notes += [
        f"{n:,} images have the label {one_line(label, 60)}, which looks like none and counts as a class; "
        f"--drop-label {one_line(label, 60)} leaves them out."
        for label, n in held.items()
        if label not in dropped and looks_missing(label)
    ]
    return replace(manifest, notes=tuple(notes))


def require_labels(manifest: Manifest) -> None:
    """Refuse images without a label, for the questions that need one.

    Raises:
        InputError: Some images have no label; the first are listed.
    """
    missing = manifest.images[manifest.labels == ""]
    if len(missing) and manifest.labels_left_out:
        raise InputError(f"{one_line(manifest.name)}: no image has a label: {manifest.labels_left_out}")
    others = [str(column) for column in manifest.table.columns if column not in RESERVED]
    columns = f" (one of {listed(others, 8)})" if others else ""
    if len(missing):
        raise InputError(
            f"{one_line(manifest.name)}: {len(missing):,} of {manifest.n:,} images have no label ({listed(missing)}); "
            + (
                f"put them in class folders, or give labels_csv, label_column{columns} or label_from"
                if len(missing) == manifest.n
                else "give them one, or leave them out with drop_label '' (an empty label)"
            )
            + manifest.tables_hint
        )


def leaking_groups(manifest: Manifest, groups: np.ndarray | None = None) -> dict[str, tuple[str, ...]]:
    """Find the groups with images in several given splits, as ``{group: (splits)}`` sorted by group.

    Args:
        manifest: Manifest of the images.
        groups: Group of each image, [N]; None for the groups of the manifest.
    """
    if manifest.splits is None:
        return {}
    splits_of: dict[str, set[str]] = {}
    for group, split in zip(manifest.groups if groups is None else groups, manifest.splits, strict=True):
        if split:
            splits_of.setdefault(group, set()).add(split)
    return {group: tuple(sorted(splits_of[group])) for group in sorted(splits_of) if len(splits_of[group]) > 1}


def refuse_leaking_splits(manifest: Manifest, merged: np.ndarray | None = None) -> None:
    """Refuse given splits that a group straddles: a patient in train and test makes every comparison of the two void.

    Args:
        manifest: Manifest of the images.
        merged: Group of each image, [N], with groups that share an identical image merged; None without known pixels.

    Raises:
        InputError: Groups straddle the splits, or groups that share an image do; the first are listed.
    """
    leaking = leaking_groups(manifest)
    if leaking:
        pairs = [f"{group} in {' and '.join(splits)}" for group, splits in leaking.items()]
        raise InputError(
            f"{one_line(manifest.name)}: {len(leaking):,} groups are in more than one given split ({listed(pairs)}); "
            "split by group, or leave the split out"
        )
    shared = {} if merged is None else leaking_groups(manifest, merged)
    if shared and merged is not None:
        rows = zip(merged, manifest.groups, manifest.splits if manifest.splits is not None else (), strict=True)
        held = sorted({(one, f"{group} in {split}") for one, group, split in rows if one in shared and split})
        sets = [" and ".join(text for one, text in held if one == group) for group in shared]
        raise InputError(
            f"{one_line(manifest.name)}: identical images are in more than one given split under several groups "
            f"({listed(sets)}; memorisk images check names the images): leave all but one of them out, or give these "
            "groups one id and one split, or leave the split out"
        )


def sample_sizes(counts: np.ndarray, n: int) -> np.ndarray:
    """Compute the images to draw of each class: proportional shares, rounded by largest remainders to add up to n.

    ``sizes_c = floor(n counts_c / N)``, and one more for the classes with the largest remainders (the first of equal
    ones), until ``sum(sizes) = n``; hence ``|sizes_c - n counts_c / N| < 1`` and ``sizes_c <= counts_c``.

    Args:
        counts: Number of images of each class, whole numbers [k], N in all.
        n: Number of images to draw, at most N.

    Returns:
        Number of images to draw of each class, whole numbers [k].

    Raises:
        InputError: n is negative or larger than N.
    """
    counts = np.asarray(counts, dtype=np.int64)
    total = int(counts.sum())
    if not 0 <= n <= total:
        raise InputError(f"a sample of {n:,} cannot be drawn from {total:,} images")
    products = [n * int(count) for count in counts]  # exact: Python's whole numbers do not overflow
    sizes = np.array([product // total for product in products], dtype=np.int64)
    remainders = [product % total for product in products]
    order = sorted(range(len(products)), key=lambda c: -remainders[c])
    sizes[order[: n - int(sizes.sum())]] += 1
    return sizes


def sample_manifest(manifest: Manifest, n: int, seed: int = 0) -> Manifest:
    """Draw a random sample of a manifest's images, stratified by (first-listed) label; its rows keep their order.

    The draw depends on the ids, the labels and the seed, not on the order of the rows. Classes keep their shares
    within one image (`sample_sizes`); a class whose share is below half an image may lose all of them, which is noted.

    Args:
        manifest: Manifest of the images; the first of several findings joined by ``|`` counts. Images without a label
            are a stratum.
        n: Number of images to draw; at or above the number of images, the manifest is returned with a note.
        seed: Seed that decides the draw.

    Returns:
        Manifest of the images drawn, with a note that states the rule.

    Raises:
        InputError: n is below 1.
    """
    if n < 1:
        raise InputError(f"sample is {n}; give a whole number of at least 1")
    if n >= manifest.n:
        note = f"All {manifest.n:,} images are kept: no more than the {n:,} of the requested sample."
        return replace(manifest, notes=(*manifest.notes, note))
    first = np.array([label.split("|", 1)[0] for label in manifest.labels], dtype=object)
    classes = sorted(set(first))
    counts = Counter(first)
    sizes = sample_sizes(np.array([counts[c] for c in classes]), n)
    by_id = np.argsort(manifest.images.astype(str), kind="stable")
    rng = np.random.default_rng([_STREAM, seed])
    drawn = [
        rng.choice(by_id[first[by_id] == c], size=size, replace=False) for c, size in zip(classes, sizes, strict=True)
    ]
    rows = np.sort(np.concatenate(drawn))
    lost = [c or "(no label)" for c, size in zip(classes, sizes, strict=True) if not size]
    gone = f" No image of {listed(lost)} was drawn." if lost else ""
    note = (
        f"Sample: {n:,} of {manifest.n:,} images, stratified by first-listed label, drawn by image with seed {seed}: "
        f"{_split_groups(manifest.groups, rows):,} groups lost some of their images, none is on both sides of a "
        f"split.{gone}"
    )
    sampled = manifest.subset(rows)
    return replace(sampled, notes=(*manifest.notes, note), n_not_sampled=manifest.n - n)


def _split_groups(groups: np.ndarray, rows: np.ndarray) -> int:
    """Count the groups that lost some images, but not all."""
    before, after = Counter(groups), Counter(groups[rows])
    return sum(after[group] < before[group] for group in after)
