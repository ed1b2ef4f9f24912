"""Permutations of classes: is a relation to frequency more than luck?

The unit is the class: its images share whatever makes it easy or hard, so that thousands of them say of frequency
what a handful of classes can (paper 000, A.11, calls its own image-level rho "pseudoreplicated"). Under the null a
class could as well have had another class's frequency. Where there are few enough arrangements of the frequencies the
program visits all; else random ones, with the observed one counted among them. Equal frequencies are the same
arrangement.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import factorial, prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.randomization.sign_flips import FloatArray

EXACT_LIMIT = 50_000
"""Number of arrangements up to which all are visited: 8 classes of different frequencies have 40,320."""
TOLERANCE = 1e-12  # equal arrangements may differ in the last bits of their sums and must still count as equal


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
