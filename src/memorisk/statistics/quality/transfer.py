"""Transfer: what a classifier learns from synthetic images, compared with one that saw real ones.

Both are tested on the same held-out patients, after the same number of trainings each. Balanced accuracy is the
mean over classes of the share answered right; AUC the mean over classes of one against the rest.

    v = v_patients + v_trainings

with the jackknife over patients of the mean over trainings, and the variance over trainings of its mean, each arm's
own (their seeds have nothing in common). The noise of finite test sets is in both parts, so that the interval is a
little too wide. With one training each it speaks of these two networks only.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from memorisk.runs.errors import InputError
from memorisk.statistics.quality.figures import Codes, FloatArray

Measure = Callable[[FloatArray, Codes], float]


@dataclass(frozen=True)
class TransferFigure:
    """One measure of one kind of training, or the difference of two kinds."""

    estimate: float
    """Mean over trainings; NaN where a class has no test images."""
    low: float
    """Lower limit; NaN where neither patients nor trainings change the figure."""
    high: float
    """Upper limit of the figure."""
    n_patients: int
    """Number of test patients that were left out in turn."""
    n_trainings: int
    """Number of trainings of each arm."""
    level: float
    """Nominal coverage of the interval."""


@dataclass(frozen=True)
class Transfer:
    """One measure of both arms and its difference."""

    synthetic: TransferFigure
    """Figure of training on synthetic images."""
    real: TransferFigure
    """Figure of training on real images."""
    difference: TransferFigure
    """Difference of the first less the second, paired over patients."""


def balanced_accuracy(scores: FloatArray, label: Codes) -> float:
    """Compute balanced accuracy: the share of images whose largest score is their label's, averaged over classes.

    Args:
        scores: Scores of the images, [n, k], one of each class.
        label: Number of each image's class, [n].

    Example:
        >>> balanced_accuracy(np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), np.array([0, 1, 1]))
        0.75
    """
    right = scores.argmax(axis=1) == label
    return float(np.mean([right[label == c].mean() for c in np.unique(label)]))


def mean_auc(scores: FloatArray, label: Codes) -> float:
    """Average over the classes that are there the AUC of their score against all other images.

    Args:
        scores: Scores of the images, [n, k], one of each class.
        label: Number of each image's class, [n].

    Example:
        >>> round(mean_auc(np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), np.array([0, 1, 1])), 3)
        1.0
    """
    aucs = []
    for c in np.unique(label):
        positive = label == c
        n, m = int(positive.sum()), int((~positive).sum())
        if m:
            ranks = scipy.stats.rankdata(scores[:, c])
            aucs.append((ranks[positive].sum() - n * (n + 1) / 2) / (n * m))
    return float(np.mean(aucs)) if aucs else math.nan


def compare_training(
    synthetic: ArrayLike,
    real: ArrayLike,
    label: ArrayLike,
    patient: ArrayLike,
    measure: Measure,
    *,
    level: float = 0.95,
) -> Transfer:
    """Compute one measure of classifiers trained on synthetic and on real images, and its difference.

    Args:
        synthetic: Scores of the test images by the S classifiers trained on synthetic images, [S, n, k].
        real: Scores by those trained on real images, [S, n, k].
        label: Number of each image's class, [n].
        patient: Patient of each test image, [n].
        measure: Measure to compute, `balanced_accuracy` or `mean_auc`.
        level: Coverage of the intervals.

    Raises:
        InputError: Shapes do not fit, or level outside (0, 1).
    """
    synthetic_scores, real_scores = np.asarray(synthetic, dtype=np.float64), np.asarray(real, dtype=np.float64)
    classes, units = np.asarray(label, dtype=np.int64), np.unique(np.asarray(patient), return_inverse=True)[1]
    if (
        synthetic_scores.ndim != 3
        or synthetic_scores.shape != real_scores.shape
        or synthetic_scores.shape[1] != len(classes)
        or len(units) != len(classes)
    ):
        raise InputError(
            f"scores {synthetic_scores.shape} and {real_scores.shape} of {len(classes)} labels do not fit: "
            "give [S, n, k]"
        )
    if not 0 < level < 1:
        raise InputError(f"level is {level}; give a coverage between 0 and 1, such as 0.95")
    values = [np.array([measure(scores, classes) for scores in arm]) for arm in (synthetic_scores, real_scores)]
    deleted = [_without(arm, classes, units, measure) for arm in (synthetic_scores, real_scores)]
    each = [
        _figure(float(v.mean()), d, _of_trainings(v), len(v), level, 0.0) for v, d in zip(values, deleted, strict=True)
    ]
    difference = _figure(
        float(values[0].mean() - values[1].mean()),
        deleted[0] - deleted[1],
        _of_trainings(values[0]) + _of_trainings(values[1]),
        len(values[0]),
        level,
        -1.0,
    )
    return Transfer(each[0], each[1], difference)


def _without(scores: FloatArray, label: Codes, units: Codes, measure: Measure) -> FloatArray:
    """Average over trainings without each patient, [G].

    A patient who alone has a class stays, or the measure would change.
    """
    means = []
    for unit in range(int(units.max()) + 1):
        others = units != unit
        if len(np.unique(label[others])) == len(np.unique(label)):
            means.append(np.mean([measure(one[others], label[others]) for one in scores]))
    return np.array(means)


def _of_trainings(values: FloatArray) -> float:
    return float(values.var(ddof=1) / len(values)) if len(values) > 1 else 0.0


def _figure(
    estimate: float, deleted: FloatArray, trainings: float, n_trainings: int, level: float, least: float
) -> TransferFigure:
    """Compute limits by t, with Satterthwaite's degrees of freedom, between the least value and 1."""
    g = len(deleted)
    patients = (g - 1) / g * float(np.square(deleted - deleted.mean()).sum()) if g > 1 else 0.0
    total = patients + trainings
    if g < 2 or math.isnan(estimate) or total < 1e-24:
        return TransferFigure(estimate, math.nan, math.nan, g, n_trainings, level)
    spread = patients**2 / (g - 1) + (trainings**2 / (n_trainings - 1) if n_trainings > 1 else 0.0)
    half = float(scipy.stats.t.ppf((1 + level) / 2, max(total**2 / spread, 1.0))) * math.sqrt(total)
    return TransferFigure(estimate, max(estimate - half, least), min(estimate + half, 1.0), g, n_trainings, level)
