"""Outcomes of an audit's checks, as data: something noticed, nothing noticed, or could not look.

A check that could not look says nothing of what it looks for. It is a doubt, and never counts as "nothing noticed"
(METHODS section 6, "Third form"). Code acts on `outcome` and `reason`; `findings` renders them for readers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import nan

NOTICED, NOTHING, COULD_NOT_LOOK = "noticed", "nothing noticed", "could not look"


@dataclass(frozen=True, kw_only=True)
class Check:
    """Outcome of one check."""

    name: str
    """Code of the check, such as ``uneven-gaps``."""
    outcome: str
    """`NOTICED`, `NOTHING` or `COULD_NOT_LOOK`."""
    reason: str = ""
    """Code of what was noticed, or of why the check could not look; a key of ``check_wording.SENTENCES``."""
    label: str = ""
    """Class that was looked at; empty for the whole audit."""
    power: float = nan
    """Probability of noticing what a pass must notice; NaN where the check has no such number."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Numbers behind the outcome, by name with unit."""
    seeds: tuple[int, ...] = ()
    """Seeds in which it was noticed."""
    voids: bool = False
    """Whether the outcome makes the models' losses inconclusive: the verdict neither fails nor passes."""

    @property
    def is_doubt(self) -> bool:
        """Return whether the outcome keeps a pass away."""
        return self.outcome != NOTHING
