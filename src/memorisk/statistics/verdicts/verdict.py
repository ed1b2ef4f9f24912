"""The verdict: pass, fail or undecided, with the reasons and what would decide it.

METHODS section 6. A verdict is about what was not seen, so it rests on power: a pass says that nothing was found and
that a patient with a gap of `notice` nats would have been found in nine of ten cases (`noticeable_gap`). A failure by
flagged groups says what share of them chance explains, and what tells chance from memorization, or, where far more
are flagged than chance explains, what to do about them. A class in which that is not so has not been shown to have no
such patient, and neither has a class without an interval (too small to split, never scored). Neither is ever counted as
"0 memorized".

The verdict's list has one level and one correction, whatever is asked of the lists that are shown: a stricter list is
shorter, and must not be a way to pass.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.statistics.intervals import MIN_SEEDS
from memorisk.statistics.multiple_testing import DEFAULT_Q
from memorisk.statistics.verdicts.noticeable_gap import EVERY, GAPS, MAX_SEEDS, MIN_ROOM, PASS_POWER, STRATA
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
from memorisk.statistics.verdicts.tiers import (
    GATES,
    GRAVEST_FIRST,
    INSUFFICIENT,
    MIN_GROUPS,
    format_against_gates,
    reaches_gate,
)
from memorisk.statistics.verdicts.units import GROUP_NAMES, UnitNames

PASS = "pass"
FAIL = "fail"
UNDECIDED = "undecided"


VERDICT_LEVEL, VERDICT_CORRECTION = DEFAULT_Q, "bh"
"""Level and correction of the verdict's list: somebody is listed in at most 10 % of audits in which nothing is
memorized (`families`)."""

MANY_FLAGGED = round(1 / VERDICT_LEVEL)
"""From so many on the list holds nine for each that chance explains: more models would change little."""

MOST_MODELS = 2 * MAX_SEEDS
"""Largest number of models that is advised, and that an audit takes by default: four times the fewest, and so four
times their time."""

COLUMNS = ("label", "low", "high", "tier", "flagged", "room", "noticeable_gap", "notice_power")
"""What the table must have; `n_groups_scored`, `n_test_groups`, `n_groups`, `models_needed`, `why_not`,
`noticeable_stratum` and the noticeable gaps of the strata make the reasons more exact when present."""


@dataclass(frozen=True)
class Decision:
    """Verdict with its reasons, as a pipeline acts on it and a reader sees it first."""

    status: str
    """`"pass"`, `"fail"` or `"undecided"`; only the first is a pass (exit code 0)."""
    gate: str
    """`"high"` or `"moderate"`."""
    why: list[str]
    """One sentence per reason for the status."""
    what_would_decide: list[str]
    """Sentences of `remedies.advice`, in the order in which to act on them; empty where nothing is open."""
    remedies: list[Remedy] = field(default_factory=list)
    """Feasible remedies behind these sentences, one for each way and class."""
    claims: list[SmallerClaim] = field(default_factory=list)
    """Smaller claims in place of what these data cannot decide."""
    tiers: dict[str, str] = field(default_factory=dict)
    """Tier of every class."""


@dataclass(frozen=True)
class Finding:
    """Finding of another part of an audit (attacks, target, coverage) for the verdict."""

    status: str
    """`"fail"`, or `"undecided"` for what keeps a pass away. What raises no objection is no finding."""
    why: str
    """One sentence."""
    what_would_decide: str = ""
    """The way out in a sentence; empty for a failure, and where `ways` say it."""
    ways: tuple[Ways, ...] = ()
    """The way out in numbers; each of them is needed."""
    first: bool = False
    """Whether it must be settled before more models or patients are of use; reported ahead of the classes then."""
    voids: bool = False
    """Whether the finding leaves the audit undecided, whatever else was found."""

    @property
    def way_out(self) -> tuple[str | Ways, ...]:
        """The way out, in numbers where there are any."""
        return self.ways or (self.what_would_decide,)


def decide(
    per_class: pd.DataFrame | Mapping[str, Any],
    gate: str = "high",
    *,
    notice: float = 2.0,
    units: UnitNames = GROUP_NAMES,
    n_seeds: int = 0,
    flips: bool = True,
    design: str = "balanced",
    elsewhere: bool = False,
    findings: Sequence[Finding] = (),
) -> Decision:
    """Apply the verdict rule to the table of classes.

    `fail` if groups are listed, or a lower limit lies in the gate's tier or above in a class with at least
    `MIN_GROUPS` scored groups; `pass` only if nothing fails, every class's upper limit is below the gate's tier, and
    in every class a single patient of `notice` nats is found with probability `PASS_POWER`; else `undecided`. What
    stops a pipeline is the exit code's matter, not the verdict's.

    Args:
        per_class: A row a class: `label`, `low`, `high` (limits of the mean M, in nats; NaN without an interval),
            `tier`, `flagged` (groups on the verdict's list), `room`, `noticeable_gap` and `notice_power` (probability
            of finding `notice` nats; `noticeable_gap`; NaN without a list); optional `n_groups_scored`,
            `n_test_groups`, `models_needed`, `why_not` (why no list was possible).
        gate: `"high"` (0.3) or `"moderate"` (0.1).
        notice: Gap of one patient, in nats, that a pass must be able to notice.
        units: What a group is called.
        n_seeds: Seeds that this audit had; 0 for unknown. With fewer than three no class's limits count, so that only
            flagged groups fail and nothing passes.
        flips: Whether the signs of the seeds' gaps may be flipped; False in the `paper` design, where more models give
            a list no more room.
        design: Design of the audit; each but `balanced` leaves patients unscored whom `balanced` would score.
        elsewhere: Whether the models were trained by something else than this command (`audit losses`).
        findings: What other parts of the audit found. One that fails fails the audit; one that is undecided keeps
            every pass away, and is reported where the audit fails, too. One that voids leaves the audit undecided.

    Returns:
        Status with reasons, one a class: those above the gate first, the furthest above at the head, then those with
        most flagged. Doubts stand in the order in which a user must settle them: findings that come first, seeds,
        classes (by tier, the gravest first, then those with most scored groups), other findings. An empty table is
        undecided.

    Raises:
        InputError: Unknown gate, or a missing column.

    Source:
        METHODS section 6, "Classifier".
    """
    if gate not in GATES:
        raise unknown_name("gate", gate, GATES)
    table = pd.DataFrame(per_class)
    if missing := [c for c in COLUMNS if c not in table.columns]:
        raise InputError(f"the class table lacks {', '.join(missing)}; a verdict needs {', '.join(COLUMNS)}")
    rows: list[dict[str, Any]] = table.to_dict("records")  # pyright: ignore[reportAssignmentType]
    tiers = {str(row["label"]): str(row["tier"]) for row in rows}
    if void := [f for f in findings if f.voids]:
        return Decision(UNDECIDED, gate, [f.why for f in void], [f.what_would_decide for f in void], tiers=tiers)
    few = seed_shortage(n_seeds)
    failures = sorted(
        (failure for row in rows if (failure := _failure(row, gate, units, few is not None))), key=lambda f: f[0]
    )
    failed = [reason for _, reason in failures] + [f.why for f in findings if f.status == FAIL]
    others = sorted((f for f in findings if f.status == UNDECIDED), key=lambda f: not f.first)
    ahead = sum(f.first for f in others)
    doubts = [
        doubt
        for row in sorted(rows, key=_gravity)
        for doubt in _doubts(row, gate, notice, units, flips, design, n_seeds)
    ]
    if failed:
        doubts = []
        if flagged := sum(int(row["flagged"]) for row in rows):
            doubts = [Finding(FAIL, "", _after_flags(flagged, units))]
    elif not rows:
        doubts = [Finding(UNDECIDED, "no class was audited", "a class with enough images to be split")]
    elif few is not None:
        doubts.insert(0, Finding(UNDECIDED, few[0], ways=(Ways((models_remedy(2 * MIN_SEEDS),)),)))
    doubts = [*others[:ahead], *doubts, *others[ahead:]]
    if failed or doubts:
        ways = [way for f in doubts for way in f.way_out]
        deciding = advice(ways, units, n_models=2 * n_seeds, elsewhere=elsewhere)
        numbered = [way for way in ways if isinstance(way, Ways)]
        why = [*failed, *(f.why for f in doubts if f.why)]
        status, remedies, claims = FAIL if failed else UNDECIDED, chosen_remedies(numbered), claims_instead(numbered)
        return Decision(status, gate, why, deciding, remedies, claims, tiers)
    worst = max(rows, key=lambda row: float(row["noticeable_gap"]))
    chance, low, high = (worst.get(f"noticeable_{k}") for k in ("power", "low", "high"))
    simulated = None if chance is None or low is None or high is None else (chance, low, high)
    passed = [
        f"no {units.one} is flagged",
        power_sentence(
            worst["noticeable_gap"],
            simulated,
            units,
            one_line(worst["label"], 80),
            str(worst.get("noticeable_stratum", "")),
            noticeable_by_stratum(table),
        ),
        f"the mean gap M of every class is below {GATES[gate]} nats, by the upper limit of its interval",
    ]
    return Decision(PASS, gate, passed, [], tiers=tiers)


def noticeable_by_stratum(per_class: pd.DataFrame) -> dict[str, float]:
    """Take the noticeable gap of each stratum in the class where least of it is noticed.

    Args:
        per_class: Table with columns `noticeable_gap_STRATUM`, NaN where a class has nobody of a stratum.

    Returns:
        Gaps in nats by stratum, in the order of `STRATA`; without those that no class has.
    """
    columns = {stratum: f"noticeable_gap_{stratum}" for stratum in STRATA}
    gaps = {
        name: per_class[column].to_numpy(dtype=np.float64) for name, column in columns.items() if column in per_class
    }
    return {name: float(np.nanmax(gap)) for name, gap in gaps.items() if not np.isnan(gap).all()}


def stratum_words(stratum: str, units: UnitNames) -> str:
    """Name the patients of a stratum in a sentence; empty for all of them, and for an unknown one."""
    return {
        "one": f"{units.many} with one image",
        "few": f"{units.many} with 2 to 9 images",
        "many": f"{units.many} with 10 or more images",
        "noisiest": f"the tenth of the {units.many} with the noisiest gaps",
    }.get(stratum, "")


def power_sentence(
    gap: float,
    simulated: tuple[float, float, float] | None,
    units: UnitNames,
    label: str,
    stratum: str = EVERY,
    strata: Mapping[str, float] | None = None,
) -> str:
    """Say in one sentence what the audit would have noticed of one patient; on the first screen of every report.

    Args:
        gap: In nats; NaN or infinite: no gap is surely noticed.
        simulated: Power at the gap with its lower and upper limit, where known.
        units: What a group is called.
        label: The class in which least is noticed, as it may be shown.
        stratum: Patients of this class among whom least is noticed.
        strata: Gap of each stratum, in nats, where known.
    """
    among = f", {words}" if (words := stratum_words(stratum, units)) else ""
    if not math.isfinite(gap):
        return f"in class {label}{among} a single {units.one} can go unnoticed, even if strongly remembered"
    limits = ""
    if simulated is not None:
        cases, low, high = (f"{100 * share:.0f}" for share in simulated)
        limits = f"; simulated: {cases} of 100, {low} to {high}"
    times = math.exp(gap)
    return (
        f"a single {units.one} with a gap of {gap:.2g} nats or more would have been noticed in at least four of five "
        f"cases (class {label}{among}, where least is noticed{limits}). At {gap:.2g} nats training on an image makes "
        f"its right answer {times:{',.0f' if times >= 10 else '.2g'}} times as probable. Smaller gaps may be missed"
        f"{_by_stratum(strata or {}, units)}"
    )


def _by_stratum(strata: Mapping[str, float], units: UnitNames) -> str:
    """List from which gap on the patients of each stratum are noticed; empty where there is only one gap."""
    parts = [
        f"{words} from {gap:.2g} nats" if math.isfinite(gap) else f"{words} at no gap"
        for stratum, gap in strata.items()
        if (words := stratum_words(stratum, units))
    ]
    return f". By {units.one}: {', '.join(parts)}" if parts else ""


def _after_flags(flagged: int, units: UnitNames) -> str:
    """Say how many flags chance explains, and what tells them from memorization; of many, what to do about them."""
    level = f"{100 * VERDICT_LEVEL:.0f} %"
    if flagged >= MANY_FLAGGED:
        return (
            f"another model: leave the flagged {units.many} out, mend their labels or train with a defence "
            f"(docs/defences.md), and audit it anew. At most {level} of the flagged are expected to be so by chance; "
            "more models would flag the others again"
        )
    return (
        f"more models, which tell chance from memorization: at most {level} of the flagged {units.many} are expected "
        f"to be so by chance, and where nobody is remembered at most {level} of audits flag anybody"
    )


def models_remedy(needed: float, label: str = "") -> Remedy:
    """Make the remedy of more models, of which `MOST_MODELS` are the most that is advised.

    Args:
        needed: Number of models; infinite where none suffices, NaN where it is not known.
        label: Class that needs them.
    """
    return Remedy(way=Way.MODELS, needed=needed, most=MOST_MODELS, label=label)


def seed_shortage(n_seeds: int) -> tuple[str, str] | None:
    """Return why so few seeds keep every pass away, and what would decide it; None where there are enough.

    Args:
        n_seeds: Seeds of the audit; 0 for unknown.
    """
    if not 0 < n_seeds < MIN_SEEDS:
        return None
    seeds = f"{n_seeds} seed{'' if n_seeds == 1 else 's'}"
    reason = f"{seeds}: too few to tell what a training remembers from how any two trainings differ"
    return reason, f"at least {MIN_SEEDS} seeds (--models {2 * MIN_SEEDS})"


def _gravity(row: dict[str, Any]) -> tuple[int, float]:
    """Return the place of a class among doubts: the gravest tier first, then the class with most scored groups."""
    n = row.get("n_groups_scored", math.nan)
    return GRAVEST_FIRST.index(str(row["tier"])), 0.0 if pd.isna(n) else -float(n)


def _failure(row: dict[str, Any], gate: str, units: UnitNames, few: bool) -> tuple[tuple[float, int], str] | None:
    """Return why this class fails the gate, with its place in the order of severity; None where it does not.

    With few seeds its limits do not count: they are conditional on these trainings, and a candidate that came out
    better than its partner fits everything better, seen or not. With few groups they do not cover.
    """
    name, low, flagged = one_line(row["label"], 80), float(row["low"]), int(row["flagged"])
    reasons, above = [], reaches_gate(low, gate) and not few and row["tier"] != INSUFFICIENT
    if above:
        where = f"above {GATES[gate]}" if gate == "high" else f"at or above {GATES[gate]}"
        limit = format_against_gates(low, GATES[gate], digits=3, kind="g")
        reasons.append(f"its mean gap M is {where} nats, by the lower limit of its interval, {limit}")
    if flagged > 0:
        reasons.append(f"{units.count(flagged)} {'is' if flagged == 1 else 'are'} flagged")
    if not reasons:
        return None
    return (-low if above else math.inf, -flagged), f"class {name}: {', and '.join(reasons)}"


def _doubts(
    row: dict[str, Any], gate: str, notice: float, units: UnitNames, flips: bool, design: str, n_seeds: int
) -> Iterator[Finding]:
    """Find why this class leaves the gate undecided, each with what would decide it."""
    name, low, high = one_line(row["label"], 80), float(row["low"]), float(row["high"])
    limits = " to ".join(format_against_gates(limit, GATES[gate], digits=3, kind="g") for limit in (low, high))
    if row["tier"] == INSUFFICIENT:
        n = row.get("n_groups_scored", math.nan)
        counted = "too few" if pd.isna(n) else f"{int(n)}"
        why = f"class {name}: insufficient evidence ({counted} scored {units.many}, {MIN_GROUPS} needed)"
        yield Finding(UNDECIDED, why, ways=(_to_score(row, design),))
    elif math.isnan(high):
        way = f"class {name}: more images of it, or more seeds"
        yield Finding(UNDECIDED, f"class {name}: its mean gap M has no interval", way)
    elif not high < GATES[gate]:
        why = f"class {name}: the interval of its mean gap M, {limits} nats, contains {GATES[gate]}"
        models = models_remedy(_for_interval(row, gate, n_seeds), str(row["label"]))
        yield Finding(UNDECIDED, why, ways=(Ways((models,)),))
    if high + (high - low) / 2 < 0:
        yield Finding(
            UNDECIDED,
            f"class {name}: its mean gap M is surely below 0 ({low:.3g} to {high:.3g} nats): the models that were "
            "trained on an image answer it worse, which no training does",
            f"class {name}: a check of who was trained on what (members and others may be exchanged)",
        )
    if unnoticed := _unnoticed(row, notice, units):
        yield Finding(UNDECIDED, f"class {name}{unnoticed}", **_to_notice(row, units, flips, design, n_seeds))


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


def _for_interval(row: dict[str, Any], gate: str, n_seeds: int) -> float:
    """Estimate the models with which the interval of a class's mean ends on the side of the gate where the mean is.

    The length of the interval, over trainings, shrinks with the root of their number.
    """
    low, high = float(row["low"]), float(row["high"])
    apart, half = abs(GATES[gate] - (low + high) / 2), (high - low) / 2
    if n_seeds < MIN_SEEDS:
        return math.nan
    return 2 * math.ceil(n_seeds * (half / apart) ** 2 + 1) if apart > 0 else math.inf


def _unnoticed(row: dict[str, Any], notice: float, units: UnitNames) -> str:
    """Return why a single patient of this class would not have been noticed; empty where one would have been."""
    reason, room, gap = row.get("why_not"), float(row["room"]), float(row["noticeable_gap"])
    among = f", {words}" if (words := stratum_words(str(row.get("noticeable_stratum", "")), units)) else ""
    if isinstance(reason, str) and reason:
        return f" cannot be tested: {one_line(reason)}"
    if math.isnan(room):
        return f" cannot be tested: no list of {units.many} was possible"
    if room < MIN_ROOM:
        n = row.get("n_groups_scored", math.nan) + row.get("n_test_groups", math.nan)
        compared = "" if pd.isna(n) else f", with {units.count(int(n))} scored or in the test part,"
        return (
            f": the models{compared} are too few to flag a single {units.one}, even a strongly remembered one "
            f"(room on the list {format_against_gates(room, MIN_ROOM, kind='g')}, {MIN_ROOM:.0f} needed)"
        )
    if math.isinf(gap):
        return (
            f"{among}: no gap of a single {units.one} up to {GAPS[-1]:.0f} nats would have been noticed in four of "
            "five cases"
        )
    if gap > notice:
        return (
            f"{among}: a single {units.one} would have been noticed in four of five cases only with a gap of "
            f"at least {format_against_gates(gap, notice, kind='g')} nats; a pass needs {notice:g}"
        )
    chance = float(row["notice_power"])
    if not chance >= PASS_POWER:
        cases = 0 if math.isnan(chance) else int(100 * chance)
        return (
            f": a single {units.one} with a gap of {notice:g} nats would have been noticed in {cases} of 100 cases, "
            f"and a pass needs {100 * PASS_POWER:.0f}"
        )
    return ""


def _to_notice(row: dict[str, Any], units: UnitNames, flips: bool, design: str, n_seeds: int) -> dict[str, Any]:
    """Find what would let the class's list notice one patient, as fields of a finding."""
    models, room = row.get("models_needed", math.nan), float(row["room"])
    label, gap, n_groups = str(row["label"]), float(row["noticeable_gap"]), row.get("n_groups", math.nan)
    if not flips and room < MIN_ROOM:
        return {"ways": (Ways((Remedy(way=Way.BALANCED, label=label),)),)}
    if math.isnan(room):
        if n_groups <= MIN_GROUPS:
            return {"ways": (_to_score(row, design),)}
        name = one_line(label, 80)
        return {"what_would_decide": f"class {name}: {units.many} of it in the test part, from one random split"}
    if pd.isna(models):  # of one or two seeds the spread of trainings is not known
        models = math.nan if 0 < n_seeds < MIN_SEEDS else math.inf
    more = Remedy(way=Way.PATIENTS, needed=math.inf, present=n_groups, label=label)
    instead = (SmallerClaim(claim=Claim.NOTICE, value=_noticed_gap(gap)),) if math.isfinite(gap) else ()
    return {"ways": (Ways((models_remedy(models, label), more), instead),)}


def _noticed_gap(gap: float) -> float:
    """Round up the gap a step of `GAPS` above the noticeable one, to two digits: a pass needs more power than that."""
    return rounded_up(gap * float(GAPS[1] / GAPS[0]))
