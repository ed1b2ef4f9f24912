"""Features that are kept: computed once for a content, found again by it, resumable, atomic, private.

Beside the image stores stands ``features/KEY/``: ``values.npy`` [N, d] float32, ``rows.parquet`` (ids, groups, pixel
hashes and what was found wrong with a row), ``meta.json``. While it is built it is a hidden folder with a journal
that names every batch that stands in the array with its hash; a killed extraction goes on from there. Images with the
same pixels are computed once, so that their features are the same to the last bit.
"""

import json
import logging
import os
import shutil
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.runs.errors import InputError, one_line
from memorisk.runs.executors.heartbeats import Signs
from memorisk.runs.files import fsync_folder, read_array, read_json, read_table, write_json, write_table
from memorisk.runs.fingerprint import fingerprint
from memorisk.runs.lock import folder_lock
from memorisk.runs.progress import Counted
from memorisk.runs.scratch import scratch_array
from memorisk.runs.storage.marker_lock import PAUSE
from memorisk.runs.unfinished import JOURNAL, remove_abandoned, reserve_array, write_guard
from memorisk.training.features.checks import FeatureChecks, check_values

Compute = Callable[[np.ndarray], Generator[np.ndarray]]
"""Features of these rows, a batch at a time."""

VALUES, ROWS, META = "values.npy", "rows.parquet", "meta.json"
STALLED = 600.0
"""Seconds in which even a slow network is done with a batch."""
_COPIED_AT_ONCE = 1 << 22  # values


@dataclass(frozen=True, kw_only=True)
class FeaturePlan:
    """What is to be computed, and where it is kept.

    Attributes:
        key: Name of the content.
        root: Folder of all kept features.
        name: What computes, for messages.
        rows: A row an image: ``image, group, pixel_hash``.
        compute: The computation.
        meta: What else is kept in ``meta.json``; asked when all is computed.
    """

    key: str
    root: Path
    name: str
    rows: pd.DataFrame
    compute: Compute
    meta: Callable[[], dict[str, Any]]

    @property
    def folder(self) -> Path:
        """Where the finished features stand."""
        return self.root / self.key

    @property
    def building(self) -> Path:
        """The hidden folder of unfinished ones."""
        return self.root / f".{self.key}.building"


@dataclass(frozen=True)
class Kept:
    """Features as they are kept.

    Attributes:
        values: [N, d] float32; from the disk a read-only memory map.
        checks: What was found wrong.
        meta: As it was written.
        n_distinct: Images with different pixels.
        computed: Images computed in this call; 0 where all was there.
    """

    values: np.ndarray
    checks: FeatureChecks
    meta: dict[str, Any]
    n_distinct: int
    computed: int


def first_rows(pixel_hashes: np.ndarray) -> np.ndarray:
    """For each row the first one with the same pixels, [N]."""
    codes, _ = pd.factorize(np.asarray(pixel_hashes, dtype=object))
    _, first = np.unique(codes, return_index=True)
    return first[codes]


def kept_features(plan: FeaturePlan, *, progress: Counted | None = None) -> Kept:
    """The features of a plan: found, or computed and kept. One process computes, others wait for it.

    Whoever waits for one that gets no further for `STALLED` seconds (stopped, hung) computes them for itself alone.

    Raises:
        InputError: The computation refuses the images, its features are constant, or the folder cannot be written.
        MemoriskError: The disk is full; what is done is kept.
    """
    if not _is_complete(plan.folder, len(plan.rows)):
        with write_guard(plan.root, "features", otherwise=", or set cache to False"):
            plan.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            with ExitStack() as held:
                try:
                    held.enter_context(folder_lock(plan.root, name=f"{plan.key}.lock", wait=True, enough=_stall(plan)))
                except InputError as error:
                    logging.getLogger(__name__).warning("features are computed once more: %s", error)
                    return computed_features(plan, progress=progress)
                if not _is_complete(plan.folder, len(plan.rows)):
                    return _opened(plan, computed=_build(plan, progress))
    return _opened(plan, computed=0)


def _stall(plan: FeaturePlan) -> Callable[[], bool]:
    """Whether whoever computes the features of a plan has got no further for long, asked again and again."""
    signs = Signs()

    def stalled() -> bool:
        """Since the first time that this was asked."""
        try:
            done = (plan.building / JOURNAL).stat().st_size
        except OSError:
            done = 0
        return signs.quiet({"done": done}, PAUSE)["done"] > STALLED

    return stalled


def computed_features(plan: FeaturePlan, *, progress: Counted | None = None) -> Kept:
    """The same, neither looked for nor kept: in memory, or on a file without a name where they are many.

    Raises:
        InputError: As `kept_features`.
    """
    first = first_rows(plan.rows["pixel_hash"].to_numpy(dtype=object))
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
    _repeat(values, first)
    values.flags.writeable = False
    return Kept(values, check_values(values, plan.name, n_distinct=done), plan.meta(), len(distinct), done)


def _build(plan: FeaturePlan, progress: Counted | None) -> int:
    """Compute what is not there yet, finish, and say how many images were computed."""
    remove_abandoned(plan.root)
    shutil.rmtree(plan.folder, ignore_errors=True)  # damaged, or it would have been used
    first = first_rows(plan.rows["pixel_hash"].to_numpy(dtype=object))
    distinct = np.unique(first)
    values, done = _resumed(plan, distinct)
    todo = np.flatnonzero(~done)
    at, total = 0, len(distinct)
    if progress is not None:
        progress(total - len(todo), total)
    with closing(plan.compute(distinct[todo])) as batches:
        for block in batches:
            if values is None:
                values = _new(plan, len(first), block.shape[1])
            _write(plan, values, distinct, todo[at : at + len(block)], np.asarray(block, dtype=np.float32))
            at += len(block)
            if progress is not None:
                progress(total - len(todo) + at, total)
    assert values is not None
    _finish(plan, values, first, len(distinct))
    return len(todo)


def _resumed(plan: FeaturePlan, distinct: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    """What an earlier try left, where it agrees with its hashes, and which of the distinct images it holds."""
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


def _new(plan: FeaturePlan, n: int, d: int) -> np.ndarray:
    """An empty array on the disk, its space reserved."""
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
    """Put a batch in its places among the distinct images and note it, a line for each run of them."""
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


def _repeat(values: np.ndarray, first: np.ndarray) -> None:
    """Give images with the same pixels the features of the first of them."""
    again = np.flatnonzero(first != np.arange(len(first)))
    step = max(1, _COPIED_AT_ONCE // max(1, values.shape[1]))
    for start in range(0, len(again), step):
        part = again[start : start + step]
        values[part] = values[first[part]]


def _finish(plan: FeaturePlan, values: np.ndarray, first: np.ndarray, n_distinct: int) -> None:
    """Fill what is repeated, look through it, write the tables and give the folder its name."""
    _repeat(values, first)
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
    write_table(plan.building / ROWS, plan.rows.assign(**flags))
    write_json(plan.building / META, meta | {"constant_columns": checks.constant_columns})
    plan.building.replace(plan.folder)
    fsync_folder(plan.root)
    (plan.folder / JOURNAL).unlink(missing_ok=True)


def _is_complete(folder: Path, n: int) -> bool:
    """Whether finished, undamaged features lie there."""
    try:
        shape = read_json(folder / META)["shape"]
        return (
            read_array(folder / VALUES, mmap=True).shape == tuple(shape) and shape[0] == n and (folder / ROWS).is_file()
        )
    except (OSError, ValueError, KeyError, TypeError, EOFError):
        return False


def _opened(plan: FeaturePlan, *, computed: int) -> Kept:
    values = read_array(plan.folder / VALUES, mmap=True)
    meta, rows = read_json(plan.folder / META), read_table(plan.folder / ROWS)
    checks = FeatureChecks(
        np.flatnonzero(rows["not_finite"].to_numpy(dtype=bool)),
        np.flatnonzero(rows["constant"].to_numpy(dtype=bool)),
        np.array(meta["constant_columns"], dtype=np.int64),
    )
    return Kept(values, checks, meta, int(meta["n_distinct"]), computed)
