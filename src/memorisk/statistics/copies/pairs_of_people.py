"""Pairs of people: the similarity from which on two images are copies, not two people who look alike.

METHODS section 6, "Near copies".

Of N pairs of different people the most alike ones are a tail. The threshold is the similarity beyond which this
tail leaves fewer than `EXPECTED_PAIRS` of the N pairs. Similarities are correlations. The Fisher transform
``z = atanh(r)`` of a correlation of d independent numbers falls as ``exp(-(d - 2) z)`` far out and faster before,
so that an exponential fitted to the k largest values and extrapolated is conservative where all pairs are of one
kind. Real sets hold kinds of images (flat ones, ones with the same device in them) whose pairs are more alike, and
their tails bend the other way. Hence

* exponentials are fitted at nested depths k = K, K/3, K/9, ... down to `MIN_TAIL_PAIRS`, each with the upper 95 %
  limit of its mean excess (``2 k s / chi2_0.05(2 k)``), and the largest of their thresholds
  ``u_k + s_k ln(k / EXPECTED_PAIRS)`` is taken;
* true copies under two ids do not raise the threshold: pairs of which even the deepest fit, its largest fifth
  counted and not measured, expects fewer than ``EXPECTED_PAIRS * OUTLIER_SHARE`` are left out, repeatedly until no
  more are. Halves of four real sets held up to 120 times as many pairs beyond an extrapolated fit of that depth as
  expected (CIFAR-10, natural images), so that the bend alone leaves no pair out.

The units are pairs of people, each pair once, by its most alike images: a patient with 60 images does not count as
60 pairs. Where the most alike twentieth holds fewer than `MIN_TAIL_PAIRS` pairs the threshold is missing, and only
identical pixels count.

Held by `tests/statistics/copies/test_chance_pairs.py` on made tails, `tests/images/copies/test_near_copies.py` on made
kinds of images and `recipes/near_copies.py` on halves of real sets.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError

EXPECTED_PAIRS = 0.01
"""Expected number of pairs of different people above the threshold, in a whole set."""
OUTLIER_SHARE = 1e-4
"""Share of `EXPECTED_PAIRS` below which a pair is apart: fewer such pairs are expected by the tail."""
MIN_TAIL_PAIRS = 30
"""Fewest pairs to which an exponential is fitted: the upper 95 % limit of its mean is then 1.39 times the mean."""
_LARGEST = 1 - 1e-6
_MEAN_ERROR = 0.05


@dataclass(frozen=True)
class ChanceThreshold:
    """Similarity from which on a pair counts as copies, and the tail of pairs of different people behind it."""

    similarity: float | None
    """Correlation; None without a threshold."""
    expected: float
    """Upper limit of the expected number of pairs of different people above the threshold."""
    n_people: int
    """Number of people whose pairs form the tail."""
    n_fitted: int
    """Number of pairs of people in the fit that gave the threshold; 0 without one."""
    apart: int
    """Number of pairs of people that are apart and were left out of every fit."""
    n_pairs: int
    """Number of pairs of different people that are compared."""
    why: str = ""
    """Reason why the threshold is missing."""
    given: bool = False
    """Whether the user gave it, so that nothing is known of pairs of different people above it."""

    @property
    def rate(self) -> float:
        """Upper limit of the share of pairs of different people that are called copies; 0 without a threshold."""
        return self.expected / self.n_pairs if self.similarity is not None else 0.0

    @property
    def words(self) -> str:
        """Threshold, or the reason why it is missing, in one sentence."""
        if self.similarity is None:
            return f"Only identical pixels count as copies: {self.why}."
        if self.given:
            return (
                f"Two images count as nearly the same from a similarity of {self.similarity:g} on, as requested: "
                "how many pairs of different people are so alike is not known."
            )
        return (
            f"Two images count as nearly the same from a similarity of {self.similarity:.3f} on: of "
            f"{self.n_pairs:,} pairs of different people fewer than {self.expected:g} are expected to be so alike by "
            f"chance, one in {1 / self.rate:,.0f}."
        )


def tail_depth(n_people: int) -> int:
    """Compute how many pairs of people the deepest fit takes: ``min(4 n, n (n - 1) / 40)``.

    With four pairs per person, copies of all people under two ids are an eighth of the tail; a twentieth of all pairs
    keeps the body of a small set's distribution out of it.

    Args:
        n_people: n, the number of different people.
    """
    return min(4 * n_people, n_people * (n_people - 1) // 40)


def pairs_of_people(
    one: NDArray[np.int64], other: NDArray[np.int64], similarity: NDArray[np.floating]
) -> NDArray[np.floating]:
    """Reduce pairs of images to pairs of people: of each pair of people its most alike images.

    Args:
        one: [K] number of the person in the first image of each pair.
        other: [K] number of the person in the second image.
        similarity: [K] similarity of the two images, in falling order.

    Returns:
        [P] largest similarity of each pair of people, in falling order.
    """
    low, high = np.minimum(one, other).astype(np.int64), np.maximum(one, other).astype(np.int64)
    first = np.unique(low * (int(high.max(initial=0)) + 1) + high, return_index=True)[1]
    return similarity[np.sort(first)]


def chance_threshold(
    similarity: ArrayLike, n_people: int, *, expected: float = EXPECTED_PAIRS, compared: int | None = None
) -> ChanceThreshold:
    """Compute the similarity above which fewer than ``expected`` pairs of different people are expected by chance.

    Args:
        similarity: Correlations of the most alike pairs of different people, [K], each pair of people once
            (`pairs_of_people`), in falling order; more than `tail_depth` are not used, fewer make a shallower fit.
        n_people: Number of people among which these pairs were found.
        expected: Expected number of pairs above the threshold, of all pairs that are compared.
        compared: Number of pairs of different people that are compared where the threshold is used; if not given, the
            pairs of ``n_people``. It is larger where these people are a sample, or where a further set is compared with
            all of them.

    Returns:
        The threshold, and the fit that gave it.

    Raises:
        InputError: ``similarity`` holds no correlations in falling order.

    Source:
        METHODS section 6; the module docstring has the formulas.
    """
    r = np.asarray(similarity, dtype=np.float64)
    if r.ndim != 1 or not np.isfinite(r).all() or (np.diff(r) > 0).any() or (np.abs(r) > 1 + 1e-6).any():
        raise InputError("similarities of pairs must be correlations, one a pair, from the most alike on")
    z = np.arctanh(np.clip(r, -_LARGEST, _LARGEST))[: tail_depth(n_people) + 1]
    own = n_people * (n_people - 1) // 2
    compared = own if compared is None else compared

    def without(why: str, apart: int = 0) -> ChanceThreshold:
        """Give no threshold, and the reason."""
        return ChanceThreshold(None, 0.0, n_people, 0, apart, compared, why)

    if len(z) <= MIN_TAIL_PAIRS:
        few = f"{n_people:,} people" if n_people < _people_needed() else f"{len(z):,} pairs of people who look alike"
        return without(
            f"{few} are too few to tell how alike two different ones can be "
            f"(a tail takes {MIN_TAIL_PAIRS} pairs of them and {_people_needed()} people)"
        )
    in_tail = expected * own / compared
    apart = outlying_pairs(z, in_tail)
    rest = z[apart:]
    depths = _depths(len(rest) - 1)
    if not depths:
        return without("the most alike pairs of different people are apart from all others: no tail is left", apart)
    reached = [_extrapolated(rest, k, in_tail) for k in depths]
    at = int(np.argmax(reached))
    if reached[at] >= np.arctanh(_LARGEST):
        return without(
            "the most alike images under different ids are as alike as copies are, in a thumbnail of 32 x 32: people "
            "look alike, or many have several ids",
            apart,
        )
    return ChanceThreshold(float(np.tanh(reached[at])), expected, n_people, depths[at], apart, compared)


def outlying_pairs(z: NDArray[np.float64], expected: float) -> int:
    """Count the largest values that are apart from the deepest fit; its largest fifth is counted, not measured.

    Args:
        z: Values in falling order, all of them in the fit.
        expected: Number of values beyond the threshold where none is a copy; those are apart of which the fit expects
            fewer
            than `OUTLIER_SHARE` of it.
    """
    apart = 0
    while len(z) - apart > MIN_TAIL_PAIRS:
        rest = z[apart:]
        k = len(rest) - 1
        cut = k // 5
        excess = rest[:k] - rest[k]
        mean = (excess[cut:].sum() + cut * excess[cut]) / (k - cut)
        count = int((z >= rest[k] + mean * np.log(k / (expected * OUTLIER_SHARE))).sum())
        if count <= apart:
            return apart
        apart = count
    return apart


def _depths(most: int) -> list[int]:
    """List the nested depths, each a third of the one before, down to `MIN_TAIL_PAIRS`."""
    depths = []
    while most >= MIN_TAIL_PAIRS:
        depths.append(most)
        most //= 3
    return depths


def _extrapolated(z: NDArray[np.float64], k: int, expected: float) -> float:
    """Extrapolate an exponential fitted to the k largest to where it leaves ``expected``, by its mean's upper limit."""
    mean = float((z[:k] - z[k]).mean())
    upper = 2 * k * mean / float(scipy.stats.chi2.ppf(_MEAN_ERROR, 2 * k))
    return float(z[k] + upper * np.log(k / expected))


def _people_needed() -> int:
    """Compute the smallest number of people whose deepest fit takes `MIN_TAIL_PAIRS` pairs."""
    return next(n for n in range(2, 10 * MIN_TAIL_PAIRS) if tail_depth(n) >= MIN_TAIL_PAIRS)
