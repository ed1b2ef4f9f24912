"""From which similarity on are two images copies, and not two people who look alike?

METHODS section 6, "Near copies".

Of N pairs of different people the most alike ones are a tail, and the threshold is where this tail would leave fewer
than `CHANCE` of the N. Similarities are correlations; their Fisher transform ``z = atanh(r)`` of d independent
numbers falls as ``exp(-(d - 2) z)`` far out and faster before, so that an exponential fitted to the k largest and
continued errs to the safe side where all pairs are of one kind. Real sets hold kinds of images (flat ones, ones with
the same device in them) whose pairs are more alike, and their tails bend the other way. Hence

* fits at nested depths k = K, K/3, K/9, ... down to `LEAST`, each with the upper 95 % limit of its mean excess
  (``2 k s / chi2_0.05(2 k)``), and of their thresholds ``u_k + s_k ln(k / CHANCE)`` the largest;
* the true copies under two ids do not set it: pairs that even the deepest fit, its largest fifth counted and not
  measured, expects fewer than ``CHANCE * APART`` of are left out, again until no more are. Halves of four real sets
  held up to 120 times as many pairs beyond a continued fit of that depth as it said (CIFAR-10, natural images), so
  that what is left out is out of reach of the bend.

The units are pairs of people, each pair once, by its most alike images: a patient with 60 images makes no 60 pairs.
Where fewer than `LEAST` of them are the most alike twentieth there is no threshold, and only identical pixels count.

Held by `tests/statistics/test_chance_pairs.py` on made tails, `tests/images/test_near_copies.py` on made kinds of
images and `recipes/near_copies.py` on halves of real sets.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from memorisk.runs.errors import InputError

CHANCE = 0.01
"""Pairs of different people that a whole set is expected to have above the threshold."""
APART = 1e-4
"""A pair stands apart from the tail where it expects fewer than this share of `CHANCE`."""
LEAST = 30
"""Pairs that an exponential is fitted to: its mean is then known to a third (upper 95 % limit 1.39 times it)."""
_LARGEST = 1 - 1e-6
_SURE = 0.05


@dataclass(frozen=True)
class ChanceThreshold:
    """From which similarity on a pair is none that chance makes of two people."""

    similarity: float | None
    """Correlation; None where there is no such threshold."""
    expected: float
    """Pairs of different people that are expected at least so alike among all that are compared, at most."""
    n_people: int
    """Whose pairs gave the tail."""
    n_fitted: int
    """Pairs of people of the fit that gave the threshold; 0 without one."""
    apart: int
    """Pairs of people that were left out of every fit, since they stand apart."""
    n_pairs: int
    """Pairs of different people that are compared."""
    why: str = ""
    """Why there is none."""

    @property
    def rate(self) -> float:
        """How often two different people would be called one, at most: `expected` of all pairs; 0 without threshold."""
        return self.expected / self.n_pairs if self.similarity is not None else 0.0

    @property
    def words(self) -> str:
        """One plain sentence."""
        if self.similarity is None:
            return f"Only identical pixels count as copies: {self.why}."
        return (
            f"Two images count as nearly the same from a similarity of {self.similarity:.3f} on: of "
            f"{self.n_pairs:,} pairs of different people fewer than {self.expected:g} are expected to be so alike by "
            f"chance, one in {1 / self.rate:,.0f}."
        )


def tail_depth(n_people: int) -> int:
    """Pairs of people that the deepest fit takes: four a person, at most a twentieth of all.

    Four a person stay a tail where copies under two ids are one a person (they then are an eighth of it), and the
    twentieth keeps the body of a small set out.

    Args:
        n_people: Different people.
    """
    return min(4 * n_people, n_people * (n_people - 1) // 40)


def pairs_of_people(
    one: NDArray[np.int64], other: NDArray[np.int64], similarity: NDArray[np.floating]
) -> NDArray[np.floating]:
    """[P] of each pair of people the similarity of its most alike images, falling.

    Args:
        one: [K] number of the person in one image.
        other: [K] in the other.
        similarity: [K] of the two images, falling.
    """
    low, high = np.minimum(one, other).astype(np.int64), np.maximum(one, other).astype(np.int64)
    first = np.unique(low * (int(high.max(initial=0)) + 1) + high, return_index=True)[1]
    return similarity[np.sort(first)]


def chance_threshold(
    similarity: ArrayLike, n_people: int, *, expected: float = CHANCE, compared: int | None = None
) -> ChanceThreshold:
    """Where fewer than ``expected`` pairs of different people would lie by chance.

    Args:
        similarity: [K] correlations of the most alike pairs of different people, each pair of people once
            (`pairs_of_people`), falling; more than `tail_depth` are not used, fewer make a shallower fit.
        n_people: Different people among whom these pairs were found.
        expected: Pairs among all that are compared.
        compared: Pairs of different people that are compared where the threshold is used; those of ``n_people`` if not
            given. More where they are a sample, or where a set of images is compared with all of them.

    Returns:
        The threshold, and what it was fitted to.

    Raises:
        InputError: The similarities do not fall, or are none.
    """
    r = np.asarray(similarity, dtype=np.float64)
    if r.ndim != 1 or not np.isfinite(r).all() or (np.diff(r) > 0).any() or (np.abs(r) > 1 + 1e-6).any():
        raise InputError("similarities of pairs must be correlations, one a pair, from the most alike on")
    z = np.arctanh(np.clip(r, -_LARGEST, _LARGEST))[: tail_depth(n_people) + 1]
    own = n_people * (n_people - 1) // 2
    compared = own if compared is None else compared

    def without(why: str, apart: int = 0) -> ChanceThreshold:
        """No threshold."""
        return ChanceThreshold(None, 0.0, n_people, 0, apart, compared, why)

    if len(z) <= LEAST:
        few = f"{n_people:,} people" if n_people < _people_needed() else f"{len(z):,} pairs of people who look alike"
        return without(
            f"{few} are too few to tell how alike two different ones can be "
            f"(a tail takes {LEAST} pairs of them and {_people_needed()} people)"
        )
    in_tail = expected * own / compared
    apart = _apart(z, in_tail)
    rest = z[apart:]
    depths = _depths(len(rest) - 1)
    if not depths:
        return without("the most alike pairs of different people stand apart from all others: no tail is left", apart)
    reached = [_continued(rest, k, in_tail) for k in depths]
    at = int(np.argmax(reached))
    if reached[at] >= np.arctanh(_LARGEST):
        return without(
            "the most alike images under different ids are as alike as copies are, in a thumbnail of 32 x 32: people "
            "look alike, or many have several ids",
            apart,
        )
    return ChanceThreshold(float(np.tanh(reached[at])), expected, n_people, depths[at], apart, compared)


def _apart(z: NDArray[np.float64], expected: float) -> int:
    """How many of the largest stand apart from the deepest fit; its largest fifth is counted, not measured."""
    apart = 0
    while len(z) - apart > LEAST:
        rest = z[apart:]
        k = len(rest) - 1
        cut = k // 5
        excess = rest[:k] - rest[k]
        mean = (excess[cut:].sum() + cut * excess[cut]) / (k - cut)
        found = int((z >= rest[k] + mean * np.log(k / (expected * APART))).sum())
        if found <= apart:
            return apart
        apart = found
    return apart


def _depths(most: int) -> list[int]:
    """Nested depths, each a third of the one before."""
    found = []
    while most >= LEAST:
        found.append(most)
        most //= 3
    return found


def _continued(z: NDArray[np.float64], k: int, expected: float) -> float:
    """Where an exponential through the k largest leaves ``expected``, with the upper limit of its mean."""
    mean = float((z[:k] - z[k]).mean())
    upper = 2 * k * mean / float(stats.chi2.ppf(_SURE, 2 * k))
    return float(z[k] + upper * np.log(k / expected))


def _people_needed() -> int:
    """Smallest number of people whose deepest fit takes `LEAST` pairs."""
    return next(n for n in range(2, 10 * LEAST) if tail_depth(n) >= LEAST)
