"""Random halves that hold the same: every unit falls to either side with chance 1/2, totals as equal as can be.

The walk of Harshaw, Sävje, Spielman and Zhang (2024), "Balancing covariates in randomized experiments with the
Gram-Schmidt walk design", with all weight on balance. Units start at 0, between the sides -1 and +1. A step moves
the pivot, which is the largest undecided unit, one way or the other, and other undecided units such that the totals
of all stay where they are (least squares), as far as until a unit arrives at a side. The way is drawn so that
no unit moves on average; so each unit ends on either side with chance 1/2. As long as there is something to weigh
the pivot up with, the total of what both sides hold does not move either: a unit's side says nothing of what else
its side holds.

Deviation: of many units those that weigh up a pivot are a window, not all, so that time grows with their number and
not with its square.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError

WINDOW = 8
"""Number of units per column, and of images per image of the pivot, that weigh it up."""


def halve(held: ArrayLike, rng: np.random.Generator) -> NDArray[np.int8]:
    """Divide units into two halves.

    Args:
        held: Counts of what each unit holds, `[n, d]`, at least 0. The first column is its size and weighs as much as
            the others together; these count in proportion to their totals, so that one of a rare finding weighs more
            than one of a frequent one.
        rng: Generator that draws the sides.

    Returns:
        Side +1 or -1 of each unit, `[n]`; ``E = 0`` for each, and ``sum_i side_i held_i`` near 0.

    Raises:
        InputError: Another shape, or a count is negative or not finite.

    Example:
        >>> sides = halve(np.ones((6, 1)), np.random.default_rng(0))  # six units that hold as much
        >>> int(sides.sum())
        0
    """
    counts = np.asarray(held, dtype=np.float64)
    if counts.ndim != 2 or not np.isfinite(counts).all() or (counts < 0).any():
        raise InputError(f"what units hold has shape {counts.shape}; give counts of at least 0, [units, columns]")
    n, d = counts.shape
    vectors = counts / np.maximum(counts.sum(axis=0), 1)
    vectors[:, :1] *= np.sqrt(max(d - 1, 1))
    order = rng.permutation(n)
    order = order[np.argsort(-counts[order, 0], kind="stable")]
    place = np.zeros(n)  # in the order of the walk
    vectors, size = vectors[order], counts[order, 0]
    undecided = np.arange(n)
    while len(undecided):
        pivot, others = undecided[0], undecided[1:]
        enough = np.searchsorted(np.cumsum(size[others]), WINDOW * size[pivot]) + 1
        others = others[: max(enough, WINDOW * d)]
        moved = np.append(_counterweight(vectors[others], vectors[pivot]), 1.0)
        window = np.append(others, pivot)
        ahead, back = _room(place[window], moved), _room(place[window], -moved)
        step = ahead if rng.random() * (ahead + back) < back else -back
        place[window] += step * moved
        arrived = np.abs(place) > 1 - 1e-9
        place[arrived] = np.sign(place[arrived])
        undecided = undecided[~arrived[undecided]]
    side = np.empty(n, dtype=np.int8)
    side[order] = place
    return side


def _counterweight(others: NDArray[np.float64], pivot: NDArray[np.float64]) -> NDArray[np.float64]:
    """Find the smallest moves `[m]` of others `[m, d]` that weigh up the pivot's whole move `[d]`, by least squares."""
    return -others @ (np.linalg.pinv(others.T @ others, rcond=1e-10, hermitian=True) @ pivot)


def _room(place: NDArray[np.float64], move: NDArray[np.float64]) -> float:
    """Return how far units at these places may move before one arrives at a side."""
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.where(move > 0, (1 - place) / move, np.where(move < 0, (-1 - place) / move, np.inf))
    return float(max(steps.min(), 0.0))
