"""What may be asked, and of what; refused before any pair is looked at."""

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from memorisk.runs.errors import InputError, one_line
from memorisk.scores.distances.rows import FloatArray, Rows
from memorisk.scores.pairs.answers import Job


@dataclass(frozen=True, eq=False)
class Questions:
    """Checked."""

    threshold: float | None
    limit: int | None
    k: int
    edges: FloatArray | None


def open_vectors(u: Any, v: Any) -> tuple[Rows, Rows | None]:
    """Both tables; rows are checked by the pass that finds their ranges.

    Raises:
        InputError: One is no table of real numbers, or their columns differ.
    """
    left = Rows(u, "first vectors (u)")
    right = None if v is None else Rows(v, "second vectors (v)")
    if right is not None and right.d != left.d:
        raise InputError(f"u has vectors of {left.d} numbers and v of {right.d}; give those of one detector")
    return left, right


def check_questions(
    threshold: float | None, limit: int | None, k: int | None, edges: ArrayLike | None, *counts: int | None
) -> Questions:
    """What is asked of all pairs.

    Raises:
        InputError: Nothing, or numbers that cannot be.
    """
    if threshold is None and k is None and edges is None:
        raise InputError("nothing is asked of the pairs; give a threshold, k or edges")
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
    return Questions(None if threshold is None else float(threshold), limit, int(k or 0), bounds)


def check_job(job: Job | None, n: int) -> Job:
    """A part of the work, or all of it.

    Raises:
        InputError: It has rows that are not there.
    """
    if job is None:
        return Job(0, n)
    if not 0 <= job.first <= job.last <= n:
        raise InputError(f"the job is rows {job.first} to {job.last} of {n}; take jobs from `jobs({n})`")
    return job


def _whole(value: Any, lowest: int) -> bool:
    """Whether it is a whole number of at least this."""
    try:
        return operator.index(value) >= lowest
    except TypeError:
        return False


def _number(value: Any) -> bool:
    """Whether it is a number; infinite ones too."""
    try:
        return float(value) == float(value)
    except (TypeError, ValueError):
        return False
