"""Share with its exact interval: detection rates of plants, shares of small p-values."""

import math
from dataclasses import dataclass

import scipy

from memorisk.runs.errors import InputError


@dataclass(frozen=True)
class Proportion:
    """A share of independent units and its Clopper-Pearson interval."""

    estimate: float
    """successes / trials; NaN without trials."""
    low: float
    """Lower limit; 0 without successes."""
    high: float
    """Upper limit; 1 when every trial succeeded."""
    successes: int
    """Units that had the property."""
    trials: int
    """Number of independent units."""
    level: float
    """Nominal coverage; the actual one is never below it."""


def clopper_pearson(successes: int, trials: int, level: float = 0.95) -> Proportion:
    """Exact interval for a share: the values that a binomial test at `(1 - level) / 2` per side does not reject.

    Args:
        successes: Units that had the property.
        trials: Independent units (groups, not images).
        level: Coverage.

    Returns:
        Estimate and limits; (0, 1) without trials.

    Raises:
        InputError: Not `0 <= successes <= trials`, or level outside (0, 1).

    Source:
        Clopper and Pearson (1934).

    Example:
        >>> share = clopper_pearson(0, 10)
        >>> round(share.low, 3), round(share.high, 3)
        (0.0, 0.308)
    """
    if not 0 <= successes <= trials:
        raise InputError(f"{successes} successes in {trials} trials is not a share; give 0 <= successes <= trials")
    if not 0 < level < 1:
        raise InputError(f"level is {level}; give a coverage between 0 and 1, such as 0.95")
    tail = (1 - level) / 2
    low = float(scipy.special.betaincinv(successes, trials - successes + 1, tail)) if successes else 0.0
    high = float(scipy.special.betaincinv(successes + 1, trials - successes, 1 - tail)) if successes < trials else 1.0
    return Proportion(successes / trials if trials else math.nan, low, high, int(successes), int(trials), level)
