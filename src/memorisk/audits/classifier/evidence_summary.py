"""What a score table holds, told without a conclusion: its images, its numbers, its models' accuracy."""

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from memorisk.audits.classifier.class_tests import ClassFindings
from memorisk.audits.classifier.context import Context
from memorisk.audits.classifier.evidence import WHOLE, Evidence
from memorisk.scores.attacks.differential import feldman_zhang, memorization

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
    return {"members": _thin(m[np.isfinite(m)]), "null": _thin(null)}


def _thin(values: np.ndarray) -> list[float]:
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


def beside_guessing(utility: dict[str, Any]) -> str:
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
    low = float(each.mean() - stats.norm.ppf(0.975) * np.sqrt(over_groups + over_models)) if n_units > 1 else None
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
