"""Which kinds of copies a pass is about, and which of them are surely found: each by its own interval.

An average over kinds says nothing of the kind that a release holds: a detector that is blind to one of them would pass.
Each kind's lower limit is a bound at 97.5 %; that all reach the recall is wrong for some kind no more often than one of
them is, so that no limit has to be made wider.
"""

from collections.abc import Mapping
from typing import Any

from memorisk.audits.synthetic.words import share
from memorisk.images.planting import KINDS
from memorisk.images.wording import listed
from memorisk.runs.errors import several
from memorisk.statistics.planted_copies import PlantPower

Shares = Mapping[str, Mapping[str, Any]]
"""By kind: ``estimate``, ``low``, ``high``, ``successes``, ``trials``."""


def least_found(by_kind: Shares) -> str:
    """The kind with the lowest lower limit."""
    return min(by_kind, key=lambda kind: by_kind[kind]["low"])


def kinds_promise(power: PlantPower) -> str:
    """What every planted kind is found with, in words.

    Args:
        power: Of plants of one kind or more.
    """
    kind, least = min(power.kinds.items(), key=lambda item: item[1].low)
    return (
        f"copies of each planted kind are found with probability at least {least.low:.2f} (of the kind found least, "
        f"{kind}: {least.level:.0%} interval, {least.trials:,} source identities, at p <= {power.cut:.2g}); a "
        "generator's own copies may be of other kinds"
    )


def about(planted: list[str]) -> str:
    """Which kinds of copies were tried, and which of `images.planting.KINDS` were not."""
    others = [kind for kind in KINDS if kind not in planted]
    not_tried = f"; not tried: {listed(others, len(KINDS))}" if others else ""
    return (
        f"{several(len(planted), 'kind', 'kinds')} of copies, each by itself: {listed(planted, len(KINDS))}{not_tried}"
    )


def not_surely_found(by_kind: Shares, planted: list[str], recall: float) -> str | None:
    """Why the kinds do not allow a pass; None where they do.

    Args:
        by_kind: Of the kinds of which a copy could be made.
        planted: All that were asked for.
        recall: What the lower limit of each must reach.
    """
    missed = [kind for kind in planted if kind in by_kind and by_kind[kind]["low"] < recall]
    unmade = [kind for kind in planted if kind not in by_kind]
    said = []
    if missed:
        each = ", ".join(f"{kind} ({by_kind[kind]['successes']:,} of {by_kind[kind]['trials']:,})" for kind in missed)
        of = several(len(planted), "planted kind", "planted kinds")
        said.append(f"copies of {len(missed):,} of {of} are missed, or too few were planted to tell: {each} found")
    if unmade:
        said.append(f"no training image could be copied in this way: {listed(unmade, len(KINDS))}")
    if not said:
        return None
    return f"{'; '.join(said)}; a pass needs {share(recall)} of every kind, by the lower end of its interval"


def ways_out(by_kind: Shares, planted: list[str], recall: float, detector: str) -> str:
    """What would decide it: plants only where a kind may still reach the recall with more of them.

    Args:
        by_kind: As `not_surely_found`.
        planted: Likewise.
        recall: Likewise.
        detector: A better one, in words.
    """
    fine = [kind for kind in planted if kind in by_kind and by_kind[kind]["low"] >= recall]
    open_kinds = [kind for kind, s in by_kind.items() if s["low"] < recall <= s["high"]]
    ways = []
    if any(kind not in by_kind or by_kind[kind]["estimate"] < recall for kind in planted):
        ways.append(detector)
    if open_kinds:
        ways.append(f"more --plants (for {listed(open_kinds, len(KINDS))})")
    if fine:
        ways.append(f"--plant-kinds {' '.join(fine)}, to say that a pass is about no other kinds")
    return "; or ".join(ways)
