"""Control of the user's own training: does it learn from the images that it receives?

A function that reads images of its own makes models that remember no more of a member than of anyone else, and an audit
of them would pass whatever the released model remembers. One more model is therefore trained on altered images: a
classifier with exchanged labels, a generator on negatives. If the function ignores what it receives, this model is one
more of the audit's models, and its loss on unseen images, as they are, is not surely larger than theirs.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy

from memorisk.audits.classifier.evidence import Evidence
from memorisk.audits.classifier.planning.plan import Plan
from memorisk.audits.classifier.reasons import ImagesIgnored
from memorisk.audits.classifier.twins.trainings import Recipe, model_scores
from memorisk.statistics.intervals.means import prediction_error
from memorisk.statistics.verdicts.levels import IGNORED_LEVEL
from memorisk.statistics.verdicts.scales import CROSS_ENTROPY
from memorisk.statistics.verdicts.units import UnitNames
from memorisk.training.classifiers.jobs import TrainJob
from memorisk.training.engine.data import Targets


def control_jobs(pairs: Sequence[Sequence[TrainJob]], recipe: Recipe) -> list[TrainJob]:
    """Make the job of the control: the first training with exchanged labels; none where the training is built in.

    Args:
        pairs: Trainings of each seed.
        recipe: Recipe of the trainings.
    """
    if recipe.own is None:
        return []
    first = pairs[0][0]
    return [replace(first, targets=exchanged(recipe.targets, first.rows), keep_weights=False)]


def exchanged(targets: Targets, rows: np.ndarray) -> np.ndarray:
    """Exchange the labels of training images: each class becomes the next, each finding its absence.

    Validation images keep their labels, so that a function which ignores the training images chooses as ever.

    Args:
        targets: Targets of all images.
        rows: Rows of the training images.

    Example:
        >>> exchanged(Targets("single", ("a", "b", "c"), np.array([0, 1, 2])), np.array([0, 2])).tolist()
        [1, 1, 0]
    """
    values = targets.values.copy()
    own = values[rows]
    values[rows] = 1 - own if targets.head in ("binary", "multi") else (own + 1) % len(targets.classes)
    return values


def classifier_control(jobs: Sequence[TrainJob], evidence: Evidence, plan: Plan, recipe: Recipe) -> list[ImagesIgnored]:
    """Judge the control of a classifier by its loss on test images with their true labels.

    Args:
        jobs: Job of the control, done; empty without one.
        evidence: Losses of the models of the audit.
        plan: Parts and scored items.
        recipe: Recipe of the trainings.

    Raises:
        MemoriskError: The file of the control is damaged.
    """
    unseen = evidence.items.split == "test"
    losses = np.stack([loss[:, unseen].mean(axis=1) for loss in (evidence.loss_a, evidence.loss_b)])
    return [
        reason
        for job in jobs
        for reason in ignored_images(float(model_scores(job, plan, recipe)["loss"][unseen].mean()), losses)
    ]


def ignored_images(control: float, losses: np.ndarray, scale: str = CROSS_ENTROPY.name) -> list[ImagesIgnored]:
    """Doubt that a function uses its images, unless the control's loss is surely larger than that of one more model.

    ``t = (log c - mean log l) / error`` has Student's distribution where the function ignores its images, with error
    and degrees of freedom of `prediction_error`; the doubt is raised unless its upper tail is at most `IGNORED_LEVEL`.
    Logarithms, since losses vary by factors.

    Args:
        control: Mean loss of the control on unseen images.
        losses: Mean losses of the models on the same images, [2, S].
        scale: Name of the scale of the losses.

    Returns:
        The doubt, or nothing.

    Example:
        >>> losses = np.array([[0.31, 0.3, 0.33], [0.32, 0.29, 0.3]])
        >>> ignored_images(2.4, losses), len(ignored_images(0.32, losses))
        ([], 1)
    """
    least = np.finfo(np.float64).tiny
    value, logs = np.log(max(control, least)), np.log(np.maximum(losses, least))
    error, freedom = prediction_error(logs)
    difference = float(value - logs.mean())
    p = float(scipy.stats.t.sf(difference / error, freedom)) if error > 0 else float(difference <= 0)
    if p <= IGNORED_LEVEL:
        return []
    return [ImagesIgnored(control_loss=control, model_loss=float(losses.mean()), p=p, units=UnitNames(scale=scale))]
