"""Dependent rounding: give each unit one part, so that class totals are met and every unit's chances are the shares.

The cube method (Deville and Tillé, Biometrika 91, 2004) with several parts at once. Its flight moves chances without
drift in directions that keep the class totals; its landing is their linear program: among all ways to decide the last
few units, a distribution with exactly their chances that misses the totals least. Only what units hold enters, never
which they are, and they come in random order: units that hold the same are exchangeable.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

_ZERO = 1e-9  # chances this near 0 or 1 are decided
_OUTCOMES = 1500  # ways to decide the last units that the landing looks at together: 3^6 = 729, 2^10 = 1024
_MOVES, _DRAWS = 500, 5
_BEYOND = 1000.0  # an image beyond the allowance weighs more than a part without the class


@dataclass(frozen=True)
class Rounding:
    """Units to be given parts.

    Attributes:
        images: [U, C] images of each class in the unit.
        composition: [U] a number for what the unit holds; the same number, the same row of ``images``.
        shares: [P] positive, adding up to 1.
    """

    images: np.ndarray
    composition: np.ndarray
    shares: np.ndarray

    def excess(self, parts: np.ndarray) -> float:
        """How far a result is from what is asked: images beyond one group of the share, parts without the class."""
        one_hot = np.eye(len(self.shares))[parts]
        return float(self.penalty(self.images.T @ one_hot, (self.images > 0).T.astype(float) @ one_hot))

    def penalty(self, images: np.ndarray, units: np.ndarray) -> np.ndarray:
        """The excess of class totals: images and units [..., C, P] -> [...]."""
        off = np.abs(images - self.images.sum(axis=0)[:, None] * self.shares)
        beyond = np.maximum(off - self.images.max(axis=0)[:, None] - _ZERO, 0.0)
        return _BEYOND * beyond.sum(axis=(-2, -1)) + (units < 0.5).sum(axis=(-2, -1))


def draw_rounding(problem: Rounding, rng: np.random.Generator) -> np.ndarray:
    """Draw one result.

    Args:
        problem: Units, what they hold, and the shares.
        rng: Its draws decide.

    Returns: [U] a part for every unit. For units of one class the excess in images is 0 by theorem. With several
        classes a unit, a result that exceeds is repaired by moving units while that helps, and drawn again if it does
        not (the only steps that may move a unit's chances); the best is returned.
    """
    best, least = np.zeros(len(problem.images), dtype=np.intp), np.inf
    for _ in range(_DRAWS):
        parts = _repair(problem, _draw(problem, rng), rng)
        excess = problem.excess(parts)
        if excess < least:
            best, least = parts, excess
        if least == 0:
            break
    return best


def _draw(problem: Rounding, rng: np.random.Generator) -> np.ndarray:
    """Bulk, flight, landing; every unit's chances of a part are the shares."""
    images = problem.images.astype(float)
    chances = _bulk(problem, rng)
    order = rng.permutation(len(chances))
    order = order[np.lexsort((problem.images.sum(axis=1)[order], problem.images.argmax(axis=1)[order]))]
    # Totals in images and in units first; then units give way, then the classes with the widest allowance.
    widest_first = np.argsort(-problem.images.max(axis=0), kind="stable")
    kept = [np.hstack([images, images > 0])] + [images[:, widest_first[i:]] for i in range(images.shape[1])]
    for weights in kept:
        chances[order] = _flight(chances[order], weights[order], rng)
        if _ways(chances) <= _OUTCOMES:
            break
    return _land(problem, chances, rng)


def _bulk(problem: Rounding, rng: np.random.Generator) -> np.ndarray:
    """Decide all but a few units of each composition at once: of m units, part p gets floor(m f_p) at random."""
    n_parts = len(problem.shares)
    chances = np.tile(problem.shares, (len(problem.images), 1))
    shuffled = rng.permutation(len(chances))
    shuffled = shuffled[np.argsort(problem.composition[shuffled], kind="stable")]
    starts = np.flatnonzero(np.diff(problem.composition[shuffled], prepend=-1))
    for units in np.split(shuffled, starts[1:]):
        whole = np.floor(len(units) * problem.shares + _ZERO).astype(int)
        decided = int(whole.sum())
        chances[units[:decided]] = np.repeat(np.eye(n_parts), whole, axis=0)
        left = len(units) - decided
        if left:
            chances[units[decided:]] = np.maximum(len(units) * problem.shares - whole, 0) / left
    return chances


def _flight(chances: np.ndarray, weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Walk until no direction keeps ``weights.T @ chances``; by windows, so that neighbours balance each other."""
    chances = chances.copy()
    window = 4 * weights.shape[1] + 4
    waiting = np.flatnonzero(_undecided(chances).any(axis=1))
    carried, at = waiting[:0], 0
    while True:
        take = waiting[at : at + window]
        at += len(take)
        rows = np.concatenate([carried, take])
        if not len(rows):
            return chances
        chances[rows] = _walk(chances[rows], weights[rows], rng)
        still = rows[_undecided(chances[rows]).any(axis=1)]
        if not len(take) and len(still) == len(carried):
            return chances
        carried = still


def _walk(chances: np.ndarray, weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One window's walk: along each direction that keeps all sums, up or down until a probability reaches 0 or 1."""
    chances = chances.copy()
    unit, part = np.nonzero(_undecided(chances))
    basis = _kernel(unit, part, weights, chances.shape[1])
    value = chances[unit, part]
    while basis.shape[1]:
        direction = basis[:, -1]
        moving = np.abs(direction) > _ZERO
        room = np.where(direction > 0, 1 - value, value)[moving] / np.abs(direction[moving])
        back = np.where(direction > 0, value, 1 - value)[moving] / np.abs(direction[moving])
        up, down = room.min(), back.min()
        value = value + direction * (up if rng.random() * (up + down) < down else -down)
        value = np.where(value < _ZERO, 0.0, np.where(value > 1 - _ZERO, 1.0, value))
        for entry in np.flatnonzero(moving & ((value == 0) | (value == 1))):
            basis = _without(basis, int(entry))
    chances[unit, part] = value
    return chances


def _kernel(unit: np.ndarray, part: np.ndarray, weights: np.ndarray, n_parts: int) -> np.ndarray:
    """An orthonormal basis [entries, d] of the moves that keep each unit's sum and each class's sum in each part."""
    n_units, n_classes = weights.shape
    constraints = np.zeros((n_units + n_classes * n_parts, len(unit)))
    entry = np.arange(len(unit))
    constraints[unit, entry] = 1.0
    scale = np.maximum(weights.max(axis=0, initial=0.0), 1.0)
    for label in range(n_classes):
        constraints[n_units + label * n_parts + part, entry] = weights[unit, label] / scale[label]
    constraints = constraints[np.abs(constraints).sum(axis=1) > 0]
    _, singular, rows = np.linalg.svd(constraints, full_matrices=True)
    rank = int((singular > singular.max(initial=0.0) * 1e-10).sum())
    return rows[rank:].T


def _without(basis: np.ndarray, entry: int) -> np.ndarray:
    """The directions of a basis that leave one entry alone; one dimension fewer unless all of them did."""
    if not basis.shape[1]:
        return basis
    pivot = int(np.abs(basis[entry]).argmax())
    if abs(basis[entry, pivot]) <= _ZERO:
        return basis
    rest = np.delete(basis, pivot, axis=1)
    rest = rest - np.outer(basis[:, pivot], rest[entry] / basis[entry, pivot])
    rest[entry] = 0.0
    size = np.linalg.norm(rest, axis=0)
    return rest[:, size > _ZERO] / size[size > _ZERO]


def _ways(chances: np.ndarray) -> float:
    return float(np.prod(np.maximum(_undecided(chances).sum(axis=1), 1), dtype=float))


def _land(problem: Rounding, chances: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Decide the last units: min E[excess] over distributions on their outcomes that give every unit its chances."""
    parts = chances.argmax(axis=1)
    open_ = rng.permutation(np.flatnonzero(_undecided(chances).any(axis=1)))
    if not len(open_):
        return parts
    n_parts = len(problem.shares)
    choices = [np.flatnonzero(_undecided(chances[[unit]])[0]) for unit in open_]
    outcomes = np.stack(np.meshgrid(*choices, indexing="ij"), axis=-1).reshape(-1, len(open_))
    chosen = np.eye(n_parts)[outcomes]  # [outcomes, open units, parts]
    decided = np.eye(n_parts)[parts]
    decided[open_] = 0.0
    held = (problem.images > 0).astype(float)
    images = problem.images.T @ decided + np.einsum("uc,oup->ocp", problem.images[open_], chosen)
    units = held.T @ decided + np.einsum("uc,oup->ocp", held[open_], chosen)
    marginals = np.concatenate([chosen[:, i, some].T for i, some in enumerate(choices)])
    chances = chances / chances.sum(axis=1, keepdims=True)
    wanted = np.concatenate([chances[unit, some] for unit, some in zip(open_, choices, strict=True)])
    solution = linprog(problem.penalty(images, units), A_eq=marginals, b_eq=wanted, bounds=(0, 1), method="highs")
    law = _independent(wanted, marginals) if solution.x is None else np.where(solution.x < _ZERO, 0.0, solution.x)
    parts[open_] = outcomes[rng.choice(len(outcomes), p=law / law.sum())]
    return parts


def _independent(wanted: np.ndarray, marginals: np.ndarray) -> np.ndarray:
    """The product law of the outcomes: it has the wanted chances too, and no program to solve."""
    return np.exp(marginals.T @ np.log(np.maximum(wanted, 1e-300)))


def _repair(problem: Rounding, parts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Move single units to other parts while that lowers the excess: the best move, ties at random."""
    parts = parts.copy()
    target = problem.images.sum(axis=0)[:, None] * problem.shares
    allowed = problem.images.max(axis=0)[:, None] + _ZERO
    n_parts = len(problem.shares)
    for _ in range(_MOVES):
        least = problem.excess(parts)
        if least == 0:
            break
        totals = problem.images.T @ np.eye(n_parts)[parts]
        # [U, C, P]: how far each class would be off in each part if the unit left its part for another
        held = problem.images[:, :, None]
        leaving = totals[None] - held * np.eye(n_parts)[parts][:, None, :]
        before = np.maximum(np.abs(leaving - target) - allowed, 0).sum(axis=1)
        after = np.maximum(np.abs(leaving + held - target) - allowed, 0).sum(axis=1)
        excess = after + before.sum(axis=1, keepdims=True) - before
        excess[np.arange(len(parts)), parts] = np.inf
        ranked = np.argsort(excess + rng.random(excess.shape) * _ZERO, axis=None)[:50]
        for flat in ranked:
            unit, part = np.unravel_index(flat, excess.shape)
            trial = parts.copy()
            trial[unit] = part
            if problem.excess(trial) < least - _ZERO:
                parts = trial
                break
        else:
            break
    return parts


def _undecided(chances: np.ndarray) -> np.ndarray:
    return (chances > _ZERO) & (chances < 1 - _ZERO)
