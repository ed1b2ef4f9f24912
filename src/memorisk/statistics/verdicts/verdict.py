"""The verdict: pass, fail or undecided, with the reasons and what would decide it.

METHODS section 6. A verdict is about what was not seen, so it rests on power: a pass says that nothing was found and
that a patient with a gap of `notice` would have been found in nine of ten cases in each stratum (`noticeable_gap`). A
failure by flagged groups says what share of them chance explains, and what tells chance from memorization, or, where
far more are flagged than chance explains, what to do about them. A class in which that is not so has not been shown to
have no such patient, and neither has a class without an interval (too small to split, never scored). Neither is ever
counted as "0 memorized".

The verdict's list has one level and one correction, whatever the settings of the lists that are shown: a stricter list
is shorter, and must not be a way to pass.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from memorisk.runs.errors import InputError, unknown_name
from memorisk.statistics.intervals.means import MIN_SEEDS
from memorisk.statistics.verdicts.class_reasons import (
    ClassFails,
    FewSeeds,
    FlaggedByChance,
    GateInInterval,
    InsufficientEvidence,
    LittleNoticed,
    MeanBelowZero,
    MeansBelowGate,
    NoClass,
    NoMeanInterval,
    NoneFlagged,
    NoRoom,
    NotTestable,
    PowerOfPass,
    models_remedy,
)
from memorisk.statistics.verdicts.levels import NOTICE, PASS_POWER
from memorisk.statistics.verdicts.noticeable_gap import GAPS, MIN_ROOM, STRATA
from memorisk.statistics.verdicts.reasons import Bearing, Gravity, Reason
from memorisk.statistics.verdicts.remedies import (
    Claim,
    Remedy,
    SmallerClaim,
    Way,
    Ways,
    advice,
    chosen_remedies,
    claims_instead,
    rounded_up,
)
from memorisk.statistics.verdicts.reversed_groups import is_surely_below_zero
from memorisk.statistics.verdicts.tiers import GRAVEST_FIRST, INSUFFICIENT, MIN_GROUPS, reaches_gate
from memorisk.statistics.verdicts.units import GROUP_NAMES, UnitNames

PASS = "pass"
FAIL = "fail"
UNDECIDED = "undecided"

COLUMNS = ("label", "low", "high", "tier", "flagged", "room", "noticeable_gap", "notice_power")
"""Columns that the table must have; `n_groups_scored`, `n_test_groups`, `n_groups`, `models_needed`, `why_not`,
`high_over_groups`, `noticeable_stratum` and the noticeable gaps of the strata make the reasons more exact when
present."""


@dataclass(frozen=True)
class Decision:
    """Verdict with its reasons, as a pipeline acts on it and a reader sees it first."""

    status: str
    """`"pass"`, `"fail"` or `"undecided"`; only the first is a pass (exit code 0)."""
    gate: str
    """`"high"` or `"moderate"`."""
    reasons: tuple[Reason, ...]
    what_would_decide: list[str]
    """Sentences of `remedies.advice`, in the order in which to act on them; empty where nothing is open."""
    remedies: list[Remedy] = field(default_factory=list)
    """Feasible remedies behind these sentences, one for each way and class."""
    claims: list[SmallerClaim] = field(default_factory=list)
    """Smaller claims in place of what these data cannot decide."""
    tiers: dict[str, str] = field(default_factory=dict)
    """Tier of every class."""

    @property
    def why(self) -> list[str]:
        """Sentences of the reasons."""
        return [reason.text for reason in self.reasons]


def decide(
    per_class: pd.DataFrame | Mapping[str, Any],
    gate: str = "high",
    *,
    notice: float = NOTICE,
    units: UnitNames = GROUP_NAMES,
    n_seeds: int = 0,
    flips: bool = True,
    design: str = "balanced",
    elsewhere: bool = False,
    findings: Sequence[Reason] = (),
) -> Decision:
    """Apply the verdict rule to the table of classes.

    `fail` if groups are listed, or a lower limit lies in the gate's tier or above in a class with at least
    `MIN_GROUPS` scored groups; `pass` only if nothing fails, every class's upper limit is below the gate's tier, and
    in every class and stratum a single patient of the gap `notice` is found with probability `PASS_POWER`; else
    `undecided`. What stops a pipeline is the exit code's matter, not the verdict's.

    Args:
        per_class: Table with one row per class: `label`, `low`, `high` (limits of the mean M; NaN without an
            interval), `tier`, `flagged` (groups on the verdict's list), `room`, `noticeable_gap` and `notice_power`
            (probability of finding the gap `notice` in the stratum where it is smallest; NaN without a list); optional
            `n_groups_scored`, `n_test_groups`, `models_needed`, `why_not` (why no list was possible),
            `high_over_groups` (upper limit of the mean M over groups and trainings; a mean below 0 is that of the class
            only where this is, too).
        gate: `"high"` or `"moderate"`, of the gates of the scale.
        notice: Gap of one patient that a pass must be able to notice.
        units: Names of a group, and the scale of losses, in whose unit limits and gaps are.
        n_seeds: Seeds that this audit had; 0 for unknown. With fewer than three no class's limits count, so that only
            flagged groups fail and nothing passes.
        flips: Whether the signs of the seeds' gaps may be flipped; False in the `paper` design, where more models give
            a list no more room.
        design: Design of the audit; each but `balanced` leaves unscored some patients that `balanced` would score.
        elsewhere: Whether the models were trained by something else than this command (`audit losses`).
        findings: Reasons of other parts of the audit (attacks, target, coverage). One that bears on a failure fails
            the audit; a doubt keeps every pass away, and is reported where the audit fails, too; a limit is reported
            last; what supports a pass is reported with it. One whose gravity is void leaves the audit undecided.

    Returns:
        Status with reasons, one per class: those above the gate first, the furthest above at the head, then those with
        most flagged. Doubts are in the order in which a user must settle them: findings that come first, seeds, classes
        (by tier, the gravest first, then those with most scored groups), other findings. An empty table is undecided.

    Raises:
        InputError: Unknown gate, or a missing column.

    Source:
        METHODS section 6, "Classifier".
    """
    gates = units.loss_scale.gates
    if gate not in gates:
        raise unknown_name("gate", gate, gates)
    table = pd.DataFrame(per_class)
    if missing := [c for c in COLUMNS if c not in table.columns]:
        raise InputError(f"the class table lacks {', '.join(missing)}; a verdict needs {', '.join(COLUMNS)}")
    rows: list[dict[str, Any]] = table.to_dict("records")  # pyright: ignore[reportAssignmentType]
    tiers = {str(row["label"]): str(row["tier"]) for row in rows}
    findings = [replace(finding, units=units) for finding in findings]
    if void := tuple(f for f in findings if f.gravity is Gravity.VOID):
        return Decision(UNDECIDED, gate, void, [f.remedy for f in void], tiers=tiers)
    few = few_seeds(n_seeds, units)
    failures = [failure for row in rows if (failure := _failure(row, gate, units, few is not None))]
    failures.sort(key=lambda one: one.severity)
    failed = [*failures, *(f for f in findings if f.bears_on is Bearing.FAIL)]
    others = sorted((f for f in findings if f.bears_on is Bearing.DOUBT), key=lambda f: f.gravity is not Gravity.FIRST)
    ahead = sum(f.gravity is Gravity.FIRST for f in others)
    limits = tuple(f for f in findings if f.bears_on is Bearing.LIMIT)
    doubts = [
        doubt
        for row in sorted(rows, key=_gravity)
        for doubt in _doubts(row, gate, notice, units, flips, design, n_seeds)
    ]
    if failed:
        flagged = sum(int(row["flagged"]) for row in rows)
        doubts = [FlaggedByChance(n_flagged=flagged, units=units)] if flagged else []
    elif not rows:
        doubts = [NoClass(units=units)]
    elif few is not None:
        doubts.insert(0, few)
    doubts = [*others[:ahead], *doubts, *others[ahead:]]
    if failed or doubts:
        ways = [way for f in doubts for way in f.way_out]
        deciding = advice(ways, units, n_models=2 * n_seeds, elsewhere=elsewhere)
        numbered = [way for way in ways if isinstance(way, Ways)]
        status, remedies, claims = FAIL if failed else UNDECIDED, chosen_remedies(numbered), claims_instead(numbered)
        return Decision(status, gate, (*failed, *doubts, *limits), deciding, remedies, claims, tiers)
    support = NoneFlagged(units=units), _power_of_pass(table, units), MeansBelowGate(gate=gates[gate], units=units)
    further = tuple(f for f in findings if f.bears_on is Bearing.SUPPORT)
    return Decision(PASS, gate, (*support, *further, *limits), [], tiers=tiers)


def _power_of_pass(table: pd.DataFrame, units: UnitNames) -> PowerOfPass:
    """Return what a pass would have noticed, in the class where a single patient is hardest to notice."""
    rows: list[dict[str, Any]] = table.to_dict("records")  # pyright: ignore[reportAssignmentType]
    worst = max(rows, key=lambda row: float(row["noticeable_gap"]))
    chance, low, high = (worst.get(f"noticeable_{k}") for k in ("power", "low", "high"))
    return PowerOfPass(
        label=str(worst["label"]),
        gap=worst["noticeable_gap"],
        simulated=None if chance is None or low is None or high is None else (chance, low, high),
        stratum=str(worst.get("noticeable_stratum", "")),
        strata=noticeable_by_stratum(table),
        units=units,
    )


def noticeable_by_stratum(per_class: pd.DataFrame) -> dict[str, float]:
    """Take the noticeable gap of each stratum in the class where least of it is noticed.

    Args:
        per_class: Table with columns `noticeable_gap_STRATUM`, NaN where a class has no patient of a stratum.

    Returns:
        Gaps by stratum, in the order of `STRATA`; without those that no class has.
    """
    columns = {stratum: f"noticeable_gap_{stratum}" for stratum in STRATA}
    gaps = {
        name: per_class[column].to_numpy(dtype=np.float64) for name, column in columns.items() if column in per_class
    }
    return {name: float(np.nanmax(gap)) for name, gap in gaps.items() if not np.isnan(gap).all()}


def few_seeds(n_seeds: int, units: UnitNames = GROUP_NAMES) -> FewSeeds | None:
    """Return the doubt that so few seeds raise; None where there are enough.

    Args:
        n_seeds: Seeds of the audit; 0 for unknown.
        units: Names of a group, and the scale of losses.
    """
    if not 0 < n_seeds < MIN_SEEDS:
        return None
    return FewSeeds(n_seeds=n_seeds, units=units, ways=(Ways((models_remedy(2 * MIN_SEEDS),)),))


def _gravity(row: dict[str, Any]) -> tuple[int, float]:
    """Return the place of a class among doubts: the gravest tier first, then the class with most scored groups."""
    n = row.get("n_groups_scored", math.nan)
    return GRAVEST_FIRST.index(str(row["tier"])), 0.0 if pd.isna(n) else -float(n)


def _failure(row: dict[str, Any], gate: str, units: UnitNames, few: bool) -> ClassFails | None:
    """Return the failure of a class at the gate; None where it does not fail.

    With few seeds its limits do not count: they are conditional on these trainings, and a candidate that came out
    better than its partner fits everything better, seen or not. With few groups they do not cover.
    """
    low, flagged = float(row["low"]), int(row["flagged"])
    above = reaches_gate(low, gate, units.loss_scale) and not few and row["tier"] != INSUFFICIENT
    if not above and flagged <= 0:
        return None
    return ClassFails(
        label=str(row["label"]), low=low if above else math.nan, gate=gate, n_flagged=flagged, units=units
    )


def _doubts(
    row: dict[str, Any], gate: str, notice: float, units: UnitNames, flips: bool, design: str, n_seeds: int
) -> Iterator[Reason]:
    """Find why this class leaves the gate undecided, each with what would decide it."""
    label, low, high = str(row["label"]), float(row["low"]), float(row["high"])
    if row["tier"] == INSUFFICIENT:
        n = row.get("n_groups_scored", math.nan)
        scored = None if pd.isna(n) else int(n)
        yield InsufficientEvidence(label=label, n_scored=scored, units=units, ways=(_to_score(row, design),))
    elif math.isnan(high):
        yield NoMeanInterval(label=label, units=units)
    elif not high < units.loss_scale.gates[gate]:
        ways = (Ways((models_remedy(_for_interval(row, units.loss_scale.gates[gate], n_seeds), label),)),)
        yield GateInInterval(label=label, low=low, high=high, gate=gate, units=units, ways=ways)
    if is_surely_below_zero(low, high) and not row.get("high_over_groups", math.nan) >= 0:
        yield MeanBelowZero(label=label, low=low, high=high, units=units)
    if unnoticed := _unnoticed(row, notice, units, _to_notice(row, flips, design, n_seeds)):
        yield unnoticed


def _to_score(row: dict[str, Any], design: str) -> Ways:
    """Find how enough patients of a class could be scored: all that it has but one, who is in the test part."""
    label = str(row["label"])
    scored = Remedy(
        way=Way.SCORED,
        needed=MIN_GROUPS,
        present=row.get("n_groups_scored", math.nan),
        most=row.get("n_groups", math.inf) - 1,
        label=label,
    )
    remedies = (scored,) if design == "balanced" else (replace(scored, way=Way.BALANCED), scored)
    return Ways(remedies, (SmallerClaim(claim=Claim.WITHOUT_CLASS, label=label),))


def _for_interval(row: dict[str, Any], gate: float, n_seeds: int) -> float:
    """Estimate the models with which the interval of a class's mean ends on the side of the gate where the mean is.

    The length of the interval, over trainings, shrinks with the root of their number.
    """
    low, high = float(row["low"]), float(row["high"])
    apart, half = abs(gate - (low + high) / 2), (high - low) / 2
    if n_seeds < MIN_SEEDS:
        return math.nan
    return 2 * math.ceil(n_seeds * (half / apart) ** 2 + 1) if apart > 0 else math.inf


def _unnoticed(row: dict[str, Any], notice: float, units: UnitNames, ways: tuple[Ways, ...]) -> Reason | None:
    """Return why a single patient of this class would not have been noticed; None where one would have been."""
    blocked, room, gap = row.get("why_not"), float(row["room"]), float(row["noticeable_gap"])
    label, power = str(row["label"]), float(row["notice_power"])
    blocked = blocked if isinstance(blocked, str) else ""
    if blocked or math.isnan(room):
        return NotTestable(label=label, blocked_by=blocked, units=units, ways=ways)
    if room < MIN_ROOM:
        n = row.get("n_groups_scored", math.nan) + row.get("n_test_groups", math.nan)
        return NoRoom(label=label, room=room, n_compared=None if pd.isna(n) else int(n), units=units, ways=ways)
    if not gap > notice and power >= PASS_POWER:
        return None
    stratum = str(row.get("noticeable_stratum", ""))
    return LittleNoticed(label=label, gap=gap, notice=notice, power=power, stratum=stratum, units=units, ways=ways)


def _to_notice(row: dict[str, Any], flips: bool, design: str, n_seeds: int) -> tuple[Ways, ...]:
    """Find what would let the class's list notice one patient; nothing where it needs patients in the test part."""
    models, room = row.get("models_needed", math.nan), float(row["room"])
    label, gap, n_groups = str(row["label"]), float(row["noticeable_gap"]), row.get("n_groups", math.nan)
    if not flips and room < MIN_ROOM:
        return (Ways((Remedy(way=Way.BALANCED, label=label),)),)
    if math.isnan(room):
        return (_to_score(row, design),) if n_groups <= MIN_GROUPS else ()
    if pd.isna(models):  # of one or two seeds the spread of trainings is not known
        models = math.nan if 0 < n_seeds < MIN_SEEDS else math.inf
    more = Remedy(way=Way.PATIENTS, needed=math.inf, present=n_groups, label=label)
    instead = (SmallerClaim(claim=Claim.NOTICE, value=_noticed_gap(gap)),) if math.isfinite(gap) else ()
    return (Ways((models_remedy(models, label), more), instead),)


def _noticed_gap(gap: float) -> float:
    """Round up the gap a step of `GAPS` above the noticeable one, to two digits: a pass needs more power than that."""
    return rounded_up(gap * float(GAPS[1] / GAPS[0]))
