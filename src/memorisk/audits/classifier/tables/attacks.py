"""Run every attack, over all classes together and class by class (METHODS section 1, "Attacks").

Both twins of each seed are attacked. The paper's five scores are compared as ``scores.twin_attacks`` says: on model A
members C1; non-members C2 and E for scores of the target's loss alone, E only for scores that use the twin's. LiRA and
RMIA take references from the other seeds' twins, so members are C1 and non-members C2; RMIA's population is E, which
shares no group with either. On model B, C1 and C2 are exchanged. The ``paper`` design attacks its candidate alone: no
canary is a member for the independent model.

A patient is then a member for one twin and a non-member for the other, so that how hard an image is cancels between
them. The paper attacks one model per seed; 60 patients then leave the interval of an AUC too wide for any verdict.

Intervals are over patients and trainings (``statistics.roc``). Seeds that serve each other as references are no
independent trainings: LiRA and RMIA are scored again without each of up to ``MOST_PARTS`` parts of the trainings.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from memorisk.audits.classifier.attack_numbers import (
    ALL,
    Agreement,
    Agreements,
    AttackAgreement,
    AttackAuc,
    AttackCounts,
    AttackNumbers,
    AttackRow,
    Limits,
    RocCurve,
    SureRate,
    TargetAudit,
)
from memorisk.audits.classifier.evidence import WHOLE, Evidence
from memorisk.report.numbers import from_json, to_row
from memorisk.scores.lira import ONLINE_FROM, lira_scores, twin_references
from memorisk.scores.rmia import rmia_scores
from memorisk.scores.twin_attacks import ATTACKS, MEMBER, NEITHER, NON_MEMBER, Access, attack_scores
from memorisk.statistics.rank_correlation import Agreement as MeasuredAgreement
from memorisk.statistics.rank_correlation import attack_agreement
from memorisk.statistics.roc import (
    PartLeftOut,
    auc,
    log_roc_points,
    part_left_out,
    reject_if_control_fails,
    roc_curve,
    seed_auc_jackknife,
    tpr_at_fpr,
)
from memorisk.statistics.thresholds import seed_youden_by_folds, youden_by_folds
from memorisk.statistics.verdicts.attack_verdict import Attack
from memorisk.statistics.verdicts.levels import ATTACK_GATE, SURE_RATE
from memorisk.statistics.verdicts.scales import CROSS_ENTROPY, LossScale, find_scale

STRONGEST = "differential"
"""The attack that paper 000 names as its strongest: the loss of the model that did not see the image less its loss."""
MIN_SEEDS_LIRA = 3  # two references a side at least, for a pooled variance
MOST_PARTS = 8  # trainings left out one part at a time: 7 degrees of freedom, and a cost that grows with S, not S^2


@dataclass(frozen=True)
class AttackScores:
    """The scores of one attack on T models: those called A of every seed, then those called B.

    Attributes:
        name: Name in the table.
        score: Scores of the attack, [T, I]; a higher score means more likely a member.
        role: Role of each item, [T, I]: member, non-member or neither.
        seed: Seed of each attacked model, [T].
        control: Whether the attack is a control, which must not separate members from non-members.
        access: Access to the attacked model that the attack needs.
        by_coin: Whether a fair coin divided members from non-members; else the non-members are the test part, which
            must be a random part of the same data.
    """

    name: str
    score: np.ndarray
    role: np.ndarray
    seed: np.ndarray
    control: bool = False
    by_coin: bool = False
    access: Access = Access.PROBABILITIES

    @property
    def on_a(self) -> "AttackScores":
        """Return the scores on model A of every seed."""
        n_seeds = len(dict.fromkeys(self.seed.tolist()))
        return replace(self, score=self.score[:n_seeds], role=self.role[:n_seeds], seed=self.seed[:n_seeds])


def attack_table(
    evidence: Evidence, gate: float = ATTACK_GATE, scale: LossScale = CROSS_ENTROPY
) -> tuple[pd.DataFrame, dict[str, RocCurve], Agreements | None]:
    """Run all attacks on the twins of one audit.

    Args:
        evidence: Score table of the twins, S seeds by I items.
        gate: AUC of the null hypothesis of ``p_auc``, which is that the attack's AUC is at most this.
        scale: Scale of the losses. A loss that is of no answer takes the weights, not an answer's probability.

    Returns:
        The table of ``attacks.parquet``; ROC points by attack for logarithmic axes; the agreement of M (from other
        seeds) with the success of the loss attack, or None below two seeds.
    """
    scored = [*paper_attacks(evidence, scale), *reference_attacks(evidence)]
    parts = {label: of_label(evidence, label) for label in (ALL, *sorted(set(evidence.items.label) - {WHOLE}))}
    rows, whole = attack_rows(evidence, scored, parts, gate), evidence.items.whole
    if not scale.of_answers:
        rows["access"] = rows["access"].where(rows["access"] != Access.PROBABILITIES, Access.WEIGHTS.value)
        rows = rows.drop(columns=["auc_rounded", "auc_label_alone"])
    elif not (evidence.items.label == WHOLE).any():  # models give probabilities of single findings
        for column, coarser in (
            ("auc_rounded", rounded_answers(evidence)),
            ("auc_label_alone", labels_alone(evidence)),
        ):
            aucs = _mean_aucs(coarser, parts)
            rows[column] = [aucs.get(key, float("nan")) for key in zip(rows["attack"], rows["label"], strict=True)]
    curves = {a.name: _curve(replace(a, score=a.score[:, whole], role=a.role[:, whole])) for a in scored}
    return rows, {k: v for k, v in curves.items() if v}, _agreement(evidence, scale)


def attack_rows(
    evidence: Evidence, scored: Sequence[AttackScores], parts: Mapping[str, np.ndarray], gate: float
) -> pd.DataFrame:
    """Measure each attack on each class, or other part of the items: the table of ``attacks.parquet``.

    Args:
        evidence: Score table of the twins, S seeds by I items.
        scored: Attacks on them.
        parts: Mask of the items of each part, [I], by the name that the table has for it.
        gate: AUC of the null hypothesis of ``p_auc``.
    """
    needs_references = any(attack.by_coin for attack in scored)
    without = without_trainings(evidence, parts) if needs_references else {}
    group = _numbered(evidence.items.group)
    rows = [
        attack_row(attack, name, mask, group, gate, without.get((attack.name, name), ()))
        for attack in scored
        for name, mask in parts.items()
    ]
    return pd.DataFrame([to_row(row) for row in rows])


def _numbered(group: np.ndarray) -> np.ndarray:
    """Return the number of each item's group in their order, [I]: numbers sort some 20 times as fast as names."""
    return np.unique(group, return_inverse=True)[1]


DECIMALS = 2
"""Decimals of the probabilities in `rounded_answers`."""


def rounded_answers(evidence: Evidence) -> Evidence:
    """Return the evidence of models that give probabilities with `DECIMALS` decimals.

    Of a probability that is rounded to 0 or 1 the middle of what is rounded to it counts. The attacker rounds the
    answers of own models alike.
    """
    half = 0.5 * 10.0**-DECIMALS
    p_a, p_b = (np.round(np.exp(-loss), DECIMALS) for loss in (evidence.loss_a, evidence.loss_b))
    return _answered(evidence, p_a, p_b, half)


def labels_alone(evidence: Evidence) -> Evidence:
    """Return the evidence of models that give their label alone: right or wrong."""
    return _answered(evidence, evidence.correct_a, evidence.correct_b, 0.25)


def _answered(evidence: Evidence, p_a: np.ndarray, p_b: np.ndarray, least: float) -> Evidence:
    """Return the evidence with these probabilities of the true label, [S, I], kept off 0 and 1."""
    p_a, p_b = (np.clip(np.asarray(p, dtype=np.float64), least, 1 - least) for p in (p_a, p_b))
    losses = {"loss_a": -np.log(p_a), "loss_b": -np.log(p_b)}
    return replace(evidence, **losses, margin_a=np.log(p_a) - np.log1p(-p_a), margin_b=np.log(p_b) - np.log1p(-p_b))


def _mean_aucs(evidence: Evidence, parts: Mapping[str, np.ndarray]) -> dict[tuple[str, str], float]:
    """Return the AUC of each attack but the control, mean over the attacked models, by attack and part."""
    aucs: dict[tuple[str, str], float] = {}
    for attack in (*paper_attacks(evidence), *reference_attacks(evidence)):
        for name, mask in parts.items() if not attack.control else ():
            sides = [
                (score[mask & (role == MEMBER)], score[mask & (role == NON_MEMBER)])
                for score, role in zip(attack.score, attack.role, strict=True)
            ]
            of_models = [auc(*side) for side in sides if min(map(len, side))]
            aucs[attack.name, name] = float(np.mean(of_models)) if of_models else float("nan")
    return aucs


def of_label(evidence: Evidence, label: str) -> np.ndarray:
    """Select the items of a class, or those of whole images: [I] bool."""
    return evidence.items.whole if label == ALL else evidence.items.label == label


def paper_attacks(evidence: Evidence, scale: LossScale = CROSS_ENTROPY) -> list[AttackScores]:
    """Compute the paper's attack scores from the twins' losses (`scores.twin_attacks`).

    Args:
        evidence: Score table of the twins.
        scale: Scale of the losses; scores that are defined for answers alone are left out where losses are of none.
    """
    held_out = evidence.items.split == "test"
    sign = np.where(held_out, 0, evidence.sign)
    attacks = []
    for spec in ATTACKS.values():
        if len(evidence.seeds) < spec.min_seeds or (spec.of_answers and not scale.of_answers):
            continue
        of_models = [attack_scores(spec, evidence.loss_a, evidence.loss_b, sign, held_out)]
        if evidence.design != "paper":
            of_models.append(attack_scores(spec, evidence.loss_b, evidence.loss_a, -sign, held_out))
        score, role = (np.concatenate([getattr(one, name) for one in of_models]) for name in ("score", "role"))
        seeds = np.tile(evidence.seeds, len(of_models))
        attacks.append(AttackScores(spec.name, score, role, seeds, spec.control, access=spec.access))
    return attacks


def reference_attacks(evidence: Evidence) -> list[AttackScores]:
    """Compute LiRA and RMIA against the other seeds' twins: offline from three seeds on, online from sixteen models."""
    return _reference_attacks(evidence, ["offline"] + (["online"] if 2 * len(evidence.seeds) >= ONLINE_FROM else []))


def _reference_attacks(evidence: Evidence, modes: list[str]) -> list[AttackScores]:
    n_seeds = len(evidence.seeds)
    if evidence.design == "paper" or n_seeds < MIN_SEEDS_LIRA:
        return []
    twins = (evidence, evidence.mirrored)
    sign = np.concatenate([one.sign for one in twins])
    role = np.where(sign > 0, MEMBER, np.where(sign < 0, NON_MEMBER, NEITHER)).astype(np.int8)
    attacks = []
    for name, (function, mode) in REFERENCE_ATTACKS.items():
        if mode not in modes:
            continue
        score = np.stack([function(one, s, mode) for one in twins for s in range(n_seeds)])
        usable = np.isfinite(score) & (role != NEITHER)
        score, roles = np.where(usable, score, np.nan), np.where(usable, role, NEITHER).astype(np.int8)
        attacks.append(AttackScores(name, score, roles, np.tile(evidence.seeds, 2), by_coin=True))
    return attacks


def without_trainings(evidence: Evidence, parts: Mapping[str, np.ndarray]) -> dict[tuple[str, str], list[PartLeftOut]]:
    """Score attacks with references again without each part of the trainings, in both their roles.

    Args:
        evidence: Score table of the twins, S seeds by I items.
        parts: Mask of the items of each part of the table, [I], by its name.

    Returns:
        Results without each part of the trainings, by attack and by name of ``parts``.
    """
    n_seeds = len(evidence.seeds)
    modes = ["offline"] + (["online"] if 2 * n_seeds >= ONLINE_FROM else [])
    trainings = np.array_split(np.arange(n_seeds), min(n_seeds, MOST_PARTS))
    parts_left_out: dict[tuple[str, str], list[PartLeftOut]] = {}
    group = _numbered(evidence.items.group)
    for left_out in trainings:
        for attack in _reference_attacks(evidence.of_seeds(np.setdiff1d(np.arange(n_seeds), left_out)), modes):
            for name, own in parts.items():
                scores = attack.score[:, own], attack.role[:, own], group[own]
                part_result = part_left_out(*scores, seed=attack.seed)
                parts_left_out.setdefault((attack.name, name), []).append(part_result)
    return parts_left_out


def _lira(evidence: Evidence, s: int, mode: str) -> np.ndarray:
    refs = twin_references(evidence.margin_a, evidence.margin_b, evidence.sign, s)
    target = np.where(evidence.sign[s] != 0, evidence.margin_a[s], np.nan)
    # The audit as a whole decides once whether a mode has enough models.
    return lira_scores(target, refs.refs_in, refs.refs_out, mode=mode, variance="pooled_residual", allow_small=True)


def _rmia(evidence: Evidence, s: int, mode: str) -> np.ndarray:
    refs = twin_references(-evidence.loss_a, -evidence.loss_b, evidence.sign, s)
    target = np.where(evidence.sign[s] != 0, -evidence.loss_a[s], np.nan)
    test = evidence.items.split == "test"
    others = np.arange(len(evidence.seeds)) != s
    population = -np.concatenate([evidence.loss_a[others][:, test], evidence.loss_b[others][:, test]])
    offline_a = find_scale(evidence.scale).rmia_offline_a
    return rmia_scores(
        target,
        refs.refs_in,
        refs.refs_out,
        -evidence.loss_a[s, test],
        population,
        mode=mode,
        offline_a=offline_a,
        log=True,
    )


REFERENCE_ATTACKS: Mapping[str, tuple[Callable[[Evidence, int, str], np.ndarray], str]] = {
    f"{name}_{mode}": (function, mode)
    for mode in ("offline", "online")
    for name, function in (("lira", _lira), ("rmia", _rmia))
}
"""Attacks that compare the attacked model with reference models, by name: function of the evidence, and its mode."""


def attack_row(
    attack: AttackScores,
    label: str,
    keep: np.ndarray,
    group: np.ndarray,
    gate: float,
    without: Sequence[PartLeftOut] = (),
    *,
    level: float = 0.95,
) -> AttackRow:
    """Measure one attack on some items: AUC and rates with intervals.

    Args:
        attack: Scores of the attack on T models.
        label: Name of these items in the table.
        keep: Whether the row covers each item, [I].
        group: Group of each item, [I].
        gate: AUC of the null hypothesis of ``p_auc``.
        without: Parts of the trainings that are each left out once (``seed_auc_jackknife``).
        level: Confidence level of the interval of the AUC.
    """
    score, role, group = attack.score[:, keep], attack.role[:, keep], group[keep]
    interval = seed_auc_jackknife(score, role, group, seed=attack.seed, without=without, level=level)
    sides = [(int((r == MEMBER).sum()), int((r == NON_MEMBER).sum())) for r in role]
    sides = [side for side in sides if min(side)]
    low = tpr_at_fpr(score, role, group, 0.01, seed=attack.seed, value=SURE_RATE)
    lowest = tpr_at_fpr(score, role, group, 0.001, seed=attack.seed)
    notes = [f"TPR at {t.fpr:.1%} FPR {t.note}" for t in (low, lowest) if t.note and sides]
    if attack.control:
        check = reject_if_control_fails(interval)
        notes = [check.message] if not check.passed else ["control: its interval must contain 0.5, and does"]
    elif np.isnan(interval.estimate):
        notes = [interval.method]
    return AttackRow(
        label=label,
        attack=attack.name,
        access=attack.access,
        numbers=AttackNumbers(
            auc=AttackAuc(
                estimate=interval.estimate,
                low=interval.low,
                high=interval.high,
                p_at_most_gate=interval.p_at_most(gate),
            ),
            rate=SureRate(
                at_1_percent=low.tpr, low=low.low, high=low.high, p_at_most=low.p_at_most, at_01_percent=lowest.tpr
            ),
            balanced_accuracy=seed_youden_by_folds(score, role, group),
            counts=AttackCounts(
                n_members=round(np.mean([m for m, _ in sides])) if sides else 0,
                n_non_members=round(np.mean([n for _, n in sides])) if sides else 0,
                n_groups=interval.n_groups,
                n_member_groups=low.n_members,
                n_non_member_groups=low.n_non_members,
                n_models=len(sides),
                n_seeds=interval.n_seeds,
            ),
            conditional=interval.conditional,
            of_trainings=interval.spread.of_trainings() if interval.spread else 0.0,
            by_coin=attack.by_coin,
            control=attack.control,
            note="; ".join(dict.fromkeys(notes)),
        ),
    )


def attacks_for_verdict(
    table: pd.DataFrame, target: TargetAudit | None, random_split: bool, titles: Mapping[str, str]
) -> list[Attack]:
    """List the attacks that the verdict counts: no controls, on twins over all classes, on the target by class too.

    Args:
        table: Table of ``attack_table``.
        target: Result of ``target.audit_target``; None without a given model.
        random_split: Whether members and test images are known to be one random split by group.
        titles: Names of attacks in sentences, by their names in the table.
    """
    rows = [from_json(AttackRow, row) for row in pd.DataFrame(table[table["label"] == ALL]).to_dict("records")]
    controls = [row for row in rows if row.numbers.control]
    fair = random_split and bool(controls) and all(row.numbers.at_chance for row in controls)
    attacks = [_attack(row, titles, comparable=row.numbers.by_coin or fair) for row in rows if not row.numbers.control]
    if target is not None and target.attacks:
        controls = target.controls.values()
        fair = random_split and bool(controls) and all(control.at_chance for control in controls)
        own = [AttackRow(label=ALL, attack=name, numbers=numbers) for name, numbers in target.attacks.items()]
        attacks += [_attack(row, titles, comparable=fair, of_target=True) for row in [*own, *target.classes]]
    return attacks


def _attack(row: AttackRow, titles: Mapping[str, str], *, comparable: bool, of_target: bool = False) -> Attack:
    auc, rate, counts = row.numbers.auc, row.numbers.rate, row.numbers.counts
    return Attack(
        name=titles.get(row.attack, row.attack.replace("_", " ")),
        auc=auc.estimate,
        low=auc.low,
        high=auc.high,
        p_auc=auc.p_at_most_gate,
        tpr_low=rate.low,
        p_tpr=rate.p_at_most,
        of_trainings=row.numbers.of_trainings,
        n_groups=counts.n_groups,
        n_non_members=counts.n_non_member_groups,
        n_models=counts.n_models,
        n_seeds=counts.n_seeds,
        label="" if row.label == ALL else row.label,
        of_target=of_target,
        comparable=comparable,
        conditional=row.numbers.conditional,
    )


def _curve(attack: AttackScores) -> RocCurve | None:
    """Compute ROC points of the first model that has both sides: one model, as an attacker meets it."""
    for s in range(len(attack.score)):
        members, others = attack.score[s][attack.role[s] == MEMBER], attack.score[s][attack.role[s] == NON_MEMBER]
        if len(members) and len(others):
            fpr, tpr = log_roc_points(roc_curve(members, others))
            return RocCurve(fpr=tuple(round(float(v), 6) for v in fpr), tpr=tuple(round(float(v), 6) for v in tpr))
    return None


def _agreement(evidence: Evidence, scale: LossScale) -> Agreements | None:
    """Correlate M, from other seeds, with the success of the loss attack; in the same seed the question is circular.

    ``strongest`` holds both forms for the attack that the paper names as its strongest, the loss difference: its figure
    4a is the circular one, M against itself (section 4, "partly tautological").
    """
    if len(evidence.seeds) < 2:
        return None
    evidence = evidence.select(evidence.items.whole)
    attacks = {attack.name: attack.on_a for attack in paper_attacks(evidence)}
    loss_agreement = _success_by_m(evidence, attacks["loss_threshold"], scale)
    if loss_agreement is None:
        return None
    return Agreements(
        other_seeds=loss_agreement.other_seeds,
        circular=loss_agreement.circular,
        strongest=_success_by_m(evidence, attacks[STRONGEST], scale),
    )


def _success_by_m(evidence: Evidence, attack: AttackScores, scale: LossScale) -> AttackAgreement | None:
    """Compare M with whether an attack on each seed's model accuses a member, at a threshold chosen on other folds."""
    group = evidence.items.group.astype(str)
    success = np.full(attack.score.shape, np.nan)
    for s, role in enumerate(attack.role):
        used, members = role != NEITHER, role == MEMBER
        if not members.any() or not (role == NON_MEMBER).any():
            continue
        folds = youden_by_folds(attack.score[s, used], members[used], group[used])
        if not folds.note:
            success[s, members] = folds.accused[members[used]]
    if not np.isfinite(success).any():
        return None
    both = attack_agreement(evidence.gap, evidence.sign, success, group, bands=(scale.moderate, scale.high))
    return AttackAgreement(other_seeds=_of(both.other_seeds), circular=_of(both.circular))


def _of(agreement: MeasuredAgreement) -> Agreement:
    return Agreement(
        spearman=Limits.of(agreement.spearman),
        success_high=agreement.success_high,
        success_low=agreement.success_low,
        difference=Limits.of(agreement.difference),
        n_high=agreement.n_high,
        n_low=agreement.n_low,
    )
