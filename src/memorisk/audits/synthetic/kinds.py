"""Which kinds of copies a pass is about, and which of them are surely found: each by its own interval.

An average over kinds says nothing of the kind that a release holds: a detector that is blind to one of them would pass.
Each kind's lower limit is a bound at 97.5 %; that all reach the recall is wrong for some kind no more often than one of
them is, so that no limit has to be made wider.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memorisk.audits.synthetic.reach import could_pass
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


@dataclass(frozen=True)
class PlantLimits:
    """What bounds how many planted copies can be found, whatever compares the images."""

    reachable: Mapping[str, int]
    """By kind, of its plants: those of patients who could have p-values as small as the cut."""
    n_reachable: int
    """Training patients who could."""
    patients: int
    """Training patients."""
    asked: int
    """Copies of each kind asked for."""

    def of(self, share: Mapping[str, Any], kind: str) -> int:
        """Plants of a kind that could be found."""
        return self.reachable.get(kind, share["trials"])


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


def reach_limits(by_kind: Shares, recall: float, limits: PlantLimits) -> bool:
    """Whether patients whose p-values cannot be as small as the cut keep a kind from a pass.

    They do where no kind would pass with a found copy of every patient who could be listed, and where a kind would pass
    by the copies of those alone.

    Args:
        by_kind: As `not_surely_found`.
        recall: Likewise.
        limits: Who could be listed.
    """
    missed = [kind for kind, s in by_kind.items() if s["low"] < recall]
    if not missed or limits.n_reachable == limits.patients:
        return False
    if not could_pass(limits.n_reachable, limits.patients, recall):
        return True
    return any(could_pass(by_kind[kind]["successes"], limits.of(by_kind[kind], kind), recall) for kind in missed)


def ways_out(
    by_kind: Shares, planted: list[str], recall: float, detector: str, limits: PlantLimits, held_out: str = ""
) -> str:
    """What would decide it: plants only where a kind may still reach the recall with more of them.

    Args:
        by_kind: As `not_surely_found`.
        planted: Likewise.
        recall: Likewise.
        detector: A better one, in words.
        limits: What more plants, or a better detector, cannot change.
        held_out: Which held-out patients are wanting, in words; empty where none are.
    """
    fine = [kind for kind in planted if kind in by_kind and by_kind[kind]["low"] >= recall]
    blind = any(kind not in by_kind or _seen(by_kind[kind], kind, limits) < recall for kind in planted)
    more = [kind for kind, s in by_kind.items() if s["low"] < recall and _more_plants(s, recall, limits)]
    ways = []
    if held_out and not could_pass(limits.n_reachable, limits.patients, recall):
        ways.append(f"{held_out}{f', and {detector}' if blind else ''}")
    else:
        ways += [way for way, asked in ((held_out, bool(held_out)), (detector, blind)) if asked]
    if more:
        ways.append(f"more --plants (for {listed(more, len(KINDS))})")
    if not ways:
        ways.append(f"{detector}, or a smaller --recall: a copy of every training patient would not show so much")
    if fine:
        ways.append(f"--plant-kinds {' '.join(fine)}, to say that a pass is about no other kinds")
    return "; or ".join(ways)


def _seen(found: Mapping[str, Any], kind: str, limits: PlantLimits) -> float:
    """Share found of the plants that could be; 1 where none could."""
    reachable = limits.of(found, kind)
    return found["successes"] / reachable if reachable else 1.0


def _more_plants(found: Mapping[str, Any], recall: float, limits: PlantLimits) -> bool:
    """Whether more copies of a kind can be planted, and may show the recall."""
    left = limits.patients - found["trials"]
    most = min(limits.n_reachable, found["successes"] + left)
    there = found["trials"] >= limits.asked and left > 0  # fewer than asked: no other image can be copied so
    return there and found["high"] >= recall and could_pass(most, limits.patients, recall)
