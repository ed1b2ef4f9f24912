"""What is asked of all pairs and what comes back; parts of it, made anywhere, merge into the whole."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memorisk.runs.errors import InputError
from memorisk.scores.distances.rows import FloatArray

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Job:
    """A block of rows of u against all of v, or, where there is no v, against the rows that follow each."""

    first: int
    """First row."""
    last: int
    """The row after the last."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs whose logit is at least a threshold, the most similar first; ties by the lower rows."""

    first: Ids
    """[p] rows of u."""
    second: Ids
    """[p] rows of v; of u where there is no v, and then always larger than ``first``."""
    logit: FloatArray
    """[p] by definition."""
    count: int
    """All pairs that reach the threshold, whether they are listed or not."""
    limit: int | None
    """How many are listed at most."""


@dataclass(frozen=True, eq=False)
class Top:
    """The most similar rows of v to every row of u."""

    indices: Ids
    """[n, k] rows, the most similar first, ties by the lower row; -1 where there are fewer than k."""
    logits: FloatArray
    """[n, k] by definition; -inf where there is no row."""
    start: int = 0
    """Row of u that comes first (of a part of the work)."""


@dataclass(frozen=True)
class Work:
    """How much had to be done."""

    pairs: int = 0
    """Pairs looked at."""
    columns: int = 0
    """Columns of pairs that were added up; at least ``pairs`` times those with a weight where nothing was pruned."""
    evaluated: int = 0
    """Pairs evaluated by definition in float64."""

    def __add__(self, other: "Work") -> "Work":
        return Work(self.pairs + other.pairs, self.columns + other.columns, self.evaluated + other.evaluated)


@dataclass(frozen=True, eq=False)
class Survey:
    """Answers about all pairs, or those of one job; None where nothing was asked."""

    pairs: Pairs | None
    """Above the threshold."""
    top: Top | None
    """Most similar rows."""
    counts: Ids | None
    """[bins] of the histogram."""
    work: Work
    """What it took; depends on threads and blocks, the answers do not."""


def jobs(n: int, rows: int = 8192) -> Iterator[Job]:
    """Independent parts of the work: every pair belongs to one job.

    Args:
        n: Rows of u.
        rows: Of a job; without a v, earlier jobs have more pairs than later ones.

    Raises:
        InputError: A number of rows below 1.
    """
    if rows < 1:
        raise InputError(f"a job has {rows} rows; give at least 1")
    return (Job(first, min(first + rows, n)) for first in range(0, n, rows))


def merge(parts: Iterable[Survey]) -> Survey:
    """The answer to all jobs from those to each, in any order.

    Raises:
        InputError: There are none, or they answer different questions.
    """
    listed = list(parts)
    if not listed:
        raise InputError("there are no answers to merge")
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


class Listed(NamedTuple):
    """Pairs in columns."""

    first: Ids
    second: Ids
    logit: FloatArray


def joined(lists: Sequence[Listed]) -> Listed:
    """Lists as one."""
    none = np.empty(0, np.int64)
    return Listed(
        np.concatenate([none, *(part.first for part in lists)]),
        np.concatenate([none, *(part.second for part in lists)]),
        np.concatenate([np.empty(0), *(part.logit for part in lists)]),
    )


def _taken(pairs: Listed, which: NDArray[Any]) -> Listed:
    """Some of them."""
    return Listed(pairs.first[which], pairs.second[which], pairs.logit[which])


def most_similar(pairs: Listed, limit: int | None) -> Listed:
    """The most similar pairs in order, ties by the lower rows."""
    n = len(pairs.logit)
    if limit and n > 2 * limit:  # a partition is faster than a sort
        pairs = _taken(pairs, pairs.logit >= np.partition(pairs.logit, n - limit)[n - limit])
    return _taken(pairs, np.lexsort((pairs.second, pairs.first, -pairs.logit))[:limit])


def _both_pairs(a: Pairs, b: Pairs) -> Pairs:
    """The answers to two parts."""
    both = joined([Listed(part.first, part.second, part.logit) for part in (a, b)])
    return Pairs(*most_similar(both, a.limit), count=a.count + b.count, limit=a.limit)


def _all_tops(tops: list[Top]) -> Top:
    """The most similar rows over parts, each of some rows."""
    from memorisk.scores.pairs.scans import insert_rows

    start, k = min(part.start for part in tops), tops[0].indices.shape[1]
    n = max(part.start + len(part.indices) for part in tops) - start
    indices, logits = np.full((n, k), -1, np.int64), np.full((n, k), -np.inf)
    for part in tops:
        mine = slice(part.start - start, part.start - start + len(part.indices))
        insert_rows(part.logits, part.indices, logits[mine], indices[mine])
    return Top(indices, logits, start)
