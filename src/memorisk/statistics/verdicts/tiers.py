"""Tiers of a class's mean memorization (METHODS section 1, "Score").

HIGH above 0.3 nats, MODERATE from 0.1 to 0.3, LOW below 0.1. The paper puts 0.1 into two tiers; here it is MODERATE.
Other losses have other limits (`scales`).
"""

import math
from typing import Literal

from memorisk.runs.errors import unknown_name
from memorisk.statistics.verdicts.scales import CROSS_ENTROPY, LossScale

LOW = "LOW"
MODERATE = "MODERATE"
HIGH = "HIGH"
INSUFFICIENT = "insufficient evidence"
GRAVEST_FIRST = (HIGH, MODERATE, LOW, INSUFFICIENT)
"""Order in which classes are listed."""

MIN_GROUPS = 10
"""Fewer scored groups than this give no tier."""


def tier(mean: float, n_groups: int, scale: LossScale = CROSS_ENTROPY) -> str:
    """Return the tier of a class's mean M.

    Args:
        mean: Class mean of M; NaN when nothing was scored.
        n_groups: Groups that were scored.
        scale: Scale of M.

    Returns:
        `"HIGH"`, `"MODERATE"`, `"LOW"`, or `"insufficient evidence"` below 10 scored groups or without a mean.

    Example:
        >>> tier(0.35, 40), tier(0.05, 40), tier(0.35, 9)
        ('HIGH', 'LOW', 'insufficient evidence')
    """
    if n_groups < MIN_GROUPS or math.isnan(mean):
        return INSUFFICIENT
    return HIGH if mean > scale.high else MODERATE if mean >= scale.moderate else LOW


def format_against_gates(value: float, *gates: float, digits: int = 2, kind: Literal["f", "g"] = "f") -> str:
    """Write a number that is compared with gates, so that what is read lies on the same side of each as the number.

    Args:
        value: The number; NaN and infinity are written as they are.
        gates: Gates that the number is compared with; NaN counts as none.
        digits: Decimals (`f`) or digits that count (`g`); more where rounding would carry it to or across a gate.
        kind: Format of the two, `f` or `g`.

    Example:
        >>> format_against_gates(0.2996, 0.3)
        '0.2996'
    """
    written = f"{value:.{digits}{kind}}"
    while digits < 17 and any(_side(float(written), gate) != _side(value, gate) for gate in gates):
        digits += 1
        written = f"{value:.{digits}{kind}}"
    return written


def _side(value: float, gate: float) -> int:
    return int(value > gate) - int(value < gate)


def reaches_gate(mean: float, gate: str, scale: LossScale = CROSS_ENTROPY) -> bool:
    """Return whether a value lies in the gate's tier or a higher one; False for NaN.

    Args:
        mean: A class mean or a limit of its interval.
        gate: `"high"` or `"moderate"`.
        scale: Scale of the mean.

    Raises:
        InputError: Unknown gate.

    Example:
        >>> reaches_gate(0.2, "moderate"), reaches_gate(0.2, "high")
        (True, False)
    """
    if gate not in scale.gates:
        raise unknown_name("gate", gate, scale.gates)
    return mean > scale.high if gate == "high" else mean >= scale.moderate
