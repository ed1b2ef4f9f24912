"""Random splits by group: each class's share met within one group, all groups equally likely to land in each part.

METHODS section 1 ("Splits", and the prerequisite that T, C and E come from one random group split). The test part
is the null of the canaries, so a part must not attract large groups, rare labels or early rows: each group's
probability of landing in a part is that part's share, whatever the group holds. Greedy splitters, which place the
largest group first, do not have this property. Here the split is drawn by *dependent rounding*, the cube method of
balanced sampling (Deville and Tillé, Biometrika 91, 2004), with several parts at once. Every group starts with the
shares as its probabilities. The flight moves them at random, without drift, in directions that leave every class's
number of images in every part as it is, until groups are decided. The landing is the linear program of that paper:
among all ways to decide the last few groups, a distribution with exactly their chances that misses the totals
least. Only the contents of groups enter, never their names, and they come in random order: groups with the same
contents are exchangeable.

A share is met within the images of the class's largest group, when every group holds one class, for this reason: a walk
that keeps the class's images in three parts ends with at most two undecided groups, which have one part in common. They
can be decided with exactly their chances so that never both land there (or never neither, if the chances require
it), and then no part is off by more than one of the two. The landing minimises the expected excess over all laws
with these chances, hence finds 0. No such theorem exists for groups with several labels (a split that good need not
exist): groups are then moved while that helps.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from memorisk.runs.errors import InputError, one_line

_ZERO = 1e-9  # chances this near 0 or 1 are decided
_OUTCOMES = 1500  # ways to decide the last units that the landing considers together: 3^6 = 729, 2^10 = 1024
_MOVES, _DRAWS = 500, 5
_EXCESS_WEIGHT = 1000.0  # an image beyond the allowance weighs more than a part without the class
PARTS = ("train", "canary", "test")
NOT_AUDITABLE = "not auditable"
_STREAM = 21  # keeps the random stream of splits apart from those of pairing and training


@dataclass(frozen=True)
class Rounding:
    """Units to divide into parts, and the shares of the parts.

    Attributes:
        images: Number of images of each class in the unit, [U, C].
        composition: Number for the contents of the unit, [U]; the same number means the same row of ``images``.
        shares: Shares of the parts, [P], positive, adding up to 1.
    """

    images: np.ndarray
    composition: np.ndarray
    shares: np.ndarray

    def excess(self, parts: np.ndarray) -> float:
        """Measure how far a split misses the shares: images beyond one group of the share, parts without the class."""
        one_hot = np.eye(len(self.shares))[parts]
        return float(self.penalty(self.images.T @ one_hot, (self.images > 0).T.astype(float) @ one_hot))

    def penalty(self, images: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Return the excess of class totals: images and units [..., C, P] -> [...]."""
        off = np.abs(images - self.images.sum(axis=0)[:, None] * self.shares)
        beyond = np.maximum(off - self.images.max(axis=0)[:, None] - _ZERO, 0.0)
        return _EXCESS_WEIGHT * beyond.sum(axis=(-2, -1)) + (units < 0.5).sum(axis=(-2, -1))


def draw_rounding(problem: Rounding, rng: np.random.Generator) -> np.ndarray:
    """Draw one division of the units into parts.

    Args:
        problem: Units, their contents, and the shares.
        rng: Generator to draw from.

    Returns: Part of every unit, [U]. For units of one class the excess in images is 0 by theorem. With several
        classes per unit, a result that exceeds is repaired by moving units while that helps, and drawn again if it does
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
    """Draw by bulk, flight and landing; every unit's chances of a part are the shares."""
    images = problem.images.astype(float)
    chances = _bulk(problem, rng)
    order = rng.permutation(len(chances))
    order = order[np.lexsort((problem.images.sum(axis=1)[order], problem.images.argmax(axis=1)[order]))]
    # Totals in images and in units first; then units are dropped, then the classes with the widest allowance.
    widest_first = np.argsort(-problem.images.max(axis=0), kind="stable")
    weight_sets = [np.hstack([images, images > 0])] + [images[:, widest_first[i:]] for i in range(images.shape[1])]
    for weights in weight_sets:
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
        undecided = len(units) - decided
        if undecided:
            chances[units[decided:]] = np.maximum(len(units) * problem.shares - whole, 0) / undecided
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
    """Walk in one window along each direction that keeps all sums, until a probability reaches 0 or 1."""
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
    """Return an orthonormal basis [entries, d] of the moves that keep unit sums and each class's sum in each part."""
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
    """Return the directions of a basis that leave one entry alone; one dimension fewer unless all of them did."""
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
    targets = np.concatenate([chances[unit, some] for unit, some in zip(open_, choices, strict=True)])
    solution = scipy.optimize.linprog(
        problem.penalty(images, units), A_eq=marginals, b_eq=targets, bounds=(0, 1), method="highs"
    )
    law = _independent(targets, marginals) if solution.x is None else np.where(solution.x < _ZERO, 0.0, solution.x)
    parts[open_] = outcomes[rng.choice(len(outcomes), p=law / law.sum())]
    return parts


def _independent(targets: np.ndarray, marginals: np.ndarray) -> np.ndarray:
    """Return the product law of the outcomes: it has the wanted chances too, without a program to solve."""
    return np.exp(marginals.T @ np.log(np.maximum(targets, 1e-300)))


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


def split_by_group(
    labels: Sequence[str] | np.ndarray,
    groups: Sequence[str] | np.ndarray,
    *,
    fractions: tuple[float, float, float] = (0.7, 0.15, 0.15),
    seed: int,
    linked: Iterable[tuple[str, str]] | None = None,
) -> np.ndarray:
    """Draw the training, canary and test parts (T, C, E) at random, by group, stratified by class.

    For class c with n_c images, of which the largest group has g_c, part p gets f_p n_c images within g_c. Each group
    lands in part p with probability f_p; groups with the same labels are exchangeable. The result depends on the ids
    and the seed, not on the order of the rows.

    Args:
        labels: Label of each image, [N]; several labels joined by "|".
        groups: Group of each image, [N]; a group is never divided.
        fractions: Shares of T, C and E; they add up to 1. ``balanced`` has (0, 0.85, 0.15).
        seed: Seed that decides the split.
        linked: Pairs of groups to keep together, such as groups that share an identical image.

    Returns: Part of each image, [N]: "train", "canary" or "test"; "not auditable" for images of a class too small to
        split (`small_classes`), which join training only. The other images of their groups are "train", whatever the
        shares.

    Raises:
        InputError: The shares do not add up to 1, the arrays differ in length or are empty, or a linked group
            does not occur.
    """
    shares = _checked_shares(fractions)
    units = _units(labels, groups, linked)
    small = _small(units, shares)
    forced = units.images[:, small].sum(axis=1) > 0
    part_of_unit = np.zeros(units.n, dtype=np.intp)
    used = np.flatnonzero(shares > 0)
    rng = np.random.default_rng([_STREAM, seed])
    for rows, classes in _blocks(units.images, forced):
        problem = Rounding(units.images[np.ix_(rows, classes)], units.composition[rows], shares[used])
        part_of_unit[rows] = used[draw_rounding(problem, rng)]
    if shares[1] == shares[2] and rng.random() < 0.5:  # a coin makes the laws of C and E the same, repairs included
        part_of_unit = np.array([0, 2, 1])[part_of_unit]
    parts = np.array(PARTS, dtype=object)[part_of_unit[units.of_image]]
    parts[units.label_of_image[:, small].sum(axis=1) > 0] = NOT_AUDITABLE
    return parts


def small_classes(
    labels: Sequence[str] | np.ndarray,
    groups: Sequence[str] | np.ndarray,
    *,
    fractions: tuple[float, float, float] = (0.7, 0.15, 0.15),
    linked: Iterable[tuple[str, str]] | None = None,
) -> list[str]:
    """List the classes too small to split: fewer groups than give every part one, that is 1 / (the smallest share).

    Their groups join training only. A class that is left with too few groups is then too small as well, and so on.
    """
    units = _units(labels, groups, linked)
    return [units.classes[c] for c in _small(units, _checked_shares(fractions))]


def merge_linked(groups: Sequence[str] | np.ndarray, linked: Iterable[tuple[str, str]] | None) -> np.ndarray:
    """Give groups that belong together one name, the first of theirs in alphabetical order.

    Args:
        groups: Group of each image, [N].
        linked: Pairs of groups that belong together.

    Returns:
        Merged group of each image, [N].

    Raises:
        InputError: A linked group is not the group of any image.
    """
    names, of_image = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
    place = {name: i for i, name in enumerate(names)}
    edges = []
    for pair in linked or ():
        for name in pair:
            if str(name) not in place:
                raise InputError(
                    f"linked group {one_line(name)!r} is not the group of any image: link groups of the manifest"
                )
        edges.append((place[str(pair[0])], place[str(pair[1])]))
    if not edges:
        return names[of_image].astype(object)
    start, end = np.array(edges).T
    graph = scipy.sparse.coo_array((np.ones(len(edges)), (start, end)), shape=(len(names), len(names)))
    _, component = scipy.sparse.csgraph.connected_components(graph, directed=False)
    first = np.unique(component, return_index=True)[1]  # names are sorted, so the first occurrence is the first name
    return names[first[component[of_image]]].astype(object)


@dataclass(frozen=True)
class _Units:
    """Groups (merged where linked), in the order of their names.

    Attributes:
        classes: Labels, sorted, [C].
        of_image: Unit of each image, [N].
        images: Number of images of the class in the unit, [U, C].
        label_of_image: Whether the image has the label, [N, C].
        composition: Number for each multiset of (joined) labels, [U].
    """

    classes: list[str]
    of_image: np.ndarray
    images: np.ndarray
    label_of_image: np.ndarray
    composition: np.ndarray

    @property
    def n(self) -> int:
        return len(self.images)


def _units(labels: Sequence[str] | np.ndarray, groups: Sequence[str] | np.ndarray, linked) -> _Units:
    text = np.asarray(labels, dtype=str)
    if len(text) != len(groups):
        raise InputError(f"{len(text)} labels but {len(groups)} groups: a split needs one of each for every image")
    if not len(text):
        raise InputError("no images to split: give at least one")
    whole, whole_of_image = np.unique(text, return_inverse=True)
    _, of_image = np.unique(merge_linked(groups, linked).astype(str), return_inverse=True)
    classes = sorted({label for joined in whole for label in joined.split("|")})
    place = {label: c for c, label in enumerate(classes)}
    of_whole = np.zeros((len(whole), len(classes)), dtype=bool)
    for row, joined in enumerate(whole):
        of_whole[row, [place[label] for label in joined.split("|")]] = True
    label_of_image = of_whole[whole_of_image]
    images = np.zeros((int(of_image.max()) + 1, len(classes)), dtype=np.int64)
    np.add.at(images, of_image, label_of_image)
    held: list[Counter] = [Counter() for _ in images]
    for unit, joined in zip(of_image, whole_of_image, strict=True):
        held[unit][int(joined)] += 1
    kinds = [tuple(sorted(counter.items())) for counter in held]
    number = {kind: i for i, kind in enumerate(sorted(set(kinds)))}
    composition = np.array([number[kind] for kind in kinds])
    return _Units(classes, of_image, images, label_of_image, composition)


def _small(units: _Units, shares: np.ndarray) -> np.ndarray:
    """Return the numbers of classes that are too small to split, to the fixed point."""
    needed = 1 / shares[shares > 0].min()
    small = np.zeros(len(units.classes), dtype=bool)
    while True:
        free = units.images[:, small].sum(axis=1) == 0
        now = small | ((units.images[free] > 0).sum(axis=0) < needed - 1e-9)
        if (now == small).all():
            return np.flatnonzero(small)
        small = now


def _blocks(images: np.ndarray, forced: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return units and classes that can be split separately: (units, classes) with no label in two blocks."""
    free = np.flatnonzero(~forced)
    n_classes = images.shape[1]
    unit, label = np.nonzero(images[free])
    shape = (n_classes + len(free), n_classes + len(free))
    graph = scipy.sparse.coo_array((np.ones(len(unit)), (label, unit + n_classes)), shape=shape)
    _, component = scipy.sparse.csgraph.connected_components(graph, directed=False)
    of_class, of_unit = component[:n_classes], component[n_classes:]
    return [(free[of_unit == b], np.flatnonzero(of_class == b)) for b in np.unique(of_unit)]


def _checked_shares(fractions: tuple[float, float, float]) -> np.ndarray:
    shares = np.asarray(fractions, dtype=float)
    if shares.shape != (3,) or not np.isfinite(shares).all() or (shares < 0).any() or abs(shares.sum() - 1) > 1e-9:
        raise InputError(
            f"fractions {tuple(fractions)} are not shares of training, canary and test: give three that add up to 1"
        )
    return shares / shares.sum()
