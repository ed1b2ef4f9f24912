"""From a score table to a result: everything an audit concludes, and nothing that needs a network or a pixel.

``audit classifier`` and ``audit losses`` both end here, so that losses from any other framework are judged by the
same rules.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from memorisk.audits.attack_table import attack_table
from memorisk.audits.class_tests import ClassFindings, audit_class, list_groups
from memorisk.audits.coverage import not_scored, units_of, unpaired
from memorisk.audits.evidence import Evidence
from memorisk.audits.options import AnalysisOptions
from memorisk.report.result import Result
from memorisk.scores.differential import feldman_zhang, memorization
from memorisk.statistics.contrasts import unpaired_difference
from memorisk.statistics.intervals import two_way_interval
from memorisk.statistics.prerequisites import unseen_against_test
from memorisk.statistics.verdict import Decision, Units, decide

SCHEMA = 1
PER_CLASS = (
    *("label", "n", "frequency", "n_groups", "n_scored", "n_groups_scored", "n_test_groups"),
    *("mean", "median", "trimmed_mean", "low", "high", "tier", "smallest_list", "list_level"),
    *("flagged", "testable", "why_not"),
    *("median_low", "median_high", "trimmed_low", "trimmed_high", "df", "prerequisite_p"),
)
NULL_SAMPLE = 4000  # values kept for the figure of members beside the null


@dataclass(frozen=True, kw_only=True)
class Context:
    """What the scores alone do not tell: how the models were made and what was left out.

    Attributes:
        design: "balanced", "matched" or "paper".
        protocol: "corrected" or "paper".
        random_split: Canaries and test images come from one random split by group.
        not_auditable: Classes too small to split.
        n_validation: Images set aside for the user's own training.
        n_images: Images of the data set; None where only scores are known.
        n_skipped: Images that could not be read and were left out.
        n_missing: Rows and files of the source that are no images or have no file, and were left out.
        n_not_sampled: Images that a sample left out.
        model: The network.
        training: How it was trained.
        data_hash: Of ids, labels, groups and pixels.
        dataset: Name of the data set.
        versions: Of the libraries.
        device: Where the models were trained.
        weights_kept: Whether the run folder holds the trained weights.
        pseudonymised: Whether ids are keyed hashes.
        groups_given: The data say whose each image is; else every image stands for itself.
        notes: Sentences for the report.
        placebo: What the placebo showed.
        target: What the audit of the very model showed.
        privacy: Regime, promise and measured lower bound.
    """

    design: str
    protocol: str = "corrected"
    random_split: bool = True
    not_auditable: list[str] = field(default_factory=list)
    n_validation: int = 0
    n_images: int | None = None
    n_skipped: int = 0
    n_missing: int = 0
    n_not_sampled: int = 0
    model: str = "trained elsewhere"
    training: dict[str, Any] = field(default_factory=dict)
    data_hash: str = ""
    dataset: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    device: str = ""
    weights_kept: bool = False
    pseudonymised: bool = False
    groups_given: bool = True
    notes: list[str] = field(default_factory=list)
    placebo: dict[str, Any] | None = None
    target: dict[str, Any] | None = None
    privacy: dict[str, Any] | None = None


def analyse(evidence: Evidence, options: AnalysisOptions, context: Context) -> Result:
    """Draw every conclusion of a classifier audit from its score table.

    Args:
        evidence: S twin pairs by I scored items.
        options: Level, correction and gate.
        context: What the scores do not tell.

    Returns:
        The result, not yet saved.
    """
    findings = class_findings(evidence, options, context)
    per_class = pd.DataFrame([f.row for f in findings], columns=pd.Index(PER_CLASS))
    per_group = pd.concat([f.groups for f in findings], ignore_index=True)
    per_image = _per_image(evidence, findings, per_group)
    attacks, curves, agreement = attack_table(evidence)
    counts = _counts(evidence, context)
    units = units_of(counts)
    # Without a gate nothing stops a pipeline, but the status still says what was found: "never" is not an all-clear.
    level = min((f.list_level for f in findings), default=options.level)  # what a class's list needs
    gate = "high" if options.fail_on == "never" else options.fail_on
    decision = decide(per_class, gate=gate, q=level, units=units, n_seeds=len(evidence.seeds))
    unscored = not_scored(evidence, context.n_validation, context.not_auditable)
    summary = {
        **counts,
        "form": form_words(evidence, context),
        "level_q": options.level,
        "correction": options.correction,
        **unscored,
        "roc": curves,
        "null": _null_sample(evidence),
        "agreement": agreement,
        "rarest_vs_top": rarest_against_top(findings),
        "prerequisites": {f.row["label"]: f.row["prerequisite_p"] for f in findings},
        "utility": _utility(evidence),
        "placebo": context.placebo,
        "target": context.target,
        "privacy": context.privacy,
    }
    verdict = {
        "schema": SCHEMA,
        "audit": "classifier",
        "gate": options.fail_on,
        **_status(decision, context, unscored, summary["utility"], units),
        "tiers": dict(zip(per_class["label"], per_class["tier"], strict=True)),
        "flagged_groups": {f.row["label"]: f.row["flagged"] for f in findings},
        "level": options.level,
        "not_scored": unscored,
        "left_out": {k: summary[k] for k in ("n_skipped", "n_missing", "n_not_sampled")},
        "aucs": _headline_aucs(attacks),
        "design": context.design,
        "protocol": context.protocol,
        "n_models": summary["n_models"],
        "seeds": summary["seeds"],
        "data_hash": context.data_hash,
        "target": None if context.target is None else context.target.get("verdict"),
        "versions": context.versions,
    }
    return Result(
        per_image=per_image,
        per_group=per_group,
        per_class=per_class,
        attacks=attacks,
        summary=summary,
        verdict=verdict,
    )


def class_findings(evidence: Evidence, options: AnalysisOptions, context: Context) -> list[ClassFindings]:
    """Every class, in the order of their names; p-values only where they may be given."""
    checks = _prerequisites(evidence)
    findings = []
    for label in sorted(set(evidence.items.label)):
        p, ok = checks.get(label, (float("nan"), True))
        blocked = None
        if not context.random_split:
            blocked = "no p-values: the given split is not known to be random by group, so its test part is no null"
        elif label in context.not_auditable:
            blocked = "not auditable: too few groups to split"
        elif not ok:
            blocked = "no p-values: canaries under the model that did not see them differ from test images"
        findings.append(audit_class(evidence, str(label), prerequisite_p=p, blocked=blocked))
    return list_groups(findings, options)


def _prerequisites(evidence: Evidence) -> dict[str, tuple[float, bool]]:
    """Per class: p of "unseen canaries look like test images" (adjusted over classes), and whether it may stand."""
    items, sign = evidence.items, evidence.sign
    canary, test = (items.split == "canary") & (sign != 0).any(axis=0), items.split == "test"
    unseen = np.where(sign > 0, evidence.loss_b, np.where(sign < 0, evidence.loss_a, np.nan))
    found = unseen_against_test(
        unseen[:, canary],
        items.group[canary].astype(str),
        items.label[canary].astype(str),
        evidence.loss_a[:, test],
        evidence.loss_b[:, test],
        items.group[test].astype(str),
        items.label[test].astype(str),
        symmetric=evidence.design != "paper",
    )
    return {label: (check.adjusted, check.ok or not check.n_test_groups) for label, check in found.items()}


def rarest_against_top(findings: list[ClassFindings]) -> dict[str, Any] | None:
    """The mean M of the most memorized class less that of the rarest, with its interval (two sets of groups)."""
    scored = [f for f in findings if len(f.table)]
    if len(scored) < 2:
        return None
    smallest = min(int(str(f.row["n"])) for f in scored)
    if sum(f.row["n"] == smallest for f in scored) > 1:
        return None  # equally rare classes: none is the rarest
    rarest = min(scored, key=lambda f: (f.row["n"], f.row["label"]))
    top = max(scored, key=lambda f: (f.row["mean"], f.row["label"]))
    found = {
        "label_rarest": rarest.row["label"],
        "n_rarest": rarest.row["n"],
        "mean_rarest": rarest.row["mean"],
        "label_top": top.row["label"],
        "n_top": top.row["n"],
        "mean_top": top.row["mean"],
    }
    if rarest is top:
        return found | {"difference": 0.0, "low": float("nan"), "high": float("nan")}
    interval = unpaired_difference(two_way_interval(top.table), two_way_interval(rarest.table))
    return found | {"difference": interval.estimate, "low": interval.low, "high": interval.high}


def form_words(evidence: Evidence, context: Context) -> str:
    """Which form of METHODS ran, in one sentence."""
    s = len(evidence.seeds)
    if context.design == "paper":
        form = "the published form" if context.protocol == "paper" else "the published design with repaired statistics"
        return f"{form}: a candidate on T + C and an independent on T, {s} seeds"
    kind = "every image outside the test part is a canary" if context.design == "balanced" else "T is shared"
    return f"the corrected form, design {context.design} ({kind}): {s} twin pairs, {2 * s} models"


def _status(
    decision: Decision, context: Context, unscored: dict[str, Any], utility: dict[str, Any], units: Units
) -> dict[str, Any]:
    """Status and reasons. What was not scored, not learned, or not of this model cannot pass."""
    status, why, deciding = decision.status, list(decision.why), list(decision.what_would_decide)
    if not context.random_split:
        deciding.append(
            "a split drawn at random by patient; if the given one was, say so (--splits given-random; for losses leave "
            "out --no-random-split)"
        )
    doubts = []
    if unscored["without_partner"]:
        found = unpaired(unscored, units)
        doubts.append(
            (
                f"{found} had no partner with the same labels and number of images, so nothing is known of them",
                "the same images with at most a few of each patient; --design paper needs no partners, but scores "
                "15 % of the images",
            )
        )
    if utility["beats_guessing"] is False:
        doubts.append(
            (
                f"the models are not better than guessing (balanced accuracy {utility['test_balanced_accuracy']:.2f}, "
                f"chance {utility['chance']:.2f}): models that learned nothing remember nothing",
                "the training that the released model really had (--epochs, --lr, --model, --weights)",
            )
        )
    if context.target is not None and not context.target["replication"]["replicated"]:
        reason = "the twins do not replicate the given model: its test loss or accuracy is outside their own spread"
        doubts.append((reason, "twins by the very recipe of the given model (--train, or its settings)"))
    if doubts and status == "pass":
        status, why = "undecided", []
    return {
        "status": status,
        "why": [*why, *(reason for reason, _ in doubts)],
        "what_would_decide": [*deciding, *(way for _, way in doubts)],
    }


def _per_image(evidence: Evidence, findings: list[ClassFindings], per_group: pd.DataFrame) -> pd.DataFrame:
    items, sign = evidence.items, evidence.sign
    m = memorization(evidence.gap, sign)
    seen = np.where(sign > 0, evidence.loss_a, np.where(sign < 0, evidence.loss_b, np.nan))
    unseen = np.where(sign > 0, evidence.loss_b, np.where(sign < 0, evidence.loss_a, np.nan))
    fz = feldman_zhang(
        np.concatenate([evidence.correct_a, evidence.correct_b]),
        np.concatenate([evidence.member_a, evidence.member_b]),
    )
    p = np.full(len(items), np.nan)
    for finding in findings:
        for index, value in finding.images.items():
            p[index] = value
    flagged = set(map(tuple, per_group.loc[per_group["flagged"], ["label", "group"]].to_numpy()))
    scored = np.isfinite(m)
    return pd.DataFrame(
        {
            "image": items.image,
            "label": items.label,
            "group": items.group,
            "split": items.split,
            "M": m,
            "p_value": p,
            "flagged": [pair in flagged for pair in zip(items.label, items.group, strict=True)] & scored,
            "n_seeds": (sign != 0).sum(axis=0),
            "loss_unseen": _mean(unseen),
            "loss_seen": _mean(seen),
            "fz_memorization": np.where(scored, fz.memorization, np.nan),
            "fz_standard_error": np.where(scored, fz.standard_error, np.nan),
        }
    )


def _mean(values: np.ndarray) -> np.ndarray:
    """Mean over seeds of what is there, [I]; NaN where nothing is."""
    there = np.isfinite(values)
    total = np.where(there, values, 0.0).sum(axis=0)
    return np.where(there.any(axis=0), total / np.maximum(there.sum(axis=0), 1), np.nan)


def _counts(evidence: Evidence, context: Context) -> dict[str, Any]:
    items = evidence.items
    images, first = np.unique(items.image.astype(str), return_index=True)
    split, group = items.split[first], items.group[first]
    count = {name: int((split == name).sum()) for name in ("train", "canary", "test")}
    members = [int(m.sum()) for m in (*evidence.member_a, *evidence.member_b)]
    return {
        "dataset": context.dataset,
        "design": context.design,
        "protocol": context.protocol,
        "n_images": context.n_images if context.n_images is not None else len(images),
        "n_groups": len(np.unique(group.astype(str))),
        "n_classes": len(np.unique(items.label.astype(str))),
        "n_train": count["train"],
        "n_canary": count["canary"],
        "n_test": count["test"],
        "n_validation": context.n_validation,
        "n_skipped": context.n_skipped,
        "n_missing": context.n_missing,
        "n_not_sampled": context.n_not_sampled,
        "n_models": 2 * len(evidence.seeds),
        "n_trained_on": round(float(np.mean(members)), 1),
        "seeds": evidence.seeds.tolist(),
        "model": context.model,
        "training": context.training,
        "device": context.device,
        "data_hash": context.data_hash,
        "versions": context.versions,
        "weights_kept": context.weights_kept,
        "pseudonymised": context.pseudonymised,
        "groups_given": context.groups_given,
        "notes": context.notes,
    }


def _null_sample(evidence: Evidence) -> dict[str, list[float]]:
    """Values for the figure: M of the scored canaries, and the mean gap of test images under random sign flips."""
    sign, items = evidence.sign, evidence.items
    m = memorization(evidence.gap, sign)
    test = evidence.gap[:, items.split == "test"]
    rng = np.random.default_rng([41, len(evidence.seeds)])
    flips = np.ones((1, len(test))) if evidence.design == "paper" else rng.choice([-1.0, 1.0], size=(64, len(test)))
    null = (flips @ test / len(test)).ravel()
    return {"members": _thin(m[np.isfinite(m)]), "null": _thin(null)}


def _thin(values: np.ndarray) -> list[float]:
    """At most ``NULL_SAMPLE`` order statistics, evenly spaced."""
    ordered = np.sort(values)
    if len(ordered) > NULL_SAMPLE:
        ordered = ordered[np.linspace(0, len(ordered) - 1, NULL_SAMPLE).round().astype(int)]
    return [round(float(v), 6) for v in ordered]


def _utility(evidence: Evidence) -> dict[str, Any]:
    """Accuracy and balanced accuracy on the test part, mean over models, beside the share of the commonest class.

    ``balanced_accuracy_low`` is a lower 97.5 % limit over test groups (normal, classes independent) and models; it and
    ``beats_guessing`` are None where images have several labels, since guessing has no such rate there.
    """
    test = evidence.items.split == "test"
    label, group = evidence.items.label[test].astype(str), evidence.items.group[test].astype(str)
    every = np.concatenate([evidence.correct_a, evidence.correct_b])[:, test].astype(np.float64)
    correct = every.mean(axis=0)
    classes, number = np.unique(label, return_inverse=True)
    means, variances = [], []
    for c in range(len(classes)):
        own = number == c
        unit = np.unique(group[own], return_inverse=True)[1]
        rates = np.bincount(unit, weights=correct[own]) / np.bincount(unit)
        means.append(float(correct[own].mean()))
        variances.append(float(rates.var(ddof=1) / len(rates)) if len(rates) > 1 else float("inf"))
    balanced = float(np.mean(means))
    of_model = np.mean([every[:, number == c].mean(axis=1) for c in range(len(classes))], axis=0)
    between = float(of_model.var(ddof=1) / len(of_model))  # models are units too, also where each tells its own noise
    several = len(set(evidence.items.image[test])) < len(label)
    spread = np.sqrt(sum(variances) / len(classes) ** 2 + between)
    low = None if several else balanced - float(stats.norm.ppf(0.975)) * spread
    return {
        "test_accuracy": float(correct.mean()),
        "test_balanced_accuracy": balanced,
        "balanced_accuracy_low": low,
        "chance": 1 / len(classes),
        "beats_guessing": None if low is None else bool(low > 1 / len(classes)),
        "majority_share": float(np.bincount(number).max() / len(label)),
        "n_classes": len(classes),
    }


def _headline_aucs(attacks: pd.DataFrame) -> dict[str, Any]:
    if attacks.empty:
        return {}
    every = attacks[attacks["label"] == "(all)"]
    return {
        str(r["attack"]): {"auc": r["auc"], "low": r["low"], "high": r["high"], "control": bool(r["control"])}
        for _, r in every.iterrows()
    }
