"""Judge attacks for the verdict: each fails the audit, keeps a pass away, or neither (METHODS section 6, "Attacks").

Every attack that was run counts unless it is a control: attacks on the twins, which show what the recipe does to a
patient, and attacks on the given model, over all classes and class by class, which show what this file gives away.

* *Fail*: an AUC is surely at least the gate, or more than ``SURE_RATE`` of the members are surely found at 1 % false
  positives. All these one-sided p-values form one family and are adjusted by Holm's procedure at ``LEVEL``, so that an
  audit without any such attack fails with probability at most ``LEVEL``, however many were run.
* *Pass* needs every upper limit below the gate. It is not adjusted: a pass says that *all* attacks lie below, and is
  wrong with probability at most ``LEVEL`` already where one of them does not (an intersection-union test).
* Where members and non-members may differ by more than membership (a control that fails, a split that was not drawn
  at random), an attack that compares with the test part neither fails nor passes.
* An interval over fewer than three trainings is about these models only. For twins it neither fails nor passes; for the
  given model it answers the question.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from memorisk.runs.errors import one_line
from memorisk.statistics.intervals import MIN_SEEDS
from memorisk.statistics.multiple_testing import holm
from memorisk.statistics.verdicts.remedies import Claim, Remedy, SmallerClaim, Way, Ways
from memorisk.statistics.verdicts.tiers import format_against_gates
from memorisk.statistics.verdicts.units import UnitNames
from memorisk.statistics.verdicts.verdict import FAIL, UNDECIDED, Finding, models_remedy

SURE_RATE = 0.05
"""Share of the members that must surely be exceeded at 1 % false positives to fail: five times that of guessing."""
LEVEL = 0.025
"""One-sided level of all failures together, and of a pass: one side of a 95 % interval."""
_RANDOM_TEST_PART = (
    "a test part drawn at random by {one} from the same data; where it was, another draw of it (--split-seed, with all "
    "models anew), since chance alone fails the control in one of 20 audits"
)
MOST_NAMED = 3
"""Largest number of attacks or classes that a sentence names; the others are counted."""


@dataclass(frozen=True)
class Attack:
    """The result of one attack on the twins or on the given model, over all classes or in one class."""

    name: str
    """Name of the attack in sentences."""
    auc: float
    """AUC; NaN where it could not be measured."""
    low: float
    """Lower 95 % limit of the AUC, over patients, of twins also over trainings."""
    high: float
    """Upper 95 % limit."""
    p_auc: float
    """One-sided p-value of the hypothesis that the AUC is at most the gate."""
    tpr_low: float
    """Lower limit of the share of members found at 1 % false positives."""
    p_tpr: float
    """One-sided p-value of the hypothesis that this share is at most ``SURE_RATE``."""
    n_groups: int
    """Number of patients behind the interval."""
    n_non_members: int
    """Number of them who are non-members, in the training that has fewest."""
    n_models: int
    """Number of attacked models behind the interval."""
    of_trainings: float = 0.0
    """Share of the interval's squared length that is due to the trainings."""
    label: str = ""
    """Class; empty for all classes."""
    of_target: bool = False
    """Whether the given model was attacked, not the twins."""
    comparable: bool = True
    """Whether members and non-members are known to differ by nothing but membership."""
    conditional: bool = False
    """Whether the interval is about these models only."""


def attack_findings(attacks: Sequence[Attack], gate: float, units: UnitNames, n_groups: int) -> list[Finding]:
    """Turn the results of attacks into findings for the verdict (module docstring).

    Args:
        attacks: Every attack that is not a control.
        gate: AUC that no attack may reach, between 0.5 and 1.
        units: Name of a group in sentences.
        n_groups: Number of groups of the audit, those of the test part included.

    Returns:
        Failures where an attack surely finds members, at most one each for the twins, the given model and its classes;
        otherwise at most one doubt for each of these three, and one more where members and non-members cannot be
        compared, or where no attack was tried. Empty where nothing keeps a pass away.

    Source:
        METHODS section 6, "Attacks".
    """
    counted = [a for a in attacks if a.comparable and (a.of_target or not a.conditional) and not np.isnan(a.auc)]
    adjusted = holm([p for a in counted for p in (a.p_auc, a.p_tpr)]).reshape(-1, 2)
    failed = [
        (a, bool(row[0] <= LEVEL), bool(row[1] <= LEVEL))
        for a, row in zip(counted, adjusted, strict=True)
        if row.min() <= LEVEL
    ]
    failed.sort(key=lambda failure: -failure[0].low)
    kinds = ((False, False), (True, False), (True, True))  # of the given model, of a class of it
    findings = []
    for target, by_class in kinds:
        own = [failure for failure in failed if (failure[0].of_target, bool(failure[0].label)) == (target, by_class)]
        if own:
            findings.append(Finding(FAIL, _failure(own, gate, units)))
    if not attacks:
        findings.append(Finding(UNDECIDED, "no attack could be tried", "members and others scored by each model"))
    if not findings:
        for target, by_class in kinds:
            kind = [a for a in attacks if (a.of_target, bool(a.label)) == (target, by_class)]
            findings += _doubts(kind, gate, units, n_groups)
    return findings


def passed_words(attacks: Sequence[Attack], gate: float, units: UnitNames) -> str:
    """Say in one sentence which attack came nearest to the gate, with its upper limit and the units behind it."""
    nearest = max(attacks, key=lambda a: a.high)
    return (
        f"no attack that was tried reaches AUC {gate:g} (0.5 is guessing): the nearest, {_where(nearest)}, has at most "
        f"{format_against_gates(nearest.high, gate)} ({_over(nearest, units)})"
    )


def _failure(failures: Sequence[tuple[Attack, bool, bool]], gate: float, units: UnitNames) -> str:
    """Name the attacks that find members, the surest first, by AUC or by the rate at 1 % false positives."""
    parts_of_attacks = []
    for attack, by_auc, by_rate in failures[:MOST_NAMED]:
        parts = []
        if by_auc:
            auc, low = format_against_gates(attack.auc, gate), format_against_gates(attack.low, gate)
            parts.append(f"AUC {auc}, at least {low} where less than {gate:g} is allowed")
        if by_rate:
            found_low = format_against_gates(100 * attack.tpr_low, 100 * SURE_RATE, digits=0)
            parts.append(f"at least {found_low}% of the members found at 1 % false positives")
        parts_of_attacks.append(f"{_where(attack)}, {', and '.join(parts)} ({_over(attack, units)})")
    more = f"; and {len(failures) - MOST_NAMED} more" if len(failures) > MOST_NAMED else ""
    return f"an attack tells who was in the training (AUC 0.5 is guessing): {'; '.join(parts_of_attacks)}{more}"


def _doubts(attacks: Sequence[Attack], gate: float, units: UnitNames, n_groups: int) -> list[Finding]:
    """Say why these attacks, all of one kind, keep a pass away, and the way out; the furthest above the gate first."""
    findings = []
    other = [a for a in attacks if not a.comparable]
    if other:
        why = (
            f"{_several(other)} cannot be read: members and test {units.many} differ by more than membership (the "
            "control fails, or the split was not drawn at random)"
        )
        findings.append(Finding(UNDECIDED, why, _RANDOM_TEST_PART.format(one=units.one)))
    open_ones = [a for a in attacks if a.comparable and not a.high < gate]
    if not open_ones:
        return findings
    furthest = sorted(open_ones, key=lambda a: -a.high if not np.isnan(a.high) else -2.0)
    reached = [
        f"{_where(a)}, AUC {format_against_gates(a.auc, gate)} ({format_against_gates(a.low, gate)} to "
        f"{format_against_gates(a.high, gate)})"
        if not np.isnan(a.auc)
        else f"{_where(a)}, not measured"
        for a in furthest[:MOST_NAMED]
    ]
    more = f" and {len(furthest) - MOST_NAMED} more" if len(furthest) > MOST_NAMED else ""
    why = f"an attack may reach AUC {gate:g} (0.5 is guessing): {'; '.join(reached)}{more}"
    return [*findings, Finding(UNDECIDED, why, ways=_ways_out(furthest, gate, n_groups))]


def _ways_out(attacks: Sequence[Attack], gate: float, n_groups: int) -> tuple[Ways, ...]:
    """Find what would bring every interval to one side of the gate if the AUCs were as estimated.

    An attack on the given model needs unseen patients of its own class.
    """
    if any(a.conditional and not a.of_target for a in attacks):
        return (Ways((models_remedy(2 * MIN_SEEDS),)),)
    highest = max(np.nan_to_num([a.high for a in attacks], nan=1.0))
    claimed = np.floor(100 * highest + 1) / 100
    instead = (SmallerClaim(claim=Claim.ATTACK_GATE, value=float(claimed)),) if claimed < 1 else ()
    if attacks[0].of_target:
        return tuple(Ways((_unseen(a, gate),), instead) for a in attacks)
    models = 2 * np.ceil(max(_models(a, gate) for a in attacks))
    groups = n_groups * max(_stretch(a, gate) for a in attacks) ** 2  # an attack may leave out the test part
    patients = Remedy(way=Way.PATIENTS, needed=float(groups), present=n_groups, most=n_groups)
    if np.isinf(models):  # patients alone prevent it
        return (Ways((patients,), instead),)
    return (Ways((models_remedy(float(models)), patients), instead),)


def _unseen(attack: Attack, gate: float) -> Remedy:
    """Estimate how many patients whom the given model never saw its attack needs; there are no more than it has."""
    needed = attack.n_non_members * _stretch(attack, gate) ** 2
    return Remedy(
        way=Way.UNSEEN,
        needed=float(needed),
        present=attack.n_non_members,
        most=attack.n_groups,
        label=attack.label,
    )


def _stretch(attack: Attack, gate: float) -> float:
    """Divide the half-interval towards the gate by the distance to it, on the logit scale; infinite at the gate."""
    if np.isnan(attack.auc) or not 0 < attack.auc < 1 or not 0 < attack.low <= attack.high < 1:
        return np.inf
    apart = abs(scipy.special.logit(gate) - scipy.special.logit(attack.auc))
    half = abs(scipy.special.logit(attack.high if attack.auc < gate else attack.low) - scipy.special.logit(attack.auc))
    return float(half / apart) if apart > 0 else np.inf


def _models(attack: Attack, gate: float) -> float:
    """Compute the trainings with which the interval would clear the gate; infinite where patients alone prevent it."""
    stretch = _stretch(attack, gate) ** 2
    room = 1 - (1 - attack.of_trainings) * stretch  # of the squared distance, what patients leave to trainings
    return attack.n_models * attack.of_trainings * stretch / room if np.isfinite(stretch) and room > 0 else np.inf


def _where(attack: Attack) -> str:
    target = "the given model" if attack.of_target else "the audited models"
    return f"{attack.name} on {f'class {one_line(attack.label, 60)} of ' if attack.label else ''}{target}"


def _several(attacks: Sequence[Attack]) -> str:
    places = [_where(a) for a in attacks[:MOST_NAMED]]
    return "; ".join(places) + (f" and {len(attacks) - MOST_NAMED} more" if len(attacks) > MOST_NAMED else "")


def _over(attack: Attack, units: UnitNames) -> str:
    trained = "this one model" if attack.of_target else f"{attack.n_models} attacked models"
    return f"{units.count(attack.n_groups)}, {trained}"
