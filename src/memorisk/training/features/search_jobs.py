"""The exact searches over all pairs as jobs: blocks of rows, tables on shared storage, answers as files next to them.

Both engines give every row its answer by definition, independent of the other rows of a search, so that the merged
answers equal those of one machine, to the bit: neighbours of a row are one job's, pairs and counts of jobs merge
(`memorisk.scores.pairs.merge`). Answers are kept until the command ends: a killed one continues.
"""

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.arrays import SharedArray, share_array, wait_for_file, write_guard
from memorisk.runs.errors import MemoriskError, one_line
from memorisk.runs.executors.placement import Placement
from memorisk.runs.executors.pool import run_jobs
from memorisk.runs.executors.worker import result_versions
from memorisk.runs.files import atomic_path, fingerprint
from memorisk.scores import distances, pairs
from memorisk.scores.distances import FittedMeasure, Neighbours
from memorisk.scores.distances.neighbours import group_codes, open_tables
from memorisk.scores.distances.rows import Rows
from memorisk.scores.pairs import Head, Job, Pairs, Survey, Top, Work, merge
from memorisk.scores.similarity import LOCAL_SEARCH

Arrays = dict[str, np.ndarray]
MIN_DISTRIBUTED_WORK = 1 << 33
"""Number of differences from which a search runs on workers: a second or two of one core."""
_PER_JOB = 1 << 35
_FEWEST, _MOST = 64, 8192  # rows of a job
_JOBS, _MOST_JOBS = 32, 4096


@dataclass(frozen=True)
class PairQuery:
    """Query of a search over pairs."""

    kind: Literal["nearest", "histogram", "survey"]
    k: int | None = None
    threshold: float | None = None
    limit: int | None = None
    edges: tuple[float, ...] | None = None

    def mark(self) -> str:
        """Fingerprint all fields, infinite numbers among them."""
        numbers = [np.array([] if value is None else value) for value in (self.threshold, self.edges)]
        return fingerprint(self.kind, self.k, self.limit, *numbers)


@dataclass(frozen=True)
class SearchJob:
    """A block of rows of one table against all rows of another; picklable, tables remain on the disk."""

    folder: str
    """Folder of the answer."""
    key: str
    """Fingerprint of the tables, the measure or head, and the query."""
    first: int
    """First row of the block."""
    last: int
    """Row after the last of the block."""
    left: SharedArray
    right: SharedArray | None
    """Second table; None: the rows of ``left`` that follow each."""
    groups: tuple[SharedArray, ...]
    """Group numbers, [n] and [m]: pairs within a group are left out; empty for no groups."""
    measure: SharedArray | None
    """File of a `FittedMeasure`; None where a head compares."""
    weight: SharedArray | None
    bias: float
    query: PairQuery
    device: str
    threads: int

    @property
    def answer(self) -> Path:
        """Path of the answer's file."""
        return Path(self.folder) / f"{self.key}-{self.first}-{self.last}.npz"


def run_search(job: SearchJob) -> None:
    """Search a block and write its answer.

    Raises:
        InputError: Some rows cannot be compared.
        MemoriskError: A table is gone or damaged, or the disk is full.
    """
    if read_answer(job.answer) is not None:
        return
    answer = _search_by_measure(job) if job.weight is None else _search_by_head(job)
    with (
        write_guard(job.answer.parent, "answers of a search"),
        atomic_path(job.answer) as temporary,
        temporary.open("wb") as file,
    ):
        np.savez(file, **answer)  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class DistributedSearch:
    """A search (`memorisk.scores.similarity.Search`) by the workers of a cluster; small ones run on this machine."""

    place: Placement
    """Cluster and folders of the workers."""
    folder: Path
    """Folder on shared storage, for tables and answers."""
    threads: int = 1
    """Number of threads of a job."""
    worth: int | None = None
    """Number of differences from which workers are used; None for `MIN_DISTRIBUTED_WORK`."""
    rows: int | None = None
    """Number of rows of a job; None for as many as take some seconds."""

    def nearest(
        self,
        queries: Any,
        references: Any,
        measure: FittedMeasure,
        k: int = 1,
        *,
        exclude_same: Any = None,
        device: str = "auto",
    ) -> Neighbours:
        """Search as `scores.distances.neighbours.nearest` does."""
        if not self._leaves(queries, references):
            return LOCAL_SEARCH.nearest(queries, references, measure, k, exclude_same=exclude_same, device=device)
        query = PairQuery("nearest", k=k)
        parts = self._by_measure(queries, references, measure, query, exclude_same, device)
        indices, values = (np.concatenate([part[name] for part in parts]) for name in ("indices", "distances"))
        return Neighbours(indices, values, sum(int(part["clipped"]) for part in parts))

    def histogram(
        self,
        queries: Any,
        references: Any,
        measure: FittedMeasure,
        edges: ArrayLike,
        *,
        exclude_same: Any = None,
        device: str = "auto",
    ) -> NDArray[np.int64]:
        """Count as `scores.distances.neighbours.histogram` does."""
        if not self._leaves(queries, references):
            return LOCAL_SEARCH.histogram(queries, references, measure, edges, exclude_same=exclude_same, device=device)
        query = PairQuery("histogram", edges=_numbers(edges))
        parts = self._by_measure(queries, references, measure, query, exclude_same, device)
        return reduce(np.add, [part["counts"] for part in parts])

    def survey(
        self,
        u: Any,
        v: Any,
        head: Head,
        *,
        threshold: float | None = None,
        limit: int | None = 1_000_000,
        k: int | None = None,
        edges: ArrayLike | None = None,
        exclude_same: Any = None,
        device: str = "auto",
    ) -> Survey:
        """Survey as `scores.pairs.search.survey` does."""
        if not self._leaves(u, v):
            settings = {"threshold": threshold, "limit": limit, "k": k, "edges": edges, "exclude_same": exclude_same}
            return LOCAL_SEARCH.survey(u, v, head, device=device, **settings)
        first, second = Rows(u, "first vectors (u)"), None if v is None else Rows(v, "second vectors (v)")
        for rows in (first, second):
            if rows is not None:
                rows.check()  # before anything is written, like all checks of a worker
        if second is None and exclude_same is not None and not isinstance(exclude_same, tuple):
            exclude_same = (exclude_same, exclude_same)
        codes = group_codes(exclude_same, first, second or first)
        query = PairQuery("survey", k, threshold, limit, None if edges is None else _numbers(edges))
        with write_guard(self.folder, "tables of a search"):
            job = self._job(u, v, codes if exclude_same is not None else (), query, device)
            job = replace(job, weight=share_array(self.folder, head.weight), bias=head.bias)
        return merge(_survey(part, limit) for part in self._answers(job, first.n))

    def _leaves(self, left: Any, right: Any) -> bool:
        """Return whether a search is worth sending to the workers; tables on a GPU are searched there."""
        if any(hasattr(table, "detach") for table in (left, right)):
            return False
        n, d = np.shape(left)
        return n * (n / 2 if right is None else len(right)) * d >= (
            MIN_DISTRIBUTED_WORK if self.worth is None else self.worth
        )

    def _by_measure(
        self, queries: Any, references: Any, measure: FittedMeasure, query: PairQuery, exclude_same: Any, device: str
    ) -> list[Arrays]:
        """Return the answers of all blocks of queries."""
        query_rows, reference_rows = open_tables(queries, references, measure)
        codes = group_codes(exclude_same, query_rows, reference_rows)
        with write_guard(self.folder, "tables of a search"):
            job = self._job(queries, references, codes if exclude_same is not None else (), query, device)
            job = replace(job, measure=_share_measure(self.folder, measure))
        return self._answers(job, query_rows.n)

    def _job(self, left: Any, right: Any, codes: Sequence[np.ndarray], query: PairQuery, device: str) -> SearchJob:
        """Build one job of all the work, its tables in a folder that workers see."""
        shared = [None if x is None else share_array(self.folder, x, self.place.folders) for x in (left, right, *codes)]
        mine, theirs, *groups = shared
        assert mine is not None
        numbers = tuple(one for one in groups if one is not None)
        return SearchJob(
            str(self.folder), "", 0, len(left), mine, theirs, numbers, None, None, 0.0, query, device, self.threads
        )

    def _answers(self, whole: SearchJob, n: int) -> list[Arrays]:
        """Return the answers of all blocks of rows, in order: read, or computed by the workers now.

        Raises:
            MemoriskError: Some blocks failed; the answers that exist are kept.
        """
        marks = [
            one.fingerprint for one in (whole.left, whole.right, *whole.groups, whole.measure, whole.weight) if one
        ]
        key = fingerprint(marks, whole.query.mark(), np.array(whole.bias), whole.right is None, result_versions())
        rows = self.rows or _rows_of(n, whole)
        jobs = [
            replace(whole, key=key, first=first, last=min(first + rows, n)) for first in range(0, n, rows)
        ]  # fmt: skip
        by_row = {job.first: read_answer(job.answer) for job in jobs}
        todo = [job for job in jobs if by_row[job.first] is None]
        run_jobs(run_search, todo, threads=self.threads, place=self.place)
        for job in todo:
            wait_for_file(job.answer)
            by_row[job.first] = read_answer(job.answer)
        answers = [by_row[job.first] for job in jobs]
        if any(answer is None for answer in answers):
            raise MemoriskError(f"answers of a search in {one_line(self.folder, 160)} are damaged: remove that folder")
        return [answer for answer in answers if answer is not None]


def read_answer(path: Path) -> Arrays | None:
    """Read a job's answer; None where it is missing or damaged, so that it is computed again."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error):
        path.unlink(missing_ok=True)
        return None


def _search_by_measure(job: SearchJob) -> Arrays:
    """Compute neighbours or counts of a block of queries."""
    assert job.right is not None
    assert job.measure is not None
    rows, measure = slice(job.first, job.last), _measure_of(job.measure)
    queries, references, groups = job.left.open()[rows], job.right.open(), tuple(one.open() for one in job.groups)
    how: dict[str, Any] = {"device": job.device, "threads": job.threads}
    how["exclude_same"] = (groups[0][rows], groups[1]) if groups else None
    if job.query.kind == "histogram":
        assert job.query.edges is not None
        return {"counts": distances.histogram(queries, references, measure, job.query.edges, **how)}
    neighbours = distances.nearest(queries, references, measure, job.query.k or 1, **how)
    return {"indices": neighbours.indices, "distances": neighbours.distances, "clipped": np.array(neighbours.clipped)}


def _search_by_head(job: SearchJob) -> Arrays:
    """Survey a block of rows."""
    assert job.weight is not None
    query, groups = job.query, tuple(one.open() for one in job.groups)
    first, second = job.left.open(), None if job.right is None else job.right.open()
    surveyed = pairs.survey(
        first, second, job.weight.open(), job.bias, threshold=query.threshold, limit=query.limit, k=query.k,
        edges=query.edges, exclude_same=groups or None, job=Job(job.first, job.last), device=job.device,
        threads=job.threads,
    )  # fmt: skip
    work = surveyed.work
    answer: Arrays = {"work": np.array([work.pairs, work.columns, work.evaluated])}
    if surveyed.pairs is not None:
        answer |= {name: getattr(surveyed.pairs, name) for name in ("first", "second", "logit")}
        answer["count"] = np.array(surveyed.pairs.count)
    if surveyed.top is not None:
        answer |= {
            "indices": surveyed.top.indices,
            "logits": surveyed.top.logits,
            "start": np.array(surveyed.top.start),
        }
    return answer | ({} if surveyed.counts is None else {"counts": surveyed.counts})


def _survey(part: Arrays, limit: int | None) -> Survey:
    """Rebuild a survey from the arrays of an answer."""
    listed = top = None
    if "first" in part:
        listed = Pairs(part["first"], part["second"], part["logit"], int(part["count"]), limit)
    if "indices" in part:
        top = Top(part["indices"], part["logits"], int(part["start"]))
    return Survey(listed, top, part.get("counts"), Work(*(int(n) for n in part["work"])))


def _rows_of(n: int, whole: SearchJob) -> int:
    """Choose the rows of a job: some seconds of a core, enough that reading the other table takes less than comparing.

    They depend on the tables alone, so that a command that continues finds its answers with any number of workers.
    """
    shape = np.shape((whole.right or whole.left).open())
    seconds = _PER_JOB // max(1, int(np.prod(shape)))
    return max(_FEWEST, -(-n // _MOST_JOBS), min(_MOST, seconds, -(-n // _JOBS)))


def _numbers(edges: ArrayLike) -> tuple[float, ...]:
    """Convert edges of bins to plain numbers."""
    return tuple(np.asarray(edges, dtype=np.float64).tolist())


def _share_measure(folder: Path, measure: FittedMeasure) -> SharedArray:
    """Write a measure to a file named by its content."""
    mark = _fingerprint_of(measure)
    path = folder / f"measure-{mark}.safetensors"
    if not path.is_file():
        measure.save(path)
    return SharedArray(str(path), mark)


@lru_cache(maxsize=8)
def _measure_of(shared: SharedArray) -> FittedMeasure:
    """Load the measure of a file, as it was shared.

    Raises:
        MemoriskError: The file differs from the shared measure.
    """
    wait_for_file(Path(shared.path))
    measure = FittedMeasure.load(shared.path)
    if _fingerprint_of(measure) != shared.fingerprint:
        raise MemoriskError(f"{one_line(shared.path, 160)} is damaged: remove it, and give the command again")
    return measure


def _fingerprint_of(measure: FittedMeasure) -> str:
    """Fingerprint everything that was fitted and chosen."""
    values = (getattr(measure, field.name) for field in fields(measure))
    return fingerprint(*(value if isinstance(value, np.ndarray) else [value] for value in values), length=32)
