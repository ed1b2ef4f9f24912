"""How a long computation says how far it is: functions that its caller hands in."""

from collections.abc import Callable

Counted = Callable[[int, int], None]
"""Called with (done, total)."""

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total); total 0 where it is not known."""


def quiet(stage: str, done: int, total: int) -> None:
    """Report nothing."""
