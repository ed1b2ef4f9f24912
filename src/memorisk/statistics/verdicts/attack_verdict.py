"""Judge attacks for the verdict: each fails the audit, keeps a pass away, or neither (METHODS section 6, "Attacks").

Every attack that was run counts unless it is a control: attacks on the twins, which show what the recipe does to a
patient, and attacks on the given model, over all classes and class by class, which show what this file gives away.

* *Fail*: an AUC is surely at least the gate, or more than ``SURE_RATE`` of the members are surely found at 1 % false
  positives. All these one-sided p-values form one family and are adjusted by Holm's procedure at ``ATTACK_LEVEL``. An
  audit without any such attack therefore fails with probability at most ``ATTACK_LEVEL``, however many were run.
* *Pass* needs every upper limit below the gate. It is not adjusted: a pass says that *all* attacks lie below, and is
  wrong with probability at most ``ATTACK_LEVEL`` already where one of them does not (an intersection-union test).
* An attack on the given model that separates in reverse, by an AUC that may be below 1 - gate, is a doubt: it is usable
  for everyone who knows the direction. Twins have a check of their own for members with the higher losses.
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
from memorisk.statistics.intervals.means import MIN_SEEDS
from memorisk.statistics.multiple_testing.lists import holm
from memorisk.statistics.verdicts.class_reasons import models_remedy
from memorisk.statistics.verdicts.levels import ATTACK_LEVEL, SURE_RATE, share_words
from memorisk.statistics.verdicts.reasons import FAIL, SUPPORT, Reason, Words
from memorisk.statistics.verdicts.remedies import Claim, Remedy, SmallerClaim, Way, Ways
from memorisk.statistics.verdicts.tiers import format_against_gates
from memorisk.statistics.verdicts.units import UnitNames

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
    n_seeds: int
    """Number of trainings behind the interval: twins are two models of one."""
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


@dataclass(frozen=True)
class FoundMembers:
    """Attack that surely finds members, and by which of its numbers."""

    attack: Attack
    by_auc: bool
    by_rate: bool


class AttackSucceeds(Reason, code="attack-succeeds", bears_on=FAIL):
    """Attacks that surely find members, the surest first."""

    failures: tuple[FoundMembers, ...]
    gate_auc: float

    @Words
    def text(self) -> str:
        """Name the attacks, by AUC or by the rate at 1 % false positives."""
        gate, attacks = self.gate_auc, []
        for one in self.failures[:MOST_NAMED]:
            attack, parts = one.attack, []
            if one.by_auc:
                auc, low = format_against_gates(attack.auc, gate), format_against_gates(attack.low, gate)
                parts.append(f"AUC {auc}, at least {low} where less than {gate:g} is allowed")
            if one.by_rate:
                low = format_against_gates(100 * attack.tpr_low, 100 * SURE_RATE, digits=0)
                parts.append(f"at least {low}% of the members found at 1 % false positives")
            attacks.append(f"{_where(attack)}, {', and '.join(parts)} ({_over(attack, self.units)})")
        more = f"; and {len(self.failures) - MOST_NAMED} more" if len(self.failures) > MOST_NAMED else ""
        return f"an attack tells who was in the training (AUC 0.5 is guessing): {'; '.join(attacks)}{more}"

    @Words
    def plain(self) -> str:
        which = "the model itself" if self.failures[0].attack.of_target else "models trained like it"
        return f"an outsider can tell from {which} who was in the training"


class NoAttack(Reason, code="no-attack"):
    """Audit in which no attack was tried."""

    text = Words("no attack could be tried")
    plain = Words("no attack could be tried, so that it is not known what an outsider could find out")
    remedy = Words("members and others scored by each model")


class NotComparable(Reason, code="attacks-not-comparable"):
    """Attacks whose members and non-members differ by more than membership."""

    attacks: tuple[Attack, ...]
    text = Words(
        "{named} cannot be read: members and test {many} differ by more than membership (the control fails, or the "
        "split was not drawn at random)"
    )
    plain = Words(
        "what an outsider could find out could not be measured, because the {many} in the training and the new ones "
        "differ in more than that"
    )
    remedy = Words(
        "a test part drawn at random by {one} from the same data; where it was, another draw of it (--split-seed, with "
        f"all models anew), since chance alone fails the control in {share_words(2 * ATTACK_LEVEL, 'audits')}"
    )

    @property
    def named(self) -> str:
        """First attacks by name, and the number of the others."""
        n = len(self.attacks) - MOST_NAMED
        return "; ".join(map(_where, self.attacks[:MOST_NAMED])) + (f" and {n} more" if n > 0 else "")


class AttackOpen(Reason, code="attack-open"):
    """Attacks whose interval does not end below the gate, the furthest above first."""

    attacks: tuple[Attack, ...]
    gate_auc: float
    plain = Words("an outsider might be able to tell who was in the training: this was measured too roughly to decide")

    @Words
    def text(self) -> str:
        """Name the attacks with their intervals."""
        gate = self.gate_auc
        reached = [
            f"{_where(a)}, AUC {format_against_gates(a.auc, gate)} ({format_against_gates(a.low, gate)} to "
            f"{format_against_gates(a.high, gate)})"
            if not np.isnan(a.auc)
            else f"{_where(a)}, not measured"
            for a in self.attacks[:MOST_NAMED]
        ]
        more = f" and {len(self.attacks) - MOST_NAMED} more" if len(self.attacks) > MOST_NAMED else ""
        return f"an attack may reach AUC {gate:g} (0.5 is guessing): {'; '.join(reached)}{more}"


class AttackReversed(Reason, code="attack-reversed"):
    """Attacks on the given model that give members the lower scores, the furthest below first."""

    attacks: tuple[Attack, ...]
    gate_auc: float
    plain = Words(
        "an outsider might be able to tell who was in the training, by an attack whose ranking must be turned around"
    )
    remedy = Words(
        "more {many} that the given model never saw where the interval is wide; an attack that surely separates in "
        "reverse is usable as it is, and the model must be trained otherwise"
    )

    @Words
    def text(self) -> str:
        """Name the attacks with their intervals."""
        reached = [f"{_where(a)}, AUC {a.auc:.2f} ({a.low:.2f} to {a.high:.2f})" for a in self.attacks[:MOST_NAMED]]
        more = f" and {len(self.attacks) - MOST_NAMED} more" if len(self.attacks) > MOST_NAMED else ""
        return (
            f"an attack may separate members from others in reverse, by AUC {1 - self.gate_auc:.3g} or less (0.5 is "
            f"guessing): {'; '.join(reached)}{more}"
        )


class NoAttackSucceeds(Reason, code="no-attack-succeeds", bears_on=SUPPORT):
    """Pass: attack that came nearest to the gate."""

    nearest: Attack
    gate_auc: float
    plain = Words("no attack that was tried tells who was in the training much better than guessing")

    @Words
    def text(self) -> str:
        """Name the attack with its upper limit and the units behind it."""
        return (
            f"no attack that was tried reaches AUC {self.gate_auc:g} (0.5 is guessing): the nearest, "
            f"{_where(self.nearest)}, has at most {format_against_gates(self.nearest.high, self.gate_auc)} "
            f"({_over(self.nearest, self.units)})"
        )


def attack_findings(attacks: Sequence[Attack], gate: float, units: UnitNames, n_groups: int) -> list[Reason]:
    """Turn the results of attacks into reasons for the verdict (module docstring).

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
        FoundMembers(a, bool(row[0] <= ATTACK_LEVEL), bool(row[1] <= ATTACK_LEVEL))
        for a, row in zip(counted, adjusted, strict=True)
        if row.min() <= ATTACK_LEVEL
    ]
    failed.sort(key=lambda failure: -failure.attack.low)
    kinds = ((False, False), (True, False), (True, True))  # of the given model, of a class of it
    reasons: list[Reason] = []
    for kind in kinds:
        if own := tuple(failure for failure in failed if _kind(failure.attack) == kind):
            reasons.append(AttackSucceeds(failures=own, gate_auc=gate, units=units))
    if not attacks:
        reasons.append(NoAttack())
    if not reasons:
        for kind in kinds:
            reasons += _doubts([a for a in attacks if _kind(a) == kind], gate, units, n_groups)
    return reasons


def nearest_attack(attacks: Sequence[Attack], gate: float, units: UnitNames) -> NoAttackSucceeds:
    """Return the reason of a pass: the attack that came nearest to the gate."""
    return NoAttackSucceeds(nearest=max(attacks, key=lambda a: a.high), gate_auc=gate, units=units)


def _kind(attack: Attack) -> tuple[bool, bool]:
    """Return whether an attack is on the given model, and whether it is on a class."""
    return attack.of_target, bool(attack.label)


def _doubts(attacks: Sequence[Attack], gate: float, units: UnitNames, n_groups: int) -> list[Reason]:
    """Return why these attacks, all of one kind, keep a pass away; the furthest above the gate first."""
    reasons: list[Reason] = []
    if other := tuple(a for a in attacks if not a.comparable):
        reasons.append(NotComparable(attacks=other, units=units))
    turned = [a for a in attacks if a.comparable and a.of_target and a.low <= 1 - gate and a.high < gate]
    if turned:
        furthest = tuple(sorted(turned, key=lambda a: a.low))
        reasons.append(AttackReversed(attacks=furthest, gate_auc=gate, units=units))
    open_ones = [a for a in attacks if a.comparable and not a.high < gate]
    if not open_ones:
        return reasons
    furthest = tuple(sorted(open_ones, key=lambda a: -a.high if not np.isnan(a.high) else -2.0))
    ways = _ways_out(furthest, gate, n_groups)
    return [*reasons, AttackOpen(attacks=furthest, gate_auc=gate, units=units, ways=ways)]


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
    """Estimate the number of patients unseen by the given model that its attack needs, with the largest possible."""
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
    return attack.n_seeds * attack.of_trainings * stretch / room if np.isfinite(stretch) and room > 0 else np.inf


def _where(attack: Attack) -> str:
    target = "the given model" if attack.of_target else "the audited models"
    return f"{attack.name} on {f'class {one_line(attack.label, 60)} of ' if attack.label else ''}{target}"


def _over(attack: Attack, units: UnitNames) -> str:
    trained = "this one model" if attack.of_target else f"{attack.n_models} attacked models"
    return f"{units.count(attack.n_groups)}, {trained}"
