"""Images singled out: nearer to one training patient than chance explains, with the power to find them.

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
"""

import math
from dataclasses import dataclass

import numpy as np
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
