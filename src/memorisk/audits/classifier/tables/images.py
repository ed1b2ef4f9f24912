"""The table of the images of an audit, and numbers without a test: images, models, members and the null."""

import numpy as np
import pandas as pd

from memorisk.audits.classifier.evidence import WHOLE, Context, Evidence
from memorisk.audits.classifier.result import ImageCounts, ModelsTrained, NullSample
from memorisk.audits.classifier.tables.classes import ClassFindings
from memorisk.scores.memorization import feldman_zhang, memorization
from memorisk.statistics.verdicts.scales import CROSS_ENTROPY, LossScale

NULL_SAMPLE = 4000  # values kept for the figure of members against the null


def image_table(
    evidence: Evidence, findings: list[ClassFindings], per_group: pd.DataFrame, scale: LossScale = CROSS_ENTROPY
) -> pd.DataFrame:
    """Return a row for each item: losses, M, p-value, whether its group is flagged.

    Of models that answer, it holds Feldman-Zhang's memorization, too.

    Args:
        evidence: Score table of S twin pairs by I items.
        findings: Results of the classes, with the p-values of images.
        per_group: Rows of groups by class.
        scale: Scale of the losses.
    """
    items, sign = evidence.items, evidence.sign
    m = memorization(evidence.gap, sign)
    member_loss = np.where(sign > 0, evidence.loss_a, np.where(sign < 0, evidence.loss_b, np.nan))
    outsider_loss = np.where(sign > 0, evidence.loss_b, np.where(sign < 0, evidence.loss_a, np.nan))
    p = np.full(len(items), np.nan)
    for finding in findings:
        for index, value in finding.images.items():
            p[index] = value
    flagged = set(map(tuple, per_group.loc[per_group["flagged"], ["label", "group"]].to_numpy()))
    scored = np.isfinite(m)
    table = pd.DataFrame(
        {
            "image": items.image,
            "label": items.label,
            "group": items.group,
            "split": items.split,
            "M": m,
            "p_value": p,
            "flagged": [pair in flagged for pair in zip(items.label, items.group, strict=True)] & scored,
            "n_seeds": (sign != 0).sum(axis=0),
            "loss_unseen": _mean(outsider_loss),
            "loss_seen": _mean(member_loss),
        }
    )
    if not scale.of_answers:
        return table
    fz = feldman_zhang(
        np.concatenate([evidence.correct_a, evidence.correct_b]),
        np.concatenate([evidence.member_a, evidence.member_b]),
    )
    return table.assign(
        fz_memorization=np.where(scored, fz.memorization, np.nan),
        fz_standard_error=np.where(scored, fz.standard_error, np.nan),
    )


def _mean(values: np.ndarray) -> np.ndarray:
    """Average what is there over seeds, [I]; NaN where nothing is."""
    there = np.isfinite(values)
    total = np.where(there, values, 0.0).sum(axis=0)
    return np.where(there.any(axis=0), total / np.maximum(there.sum(axis=0), 1), np.nan)


def count_images(evidence: Evidence, context: Context) -> ImageCounts:
    """Count images, groups and classes, scored and left out."""
    items = evidence.items
    images, first = np.unique(items.image.astype(str), return_index=True)
    count = {name: int((items.split[first] == name).sum()) for name in ("train", "canary", "test")}
    return ImageCounts(
        n_images=context.n_images if context.n_images is not None else len(images),
        n_groups=len(np.unique(items.group[first].astype(str))),
        n_classes=len(set(items.label.tolist()) - {WHOLE}),
        n_train=count["train"],
        n_canary=count["canary"],
        n_test=count["test"],
        n_validation=context.n_validation,
        n_skipped=context.n_skipped,
        n_missing=context.n_missing,
        n_not_sampled=context.n_not_sampled,
    )


def describe_models(evidence: Evidence, context: Context) -> ModelsTrained:
    """Count the models, and say how they were trained; members are counted by item."""
    members = [int(m.sum()) for m in (*evidence.member_a, *evidence.member_b)]
    return ModelsTrained(
        n_models=2 * len(evidence.seeds),
        images_each=round(float(np.mean(members)), 1),
        seeds=tuple(evidence.seeds.tolist()),
        model=context.model,
        n_parameters=context.n_parameters,
        pixels=context.pixels,
        training=context.training,
        device=context.device,
    )


def null_sample(evidence: Evidence) -> NullSample:
    """Return the figure's values: M of scored canaries, and the mean gap of test images under random sign flips."""
    sign, items = evidence.sign, evidence.items
    m = memorization(evidence.gap, sign)
    test = evidence.gap[:, items.split == "test"]
    rng = np.random.default_rng([41, len(evidence.seeds)])
    flips = np.ones((1, len(test))) if evidence.design == "paper" else rng.choice([-1.0, 1.0], size=(64, len(test)))
    null = (flips @ test / len(test)).ravel()
    return NullSample(members=_order_statistics(m[np.isfinite(m)]), null=_order_statistics(null))


def _order_statistics(values: np.ndarray) -> tuple[float, ...]:
    """Return at most ``NULL_SAMPLE`` order statistics, evenly spaced."""
    ordered = np.sort(values)
    if len(ordered) > NULL_SAMPLE:
        ordered = ordered[np.linspace(0, len(ordered) - 1, NULL_SAMPLE).round().astype(int)]
    return tuple(round(float(v), 6) for v in ordered)
