"""Which kinds of copies a pass is about, and which of them are surely noticed: each by its own interval.

An average over kinds says nothing of the kind that a release holds: a detector that is blind to one of them would pass.
Each kind's lower limit is a bound at 97.5 %; that all reach the recall is wrong for some kind no more often than one of
them is, so that no limit has to be made wider.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from memorisk.images.copies.planting import KINDS
from memorisk.images.wording import listed
from memorisk.runs.errors import several
from memorisk.statistics.copies.planted_copies import PlantPower
from memorisk.statistics.copies.singled_out import copies_noticed
from memorisk.statistics.proportions import clopper_pearson
from memorisk.statistics.verdicts.tiers import beside

Shares = Mapping[str, Mapping[str, Any]]
"""By kind: ``estimate``, ``low``, ``high``, ``successes``, ``trials``."""


def least_found(by_kind: Shares) -> str:
    """The kind with the lowest lower limit."""
    return min(by_kind, key=lambda kind: by_kind[kind]["low"])


def kinds_promise(power: PlantPower, probability: float) -> str:
    """What the audit would have noticed of copies of the planted kinds, in words.

    Args:
        power: Of plants of one kind or more.
        probability: That one copy at least would have been.
    """
    kind, least = min(power.kinds.items(), key=lambda item: item[1].low)
    n, low = copies_noticed(least.low, probability), beside(least.low, probability)
    how = (
        f"of the kind noticed least, {kind}: {least.successes:,} of {least.trials:,} source identities, lower limit "
        f"{low}"
    )
    if n is None:
        return f"no number of copies of every planted kind would surely have been noticed ({how})"
    if n == 1:
        said = "if a random training patient had been copied in one of these ways, the copy"
    else:
        said = f"if at least {n:,} training patients had been copied in one of these ways, one copy at least"
    return (
        f"{said} would have been singled out, or seen by its pixels, with probability at least "
        f"{low if n == 1 else beside(probability, probability)} ({how}); a generator's own copies may be of other kinds"
    )


def about(planted: list[str]) -> str:
    """Which kinds of copies were tried, and which of `images.copies.planting.KINDS` were not."""
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
    missed = missed_kinds(by_kind, planted, recall)
    unmade = [kind for kind in planted if kind not in by_kind]
    said = []
    if missed:
        each = ", ".join(f"{kind} ({by_kind[kind]['successes']:,} of {by_kind[kind]['trials']:,})" for kind in missed)
        of = several(len(planted), "planted kind", "planted kinds")
        said.append(f"copies of {len(missed):,} of {of} are missed, or too few were planted to tell: {each} noticed")
    if unmade:
        said.append(f"no training image could be copied in this way: {listed(unmade, len(KINDS))}")
    if not said:
        return None
    return f"{'; '.join(said)}; a pass needs {100 * recall:g} % of every kind, by the lower end of its interval"


def missed_kinds(by_kind: Shares, planted: Sequence[str], recall: float) -> list[str]:
    """Planted kinds that are not surely noticed as often as a pass needs.

    Args:
        by_kind: Of the kinds of which a copy could be made.
        planted: All that were asked for.
        recall: What the lower limit of each must reach.
    """
    return [kind for kind in planted if kind in by_kind and by_kind[kind]["low"] < recall]


def ways_out(
    by_kind: Shares, planted: list[str], recall: float, detector: str, patients: int, asked: int, held_out: str = ""
) -> str:
    """What would decide it: plants only where a kind may still reach the recall with more of them.

    Args:
        by_kind: As `not_surely_found`.
        planted: Likewise.
        recall: Likewise.
        detector: A better one, in words.
        patients: Training patients, of whom one copy each can be planted.
        asked: Copies of each kind that were.
        held_out: With how many held-out patients the missed kinds would be noticed, in words; empty where no number
            suffices.
    """
    fine = [kind for kind in planted if kind in by_kind and by_kind[kind]["low"] >= recall]
    missed = missed_kinds(by_kind, planted, recall)
    unmade = [kind for kind in planted if kind not in by_kind]
    more = [kind for kind in missed if _more_plants(by_kind[kind], recall, patients, asked)]
    blind = bool(unmade) or any(by_kind[kind]["estimate"] < recall for kind in missed)
    ways = [way for way, wanted in ((detector, blind), (held_out, bool(held_out and missed))) if wanted]
    if more:
        ways.append(f"more --plants (for {listed(more, len(KINDS))})")
    if not ways:
        ways.append(f"{detector}, or a smaller --recall: a copy of every training patient would not show so much")
    if fine:
        ways.append(f"--plant-kinds {' '.join(fine)}, to say that a pass is about no other kinds")
    return "; or ".join(ways)


def _more_plants(found: Mapping[str, Any], recall: float, patients: int, asked: int) -> bool:
    """Whether more copies of a kind can be planted, and may show the recall."""
    left = patients - found["trials"]
    there = found["trials"] >= asked and left > 0  # fewer than asked: no other image can be copied so
    most = clopper_pearson(found["successes"] + left, patients)
    return there and found["high"] >= recall and most.low >= recall
