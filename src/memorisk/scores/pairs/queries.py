"""Queries over all pairs: their parameters, their tables and their answers.

The program checks queries, and refuses wrong ones before it looks at any pair. Parts of an answer, made anywhere, merge
into the whole.
"""

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError, one_line
from memorisk.scores.distances.rows import FloatArray, Rows

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Job:
    """A block of rows of u against all of v, or, without a v, against the rows that follow each."""

    first: int
    """Number of the first row."""
    last: int
    """Number of the row after the last."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs whose logit is at least a threshold, the most similar first; ties by the lower rows."""

    first: Ids
    """Rows of u, [p]."""
    second: Ids
    """Rows of v, [p]; rows of u if v is None, and then always larger than ``first``."""
    logit: FloatArray
    """Logit of each pair by definition, [p]."""
    count: int
    """Number of all pairs that reach the threshold, whether they are listed or not."""
    limit: int | None
    """Largest number of pairs that are listed."""


@dataclass(frozen=True, eq=False)
class Top:
    """The most similar rows of v to every row of u."""

    indices: Ids
    """Rows of v, [n, k], the most similar first, ties by the lower row; -1 where there are fewer than k."""
    logits: FloatArray
    """Logits by definition, [n, k]; -inf where a row is missing."""
    start: int = 0
    """Row of u that comes first (of a part of the work)."""


@dataclass(frozen=True)
class Work:
    """Amount of work done by a search."""

    pairs: int = 0
    """Number of pairs looked at."""
    columns: int = 0
    """Number of columns of pairs added up; at least ``pairs`` times those with a weight where nothing was pruned."""
    evaluated: int = 0
    """Number of pairs evaluated by definition in float64."""

    def __add__(self, other: "Work") -> "Work":
        return Work(self.pairs + other.pairs, self.columns + other.columns, self.evaluated + other.evaluated)


@dataclass(frozen=True, eq=False)
class Survey:
    """Answers about all pairs, or those of one job; None for answers that the query did not include."""

    pairs: Pairs | None
    """Pairs above the threshold."""
    top: Top | None
    """Most similar rows of each row."""
    counts: Ids | None
    """Counts of the histogram, [bins]."""
    work: Work
    """Work that the search took; depends on threads and blocks, the answers do not."""


def jobs(n: int, rows: int = 8192) -> Iterator[Job]:
    """Divide the work into independent parts: every pair belongs to one job.

    Args:
        n: Number of rows of u.
        rows: Number of rows of a job; without a v, earlier jobs have more pairs than later ones.

    Raises:
        InputError: A number of rows below 1.
    """
    if rows < 1:
        raise InputError(f"a job has {rows} rows; give at least 1")
    return (Job(first, min(first + rows, n)) for first in range(0, n, rows))


def merge(parts: Iterable[Survey]) -> Survey:
    """Merge the answers to all jobs, in any order.

    Raises:
        InputError: The list is empty, or the answers are to different questions.
    """
    listed = list(parts)
    if not listed:
        raise InputError("no answers to merge: give at least one")
    kinds = {
        (
            part.pairs.limit if part.pairs else "",
            part.top.indices.shape[1] if part.top else 0,
            0 if part.counts is None else len(part.counts),
        )
        for part in listed
    }
    if len(kinds) > 1:
        raise InputError("the answers are to different questions; give those of one call's jobs")
    pairs = [part.pairs for part in listed if part.pairs]
    tops = [part.top for part in listed if part.top]
    counts = [part.counts for part in listed if part.counts is not None]
    return Survey(
        reduce(_both_pairs, pairs) if pairs else None,
        _all_tops(tops) if tops else None,
        np.sum(counts, axis=0) if counts else None,
        sum((part.work for part in listed), Work()),
    )


class PairColumns(NamedTuple):
    """Pairs of rows in columns."""

    first: Ids
    second: Ids
    logit: FloatArray


def concatenate_pairs(lists: Sequence[PairColumns]) -> PairColumns:
    """Join lists of pairs into one."""
    none = np.empty(0, np.int64)
    return PairColumns(
        np.concatenate([none, *(part.first for part in lists)]),
        np.concatenate([none, *(part.second for part in lists)]),
        np.concatenate([np.empty(0), *(part.logit for part in lists)]),
    )


def _select_pairs(pairs: PairColumns, which: NDArray[Any]) -> PairColumns:
    """Select some of the pairs."""
    return PairColumns(pairs.first[which], pairs.second[which], pairs.logit[which])


def most_similar(pairs: PairColumns, limit: int | None) -> PairColumns:
    """Return the most similar pairs in order, ties by the lower rows."""
    n = len(pairs.logit)
    if limit and n > 2 * limit:  # a partition is faster than a sort
        pairs = _select_pairs(pairs, pairs.logit >= np.partition(pairs.logit, n - limit)[n - limit])
    return _select_pairs(pairs, np.lexsort((pairs.second, pairs.first, -pairs.logit))[:limit])


def _both_pairs(a: Pairs, b: Pairs) -> Pairs:
    """Merge the answers to two parts."""
    both = concatenate_pairs([PairColumns(part.first, part.second, part.logit) for part in (a, b)])
    return Pairs(*most_similar(both, a.limit), count=a.count + b.count, limit=a.limit)


def _all_tops(tops: list[Top]) -> Top:
    """Merge the most similar rows over parts, each of some rows."""
    from memorisk.scores.pairs.scans import insert_rows

    start, k = min(part.start for part in tops), tops[0].indices.shape[1]
    n = max(part.start + len(part.indices) for part in tops) - start
    indices, logits = np.full((n, k), -1, np.int64), np.full((n, k), -np.inf)
    for part in tops:
        part_rows = slice(part.start - start, part.start - start + len(part.indices))
        insert_rows(part.logits, part.indices, logits[part_rows], indices[part_rows])
    return Top(indices, logits, start)


@dataclass(frozen=True, eq=False)
class Queries:
    """Queries after their check."""

    threshold: float | None
    limit: int | None
    k: int
    edges: FloatArray | None


def open_vectors(u: Any, v: Any) -> tuple[Rows, Rows | None]:
    """Open both tables; the pass that finds the ranges of their columns checks the rows.

    Raises:
        InputError: One does not hold real numbers, or their columns differ.
    """
    u_rows = Rows(u, "first vectors (u)")
    v_rows = None if v is None else Rows(v, "second vectors (v)")
    if v_rows is not None and v_rows.d != u_rows.d:
        raise InputError(f"u has vectors of {u_rows.d} numbers and v of {v_rows.d}; give those of one detector")
    return u_rows, v_rows


def check_queries(
    threshold: float | None, limit: int | None, k: int | None, edges: ArrayLike | None, *counts: int | None
) -> Queries:
    """Check the queries over all pairs.

    Raises:
        InputError: No query, or numbers out of range.
    """
    if threshold is None and k is None and edges is None:
        raise InputError("no query for the pairs; give a threshold, k or edges")
    for what, value, lowest in (("limit", limit, 0), ("k", k, 1), *(("threads or block", c, 1) for c in counts)):
        if value is not None and not _whole(value, lowest):
            raise InputError(f"{what} is {one_line(value, 40)}; give a whole number, at least {lowest}")
    if threshold is not None and not _number(threshold):
        raise InputError(
            f"the threshold is {one_line(threshold, 40)}; give a logit (log(p / (1 - p)) of a probability p)"
        )
    bounds = None
    if edges is not None:
        bounds = np.array(edges, dtype=np.float64)
        if bounds.ndim != 1 or len(bounds) < 2 or not (np.diff(bounds) > 0).all():
            raise InputError("the edges of a histogram must increase; give at least two")
    return Queries(None if threshold is None else float(threshold), limit, int(k or 0), bounds)


def check_job(job: Job | None, n: int) -> Job:
    """Return a part of the work, or all of it.

    Raises:
        InputError: It has rows that the table lacks.
    """
    if job is None:
        return Job(0, n)
    if not 0 <= job.first <= job.last <= n:
        raise InputError(f"the job is rows {job.first} to {job.last} of {n}; take jobs from `jobs({n})`")
    return job


def _whole(value: Any, lowest: int) -> bool:
    """Return whether it is a whole number of at least this."""
    try:
        return operator.index(value) >= lowest
    except TypeError:
        return False


def _number(value: Any) -> bool:
    """Return whether it is a number; infinite ones too."""
    try:
        return float(value) == float(value)
    except (TypeError, ValueError):
        return False
