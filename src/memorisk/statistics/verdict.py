"""The verdict: pass, fail or undecided, with the reasons and what would decide it.

METHODS section 1, "Verdict". Two readings of it that matter are fixed here: a class that cannot be tested has not
been shown to have no flagged group, so it leaves the verdict undecided, and so does a class without an interval (too
small to split, never scored). Neither is ever counted as "0 memorized".
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.statistics.intervals import MIN_SEEDS
from memorisk.statistics.multiple import DEFAULT_Q
from memorisk.statistics.tiers import GATES, INSUFFICIENT, MIN_GROUPS, reaches

PASS = "pass"
FAIL = "fail"
UNDECIDED = "undecided"


COLUMNS = ("label", "low", "high", "tier", "flagged", "testable")
"""What the table must have; `n_groups_scored`, `n_test_groups`, `why_not` make the reasons more exact when
present."""


@dataclass(frozen=True)
class Decision:
    """What a pipeline acts on and a reader is told first."""

    status: str
    """`"pass"`, `"fail"` or `"undecided"`; only the first is a pass (exit code 0)."""
    gate: str
    """`"high"` or `"moderate"`."""
    why: list[str]
    """One sentence per reason for the status."""
    what_would_decide: list[str]
    """One sentence per class that left it undecided; empty otherwise."""
    tiers: dict[str, str] = field(default_factory=dict)
    """Tier of every class."""


@dataclass(frozen=True)
class Finding:
    """What another part of an audit (its attacks, its target, its coverage) says to the verdict."""

    status: str
    """`"fail"`, or `"undecided"` for what keeps a pass away. What raises no objection is no finding."""
    why: str
    """One sentence."""
    what_would_decide: str = ""
    """The way out; empty for a failure."""


@dataclass(frozen=True)
class Units:
    """What a group is called in sentences."""

    one: str = "group"
    many: str = "groups"

    def count(self, n: int) -> str:
        """``1 group``, ``3 groups``."""
        return f"{n} {self.one if n == 1 else self.many}"


GROUPS = Units()


def decide(
    per_class: pd.DataFrame | Mapping[str, Any],
    gate: str = "high",
    *,
    q: float = DEFAULT_Q,
    units: Units = GROUPS,
    n_seeds: int = 0,
    findings: Sequence[Finding] = (),
) -> Decision:
    """Apply the verdict rule to the table of classes.

    `pass` only if every class's upper limit is below the gate's tier, no group is flagged, and every class had a tier
    and could be tested; `fail` if a lower limit lies in the gate's tier or above, or groups are flagged; else
    `undecided`. No gate passes everything: what stops a pipeline is the exit code's matter, not the verdict's.

    Args:
        per_class: A row a class: `label`, `low`, `high` (limits of the mean M, in nats; NaN without an interval),
            `tier`,
            `flagged` (number of groups listed), `testable` (whether a list was possible); optional `n_groups_scored`,
            `n_test_groups`, `why_not` (why no test was possible).
        gate: `"high"` (0.3) or `"moderate"` (0.1).
        q: Level of the lists, for saying how many seeds would make a class testable.
        units: What a group is called.
        n_seeds: Seeds that this audit had; 0 for unknown. With fewer than three no class's limits count, so that only
            flagged groups fail and nothing passes.
        findings: What other parts of the audit found. One that fails fails the audit; one that is undecided keeps
            every pass away, and is told where the audit fails, too.

    Returns:
        Status with reasons, one a class: those above the gate first, the furthest above at the head, then those with
        most flagged. An empty table is undecided.

    Raises:
        InputError: Unknown gate, or a missing column.

    Source:
        METHODS section 1, "Verdict".
    """
    if gate not in GATES:
        raise unknown_name("gate", gate, GATES)
    table = pd.DataFrame(per_class)
    if missing := [c for c in COLUMNS if c not in table.columns]:
        raise InputError(f"the class table lacks {', '.join(missing)}; a verdict needs {', '.join(COLUMNS)}")
    rows: list[dict[str, Any]] = table.to_dict("records")  # pyright: ignore[reportAssignmentType]
    tiers = {str(row["label"]): str(row["tier"]) for row in rows}
    few = few_seeds(n_seeds)
    failures = sorted(
        (found for row in rows if (found := _failure(row, gate, units, few is not None))), key=lambda f: f[0]
    )
    failed = [reason for _, reason in failures] + [f.why for f in findings if f.status == FAIL]
    others = [(f.why, f.what_would_decide) for f in findings if f.status == UNDECIDED]
    if failed:
        why, deciding = [*failed, *(why for why, _ in others)], [way for _, way in others]
        return Decision(FAIL, gate, why, deciding, tiers)
    doubts = [doubt for row in rows for doubt in _doubts(row, gate, q, units, n_seeds)]
    if not rows:
        doubts = [("no class was audited", "a class with enough images to be split")]
    elif few is not None:
        doubts.insert(0, few)
    doubts += others
    if doubts:
        return Decision(UNDECIDED, gate, [why for why, _ in doubts], [what for _, what in doubts], tiers)
    passed = f"the upper limit of every class ({len(rows)}) is below {GATES[gate]} and no {units.one} is flagged"
    return Decision(PASS, gate, [passed], [], tiers)


def few_seeds(n_seeds: int) -> tuple[str, str] | None:
    """Why so few seeds keep every pass away, and what would decide it; None where there are enough.

    Args:
        n_seeds: Seeds of the audit; 0 for unknown.
    """
    if not 0 < n_seeds < MIN_SEEDS:
        return None
    seeds = f"{n_seeds} seed{'' if n_seeds == 1 else 's'}"
    reason = f"{seeds}: what two trainings differ by, whatever they saw, cannot be told from what one remembers"
    return reason, f"at least {MIN_SEEDS} seeds (--models {2 * MIN_SEEDS})"


def _failure(row: dict[str, Any], gate: str, units: Units, few: bool) -> tuple[tuple[float, int], str] | None:
    """Why this class fails the gate, with its place in the order of severity; None where it does not.

    With few seeds its limits do not count: they are conditional on these trainings, and a candidate that came out
    better than its partner fits everything better, seen or not.
    """
    name, low, flagged = one_line(row["label"], 80), float(row["low"]), int(row["flagged"])
    reasons, above = [], reaches(low, gate) and not few
    if above:
        where = f"above {GATES[gate]}" if gate == "high" else f"at or above {GATES[gate]}"
        reasons.append(f"the lower limit of its mean M, {low:.3g}, is {where}")
    if flagged > 0:
        reasons.append(f"{units.count(flagged)} {'is' if flagged == 1 else 'are'} flagged")
    if not reasons:
        return None
    return (-low if above else math.inf, -flagged), f"class {name}: {', and '.join(reasons)}"


def _doubts(row: dict[str, Any], gate: str, q: float, units: Units, n_seeds: int) -> list[tuple[str, str]]:
    """Why this class leaves the gate undecided, each with what would decide it."""
    name, low, high = one_line(row["label"], 80), float(row["low"]), float(row["high"])
    doubts = []
    if row["tier"] == INSUFFICIENT:
        n = row.get("n_groups_scored", math.nan)
        counted = "too few" if pd.isna(n) else f"{int(n)}"
        doubts.append(
            (
                f"class {name}: insufficient evidence ({counted} scored {units.many}, {MIN_GROUPS} needed)",
                f"class {name}: more {units.many} of it, to at least {MIN_GROUPS} scored",
            )
        )
    elif math.isnan(high):
        doubts.append((f"class {name}: its mean M has no interval", f"class {name}: more images of it, or more seeds"))
    elif not high < GATES[gate]:
        doubts.append(
            (
                f"class {name}: the interval of its mean M, {low:.3g} to {high:.3g}, holds {GATES[gate]}",
                f"class {name}: a shorter interval, by more models (seeds) or more images of it",
            )
        )
    if not bool(row["testable"]):
        reason = row.get("why_not")
        told = one_line(reason) if isinstance(reason, str) and reason else f"no list of {units.many} was possible"
        doubts.append((f"class {name} cannot be tested: {told}", f"class {name}: {_to_test(row, q, units, n_seeds)}"))
    return doubts


def _to_test(row: dict[str, Any], q: float, units: Units, n_seeds: int) -> str:
    """What would make a class testable: a list is possible once `q (n_test + 1) 2^S >= 1`."""
    n_test = row.get("n_test_groups", math.nan)
    if pd.isna(n_test):
        return "more seeds, or more test images of it"
    seeds = max(1, n_seeds + 1, int(np.ceil(np.log2(1 / (q * (int(n_test) + 1))) - 1e-9)))
    twins = f"{seeds} seed{'s' if seeds > 1 else ''} of twins (--models {2 * seeds})"
    return f"at least {twins} with its {units.count(int(n_test))} in the test part, or more test images of it"
