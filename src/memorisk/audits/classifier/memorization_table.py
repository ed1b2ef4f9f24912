"""Test one class at a time, and tabulate classes, groups and images (METHODS section 1, "Null and p-value").

A class has its memorization, null, list and mean. The null is not pooled over classes: a pooled null rejects 11 %
at nominal 5 % in rare classes and 4 % in common ones. Beside the tests stand numbers without a conclusion: the
table of the images, the counts of the audit, the models' accuracy.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import scipy

from memorisk.audits.classifier.evidence import WHOLE, Context, Evidence
from memorisk.audits.classifier.options import AnalysisOptions
from memorisk.scores.memorization import feldman_zhang, group_table, memorization
from memorisk.statistics.contrasts import unpaired_difference
from memorisk.statistics.copies.tails import CHANCE
from memorisk.statistics.intervals import Interval, jackknife_interval, these_groups_interval, two_way_interval
from memorisk.statistics.memorization.nulls import UnitPValues, sign_flip_p_values, unit_p_values
from memorisk.statistics.multiple_testing import FamilyLists, benjamini_hochberg, family_lists
from memorisk.statistics.verdicts.noticeable_gap import (
    MIN_ROOM,
    PASS_POWER,
    ClassList,
    class_list,
    noticeable_gap,
    power,
    seeds_needed,
    uneven_gaps,
)
from memorisk.statistics.verdicts.tiers import tier
from memorisk.statistics.verdicts.verdict import VERDICT_CORRECTION, VERDICT_LEVEL


@dataclass(frozen=True)
class ClassFindings:
    """The results of one class.

    Attributes:
        row: Row of ``per_class``.
        groups: Rows of ``per_group``.
        images: p-values of the scored images, by item index (descriptive where groups hold several images).
        table: [G, S] mean gap of each scored group in each seed, in nats, signed by membership; NaN where the group had
            no partner.
        unseen: [T, S] loss of model B less that of model A of each test group, likewise.
        floor: [G] smallest p-value that each group could have had; NaN without p-values.
        listing: Data of the class's list, at the verdict's level over one class; None without p-values.
    """

    row: dict[str, object]
    groups: pd.DataFrame
    images: dict[int, float]
    table: np.ndarray
    unseen: np.ndarray
    floor: np.ndarray
    listing: ClassList | None


def audit_class(evidence: Evidence, label: str, *, prerequisite_p: float, blocked: str | None) -> ClassFindings:
    """Score, test and summarise one class; its list is made with those of the other classes by ``list_groups``.

    Args:
        evidence: Score table of the audit, S seeds by I items.
        label: The class.
        prerequisite_p: p-value of the check that unseen canaries look like test images.
        blocked: Reason why no p-values may be given; None where they may.

    Returns:
        Mean, median and trimmed mean of the gaps with intervals, p-values and the data of the list; the columns that
        `list_groups` fills are absent.

    Source:
        METHODS section 1, "Null and p-value" and "Class summary".
    """
    items = evidence.items
    of_class = items.label == label
    sign, gap = evidence.sign, evidence.gap
    scored = np.flatnonzero(of_class & (items.split == "canary") & (sign != 0).any(axis=0))
    test = np.flatnonzero(of_class & (items.split == "test"))
    groups, unit = np.unique(items.group[scored].astype(str), return_inverse=True)
    test_groups, test_unit = np.unique(items.group[test].astype(str), return_inverse=True)
    table = group_table(gap[:, scored], sign[:, scored], items.group[scored].astype(str)).values
    unseen = group_table(gap[:, test], np.ones((len(gap), len(test))), items.group[test].astype(str)).values

    why_not = blocked or _untested_reason(len(scored), len(test))
    p = floor = np.full(len(groups), np.nan)
    image_p: dict[int, float] = {}
    listing = None
    if why_not is None:
        listing = _list_data(evidence, scored, test)
        null = _p_values(evidence, scored, unit, test, test_unit)
        p, floor = null.p_value, null.floor
        own = p[unit]  # of patients with one image each
        if len(groups) < len(scored) or len(test_groups) < len(test):
            own = _p_values(evidence, scored, np.arange(len(scored)), test, np.arange(len(test))).p_value
        image_p = dict(zip(scored.tolist(), own.tolist(), strict=True))

    m = memorization(gap[:, scored], sign[:, scored])
    row = {
        "label": label,
        "n": int(of_class.sum()),
        "frequency": float(of_class.sum() / len(set(items.image))),
        "n_groups": len(np.unique(items.group[of_class].astype(str))),
        "n_scored": len(scored),
        "n_groups_scored": len(groups),
        "n_test_groups": len(test_groups),
        **(summary := _summary(table)),
        **_excess(evidence, table, unseen, summary),
        "why_not": why_not or "",
        "prerequisite_p": prerequisite_p,
    }
    per_group = _group_rows(label, groups, unit, m, sign[:, scored]).assign(p_value=p)
    return ClassFindings(row, per_group, image_p, table, unseen, floor, listing)


def _list_data(evidence: Evidence, scored: np.ndarray, test: np.ndarray) -> ClassList:
    """Collect the data of a class's list; its level is divided among the classes later."""
    items, gap = evidence.items, evidence.gap
    groups = items.group[test].astype(str), evidence.sign[:, scored], items.group[scored].astype(str)
    if is_asymmetric(evidence):
        some = np.ones((1, len(scored)))
        mean = gap[:, test].mean(axis=0, keepdims=True)
        return class_list(mean, groups[0], some, groups[2], VERDICT_LEVEL, flip=False)
    return class_list(gap[:, test], *groups, VERDICT_LEVEL)


def is_asymmetric(evidence: Evidence) -> bool:
    """Say whether the roles of the two models are not symmetric, so that signs may not be flipped."""
    return evidence.design == "paper" and evidence.assigned is None


def _excess(evidence: Evidence, table: np.ndarray, unseen: np.ndarray, summary: dict[str, object]) -> dict[str, object]:
    """Compute the class mean less the mean gain of unseen images of the class, with its limits; the verdict reads it.

    Twins are symmetric, so that unseen images gain nothing on average. In the `paper` design the candidate is better by
    its larger training set, also on images that it never saw: the class's mean test gap is subtracted, seed by seed,
    and the test groups' own chance is added to the interval.
    """
    gained: dict[str, object] = {"test_mean": float(unseen.mean()) if unseen.size else float("nan")}
    if not is_asymmetric(evidence):
        return gained | {"excess": summary["mean"], "excess_low": summary["low"], "excess_high": summary["high"]}
    if not unseen.size or not len(table):
        return gained | dict.fromkeys(("excess", "excess_low", "excess_high"), float("nan"))
    drift = unseen.mean(axis=0)
    found = unpaired_difference(two_way_interval(table - drift), two_way_interval(unseen - drift))
    return gained | _columns(found, "excess", "excess_")


def list_groups(findings: list[ClassFindings], options: AnalysisOptions, *, seed: int) -> list[ClassFindings]:
    """Make the lists of all classes, at one level over the whole audit (``statistics.multiple_testing``).

    Two lists a class: the one that is shown, at the level and correction that were asked for, and the verdict's, at
    its own. By default they are the same.

    Args:
        findings: Results of all classes, from `audit_class`.
        options: Level and correction of the list that is shown, and the gap in nats that a pass must notice.
        seed: Random seed of the simulated patients behind the noticeable gap.

    Returns:
        The same with the columns of the lists, the noticeable gap and the adjusted p-values.
    """
    lists = _lists(findings, options.level, options.correction)
    fixed = _lists(findings, VERDICT_LEVEL, VERDICT_CORRECTION)
    n_classes = max(sum(f.listing is not None for f in findings), 1)
    listed = []
    for i, finding in enumerate(findings):
        shortest, n = lists.smallest_list[i], len(finding.groups)
        why_not = str(finding.row["why_not"])
        if not why_not and shortest is not None and shortest > n:
            why_not = (
                f"with so few models and test images no list is shorter than {shortest}, and the class has {n} scored"
            )
        row = finding.row | {
            "smallest_list": float("nan") if shortest is None else float(shortest),
            "list_level": float(lists.level[i]),
            "flagged": lists.rejections[i].n_rejected,
            "verdict_flagged": fixed.rejections[i].n_rejected,
            "testable": not why_not,
            "blocked": str(finding.row["why_not"]),
            "why_not": why_not,
            **_notice_columns(finding.listing, n_classes, options.notice, seed),
        }
        sizes = uneven_gaps(finding.table, finding.unseen, CHANCE / n_classes)
        uneven = sizes.uneven & ~fixed.rejections[i].rejected
        row |= {
            "uneven": int(uneven.sum()),
            "uneven_largest": float(sizes.size[uneven].max()) if uneven.any() else float("nan"),
            "unseen_largest": sizes.largest_unseen,
        }
        groups = finding.groups.assign(
            adjusted=benjamini_hochberg(finding.groups["p_value"], options.level).adjusted,
            flagged=lists.rejections[i].rejected,
            uneven=uneven,
        )
        listed.append(replace(finding, row=row, groups=groups))
    return listed


def _lists(findings: list[ClassFindings], level: float, correction: str) -> FamilyLists:
    p_values = [f.groups["p_value"].to_numpy(dtype=np.float64) for f in findings]
    return family_lists(p_values, [f.floor for f in findings], level, correction)


def _notice_columns(listing: ClassList | None, n_classes: int, notice: float, seed: int) -> dict[str, float]:
    """Compute the class's room and noticeable gap, and the number of models with which a pass is possible."""
    nan = float("nan")
    if listing is None:
        names = ("room", "noticeable_gap", "noticeable_power", "noticeable_low", "noticeable_high", "notice_power")
        return dict.fromkeys((*names, "models_needed"), nan)
    shared = replace(listing, level=VERDICT_LEVEL / n_classes)
    found = noticeable_gap(shared, seed=seed)
    asked = power(shared, notice, seed=seed) if found.room >= MIN_ROOM else nan
    seeds = None
    if not asked >= PASS_POWER:
        seeds = seeds_needed(shared, notice, seed=seed)
    return {
        "room": found.room,
        "noticeable_gap": found.gap,
        "noticeable_power": found.power,
        "noticeable_low": found.low,
        "noticeable_high": found.high,
        "notice_power": asked,
        "models_needed": nan if seeds is None else 2.0 * seeds,
    }


def _p_values(
    evidence: Evidence, scored: np.ndarray, unit: np.ndarray, test: np.ndarray, test_unit: np.ndarray
) -> UnitPValues:
    gap = evidence.gap
    if is_asymmetric(evidence):
        return unit_p_values(gap[:, scored].mean(axis=0), unit, gap[:, test].mean(axis=0), test_unit)
    return sign_flip_p_values(
        gap[:, scored], evidence.sign[:, scored], unit, gap[:, test], test_unit, ranking="studentized"
    )


def _untested_reason(n_scored: int, n_test: int) -> str | None:
    if not n_scored:
        return "no image of this class was scored"
    if not n_test:
        return "the test part holds no image of this class"
    return None


def _group_rows(label: str, groups: np.ndarray, unit: np.ndarray, m: np.ndarray, sign: np.ndarray) -> pd.DataFrame:
    counts = np.bincount(unit, minlength=len(groups))
    largest = np.full(len(groups), -np.inf)
    np.maximum.at(largest, unit, m)
    seeds = np.zeros(len(groups), dtype=np.int64)
    np.maximum.at(seeds, unit, (sign != 0).sum(axis=0))
    return pd.DataFrame(
        {
            "label": pd.Series([label] * len(groups), dtype=object),
            "group": groups.astype(object),
            "n_images": counts.astype(np.int64),
            "M": largest,
            "M_mean": np.bincount(unit, weights=m, minlength=len(groups)) / np.maximum(counts, 1),
            "n_seeds": seeds,
        }
    )


def _summary(table: np.ndarray) -> dict[str, object]:
    """Compute class mean, median and trimmed mean over groups, each with its interval, and the tier."""
    if not len(table):
        names = ["mean", "low", "high", "df", "median", "median_low", "median_high"]
        names += ["trimmed_mean", "trimmed_low", "trimmed_high"]
        return {"tier": "insufficient evidence", **dict.fromkeys(names, float("nan"))}
    mean = these_groups_interval(table)
    middle = jackknife_interval(table, "median")
    trimmed = jackknife_interval(table, "trimmed_mean")
    return {
        **_columns(mean, "mean", ""),
        "df": mean.df,
        **_columns(middle, "median", "median_"),
        **_columns(trimmed, "trimmed_mean", "trimmed_"),
        "tier": tier(mean.estimate, len(table)),
    }


def _columns(interval: Interval, name: str, prefix: str) -> dict[str, float]:
    return {name: interval.estimate, f"{prefix}low": interval.low, f"{prefix}high": interval.high}


NULL_SAMPLE = 4000  # values kept for the figure of members beside the null


def image_table(evidence: Evidence, findings: list[ClassFindings], per_group: pd.DataFrame) -> pd.DataFrame:
    """A row an item: its losses, M, p-value, whether its group is flagged, and Feldman-Zhang's memorization."""
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


def numbers_of(evidence: Evidence, context: Context) -> dict[str, Any]:
    """How many images, groups and models, and all that the context says of them."""
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
        "n_classes": len(set(items.label.tolist()) - {WHOLE}),
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


def null_sample(evidence: Evidence) -> dict[str, list[float]]:
    """Values for the figure: M of the scored canaries, and the mean gap of test images under random sign flips."""
    sign, items = evidence.sign, evidence.items
    m = memorization(evidence.gap, sign)
    test = evidence.gap[:, items.split == "test"]
    rng = np.random.default_rng([41, len(evidence.seeds)])
    flips = np.ones((1, len(test))) if evidence.design == "paper" else rng.choice([-1.0, 1.0], size=(64, len(test)))
    null = (flips @ test / len(test)).ravel()
    return {"members": _order_statistics(m[np.isfinite(m)]), "null": _order_statistics(null)}


def _order_statistics(values: np.ndarray) -> list[float]:
    """At most ``NULL_SAMPLE`` order statistics, evenly spaced."""
    ordered = np.sort(values)
    if len(ordered) > NULL_SAMPLE:
        ordered = ordered[np.linspace(0, len(ordered) - 1, NULL_SAMPLE).round().astype(int)]
    return [round(float(v), 6) for v in ordered]


def utility_on_test(evidence: Evidence) -> dict[str, Any]:
    """Accuracy and balanced accuracy on the test part, mean over models, beside the share of the commonest class.

    ``balanced_accuracy_low`` is a lower 97.5 % limit over test groups (normal, classes independent) and models; it and
    ``beats_guessing`` are None where images have several labels, since guessing has no such rate there. With rows of
    all findings together the models' loss is compared with that of naming each finding by its frequency
    (`_loss_beside_frequencies`); what is "balanced" over classes is None then.
    """
    if (evidence.items.label == WHOLE).any():
        return _loss_beside_frequencies(evidence)
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
    low = None if several else balanced - float(scipy.stats.norm.ppf(0.975)) * spread
    return {
        "test_accuracy": float(correct.mean()),
        "test_balanced_accuracy": balanced,
        "balanced_accuracy_low": low,
        "chance": 1 / len(classes),
        "beats_guessing": None if low is None else bool(low > 1 / len(classes)),
        "majority_share": float(np.bincount(number).max() / len(label)),
        "n_classes": len(classes),
    }


def utility_numbers(utility: dict[str, Any]) -> str:
    """How good the models are and how good guessing is, in numbers.

    Args:
        utility: From `utility_on_test`.
    """
    if utility.get("loss_test") is not None:
        return f"loss of all findings {utility['loss_test']:.2f} nats, by frequencies {utility['loss_guessing']:.2f}"
    return f"balanced accuracy {utility['test_balanced_accuracy']:.2f}, chance {utility['chance']:.2f}"


def _loss_beside_frequencies(evidence: Evidence) -> dict[str, Any]:
    """Loss of all findings of a test image, and of naming each finding by its frequency outside the test part.

    ``test_accuracy`` is the share of images of which all findings are right, ``majority_share`` that of the commonest
    set of findings.

    ``beats_guessing`` says whether the lower 97.5 % limit of the mean difference lies above 0: normal, over test groups
    (of unequal size: residuals added up within each) and models.
    """
    items = evidence.items
    whole, findings = items.label == WHOLE, sorted(set(items.label.tolist()) - {WHOLE})
    images, place = np.unique(items.image.astype(str), return_inverse=True)
    present = np.zeros((len(images), len(findings)), dtype=bool)
    number = {name: i for i, name in enumerate(findings)}
    present[place[~whole], [number[name] for name in items.label[~whole]]] = True
    test, other = whole & (items.split == "test"), whole & (items.split != "test")
    share = (present[place[other]].sum(axis=0) + 0.5) / (other.sum() + 1)  # Jeffreys: never 0, never 1
    guessed = -np.where(present[place[test]], np.log(share), np.log1p(-share)).sum(axis=1)
    gain = guessed - np.concatenate([evidence.loss_a, evidence.loss_b])[:, test]  # [K, J]
    each = gain.mean(axis=0)
    unit = np.unique(items.group[test].astype(str), return_inverse=True)[1]
    residual = np.bincount(unit, weights=each - each.mean())
    n_units = len(residual)
    over_groups = (residual**2).sum() / len(each) ** 2 * n_units / max(n_units - 1, 1)
    over_models = gain.mean(axis=1).var(ddof=1) / len(gain)
    low = float(each.mean() - scipy.stats.norm.ppf(0.975) * np.sqrt(over_groups + over_models)) if n_units > 1 else None
    right = np.concatenate([evidence.correct_a, evidence.correct_b])[:, test]
    _, counts = np.unique(present[place[test]], axis=0, return_counts=True)
    return {
        "test_accuracy": float(right.mean()),
        **dict.fromkeys(("test_balanced_accuracy", "balanced_accuracy_low", "chance")),
        "majority_share": float(counts.max() / test.sum()),
        "n_classes": len(findings),
        "loss_test": float((guessed - each).mean()),
        "loss_guessing": float(guessed.mean()),
        "beats_guessing": None if low is None else bool(low > 0),
    }
