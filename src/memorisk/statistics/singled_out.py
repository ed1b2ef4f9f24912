"""Is an image nearer to one training patient than chance brings anybody? And how surely would one copy be noticed?

A list of patients (`reversed_queries`) ranks among held-out patients, so that no p-value is below ``1 / (n_held + 1)``
and few copies stay unlisted, however exact. METHODS section 6 calls an image *singled out* where it is nearer than
every held-out patient and as near as planted copies are. Of 1,000 training patients beside 200 held-out ones about five
are nearer than every held-out one in a set without copies, and wherever some planted kind lies as far as these, that
rule cries wolf in most clean sets (``docs/results/verdict_truth_sets.md``). Here the chance is computed instead. Two
statistics are taken of every real patient, training and held-out alike:

* closeness: minus the log of the distance to the nearest synthetic image (of a head: its logit);
* lead: over the synthetic images that are nearest to this patient of all real ones, the largest ``closeness to the
  patient - closeness to the next real patient``: minus the log of the second-neighbour ratio.

If the two parts are a random split and the set knows neither, both are exchangeable between the parts, whatever the
spread of the generator. Beyond the nearest tenth of the held-out patients, k of n, the tail is taken as exponential:
``P(d) ~ d^D`` as d goes to 0 for distances (Hill), and logits fall off alike. The excess x of a new patient over the
tail's start then has the exact predictive probability

    p(x) = (k + 1) / (n + 1) * (1 + x / (k * mean excess))^-k,

wider than the fitted exponential since k is small. The cut is where ``trials * p(x)`` is the chance that a clean set
may have anybody singled out, shared by both statistics (and by detectors). Real tails fall faster, since the far
patients within the tenth make it long; then the chance is smaller than stated.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError

FloatArray = NDArray[np.float64]
CHANCE = 0.05
"""Of clean sets that may have anybody singled out."""
TAIL = 0.1
"""Share of the held-out patients that the tail is fitted to: METHODS' level, and twenty patients of 200."""
LEAST_TAIL = 10
"""Fewest of them where there are so many: with ten the predictive tail at 1 % is 2.3 times the exponential one."""
NO_TAIL = 5
"""With fewer in the tail no cut is given: of 1,000 beside 50 it would lie 2.6 times as far as an exponential one."""
ENOUGH_HELD_OUT = math.ceil(LEAST_TAIL / TAIL)
"""Held-out patients whose nearest tenth is `LEAST_TAIL`."""


@dataclass(frozen=True)
class TailCut:
    """The value beyond which a training patient is singled out by one statistic."""

    cut: float
    """Beyond it; inf where the held-out patients allow none."""
    start: float
    """Where the tail begins: the (k + 1)-th largest value of the held-out patients."""
    slope: float
    """Mean excess of the k over it."""
    n_tail: int
    """k."""
    n_units: int
    """Held-out patients."""
    trials: float
    """Training patients, one for each chance to be beyond."""
    chance: float
    """Expected number of them beyond the cut, were nobody copied."""

    def expected(self, value: ArrayLike) -> FloatArray:
        """How many training patients chance brings as far, by the tail; at values before its start, those of the start.

        Args:
            value: Any shape.
        """
        excess = np.maximum(np.asarray(value, dtype=np.float64) - self.start, 0)
        if not (self.n_tail and self.slope > 0):
            return np.full(excess.shape, self.trials)
        tail = (1 + excess / (self.n_tail * self.slope)) ** -self.n_tail
        return self.trials * (self.n_tail + 1) / (self.n_units + 1) * tail

    def with_units(self, n_units: int) -> float:
        """The cut that so many held-out patients of the same kind would give: same start, same mean excess.

        Args:
            n_units: Held-out patients.
        """
        return self.cut if not np.isfinite(self.cut) else _cut(
            self.start, self.slope, _tail_of(n_units), n_units, self.trials, self.chance
        )  # fmt: skip


def tail_cut(null: ArrayLike, trials: float, chance: float = CHANCE) -> TailCut:
    """Where a training patient's value is larger than chance explains, from those of held-out patients.

    The null: values of training and held-out patients are exchangeable, and the k largest of these exceed the next one
    by exponential amounts. Values at the smallest one (patients who are nobody's nearest) are never part of the tail.

    Args:
        null: [n] of the held-out patients, one each, the independent units; larger = nearer to the set.
        trials: Training patients that may be beyond by chance.
        chance: Expected number of these.

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
    above = int((values > values[-1]).sum()) if n else 0
    k = min(_tail_of(n), above, n - 1)
    if k < NO_TAIL or not np.isfinite(values[0]):
        return TailCut(math.inf, float(values[0]) if n else math.inf, 0.0, 0, n, float(trials), chance)
    start = float(values[k])
    slope = float((values[:k] - start).mean())
    return TailCut(_cut(start, slope, k, n, trials, chance), start, slope, k, n, float(trials), chance)


def _tail_of(n: int) -> int:
    return max(LEAST_TAIL, math.ceil(TAIL * n))


def _cut(start: float, slope: float, k: int, n: int, trials: float, chance: float) -> float:
    """``trials p(cut - start) = chance``; the start where so much is not expected there either."""
    factor = trials * (k + 1) / ((n + 1) * chance)
    return start + k * slope * (factor ** (1 / k) - 1) if factor > 1 else start


def closeness(distance: ArrayLike, *, logits: bool = False) -> FloatArray:
    """Minus the log of a distance, inf at 0; of a head, whose distance is minus its logit, the logit.

    Args:
        distance: Any shape.
        logits: Whether a head gave it.
    """
    values = np.asarray(distance, dtype=np.float64)
    if logits:
        return -values
    with np.errstate(divide="ignore"):
        return -np.log(np.maximum(values, 0))


def leads(own: ArrayLike, others: ArrayLike, *, logits: bool = False) -> FloatArray:
    """By how much images are closer to one patient than to the next: ``log(others / own)``, 0 where both are equal.

    Args:
        own: [n] distance of each image to the patient.
        others: [n] to the nearest real image of anybody else.
        logits: Whether a head gave them.
    """
    ours, theirs = closeness(own, logits=logits), closeness(others, logits=logits)
    with np.errstate(invalid="ignore"):
        return np.where(ours == theirs, 0.0, ours - theirs)


def largest_lead(lead: ArrayLike, unit: ArrayLike, n_units: int) -> FloatArray:
    """[n] largest lead of the images that are nearest to each unit of all; 0 where none is.

    Args:
        lead: [S] of each synthetic image for the unit whose image is nearest to it.
        unit: [S] that unit.
        n_units: n.
    """
    found = np.zeros(n_units)
    np.maximum.at(found, np.asarray(unit, dtype=np.intp), np.maximum(np.asarray(lead, dtype=np.float64), 0))
    return found


def copies_noticed(share: float, probability: float) -> int | None:
    """The fewest copies L of which one at least is noticed with this probability: ``1 - (1 - share)^L >= probability``.

    Args:
        share: Probability that one copy is noticed; independently of the others.
        probability: Of one at least.

    Returns:
        L; None where no copy is surely noticed.

    Raises:
        InputError: The probability is not between 0 and 1.

    Example:
        >>> [copies_noticed(share, 0.8) for share in (0.8, 0.5, 0.1, 0.0)]
        [1, 3, 16, None]
    """
    if not 0 < probability < 1:
        raise InputError(f"probability is {probability}; it must lie between 0 and 1")
    if share <= 0:
        return None
    if share >= probability:
        return 1
    return math.ceil(math.log(1 - probability) / math.log(1 - share) * (1 - 1e-12))
