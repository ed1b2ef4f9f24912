"""What an attacker gets: every attack, for all classes together and class by class (METHODS section 1, "Attacks").

The paper's five scores are compared as ``scores.attacks`` says: members C1 of model A; non-members C2 and E for
scores of the target's loss alone, E only for scores that use the twin's. LiRA and RMIA attack model A of each seed
with references from the other seeds' twins, so members are C1 and non-members C2; RMIA's population is E, which
shares no group with either.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.evidence import WHOLE, Evidence
from memorisk.scores.attacks import ATTACKS, MEMBER, NEITHER, NON_MEMBER, attack_scores
from memorisk.scores.lira import ONLINE_FROM, lira_scores, twin_references
from memorisk.scores.rmia import rmia_scores
from memorisk.statistics.correlation import Agreement, attack_agreement
from memorisk.statistics.jackknife import JackknifeInterval
from memorisk.statistics.roc import log_roc_points, reject_if_control_fails, roc_curve, seed_auc_jackknife, tpr_at_fpr
from memorisk.statistics.thresholds import seed_youden_by_folds, youden_by_folds

ALL = "(all)"
STRONGEST = "differential"
"""The attack that paper 000 names as its strongest: the loss of the model that did not see the image less its loss."""
COLUMNS = (
    *("label", "attack", "auc", "low", "high", "tpr_at_1pct", "tpr_at_01pct", "balanced_accuracy"),
    *("n_members", "n_non_members", "n_groups", "control", "note"),
)
MIN_SEEDS_LIRA = 3  # two references a side at least, for a pooled variance


@dataclass(frozen=True)
class Scored:
    """One attack's scores on model A of every seed.

    Attributes:
        name: Name in the table.
        score: [S, I] higher = more likely a member.
        role: [S, I] member, non-member or neither.
        control: Must not separate members from non-members.
    """

    name: str
    score: np.ndarray
    role: np.ndarray
    control: bool = False


def attack_table(evidence: Evidence) -> tuple[pd.DataFrame, dict[str, Any], dict[str, Any] | None]:
    """All attacks on one audit.

    Returns:
        The table of ``attacks.parquet``; ROC points by attack for logarithmic axes; the agreement of M (from other
        seeds) with the success of the loss attack, or None below two seeds.
    """
    scored = [*paper_attacks(evidence), *reference_attacks(evidence)]
    label, group = evidence.items.label, evidence.items.group
    rows = []
    for attack in scored:
        for name in (ALL, *sorted(set(label) - {WHOLE})):
            keep = evidence.items.whole if name == ALL else label == name
            rows.append(_row(attack, str(name), attack.score[:, keep], attack.role[:, keep], group[keep]))
    whole = evidence.items.whole
    curves = {a.name: _curve(replace(a, score=a.score[:, whole], role=a.role[:, whole])) for a in scored}
    return pd.DataFrame(rows, columns=pd.Index(COLUMNS)), {k: v for k, v in curves.items() if v}, _agreement(evidence)


def paper_attacks(evidence: Evidence) -> list[Scored]:
    """The paper's five scores over the twins' losses."""
    held_out = evidence.items.split == "test"
    sign = np.where(held_out, 0, evidence.sign)
    found = []
    for spec in ATTACKS.values():
        if len(evidence.seeds) < spec.min_seeds:
            continue
        made = attack_scores(spec, evidence.loss_a, evidence.loss_b, sign, held_out)
        found.append(Scored(spec.name, made.score, made.role, spec.control))
    return found


def reference_attacks(evidence: Evidence) -> list[Scored]:
    """LiRA and RMIA from the other seeds' twins: offline from three seeds, online from sixteen models."""
    n_seeds = len(evidence.seeds)
    if evidence.design == "paper" or n_seeds < MIN_SEEDS_LIRA:
        return []
    sign = evidence.sign
    role = np.where(sign > 0, MEMBER, np.where(sign < 0, NON_MEMBER, NEITHER)).astype(np.int8)
    modes = ["offline"] + (["online"] if 2 * n_seeds >= ONLINE_FROM else [])
    found = []
    for mode in modes:
        for name, function in (("lira", _lira), ("rmia", _rmia)):
            score = np.stack([function(evidence, s, mode) for s in range(n_seeds)])
            usable = np.isfinite(score) & (role != NEITHER)
            found.append(
                Scored(
                    f"{name}_{mode}", np.where(usable, score, np.nan), np.where(usable, role, NEITHER).astype(np.int8)
                )
            )
    return found


def _lira(evidence: Evidence, s: int, mode: str) -> np.ndarray:
    refs = twin_references(evidence.margin_a, evidence.margin_b, evidence.sign, s)
    target = np.where(evidence.sign[s] != 0, evidence.margin_a[s], np.nan)
    return lira_scores(target, refs.refs_in, refs.refs_out, mode=mode, variance="pooled_residual")


def _rmia(evidence: Evidence, s: int, mode: str) -> np.ndarray:
    refs = twin_references(-evidence.loss_a, -evidence.loss_b, evidence.sign, s)
    target = np.where(evidence.sign[s] != 0, -evidence.loss_a[s], np.nan)
    test = evidence.items.split == "test"
    others = np.arange(len(evidence.seeds)) != s
    population = -np.concatenate([evidence.loss_a[others][:, test], evidence.loss_b[others][:, test]])
    return rmia_scores(target, refs.refs_in, refs.refs_out, -evidence.loss_a[s, test], population, mode=mode, log=True)


def _row(attack: Scored, label: str, score: np.ndarray, role: np.ndarray, group: np.ndarray) -> dict[str, object]:
    interval = seed_auc_jackknife(score, role, group)
    per_seed = [(score[s][role[s] == MEMBER], score[s][role[s] == NON_MEMBER]) for s in range(len(score))]
    per_seed = [(m, n) for m, n in per_seed if len(m) and len(n)]
    tpr = {f: _mean_tpr(per_seed, f) for f in (0.01, 0.001)}
    notes = [t[1] for t in tpr.values() if t[1]]
    if attack.control:
        check = reject_if_control_fails(interval)
        notes = [check.message] if not check.passed else ["control: its interval must contain 0.5, and does"]
    elif np.isnan(interval.estimate):
        notes = [interval.method]
    return {
        "label": label,
        "attack": attack.name,
        "auc": interval.estimate,
        "low": interval.low,
        "high": interval.high,
        "tpr_at_1pct": tpr[0.01][0],
        "tpr_at_01pct": tpr[0.001][0],
        "balanced_accuracy": seed_youden_by_folds(score, role, group),
        "n_members": round(np.mean([len(m) for m, _ in per_seed])) if per_seed else 0,
        "n_non_members": round(np.mean([len(n) for _, n in per_seed])) if per_seed else 0,
        "n_groups": interval.n_groups,
        "control": attack.control,
        "note": "; ".join(dict.fromkeys(notes)),
    }


def _mean_tpr(per_seed: list[tuple[np.ndarray, np.ndarray]], fpr: float) -> tuple[float, str]:
    """Mean over seeds of the TPR at a low FPR; NaN with a note where a seed has too few non-members."""
    if not per_seed:
        return float("nan"), ""
    found = [tpr_at_fpr(m, n, fpr) for m, n in per_seed]
    notes = [f.note for f in found if f.note]
    return (float("nan"), f"TPR at {fpr:.1%} FPR {notes[0]}") if notes else (float(np.mean([f.tpr for f in found])), "")


def _curve(attack: Scored) -> dict[str, list[float]] | None:
    """ROC points of model A of the first seed that has both sides; one model, as an attacker meets it."""
    for s in range(len(attack.score)):
        members, others = attack.score[s][attack.role[s] == MEMBER], attack.score[s][attack.role[s] == NON_MEMBER]
        if len(members) and len(others):
            fpr, tpr = log_roc_points(roc_curve(members, others))
            return {"fpr": [round(float(v), 6) for v in fpr], "tpr": [round(float(v), 6) for v in tpr]}
    return None


def _agreement(evidence: Evidence) -> dict[str, Any] | None:
    """Whether M, from other seeds, tells whom the loss attack finds; in the same seed the question is circular.

    ``strongest`` holds both forms for the attack that the paper names as its strongest, the loss difference: its figure
    4a is the circular one, M against itself (section 4, "partly tautological").
    """
    if len(evidence.seeds) < 2:
        return None
    evidence = evidence.select(evidence.items.whole)
    attacks = {attack.name: attack for attack in paper_attacks(evidence)}
    found = _success_by_m(evidence, attacks["loss_threshold"])
    return None if found is None else found | {"strongest": _success_by_m(evidence, attacks[STRONGEST])}


def _success_by_m(evidence: Evidence, attack: Scored) -> dict[str, Any] | None:
    """M against whether an attack on each seed's model accuses a member, at a threshold chosen on the other folds."""
    group = evidence.items.group.astype(str)
    success = np.full(attack.score.shape, np.nan)
    for s, role in enumerate(attack.role):
        used, members = role != NEITHER, role == MEMBER
        if not members.any() or not (role == NON_MEMBER).any():
            continue
        found = youden_by_folds(attack.score[s, used], members[used], group[used])
        if not found.note:
            success[s, members] = found.accused[members[used]]
    if not np.isfinite(success).any():
        return None
    both = attack_agreement(evidence.gap, evidence.sign, success, group)
    return {"other_seeds": _agreement_row(both.other_seeds), "circular": _agreement_row(both.circular)}


def _agreement_row(found: Agreement) -> dict[str, Any]:
    return {
        "spearman": _limits(found.spearman),
        "success_high": found.success_high,
        "success_low": found.success_low,
        "difference": _limits(found.difference),
        "n_high": found.n_high,
        "n_low": found.n_low,
    }


def _limits(interval: JackknifeInterval) -> dict[str, float]:
    return {"estimate": interval.estimate, "low": interval.low, "high": interval.high}
