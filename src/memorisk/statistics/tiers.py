"""Tiers of a class's mean memorization (METHODS section 1, "Score").

HIGH above 0.3, MODERATE from 0.1 to 0.3, LOW below 0.1. The paper puts 0.1 into two tiers; here it is MODERATE.
"""

import math

from memorisk.runs.errors import unknown_name

LOW = "LOW"
MODERATE = "MODERATE"
HIGH = "HIGH"
INSUFFICIENT = "insufficient evidence"

MODERATE_FROM = 0.1
"""Smallest mean M, in nats, that is MODERATE."""

HIGH_ABOVE = 0.3
"""Mean M, in nats, above which a class is HIGH."""

MIN_GROUPS = 10
"""Fewer scored groups than this give no tier."""

GATES = {"high": HIGH_ABOVE, "moderate": MODERATE_FROM}
"""The mean M, in nats, that each gate (`--fail-on`) stands for."""


def tier(mean: float, n_groups: int) -> str:
    """Tier of a class's mean M.

    Args:
        mean: Class mean of M in nats; NaN when nothing was scored.
        n_groups: Groups that were scored.

    Returns:
        `"HIGH"`, `"MODERATE"`, `"LOW"`, or `"insufficient evidence"` below 10 scored groups or without a mean.
    """
    if n_groups < MIN_GROUPS or math.isnan(mean):
        return INSUFFICIENT
    return HIGH if mean > HIGH_ABOVE else MODERATE if mean >= MODERATE_FROM else LOW


def reaches(mean: float, gate: str) -> bool:
    """Whether a value lies in the gate's tier or a higher one; False for NaN.

    Args:
        mean: A class mean or a limit of its interval, in nats.
        gate: `"high"` or `"moderate"`.

    Raises:
        InputError: Unknown gate.
    """
    if gate not in GATES:
        raise unknown_name("gate", gate, GATES)
    return mean > HIGH_ABOVE if gate == "high" else mean >= MODERATE_FROM
