"""Held-out accuracy against always answering the commonest class (METHODS section 1, "Defence").

An accuracy means little without its majority: paper 000's 71.1 % for DP-LoRA at epsilon 1 compares with a
majority of 66.9 %, and its 98.8 % looks like an accuracy on members. Both are measured here on the same unseen
images, so that their difference is paired.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from memorisk.runs.errors import InputError
from memorisk.statistics.quality.figures import FloatArray


@dataclass(frozen=True)
class Share:
    """Share with its interval over groups and models."""

    value: float
    """Estimate of the share."""
    low: float
    """Lower limit; NaN with fewer than two groups."""
    high: float
    """Upper limit; NaN with fewer than two groups."""


@dataclass(frozen=True)
class Utility:
    """Accuracy of models on images that they did not see."""

    accuracy: Share
    """Share of images answered right."""
    balanced: Share
    """Mean over classes of the share answered right."""
    gain: Share
    """Accuracy less that of always answering the majority class, on the same images."""
    majority: float
    """Accuracy of always answering the majority class."""
    n_images: int
    """Number of images."""
    n_groups: int
    """Number of groups (patients): independent units."""
    n_models: int
    """Number of models: independent units; with one model the intervals are conditional on this training."""

    @property
    def beats_majority(self) -> bool:
        """Return whether the whole interval of the gain is above 0."""
        return bool(self.gain.low > 0)


def against_majority(
    correct: ArrayLike,
    label: ArrayLike,
    group: ArrayLike,
    majority: str,
    *,
    draws: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> Utility:
    """Compute accuracy, balanced accuracy and the gain over the majority class, with intervals over groups and models.

    A draw takes groups with replacement, and models with replacement where there are several; the interval is that of
    the draws' percentiles. The majority's answers are drawn with the images they belong to (paired). For the balanced
    accuracy groups are drawn within the class that most of their images have, so that no class is missing in a draw.

    Args:
        correct: Whether each model answered each held-out image right, [M, n] or [n].
        label: Class of each image, [n].
        group: Patient of each image, [n].
        majority: Class that is always answered: the commonest of the *training* images.
        draws: Number of bootstrap draws.
        level: Coverage of the intervals.
        seed: Seed of the draws.

    Raises:
        InputError: Lengths differ or the images are missing.
    """
    right = np.atleast_2d(np.asarray(correct, dtype=np.float64))
    classes, number = np.unique(np.asarray(label).astype(str), return_inverse=True)
    units = np.unique(np.asarray(group).astype(str), return_inverse=True)[1]
    if right.shape[1] == 0 or len(number) != right.shape[1] or len(units) != right.shape[1]:
        raise InputError(
            f"{right.shape[1]} answers, {len(number)} labels and {len(units)} groups must be as many, not 0"
        )
    n_groups, n_models = int(units.max()) + 1, len(right)
    constant = (classes[number] == str(majority)).astype(np.float64)
    # per group: images of each class, and right answers of each model and of the constant one
    count = np.zeros((n_groups, len(classes)))
    np.add.at(count, (units, number), 1.0)
    hits = np.zeros((n_models + 1, n_groups, len(classes)))
    for row, answers in enumerate((*right, constant)):
        np.add.at(hits[row], (units, number), answers)
    point = _shares(count.sum(axis=0), hits[:-1].mean(axis=0).sum(axis=0), hits[-1].sum(axis=0))
    drawn = np.full((3, draws), np.nan)
    if n_groups > 1:
        rng = np.random.default_rng(seed)
        strata = [np.flatnonzero(count.argmax(axis=1) == c) for c in range(len(classes))]
        for i in range(draws):
            weight = np.bincount(rng.integers(0, n_groups, n_groups), minlength=n_groups).astype(np.float64)
            within = [stratum[rng.integers(0, len(stratum), len(stratum))] for stratum in strata if len(stratum)]
            even = np.bincount(np.concatenate(within), minlength=n_groups).astype(np.float64)
            model = np.bincount(rng.integers(0, n_models, n_models), minlength=n_models) / n_models
            model_hits = np.tensordot(model, hits[:-1], axes=1)
            accuracy, _, gain = _shares(weight @ count, weight @ model_hits, weight @ hits[-1])
            drawn[:, i] = accuracy, _shares(even @ count, even @ model_hits, even @ hits[-1])[1], gain
    limits = np.nanquantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=1) if n_groups > 1 else drawn[:, :2].T
    shares = [Share(float(v), float(a), float(b)) for v, a, b in zip(point, *limits, strict=True)]
    return Utility(
        *shares,
        majority=float(constant.mean()),
        n_images=right.shape[1],
        n_groups=n_groups,
        n_models=n_models,
    )


def _shares(count: FloatArray, hits: FloatArray, constant: FloatArray) -> tuple[float, float, float]:
    """Compute accuracy, balanced accuracy over the classes that are there, and the gain, from sums per class."""
    accuracy = hits.sum() / count.sum()
    present = count > 0
    return accuracy, float((hits[present] / count[present]).mean()), accuracy - constant.sum() / count.sum()
