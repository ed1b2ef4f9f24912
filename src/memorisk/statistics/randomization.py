"""Randomization: sign flips, permutations that keep classes and groups together, and balanced random halves.

**Sign flips.** Units of several images and their sign flips, which `memorization.sign_flips` uses; no statistics of
their own.

Values are added seed by seed in one fixed order with elementwise operations only. A matrix product would be
shorter, but its kernels add in an order that depends on where a column lies, so that the same signed gaps could
give two different sums.

**Permutations of classes.** Is a relation to frequency more than luck? Frequencies permuted over the classes of a
data set (METHODS section 1).

The unit is the class: its images share whatever makes it easy or hard, so that thousands of them say of frequency
what a handful of classes can (paper 000, A.11, calls its own image-level rho "pseudoreplicated"). Under the null a
class could as well have had another class's frequency. Where there are few enough arrangements of the frequencies the
program visits all; else random ones, with the observed one counted among them. Equal frequencies are the same
arrangement.

**Permutations of groups.** Permutations that keep classes and groups together: the null "within a class, it does
not matter which patient".

Groups are exchanged whole, and only with groups that hold as many images of each class (one stratum); so what
images of one patient share stays together, and class means do not change. A group without an equal stays where it is.

**Halves.** Random halves that hold the same: every unit falls to either side with chance 1/2, totals as equal as
can be.

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

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import factorial, prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

BLOCK = 2**20
"""Number of flipped values held at a time (8 MiB per array of them)."""

MIN_RANDOM_FLIPS, MAX_RANDOM_FLIPS = 1000, 2**16
"""Limits of the number of random flips, the identity included, however many or few images there are."""
EXACT_LIMIT = 50_000
"""Number of arrangements up to which all are visited: 8 classes of different frequencies have 40,320."""
TOLERANCE = 1e-12  # equal arrangements may differ in the last bits of their sums and must still count as equal
WINDOW = 8
"""Number of units per column, and of images per image of the pivot, that weigh it up."""


@dataclass(frozen=True)
class Units:
    """Images of one class, ordered so that each unit's images are adjacent and units of one size are adjacent."""

    ids: NDArray
    """Ids of the units, `[U]`, sorted."""
    sizes: IntArray
    """Number of images per unit, `[U]`."""
    scored: NDArray[np.bool_]
    """Whether the unit was scored in each seed, `[U, S]`."""
    gap: FloatArray
    """Signed gaps, `[S, I]`, 0 where not scored."""
    unit_of: IntArray
    """Position in `ids` of each image's unit, `[I]`; sorted by (size, position)."""
    elsewhere: FloatArray | None = None
    """Signed sums over the images of each unit in other classes, `[S, U]`, which flip with the unit; 0 for units of one
    class, None where each unit is of one class (`sign_flips.agreements`)."""

    @property
    def several(self) -> NDArray[np.bool_]:
        """Return whether each unit has several images, in this class and others, `[U]`."""
        several = self.sizes > 1
        return several if self.elsewhere is None else several | (self.elsewhere != 0).any(axis=0)

    @property
    def n_seeds(self) -> int:
        """Return the number of seeds, scored or not."""
        return len(self.gap)

    def take(self, members: IntArray, pattern: NDArray[np.bool_] | IntArray) -> "Units":
        """Take the given units (sorted positions) in these seeds, by mask or by position."""
        position = np.full(len(self.ids), -1)
        position[members] = np.arange(len(members))
        images = position[self.unit_of] >= 0
        return Units(
            self.ids[members],
            self.sizes[members],
            self.scored[np.ix_(members, pattern)],
            self.gap[np.ix_(pattern, images)],
            position[self.unit_of[images]],
            None if self.elsewhere is None else self.elsewhere[np.ix_(pattern, members)],
        )

    def maxima(self, values: FloatArray) -> FloatArray:
        """Return the maximum over each unit's images: `[flips, I]` to `[flips, U]`."""
        order = np.lexsort((np.arange(len(self.ids)), self.sizes))  # units as their images are laid out
        starts = np.cumsum(self.sizes[order]) - self.sizes[order]
        out = np.empty((len(values), len(self.ids)))
        if len(order):
            out[:, order] = np.maximum.reduceat(values, starts, axis=1)
        return out

    def sorted_by_size(self, values: FloatArray) -> Iterator[tuple[int, FloatArray]]:
        """Yield each size k with the values of its units, `[flips, units, k]`, ascending over a unit's images."""
        start = 0
        for k, n in zip(*np.unique(self.sizes, return_counts=True), strict=True):
            block = values[:, start : start + n * k].reshape(len(values), n, k)
            yield int(k), np.sort(block, axis=-1) if k > 1 else block
            start += n * k


def make_units(
    name: str, gap: ArrayLike, unit: ArrayLike, *, sign: ArrayLike | None = None, n_seeds: int | None = None
) -> Units:
    """Check units and compute their signed gaps.

    Args:
        name: Name of the images, for messages.
        gap: Loss gaps of the images, `[S, I]`.
        unit: Unit ids of the images, `[I]`.
        sign: Signs in {-1, 0, +1}, `[S, I]`; None for test images, which neither twin saw: all +1.
        n_seeds: Number of seeds expected, None to accept any.

    Raises:
        InputError: Shapes do not fit, a sign is out of range or differs within a unit, or a scored gap is not finite.
    """
    d = np.asarray(gap, dtype=np.float64)
    s = np.ones_like(d) if sign is None else np.asarray(sign, dtype=np.float64)
    ids, unit_of, sizes = np.unique(np.asarray(unit), return_inverse=True, return_counts=True)
    if d.ndim != 2 or s.shape != d.shape or unit_of.shape != d.shape[1:] or n_seeds not in (None, len(d)):
        want = "seeds" if n_seeds is None else f"{n_seeds} seeds"
        raise InputError(
            f"{name} gaps {d.shape}, signs {s.shape} and unit ids {unit_of.shape} do not fit; "
            f"give [{want}, images] twice and one id per image"
        )
    if not np.isin(s, (-1, 0, 1)).all():
        raise InputError(f"{name} signs must be +1 (A trained on it), -1 (B did) or 0 (both or neither)")
    if not np.isfinite(d[s != 0]).all():
        raise InputError(
            f"the loss gap of a {name} image is not finite; find the model whose loss became NaN or infinite"
        )
    order = np.lexsort((unit_of, sizes[unit_of]))
    first = np.zeros(len(ids), dtype=np.intp)
    first[unit_of[::-1]] = np.arange(len(unit_of))[::-1]
    differs = (s != s[:, first[unit_of]]).any(0)
    if differs.any():
        raise InputError(
            f"unit {str(ids[unit_of[np.flatnonzero(differs)[0]]])!r} has images on both sides of one seed's split; "
            "a group must fall into one half as a whole"
        )
    signed = np.multiply(s, d, out=np.zeros(d.shape), where=s != 0)
    return Units(
        ids=ids, sizes=sizes.astype(np.int64), scored=(s[:, first] != 0).T, gap=signed[:, order], unit_of=unit_of[order]
    )


def plan_flips(n_seeds: int, n_images: int, max_draws: int, seed: int) -> tuple[int, bool]:
    """Choose the number of flips, and return whether they are all there are.

    Args:
        n_seeds: Number of seeds S' to flip.
        n_images: Number of images of the class, canaries and tests, whose flipped values are computed.
        max_draws: Budget of flipped values.
        seed: Seed of the flips, a non-negative integer, as NumPy's generators need.

    Raises:
        InputError: The budget is below one value, or the seed is negative.
    """
    if max_draws < 1 or seed < 0:
        raise InputError(f"max_draws is {max_draws} and seed is {seed}; give at least 1 and at least 0")
    if n_seeds < 62 and 2**n_seeds * n_images <= max_draws:
        return 2**n_seeds, True
    return min(max(max_draws // n_images, MIN_RANDOM_FLIPS), MAX_RANDOM_FLIPS), False


def flip_blocks(n_seeds: int, flips: int, exact: bool, seed: int, *, width: int) -> Iterator[FloatArray]:
    """Yield blocks `[block, S]` of signs, the identity first; `width` values per flip decide a block's size."""
    step = max(1, BLOCK // max(width, 1))
    rng = np.random.default_rng(seed)
    for start in range(0, flips, step):
        index = np.arange(start, min(start + step, flips))
        if exact:
            bits = (index[:, None] >> np.arange(n_seeds)) & 1
        else:
            bits = rng.integers(0, 2, size=(len(index), n_seeds))
            bits[index == 0] = 0
        yield np.where(bits, -1.0, 1.0)


def flipped_sums(signs: FloatArray, gap: FloatArray) -> FloatArray:
    """Sum flipped gaps over seeds: signs `[flips, S]`, gaps `[S, I]`, out `[flips, I]`; in seed order."""
    total = np.zeros((len(signs), gap.shape[1]))
    for column, gap_s in zip(signs.T, gap, strict=True):
        total += column[:, None] * gap_s
    return total


@dataclass(frozen=True)
class PermutationTest:
    """Test of a statistic against its values under permuted frequencies."""

    statistic: float
    """Observed statistic; NaN where it is undefined, and then so is every p."""
    p_two_sided: float
    """Share of arrangements with at least this absolute value, the observed one among them."""
    p_negative: float
    """Share of arrangements at least this negative: rare classes are memorized more."""
    smallest_two_sided: float
    """Smallest two-sided p that any data of these frequencies (and these values) could have had."""
    smallest_negative: float
    """Smallest one-sided p of such data."""
    n_arrangements: int
    """Number of arrangements visited, the observed one included."""
    exact: bool
    """Whether these are all arrangements."""


def arrangements(
    keys: ArrayLike, draws: int = 9999, seed: int = 0, limit: int = EXACT_LIMIT
) -> tuple[NDArray[np.intp], bool]:
    """Arrange keys over places: every different arrangement if there are at most ``limit``, else random ones.

    Different arrangements of C keys of which t_1, t_2, ... are equal: ``C! / (t_1! t_2! ...)``; each represents equally
    many permutations, so that shares of arrangements are shares of permutations.

    Args:
        keys: Keys of any sortable type, [C].
        draws: Number of random permutations in addition to the observed order, where not all are visited.
        seed: Seed of the random permutations.
        limit: Largest number of arrangements that are all visited.

    Returns:
        Indices into ``keys``, [P, C], the observed order (0, 1, ..., C - 1 up to equal keys) first among random ones,
        somewhere among all; and whether these are all.

    Raises:
        InputError: No keys, or fewer than one draw.
    """
    values = np.asarray(keys)
    if values.ndim != 1 or not len(values) or draws < 1:
        raise InputError("arrangements need at least one key and at least one draw")
    _, first, level, counts = np.unique(values, return_index=True, return_inverse=True, return_counts=True)
    n = len(values)
    if n_arrangements(values) <= limit:
        return first[_multiset(counts)], True
    shuffled = np.random.default_rng(seed).permuted(np.broadcast_to(np.arange(n), (draws, n)), axis=1)
    return first[level[np.vstack([np.arange(n), shuffled])]], False


def n_arrangements(keys: ArrayLike) -> int:
    """Count the different arrangements of keys [C], ``C! / (t_1! t_2! ...)``.

    Example:
        >>> n_arrangements([1, 1, 2])
        3
    """
    counts = np.unique(np.asarray(keys), return_counts=True)[1]
    return factorial(int(counts.sum())) // prod(factorial(int(c)) for c in counts)


def _multiset(counts: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return every different order of ``counts[l]`` copies of each level l, grown place by place: [P, C]."""
    prefix, remaining = np.empty((1, 0), dtype=np.intp), counts[None].astype(np.intp)
    for _ in range(int(counts.sum())):
        row, level = np.nonzero(remaining)
        prefix, remaining = np.column_stack([prefix[row], level]), remaining[row]
        remaining[np.arange(len(level)), level] -= 1
    return prefix


def permutation_test(observed: float, values: ArrayLike, *, exact: bool) -> PermutationTest:
    """Compute p-values and their floors from a statistic under every arrangement.

    ``p = #{|T_perm| >= |T|} / P``, floor ``= #{|T_perm| = max |T_perm|} / P``; one-sided with -T.

    Args:
        observed: Observed statistic T.
        values: T under each arrangement, the observed one included, [P].
        exact: Whether these are all arrangements.
    """
    t = np.asarray(values, dtype=np.float64)
    if np.isnan(observed) or np.isnan(t).any():
        return no_test(len(t), exact)
    largest, lowest = float(np.abs(t).max()), float(t.min())
    slack = TOLERANCE * max(abs(observed), min(1.0, largest))
    return PermutationTest(
        statistic=float(observed),
        p_two_sided=float((np.abs(t) >= abs(observed) - slack).mean()),
        p_negative=float((t <= observed + slack).mean()),
        smallest_two_sided=float((np.abs(t) >= largest * (1 - TOLERANCE)).mean()),
        smallest_negative=float((t <= lowest + TOLERANCE * abs(lowest)).mean()),
        n_arrangements=len(t),
        exact=exact,
    )


def no_test(n: int = 0, exact: bool = True) -> PermutationTest:
    """Return the test of what cannot be measured: NaN throughout."""
    nan = float("nan")
    return PermutationTest(nan, nan, nan, nan, nan, n, exact)


def within_classes(
    statistic: Callable[[FloatArray], FloatArray], frequency: FloatArray, draws: int, seed: int
) -> PermutationTest:
    """Test one data set by a statistic of [P, C] frequencies, one row per arrangement.

    Args:
        statistic: Function of the frequencies, from [P, C] to [P].
        frequency: Frequencies of the classes as observed, [C].
        draws: Number of random permutations where not all are visited.
        seed: Seed of the random permutations.
    """
    orders, exact = arrangements(frequency, draws, seed)
    observed = float(statistic(frequency[None])[0])
    return permutation_test(observed, statistic(frequency[orders]), exact=exact)


@dataclass(frozen=True)
class GroupPermutation:
    """Strata of groups that may be exchanged."""

    strata: tuple[NDArray[np.intp], ...]
    """Row numbers of each stratum, one `[k, s]` array: k groups of s images each, sorted by class."""
    n: int
    """Number of rows."""
    n_groups: int
    """Number of groups."""

    @property
    def n_movable(self) -> int:
        """Number of groups that have at least one other to be exchanged with."""
        return sum(len(rows) for rows in self.strata if len(rows) > 1)

    def smallest_p(self, draws: int) -> float:
        """Return the smallest p-value that this many random permutations, or all there are, can give."""
        log_all = sum(math.lgamma(len(rows) + 1) for rows in self.strata)
        return max(1 / (draws + 1), math.exp(-log_all))

    def draw(self, rng: np.random.Generator) -> NDArray[np.intp]:
        """Draw the row whose value each row gets, `[n]`."""
        sources = np.arange(self.n)
        for rows in self.strata:
            if len(rows) > 1:
                sources[rows.ravel()] = rows[rng.permutation(len(rows))].ravel()
        return sources


def group_permutation(label: ArrayLike, group: ArrayLike) -> GroupPermutation:
    """Find strata of groups with equally many images of each class.

    Args:
        label: Class of each row, `[n]`.
        group: Group of each row, `[n]`.

    Raises:
        InputError: Lengths differ.
    """
    labels = np.unique(np.asarray(label), return_inverse=True)[1]
    groups = np.unique(np.asarray(group), return_inverse=True)[1]
    if labels.shape != groups.shape or labels.ndim != 1:
        raise InputError(f"label and group have shapes {labels.shape} and {groups.shape}; give one of each per image")
    if not len(labels):
        return GroupPermutation((), 0, 0)
    order = np.lexsort((labels, groups))
    starts = np.flatnonzero(np.r_[True, groups[order][1:] != groups[order][:-1]])
    members: dict[bytes, list[NDArray[np.intp]]] = {}
    for rows in np.split(order, starts[1:]):
        members.setdefault(labels[rows].tobytes(), []).append(rows)
    return GroupPermutation(tuple(np.stack(rows) for rows in members.values()), len(labels), len(starts))


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
