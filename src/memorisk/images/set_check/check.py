"""Check whether a set of images is fit to be audited, before any GPU hour is spent.

Unreadable, empty and duplicated images; copies across labels, splits or groups; groups across given splits; classes
too small to split; sizes. *Problems* make an audit wrong (a patient in training and test, one image under two labels)
or stop it; *remarks* are only listed.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.images.copies.duplicates import equal_sets, linked_groups
from memorisk.images.copies.near_copies import CopyRule, NearCopies, copy_rule, near_copies
from memorisk.images.file_hashes import content_fingerprints
from memorisk.images.identity import IdDoubt
from memorisk.images.manifest import Manifest, leaking_groups
from memorisk.images.options import ImageOptions
from memorisk.images.pixels import FEW_LEVELS, PixelRule, Scan, ScanJob, scan_rows
from memorisk.images.readers.headers import uncovered_frames
from memorisk.images.set_check.text import render_text
from memorisk.images.sources.registry import load_manifest
from memorisk.images.splits import small_classes
from memorisk.images.store import manifest_sources
from memorisk.images.store_writer import process_count, row_blocks
from memorisk.runs.executors.pool import prepare_workers, run_jobs
from memorisk.runs.files import json_value
from memorisk.runs.settings import named_settings, takes_settings
from memorisk.runs.workload import CountProgress

ROLES = ("label", "group", "split")
"""Columns in which copies of one image may differ."""
DOUBTS = "doubts about whose images these are"
"""Kind of problems that prevents every pass."""


@dataclass(frozen=True)
class ImageCheck:
    """Result of the check of a set of images.

    Attributes:
        name: Name of the source.
        n: Number of images.
        notes: Assumptions made when the source was read.
        id_doubts: Doubts about the identity of people.
        near_rule: Rule by which images count as nearly the same, learned from this set: the least similarity, and how
            often two different people would be called one (`near_copies`).
        unreadable: Table ``image, path, reason`` of images that cannot be read.
        not_read: Table ``path, reason`` of files and rows that may hold images and are not among the ``n``.
        empty: Table ``image, path, label, group, split`` of images in which every pixel is the same.
        few_levels: Table ``image, path, label, group, split, levels`` of images that span fewer than `FEW_LEVELS` of
            256 grey levels and are not empty.
        duplicates: Table of images with equal pixels, one row per image: ``copy`` (number of the set), ``kind``
            ("bytes" where all files of the set are equal, else "pixels"), ``image, path, label, group, split`` and
            ``across`` (those of label, group and split that differ within the set, joined by ", ").
        near: Table of pairs that look alike in a thumbnail, most similar first: ``image_a, image_b, similarity, fine``
            (correlation of fine details as stored), ``confirmed`` (nearly the same as stored, too), both labels,
            groups and splits, and ``across``. Of images with equal pixels only the first takes part.
        near_found: Number of pairs that look alike; more than rows where the list was cut.
        crossing_groups: Table ``group, splits, images`` of groups with images in several of the given splits.
        classes: Table ``label, images, share, groups, largest_group, auditable``; "" means images without a label.
        groups: Table ``group, images, labels`` with the number of images and labels of each group.
        splits: Table ``split, images, groups``; empty where the source gives no splits.
        split_copies: Table ``split, also_in, images``: number of images of a given split that have an equal one in
            another split; within one split, the number of images beyond the first of their kind.
        sizes: Table ``height, width, colour, images`` with the number of images of each size; of volumes also
            ``depth``.
        frames_left: Table ``path, frames`` with the frames, pages and slices of a file that are not among the images.
        linked: Pairs of groups that hold an equal image; `splits.split_by_group` keeps them together.
        pixel_hashes: Hash of each image's pixels as they are stored, [n]; empty where they show nothing.
    """

    name: str
    n: int
    notes: tuple[str, ...]
    id_doubts: tuple[IdDoubt, ...]
    near_rule: CopyRule
    unreadable: pd.DataFrame
    not_read: pd.DataFrame
    empty: pd.DataFrame
    few_levels: pd.DataFrame
    duplicates: pd.DataFrame
    near: pd.DataFrame
    near_found: int
    crossing_groups: pd.DataFrame
    classes: pd.DataFrame
    groups: pd.DataFrame
    splits: pd.DataFrame
    split_copies: pd.DataFrame
    sizes: pd.DataFrame
    frames_left: pd.DataFrame
    linked: list[tuple[str, str]]
    pixel_hashes: np.ndarray

    @property
    def ok(self) -> bool:
        """Return whether the set has no problem; pairs nearly the same across groups alone are only a remark."""
        return not any(self.problems.values())

    @property
    def problems(self) -> dict[str, int]:
        """Count the problems of each kind."""
        copies = dict(zip(self.duplicates["copy"], self.duplicates["across"], strict=True)).values()
        near = self.near.loc[self.near["confirmed"].astype(bool), "across"].tolist()
        return {
            "unreadable": len(self.unreadable),
            "not read": len(self.not_read),
            "empty": len(self.empty),
            DOUBTS: len(self.id_doubts),
            "groups across splits": len(self.crossing_groups),
            **{f"sets of equal images across {what}s": _count(copies, what) for what in ROLES},
            **{f"pairs nearly the same across {what}s": _count(near, what) for what in ("label", "split")},
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the whole check in JSON's own types, tables as lists of records."""
        tables = {name: value for name, value in vars(self).items() if isinstance(value, pd.DataFrame)}
        records = {name: table.astype(object).to_dict("records") for name, table in tables.items()}
        return self.summary() | json_value({**records, "linked": self.linked})

    def summary(self) -> dict[str, Any]:
        """Return name, counts, problems, notes and the rule of near copies, in JSON's own types."""
        return json_value(
            {
                "name": self.name,
                "ok": self.ok,
                "images": self.n,
                "problems": self.problems,
                "notes": (*self.notes, *(doubt.words for doubt in self.id_doubts)),
                "near_threshold": self.near_rule.chance.similarity,
                "near_expected": self.near_rule.chance.expected,
                "near_rate": self.near_rule.chance.rate,
                "near_rule": self.near_rule.words,
                "near_found": self.near_found,
            }
        )


@takes_settings(ImageOptions)
def check_images(
    source: str | Path | Manifest,
    options: ImageOptions | None = None,
    *,
    turned: bool = False,
    near: float | None = None,
    fractions: tuple[float, float, float] = (0.7, 0.15, 0.15),
    processes: int | None = None,
    progress: CountProgress | None = None,
    **settings: Any,
) -> ImageCheck:
    """Read every image once and compare all pairs.

    Args:
        source: Source as `load_manifest` takes it, or a manifest.
        options: Options of finding and reading; ``size`` plays no part, since pixels are compared as they are.
        turned: Whether quarter turns and flips are found as well.
        near: Least correlation of thumbnails of near copies; None learns it from the set.
        fractions: Shares of the split that classes must be large enough for.
        processes: Number of processes that decode; by default the number of cores that this process may use.
        progress: Function called with the number of images done and the number of all.
        **settings: Values of fields of ``ImageOptions``, in place of those of ``options``.

    Returns:
        Result of the check.

    Raises:
        InputError: The source cannot be read, or a setting does not exist.
    """
    options = replace(options or ImageOptions(), **named_settings(ImageOptions, settings))
    options.validate()
    manifest = source if isinstance(source, Manifest) else load_manifest(source, options)
    prepare_workers("memorisk.images.pixels")
    scan, contents = _scan(manifest, options, processes, progress)
    hashes = np.array(scan.pixel_hash, dtype=object)
    empty = np.array(scan.empty)
    comparable = (hashes != "") & ~empty  # black images do not count as copies of one another
    hashes = np.where(comparable, hashes, "")
    described = described_images(manifest)
    first_of_set = comparable.copy()
    for rows in equal_sets(hashes):
        first_of_set[rows[1:]] = False
    candidates = np.flatnonzero(first_of_set)
    small, sources, reader = scan.thumbnails[candidates], manifest_sources(manifest), PixelRule.of(options)

    def read(row: int) -> np.ndarray:
        """Read the pixels of a candidate."""
        return reader.read(sources[candidates[row]])

    rule = copy_rule(
        small,
        manifest.groups[candidates].astype(str),
        read,
        laid="turned" if turned else "upright",
        ids_given=manifest.groups_given,
    )
    if near is not None:
        rule = replace(rule, chance=replace(rule.chance, similarity=near, given=True, expected=math.nan, why=""))
    pairs = near_copies(small, rule, read)
    bad = np.array([reason != "" for reason in scan.reason])
    unreadable = described.iloc[np.flatnonzero(bad)][["image", "path"]].assign(reason=[r for r in scan.reason if r])
    return ImageCheck(
        name=manifest.name,
        n=manifest.n,
        notes=manifest.notes,
        id_doubts=manifest.id_doubts,
        near_rule=rule,
        unreadable=unreadable.reset_index(drop=True),
        not_read=manifest.unread.reset_index(drop=True),
        empty=described.iloc[np.flatnonzero(empty)].reset_index(drop=True),
        few_levels=_few_levels(described, scan),
        duplicates=_duplicates(described, hashes, contents),
        near=_near(described, candidates, pairs),
        near_found=pairs.n_pairs,
        crossing_groups=_crossing_groups(manifest),
        classes=_classes(manifest, fractions),
        groups=_groups(manifest),
        splits=_splits(manifest),
        split_copies=_split_copies(described["split"].to_numpy(), hashes),
        sizes=_sizes(scan),
        frames_left=_frames_left(manifest, options.slice_plane),
        linked=linked_groups(hashes, manifest.groups),
        pixel_hashes=hashes,
    )


def _scan(
    manifest: Manifest, options: ImageOptions, processes: int | None, progress: CountProgress | None
) -> tuple[Scan, list[tuple]]:
    """Scan each image, and describe its bytes by `Source.content`."""
    sources = manifest_sources(manifest)
    workers = process_count(processes, sources)
    files = dict.fromkeys(file for source in sources for file in source.files)
    prints = content_fingerprints(list(files), None, processes=workers)
    rule = PixelRule.of(options)
    blocks = row_blocks(len(sources))
    done = 0

    def count(outcome) -> None:
        """Count the images of a finished job."""
        nonlocal done
        if outcome.value is not None:
            done += len(outcome.value.reason)
        if progress:
            progress(done, manifest.n)

    jobs = [ScanJob(sources[first:end], rule) for first, end in blocks]
    scans: list[Scan] = run_jobs(scan_rows, jobs, processes=workers, on_done=count)
    columns = ("reason", "height", "width", "depth", "grey", "empty", "levels", "pixel_hash")
    joined = {name: [value for scan in scans for value in getattr(scan, name)] for name in columns}
    scan = Scan(**joined, thumbnails=np.concatenate([scan.thumbnails for scan in scans]))
    return scan, [tuple(source.content(prints)) for source in sources]


def _few_levels(described: pd.DataFrame, scan: Scan) -> pd.DataFrame:
    levels = np.array(scan.levels)
    rows = np.flatnonzero((levels > 0) & (levels < FEW_LEVELS) & ~np.array(scan.empty))
    return described.iloc[rows].reset_index(drop=True).assign(levels=levels[rows])


def described_images(manifest: Manifest) -> pd.DataFrame:
    """Tabulate ``image, path, label, group, split`` of a manifest; "" for images without a split."""
    table = manifest.table[["image", "path", "label", "group"]].reset_index(drop=True)
    splits = manifest.splits
    return table.assign(split="" if splits is None else splits)


def crossed_roles(rows: pd.DataFrame) -> str:
    """Name the roles in which copies of one image differ; rows without a split do not count for the split."""
    return ", ".join(what for what in ROLES if len(set(rows[what]) - ({""} if what == "split" else set())) > 1)


def _count(across: Iterable[str], what: str) -> int:
    return sum(what in text.split(", ") for text in across)


def _duplicates(described: pd.DataFrame, hashes: np.ndarray, contents: list[tuple]) -> pd.DataFrame:
    tables = []
    for number, rows in enumerate(equal_sets(hashes), start=1):
        same = described.iloc[rows]
        kind = "bytes" if len({contents[row] for row in rows}) == 1 else "pixels"
        tables.append(same.assign(copy=number, kind=kind, across=crossed_roles(same)))
    columns = ["copy", "kind", *described.columns, "across"]
    return pd.concat(tables, ignore_index=True).reindex(columns=columns) if tables else pd.DataFrame(columns=columns)


def _near(described: pd.DataFrame, candidates: np.ndarray, pairs: NearCopies) -> pd.DataFrame:
    sides = [described.iloc[candidates[rows]].reset_index(drop=True) for rows in (pairs.first, pairs.second)]
    table = pd.DataFrame(
        {
            "image_a": sides[0]["image"],
            "image_b": sides[1]["image"],
            "similarity": pairs.similarity,
            "fine": [None if np.isnan(value) else float(value) for value in pairs.fine],
            "confirmed": pairs.confirmed,
        }
    )
    differs = {}
    for what in ROLES:
        a, b = (side[what] for side in sides)
        table[f"{what}_a"], table[f"{what}_b"] = a, b
        comparable = (a != "") & (b != "") if what == "split" else np.ones(len(a), dtype=bool)
        differs[what] = ((a != b) & comparable).to_numpy()
    table["across"] = [", ".join(what for what in ROLES if differs[what][i]) for i in range(len(table))]
    return table


def _crossing_groups(manifest: Manifest) -> pd.DataFrame:
    leaking = leaking_groups(manifest)
    images = Counter(manifest.groups.tolist())
    rows = [(group, ", ".join(splits), images[group]) for group, splits in leaking.items()]
    return pd.DataFrame(rows, columns=["group", "splits", "images"])


def _classes(manifest: Manifest, fractions: tuple[float, float, float]) -> pd.DataFrame:
    small = set(small_classes(manifest.labels, manifest.groups, fractions=fractions))
    held: dict[str, Counter[str]] = {}
    for joined, group in zip(manifest.labels, manifest.groups, strict=True):
        for label in joined.split("|"):
            held.setdefault(label, Counter())[group] += 1
    rows = [
        (label, n := sum(of.values()), n / manifest.n, len(of), max(of.values()), bool(label) and label not in small)
        for label, of in sorted(held.items())
    ]
    return pd.DataFrame(rows, columns=["label", "images", "share", "groups", "largest_group", "auditable"])


def _groups(manifest: Manifest) -> pd.DataFrame:
    images = Counter(manifest.groups.tolist())
    labels = Counter(group for group, _ in set(zip(manifest.groups, manifest.labels, strict=True)))
    rows = [(group, images[group], labels[group]) for group in sorted(images)]
    return pd.DataFrame(rows, columns=["group", "images", "labels"])


def _splits(manifest: Manifest) -> pd.DataFrame:
    splits = [] if manifest.splits is None else manifest.splits.tolist()
    images = Counter(splits)
    groups = Counter(split for split, _ in set(zip(splits, manifest.groups, strict=False)))
    rows = [(split, images[split], groups[split]) for split in sorted(images) if split]
    return pd.DataFrame(rows, columns=["split", "images", "groups"])


def _split_copies(splits: np.ndarray, hashes: np.ndarray) -> pd.DataFrame:
    counted: Counter[tuple[str, str]] = Counter()
    for rows in equal_sets(hashes):
        held = Counter(split for split in splits[rows] if split)
        for one, n in held.items():
            counted.update({(one, other): n - (one == other) for other in held})
    rows = [(*pair, n) for pair, n in sorted(counted.items()) if n]
    return pd.DataFrame(rows, columns=["split", "also_in", "images"])


def _sizes(scan: Scan) -> pd.DataFrame:
    sizes = zip(scan.height, scan.width, (not grey for grey in scan.grey), scan.depth, strict=True)
    counted = Counter(size for size in sizes if size[0])
    rows = [(*size, n) for size, n in sorted(counted.items(), key=lambda item: (-item[1], item[0]))]
    table = pd.DataFrame(rows, columns=["height", "width", "colour", "depth", "images"])
    return table if max(scan.depth, default=1) > 1 else table.drop(columns="depth")


def _frames_left(manifest: Manifest, plane: str) -> pd.DataFrame:
    """Count the frames, pages and slices of each file that are not among the images."""
    return pd.DataFrame(list(uncovered_frames(manifest, plane).items()), columns=["path", "frames"])


__all__ = ["ROLES", "ImageCheck", "check_images", "crossed_roles", "described_images", "render_text"]
