"""Stopping rule of a training that is evaluated many times, with one error for all evaluations.

Every evaluation tests whether training patients are nearer to the drawn images than held-out ones are, with the same
real images, so that evaluations depend on each other. Evaluation k may err with probability a_k. By Bonferroni's
inequality, which holds under any dependence, a training whose images know neither part is stopped with probability

    P(any evaluation stops) <= a_1 + a_2 + ... <= error.

With K planned evaluations ``a_k = error / K`` and nothing is left after them; where their number is not known
``a_k = error / (k (k + 1))``, whose sum over all k is the error.
"""

import math
from dataclasses import dataclass

from memorisk.runs.errors import InputError


@dataclass(frozen=True)
class ErrorSpending:
    """Probability of a false stop, shared over looks.

    Example:
        >>> ErrorSpending(0.05, 10).of_look(3), ErrorSpending(0.05, 10).of_look(11)
        (0.005, 0.0)
        >>> round(sum(ErrorSpending(0.05).of_look(k) for k in range(1, 100_000)), 4)
        0.05
    """

    error: float = 0.05
    """Probability of an error in any look."""
    planned: int | None = None
    """Number K of planned looks; None where it is not known."""

    def __post_init__(self) -> None:
        if not 0 < self.error < 0.5:
            raise InputError(f"error is {self.error}; give a probability between 0 and 0.5, such as 0.05")
        if self.planned is not None and self.planned < 1:
            raise InputError(f"looks is {self.planned}; it must be a whole number of at least 1")

    def of_look(self, number: int) -> float:
        """Return a_k, the error that look k may make, k from 1.

        Raises:
            InputError: The number of the look is below 1.
        """
        if number < 1:
            raise InputError(f"look {number} is none; they are counted from 1")
        if self.planned is None:
            return self.error / (number * (number + 1))
        return self.error / self.planned if number <= self.planned else 0.0


def held_out_for_limit(nominal: float, error: float) -> int:
    """Compute how many held-out patients give `memorized_share` a lower limit above 0 that fails with this probability.

    The smallest of n held-out distances lies below the nominal quantile with probability ``1 - (1 - nominal)^n``, and
    half of the error is left to that: ``n >= ln(error / 2) / ln(1 - nominal)``.

    Args:
        nominal: Share of new patients that count as near.
        error: Error rate of the lower limit.

    Raises:
        InputError: A rate outside (0, 1).

    Example:
        >>> held_out_for_limit(0.05, 0.05), held_out_for_limit(0.05, 0.05 / 20)
        (72, 131)
    """
    if not (0 < nominal < 1 and 0 < error < 1):
        raise InputError(f"nominal {nominal} and error {error} must lie between 0 and 1")
    return math.ceil(math.log(error / 2) / math.log1p(-nominal))


def should_stop(exceeded: list[bool], patience: int = 1) -> bool:
    """Return whether the last ``patience`` looks all exceeded what their errors allow.

    Example:
        >>> should_stop([False, True, True], patience=2)
        True
    """
    return len(exceeded) >= patience and all(exceeded[-patience:])
