"""Tails of chance: cuts beyond which a near image or a near pair is explained by a copy and not by chance.

**Images singled out.** Single out images that are nearer to one training patient than chance explains, and compute
the power to do so.

A list of patients (`copies.reversed_queries`) ranks training patients among held-out ones. Its p-values are at
least ``1 / (n_held + 1)``, so that few copies stay unlisted, however exact. METHODS section 6 calls an image
*singled out* where it is nearer than every held-out patient and as near as planted copies are. In a set without
copies about five of 1,000 training patients are nearer than all of 200 held-out ones; where some planted kind lies
as far as these, that rule has a false alarm in most sets (``docs/results/verdict_truth_sets.md``). Here the
probability is computed instead. Two statistics are computed for every real patient, training and held-out alike:

* closeness: minus the log of the distance to the nearest synthetic image (of a head: its logit);
* lead: over the synthetic images that are nearest to this patient of all real ones, the largest ``closeness to the
  patient - closeness to the next real patient``: minus the log of the second-neighbour ratio.

If the two parts are a random split and the generator saw neither, both statistics are exchangeable between the
parts, whatever the spread of the generator. Beyond the nearest tenth of the held-out patients (k of n) the tail is
assumed to be exponential: ``P(d) ~ d^D`` as d goes to 0 for distances (Hill 1975), and logits fall in the same way. The
excess x of a new patient over the tail's start then has the exact predictive probability

    p(x) = (k + 1) / (n + 1) * (1 + x / (k * mean excess))^-k,

which is wider than the fitted exponential since k is small. The cut is the value where ``trials * p(x)`` equals the
probability with which a set without copies may have any patient singled out; both statistics, and all detectors, share
it. Real tails fall faster, since the far patients within the tenth make the mean excess large; the probability is
then smaller than stated.

**Pairs of people.** Compute the similarity from which on two images are copies, and not images of two people who
look alike.

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

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.verdicts.levels import SINGLED_OUT_LEVEL

FloatArray = NDArray[np.float64]
TAIL = 0.1
"""Share of the held-out patients to which the tail is fitted: METHODS' level, twenty patients of 200."""
MIN_TAIL = 10
"""Fewest patients in the tail, where there are so many: with ten the predictive tail at 1 % is 2.3 times the
exponential one."""
MIN_CUT_TAIL = 5
"""Fewest patients in the tail with which a cut is given: of 1,000 with 50 held out it would lie 2.6 times as far as an
exponential one."""
MIN_HELD_OUT = math.ceil(MIN_TAIL / TAIL)
"""Fewest held-out patients whose nearest tenth holds `MIN_TAIL`."""
EXPECTED_PAIRS = 0.01
"""Expected number of pairs of different people above the threshold, in a whole set."""
OUTLIER_SHARE = 1e-4
"""Share of `EXPECTED_PAIRS` below which a pair is apart: fewer such pairs are expected by the tail."""
MIN_TAIL_PAIRS = 30
"""Fewest pairs to which an exponential is fitted: the upper 95 % limit of its mean is then 1.39 times the mean."""
_LARGEST = 1 - 1e-6
_MEAN_ERROR = 0.05


@dataclass(frozen=True)
class TailCut:
    """The cut of one statistic, beyond which a training patient is singled out, and the tail it was computed from."""

    cut: float
    """Value beyond which a patient is singled out; inf where the held-out patients allow no cut."""
    start: float
    """Start of the tail: the (k + 1)-th largest value of the held-out patients."""
    slope: float
    """Mean excess of the k largest values over the start."""
    n_tail: int
    """Number k of held-out patients in the tail."""
    n_units: int
    """Number n of all held-out patients."""
    trials: float
    """Number of training patients, each of which may be beyond the cut by chance."""
    chance: float
    """Expected number of training patients beyond the cut where no person is copied."""

    def expected(self, value: ArrayLike) -> FloatArray:
        """Compute the expected number of training patients at least as far in the tail, ``trials * p(x)``.

        Args:
            value: Statistic, of any shape; a value before the start of the tail counts as the start.

        Returns:
            Expected numbers, of the shape of ``value``.
        """
        excess = np.maximum(np.asarray(value, dtype=np.float64) - self.start, 0)
        if not (self.n_tail and self.slope > 0):
            return np.full(excess.shape, self.trials)
        tail = (1 + excess / (self.n_tail * self.slope)) ** -self.n_tail
        return self.trials * (self.n_tail + 1) / (self.n_units + 1) * tail

    def with_units(self, n_units: int) -> float:
        """Compute the cut that another number of held-out patients would give, with the same start and mean excess.

        Args:
            n_units: Number of held-out patients.
        """
        return self.cut if not np.isfinite(self.cut) else _cut(
            self.start, self.slope, _tail_of(n_units), n_units, self.trials, self.chance
        )  # fmt: skip


def tail_cut(null: ArrayLike, trials: float, chance: float = SINGLED_OUT_LEVEL) -> TailCut:
    """Compute the value beyond which a training patient is nearer to the set than chance explains.

    The cut solves ``trials * p(cut - start) = chance``. Null hypothesis: values of training and held-out patients are
    exchangeable, and the k largest held-out values exceed the next one by exponential amounts. Values equal to the
    smallest one (patients who are the nearest of no image) are never part of the tail.

    Args:
        null: Statistics of the held-out patients, [n], one value each, the independent units; larger = nearer to the
            set.
        trials: Number of training patients.
        chance: Expected number of training patients beyond the cut where no person is copied.

    Returns:
        Cut with its tail; an infinite cut where fewer than `MIN_CUT_TAIL` held-out patients are in the tail.

    Raises:
        InputError: A value is NaN, or trials or chance are not positive.

    Source:
        Hill (1975); Pickands (1975); the predictive form is the ratio of an exponential excess to the mean of k others.

    Example:
        >>> found = tail_cut(-np.log(1 - np.arange(200) / 200), trials=1000)
        >>> found.n_tail, round(found.start, 2), round(found.cut, 1)
        (20, 2.25, 10.9)
    """
    values = np.sort(np.asarray(null, dtype=np.float64))[::-1]
    if np.isnan(values).any() or not (trials > 0 and chance > 0):
        raise InputError("held-out values must be numbers, and trials and chance positive")
    n = len(values)
    above = int((values > values[-1:]).sum())
    k = min(_tail_of(n), above, n - 1)
    if k < MIN_CUT_TAIL or not np.isfinite(values[0]):
        return TailCut(math.inf, float(values[0]) if n else math.inf, 0.0, 0, n, float(trials), chance)
    start = float(values[k])
    slope = float((values[:k] - start).mean())
    return TailCut(_cut(start, slope, k, n, trials, chance), start, slope, k, n, float(trials), chance)


def _tail_of(n: int) -> int:
    """Compute k of n held-out patients."""
    return max(MIN_TAIL, math.ceil(TAIL * n))


def _cut(start: float, slope: float, k: int, n: int, trials: float, chance: float) -> float:
    """Solve ``trials p(cut - start) = chance``; the start where fewer are expected beyond it already."""
    factor = trials * (k + 1) / ((n + 1) * chance)
    return start + k * slope * (factor ** (1 / k) - 1) if factor > 1 else start


def closeness(distance: ArrayLike, *, logits: bool = False) -> FloatArray:
    """Compute the closeness ``-log(distance)``, inf at 0; of a head, whose distance is minus its logit, the logit.

    Args:
        distance: Distances, of any shape.
        logits: Whether the distances are those of a head.

    Returns:
        Closeness, of the same shape; larger = nearer.

    Example:
        >>> closeness([2.0, 0.5]).round(3).tolist()
        [-0.693, 0.693]
    """
    values = np.asarray(distance, dtype=np.float64)
    if logits:
        return -values
    with np.errstate(divide="ignore"):
        return -np.log(np.maximum(values, 0))


def neighbour_leads(own: ArrayLike, others: ArrayLike, *, logits: bool = False) -> FloatArray:
    """Compute by how much each image is closer to one patient than to the next: ``log(others / own)``.

    Args:
        own: Distance of each image to the patient, [n].
        others: Distance of each image to the nearest real image of any other person, [n].
        logits: Whether the distances are those of a head; the lead is then a difference of logits.

    Returns:
        [n] leads; 0 where both distances are equal.
    """
    nearest, next_nearest = closeness(own, logits=logits), closeness(others, logits=logits)
    with np.errstate(invalid="ignore"):
        return np.where(nearest == next_nearest, 0.0, nearest - next_nearest)


def largest_lead(lead: ArrayLike, unit: ArrayLike, n_units: int) -> FloatArray:
    """Compute each patient's largest lead over the synthetic images whose nearest patient it is.

    Args:
        lead: [S] lead of each synthetic image for its nearest patient.
        unit: [S] number of that patient.
        n_units: n, the number of patients.

    Returns:
        [n] largest leads; 0 for a patient who is the nearest of no synthetic image.
    """
    largest = np.zeros(n_units)
    np.maximum.at(largest, np.asarray(unit, dtype=np.intp), np.maximum(np.asarray(lead, dtype=np.float64), 0))
    return largest


def copies_for_power(share: float, probability: float) -> int | None:
    """Compute the fewest copies L of which at least one is noticed: ``1 - (1 - share)^L >= probability``.

    Args:
        share: Probability that one copy is noticed, independently of the others.
        probability: Probability that at least one is to be noticed.

    Returns:
        L; None where a single copy is never surely noticed (``share`` 0).

    Raises:
        InputError: The probability is not between 0 and 1.

    Example:
        >>> [copies_for_power(share, 0.8) for share in (0.8, 0.5, 0.1, 0.0)]
        [1, 3, 16, None]
    """
    if not 0 < probability < 1:
        raise InputError(f"probability is {probability}; it must lie between 0 and 1")
    if share <= 0:
        return None
    if share >= probability:
        return 1
    return math.ceil(math.log(1 - probability) / math.log(1 - share) * (1 - 1e-12))


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
