"""Features that are kept: computed once for a content, found again by it, resumable, atomic, private.

The folder ``features/KEY/`` lies next to the image stores. It holds ``values.npy`` [N, d] float32, ``rows.parquet``
(ids, groups, pixel hashes and the flaws of a row) and ``meta.json``. While it is built it is a hidden folder with a
journal that names every batch written to the array with its hash; a killed extraction continues from there. Images with
the same pixels are computed once, so that their features are the same to the last bit.

`check_values` finds the flaws of a matrix before anything is measured in it.
"""

import json
import logging
import os
import shutil
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.images.store import ImageStore
from memorisk.runs.arrays import JOURNAL, remove_abandoned, reserve_array, scratch_array, write_guard
from memorisk.runs.checksums import is_intact, write_record
from memorisk.runs.errors import InputError, listed, one_line, plural
from memorisk.runs.executors.worker import LifeSigns
from memorisk.runs.files import fingerprint, fsync_folder, read_array, read_json, read_table, write_json, write_table
from memorisk.runs.locks import PAUSE, folder_lock
from memorisk.runs.workload import CountProgress

_AT_ONCE = 1 << 22  # values
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class FeatureChecks:
    """Rows and columns that measures of distance cannot handle.

    Attributes:
        not_finite: Rows with a NaN or an infinity.
        constant_rows: Finite rows whose numbers are all the same (d > 1): correlation is undefined there, and cosine
            where they are zero.
        constant_columns: Columns with one value in all finite rows (of two at least): a standardised distance divides
            by their deviation, 0.
    """

    not_finite: np.ndarray
    constant_rows: np.ndarray
    constant_columns: np.ndarray

    def of_rows(self, rows: np.ndarray) -> "FeatureChecks":
        """Select the findings of chosen rows [n], by their places among these; columns stay as judged on all."""
        return replace(
            self,
            not_finite=np.flatnonzero(np.isin(rows, self.not_finite)),
            constant_rows=np.flatnonzero(np.isin(rows, self.constant_rows)),
        )

    def sentences(self, ids: np.ndarray, dimension: int) -> list[str]:
        """Write the notes for a report, one sentence each; none where all is well."""
        notes = []
        if n := len(self.not_finite):
            which = listed(ids[self.not_finite])
            notes.append(f"{plural(n, 'image has', 'images have')} features that are not finite ({which}).")
        if n := len(self.constant_rows):
            which = listed(ids[self.constant_rows])
            notes.append(f"{plural(n, 'image has', 'images have')} features that are all one number ({which}).")
        if n := len(self.constant_columns):
            notes.append(f"{n:,} of {dimension:,} features are the same for every image.")
        return notes


def check_values(values: np.ndarray, name: str, *, n_distinct: int | None = None) -> FeatureChecks:
    """Check a feature matrix, a few megabytes at a time.

    Args:
        values: Features, [N, d], perhaps on the disk.
        name: Name of the encoder that computed them.
        n_distinct: Number of images with different pixels, if known; a single one cannot give different features.

    Raises:
        InputError: No row is finite, or all finite rows are the same although images differ: to 1e-6 of the largest
            number.
    """
    n, d = values.shape
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    finite, constant = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    step = max(1, _AT_ONCE // max(d, 1))
    for start in range(0, n, step):
        block = np.asarray(values[start : start + step])
        good = np.isfinite(block).all(axis=1)
        finite[start : start + step] = good
        if d > 1:
            constant[start : start + step] = good & (block == block[:, :1]).all(axis=1)
        if good.any():
            low = np.minimum(low, block[good].min(axis=0))
            high = np.maximum(high, block[good].max(axis=0))
    shown_name, judged = one_line(name, 80), int(finite.sum())
    if not judged:
        raise InputError(f"features by {shown_name} are not finite for any of the {n:,} images")
    several = judged > 1 and (n_distinct is None or n_distinct > 1)
    if several and (high - low).max() <= _ROUNDING * max(np.abs(low).max(), np.abs(high).max()):
        raise InputError(f"features by {shown_name} are the same for all {judged:,} images: they carry no information")
    columns = np.flatnonzero(low == high) if several else np.empty(0, dtype=np.int64)
    return FeatureChecks(np.flatnonzero(~finite), np.flatnonzero(constant), columns)


Compute = Callable[[np.ndarray], Generator[np.ndarray]]
"""Function that yields features of these rows, a batch at a time."""

VALUES, ROWS, META = "values.npy", "rows.parquet", "meta.json"
STALL_SECONDS = 600.0
"""Time in seconds in which even a slow network completes a batch."""
_COPIED_AT_ONCE = 1 << 22  # values


@dataclass(frozen=True, kw_only=True)
class FeaturePlan:
    """Plan of a computation of features, and of the place where they are kept.

    Attributes:
        key: Name of the content.
        root: Folder of all kept features.
        name: Name of the encoder, for messages.
        rows: Table with one row per image: ``image, group, pixel_hash``.
        compute: Function that computes the features.
        meta: Function that returns the other entries of ``meta.json``; called when all is computed.
    """

    key: str
    root: Path
    name: str
    rows: pd.DataFrame
    compute: Compute
    meta: Callable[[], dict[str, Any]]

    @classmethod
    def of(
        cls,
        store: ImageStore,
        root: Path,
        name: str,
        content: Mapping[str, Any],
        compute: Compute,
        meta: Callable[[], dict[str, Any]],
    ) -> "FeaturePlan":
        """Plan a computation over a store: the key is the content of its images and whatever decides the values.

        Args:
            store: The images with their manifest.
            root: Folder of all kept features.
            name: Name of the encoder.
            content: Everything else that decides the values.
            compute: Function that computes the features.
            meta: Function that returns the other entries of ``meta.json``.
        """
        manifest, hashes = store.manifest, store.pixel_hashes
        columns = {"image": manifest.images, "group": manifest.groups, "pixel_hash": hashes}
        key, rows = fingerprint(content, hashes.tolist(), length=32), pd.DataFrame(columns, dtype=object)
        return cls(key=key, root=root, name=name, rows=rows, compute=compute, meta=meta)

    @property
    def folder(self) -> Path:
        """Return the folder of the finished features."""
        return self.root / self.key

    @property
    def building(self) -> Path:
        """Hidden folder of unfinished features."""
        return self.root / f".{self.key}.building"


@dataclass(frozen=True)
class CachedFeatures:
    """Features as they are kept.

    Attributes:
        values: Features, [N, d] float32; from the disk a read-only memory map.
        checks: Flaws that were found.
        meta: Content of ``meta.json``.
        n_distinct: Number of images with different pixels.
        computed: Number of images computed in this call; 0 where all were kept from before.
    """

    values: np.ndarray
    checks: FeatureChecks
    meta: dict[str, Any]
    n_distinct: int
    computed: int


def first_occurrences(pixel_hashes: np.ndarray) -> np.ndarray:
    """Find the first row with the same pixels as each row, [N]."""
    codes, _ = pd.factorize(np.asarray(pixel_hashes, dtype=object))
    _, first = np.unique(codes, return_index=True)
    return first[codes]


def cached_features(plan: FeaturePlan, *, progress: CountProgress | None = None) -> CachedFeatures:
    """Read the features of a plan from the cache, or compute and keep them. One process computes, others wait for it.

    A process that waits for one that makes no progress for `STALL_SECONDS` seconds (stopped, hung) computes them for
    itself alone.

    Raises:
        InputError: The computation refuses the images, its features are constant, or the folder cannot be written.
        MemoriskError: The disk is full; what is done is kept.
    """
    if not _is_complete(plan.folder, len(plan.rows)):
        with write_guard(plan.root, "features", otherwise=", or set cache to False"):
            plan.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            with ExitStack() as held:
                try:
                    held.enter_context(
                        folder_lock(plan.root, name=f"{plan.key}.lock", wait=True, enough=_stall_check(plan))
                    )
                except InputError as error:
                    logging.getLogger(__name__).warning("features are computed once more: %s", error)
                    return computed_features(plan, progress=progress)
                if not _is_complete(plan.folder, len(plan.rows)):
                    return _open_cached(plan, computed=_build(plan, progress))
    return _open_cached(plan, computed=0)


def _stall_check(plan: FeaturePlan) -> Callable[[], bool]:
    """Build a check whether the process that computes a plan's features has made no progress for long."""
    signs = LifeSigns()

    def stalled() -> bool:
        """Return whether the journal has not grown for long, since the first call."""
        try:
            done = (plan.building / JOURNAL).stat().st_size
        except OSError:
            done = 0
        return signs.quiet({"done": done}, PAUSE)["done"] > STALL_SECONDS

    return stalled


def computed_features(plan: FeaturePlan, *, progress: CountProgress | None = None) -> CachedFeatures:
    """Compute the features without the cache: in memory, or on a file without a name where they are many.

    Raises:
        InputError: As `cached_features`.
    """
    first = first_occurrences(plan.rows["pixel_hash"].to_numpy(dtype=object))
    distinct = np.unique(first)
    values, done = np.empty((len(first), 0), dtype=np.float32), 0
    with closing(plan.compute(distinct)) as batches:
        for block in batches:
            if not done:
                values = scratch_array((len(first), block.shape[1]), np.float32)
            values[distinct[done : done + len(block)]] = block
            done += len(block)
            if progress is not None:
                progress(done, len(distinct))
    _fill_repeats(values, first)
    values.flags.writeable = False
    return CachedFeatures(values, check_values(values, plan.name, n_distinct=done), plan.meta(), len(distinct), done)


def _build(plan: FeaturePlan, progress: CountProgress | None) -> int:
    """Compute the missing features, finish, and return how many images were computed."""
    remove_abandoned(plan.root)
    shutil.rmtree(plan.folder, ignore_errors=True)  # damaged, or it would have been used
    first = first_occurrences(plan.rows["pixel_hash"].to_numpy(dtype=object))
    distinct = np.unique(first)
    values, done = _resume(plan, distinct)
    todo = np.flatnonzero(~done)
    at, total = 0, len(distinct)
    if progress is not None:
        progress(total - len(todo), total)
    with closing(plan.compute(distinct[todo])) as batches:
        for block in batches:
            if values is None:
                values = _new_array(plan, len(first), block.shape[1])
            _write(plan, values, distinct, todo[at : at + len(block)], np.asarray(block, dtype=np.float32))
            at += len(block)
            if progress is not None:
                progress(total - len(todo) + at, total)
    assert values is not None
    _finish(plan, values, first, len(distinct))
    return len(todo)


def _resume(plan: FeaturePlan, distinct: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    """Read the features of an earlier try that agree with their hashes, and which of the distinct images they cover."""
    done = np.zeros(len(distinct), dtype=bool)
    try:
        values = np.load(plan.building / VALUES, mmap_mode="r+", allow_pickle=False)
        lines = (plan.building / JOURNAL).read_text(encoding="utf-8").split("\n")
        if values.ndim != 2 or len(values) != len(plan.rows) or values.dtype != np.float32:
            raise ValueError
    except (OSError, ValueError, EOFError):
        shutil.rmtree(plan.building, ignore_errors=True)
        return None, done
    for line in lines:
        try:
            entry = json.loads(line)
            start, stop = int(entry["start"]), int(entry["stop"])
            if fingerprint(values[distinct[start:stop]]) == entry["hash"]:
                done[start:stop] = True
        except (ValueError, KeyError, TypeError, IndexError):  # a line that a kill cut short
            continue
    return values, done


def _new_array(plan: FeaturePlan, n: int, d: int) -> np.ndarray:
    """Create an empty array on the disk, its space reserved."""
    if d < 1:
        raise InputError(f"{one_line(plan.name, 80)} gives no features")
    plan.building.mkdir(mode=0o700, exist_ok=True)
    try:
        reserve_array(plan.building / VALUES, (n, d), np.float32)
    except OSError:
        shutil.rmtree(plan.building, ignore_errors=True)
        raise
    return np.load(plan.building / VALUES, mmap_mode="r+", allow_pickle=False)


def _write(plan: FeaturePlan, values: np.ndarray, distinct: np.ndarray, places: np.ndarray, block: np.ndarray) -> None:
    """Write a batch to its places among the distinct images and note it, one line for each run of them."""
    if block.shape[1] != values.shape[1]:
        raise InputError(
            f"{one_line(plan.name, 80)} gave {values.shape[1]} features for some images and {block.shape[1]} for others"
        )
    values[distinct[places]] = block
    breaks = np.flatnonzero(np.diff(places) != 1) + 1
    handle = os.open(plan.building / JOURNAL, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        for run, part in zip(np.split(places, breaks), np.split(block, breaks), strict=True):
            entry = {"start": int(run[0]), "stop": int(run[-1]) + 1, "hash": fingerprint(part)}
            os.write(handle, (json.dumps(entry) + "\n").encode())
    finally:
        os.close(handle)


def _fill_repeats(values: np.ndarray, first: np.ndarray) -> None:
    """Give images with the same pixels the features of the first of them."""
    again = np.flatnonzero(first != np.arange(len(first)))
    step = max(1, _COPIED_AT_ONCE // max(1, values.shape[1]))
    for start in range(0, len(again), step):
        part = again[start : start + step]
        values[part] = values[first[part]]


def _finish(plan: FeaturePlan, values: np.ndarray, first: np.ndarray, n_distinct: int) -> None:
    """Fill in repeated images, check the values, write the tables and give the folder its name."""
    _fill_repeats(values, first)
    try:
        checks = check_values(values, plan.name, n_distinct=n_distinct)
    except InputError:
        shutil.rmtree(plan.building, ignore_errors=True)
        raise
    wrong = {"not_finite": checks.not_finite, "constant": checks.constant_rows}
    flags = {name: np.isin(np.arange(len(values)), rows) for name, rows in wrong.items()}
    meta = {"key": plan.key, "shape": list(values.shape), "n_distinct": n_distinct, **plan.meta()}
    with (plan.building / VALUES).open("rb+") as file:
        getattr(values, "flush", lambda: None)()
        os.fsync(file.fileno())
    write_record(plan.building / VALUES, plan.building / VALUES)
    write_table(plan.building / ROWS, plan.rows.assign(**flags), recorded=True)
    write_json(plan.building / META, meta | {"constant_columns": checks.constant_columns}, recorded=True)
    plan.building.replace(plan.folder)
    fsync_folder(plan.root)
    (plan.folder / JOURNAL).unlink(missing_ok=True)


def _is_complete(folder: Path, n: int) -> bool:
    """Return whether the folder holds finished, undamaged features."""
    if not all(is_intact(folder / name) for name in (META, ROWS, VALUES)):
        return False
    return read_json(folder / META)["shape"][0] == n


def _open_cached(plan: FeaturePlan, *, computed: int) -> CachedFeatures:
    values = read_array(plan.folder / VALUES, mmap=True)
    meta, rows = read_json(plan.folder / META), read_table(plan.folder / ROWS)
    checks = FeatureChecks(
        np.flatnonzero(rows["not_finite"].to_numpy(dtype=bool)),
        np.flatnonzero(rows["constant"].to_numpy(dtype=bool)),
        np.array(meta["constant_columns"], dtype=np.int64),
    )
    return CachedFeatures(values, checks, meta, int(meta["n_distinct"]), computed)
